"""Ways from one position of a migration to the next, forward and back: a table, and the choice of the next way.

Pure. No way skips a position; `FLAG_BROKERS` leads through Flagging and Copying to Copied. This module has only the
order of the ways, what is changed in Git on each, which nodes are restarted, and which znodes are deleted; the checks
before each step are in `core/migration/checks.py`.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from kafkafeatures.api.spec import Desired
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.migration.positions import FLAG, BrokerMode, MigrationEvidence, Position
from kafkafeatures.core.migration.settings import Shape


class PersonAction(StrEnum):
    """Actions of a person on a way, besides changes of settings."""

    NO_CONTROLLERS = "stop the controllers (on Kubernetes: 0 replicas)"
    WIPE = "wipe the controllers' disks"


class Edge(Struct, frozen=True):
    """Way from one position of a migration to the next.

    start: positions from which it leads.
    end: position to which it leads.
    asks: role and mode that nodes must get on this way; None: no settings change.
    restarts: role of the nodes that are restarted; None: no node is restarted.
    further_actions: actions of a person, besides changes of settings.
    deletes: znodes that the operator deletes on this way, in one transaction.
    """

    start: tuple[Position, ...]
    end: Position
    asks: Shape | None = None
    restarts: Role | None = None
    further_actions: tuple[PersonAction, ...] = ()
    deletes: tuple[str, ...] = ()

    @property
    def is_preflighted(self) -> bool:
        """Tell whether the preflight runs on this way: nothing was copied yet, so the migration can be given up
        freely.
        """
        return self in (START_CONTROLLERS, FLAG_BROKERS)

    @property
    def caution(self) -> str:
        """Warning for people who prepare settings for this way; empty if it restarts no node."""
        if self.restarts is None:
            return ""
        early = "Restart no node with these lines before KafkaFeatures asks for it"
        if self not in FORWARD:
            return early
        return (
            f"{early}; the migration ends, irreversibly, as soon as a controller without {FLAG} becomes the active "
            "controller"
        )

    def end_from(self, position: Position) -> Position:
        """Position to which the way leads from this one. Where brokers have the flag and the way restarts none, they
        keep it, so the cluster is then at Released.
        """
        keeps = self.restarts is None and self.end is Position.ZOOKEEPER
        return Position.RELEASED if keeps and position in (Position.FLAGGING, Position.RELEASED) else self.end

    def __str__(self) -> str:
        """The way for people: where it leads, and what has to be done on it."""
        # A way from several positions to one end is named by the first position; if the ends differ too, all positions
        # are named.
        ends = tuple(map(self.end_from, self.start))
        leads = f"{self.start[0]} -> {self.end}"
        if len({*ends}) > 1:
            leads = " or ".join(self.start) + (f" -> {' or '.join(ends)}" if ends != self.start else "")
        elif self.start == (self.end,):
            leads = str(self.end)
        does = []
        if self.restarts is not None and self.asks is not None:
            does.append(f"restart each {self.restarts.value.lower()} as {self.asks.value}")
        elif self.asks is not None:
            does.append(f"start {self.asks.value.replace('a ', 'each ', 1)}")
        does += [action.value for action in self.further_actions]
        if self.deletes:
            does.append(f"delete {' and '.join(self.deletes)}")
        return f"{leads}: {', '.join(does)}"


class NoEdge(Struct, frozen=True):
    """Reason why no way leads from this position to the desired phase, with a remedy."""

    message: str
    remedy: str


P = Position
START_CONTROLLERS = Edge((P.ZOOKEEPER,), P.PRE_MIGRATION, Shape.MIGRATING_CONTROLLER)
FLAG_BROKERS = Edge((P.PRE_MIGRATION, P.FLAGGING, P.COPYING), P.COPIED, Shape.FLAGGED_BROKER, Role.BROKER)
MOVE_BROKERS = Edge((P.COPIED,), P.DUAL_WRITE, Shape.KRAFT_BROKER, Role.BROKER)
FINALIZE = Edge((P.DUAL_WRITE, P.FINALIZING), P.FINALIZED, Shape.CONTROLLER, Role.CONTROLLER)
FORWARD = (START_CONTROLLERS, FLAG_BROKERS, MOVE_BROKERS, FINALIZE)

MOVE_BROKERS_BACK = Edge((P.DUAL_WRITE, P.COPIED), P.COPIED, Shape.FLAGGED_BROKER, Role.BROKER)
STOP_CONTROLLERS = Edge((P.COPIED, P.COPYING), P.NO_CONTROLLER, further_actions=(PersonAction.NO_CONTROLLERS,))
RELEASE = Edge((P.NO_CONTROLLER,), P.RELEASED, deletes=("/controller", "/migration"))
UNFLAG_BROKERS = Edge(
    (P.RELEASED, P.ZOOKEEPER), P.ZOOKEEPER, Shape.PLAIN_BROKER, Role.BROKER, further_actions=(PersonAction.WIPE,)
)
GIVE_UP = Edge((P.PRE_MIGRATION, P.FLAGGING), P.ZOOKEEPER, further_actions=(PersonAction.NO_CONTROLLERS,))
WITHDRAW = Edge((P.ZOOKEEPER, P.RELEASED), P.ZOOKEEPER, deletes=("/migration",))
"""Way back after a quorum that never took over was stopped: first of all, its `/migration` is deleted."""
HALF_DONE = (MOVE_BROKERS, MOVE_BROKERS_BACK)
"""Ways on which it is worse to stay than to continue: brokers of both modes run side by side. On them a controller may
be away, as long as a majority leads; no controller is restarted.
"""
BACK = (MOVE_BROKERS_BACK, STOP_CONTROLLERS, RELEASE, UNFLAG_BROKERS, GIVE_UP, WITHDRAW)

TARGETS = {
    Desired.PRE_MIGRATION: P.PRE_MIGRATION,
    Desired.DUAL_WRITE: P.DUAL_WRITE,
    Desired.FINALIZED: P.FINALIZED,
    Desired.ROLLED_BACK: P.ZOOKEEPER,
}
_ENDS_FORWARD = (P.ZOOKEEPER, *(edge.end for edge in FORWARD))
"""ZooKeeper, and the ends of the ways forward, in order."""


def next_edge(position: Position, desired: Desired, evidence: MigrationEvidence) -> Edge | NoEdge | None:
    """The way that comes next; None if the cluster is at its goal; NoEdge if no way leads there."""
    if desired is Desired.ROLLED_BACK and evidence.has_progress and position in (P.ZOOKEEPER, P.RELEASED):
        return WITHDRAW
    if desired is Desired.ROLLED_BACK and position is P.ZOOKEEPER and evidence.absent != ():
        return UNFLAG_BROKERS  # a broker that is down may still have the flag
    if position is TARGETS[desired]:
        return None
    return _back(position, evidence) if desired is Desired.ROLLED_BACK else _forward(position, desired, evidence)


def _forward(position: Position, desired: Desired, evidence: MigrationEvidence) -> Edge | NoEdge:
    if position in (P.NO_CONTROLLER, P.RELEASED) and evidence.has_progress:
        return NoEdge(
            f"no controller answers, and the migration was begun: the cluster is at {position}",
            "start the controllers with their disks, or make them reachable; or, to go back, set "
            "spec.migration.desired to RolledBack until the cluster is in ZooKeeper mode",
        )
    if position is P.RELEASED:  # after a rollback, or before a first migration: nothing tells the two apart
        flagged = ", ".join(str(id_) for id_, mode in evidence.brokers.items() if mode is BrokerMode.FLAGGED)
        return NoEdge(
            f"brokers run with {FLAG}, but no controller answers: {flagged}; a migration starts with the controllers, "
            "not with the brokers, and after a rollback its rollback must be complete before one can start again",
            f"restart each of these brokers without {FLAG}: set spec.migration.desired to RolledBack until the cluster "
            "is in ZooKeeper mode, and KafkaFeatures asks for each of them",
        )
    if position is P.NO_CONTROLLER:
        return NoEdge(
            f"the cluster is at {position}, and its rollback must be complete before a migration can start again",
            "set spec.migration.desired to RolledBack until the cluster is in ZooKeeper mode",
        )
    # No way begins at Finalized; the last one stands for it in the messages below.
    edge = next(edge for edge in FORWARD if position in edge.start) if position is not P.FINALIZED else FINALIZE
    if _ENDS_FORWARD.index(edge.end) > _ENDS_FORWARD.index(TARGETS[desired]) or position is P.FINALIZED:
        return NoEdge(
            f"the cluster is at {position}, which is past {desired}",
            "set spec.migration.desired to Finalized, because finalizing is irreversible"
            if position in (P.FINALIZING, P.FINALIZED)
            else "set spec.migration.desired to RolledBack to go back",
        )
    if desired is Desired.FINALIZED and edge is not FINALIZE:
        return NoEdge(
            f"the cluster is at {position}; a migration can be finalized only from DualWrite",
            "set spec.migration.desired to DualWrite until the cluster is at DualWrite",
        )
    return edge


def _back(position: Position, evidence: MigrationEvidence) -> Edge | NoEdge:
    if position in (P.FINALIZING, P.FINALIZED):
        return NoEdge(
            f"the cluster is at {position}; finalizing is irreversible, so the migration cannot be rolled back",
            "set spec.migration.desired to Finalized",
        )
    in_kraft = BrokerMode.KRAFT in evidence.brokers.values()
    if position is P.COPIED:
        return MOVE_BROKERS_BACK if in_kraft else STOP_CONTROLLERS
    return next(edge for edge in BACK if position in edge.start)
