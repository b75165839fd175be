"""What the controller keeps of a resource from one reconciliation to the next: pace, ages and what spares a reading.

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
    """Something that holds of one version of a resource, and until when."""

    version: str
    until: float

    def holds(self, version: str, monotonic_time: float) -> bool:
        """Tell whether it is this version, and not over yet."""
        return self.version == version and monotonic_time < self.until


class Settlement(Until, frozen=True):
    """Found in sync, or a change rejected: until then only the log of the cluster, and its pods, may say otherwise.

    `applies`: it speaks for its cluster, as long as no older one may own that.
    """

    applies: bool
    check_every: float
    status: Status
    cluster: OpenCluster
    pods: Pods | None


@dataclass(slots=True)
class ProcessCache:
    """State of a resource that is kept from one reconciliation to the next.

    `own_versions`: versions that the last one made. `next_due`: until then no other one is due. `unkept`: a status that
    the API server did not keep as a whole, and of which generation: the same is tried first, until the document is
    another one and so may be its status. `last`: the status that was read or written last.
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
        """The document as types, with addresses that are some; read anew only where its spec is another one. Raises
        InvalidDocument.
        """
        if self.document is None or self.document.raw_spec != resource.get("spec"):
            document = read_document(resource)
            bootstrap_of(document.spec.cluster)  # before any Secret is asked for
            self.document = document
        return self.document
