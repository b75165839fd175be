"""Observations of a migration from ZooKeeper to KRaft at each position, and a `Look`: what the stages of a document
decide about such an observation. Brokers 1 to 3; controllers 3001 to 3003, of which 3003 leads; broker 1 is the
controller until the quorum takes over.
"""

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
from kafkafeatures.core.facts.observation import Known, MetadataMode, Node, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.past import LastRegistration
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, QuorumAnswer, ReplicaProgress, Role
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.facts.settings import Setting, SettingSource
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.kinds import assess
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.demands import setting_facts_of
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Requirement, Shape, required
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
"""Voters in a status, each with the address at which it has confirmed its id."""
SEEN_VOTERS = Status(migration=MigrationStatus(voters=VOTERS))


def compared(differences: int = 0, ago: timedelta = timedelta(0)) -> Status:
    """Build a status with a comparison of both stores, made at `NOW`. `ago`: `/migration` had been written for the last
    time so long before it.
    """
    state = ComparisonState.DIFFERS if differences else ComparisonState.EQUAL
    equality = EqualityStatus(at=stamp(NOW), state=state.value, differences=differences, written_at=stamp(NOW - ago))
    return Status(migration=MigrationStatus(equality=equality, voters=VOTERS))


S, P = ZkMigrationState, Position

OF_ZOOKEEPER: Mapping[str, Any] = {}
"""What a broker in ZooKeeper mode supports."""
OWN = {**OF_ALL, "controller.listener.names": "CONTROLLER"}
NEW = {"metadata.version": (1, 21), "kraft.version": (0, 1)}


def settings(id_: int, shape: Shape) -> Mapping[str, Setting]:
    """Build the settings that a node of this shape reports."""
    known_settings = setting_facts_of({}, "3.9")
    rules = dict(required(shape, replace(known_settings, node_id=id_, ibp="3.9-IV0")))
    node_settings = preflights.settings()
    for name, rule in rules.items():
        if rule is Requirement.NOT_SET:
            node_settings[name] = Setting(SettingSource.DEFAULT, preflights.DEFAULTS.get(name))
        else:
            node_settings[name] = preflights.from_file(OWN.get(name, "here") if rule is Requirement.SET else str(rule))
    return node_settings


