"""A halted roll: no node goes to the revision that halted it, and a stuck node goes first only if it cannot start by
itself.

A stuck node is down, and its pod does not run. The cluster: controllers 3001 (the leader) to 3003, brokers 1 to 6; 1
and 4 share no partition. `sent(1, minutes=20)`: broker 1 was restarted 20 min ago, and nodeTimeout is 15 min.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.engine.desired_state import Window
from kafkafeatures.core.facts.observation import Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.workloads import Pod
from kafkafeatures.core.roll.restart_node import RestartInFlight
from kafkafeatures.core.roll.roll import Roll
from tests.kafkafeatures.core.fleets import NEW, OLD
from tests.kafkafeatures.core.replicas import Row, row
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    CRASHES,
    ONE_AT_A_TIME,
    PARTITIONS,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    a_node,
    a_pod,
    behind_gates,
    cluster,
    current,
    fresh,
    read_at,
    refused,
    replaced,
    restarted_id,
    rolled,
    sent,
    voting,
    with_workloads,
    workloads_of,
)
from tests.kafkafeatures.worlds import NOW, SILENT

CLOSED = replace(ROLLOUT, windows=(Window("0 22 * * *", timedelta(hours=1)),))  # it is 03:04
STOPS_BY = f"{NOW + timedelta(minutes=9):%H:%M:%S} UTC"
NO_QUORUM = Failure(FailureKind.NO_LEADER, "controllers", "no leader")


def seconds_ago(seconds: float) -> Any:
    return NOW - timedelta(seconds=seconds)


def ended(seconds: float, reason: str = "Error", *, waiting: str = "CrashLoopBackOff", **fields: Any) -> dict[str, Any]:
    """Fields of a pod whose container ended so many seconds ago for this reason, and is not started again yet."""
    return {"waiting": waiting, "ended_for": reason, "ended_at": seconds_ago(seconds), **fields}


MOMENTARY: Mapping[str, dict[str, Any]] = {
    "crashed a moment ago": ended(3, restarts=1),
    "crashed often, and 3 s ago, within the back-off": ended(3, restarts=9),
    "out of memory": ended(90, "OOMKilled", restarts=9),
    "started again": ended(1, waiting="Error"),
    "being created": {"waiting": "ContainerCreating", "phase": "Pending"},
    "nobody remembers": {"waiting": "CrashLoopBackOff", "restarts": 9},
}
"""Pods that run again by themselves, or may."""

LASTING: Mapping[str, Mapping[str, Any]] = {
    "crashes": CRASHES,
    "cannot be started": ended(5, "StartError"),
    "cannot be pulled": {"waiting": "ImagePullBackOff", "phase": "Pending"},
    "is not configured": {"waiting": "CreateContainerConfigError", "phase": "Pending"},
    "an init container cannot be pulled": {"waiting": "Init:ErrImagePull", "phase": "Pending"},
    "finds no place": {"waiting": "Unschedulable", "phase": "Pending"},
}
"""Pods that do not run as they are, however long one waits."""


def down_pod(id_: int, revision: str = "bad", **fields: Any) -> Mapping[int, Pod]:
    """Build the pod of a node that is down; by default its image cannot run."""
    return {id_: a_pod(id_, **{"revision": revision, "ready": False, **(fields or CRASHES)})}


def down(*ids: int) -> Mapping[int, Node]:
    return {
        id_: replace(a_node(id_), state=NodeState.UNREACHABLE if id_ >= 3000 else NodeState.GHOST, proved_at="")
        for id_ in ids
    }


def without(*ids: int) -> tuple[Row, ...]:
    """Return all partitions, with these brokers out of sync."""
    return tuple(replace(partition, in_sync=partition.isr - {*ids}) for partition in PARTITIONS)


def halted_by_1(pods: Mapping[int, Pod], nodes: Mapping[int, Node], **of_brokers: Any) -> Observation:
    """Build a roll in which broker 1 does not come back on the new image."""
    gone = {id_ for id_ in nodes if id_ < 3000}
    failed = replaced(1, ready=False, **CRASHES)
    return cluster({**ROLLED_CONTROLLERS, **failed, **pods}, {**down(1), **nodes}, without(1, *gone), **of_brokers)


# --- nothing goes to what halted the roll ---


@pytest.mark.parametrize("of_pod", [*MOMENTARY.values(), *LASTING.values()], ids=[*MOMENTARY, *LASTING])
def test_no_node_is_restarted_into_the_image_that_halted_the_roll_whatever_its_pod_waits_for(
    of_pod: Mapping[str, Any],
) -> None:
    observation = halted_by_1(down_pod(4, OLD, **of_pod), down(4))
    assert "broker 1 is not back" in refused(rolled(observation, sent(1, minutes=20)), Reason.ROLLOUT_HALTED)


def test_a_stuck_second_controller_is_not_restarted_into_an_image_that_halted_the_roll() -> None:
    pods = {**replaced(3002, ready=False, **CRASHES), **down_pod(3003, OLD)}
    observation = cluster(pods, down(3002, 3003))
    assert "controller 3002" in refused(rolled(observation, sent(3002, minutes=20)), Reason.ROLLOUT_HALTED)


def test_no_node_goes_to_the_image_that_halted_the_roll_even_with_every_broker_down() -> None:
    """With every broker down, a restart helps only nodes whose template has been reverted to another image."""
    observation = halted_by_1({id_: down_pod(id_, OLD)[id_] for id_ in BROKERS if id_ != 1}, down(*BROKERS))
    observation = replace(observation, partitions=Unknown(SILENT))
    refused(rolled(observation, sent(1, minutes=20)), Reason.ROLLOUT_HALTED)


def two_sets(*, image: str) -> Observation:
    """Put brokers 1 and 4 into a StatefulSet of their own; 1 halted the roll, and 2 of the other one is stuck."""
    observation = halted_by_1(down_pod(2, OLD), down(2))
    controllers, brokers = workloads_of(observation).stateful_sets
    few = tuple(replace(pod, stateful_set="few") for pod in brokers.pods if pod.name in ("broker-1", "broker-4"))
    other_pods = tuple(pod for pod in brokers.pods if pod.name not in ("broker-1", "broker-4"))
    sets = (
        controllers,
        replace(brokers, name="few", pods=few, replicas=2),
        replace(brokers, pods=other_pods, replicas=4, update_revision="rest-1", image=image),
    )
    return with_workloads(observation, stateful_sets=sets)


def test_an_image_that_halted_the_roll_halts_another_stateful_set_only_if_it_has_the_same_image() -> None:
    refused(rolled(two_sets(image="kafka:4.4.0"), sent(1, minutes=20)), Reason.ROLLOUT_HALTED)
    assert restarted_id(rolled(two_sets(image="kafka:4.2.0"), sent(1, minutes=20))) == 2


def test_no_node_goes_to_an_image_whose_new_pod_never_registered() -> None:
    new = {7: a_pod(7, revision=NEW, ready=False, waiting="CrashLoopBackOff", created_at=NOW - timedelta(hours=1))}
    observation = cluster({**ROLLED_CONTROLLERS, **down_pod(4, OLD), **new}, down(4), without(4), replicas=7)
    assert "pod broker-7" in refused(rolled(observation), Reason.ROLLOUT_HALTED)


def test_a_pod_is_late_by_the_clock_of_kubernetes_and_not_by_that_of_the_operator() -> None:
    new = {7: a_pod(7, revision=NEW, ready=False, waiting="ContainerCreating", created_at=NOW - timedelta(hours=1))}
    observation = cluster({**ROLLED_CONTROLLERS, **new}, replicas=7)
    assert "pod broker-7" in refused(rolled(observation), Reason.ROLLOUT_HALTED)
    assert "pod broker-7" in refused(rolled(read_at(observation, NOW - timedelta(minutes=59))), Reason.ROLLING_NODES)


# --- what is stuck ---


def stuck_on(of_pod: Mapping[str, Any], **rollout: Any) -> Roll:
    """Judge a roll in which broker 1 is down, and its pod, of a revision before the last one, is in this state."""
    observation = cluster({**current(*CONTROLLERS, *BROKERS), **down_pod(1, **of_pod)}, down(1), without(1))
    return rolled(observation, rollout=replace(ROLLOUT, **rollout))


@pytest.mark.parametrize("of_pod", LASTING.values(), ids=LASTING)
def test_a_stuck_node_that_cannot_start_by_itself_is_restarted_once_its_image_was_changed(
    of_pod: Mapping[str, Any],
) -> None:
    assert restarted_id(stuck_on(of_pod)) == 1


@pytest.mark.parametrize("of_pod", MOMENTARY.values(), ids=MOMENTARY)
def test_a_stuck_node_that_may_start_by_itself_is_waited_for_with_a_remedy(of_pod: dict[str, Any]) -> None:
    message = refused(stuck_on(of_pod), Reason.ROLLING_NODES)
    assert message.startswith(f"broker 1 is unavailable, and its pod broker-1 does not run ({of_pod['waiting']}")
    assert message.endswith("delete the pod if it does not: its next one is of the current revision")


@pytest.mark.parametrize("of_pod", MOMENTARY.values(), ids=MOMENTARY)
def test_a_stuck_node_that_may_start_by_itself_has_a_remedy_also_if_max_parallel_is_reached(
    of_pod: dict[str, Any],
) -> None:
    observation = cluster({**current(*CONTROLLERS), **down_pod(1, **of_pod)}, down(1), without(1))
    message = refused(rolled(observation, rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)
    assert message.startswith("broker 1 is unavailable; bring broker 1 back: no node is restarted until then; pod ")
    assert message.endswith("delete the pod if it does not start again by itself")


def test_a_stuck_node_whose_pod_runs_or_stops_is_reported_with_its_remedy() -> None:
    observation = cluster(current(*CONTROLLERS, 1), down(1), without(1))
    message = refused(rolled(observation, rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)
    assert message.endswith("; see `kubectl logs broker-1`, and delete the pod if it hangs")
    stops = cluster({**current(*CONTROLLERS), 1: a_pod(1, terminating=True)}, down(1), without(1))
    assert refused(rolled(stops, rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES).endswith(
        "no node is restarted until then"
    )


def test_partitions_that_lack_a_broker_are_reported_with_a_remedy() -> None:
    partitions = (row("busy", 1, 2, 3, isr=[2]), *without(1))
    observation = cluster({**current(*CONTROLLERS), **down_pod(1, **MOMENTARY["out of memory"])}, down(1), partitions)
    message = refused(rolled(observation), Reason.ROLLING_NODES)
    assert message == (
        f"broker 3 has not been in sync with 1 partition (busy-0) since {stamp(NOW)}; 1 partition (busy-0) is below "
        "min.insync.replicas; no node is restarted until this is resolved; bring broker 1 back; pod broker-1 does not "
        "run (CrashLoopBackOff, OOMKilled): delete the pod if it does not start again by itself; see `kubectl logs "
        "broker-3` for why broker 3 does not catch up, and restart it if it hangs"
    )
    excused = replaced(1, ready=False)
    coming = cluster({**current(*CONTROLLERS), **excused}, down(1), partitions)
    assert "until this is resolved; see `kubectl logs broker-3`" in refused(
        rolled(coming, sent(1)), Reason.ROLLING_NODES
    )


def test_one_partition_that_forbids_a_restart_is_reported_in_the_singular_whatever_the_rule() -> None:
    partitions = (row("busy", 1, 2, 3, isr=[1, 2]),)
    message = refused(rolled(cluster(current(*CONTROLLERS, 3, 4, 5, 6), partitions=partitions)), Reason.ROLLING_NODES)
    assert "1 partition (busy-0) would be left" in message
    strict = replace(ROLLOUT, availability=Availability.NO_UNDER_REPLICATED)
    partitions = (row("busy", 1, 2, 3, 4, isr=[1, 2, 3]),)
    message = refused(
        rolled(cluster(current(*CONTROLLERS, 4, 5, 6), partitions=partitions), rollout=strict), Reason.ROLLING_NODES
    )
    assert "1 partition (busy-0) is under-replicated" in message


def test_the_remedy_for_a_node_that_recovers_for_ever_on_a_reverted_image_is_to_delete_its_pod() -> None:
    fenced = {1: replace(fresh(1)[1], state=NodeState.FENCED)}
    observation = cluster({**current(*CONTROLLERS, *BROKERS), **replaced(1, revision="bad")}, fenced, without(1))
    message = refused(rolled(observation, sent(1, after="bad", minutes=90)), Reason.ROLLING_NODES)
    assert message.startswith("broker 1 is fenced: it recovers its log, or catches up; delete pod broker-1 if it does")
    recovering = cluster({**current(*CONTROLLERS, *BROKERS), **replaced(1)}, fenced, without(1))
    assert "delete" not in refused(rolled(recovering, sent(1, minutes=9)), Reason.ROLLING_NODES)


@pytest.mark.parametrize(
    ("id_", "observation", "flying"),
    [
        (1, lambda pod: cluster({**ROLLED_CONTROLLERS, **pod}, down(1), without(1)), [sent(1, minutes=90)]),
        (2, lambda pod: cluster({**ROLLED_CONTROLLERS, **pod}, {2: replace(a_node(2), state=NodeState.FENCED)}), []),
        (7, lambda pod: cluster({**ROLLED_CONTROLLERS, **pod}, replicas=7), []),
    ],
    ids=["in flight", "unavailable", "without a node"],
)
def test_the_remedy_for_a_pod_that_hangs_while_it_stops_is_to_delete_it_with_force(
    id_: int, observation: Callable[[Mapping[int, Pod]], Observation], flying: list[RestartInFlight]
) -> None:
    """Kubernetes waits for the kubelet of a machine that is lost."""
    hung = stopping(id_, timedelta(minutes=-16))[id_]
    decision = rolled(
        observation({id_: replace(hung, kubernetes_node="worker-7")}), *flying, rollout=ONE_AT_A_TIME
    ).decision
    assert isinstance(decision, Wait | Stalled)
    assert decision.message.endswith(
        f"; see `kubectl -n kafka describe pod broker-{id_}`, such as for a finalizer or a volume; if the Kubernetes "
        f"node of pod broker-{id_} is lost and shut down, "
        "`kubectl taint nodes worker-7 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`, or "
        f"`kubectl -n kafka delete pod broker-{id_} --force`"
    )
    # A pod hangs only later than 15 min (nodeTimeout) after it should have stopped.
    in_time = {id_: replace(hung, stops_by=NOW - timedelta(minutes=15))}
    recently = [replace(sent(id_), stopping_since=sent(id_).at)] if flying else []
    assert "taint" not in refused(rolled(observation(in_time), *recently, rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)


def stopping(id_: int, by: timedelta) -> Mapping[int, Pod]:
    return {id_: a_pod(id_, terminating=True, stops_by=NOW + by, created_at=NOW - timedelta(days=2))}


def test_a_hanging_pod_that_has_not_confirmed_its_node_id_is_reported_with_the_command_that_deletes_it() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **stopping(2, timedelta(minutes=-16))}, down(2))
    message = refused(rolled(observation, rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)
    assert "broker 2 has not confirmed its node id at an address of pod broker-2" in message
    assert "kubectl -n kafka delete pod broker-2 --force" in message


@pytest.mark.parametrize("flying", [(), (sent(2, minutes=16),)], ids=["stopped by another client", "restart in flight"])
def test_a_pod_that_has_time_to_stop_is_waited_for_and_never_deleted_with_force(
    flying: tuple[RestartInFlight, ...],
) -> None:
    """On a machine that runs, to force it gives a second process of the same broker."""
    observation = cluster({**ROLLED_CONTROLLERS, **stopping(2, timedelta(minutes=9))}, down(2))
    decision = rolled(observation, *flying, rollout=ONE_AT_A_TIME).decision
    assert isinstance(decision, Wait | Stalled)
    assert f"; wait: pod broker-2 is to stop by {STOPS_BY}" in decision.message
    assert "--force" not in decision.message
    unknown = cluster({**ROLLED_CONTROLLERS, 2: a_pod(2, terminating=True)}, down(2))
    decision = rolled(unknown, *flying, rollout=ONE_AT_A_TIME).decision
    assert isinstance(decision, Wait | Stalled)
    assert "; wait: pod broker-2 is stopping" in decision.message


def test_a_pod_that_hangs_while_it_stops_does_not_halt_the_roll_to_its_image() -> None:
    stopping = {
        7: a_pod(7, terminating=True, revision=NEW, stops_by=NOW - timedelta(minutes=16), created_at=seconds_ago(9_000))
    }
    observation = cluster({**ROLLED_CONTROLLERS, **stopping, **down_pod(4)}, down(4), without(4), replicas=7)
    assert restarted_id(rolled(observation)) == 4


def test_the_hanging_old_pod_of_a_node_in_flight_does_not_halt_its_new_image() -> None:
    old = stopping(1, timedelta(minutes=-16))
    observation = cluster({**ROLLED_CONTROLLERS, **old, **down_pod(4)}, down(1, 4), without(1, 4))
    assert restarted_id(rolled(observation, sent(1, minutes=30, stopped=20))) == 4


def test_outside_the_windows_a_stuck_node_is_restarted_only_if_every_broker_is_down() -> None:
    observation = cluster({**current(*CONTROLLERS, *BROKERS), **down_pod(1)}, down(1), without(1))
    refused(behind_gates(observation, rolled(observation, rollout=CLOSED), CLOSED), Reason.WAITING_FOR_WINDOW)
    pods = {**current(*CONTROLLERS), **{id_: down_pod(id_)[id_] for id_ in BROKERS}}
    outage = cluster(pods, down(*BROKERS), SILENT)
    assert restarted_id(behind_gates(outage, rolled(outage, rollout=CLOSED), CLOSED)) == 1


def test_stuck_nodes_are_restarted_up_to_max_parallel_including_nodes_that_are_away() -> None:
    pods = {**current(*CONTROLLERS, *BROKERS), **down_pod(1), **down_pod(4)}
    both = cluster(pods, down(1, 4), without(1, 4))
    assert restarted_id(rolled(both, rollout=ONE_AT_A_TIME)) == 1
    first = replaced(1, ready=False, phase="Pending", waiting="ContainerCreating")
    coming = cluster({**pods, **first}, down(1, 4), without(1, 4))
    assert "pod broker-1 does not run" in refused(rolled(coming, sent(1), rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)
    assert restarted_id(rolled(coming, sent(1))) == 4
    hung = cluster({**current(*CONTROLLERS, *BROKERS), **down_pod(1)}, down(1, 4), without(1, 4))
    assert "broker 4" in refused(rolled(hung, rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)


def test_a_stuck_node_waits_for_partitions_that_need_it_and_the_message_names_them() -> None:
    """The stuck broker is in the ISR still, of a partition that has a leader: its fencing may not be seen yet."""
    partitions = (row("busy", 1, 2, 3, isr=[1, 2]), *without(1))
    observation = cluster({**current(*CONTROLLERS, *BROKERS), **down_pod(1)}, down(1), partitions)
    assert "busy-0" in refused(rolled(observation), Reason.ROLLING_NODES)


def test_stuck_controllers_restart_one_at_a_time_unless_the_quorum_is_lost() -> None:
    first = replaced(3002, ready=False, phase="Pending", waiting="ContainerCreating")
    pods = {**current(*CONTROLLERS, *BROKERS), **first, **down_pod(3003)}
    observation = cluster(pods, down(3002, 3003))
    assert "broker" not in refused(rolled(observation, sent(3002)), Reason.ROLLING_NODES)
    leaderless = replace(observation, quorum=Unknown(NO_QUORUM), active_controller=Unknown(NO_QUORUM))
    assert restarted_id(rolled(leaderless, sent(3002))) == 3003


def test_a_stuck_controller_that_is_a_broker_too_waits_for_its_partitions() -> None:
    both = (Role.CONTROLLER, Role.BROKER)
    nodes = {3001: replace(down(3001)[3001], roles=both, is_voter=True)}
    partitions = (row("busy", 3001, 2, 3, isr=[3001, 2]), *PARTITIONS)
    observation = cluster(
        {**current(*CONTROLLERS, *BROKERS), **down_pod(3001)}, nodes, partitions, quorum=voting(leader=3002)
    )
    assert "busy-0" in refused(rolled(observation), Reason.ROLLING_NODES)


def test_the_remedy_for_a_node_that_hangs_on_a_former_image_is_to_delete_its_pod() -> None:
    """A node that hangs does not end by itself, so it may still come back."""
    hangs = cluster(
        {**current(*CONTROLLERS, *BROKERS), **replaced(1, revision="bad", ready=False)}, down(1), without(1)
    )
    message = refused(rolled(hangs, sent(1, minutes=20, after="bad")), Reason.ROLLOUT_HALTED)
    assert message.endswith("delete the pod: its next one is of the current revision")
