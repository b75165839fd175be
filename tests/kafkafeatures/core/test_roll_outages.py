"""Rolls while brokers are away: stuck brokers go first, also without known partitions."""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.since_status import NodeSince
from kafkafeatures.api.status import EMPTY
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Wait
from kafkafeatures.core.facts.observation import NodeState, Observation, Source, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, Role
from kafkafeatures.core.roll.report import rollout_status
from tests.kafkafeatures.core.replicas import row
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    CRASHES,
    ONE_AT_A_TIME,
    PARTITIONS,
    ROLLED_CONTROLLERS,
    UID_OF_REPLACED,
    a_node,
    a_pod,
    ago,
    cluster,
    current,
    fresh,
    refused,
    replaced,
    restart_in,
    restarted_id,
    rolled,
    sent,
    with_workloads,
    workloads_of,
)
from tests.kafkafeatures.worlds import NOW, SILENT


def test_a_stuck_node_is_restarted_once_its_image_is_reverted_although_the_roll_is_halted() -> None:
    bad = replaced(1, revision="bad", **CRASHES)
    away = replace(a_node(1), state=NodeState.GHOST)
    isr = tuple(replace(partition, in_sync=partition.isr - {1}) for partition in PARTITIONS)
    observation = cluster({**current(*CONTROLLERS, *BROKERS), **bad}, {1: away}, isr)
    # Restarted 20 minutes ago, and not back after 15: the roll is halted. The revision of the pod is no longer that of
    # the template.
    step = restart_in(rolled(observation, sent(1, minutes=20)))
    assert (step.node_id, step.pod_uid) == (1, UID_OF_REPLACED)


def test_a_stuck_node_is_restarted_although_it_is_the_last_replica_in_sync_of_leaderless_partitions() -> None:
    """Kafka never takes the last replica out of an ISR. Only the restart brings these partitions back."""
    bad = replaced(1, revision="bad", **CRASHES)
    away = replace(a_node(1), state=NodeState.GHOST)
    isr = [replace(partition, in_sync=partition.isr - {1}) for partition in PARTITIONS]
    lost = row("single", 1, offline=True), row("lost", 1, 2, 3, isr=[1], offline=True)
    observation = cluster({**current(*CONTROLLERS, *BROKERS), **bad}, {1: away}, (*isr, *lost))
    assert restarted_id(rolled(observation, sent(1, minutes=20))) == 1


OUTAGE = {id_: replace(a_node(id_, state=NodeState.GHOST), proved_at="") for id_ in BROKERS}
NOBODY = Failure(FailureKind.UNREACHABLE, "brokers", "none of them is unfenced")


def in_outage(waiting: str = "CrashLoopBackOff", **of_node: Any) -> Observation:
    """Fence all brokers, which crash on a former image. `waiting`: state of the container of broker 2, which the other
    pods do not have; `of_node`: fields of broker 5.
    """
    bad = {id_: a_pod(id_, revision="bad", ready=False, **{**CRASHES, "waiting": ""}) for id_ in BROKERS}
    bad[2] = replace(bad[2], waiting=waiting)
    nodes = {**OUTAGE, 5: replace(OUTAGE[5], **{"state": NodeState.FENCED, **of_node})}
    return cluster({**current(*CONTROLLERS), **bad}, nodes, NOBODY)


def test_a_stuck_broker_is_restarted_without_known_partitions_if_every_broker_is_fenced() -> None:
    """No broker tells its default of min.insync.replicas, so the partitions are not known. But no broker leads any, and
    without a restart the outage would never end.
    """
    assert restarted_id(rolled(in_outage())) == 2
    running = in_outage(waiting="")
    assert "has not confirmed its node id" in refused(rolled(running), Reason.ROLLING_NODES)


@pytest.mark.parametrize(
    "doubtful",
    [
        in_outage(state=NodeState.LIVE),
        in_outage(state=NodeState.UNREACHABLE),
        in_outage(roles=(Role.CONTROLLER, Role.BROKER)),
        replace(in_outage(), source=Source(SourceKind.API_REQUESTS)),
        replace(in_outage(), finalized=Unknown(NOT_ASKED)),
    ],
    ids=["broker 5 is live", "broker 5 may be unfenced", "combined node", "log not read", "levels unknown"],
)
def test_no_stuck_broker_is_restarted_without_known_partitions_while_some_broker_may_lead(
    doubtful: Observation,
) -> None:
    assert isinstance(rolled(doubtful).decision, Wait)


def test_a_pod_that_two_nodes_advertise_is_not_evicted_even_in_an_outage() -> None:
    observation = in_outage(host=OUTAGE[2].host, listeners=OUTAGE[2].listeners)
    assert "but a pod runs one node" in refused(rolled(observation), Reason.INVALID_SPEC)


