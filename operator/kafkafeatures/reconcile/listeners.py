"""Listeners of reconciliations: metrics, the recorder of metadata logs, and the notifier.

Called by `reconcile/controller.py`.
"""

from __future__ import annotations

from typing import Protocol

from kafkafeatures.api.since_status import NotifiedStatus
from kafkafeatures.api.status import Status
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.reconcile.connections import OpenCluster


class ReconciliationListener(Protocol):
    """Listener of reconciliations, for metrics."""

    def reconciled(self, key: ResourceKey, result: str, seconds: float, status: Status) -> None:
        """A reconciliation has ended. `result`: success, requeued or failed."""

    def suspended(self, key: ResourceKey, holds: bool) -> None:
        """Called when the resource may have been suspended or resumed. `holds`: it is suspended now."""

    def forgot(self, key: ResourceKey) -> None:
        """The resource was deleted."""


class RecorderPort(Protocol):
    """Recorder of the metadata logs that are followed: see `kafka/recorder/recorder.py`."""

    def saw(self, resource: ResourceKey, cluster: OpenCluster, status: Status) -> None:
        """A reconciliation has ended with this status, with an open cluster. Returns at once."""

    def forgot(self, resource: ResourceKey) -> None:
        """The resource was deleted."""


class NotifierPort(Protocol):
    """Notifier of people: see `notify/notifier.py`."""

    def tell(self, resource: ResourceKey, uid: str, status: Status) -> tuple[NotifiedStatus, ...]:
        """A reconciliation ends with this status. Returns the value of its field `notified`, at once."""

    def is_unnoted(self, resource: ResourceKey) -> bool:
        """Tell whether a delivery is to be noted in the status."""

    def forgot(self, resource: ResourceKey) -> None:
        """The resource was deleted."""


class _NotRecorded:
    """Records no metadata log."""

    def saw(self, resource: ResourceKey, cluster: OpenCluster, status: Status) -> None: ...

    def forgot(self, resource: ResourceKey) -> None: ...


class _NotNotified:
    """Sends no notifications."""

    def tell(self, resource: ResourceKey, uid: str, status: Status) -> tuple[NotifiedStatus, ...]:
        return status.notified

    def is_unnoted(self, resource: ResourceKey) -> bool:
        return False

    def forgot(self, resource: ResourceKey) -> None: ...


NOT_RECORDED = _NotRecorded()
NOT_NOTIFIED = _NotNotified()
