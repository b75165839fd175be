"""Facts of one history of a migration, from its simulated cluster; they complete those of `records.py`.

Nothing here is what the operator believes. `at`: virtual seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.reliability.records import Copies

PRE_MIGRATION, MIGRATION, FINALIZED = 2, 1, 3
"""ZkMigrationState, as of Kafka 3.9."""


class Mode(StrEnum):
    """The mode of a broker's process."""

    GONE = ""
    PLAIN = "plain"
    FLAGGED = "flagged"
    KRAFT = "kraft"


@dataclass(frozen=True, slots=True)
class Truth:
    """What is so. state: in the metadata log; None while no controller leads. leader: -1 for none. claim: the node that
    `/controller` names, and is_kraft: of a quorum. offset: of `/migration`; None where that is absent. controllers:
    whether each runs with the flag; None where it does not run. copies: of each partition, by whatever decides.
    voters: those that run and have caught up. registered: seconds at which the last broker registered in KRaft mode;
    None where the log does not say. is_hidden: no operator reaches a controller.
    """

    state: int | None
    leader: int
    claim: int | None
    is_kraft: bool
    offset: int | None
    brokers: Mapping[int, Mode]
    controllers: Mapping[int, bool | None]
    copies: Mapping[str, Copies]
    topics: tuple[str, ...]
    voters: frozenset[int]
    registered: float | None = None
    is_hidden: bool = False

    @property
    def is_dual_write(self) -> bool:
        """Tell whether all brokers run in KRaft mode and ZooKeeper is still written to."""
        flags = set(self.controllers.values()) - {None}
        return self.state == MIGRATION and set(self.brokers.values()) == {Mode.KRAFT} and flags == {True}

    @property
    def is_in_zookeeper(self) -> bool:
        """Tell whether no migration was begun, or nothing is left of one."""
        runs = any(one is not None for one in self.controllers.values())
        plain = set(self.brokers.values()) == {Mode.PLAIN}
        return not runs and plain and self.offset is None and self.claim is not None and not self.is_kraft

    @property
    def is_open(self) -> bool:
        """Tell whether a migration is under way, in either direction."""
        if self.state == FINALIZED:  # what it had claimed in ZooKeeper stays there
            return Mode.FLAGGED in self.brokers.values()
        return self.state in (PRE_MIGRATION, MIGRATION) or self.is_kraft or Mode.FLAGGED in self.brokers.values()


@dataclass(frozen=True, slots=True)
class Seen:
    """An operator reads for a resource: begins, or has just done so (`over`)."""

    at: float
    process: str
    uid: str
    truth: Truth
    over: bool


@dataclass(frozen=True, slots=True)
class Weighed:
    """ZooKeeper was compared with the metadata log: what differed before and after that, each by its path."""

    at: float
    process: str
    uid: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def differed(self) -> frozenset[str]:
        """The differences that were there all the time."""
        return frozenset(self.before) & frozenset(self.after)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The transaction of an operator was carried out. kept: what stood in `/migration`."""

    at: float
    process: str
    uid: str
    paths: tuple[str, ...]
    kept: str
    truth: Truth
    logged: bool


@dataclass(frozen=True, slots=True)
class Strayed:
    """A transaction of an operator was carried out in the ensemble of another cluster."""

    at: float
    process: str
    uid: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Over:
    """A controller without the flag ended the migration."""

    at: float
    truth: Truth


@dataclass(frozen=True, slots=True)
class Released:
    """What stands in ZooKeeper is what counts again: `epoch` of `/controller_epoch`, `highest` of a partition."""

    at: float
    epoch: int
    highest: int


@dataclass(frozen=True, slots=True)
class Made:
    """A person made a topic."""

    at: float
    topic: str


@dataclass(frozen=True, slots=True)
class Aimed:
    """Faults stop here, and the document asks for this. over: enough time is gone."""

    at: float
    uid: str
    desired: str
    truth: Truth
    over: bool