def test_a_stuck_node_whose_budget_allows_no_eviction_is_held_with_the_patch_as_remedy() -> None:
    bad = replaced(1, revision="bad", ready=False, **CRASHES)
    isr = tuple(replace(partition, in_sync=partition.isr - {1}) for partition in PARTITIONS)
    away = {1: replace(a_node(1), state=NodeState.GHOST)}
    observation = cluster({**current(*CONTROLLERS, *BROKERS), **bad}, away, isr, allowed=0)
    assert restarted_id(rolled(observation, sent(1, minutes=20))) == 1
    (several,) = workloads_of(observation).budgets
    strict_budgets = with_workloads(observation, budgets=(replace(several, always_allows_unhealthy=False),))
    message = refused(rolled(strict_budgets, sent(1, minutes=20)), Reason.WAITING_FOR_BUDGET)
    assert """pod broker-1 now, which does not run (CrashLoopBackOff); in Git, or: kubectl -n kafka patch""" in message
    assert '"unhealthyPodEvictionPolicy":"AlwaysAllow"' in message


@pytest.mark.parametrize("unsent", [2, 3])
def test_a_stuck_node_is_restarted_before_an_unsent_restart(unsent: int) -> None:
    """The restart of broker 3 may be waiting for stuck broker 2; or the unsent restart is that of broker 2 itself."""
    isr = tuple(replace(partition, in_sync=partition.isr - {2}) for partition in PARTITIONS)
    away = {2: replace(a_node(2), state=NodeState.GHOST)}
    observation = cluster({**ROLLED_CONTROLLERS, 2: a_pod(2, **CRASHES)}, away, isr)
    step = restart_in(rolled(observation, sent(unsent)))
    assert step.node_id == 2
    if unsent == 2:
        assert step == sent(2).step  # it is sent once more as it was


def test_a_node_that_answers_is_not_stuck_whatever_kubernetes_says_of_its_container() -> None:
    """If it counted as stuck, the second of three controllers would be stopped while the first one is on its way."""
    crashing = {3003: a_pod(3003, **CRASHES)}
    pods, lost = {**replaced(3002, ready=False, phase="Pending"), **crashing}, Unknown(SILENT)
    for nodes, goes in (({}, False), ({3003: replace(a_node(3003), state=NodeState.UNREACHABLE)}, True)):
        observation = replace(cluster(pods, {**fresh(3002), **nodes}), quorum=lost, active_controller=lost)
        assert isinstance(rolled(observation, sent(3002)).decision, Act) is goes


def hung(*done: int, **of_node: Any) -> Observation:
    """Build a roll in which broker 5 has not confirmed its id. `done`: brokers that need no restart; `of_node`: other
    fields of broker 5.
    """
    silent = replace(a_node(5), **{"state": NodeState.UNREACHABLE, "proved_at": "", **of_node})
    return cluster({**ROLLED_CONTROLLERS, **current(*done)}, {5: silent})


def test_a_broker_with_unconfirmed_id_holds_only_brokers_that_share_a_partition_with_it() -> None:
    """Brokers 2 and 5 share none."""
    assert restarted_id(rolled(hung())) == 2
    assert restarted_id(rolled(hung(state=NodeState.LIVE))) == 2
    assert "; of the others: broker 1 cannot be restarted now" in refused(rolled(hung(2)), Reason.ROLLING_NODES)


def test_a_broker_with_unconfirmed_id_counts_towards_max_parallel_only_if_it_is_unreachable() -> None:
    assert restarted_id(rolled(hung(state=NodeState.LIVE), rollout=ONE_AT_A_TIME)) == 2
    assert "broker 5 is unavailable" in refused(rolled(hung(), rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)


@pytest.mark.parametrize("done", [(2,), (1, 2, 3, 4, 6)], ids=["others are left", "last of the roll"])
def test_the_message_about_a_broker_with_unconfirmed_id_has_its_start_and_says_where_to_look(
    done: tuple[int, ...],
) -> None:
    assert refused(rolled(hung(*done)), Reason.ROLLING_NODES).startswith(
        f"broker 5 has not confirmed its node id at an address of pod broker-5 since {NOW:%Y-%m-%dT%H:%M:%SZ}; see "
        "`kubectl logs broker-5`, and whether the operator reaches 10.0.0.5; if the node hangs"
    )


def test_the_status_keeps_since_when_the_id_of_a_broker_is_unconfirmed() -> None:
    roll = rolled(hung(2))
    assert roll.decision is not None
    status = rollout_status(roll, roll.decision, None, ago(0))
    assert status is not None
    assert [node.node_id for node in status.unconfirmed] == [5]
    long_ago = replace(status, unconfirmed=(NodeSince(node_id=5, since=Stamp("2020-01-01T00:00:00Z")),))
    message = refused(rolled(hung(2), status=replace(EMPTY, rollout=long_ago)), Reason.ROLLING_NODES)
    assert " since 2020-01-01T00:00:00Z; " in message


def test_a_silent_broker_without_partitions_counts_as_away_while_it_has_a_pod() -> None:
    """The node is not a ghost: its pod may start it again at any moment."""
    partitions = tuple(
        row("orders", *(id_ for id_ in BROKERS if id_ not in (5, 6)), number=number) for number in range(3)
    )
    silent = replace(a_node(5), state=NodeState.GHOST, answer=Unknown(SILENT), proved_at="")
    roll = rolled(cluster(ROLLED_CONTROLLERS, {5: silent}, partitions), rollout=ONE_AT_A_TIME)
    assert "broker 5 is unavailable" in refused(roll, Reason.ROLLING_NODES)