def a_node(id_: int, shape: Shape, *, epoch: int = 0, **fields: Any) -> Node:
    """Build a live node that answers as one with the settings of this shape does."""
    in_zookeeper = shape in (Shape.PLAIN_BROKER, Shape.FLAGGED_BROKER)
    node_answer = answer(OF_ZOOKEEPER, {}, keys=(18,)) if in_zookeeper else answer(NEW)
    flagged = shape in (Shape.FLAGGED_BROKER, Shape.MIGRATING_CONTROLLER)
    live_node = node(id_, said=replace(node_answer, zk_migration_ready=flagged), written=NEW)
    return replace(
        live_node, settings=settings(id_, shape), proved_at="10.0.0.1", incarnation=f"first-{id_}",
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
    """Build the cluster at this position; `nodes` replace those of the position."""
    state, broker, controller = AT[position]
    all_nodes = {id_: a_node(id_, broker) for id_ in BROKERS}
    if controller is not None:
        all_nodes |= {id_: a_node(id_, controller) for id_ in CONTROLLERS}
    all_nodes |= {node.id: node for node in nodes}
    modes = {None: MetadataMode.ZOOKEEPER, S.POST_MIGRATION: MetadataMode.KRAFT}
    everybody = tuple(all_nodes[id_] for id_ in sorted(all_nodes, key=lambda id_: (id_ < 3000, id_)))
    observed = observation(
        *everybody, mode=modes.get(state, MetadataMode.MIGRATING), levels={"metadata.version": 21} if state else {},
        voting=quorum() if state else SILENT, cluster_id=CLUSTER,
    )  # fmt: skip
    claims = claimed(3003, epoch=3) if position not in (P.ZOOKEEPER, P.PRE_MIGRATION) else elected(1)
    progressed = progress(offset) if position in (P.COPIED, P.DUAL_WRITE, P.FINALIZED) else None
    if position is P.PRE_MIGRATION:
        progressed = progress(-1)
    kind = SourceKind.METADATA_LOG if state else SourceKind.API_REQUESTS
    observed = replace(
        observed,
        source=replace(observed.source, kind=kind, epoch=3),
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
    return replace(observed, **parts)


REFUSES = Failure(FailureKind.NOT_LISTENING, "controller-1:9093", "connection refused", "start it")


def in_dual_write_for(span: timedelta, offset: int = 103) -> Observation:
    """Build a cluster that has been in dual write for `span`, by its metadata log."""
    return replace(cluster(P.DUAL_WRITE), last_registration=LastRegistration(offset, NOW - span, NOW))


def without_quorum(observation: Observation, failure: Failure = REFUSES) -> Observation:
    """Stop all controllers. `failure`: the result of a connection to each of their addresses."""
    return replace(
        observation,
        nodes=tuple(node for node in observation.nodes if Role.BROKER in node.roles),
        source=replace(observation.source, kind=SourceKind.API_REQUESTS, offset=-1, epoch=-1),
        quorum=Unknown(SILENT), active_controller=Unknown(SILENT), zk_migration_state=Unknown(SILENT),
        registered_controllers=Unknown(failure), compared=Unknown(NOT_ASKED),
        former_controllers={voter.address: failure for voter in VOTERS},
    )  # fmt: skip


def wanting(
    desired: Desired, *, hold: timedelta = timedelta(0), rollout: Rollout = BY_HAND, **fields: Any
) -> DesiredState:
    return DesiredState({}, migration=Migration(desired, hold), rollout=rollout, **fields)


class Look:
    """The decision of a process about an observation, `seconds` after its decision `before`."""

    def __init__(
        self,
        wanted: DesiredState,
        observation: Observation,
        *,
        memory: Memory = NO_MEMORY,
        sent: tuple[InFlight, ...] = (),
        status: Status = EMPTY,
        before: Look | None = None,
        seconds: float = 2.0,
        lived: timedelta = timedelta(0),
    ) -> None:
        self.wanted, self.observation = wanted, observation
        self.monotonic: float = (before.monotonic if before is not None else 0.0) + seconds
        replication = Replication(observation.partitions.value) if isinstance(observation.partitions, Known) else None
        stage_memory = (
            dict(chain.from_iterable(stage.stage_memory.items() for stage in before.stages))
            if before is not None
            else {}
        )
        self.facts = StageInput(
            wanted, observation, memory, status, sent, observation.at, lambda _: lived, lambda _: lived,
            restarts=driver_of(wanted.rollout).restarts_nodes, replication=replication, monotonic=self.monotonic,
            stage_memory=stage_memory,
        )  # fmt: skip
        self.proposal: Proposal
        self.stages: tuple[StageState, ...]
        self.proposal, self.stages = assess(self.facts)
        self.decision: Decision = decide(
            GateInput(wanted, observation, self.proposal.plan, self.stages, self.facts.current_time, memory)
        )


def looks(wanted: DesiredState, observation: Observation, **options: Any) -> Look:
    """Return the second of two reconciliations: it knows for how long ZooKeeper has been behind the metadata log."""
    first = Look(
        wanted,
        replace(observation, source=replace(observation.source, offset=observation.source.offset - 3)),
        **options,
    )
    return Look(wanted, observation, before=first, **options)


def restarted(look: Look) -> int:
    """Return the node that the decision restarts next."""
    assert isinstance(look.decision, Act), look.decision
    step = look.decision.step
    assert isinstance(step, RestartNode)
    return step.node_id


def message_of(look: Look) -> str:
    return "\n".join(
        [look.decision.message if not isinstance(look.decision, Act) else "", *map(str, look.decision.blockers)]
    )


def released(look: Look) -> DeleteZnodes:
    assert isinstance(look.decision, Act), look.decision
    assert isinstance(look.decision.step, DeleteZnodes)
    return look.decision.step


def memory_from(status: Status) -> Memory:
    """Build the memory of a process that has just read this status: no time has passed since."""
    return memory_of(status, lambda _: timedelta(0), lambda _: timedelta(0))


def status_after(look: Look, previous: Status = EMPTY) -> Status:
    """Return the status that is written after this look."""
    return status_of(
        look.decision, look.observation, look.proposal.plan, look.stages,
        generation=1, previous=previous, version="0.1.0", now=look.facts.current_time,
    )  # fmt: skip


FINALIZING = wanting(Desired.FINALIZED, consents=frozenset({"zk-finalize"}))


def approved(observation: Observation, **of_wanted: Any) -> Look:
    """Return a look at a migration to be finalized whose plan was approved."""
    wanted = replace(FINALIZING, may_approve_unseen=True, **of_wanted)
    shown = Look(wanted, observation).proposal.plan.hash
    return looks(replace(wanted, approvals=frozenset({shown})), observation)


def status_after_decision(look: Look, status: Status = EMPTY) -> Status:
    """Return the status that is written once this look has decided."""
    for stage in look.stages:
        status = stage.remembered(status)
    for stage in look.stages:
        status = stage.decided(look.decision, status)
    return status_of(
        look.decision,
        look.observation,
        look.proposal.plan,
        look.stages,
        generation=1,
        previous=status,
        version="1",
        now=NOW,
    )


def status_that_requests_consents(wanted: DesiredState, observation: Observation, status: Status = EMPTY) -> Status:
    """Return the status after a look that asked for the consents, before the document has them."""
    memory = memory_from(status)
    return status_after_decision(
        looks(replace(wanted, consents=frozenset()), observation, status=status, memory=memory), status
    )
