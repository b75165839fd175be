"""Positions of a cluster between ZooKeeper and KRaft, and the evidence from which a position is derived: the metadata
log, the znodes and the nodes together, never a status.

Pure. `core/migration/contradictions.py` chooses the position. On real nodes, each source alone was misleading: the log
says that a migration is under way while the controllers do nothing, `/migration` survives a rollback, a file has the
flag and no process has read it yet. So a position is a row of `ROWS` that all sources fit; if they fit no row, no
position is guessed.
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
    """Positions in the order of the way forward; the last two belong to the way back. Flag: see `BrokerMode`."""

    ZOOKEEPER = "ZooKeeper"  # there is no KRaft quorum
    PRE_MIGRATION = "PreMigration"  # a quorum waits; no broker knows of it
    FLAGGING = "Flagging"  # brokers get the flag, and register with the quorum
    COPYING = "Copying"  # the quorum has taken over, and copies
    COPIED = "Copied"  # copied; some brokers are in ZooKeeper mode, and changes are written to both sides
    DUAL_WRITE = "DualWrite"  # all brokers are in KRaft mode; changes are still written to ZooKeeper
    FINALIZING = "Finalizing"  # controllers lose the flag, one by one, on request; or a controller without it has led
    FINALIZED = "Finalized"  # KRaft, irreversibly
    NO_CONTROLLER = "NoController"  # the quorum is gone, and ZooKeeper still names one of its controllers
    RELEASED = "Released"  # a broker is the controller again; some brokers have the flag


class BrokerMode(StrEnum):
    """Mode in which the process of a broker runs. The flag is `zookeeper.metadata.migration.enable`."""

    PLAIN = "ZooKeeper"
    FLAGGED = "Flagged"  # in ZooKeeper mode with the flag: it registers with the quorum too
    KRAFT = "KRaft"


class ClaimKind(StrEnum):
    """Kind of node that `/controller` names."""

    NONE = "none"
    BROKER = "a broker in ZooKeeper mode"
    LEADER = "the active controller, at its epoch"
    KRAFT = "a controller of a quorum"  # one that no longer leads, or leads at another epoch


class MigrationEvidence(Struct, frozen=True):
    """Facts from which a position is derived.

    state: migration state in the metadata log (ZkMigrationStateRecord), read after the znodes; None: no controller
        answers.
    claim: kind of node that `/controller` names.
    offset: offset in `/migration`; -1 also if the znode is absent. Above 0, ZooKeeper was copied up to there.
    brokers: mode of each broker, by id; None: it does not answer.
    controllers: True for a controller with the flag, by id; None: it does not answer.
    has_progress: `/migration` exists.
    absent: ids of brokers that have replicas and are registered neither in ZooKeeper nor with the quorum, so that it is
        not known in which mode they will start; None: it is not known whether there are any.
    unlisted: ids of brokers that do not answer, and follow the quorum without being registered with it.
    registered: for nodes that do not answer, the mode or flag of the process that registered last. It shows where the
        cluster is, not how these nodes will start again.
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
        """Ids of nodes whose mode or flag is not known."""
        return tuple(id_ for id_, mode in (*self.brokers.items(), *self.controllers.items()) if mode is None)

    @property
    def as_registered(self) -> MigrationEvidence:
        """This evidence, with the registered mode or flag of each node that does not answer."""
        modes = {
            id_: _mode_registered(self.registered.get(id_)) if mode is None else mode
            for id_, mode in self.brokers.items()
        }
        flags = {
            id_: _flag_registered(self.registered.get(id_)) if flag is None else flag
            for id_, flag in self.controllers.items()
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


def _mode_registered(mode_or_flag: BrokerMode | bool | None) -> BrokerMode | None:
    return mode_or_flag if isinstance(mode_or_flag, BrokerMode) else None


def _flag_registered(mode_or_flag: BrokerMode | bool | None) -> bool | None:
    return mode_or_flag if isinstance(mode_or_flag, bool) else None


class Misplaced(Struct, frozen=True):
    """Result if no position fits the evidence.

    message, remedy: texts for people.
    subject: the nodes, or the znode, that it is about.
    may_pass: the state may end by itself within a minute, such as while a leader is elected.
    at_first: message for that minute; empty: `message`.
    silent: ids of nodes that do not answer, if only their mode or flag is missing.
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
"""Setting that makes a broker or controller take part in a migration."""
S = ZkMigrationState
PLAIN, FLAGGED, KRAFT = BrokerMode.PLAIN, BrokerMode.FLAGGED, BrokerMode.KRAFT


class PositionRow(Struct, frozen=True):
    """Facts that hold in a position.

    position: the position.
    state: possible states of the metadata log; None among them: no controller answers.
    claim: possible kinds of node in `/controller`.
    copied: whether `/migration` says that ZooKeeper was copied; None: it does not matter.
    modes: modes that brokers may have.
    some: at least one broker has one of these modes.
    flags: `ALL`, `SOME` or `NO`: which controllers have the flag; None: it does not matter.
    """

    position: Position
    state: tuple[ZkMigrationState | None, ...]
    claim: tuple[ClaimKind, ...]
    copied: bool | None
    modes: tuple[BrokerMode, ...]
    some: tuple[BrokerMode, ...]
    flags: tuple[bool, ...] | None = None

    def fits(self, evidence: MigrationEvidence) -> bool:
        """Tell whether the evidence fits this position. A node that does not answer fits any row."""
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


def _flags_fit(flags_of_controllers: Iterable[bool | None], required: tuple[bool, ...]) -> bool:
    """Tell whether the flags of controllers are as required, as far as they are known. `ALL`: each controller has the
    flag; `NO`: none has it; `SOME`: some have it, others do not.
    """
    flags = set(flags_of_controllers)
    if None in flags:  # a controller that does not answer may have any flag
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
    ),  # without the flag, only a copy proves that there was a quorum; /controller alone does not
    PositionRow(Position.RELEASED, (None,), (ClaimKind.BROKER,), False, (PLAIN, FLAGGED), (FLAGGED,)),
)
"""Facts that hold in each position. If all nodes answer, the evidence fits the rows of at most one position."""


# --- what was read ---


def facts_of(
    observation: Observation,
    zookeeper_reading: ZooKeeperReading,
    assigned: frozenset[int] | None = None,
    *,
    goes_back: bool = False,
) -> MigrationEvidence | Failure:
    """Evidence from an observation that was made after the znodes were read; a Failure for a reading that is missing.

    assigned: ids of brokers that have replicas; None: not known.
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
        return observation.cluster_id.failure  # a controller runs, and does not say its id
    brokers = {node.id: _mode(node) for node in observation.nodes if Role.BROKER in node.roles}
    refused = {node.id for node in observation.nodes if node.state is NodeState.REFUSED}
    return MigrationEvidence(
        state,
        _claim(claim, observation),
        migration.offset if migration is not None else -1,
        brokers,
        {node.id: flag_of(node) for node in controllers}
        if state is not None
        else {},  # no state: no controller answers
        migration is not None,
        None if assigned is None else tuple(sorted(assigned - brokers.keys())),
        tuple(id_ for id_, mode in brokers.items() if mode is None and id_ in refused),
        dict(_registered(observation)),
    )


def _registered(observation: Observation) -> Iterator[tuple[int, BrokerMode | bool]]:
    """Id, and mode or flag, of each node that does not answer, by its registration in the metadata log."""
    for node in observation.nodes:
        if isinstance(node.answer, Known) or node.state is NodeState.REFUSED:
            continue
        if Role.BROKER in node.registered:
            yield node.id, FLAGGED if node.migrating_from_zookeeper else KRAFT
        elif node.registered_flag is not None:
            yield node.id, node.registered_flag


def _without_majority(controllers: Sequence[Node], goes_back: bool) -> Failure | None:
    """Failure if fewer controllers run than can elect a leader, so that waiting does not help: such as after a person
    was asked to stop all, and one was started again. None if a majority runs, or may run.
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


def quorum_uncertainty(position: Position, observation: Observation) -> Failure | None:
    """Failure if it is not certain that no quorum runs: no address of a controller was given and no broker named one,
    so a controller that runs would not have been contacted. None if it is certain, or the position has a quorum.
    """
    if position not in WITHOUT_QUORUM:
        return None
    unasked = (gap.location == "bootstrapControllers" and gap.kind is FailureKind.NOT_ASKED for gap in observation.gaps)
    message = "no controller was contacted, but some may be running"
    return (
        Failure(FailureKind.NOT_ASKED, "controllers", message, "give --bootstrap-controller") if any(unasked) else None
    )


def _claim(claim: ControllerClaim | None, observation: Observation) -> ClaimKind:
    """Kind of the node that claims `/controller`. A KRaft controller must be the active one, at the epoch that was
    read.
    """
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
    """Flag of a controller: True if it runs with it; None if it does not answer."""
    return node.answer.value.zk_migration_ready if isinstance(node.answer, Known) else None
