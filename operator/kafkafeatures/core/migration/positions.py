"""Where a cluster is between ZooKeeper and KRaft: one position, derived from the metadata log, the znodes and the nodes
together, and never from a status.

Pure. Each of the three alone was seen lying on real nodes: the log says that a migration is under way while the driver
of the controllers is idle, `/migration` survives a rollback, a flag is in a file that no process has read. So a
position is a row of `ROWS` that all of them fit, and what fits no row is not guessed at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NO_ANSWER, Failure, FailureKind, Role, majority_of
from kafkafeatures.core.facts.znodes import ZooKeeperReading, of_another_cluster
from kafkafeatures.core.words import counted
from kraftlog.image import ZkMigrationState


class Position(StrEnum):
    """In the order of the way forward; the last two are on the way back only."""

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
    """How a process of a broker runs."""

    PLAIN = "ZooKeeper"
    FLAGGED = "Flagged"  # in ZooKeeper mode, with zookeeper.metadata.migration.enable
    KRAFT = "KRaft"


class Claim(StrEnum):
    """Who `/controller` names."""

    NONE = "none"
    BROKER = "a broker in ZooKeeper mode"
    LEADER = "the active controller, at its epoch"
    KRAFT = "a controller of a quorum"  # which leads no longer, or at another epoch


class Facts(Struct, frozen=True):
    """What a position is derived from.

    state: of the metadata log, as it was read after the znodes; None where no controller answers. offset: of
    `/migration`, -1 also where that is absent. brokers, controllers: by id, how each process runs and whether it has
    the flag; None for one that does not answer. has_progress: whether `/migration` is there at all.
    absent: brokers that have replicas, and that neither ZooKeeper nor the quorum has registered: how one of them will
    run is not known; None where it is not known whether there are any. unlisted: brokers that do not answer, and follow
    the quorum without being registered with it.
    """

    state: ZkMigrationState | None
    claim: Claim
    offset: int
    brokers: Mapping[int, BrokerMode | None] = field(default_factory=dict)
    controllers: Mapping[int, bool | None] = field(default_factory=dict)
    has_progress: bool = False
    absent: tuple[int, ...] | None = ()
    unlisted: tuple[int, ...] = ()

    @property
    def unflagged(self) -> tuple[int, ...]:
        """Controllers that certainly run without the flag."""
        return tuple(id_ for id_, flag in self.controllers.items() if flag is False)

    @property
    def silent(self) -> tuple[int, ...]:
        """Nodes whose mode or flag is not known."""
        return tuple(id_ for id_, it in (*self.brokers.items(), *self.controllers.items()) if it is None)

    def __str__(self) -> str:
        modes = [one for one in self.brokers.values() if one is not None]
        brokers = ", ".join(f"{modes.count(mode)} {mode}" for mode in BrokerMode if mode in modes) or "none answers"
        flagged = sum(one is True for one in self.controllers.values())
        state = self.state.name if self.state is not None else "not readable"
        return (
            f"metadata log {state}; /controller names {self.claim}; /migration at offset {self.offset}; "
            f"brokers: {brokers}; {counted(flagged, 'controller')} of {len(self.controllers)} with the flag"
        )


class Misplaced(Struct, frozen=True):
    """No position, and why. remedy empty: it may pass by itself. may_pass: also where there is one, for a moment. hint:
    what to look at where there is no remedy, and it does not pass. silent: nodes that do not answer, where what they
    are is all that is missing. at_first: what is said while it may pass, where that is not the message.
    """

    message: str
    remedy: str = ""
    may_pass: bool = False
    hint: str = ""
    silent: tuple[int, ...] = ()
    at_first: str = ""

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


FLAG = "zookeeper.metadata.migration.enable"
S = ZkMigrationState
PLAIN, FLAGGED, KRAFT = BrokerMode.PLAIN, BrokerMode.FLAGGED, BrokerMode.KRAFT


class Row(Struct, frozen=True):
    """What holds in a position. modes: of brokers, those there may be; some: one of these has to be there. copied: None
    where it does not matter. flags: of controllers, whether all, some but not all, or none have it.
    """

    position: Position
    state: tuple[ZkMigrationState | None, ...]
    claim: tuple[Claim, ...]
    copied: bool | None
    modes: tuple[BrokerMode, ...]
    some: tuple[BrokerMode, ...]
    flags: tuple[bool, ...] | None = None

    def fits(self, facts: Facts) -> bool:
        """Whether it may be the position. A node that does not answer fits where any of its modes would."""
        if facts.state not in self.state or facts.claim not in self.claim:
            return False
        if self.copied is not None and self.copied is not (facts.offset > 0):
            return False
        modes = facts.brokers.values()
        if any(one is not None and one not in self.modes for one in modes):
            return False
        if not any(one is None or one in self.some for one in modes):
            return False
        return self.flags is None or _flags_fit(facts.controllers.values(), self.flags)


ALL, SOME, NO = (True,), (True, False), (False,)


def _flags_fit(found: Iterable[bool | None], wanted: tuple[bool, ...]) -> bool:
    """`ALL`: each has the flag; `NO`: none has; `SOME`: one has it and one has not."""
    there = set(found)
    if None in there:
        return (there - {None}) <= set(wanted)
    return there == set(wanted)


ROWS = (
    Row(Position.ZOOKEEPER, (None,), (Claim.BROKER,), False, (PLAIN,), (PLAIN,)),
    Row(Position.PRE_MIGRATION, (S.PRE_MIGRATION,), (Claim.BROKER,), False, (PLAIN,), (PLAIN,), ALL),
    Row(Position.FLAGGING, (S.PRE_MIGRATION,), (Claim.BROKER,), False, (PLAIN, FLAGGED), (FLAGGED,), ALL),
    Row(Position.COPYING, (S.PRE_MIGRATION,), (Claim.LEADER,), False, (FLAGGED,), (FLAGGED,), ALL),
    Row(Position.COPIED, (S.MIGRATION,), (Claim.LEADER,), True, (FLAGGED, KRAFT), (FLAGGED,), ALL),
    Row(Position.DUAL_WRITE, (S.MIGRATION,), (Claim.LEADER,), True, (KRAFT,), (KRAFT,)),
    Row(Position.FINALIZING, (S.POST_MIGRATION,), tuple(Claim), None, (KRAFT,), (KRAFT,), SOME),
    Row(Position.FINALIZED, (S.POST_MIGRATION,), tuple(Claim), None, (KRAFT,), (KRAFT,), NO),
    Row(Position.NO_CONTROLLER, (None,), (Claim.KRAFT,), None, (PLAIN, FLAGGED), (FLAGGED,)),
    Row(Position.NO_CONTROLLER, (None,), (Claim.KRAFT,), True, (PLAIN,), (PLAIN,)),  # /controller alone proves nothing
    Row(Position.RELEASED, (None,), (Claim.BROKER,), False, (PLAIN, FLAGGED), (FLAGGED,)),
)
"""What holds in each position: exactly one position fits a cluster that is somewhere."""

WIPE = "stop the controllers, delete /migration if it exists, wipe the controllers' disks, format them, and begin again"


def position_of(facts: Facts) -> Position | Misplaced:
    """The one position that everything fits, else what contradicts what."""
    wrong = _contradiction(facts)
    if wrong is not None:
        return wrong
    found = {row.position for row in ROWS if row.fits(facts)}
    if len(found) == 1:
        return found.pop()
    if facts.silent and found:
        return _silent(facts)
    return Misplaced(f"the phase cannot be determined: {facts}")


def _silent(facts: Facts) -> Misplaced:
    silent, unlisted = (", ".join(map(str, ids)) for ids in (facts.silent, facts.unlisted))
    text = f"the phase is unknown while these nodes do not answer: {silent}"
    if not unlisted:
        return Misplaced(text, hint="bring each of them back", silent=facts.silent)
    text += f"; brokers that run, but were unregistered: {unlisted}"
    return Misplaced(text, hint="restart each of them with its settings, so that it registers again")


def _mistaken(facts: Facts, in_zookeeper: Sequence[int]) -> Misplaced | None:
    """States that make another cause of what follows from them: ids of two roles, and a claim that nothing supports."""
    both = facts.brokers.keys() & facts.controllers.keys()
    if both and (facts.state is S.PRE_MIGRATION or (facts.state is S.NONE and in_zookeeper)):
        ids = ", ".join(map(str, sorted(both)))
        return Misplaced(
            f"controllers have ids of brokers: {ids}; no broker and controller may have the same id",
            f"give these controllers ids that no broker has, in node.id and controller.quorum.voters; {WIPE}",
        )
    if facts.claim is Claim.KRAFT and facts.offset <= 0 and facts.state in (None, S.NONE, S.PRE_MIGRATION):
        modes = {mode for mode in facts.brokers.values() if mode is not None}
        if modes == {PLAIN}:
            return Misplaced(
                "the znode /controller names a controller of a KRaft quorum, but nothing was copied, no broker has the "
                "flag, and no active controller is the one that it names",
                "name the controllers in bootstrapControllers if some run; if none does, delete it: zookeeper-shell.sh "
                "HOST:PORT delete /controller, so that a broker becomes the controller",
            )
    return None


def _contradiction(facts: Facts) -> Misplaced | None:
    """States that Kafka does not leave by itself, each seen on real nodes."""
    in_zookeeper = [id_ for id_, mode in facts.brokers.items() if mode in (PLAIN, FLAGGED)]
    if (found := _mistaken(facts, in_zookeeper)) is not None:
        return found
    if facts.state is S.MIGRATION and facts.offset <= 0 and facts.claim is Claim.BROKER:
        return Misplaced(
            "the metadata log says that a migration is in progress, but nothing was copied from ZooKeeper: the "
            "controllers still have the disks of an earlier attempt, and will never take over",
            WIPE,
        )
    if facts.state is S.PRE_MIGRATION and facts.offset > 0:
        return Misplaced(
            f"/migration says that ZooKeeper was copied up to offset {facts.offset}, but the metadata log has none "
            "of it: the controllers would skip the copy, and delete every topic",
            "stop the controllers now, before the brokers get the flag; " + WIPE,
        )
    if facts.state is None and facts.offset > 0 and facts.claim is Claim.BROKER:
        return Misplaced(
            f"/migration says that ZooKeeper was copied up to offset {facts.offset}, but no controller answers: new "
            "controllers would skip the copy, and delete every topic",
            "start no controller; delete /migration with zookeeper-shell.sh, and wipe the controllers' disks",
        )
    if facts.state is S.POST_MIGRATION and in_zookeeper:
        ids = ", ".join(map(str, in_zookeeper))
        return Misplaced(
            f"the migration was finalized while brokers were in ZooKeeper mode: {ids}",
            "restart each of them in KRaft mode; the migration cannot be rolled back",
        )
    if facts.state is None and facts.claim is Claim.NONE and in_zookeeper:  # until one is elected
        hint = "see the logs of the brokers, and restart one: each tries to become the controller when it starts"
        return Misplaced("no broker is controller: /controller is absent", may_pass=True, hint=hint)
    in_kraft, plain = (
        ", ".join(str(id_) for id_, mode in facts.brokers.items() if mode is one) for one in (KRAFT, PLAIN)
    )
    if facts.state is None and facts.claim is Claim.KRAFT and in_kraft:
        return Misplaced(
            f"no controller answers, while brokers are in KRaft mode: {in_kraft}",
            may_pass=True,
            hint="start the controllers with their disks, or make them reachable: bootstrapControllers, network, TLS",
        )
    if facts.state is S.MIGRATION and facts.claim is Claim.LEADER and facts.offset > 0 and plain:
        return Misplaced(
            f"brokers run in ZooKeeper mode without {FLAG}, and do not follow the controllers: {plain}",
            "restart each of them as the other brokers are: kafkafeatures migration settings shows every line",
        )
    if facts.state is S.MIGRATION and facts.claim is Claim.KRAFT and facts.offset > 0:
        return Misplaced(
            "/controller does not name the active controller at its epoch: it cannot write to ZooKeeper",
            may_pass=True,  # one that was just elected has not claimed it yet
            hint="see the log of the active controller; it must reach ZooKeeper",
        )
    unflagged = facts.unflagged
    if unflagged and (facts.state is S.PRE_MIGRATION or (facts.state is S.MIGRATION and in_zookeeper)):
        ids = ", ".join(map(str, unflagged))
        return Misplaced(
            f"controllers run without {FLAG} while brokers are in ZooKeeper mode: "
            f"{ids}; if one of them becomes the active controller, the migration ends with what was copied by then",
            "set it to true on these controllers, and restart them, the active controller last; restart no other node "
            "before that",
        )
    if facts.state is S.NONE and unflagged and in_zookeeper:
        ids = ", ".join(map(str, unflagged))
        return Misplaced(
            f"controllers were started without {FLAG}: {ids}; their metadata log is that of a new cluster, and cannot "
            "take over a cluster from ZooKeeper",
            f"set it to true on these controllers; {WIPE}",
        )
    if facts.state is S.NONE and True in facts.controllers.values():
        ids = ", ".join(map(str, unflagged))
        return Misplaced(
            f"controllers run without {FLAG}: {ids}; one of them led the quorum, so the metadata log is "
            "that of a new cluster"
            if unflagged
            else f"the controllers have {FLAG}, but were once started without it: their metadata log is that of a new "
            "cluster",
            f"set it to true on these controllers; {WIPE}" if unflagged else WIPE,
            may_pass=True,  # a leader that was just elected has not written its first state yet
            at_first="" if unflagged else "the controllers have not written yet that they migrate",
        )
    return None


# --- what was read ---


def facts_of(
    seen: Observation, read: ZooKeeperReading, assigned: frozenset[int] | None = None, *, goes_back: bool = False
) -> Facts | Failure:
    """The facts of an observation that was made after the znodes were read; a Failure names what is missing.
    assigned: brokers that have replicas; None where that is not known. goes_back: whether RolledBack is wanted.
    """
    claim, migration, own = read.controller, read.migration, seen.cluster_id
    if isinstance(own, Known) and (other := of_another_cluster(read.cluster_id, read.ensemble, own.value)) is not None:
        return other
    if isinstance(claim, Failure):
        return claim
    if isinstance(migration, Failure):
        return migration
    controllers = [node for node in seen.nodes if Role.CONTROLLER in node.roles]
    answers = any(isinstance(node.answer, Known) for node in controllers)
    state: ZkMigrationState | None = None
    if seen.source.kind is SourceKind.METADATA_LOG and isinstance(seen.zk_migration_state, Known):
        state = ZkMigrationState.of(code := seen.zk_migration_state.value)
        if state is None:
            return Failure(FailureKind.UNSUPPORTED, "metadata log", f"its migration state {code} is not known")
    elif answers:
        found = seen.zk_migration_state
        why = (
            Failure(FailureKind.NOT_ASKED, "metadata log", "it was not read") if isinstance(found, Known) else found.why
        )
        return _without_majority(controllers, goes_back) or why
    elif isinstance(seen.cluster_id, Unknown) and seen.cluster_id.why.kind is FailureKind.NOT_ASKED:
        return seen.cluster_id.why  # a controller runs, and does not say which one it is
    brokers = {node.id: _mode(node) for node in seen.nodes if Role.BROKER in node.roles}
    refused = {node.id for node in seen.nodes if node.state is NodeState.REFUSED}
    return Facts(
        state,
        _claim(claim, seen),
        migration.offset if migration is not None else -1,
        brokers,
        {node.id: _flag(node) for node in controllers} if state is not None else {},
        migration is not None,
        None if assigned is None else tuple(sorted(assigned - brokers.keys())),
        tuple(id_ for id_, mode in brokers.items() if mode is None and id_ in refused),
    )


def _without_majority(controllers: Sequence[Node], goes_back: bool) -> Failure | None:
    """Fewer controllers run than can elect one: so it stays where a person was asked to stop all, and one came back."""
    running = [node.id for node in controllers if isinstance(node.answer, Known)]
    away = [node.answer.why.kind in NO_ANSWER for node in controllers if isinstance(node.answer, Unknown)]
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
"""Where no controller of a quorum runs."""


def why_uncertain(position: Position, seen: Observation) -> Failure | None:
    """Why a position at which no quorum runs is not certain: no address of a controller was given, and no broker named
    one, so one that runs was not asked.
    """
    if position not in WITHOUT_QUORUM:
        return None
    unasked = (gap.where == "bootstrapControllers" and gap.kind is FailureKind.NOT_ASKED for gap in seen.gaps)
    why = "no controller was contacted, but some may be running"
    return Failure(FailureKind.NOT_ASKED, "controllers", why, "give --bootstrap-controller") if any(unasked) else None


def _claim(claim: ControllerClaim | None, seen: Observation) -> Claim:
    if claim is None:
        return Claim.NONE
    if not claim.is_kraft:
        return Claim.BROKER
    leads = isinstance(seen.active_controller, Known) and seen.active_controller.value == claim.node_id
    return Claim.LEADER if leads and seen.source.epoch == claim.kraft_epoch else Claim.KRAFT


def _mode(node: Node) -> BrokerMode | None:
    if not isinstance(node.answer, Known):
        return None
    if node.answer.value.runs_in_kraft_mode:
        return KRAFT
    return FLAGGED if node.answer.value.zk_migration_ready else PLAIN


def _flag(node: Node) -> bool | None:
    return node.answer.value.zk_migration_ready if isinstance(node.answer, Known) else None
