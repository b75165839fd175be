"""State that the controller keeps of a resource between reconciliations: pace, ages, and what saves a reading.

Never facts about the cluster: all of it may be lost at any moment, and the next reconciliation reads what it needs.
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
    """A state that is valid for one version of a resource, until a time."""

    version: str
    until: float

    def holds(self, version: str, monotonic_time: float) -> bool:
        """Tell whether it is valid for this version at this time."""
        return self.version == version and monotonic_time < self.until


class Settlement(Until, frozen=True):
    """A resource at rest: in sync, or its change rejected. Until it ends, only the metadata log or the pods can change
    that.

    applies: mode Apply: the resource claims its cluster.
    check_every: seconds between reconciliations.
    status: the last status. cluster, pods: what to watch; `pods` None where the driver reads none.
    """

    applies: bool
    check_every: float
    status: Status
    cluster: OpenCluster
    pods: Pods | None


@dataclass(slots=True)
class ProcessCache:
    """State of a resource that is kept between reconciliations.

    own_versions: resource versions that the last reconciliation wrote.
    settlement: set while the resource is at rest.
    next_due: until then no reconciliation is due.
    unkept: generation, and a status of which the API server dropped a part. While the generation is the same, this
    status is written first.
    logged: generation and message that were logged last.
    document: the parsed document. last: the status that was read or written last.
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
