"""The type `History`: levels, nodes and the migration of a cluster over time, and doubts about them.

`walk` makes a `History` of the rows of the log, and the tables are made of it. It has no records of partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from featurelog.tables.inputs import ClusterCopies
from featurelog.tables.merged_log import Merged
from featurelog.tables.tracks import Evidence, Track
from kraftlog.image import BrokerRegistration, ControllerRegistration

BROKER, CONTROLLER = "broker", "controller"

NodeKey = tuple[str, int]
"""(role, id)"""


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered node.

    registration: as kraftlog's image has it. by: the record with which the node registered.
    fenced_since: when the node was fenced, in ms; from a snapshot the latest possible time; None: it is not fenced.
    """

    registration: BrokerRegistration | ControllerRegistration
    by: Evidence = field(compare=False)
    fenced_since: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Migration:
    """State of a migration from ZooKeeper.

    code: the number in the record. zk_brokers: ids of brokers that are registered in ZooKeeper mode in this state.
    metadata_version: the level when this state began; None: not known.
    """

    code: int
    zk_brokers: tuple[int, ...]
    metadata_version: int | None = field(compare=False)


class Doubt(NamedTuple):
    """Reason why the state at the end of the log is not certain. kind: one of those in `data_quality`, or a similar
    word.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A row for the table `data_quality`, whose columns have the same names (`ts` is `at_ms`)."""

    kind: str
    text: str
    node: str | None = None
    file: str | None = None
    offset: int | None = None
    end_offset: int | None = None
    at_ms: int | None = None
    count: int = 1
    position: int | None = None
    bytes: int | None = None


@dataclass(slots=True)
class History:
    """Contents of the log of one cluster.

    levels: finalized levels by feature. nodes: registrations by `NodeKey`. migration: its states.
    min_insync: values of min.insync.replicas that requests set for brokers; keys as of `min_insync.value_of`.
    voters: of the quorum at the end; None: not known. voter_sets: each set of voters, with the offset of its record.
    doubts: reasons why the state at the end is not certain. notes: rows for `data_quality`.
    base: the offset from which the state is known without a gap; None: there is none.
    end, end_ms: end offset of the log that was read, exclusive, and time of its last record.
    committed_below: records below this offset are surely committed.
    """

    cluster: ClusterCopies
    log: Merged
    levels: Track[int] = field(default_factory=Track)
    nodes: Track[Registered] = field(default_factory=Track)
    migration: Track[Migration] = field(default_factory=Track)
    min_insync: Track[str] = field(default_factory=Track)
    voters: frozenset[int] | None = None
    voter_sets: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    base: int | None = None
    end: int = 0
    end_ms: int | None = None
    committed_below: int = 0

    def voters_from(self, offset: int) -> frozenset[int] | None:
        """Ids of all nodes that were voters at this offset or later; None if the voters are not known."""
        if self.voters is None:
            return None
        at_offset = [voters for since, voters in self.voter_sets if since < offset][-1:]
        return self.voters.union(*at_offset, *(voters for since, voters in self.voter_sets if since >= offset))
