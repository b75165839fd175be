"""KafkaFeatures documents with their status: which changes the operator made, and which levels are desired.

A log names neither a principal nor a desired level. A change is attributed to the operator if the history of a document
has it; all others are unattributed. Documents come as parsed values; nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from featurelog.tables.inputs import ClusterCopies
from kafkafeatures.api.document import InvalidDocument, read_document
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import HistoryEntry, Result, read_status
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.resolve import wanted_of

UNATTRIBUTED = "Unattributed"

ENTRY_LATER_MS, ENTRY_EARLIER_MS = 10 * 60 * 1000, 60 * 1000
"""Most milliseconds by which a history entry may be later, or earlier, than the record of its change: the operator
writes the entry once it has read the level back, and its clock may differ from the controller's."""

_DONE = (Result.APPLIED.value, Result.CORRECTED.value)


@dataclass(frozen=True, slots=True)
class Resource:
    """A document. name: namespace/name. cluster_id: in its status, else in its spec; empty: none. desired: the desired
    state; None: the document is invalid. problem: reason why it is invalid. changes: see below.
    """

    name: str
    cluster_id: str
    desired: DesiredState | None
    problem: str
    changes: tuple[tuple[UpdateFeature, int], ...]
    """The changes in its history, each with the time in ms at which the operator read the new level back."""


@dataclass(frozen=True, slots=True)
class Documents:
    """All documents. resources: all of them, also invalid ones. by_cluster: those with a cluster id, by that id."""

    resources: tuple[Resource, ...] = ()
    by_cluster: Mapping[str, tuple[Resource, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, documents: Iterable[object]) -> Documents:
        """Group parsed documents by cluster id. A document that cannot be understood is kept with its problem."""
        resources = sorted((_resource(document) for document in documents), key=lambda document: document.name)
        by_cluster: dict[str, tuple[Resource, ...]] = {}
        for resource in resources:
            if resource.cluster_id:
                by_cluster[resource.cluster_id] = (*by_cluster.get(resource.cluster_id, ()), resource)
        return cls(tuple(resources), by_cluster)

    def of_cluster(self, cluster: ClusterCopies) -> tuple[Resource, ...]:
        """The documents that name this cluster by its id: a name alone may be any cluster's."""
        return self.by_cluster.get(cluster.cluster_id, ()) if cluster.cluster_id else ()

    def attribution(
        self, cluster: ClusterCopies, feature: str, old_level: int | None, new_level: int, at_ms: int
    ) -> str:
        """The resource whose history has this change, or UNATTRIBUTED. old_level None: not known."""
        for resource in self.of_cluster(cluster):
            for change, done_ms in resource.changes:
                if change.feature != feature or change.to_level != new_level:
                    continue
                if old_level not in (None, change.from_level):
                    continue
                if -ENTRY_EARLIER_MS <= done_ms - at_ms <= ENTRY_LATER_MS:
                    return resource.name
        return UNATTRIBUTED


NO_DOCUMENTS = Documents()


def _resource(document: object) -> Resource:
    body: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = f"{metadata.get('namespace') or 'default'}/{metadata.get('name') or '?'}"
    raw = body.get("status")
    status, _ = read_status(raw if isinstance(raw, Mapping) else {})
    desired, problem = None, ""
    try:
        desired = wanted_of(read_document(document))
    except InvalidDocument as error:
        problem = str(error).splitlines()[0]
    cluster_id = desired.cluster_id if desired else ""
    return Resource(name, status.cluster_id or cluster_id, desired, problem, tuple(_changes(status.history)))


def _changes(history: Iterable[HistoryEntry]) -> Iterable[tuple[UpdateFeature, int]]:
    for entry in history:
        change = UpdateFeature.from_history(entry.action)
        if change is not None and entry.result in _DONE and change.feature == entry.target:
            yield change, _ms(entry.at)


def _ms(stamp: Stamp) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)
