"""A cluster of three brokers and three controllers at each position of a migration, as it is read, tersely."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import chain
from typing import Any

from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, ComparisonState, EqualityStatus, MigrationStatus, Status, VoterStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decide import decide
from kafkafeatures.core.engine.decisions import Act, Decision
from kafkafeatures.core.engine.desired_state import DesiredState, Migration, Rollout
from kafkafeatures.core.engine.gates import GateInput
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.engine.memory import NO_MEMORY, Memory, memory_of
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.stage import StageState
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.facts.observation import (
    Known,
    LastRegistration,
    MetadataMode,
    Node,
    Observation,
    SourceKind,
    Unknown,
)
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, QuorumAnswer, ReplicaProgress, Role
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.facts.settings import Setting, SettingSource
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.kinds import assess
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.demands import known_of
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape, Wish, required
from kafkafeatures.core.report.status import status_of
from kafkafeatures.core.roll.drivers import MANUAL, driver_of
from kafkafeatures.core.roll.restart_node import RestartNode
from kraftlog.image import ZkMigrationState
from tests.kafkafeatures.core import preflights
from tests.kafkafeatures.core.preflights import OF_ALL, registered
from tests.kafkafeatures.core.replicas import Row, reading, row
from tests.kafkafeatures.ensembles import CLUSTER, claimed, elected, progress
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.worlds import NOW, SILENT, answer, known, node, observation

BROKERS, CONTROLLERS = (1, 2, 3), (3001, 3002, 3003)
PARTITIONS: tuple[Row, ...] = tuple(row("orders", 1, 2, 3, number=number) for number in range(3))
BY_HAND = Rollout(MANUAL.name)
VOTERS = tuple(VoterStatus(node_id=id_, address=f"h:{id_}") for id_ in CONTROLLERS)
"""Voters in a status, once each has proved who it is."""
SEEN_VOTERS = Status(migration=MigrationStatus(voters=VOTERS))


def compared(differences: int = 0, ago: timedelta = timedelta(0)) -> Status:
    """A status by which both stores were compared so long before `/migration` was written for the last time."""
    state = ComparisonState.DIFFERS if differences else ComparisonState.EQUAL
    found = EqualityStatus(at=stamp(NOW), state=state.value, differences=differences, written_at=stamp(NOW - ago))
    return Status(migration=MigrationStatus(equality=found, voters=VOTERS))


S, P = ZkMigrationState, Position

OF_ZOOKEEPER: Mapping[str, Any] = {}
"""What a broker in ZooKeeper mode supports."""
OWN = {**OF_ALL, "controller.listener.names": "CONTROLLER"}
NEW = {"metadata.version": (1, 21), "kraft.version": (0, 1)}


def settings(id_: int, shape: Shape) -> Mapping[str, Setting]:
    """What a node of this shape says."""
    told = known_of({}, "3.9")
    rules = dict(required(shape, replace(told, node_id=id_, ibp="3.9-IV0")))
    found = preflights.settings()
    for name, rule in rules.items():
        if rule is Wish.NOT_SET:
            found[name] = Setting(SettingSource.DEFAULT, preflights.DEFAULTS.get(name))
        else:
            found[name] = preflights.from_file(OWN.get(name, "here") if rule is Wish.SET else str(rule))
    return found


def a_node(id_: int, shape: Shape, *, epoch: int = 0, **fields: Any) -> Node:
    """One that answers, as it does with these settings."""
    in_zookeeper = shape in (Shape.PLAIN_BROKER, Shape.FLAGGED_BROKER)
    said = answer(OF_ZOOKEEPER, {}, keys=(18,)) if in_zookeeper else answer(NEW)
    flagged = shape in (Shape.FLAGGED_BROKER, Shape.MIGRATING_CONTROLLER)
    made = node(id_, said=replace(said, zk_migration_ready=flagged), written=NEW)
    return replace(
        made, settings=settings(id_, shape), proved_at="10.0.0.1", incarnation=f"first-{id_}",
        broker_epoch=-1 if id_ >= 3000 else epoch or 100 + id_, czxid=100 + id_ if in_zookeeper else -1,
        migrating_from_zookeeper=shape is Shape.FLAGGED_BROKER, **fields,
    )  # fmt: skip


AT: Mapping[Position, tuple[ZkMigrationState | None, Shape, Shape | None]] = {
    P.ZOOKEEPER: (None, Shape.PLAIN_BROKER, None),
    P.PRE_MIGRATION: (S.PRE_MIGRATION, Shape.PLAIN_BROKER, Shape.MIGRATING_CONTROLLER),
    P.COPIED: (S.MIGRATION, Shape.FLAGGED_BROKER, Shape.MIGRATING_CONTROLLER),
    P.DUAL_WRITE: (S.MIGRATION, Shape.KRAFT_BROKER, Shape.MIGRATING_CONTROLLER),
    P.FINALIZED: (S.POST_MIGRATION, Shape.KRAFT_BROKER, Shape.CONTROLLER),
}
"""State of the metadata log, and what brokers and controllers are."""


def quorum(leader: int = 3003) -> QuorumAnswer:
    voters = tuple(ReplicaProgress(id_, 100, 1000, 1000) for id_ in CONTROLLERS)
    return QuorumAnswer(leader, 3, 100, voters, ())


def cluster(
    position: Position, *nodes: Node, partitions: tuple[Row, ...] = PARTITIONS, offset: int = 99, **parts: Any
) -> Observation:
    """The whole cluster there; `nodes` are otherwise than the position has them."""
    state, broker, controller = AT[position]
    found = {id_: a_node(id_, broker) for id_ in BROKERS}
    if controller is not None:
        found |= {id_: a_node(id_, controller) for id_ in CONTROLLERS}
    found |= {one.id: one for one in nodes}
    modes = {None: MetadataMode.ZOOKEEPER, S.POST_MIGRATION: MetadataMode.KRAFT}
    everybody = tuple(found[id_] for id_ in sorted(found, key=lambda id_: (id_ < 3000, id_)))
    told = observation(
        *everybody, mode=modes.get(state, MetadataMode.MIGRATING), levels={"metadata.version": 21} if state else {},
        voting=quorum() if state else SILENT, cluster_id=CLUSTER,
    )  # fmt: skip
    claims = claimed(3003, epoch=3) if position not in (P.ZOOKEEPER, P.PRE_MIGRATION) else elected(1)
    progressed = progress(offset) if position in (P.COPIED, P.DUAL_WRITE, P.FINALIZED) else None
    if position is P.PRE_MIGRATION:
        progressed = progress(-1)
    kind = SourceKind.METADATA_LOG if state else SourceKind.API_REQUESTS
    told = replace(
        told,
        source=replace(told.source, kind=kind, epoch=3),
        zk_migration_state=known(int(state)) if state is not None else Unknown(SILENT),
        zookeeper=known(
            znodes(controller=claims, migration=progressed, brokers={id_: registered(id_) for id_ in BROKERS}),
            SourceKind.ZOOKEEPER,
        ),
        compared=known(StoreComparison(NOW, 99), SourceKind.ZOOKEEPER),
        surveyed=known(Survey(assigned={1: "orders-0"}, controller_epoch=3), SourceKind.ZOOKEEPER),
        partitions=Known(reading(*partitions), SourceKind.METADATA_LOG, "", NOW),
        named_controllers=dict.fromkeys(BROKERS, frozenset({1})),
        last_registration=LastRegistration(103, NOW, NOW) if position is P.DUAL_WRITE else None,
    )
    return replace(told, **parts)


REFUSES = Failure(FailureKind.NOT_LISTENING, "controller-1:9093", "connection refused", "start it")


def kept_for(span: timedelta, seen: Observation | None = None, offset: int = 103) -> Observation:
    """The cluster in dual write for so long, by its metadata log."""
    seen = cluster(P.DUAL_WRITE) if seen is None else seen
    return replace(seen, last_registration=LastRegistration(offset, NOW - span, NOW))


def without_quorum(seen: Observation, why: Failure = REFUSES) -> Observation:
    """No controller is left. why: what was said by the addresses at which they listened."""
    return replace(
        seen,
        nodes=tuple(one for one in seen.nodes if Role.BROKER in one.roles),
        source=replace(seen.source, kind=SourceKind.API_REQUESTS, offset=-1, epoch=-1),
        quorum=Unknown(SILENT), active_controller=Unknown(SILENT), zk_migration_state=Unknown(SILENT),
        registered_controllers=Unknown(why), compared=Unknown(NOT_ASKED),
        former_controllers={one.address: why for one in VOTERS},
    )  # fmt: skip


def wanting(
    desired: Desired, *, hold: timedelta = timedelta(0), rollout: Rollout = BY_HAND, **fields: Any
) -> DesiredState:
    return DesiredState({}, migration=Migration(desired, hold), rollout=rollout, **fields)


class Look:
    """One look of a process that has lived through `seconds` since the last one."""

    def __init__(
        self,
        wanted: DesiredState,
        seen: Observation,
        *,
        memory: Memory = NO_MEMORY,
        sent: tuple[InFlight, ...] = (),
        status: Status = EMPTY,
        before: Look | None = None,
        seconds: float = 2.0,
        lived: timedelta = timedelta(0),
    ) -> None:
        self.wanted, self.seen = wanted, seen
        self.monotonic: float = (before.monotonic if before is not None else 0.0) + seconds
        replication = Replication(seen.partitions.value) if isinstance(seen.partitions, Known) else None
        kept = (
            dict(chain.from_iterable(one.stage_memory.items() for one in before.stages)) if before is not None else {}
        )
        self.facts = StageInput(
            wanted, seen, memory, status, sent, seen.at, lambda _: lived, lambda _: lived,
            restarts=driver_of(wanted.rollout).restarts_nodes, replication=replication, monotonic=self.monotonic,
            stage_memory=kept,
        )  # fmt: skip
        self.proposal: Proposal
        self.stages: tuple[StageState, ...]
        self.proposal, self.stages = assess(self.facts)
        self.decision: Decision = decide(
            GateInput(wanted, seen, self.proposal.plan, self.stages, self.facts.current_time, memory)
        )


def looks(wanted: DesiredState, seen: Observation, **given: Any) -> Look:
    """The second of two looks in a row: by then it is known how far ZooKeeper is behind."""
    first = Look(wanted, replace(seen, source=replace(seen.source, offset=seen.source.offset - 3)), **given)
    return Look(wanted, seen, before=first, **given)


def restarted(look: Look) -> int:
    """The node that is restarted next."""
    assert isinstance(look.decision, Act), look.decision
    step = look.decision.step
    assert isinstance(step, RestartNode)
    return step.node_id


def said(look: Look) -> str:
    return "\n".join(
        [look.decision.message if not isinstance(look.decision, Act) else "", *map(str, look.decision.blockers)]
    )


def released(look: Look) -> DeleteZnodes:
    assert isinstance(look.decision, Act), look.decision
    assert isinstance(look.decision.step, DeleteZnodes)
    return look.decision.step


def status_after(look: Look, previous: Status = EMPTY) -> Status:
    """The status that is written after this look."""
    return status_of(
        look.decision, look.seen, look.proposal.plan, look.stages,
        generation=1, previous=previous, version="0.1.0", now=look.facts.current_time,
    )  # fmt: skip


FINALIZING = wanting(Desired.FINALIZED, consents=frozenset({"zk-finalize"}))


def approved(seen: Observation, **of_wanted: Any) -> Look:
    """A look at a migration that is to be finalized, and whose plan was approved."""
    wanted = replace(FINALIZING, may_approve_unseen=True, **of_wanted)
    shown = Look(wanted, seen).proposal.plan.hash
    return looks(replace(wanted, approvals=frozenset({shown})), seen)


def after(look: Look, status: Status = EMPTY) -> Status:
    """The status that is written once a look has decided."""
    for stage in look.stages:
        status = stage.remembered(status)
    for stage in look.stages:
        status = stage.decided(look.decision, status)
    return status_of(
        look.decision, look.seen, look.proposal.plan, look.stages, generation=1, previous=status, version="1", now=NOW
    )


def asked_for(wanted: DesiredState, seen: Observation, status: Status = EMPTY) -> Status:
    """The status once a look has shown what the document consents to only later."""
    memory = memory_of(status, lambda _: timedelta(0), lambda _: timedelta(0))
    return after(looks(replace(wanted, consents=frozenset()), seen, status=status, memory=memory), status)
