"""A round of the comparison of ZooKeeper with the metadata log: takes znodes as they are read, and keeps the
differences.

Pure. Called by `zookeeper/compare.py` and by the simulator. As both sides change meanwhile, the caller makes several
rounds, and decides by them which differences last. Of znodes that are equal only the paths are kept, as ZooKeeper may
have a hundred thousand znodes.

Differences are kept by *unit*: a topic with all its partitions, or any other znode, by its path. In the next round a
unit is read again as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.copied.configs import OF_BROKERS, OF_TOPICS, usual_path
from kafkafeatures.core.migration.copied.entries import Entries, EntryKey, Kind, Placed, Value, are_the_same, shown
from kafkafeatures.core.migration.copied.expected import Expected
from kafkafeatures.core.migration.copied.findings import ZnodeFinding
from kafkafeatures.core.migration.copied.rights import ROOTS
from kafkafeatures.core.migration.copied.tokens_and_producer_ids import PRODUCER_IDS, TOKENS
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
    """Receiver of znodes (`Sink` in `survey.py`) for one round.

    expected: entries by the metadata log.
    only: paths of the units that are read; None: all.
    differing: differences by unit.
    omitted: number of further differences, which are counted but not kept.
    failures: znodes that could not be read.
    """

    def __init__(self, expected: Expected, only: frozenset[str] | None = None) -> None:
        self._expected, self._only = expected, only
        self._taken: set[str] = set()  # units of which a znode was read
        self._open: dict[str, tuple[Mapping[int, Placed], set[int]]] = {}  # topics, until all their states were read
        self._paths: dict[str, str] = {}  # path of each unit that is not where Kafka 3.9 writes it
        self._kept = 0
        self.differing: dict[str, list[EntryDifference]] = {}
        self.omitted = 0
        self.failures: list[Failure] = []

    def topic(self, name: str, topic: Topic | ZnodeFinding | None) -> None:
        unit = topic_path(name)
        self._taken.add(unit)
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
        if topic.name not in self._open:  # the log has no such topic, which is a difference of its own
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
        self._taken.add(unit)
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
        """End the round: expected topics and znodes that were not read count as absent from ZooKeeper."""
        if self._only is not None:
            return
        for name in self._expected.names:
            if topic_path(name) not in self._taken:
                self.topic(name, None)
        for path in self._expected.paths:
            if path not in self._taken:
                self.entries(path, {})

    def moved_in(self, later: Expected) -> frozenset[str]:
        """Paths of the units that differ, but whose entries in the metadata log have changed since: a later round
        judges them.
        """
        return frozenset(unit for unit in self.differing if self._expected.unit(unit) != later.unit(unit))

    def paths_of(self, units: Iterable[str]) -> frozenset[str]:
        """Paths at which these units are read again."""
        return frozenset(self._paths.get(unit, unit) for unit in units)

    def differences(self, excluded: Iterable[str] = ()) -> tuple[EntryDifference, ...]:
        """The differences that were kept, sorted, without those of the units in `excluded`."""
        left_out = frozenset(excluded)
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
            self.omitted += 1


def _partition(topic: str, number: int) -> EntryKey:
    return EntryKey(Kind.PARTITION, f"{topic}-{number}")
