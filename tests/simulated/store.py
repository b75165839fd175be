"""What an API server in memory keeps: objects with their versions, and what watches show of them, as etcd does.

Called by `kubernetes.py`, which knows what requests mean. Here nothing is judged.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from kafkafeatures.api.names import PLURAL
from tests.simulated.objects import (
    PATH,
    Json,
    collection_of,
    copied,
    is_in,
)
from tests.simulated.requests import Request

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Event:
    revision: int
    kind: str
    path: str
    object: Json


class Store:
    """Objects by the path of a request for them. What is stored is replaced, never changed.

    `listener` hears of every version of a KafkaFeatures, and who made it.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: START) -> None:
        self.now = now
        self.listener: Callable[[Json, str], None] = lambda event, manager: None
        self._objects: dict[str, Json] = {}
        self._versions: dict[str, list[tuple[int, Json | None]]] = {}
        self._events: list[_Event] = []
        self._revision = 1
        self._compacted = 1
        self._uids = 0

    @property
    def revision(self) -> int:
        """The revision of the last write."""
        return self._revision

    def store(self, path: str, made: Json) -> None:
        """Any object, new or in place of the one that was there; `path` as in a request for it."""
        self._store(path, copied(made), "MODIFIED")

    def remove(self, path: str) -> None:
        """An object that is there."""
        self._remove(path, copied(self._objects[path]))

    def read(self, path: str) -> Json | None:
        """A copy of any object as it is now; None where there is none."""
        found = self._objects.get(path)
        return None if found is None else copied(found)

    def there(self, collection: str) -> list[str]:
        """Paths of the objects in a collection."""
        return sorted(path for path in self._objects if path.rpartition("/")[0] == collection)

    def new_uid(self) -> str:
        """A uid that no object had before."""
        return self._uid()

    def events(self, namespace: str | None = None) -> list[Json]:
        """The Events that were posted, oldest first."""
        where = "/apis/events.k8s.io/" if namespace is None else f"/apis/events.k8s.io/v1/namespaces/{namespace}/"
        return [one for path, one in self._objects.items() if path.startswith(where)]

    def watch(self, namespace: str = "", since: int | None = None) -> Watch:
        """A watch of KafkaFeatures, from now on or from a revision."""
        return Watch(self, namespace, self._revision if since is None else since)

    def compact(self) -> None:
        """Drop what was before now: watches and pages that want it get 410."""
        self._compacted = self._revision

    def restore(self, revision: int) -> None:
        """etcd as it was then; what came after has never been, and its numbers are given again."""
        self._objects = dict(self._at(revision))
        self._versions = {
            path: [one for one in versions if one[0] <= revision] for path, versions in self._versions.items()
        }
        self._events = [one for one in self._events if one.revision <= revision]
        self._revision = self._compacted = revision

    def since(self, revision: int, namespace: str = "") -> Iterator[Json]:
        """What happened to KafkaFeatures after that, as a watch shows it. Raises Expired."""
        if revision < self._compacted:
            raise Expired
        parts = PATH.fullmatch(collection_of(namespace))
        first = bisect.bisect_right(self._events, revision, key=lambda event: event.revision)
        for event in self._events[first:]:
            if parts is not None and is_in(event.path, parts):
                yield {"type": event.kind, "object": event.object}

    def _store(self, path: str, made: Json, kind: str, request: Request | None = None) -> None:
        self._revision += 1
        made["metadata"]["resourceVersion"] = str(self._revision)
        self._objects[path] = made
        self._versions.setdefault(path, []).append((self._revision, made))
        self._happened(_Event(self._revision, kind, path, made), request)

    def _remove(self, path: str, last: Json) -> None:
        self._revision += 1
        last["metadata"]["resourceVersion"] = str(self._revision)
        del self._objects[path]
        self._versions[path].append((self._revision, None))
        self._happened(_Event(self._revision, "DELETED", path, last), None)

    def _happened(self, event: _Event, request: Request | None) -> None:
        self._events.append(event)
        if f"/{PLURAL}/" in event.path:
            by = request.query.get("fieldManager", "unknown") if request else "unknown"
            self.listener({"type": event.kind, "object": event.object}, by)

    def _at(self, revision: int) -> Mapping[str, Json]:
        if revision >= self._revision:
            return self._objects
        found = {}
        for path, versions in self._versions.items():
            at = bisect.bisect_right(versions, revision, key=lambda version: version[0])
            there = versions[at - 1][1] if at else None
            if there is not None:
                found[path] = there
        return found

    def _stamp(self) -> str:
        return self.now().astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"

    def _uid(self) -> str:
        self._uids += 1
        return str(UUID(int=self._uids, version=4))


class Expired(Exception):
    """410: the server has forgotten what was asked for."""


class Watch:
    """Events not taken yet. A test, or a simulation's lot, decides when they come, and which never do."""

    def __init__(self, store: Store, namespace: str, since: int) -> None:
        self._store, self._namespace, self._since = store, namespace, since

    def take(self) -> list[Json]:
        """All there are now. Raises Expired, after which one lists anew."""
        events = list(self._store.since(self._since, self._namespace))
        self._since = max([self._since, *(int(one["object"]["metadata"]["resourceVersion"]) for one in events)])
        return events
