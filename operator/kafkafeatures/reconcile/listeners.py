"""Who hears of reconciliations: metrics, and the recorder of metadata logs. Called by `reconcile/controller.py`."""

from __future__ import annotations

from typing import Protocol

from kafkafeatures.api.status import Status
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.reconcile.connections import OpenCluster


class ReconciliationListener(Protocol):
    """Hears of every reconciliation: metrics."""

    def passed(self, key: ResourceKey, result: str, seconds: float, status: Status) -> None:
        """One is over. `result`: success, requeued or failed."""

    def suspended(self, key: ResourceKey, holds: bool) -> None:
        """Note whether the resource is suspended, wherever it may have changed."""

    def forgot(self, key: ResourceKey) -> None:
        """The resource is gone."""


class RecorderPort(Protocol):
    """Records the metadata logs that are followed: see `kafka/recorder/recorder.py`."""

    def saw(self, resource: ResourceKey, cluster: OpenCluster, status: Status) -> None:
        """A look at its cluster is over, of which this is the status. Returns at once."""

    def forgot(self, resource: ResourceKey) -> None:
        """Called when the resource is gone."""


class _NotRecorded:
    """Records no metadata log."""

    def saw(self, resource: ResourceKey, cluster: OpenCluster, status: Status) -> None: ...

    def forgot(self, resource: ResourceKey) -> None: ...


NOT_RECORDED = _NotRecorded()
