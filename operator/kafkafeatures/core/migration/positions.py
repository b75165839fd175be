"""Positions of a cluster between ZooKeeper and KRaft. The cluster is always at one, derived from the metadata log, the
znodes and the nodes together, and never from a status.

Pure. On real nodes, each of the three alone was misleading: the log says that a migration is under way while the driver
of the controllers is idle, `/migration` survives a rollback, a flag is in a file that no process has read. So a
position is a row of `ROWS` that all of them fit; if they fit no row, no position is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct, field

from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NO_ANSWER, Failure, FailureKind, Role, majority_of
from kafkafeatures.core.facts.znodes import ZooKeeperReading, of_another_cluster
from kafkafeatures.core.words import counted
from kraftlog.image import ZkMigrationState


class Position(StrEnum):
    """Positions in the order of the way forward; the last two are on the way back only."""

    ZOOKEEPER = "ZooKeeper"  # no controllers of a quorum
    PRE_MIGRATION = "PreMigration"  # a quorum waits; no broker knows of it
    FLAGGING = "Flagging"  # brokers get the flag, and register with the quorum
    COPYING = "Copying"  # the quorum has taken over, and copies
    COPIED = "Copied"  # copied; some brokers are in ZooKeeper mode, and changes are written to both sides
    DUAL_WRITE = "DualWrite"  # all brokers are in KRaft mode; changes are still written to ZooKeeper
    FINALIZING = "Finalizing"  # controllers lose the flag, one by one, as they were asked to; or one of them has led
    FINALIZED = "Finalized"  # KRaft, irreversibly
    NO_CONTROLLER = "NoController"  # the quorum is gone, and its claim still stands in ZooKeeper
    RELEASED = "Released"  # a broker is controller again; some have the flag


class BrokerMode(StrEnum):
    """Mode in which a process of a broker runs."""

    PLAIN = "ZooKeeper"
    FLAGGED = "Flagged"  # in ZooKeeper mode, with zookeeper.metadata.migration.enable
    KRAFT = "KRaft"


class ClaimKind(StrEnum):
    """Kind of node that `/controller` names."""

    NONE = "none"
    BROKER = "a broker in ZooKeeper mode"
    LEADER = "the active controller, at its epoch"
    KRAFT = "a controller of a quorum"  # which leads no longer, or at another epoch


class MigrationEvidence(Struct, frozen=True):
    """Facts that a position is derived from.

    state: state in the metadata log, read after the znodes; None: no controller answers.
    claim: node that `/controller` names.
    offset: offset in `/migration`; -1 also if the znode is absent.
    brokers: mode of each broker, by id; None: it does not answer.
    controllers: whether each controller has the flag, by id; None: it does not answer.
    has_progress: `/migration` exists.
    absent: brokers that have replicas and are registered neither in ZooKeeper nor with the quorum, so that the mode of
        their next process is not known; None: not known whether there are any.
    unlisted: brokers that do not answer, and follow the quorum without being registered with it.
    registered: for nodes that do not answer, the mode or flag of the process that registered last. It tells where the
        cluster is, not how these nodes start again.
    """

    state: ZkMigrationState | None
    claim: ClaimKind
    offset: int
    brokers: Mapping[int, BrokerMode | None] = field(default_factory=dict)
    controllers: Mapping[int, bool | None] = field(default_factory=dict)
    has_progress: bool = False
    absent: tuple[int, ...] | None = ()
    unlisted: tuple[int, ...] = ()
    registered: Mapping[int, BrokerMode | bool] = field(default_factory=dict)

    @property
    def unflagged(self) -> tuple[int, ...]:
        """Controllers that certainly run without the flag."""
        return tuple(id_ for id_, flag in self.controllers.items() if flag is False)

    @property
    def silent(self) -> tuple[int, ...]:
        """Nodes whose mode or flag is not known."""
        return tuple(id_ for id_, it in (*self.brokers.items(), *self.controllers.items()) if it is None)

    @property
    def as_registered(self) -> MigrationEvidence:
        """This evidence, with the registered mode or flag of each node that does not answer."""
        modes = {
            id_: _mode_registered(self.registered.get(id_)) if it is None else it for id_, it in self.brokers.items()
        }
        flags = {
            id_: _flag_registered(self.registered.get(id_)) if it is None else it
            for id_, it in self.controllers.items()
        }
        return msgspec.structs.replace(self, brokers=modes, controllers=flags)

    def __str__(self) -> str:
        modes = [broker for broker in self.brokers.values() if broker is not None]
        brokers = ", ".join(f"{modes.count(mode)} {mode}" for mode in BrokerMode if mode in modes) or "none answers"
        flagged = sum(controller is True for controller in self.controllers.values())
        state = self.state.name if self.state is not None else "not readable"
        return (
            f"metadata log {state}; /controller names {self.claim}; /migration at offset {self.offset}; "
            f"brokers: {brokers}; {counted(flagged, 'controller')} of {len(self.controllers)} with the flag"
        )


def _mode_registered(it: BrokerMode | bool | None) -> BrokerMode | None:
    return it if isinstance(it, BrokerMode) else None


def _flag_registered(it: BrokerMode | bool | None) -> bool | None:
    return it if isinstance(it, bool) else None


class Misplaced(Struct, frozen=True):
    """No position fits, with the reason and the remedy.

    message, remedy: texts for people.
    subject: the nodes, or the znode, that it is about.
    may_pass: it may end by itself within a minute, such as while a leader is elected.
    at_first: message for that minute; empty: `message`.
    silent: nodes that do not answer, if their mode or flag is all that is missing.
    """

    message: str
    remedy: str
    subject: str
    may_pass: bool = False
    at_first: str = ""
    silent: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}"


FLAG = "zookeeper.metadata.migration.enable"
S = ZkMigrationState
PLAIN, FLAGGED, KRAFT = BrokerMode.PLAIN, BrokerMode.FLAGGED, BrokerMode.KRAFT


class PositionRow(Struct, frozen=True):
    """Facts that hold in a position.

    position: the position.
    state: possible states of the metadata log.
    claim: possible kinds of node in `/controller`.
    copied: whether `/migration` says that ZooKeeper was copied; None: it does not matter.
    modes: modes that brokers may have.
    some: modes of which at least one broker must have one.
    flags: whether all, some but not all, or no controllers have the flag; None: it does not matter.
    """

    position: Position
    state: tuple[ZkMigrationState | None, ...]
    claim: tuple[ClaimKind, ...]
    copied: bool | None
    modes: tuple[BrokerMode, ...]
    some: tuple[BrokerMode, ...]
    flags: tuple[bool, ...] | None = None

    def fits(self, evidence: MigrationEvidence) -> bool:
        """Tell whether the evidence fits this position. A node that does not answer fits if any of its possible modes
        would.
        """
        if evidence.state not in self.state or evidence.claim not in self.claim:
            return False
        if self.copied is not None and self.copied is not (evidence.offset > 0):
            return False
        modes = evidence.brokers.values()
        if any(mode is not None and mode not in self.modes for mode in modes):
            return False
        if not any(mode is None or mode in self.some for mode in modes):
            return False
        return self.flags is None or _flags_fit(evidence.controllers.values(), self.flags)


ALL, SOME, NO = (True,), (True, False), (False,)


def _flags_fit(seen_flags: Iterable[bool | None], required: tuple[bool, ...]) -> bool:
    """Tell whether flags are as required. `ALL`: each controller has the flag; `NO`: none has; `SOME`: some have, some
    have not.
    """
    flags = set(seen_flags)
    if None in flags:
        return (flags - {None}) <= set(required)
    return flags == set(required)


ROWS = (
    PositionRow(Position.ZOOKEEPER, (None,), (ClaimKind.BROKER,), False, (PLAIN,), (PLAIN,)),
    PositionRow(Position.PRE_MIGRATION, (S.PRE_MIGRATION,), (ClaimKind.BROKER,), False, (PLAIN,), (PLAIN,), ALL),
    PositionRow(Position.FLAGGING, (S.PRE_MIGRATION,), (ClaimKind.BROKER,), False, (PLAIN, FLAGGED), (FLAGGED,), ALL),
    PositionRow(Position.COPYING, (S.PRE_MIGRATION,), (ClaimKind.LEADER,), False, (FLAGGED,), (FLAGGED,), ALL),
    PositionRow(Position.COPIED, (S.MIGRATION,), (ClaimKind.LEADER,), True, (FLAGGED, KRAFT), (FLAGGED,), ALL),
    PositionRow(Position.DUAL_WRITE, (S.MIGRATION,), (ClaimKind.LEADER,), True, (KRAFT,), (KRAFT,)),
    PositionRow(Position.FINALIZING, (S.POST_MIGRATION,), tuple(ClaimKind), None, (KRAFT,), (KRAFT,), SOME),
    PositionRow(Position.FINALIZED, (S.POST_MIGRATION,), tuple(ClaimKind), None, (KRAFT,), (KRAFT,), NO),
    PositionRow(Position.NO_CONTROLLER, (None,), (ClaimKind.KRAFT,), None, (PLAIN, FLAGGED), (FLAGGED,)),
    PositionRow(
        Position.NO_CONTROLLER, (None,), (ClaimKind.KRAFT,), True, (PLAIN,), (PLAIN,)
    ),  # /controller alone proves nothing
    PositionRow(Position.RELEASED, (None,), (ClaimKind.BROKER,), False, (PLAIN, FLAGGED), (FLAGGED,)),
)
"""Facts that hold in each position: exactly one position fits a cluster that is somewhere."""


# --- what was read ---


def facts_of(
    observation: Observation,
    zookeeper_reading: ZooKeeperReading,
    assigned: frozenset[int] | None = None,
    *,
    goes_back: bool = False,
) -> MigrationEvidence | Failure:
    """Evidence of an observation that was made after the znodes were read; a Failure names what is missing.

    assigned: brokers that have replicas; None: not known.
    goes_back: the document asks for RolledBack.
    """
    claim, migration, cluster_id = zookeeper_reading.controller, zookeeper_reading.migration, observation.cluster_id
    if (
        isinstance(cluster_id, Known)
        and (other := of_another_cluster(zookeeper_reading.cluster_id, zookeeper_reading.ensemble, cluster_id.value))
        is not None
    ):
        return other
    if isinstance(claim, Failure):
        return claim
    if isinstance(migration, Failure):
        return migration
    controllers = [node for node in observation.nodes if Role.CONTROLLER in node.roles]
    answers = any(isinstance(node.answer, Known) for node in controllers)
    state: ZkMigrationState | None = None
    if observation.source.kind is SourceKind.METADATA_LOG and isinstance(observation.zk_migration_state, Known):
        state = ZkMigrationState.of(code := observation.zk_migration_state.value)
        if state is None:
            return Failure(FailureKind.UNSUPPORTED, "metadata log", f"its migration state {code} is not known")
    elif answers:
        reading = observation.zk_migration_state
        failure = (
            Failure(FailureKind.NOT_ASKED, "metadata log", "it was not read")
            if isinstance(reading, Known)
            else reading.failure
        )
        return _without_majority(controllers, goes_back) or failure
    elif isinstance(observation.cluster_id, Unknown) and observation.cluster_id.failure.kind is FailureKind.NOT_ASKED:
        return observation.cluster_id.failure  # a controller runs, and does not say which one it is
    brokers = {node.id: _mode(node) for node in observation.nodes if Role.BROKER in node.roles}
    refused = {node.id for node in observation.nodes if node.state is NodeState.REFUSED}
    return MigrationEvidence(
        state,
        _claim(claim, observation),
        migration.offset if migration is not None else -1,
        brokers,
        {node.id: flag_of(node) for node in controllers} if state is not None else {},
        migration is not None,
        None if assigned is None else tuple(sorted(assigned - brokers.keys())),
        tuple(id_ for id_, mode in brokers.items() if mode is None and id_ in refused),
        dict(_registered(observation)),
    )


def _registered(observation: Observation) -> Iterator[tuple[int, BrokerMode | bool]]:
    """Registrations in the metadata log, of nodes that do not answer."""
    for node in observation.nodes:
        if isinstance(node.answer, Known) or node.state is NodeState.REFUSED:
            continue
        if Role.BROKER in node.registered:
            yield node.id, FLAGGED if node.migrating_from_zookeeper else KRAFT
        elif node.registered_flag is not None:
            yield node.id, node.registered_flag


def _without_majority(controllers: Sequence[Node], goes_back: bool) -> Failure | None:
    """Failure that fewer controllers run than can elect a leader, so that the state does not change: such as when a
    person was asked to stop all, and one was started again.
    """
    running = [node.id for node in controllers if isinstance(node.answer, Known)]
    away = [node.answer.failure.kind in NO_ANSWER for node in controllers if isinstance(node.answer, Unknown)]
    if len(running) >= majority_of(len(controllers)) or not all(away):
        return None
    missing = [node.id for node in controllers if node.id not in running]
    silent = ", ".join(map(str, missing))
    text = f"only {len(running)} of {counted(len(controllers), 'controller')} can be reached ({silent} cannot), and a "
    remedy = f"start {_controllers(missing)}"
    if goes_back:  # a person who was asked to stop all may have stopped these
        remedy = (
            f"if you stopped {_controllers(missing)} for a rollback, stop {_controllers(running)} too; else {remedy}"
        )
    return Failure(FailureKind.NO_LEADER, "quorum", f"{text}majority is needed to read the metadata log", remedy)


def _controllers(ids: Sequence[int]) -> str:
    return f"{'controller' if len(ids) == 1 else 'controllers'} {', '.join(map(str, ids))}"


WITHOUT_QUORUM = (Position.ZOOKEEPER, Position.NO_CONTROLLER, Position.RELEASED)
"""Positions at which no controller of a quorum runs."""


def why_uncertain(position: Position, observation: Observation) -> Failure | None:
    """Reason why it is not certain that no quorum runs: no address of a controller was given and no broker named one,
    so a controller that runs would not have been asked.
    """
    if position not in WITHOUT_QUORUM:
        return None
    unasked = (gap.location == "bootstrapControllers" and gap.kind is FailureKind.NOT_ASKED for gap in observation.gaps)
    message = "no controller was contacted, but some may be running"
    return (
        Failure(FailureKind.NOT_ASKED, "controllers", message, "give --bootstrap-controller") if any(unasked) else None
    )


def _claim(claim: ControllerClaim | None, observation: Observation) -> ClaimKind:
    if claim is None:
        return ClaimKind.NONE
    if not claim.is_kraft:
        return ClaimKind.BROKER
    leads = isinstance(observation.active_controller, Known) and observation.active_controller.value == claim.node_id
    return ClaimKind.LEADER if leads and observation.source.epoch == claim.kraft_epoch else ClaimKind.KRAFT


def _mode(node: Node) -> BrokerMode | None:
    if not isinstance(node.answer, Known):
        return None
    if node.answer.value.runs_in_kraft_mode:
        return KRAFT
    return FLAGGED if node.answer.value.zk_migration_ready else PLAIN


def flag_of(node: Node) -> bool | None:
    """Tell whether a controller runs with the flag; None if it does not answer."""
    return node.answer.value.zk_migration_ready if isinstance(node.answer, Known) else None
