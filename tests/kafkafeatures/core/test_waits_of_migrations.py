"""Every wait and every contradiction of a migration has a subject, a message and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Pending
from kafkafeatures.core.engine.waits import explained
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.migration.contradictions import CONTRADICTIONS
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from tests.kafkafeatures.core.migrations import (
    BROKERS,
    CONTROLLERS,
    Look,
    a_node,
    cluster,
    status_after,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.ensembles import claimed, elected, progress
from tests.kafkafeatures.worlds import NOW, SILENT, known

P, D = Position, Desired
POSITIONS = (P.ZOOKEEPER, P.PRE_MIGRATION, P.COPIED, P.DUAL_WRITE, P.FINALIZED)
FAILED = Failure(FailureKind.TIMED_OUT, "zk1:2181", "no answer within 5 s")
Change = Callable[[Observation], Observation]


def with_znodes(**parts: Any) -> Change:
    def changed(observation: Observation) -> Observation:
        assert isinstance(observation.zookeeper, Known)
        return replace(
            observation, zookeeper=replace(observation.zookeeper, value=replace(observation.zookeeper.value, **parts))
        )

    return changed


def with_fact(**parts: Any) -> Change:
    return lambda observation: replace(observation, **parts)


def with_silent(*ids: int) -> Change:
    """Make these registered nodes silent."""

    def changed(observation: Observation) -> Observation:
        return replace(
            observation,
            nodes=tuple(
                replace(node, answer=Unknown(SILENT), state=NodeState.UNREACHABLE) if node.id in ids else node
                for node in observation.nodes
            ),
        )

    return changed


def with_shape(shape: Shape, *ids: int) -> Change:
    def changed(observation: Observation) -> Observation:
        return replace(
            observation, nodes=tuple(a_node(node.id, shape) if node.id in ids else node for node in observation.nodes)
        )

    return changed


CHANGES: Mapping[str, Change] = {
    "nothing": lambda observation: observation,
    "a broker is away": with_silent(2),
    "all brokers are away": with_silent(*BROKERS),
    "a controller is away": with_silent(3002),
    "two controllers are away": with_silent(3001, 3002),
    "no controller is left": without_quorum,
    "no controller answers": lambda observation: without_quorum(observation, SILENT),
    "/controller is absent": with_znodes(controller=None),
    "/migration is absent": with_znodes(migration=None),
    "neither znode is there": with_znodes(controller=None, migration=None),
    "a broker is controller": with_znodes(controller=elected(1)),
    "a broker is controller, nothing was copied": with_znodes(controller=elected(1), migration=None),
    "an older controller is claimed": with_znodes(controller=claimed(3001, epoch=1)),
    "the quorum has claimed /controller": with_znodes(controller=claimed(3003, epoch=3)),
    "/migration is of another log": with_znodes(migration=progress(999)),
    "ZooKeeper does not answer": with_fact(zookeeper=Unknown(FAILED)),
    "ZooKeeper was not asked": with_fact(zookeeper=Unknown(NOT_ASKED)),
    "the quorum is not known": with_fact(quorum=Unknown(FAILED)),
    "no active controller": with_fact(active_controller=Unknown(FAILED), quorum=Unknown(FAILED)),
    "registered brokers are not known": with_fact(registered_brokers=Unknown(FAILED)),
    "partitions are not known": with_fact(partitions=Unknown(FAILED)),
    "the mode is not known": with_fact(mode=Unknown(FAILED)),
    "the cluster id is not known": with_fact(cluster_id=Unknown(FAILED)),
    "pods are not known": with_fact(workloads=Unknown(FAILED)),
    "not compared": with_fact(compared=Unknown(NOT_ASKED)),
    "comparing failed": with_fact(compared=Unknown(FAILED)),
    "both stores differ": with_fact(
        compared=known(StoreComparison(NOW, 99, 2, "2 topics differ", ("topic a", "topic b")))
    ),
    "not surveyed": with_fact(surveyed=Unknown(FAILED)),
    "a controller without the flag": with_shape(Shape.CONTROLLER, 3001),
    "all controllers without the flag": with_shape(Shape.CONTROLLER, *CONTROLLERS),
    "a broker with the flag": with_shape(Shape.FLAGGED_BROKER, 1),
    "all brokers with the flag": with_shape(Shape.FLAGGED_BROKER, *BROKERS),
    "a broker without the flag": with_shape(Shape.PLAIN_BROKER, 1),
    "a broker in KRaft mode": with_shape(Shape.KRAFT_BROKER, 1),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("position", POSITIONS)
def test_every_wait_of_a_migration_has_a_subject_a_start_and_a_remedy(position: Position, change: str) -> None:
    """Decisions differ at once, after a minute (70 s), and after an hour."""
    for desired in (D.PRE_MIGRATION, D.DUAL_WRITE, D.FINALIZED, D.ROLLED_BACK):
        look, status = None, EMPTY
        for seconds in (2.0, 70.0, 3600.0):
            wanted = wanting(desired, consents=frozenset({"zk-finalize"} if seconds > 1000 else ()))
            look = Look(wanted, CHANGES[change](cluster(position)), before=look, seconds=seconds, status=status)
            decision = look.decision
            status = status_after(look, status)
            for blocker in decision.blockers:
                assert blocker.message, blocker
                assert blocker.remedy, blocker
                assert blocker.subject, blocker
            if not isinstance(decision, Pending):
                continue
            assert type(decision.message) is type(decision.remedy) is str, decision
            assert decision.message, decision
            assert decision.subject, decision
            assert decision.remedy, decision
            assert status.ready_reason is not None
            assert (status.ready_reason.subject, status.ready_reason.since) == (decision.subject, stamp(NOW))
            message = explained(decision, status, stamp(NOW), lambda _: timedelta(minutes=3))
            assert message is not None
            whole = "; ".join([message.message, *(blocker.remedy for blocker in message.blockers)])
            assert decision.remedy in whole, message


def test_every_contradiction_of_a_migration_has_a_subject_a_message_and_a_remedy() -> None:
    for row in CONTRADICTIONS:
        assert row.message, row
        assert row.remedy, row
        assert row.subject, row
        assert ("{nodes}" not in row.message + row.subject) or row.nodes is not None, row
