"""A migration that is given up before the quorum took over: the deletion of the znodes that its controllers left."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, MigrationStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Done, Stalled, Wait
from kafkafeatures.core.facts.observation import MetadataMode, Observation, Source, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.migration.stopped import STILL_FOR
from tests.kafkafeatures.core.fleets import pod, stateful_set
from tests.kafkafeatures.core.migrations import (
    BROKERS,
    SEEN_VOTERS,
    Look,
    a_node,
    cluster,
    compared,
    looks,
    message_of,
    released,
    restarted,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.ensembles import elected, progress
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.worlds import NOW, SILENT, known

P, D = Position, Desired
AT_END = "the migration is at RolledBack"


WITH_AND_WITHOUT_FLAG = pytest.mark.parametrize("shape", [Shape.PLAIN_BROKER, Shape.FLAGGED_BROKER])


def running(shape: Shape) -> Observation:
    """Build a cluster whose brokers have this shape; its quorum has not taken over."""
    return cluster(P.PRE_MIGRATION, *(a_node(id_, shape) for id_ in BROKERS))


def without_znodes(shape: Shape) -> Observation:
    """Build the cluster of `running` after its controllers have stopped and `/migration` was deleted. Broker 1 is the
    controller.
    """
    read = known(znodes(controller=elected(1), migration=None), SourceKind.ZOOKEEPER)
    return replace(without_quorum(running(shape)), zookeeper=read)


@WITH_AND_WITHOUT_FLAG
def test_the_controllers_of_a_quorum_that_never_took_over_are_stopped_before_znodes_are_deleted(shape: Shape) -> None:
    look = looks(wanting(D.ROLLED_BACK), running(shape))
    assert isinstance(look.decision, Wait)
    assert "stop the controllers" in message_of(look)
    assert steps(look)[:2] == [
        "PreMigration or Flagging -> ZooKeeper or Released: stop the controllers (on Kubernetes: 0 replicas)",
        "ZooKeeper or Released: delete /migration",
    ]


@WITH_AND_WITHOUT_FLAG
def test_the_znode_of_a_quorum_that_never_took_over_is_deleted_once_its_controllers_have_stopped(shape: Shape) -> None:
    stopped = without_quorum(running(shape))
    first = Look(wanting(D.ROLLED_BACK), stopped)
    assert isinstance(first.decision, Wait)
    step = released(Look(wanting(D.ROLLED_BACK), stopped, before=first, seconds=STILL_FOR, status=SEEN_VOTERS))
    assert (set(step.deletes), step.raise_to) == ({"/migration"}, None)
    assert "kraft_metadata_offset" in step.znode_content


def test_brokers_lose_the_flag_after_the_znode_was_deleted() -> None:
    # Broker 1 is the controller, and goes last.
    assert restarted(looks(wanting(D.ROLLED_BACK), without_znodes(Shape.FLAGGED_BROKER))) == 2


def test_a_migration_that_was_given_up_is_done_once_no_broker_has_the_flag_and_no_znode_is_left() -> None:
    observation = replace(without_znodes(Shape.PLAIN_BROKER), mode=known(MetadataMode.ZOOKEEPER))
    assert looks(wanting(D.ROLLED_BACK), observation).decision == Done(Reason.IN_SYNC, AT_END)
    remembers_deletion = Status(migration=MigrationStatus(kept_migration_node="{}"))
    message = f"{AT_END}; before you start the controllers again, wipe their disks"
    look = looks(wanting(D.ROLLED_BACK), observation, status=remembers_deletion)
    assert look.decision == Done(Reason.IN_SYNC, message)


@pytest.mark.parametrize(("desired", "stops"), [(D.ROLLED_BACK, True), (D.DUAL_WRITE, False)])
def test_the_remedy_for_a_controller_that_runs_alone_says_to_stop_it_only_during_a_rollback(
    desired: Desired, stops: bool
) -> None:
    """All controllers were to be stopped, and 3001 was started again: without a majority the phase cannot be read."""
    failure = Failure(FailureKind.NO_LEADER, "metadata log", "no active controller is known")
    silent = (replace(a_node(id_, Shape.MIGRATING_CONTROLLER), answer=Unknown(SILENT)) for id_ in (3002, 3003))
    source = Source(SourceKind.API_REQUESTS)
    alone = replace(cluster(P.PRE_MIGRATION, *silent), source=source, zk_migration_state=Unknown(failure))
    look = looks(wanting(desired), alone)
    assert isinstance(look.decision, Wait)
    assert message_of(look).startswith(
        "the phase is not known: quorum: only 1 of 3 controllers can be reached (3002, 3003 cannot), and a majority is"
    )
    remedy = look.decision.blockers[0].remedy
    start = "start controllers 3002, 3003"
    asks = "if you stopped controllers 3002, 3003 for a rollback, stop controller 3001 too; else "
    assert remedy == (f"{asks}{start}" if stops else start)


def test_a_migration_is_not_rolled_back_while_a_broker_with_replicas_is_not_registered_or_may_not_be() -> None:
    """A broker that is down may come back with the flag. If the partitions cannot be read, there may be such a
    broker.
    """
    every_broker = cluster(P.ZOOKEEPER)
    assert isinstance(looks(wanting(D.ROLLED_BACK), every_broker).decision, Done)
    unread = Unknown(Failure(FailureKind.TIMED_OUT, "partitions", "no answer"))
    without_3 = tuple(node for node in every_broker.nodes if node.id != 3)
    for observation, says in (
        (replace(every_broker, nodes=without_3), "start broker 3"),
        (replace(every_broker, partitions=unread), "no answer"),
    ):
        look = looks(wanting(D.ROLLED_BACK), observation)
        assert isinstance(look.decision, Wait)
        assert says in message_of(look)
        assert phase(look) == "RollingBack"


def phase(look: Look) -> str:
    (stage,) = (stage for stage in look.stages if stage.kind == "Migration")
    reported = stage.reported(look.decision, EMPTY, EMPTY).migration
    return reported.phase if reported is not None else ""


def test_a_migration_is_not_rolled_back_while_znodes_of_the_quorum_exist() -> None:
    stopped = without_quorum(cluster(P.PRE_MIGRATION))
    look = looks(wanting(D.ROLLED_BACK), stopped)
    (stage,) = (stage for stage in look.stages if stage.kind == "Migration")
    settled = stage.conditions(look.decision)[Condition.MIGRATION_SETTLED]
    assert settled is not None
    assert settled[0] == "False"
    (planned,) = look.proposal.plan.stages  # the plan still has the rollback to complete
    assert dict(planned.start) == {"phase": "RollingBack"}


def steps(look: Look) -> list[str]:
    return [step.detail for work in look.proposal.plan.work for step in work.steps]


@pytest.mark.parametrize("position", [P.PRE_MIGRATION, P.COPIED])
def test_no_znode_is_deleted_while_a_pod_of_a_controller_is_left_or_pods_are_unread(position: Position) -> None:
    """A controller whose pod is not ready may still write to ZooKeeper."""
    pods = known(
        WorkloadsReading(NOW, (stateful_set(pod(3001, ready=False), name="controllers", role="controllers"),)),
        SourceKind.KUBERNETES,
    )
    unread = Unknown(Failure(FailureKind.TIMED_OUT, "pods", "no answer"))
    for workloads, says in ((pods, "controllers to 0 replicas"), (unread, "what the pods run is not known: ")):
        observation = replace(without_quorum(cluster(position)), workloads=workloads)
        first = Look(wanting(D.ROLLED_BACK), observation)
        look = Look(wanting(D.ROLLED_BACK), observation, before=first, seconds=STILL_FOR, status=compared())
        assert not isinstance(look.decision, Act)
        assert says in message_of(look)


def test_a_migration_znode_of_an_earlier_copy_is_a_blocker_before_new_controllers_start() -> None:
    """New controllers would skip the copy, and delete every topic. An offset of 0 or more shows that there was one."""
    stale = known(znodes(controller=elected(1), migration=progress(409)), SourceKind.ZOOKEEPER)
    look = looks(wanting(D.PRE_MIGRATION), replace(cluster(P.ZOOKEEPER), zookeeper=stale))
    assert isinstance(look.decision, Stalled)
    assert "delete every topic" in message_of(look)
    assert "delete /migration" in message_of(look)
