"""A migration that is given up before the quorum took over: the deletion of the znodes that its controllers left."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, MigrationStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Done, Stalled, Wait
from kafkafeatures.core.facts.observation import MetadataMode, Source, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
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


@pytest.mark.parametrize("shape", [Shape.PLAIN_BROKER, Shape.FLAGGED_BROKER])
def test_znodes_of_a_quorum_that_never_took_over_are_deleted_once_its_controllers_have_stopped(shape: Shape) -> None:
    running = cluster(P.PRE_MIGRATION, *(a_node(id_, shape) for id_ in BROKERS))
    asks = looks(wanting(D.ROLLED_BACK), running)
    assert isinstance(asks.decision, Wait)
    assert "stop the controllers" in message_of(asks)
    assert [step for step in steps(asks) if step.endswith("delete /migration")] == steps(asks)[1:2]  # after the stop

    gone = without_quorum(running)
    first = Look(wanting(D.ROLLED_BACK), gone)
    assert isinstance(first.decision, Wait)
    step = released(Look(wanting(D.ROLLED_BACK), gone, before=first, seconds=4, status=SEEN_VOTERS))
    assert (set(step.deletes), step.raise_to) == ({"/migration"}, None)
    assert "kraft_metadata_offset" in step.znode_content

    without = replace(gone, zookeeper=known(znodes(controller=elected(1), migration=None), SourceKind.ZOOKEEPER))
    if shape is Shape.PLAIN_BROKER:
        without = replace(without, mode=known(MetadataMode.ZOOKEEPER))
        assert looks(wanting(D.ROLLED_BACK), without).decision == Done(Reason.IN_SYNC, AT_END)
        went_back = replace(EMPTY, migration=MigrationStatus(kept_migration_node=step.znode_content))
        again = f"{AT_END}; before you start the controllers again, wipe their disks"
        assert looks(wanting(D.ROLLED_BACK), without, status=went_back).decision == Done(Reason.IN_SYNC, again)
    else:
        assert restarted(looks(wanting(D.ROLLED_BACK), without)) == 2


@pytest.mark.parametrize(("desired", "stops"), [(D.ROLLED_BACK, True), (D.DUAL_WRITE, False)])
def test_a_controller_that_came_back_alone_during_a_rollback_is_a_blocker_with_a_remedy(
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


def test_a_migration_is_not_rolled_back_while_a_broker_with_replicas_is_not_registered() -> None:
    """A broker that is down may come back with the flag."""
    before = cluster(P.ZOOKEEPER)
    assert isinstance(looks(wanting(D.ROLLED_BACK), before).decision, Done)
    unread = Unknown(Failure(FailureKind.TIMED_OUT, "partitions", "no answer"))
    down = tuple(node for node in before.nodes if node.id != 3)
    for observation, says in (
        (replace(before, nodes=down), "start broker 3"),
        (replace(before, partitions=unread), "no answer"),
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
    gone = without_quorum(cluster(P.PRE_MIGRATION))
    look = looks(wanting(D.ROLLED_BACK), gone)
    (stage,) = (stage for stage in look.stages if stage.kind == "Migration")
    settled = stage.conditions(look.decision)[Condition.MIGRATION_SETTLED]
    assert settled is not None
    assert settled[0] == "False"
    (planned,) = look.proposal.plan.stages
    assert dict(planned.start) == {"phase": "RollingBack"}


def steps(look: Look) -> list[str]:
    return [step.detail for work in look.proposal.plan.work for step in work.steps()]


@pytest.mark.parametrize("position", [P.PRE_MIGRATION, P.COPIED])
def test_no_znode_is_deleted_while_a_pod_of_a_controller_is_left(position: Position) -> None:
    """A controller whose pod is not ready may still write to ZooKeeper."""
    pods = known(
        WorkloadsReading(NOW, (stateful_set(pod(3001, ready=False), name="controllers", role="controllers"),)),
        SourceKind.KUBERNETES,
    )
    unread = Unknown(Failure(FailureKind.TIMED_OUT, "pods", "no answer"))
    for workloads, says in ((pods, "controllers to 0 replicas"), (unread, "pods could not be read")):
        observation = replace(without_quorum(cluster(position)), workloads=workloads)
        first = Look(wanting(D.ROLLED_BACK), observation)
        look = Look(wanting(D.ROLLED_BACK), observation, before=first, seconds=4, status=compared())
        assert not isinstance(look.decision, Act)
        assert says in message_of(look)


def test_a_migration_znode_of_an_earlier_copy_is_a_blocker_before_new_controllers_start() -> None:
    """New controllers would skip the copy, and delete every topic."""
    stale = known(znodes(controller=elected(1), migration=progress(409)), SourceKind.ZOOKEEPER)
    look = looks(wanting(D.PRE_MIGRATION), replace(cluster(P.ZOOKEEPER), zookeeper=stale))
    assert isinstance(look.decision, Stalled)
    assert "delete every topic" in message_of(look)
    assert "delete /migration" in message_of(look)
