"""One round of a comparison: takes znodes as they are read, and keeps what the metadata log says otherwise.

Pure. Called by `zookeeper/compare.py`, which decides by several rounds what of it counts. It holds what differs, and
of the rest only which znodes it has seen: ZooKeeper may have a hundred thousand.

What differs is kept by *unit*: a topic with all its partitions, or any other znode, by its path. A unit is read again
as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.copied.configs import OF_BROKERS, OF_TOPICS, usual_path
from kafkafeatures.core.migration.copied.entries import Entries, EntryKey, Kind, Placed, Value, are_the_same, shown
from kafkafeatures.core.migration.copied.expected import Expected
from kafkafeatures.core.migration.copied.findings import ZnodeFinding
from kafkafeatures.core.migration.copied.others import PRODUCER_IDS, TOKENS
from kafkafeatures.core.migration.copied.rights import ROOTS
from kafkafeatures.core.migration.copied.topics import State, Topic, placed, state_path, topic_path
from kafkafeatures.core.migration.equality import MOST_KEPT, EntryDifference

_KINDS = {
    **dict.fromkeys(ROOTS, Kind.RIGHT),
    OF_TOPICS: Kind.TOPIC_CONFIG,
    OF_BROKERS: Kind.BROKER_CONFIG,
    TOKENS: Kind.TOKEN,
    PRODUCER_IDS: Kind.PRODUCER_ID,
}
"""Kind of the entries in a znode that cannot be read; any other has quotas."""


class Comparison:
    """A `Sink` of one round. `only`: the units that are read; None: all that there are.

    differing: by unit. more: differences that were not kept. failures: znodes that could not be read.
    """

    def __init__(self, expected: Expected, only: frozenset[str] | None = None) -> None:
        self._expected, self._only = expected, only
        self._seen: set[str] = set()
        self._open: dict[str, tuple[Mapping[int, Placed], set[int]]] = {}  # topics of which states are still to come
        self._paths: dict[str, str] = {}  # of units that lie at another path than they would be written to
        self._kept = 0
        self.differing: dict[str, list[EntryDifference]] = {}
        self.more = 0
        self.failures: list[Failure] = []

    def topic(self, name: str, topic: Topic | ZnodeFinding | None) -> None:
        unit = topic_path(name)
        self._seen.add(unit)
        key = EntryKey(Kind.TOPIC, name)
        if isinstance(topic, ZnodeFinding):
            self._unreadable(unit, key, topic)
            return
        self._judge(unit, unit, key, topic.id if topic is not None else None, self._expected.topic(name))
        if topic is None or self._expected.topic(name) is None:
            return
        expected = self._expected.partitions(name)
        for number in sorted(expected.keys() - topic.partitions.keys()):
            key = _partition(name, number)
            self._judge(unit, state_path(name, number), key, None, expected[number])
        if topic.partitions:
            self._open[name] = expected, set(topic.partitions)

    def partition(self, topic: Topic, number: int, znode_state: State | ZnodeFinding) -> None:
        if topic.name not in self._open:  # the log has no such topic, which is said already
            return
        expected, remaining = self._open[topic.name]
        unit, key = topic_path(topic.name), _partition(topic.name, number)
        if isinstance(znode_state, ZnodeFinding):
            self._unreadable(unit, key, znode_state)
        else:
            placement = placed(topic.partitions[number], znode_state)
            self._judge(unit, state_path(topic.name, number), key, placement, expected.get(number))
        remaining.discard(number)
        if not remaining:
            del self._open[topic.name]

    def entries(self, path: str, entries: Entries | ZnodeFinding) -> None:
        unit = usual_path(path)
        self._seen.add(unit)
        if unit != path:
            self._paths[unit] = path
        if isinstance(entries, ZnodeFinding):
            kind = next((kind for root, kind in _KINDS.items() if path.startswith(root)), Kind.QUOTA)
            self._unreadable(unit, EntryKey(kind, path), entries)
            return
        expected = self._expected.entries(unit)
        if (
            not expected
            and path.startswith(f"{OF_TOPICS}/")
            and self._expected.topic(path.rsplit("/", maxsplit=1)[-1]) is None
        ):
            return  # configs of a deleted topic, which a controller of Kafka 3.9 may write again; nothing reads them
        for key in (*entries, *(expected.keys() - entries.keys())):
            self._judge(unit, path, key, entries.get(key), expected.get(key))

    def remark(self, finding: ZnodeFinding) -> None:
        """Ignore a finding, which is no matter of equality."""

    def unread(self, failure: Failure) -> None:
        self.failures.append(failure)

    def finish(self) -> None:
        """All was read: what ZooKeeper should have, and was not seen there, is absent."""
        if self._only is not None:
            return
        for name in self._expected.names:
            if topic_path(name) not in self._seen:
                self.topic(name, None)
        for path in self._expected.paths:
            if path not in self._seen:
                self.entries(path, {})

    def moved_in(self, later: Expected) -> frozenset[str]:
        """The units that differ, and of which the log itself says something else by now."""
        return frozenset(unit for unit in self.differing if self._expected.unit(unit) != later.unit(unit))

    def paths_of(self, units: Iterable[str]) -> frozenset[str]:
        """Paths at which these are read again."""
        return frozenset(self._paths.get(unit, unit) for unit in units)

    def differences(self, but: Iterable[str] = ()) -> tuple[EntryDifference, ...]:
        """The differences that are kept, in order, without those of these units."""
        left_out = frozenset(but)
        return tuple(
            sorted(
                difference
                for unit, differences in self.differing.items()
                if unit not in left_out
                for difference in differences
            )
        )

    def _judge(self, unit: str, path: str, key: EntryKey, in_zookeeper: Value | None, in_log: Value | None) -> None:
        if not are_the_same(in_zookeeper, in_log):
            self._keep(unit, EntryDifference(key.kind, key.name, path, shown(in_zookeeper), shown(in_log)))

    def _unreadable(self, unit: str, key: EntryKey, finding: ZnodeFinding) -> None:
        self._keep(unit, EntryDifference(key.kind, key.name, finding.path, f"the znode {finding.problem}", ""))

    def _keep(self, unit: str, difference: EntryDifference) -> None:
        of_unit = self.differing.setdefault(unit, [])
        if self._kept < MOST_KEPT:
            self._kept += 1
            of_unit.append(difference)
        else:
            self.more += 1


def _partition(topic: str, number: int) -> EntryKey:
    return EntryKey(Kind.PARTITION, f"{topic}-{number}")
