"""State that a process keeps of a resource between reconciliations: pace, ages, and what saves a reading.

Made and used by `reconcile/controller.py`. All of it may be lost at any moment: the next reconciliation reads what it
needs, and what this process measures itself (`Ages`, such as the time for which a node is stable) begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from kafkafeatures.api.document import read_document
from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.api.status import Status
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.connections import OpenCluster
from kafkafeatures.reconcile.credentials import bootstrap_of
from kafkafeatures.reconcile.kubernetes_store import LastStatus
from kafkafeatures.reconcile.pace import Pace
from kafkafeatures.reconcile.pods import Pods


class Until(Struct, frozen=True):
    """A state that is valid for one resourceVersion, until a time in seconds of the monotonic clock."""

    version: str
    until: float

    def holds(self, version: str, monotonic_time: float) -> bool:
        """Tell whether it is valid for this version at this time."""
        return self.version == version and monotonic_time < self.until


class Settlement(Until, frozen=True):
    """A resource at rest: in sync, or its change was rejected. Until this ends, only a change in the metadata log or of
    the pods can end the rest, so only these are read.

    applies: the mode is Apply, so the resource claims its cluster.
    check_every: seconds between reconciliations.
    status: the last status.
    cluster, pods: open cluster and pods to compare; `pods` is None where the driver reads none.
    """

    applies: bool
    check_every: float
    status: Status
    cluster: OpenCluster
    pods: Pods | None


@dataclass(slots=True)
class ProcessCache:
    """State of a resource that is kept between reconciliations.

    own_versions: resourceVersions that the last reconciliation wrote.
    settlement: set while the resource is at rest.
    next_due: until then no reconciliation is due.
    unkept: generation, and a status of which the API server dropped a part. While the generation is the same, a dry
        run shows first whether the server now keeps that status.
    logged: generation and message that were logged last.
    document: the parsed document.
    last: the status that was read or written last.
    """

    pace: Pace
    ages: Ages
    own_versions: set[str] = field(default_factory=set)
    settlement: Settlement | None = None
    next_due: Until | None = None
    unkept: tuple[int, Status] | None = None
    logged: tuple[int, str] = (0, "")
    document: KafkaFeatures | None = None
    last: LastStatus = field(default_factory=LastStatus)

    def document_of(self, resource: Mapping[str, Any]) -> KafkaFeatures:
        """The parsed document, with its bootstrap addresses checked; parsed anew only where its spec changed. Raises
        InvalidDocument.
        """
        if self.document is None or self.document.raw_spec != resource.get("spec"):
            document = read_document(resource)
            bootstrap_of(document.spec.cluster)  # before any Secret is read
            self.document = document
        return self.document
