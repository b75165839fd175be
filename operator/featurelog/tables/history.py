"""The log of a cluster as far as it is here: each state with its period, and what is in doubt.

The tables are made of a `History`, which `walk` makes of the rows. Records of partitions are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from featurelog.tables.inputs import ClusterCopies
from featurelog.tables.merging import Merged
from featurelog.tables.tracks import Evidence, Track
from kraftlog.image import BrokerRegistration, ControllerRegistration

BROKER, CONTROLLER = "broker", "controller"

NodeKey = tuple[str, int]
"""(role, id)"""


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered node. registration: of kraftlog's image. by: the record with which it registered. fenced_since: when
    it was fenced, if it is; of a snapshot the latest time that it can have been.
    """

    registration: BrokerRegistration | ControllerRegistration
    by: Evidence = field(compare=False)
    fenced_since: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Migration:
    """State of a migration. code: the raw one. zk_brokers: registered in ZooKeeper mode, while it lasts.
    metadata_version: as it was when that began.
    """

    code: int
    zk_brokers: tuple[int, ...]
    metadata_version: int | None = field(compare=False)


class Doubt(NamedTuple):
    """Reason why the state is not sure. kind: of `data_quality`."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something for `data_quality`: where, and how often."""

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
    """Contents of the log of one cluster. voters: of the quorum, None where nothing says; voter_sets: since which
    offset. base: the offset from which the state is known without a hole, None where it is not. end, end_ms: of what
    was read. committed_below: see `table.SPAN`. min_insync: what requests set of it for brokers, as of
    `min_insync.value_of`.
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
        """Everybody who voted at this offset or behind it; None where who votes is not known."""
        if self.voters is None:
            return None
        at_offset = [voters for since, voters in self.voter_sets if since < offset][-1:]
        return self.voters.union(*at_offset, *(voters for since, voters in self.voter_sets if since >= offset))
