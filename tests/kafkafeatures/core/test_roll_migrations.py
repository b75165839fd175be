"""While a migration from ZooKeeper is or may be open, no node is restarted by a roll, and no person is asked to restart
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState, Rollout
from kafkafeatures.core.facts.observation import MetadataMode, Node, NodeState, Observation, Source, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.drivers import MANUAL
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    CRASHES,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    a_node,
    a_pod,
    cluster,
    current,
    fresh,
    refused,
    replaced,
    restarted_id,
    rolled,
    sent,
)
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import NOW, SILENT, answer, known

RAISE = UpdateFeature("metadata.version", 27, 30)
BY_HAND = Rollout(MANUAL.name)
OF_3_9: Mapping[str, Any] = {"metadata.version": (1, 21), "kraft.version": (0, 1)}
"""Levels that a release with migrations supports."""


def mode(observation: Observation, metadata_mode: MetadataMode) -> Observation:
    return replace(observation, mode=known(metadata_mode))


def open_(observation: Observation) -> Observation:
    return mode(observation, MetadataMode.MIGRATING)


def still_in_zookeeper(observation: Observation) -> Observation:
    nodes = tuple(replace(node, migrating_from_zookeeper=node.id == 2) for node in observation.nodes)
    return replace(observation, nodes=nodes)


OPEN = {
    "in dual write": (open_, "a migration from ZooKeeper is in progress"),
    "the mode is not known": (
        lambda observation: replace(observation, mode=Unknown(SILENT)),
        "the metadata mode is not known",
    ),
    "a broker is still in it": (still_in_zookeeper, "still registered as part of a migration from ZooKeeper: broker 2"),
}


@pytest.mark.parametrize(("change", "words"), OPEN.values(), ids=OPEN)
def test_no_node_is_restarted_while_a_migration_may_be_open_and_the_message_has_the_cause(
    change: Any, words: str
) -> None:
    """A controller that is restarted without the flag would finalize the migration."""
    for observation in (cluster(), cluster(ROLLED_CONTROLLERS), cluster(current(*BROKERS))):
        decision = rolled(change(observation)).decision
        assert isinstance(decision, Wait)
        assert decision.reason is Reason.MIGRATING
        assert words in decision.message
        assert [blocker.kind for blocker in decision.blockers] == [BlockerKind.MIGRATION]
        assert (
            decide(DesiredState({}, rollout=ROLLOUT), change(observation), roll=rolled(change(observation))) == decision
        )


def test_no_broker_is_restarted_in_a_migration_before_the_copy_while_the_log_has_no_partitions() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1, ready=False)}, fresh(1), partitions=())
    assert restarted_id(rolled(observation, sent(1))) in BROKERS
    refused(rolled(open_(observation), sent(1)), Reason.MIGRATING)


def test_neither_a_stuck_node_nor_a_decided_one_is_restarted_while_a_migration_is_open() -> None:
    stuck = {3002: a_pod(3002, revision="bad", ready=False, **CRASHES)}
    observation = cluster(stuck, {3002: replace(a_node(3002), state=NodeState.UNREACHABLE)})
    assert restarted_id(rolled(observation)) == 3002
    refused(rolled(open_(observation)), Reason.MIGRATING)
    refused(rolled(open_(cluster(ROLLED_CONTROLLERS)), sent(3)), Reason.MIGRATING)


def test_a_roll_in_zookeeper_mode_stalls_with_reason_zookeeper_mode() -> None:
    decision = rolled(mode(cluster(), MetadataMode.ZOOKEEPER)).decision
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.ZOOKEEPER_MODE


def test_no_person_is_asked_to_restart_a_node_in_a_migration_and_an_earlier_request_is_withdrawn() -> None:
    observation = replace(cluster(), workloads=Unknown(NOT_ASKED))
    assert restarted_id(rolled(observation, rollout=BY_HAND, changes=(RAISE,))) == 3002
    refused(rolled(open_(observation), rollout=BY_HAND, changes=(RAISE,)), Reason.MIGRATING)
    step = RestartNode(3002, "controller 3002", incarnation="first-3002", earlier_support="7-27")
    request = RestartInFlight(step, Stamp(NOW.isoformat()), Via.PERSON)
    assert not rolled(observation, request, rollout=BY_HAND, changes=(RAISE,)).withdrawn
    for partitions in (observation.partitions, Unknown(NOT_ASKED)):
        standing = replace(open_(observation), partitions=partitions)
        withdrawn = rolled(standing, request, rollout=BY_HAND, changes=(RAISE,)).withdrawn
        assert [restart for restart, _ in withdrawn] == [request]


def test_without_the_log_brokers_of_a_release_with_migrations_do_not_prove_that_none_is_open() -> None:
    """In dual write, brokers in KRaft mode answer in the same way as after a migration."""
    without_log = replace(cluster(ROLLED_CONTROLLERS), source=Source(SourceKind.API_REQUESTS))
    assert restarted_id(rolled(without_log)) in BROKERS

    def observation(of_controllers: NodeState, supported: Mapping[str, Any]) -> Observation:
        """Put controllers into this state; brokers answer that they support these levels."""

        def changed(node: Node) -> Node:
            if Role.BROKER in node.roles:
                return replace(node, answer=known(answer(supported), SourceKind.API_REQUESTS), registered={})
            silent = of_controllers is not NodeState.LIVE
            return replace(node, state=of_controllers, answer=Unknown(SILENT) if silent else node.answer)

        return replace(without_log, nodes=tuple(map(changed, without_log.nodes)))

    silent = refused(rolled(observation(NodeState.UNREACHABLE, OF_3_9)), Reason.MIGRATING)
    assert "no controller answers, so a migration from ZooKeeper may be in progress" in silent
    for certain in (
        observation(NodeState.LIVE, OF_3_9),
        observation(NodeState.UNREACHABLE, {"metadata.version": (7, 27)}),
    ):
        decision = rolled(certain).decision
        assert decision is not None
        assert getattr(decision, "reason", None) is not Reason.MIGRATING
    log = replace(observation(NodeState.UNREACHABLE, OF_3_9), source=Source(SourceKind.METADATA_LOG))
    assert getattr(rolled(log).decision, "reason", None) is not Reason.MIGRATING


def test_an_open_migration_halts_no_roll_where_no_node_needs_a_restart() -> None:
    assert rolled(open_(cluster(current(*CONTROLLERS, *BROKERS)))).decision is None
