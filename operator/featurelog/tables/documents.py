"""KafkaFeatures documents with their status: which changes the operator made, and which levels are wanted.

A log names no principal and no wanted level. A change that a document's history has is the operator's; any other is
unattributed. The documents are given to the tables as parsed values; nothing here reads a file.
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

BEFORE_MS, AFTER_MS = 10 * 60 * 1000, 60 * 1000
"""An act is written down once it was read back, and the clocks of operator and controller differ."""

_DONE = (Result.APPLIED.value, Result.CORRECTED.value)


@dataclass(frozen=True, slots=True)
class Resource:
    """One document. name: namespace/name. desired: None where it cannot be understood, and why is in `problem`."""

    name: str
    cluster_id: str
    desired: DesiredState | None
    problem: str
    changes: tuple[tuple[UpdateFeature, int], ...]
    """What its history says that the operator changed, and when that was read back, in ms."""


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents that were given; no document at all is not the same as none that names a cluster."""

    resources: tuple[Resource, ...] = ()
    by_cluster: Mapping[str, tuple[Resource, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, documents: Iterable[object]) -> Documents:
        """Sorts parsed documents by cluster id. A document that cannot be understood is kept with its problem."""
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
                if -AFTER_MS <= done_ms - at_ms <= BEFORE_MS:
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
