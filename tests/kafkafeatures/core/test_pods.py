"""The pod in which each node runs, the pods that need a restart, and blockers to every eviction."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.facts.observation import Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.facts.workloads import Pod, StatefulSet
from kafkafeatures.core.roll.drivers import STATEFUL_SET, driver_of
from kafkafeatures.core.roll.pods import Fleet
from kafkafeatures.core.roll.stateful_sets import CLEAN_STOP_SECONDS
from tests.kafkafeatures.core.fleets import NEW, OLD, budget, in_pod, observed_fleet, pod, stateful_set
from tests.kafkafeatures.worlds import NOW, SILENT, node

ROLLOUT = Rollout(STATEFUL_SET.name, brokers=("broker",), controllers=("controller",))


def judged(*nodes: Node, pods: tuple[Pod, ...], flying: dict[int, str] | None = None, **of_set: Any) -> Fleet:
    """Return the fleet of these nodes and of one StatefulSet with these pods, which are of the old revision by default.

    `flying`: names of the pods of nodes in flight, by node id. `of_set`: other fields of the StatefulSet.
    """
    return fleet_of(
        observed_fleet(*nodes, sets=(stateful_set(*pods, **of_set),), budgets=(budget(*pods),)), ROLLOUT, flying
    )


def fleet_of(observation: Observation, rollout: Rollout, flying: dict[int, str] | None = None) -> Fleet:
    return driver_of(rollout).fleet(observation, rollout, (), flying or {})


def pod_names(fleet: Fleet) -> dict[int, str]:
    return {id_: pod.name for id_, pod in fleet.pods.items()}


def messages(fleet: Fleet) -> list[str]:
    return [blocker.message for blocker in fleet.blockers]


def test_a_node_runs_in_the_pod_whose_name_it_advertises_even_if_their_numbers_differ() -> None:
    fleet = judged(in_pod(1, "broker-2", ip="10.0.0.2"), in_pod(2, "broker-1", ip="10.0.0.1"), pods=(pod(1), pod(2)))
    assert pod_names(fleet) == {1: "broker-2", 2: "broker-1"}
    assert not fleet.blockers
    assert not fleet.waits


@pytest.mark.parametrize(
    "host",
    [
        "broker-1.kafka.kafka.svc.cluster.local",
        "broker-1.kafka.kafka.svc.example.internal.",
        "BROKER-1.kafka.kafka.svc",
        "broker-1.kafka.kafka",
        "broker-1.kafka",
        "broker-1",
        "10.0.0.1",
    ],
)
def test_every_dns_name_of_a_pod_that_a_node_advertises_leads_to_the_pod(host: str) -> None:
    advertising = replace(in_pod(1), host=host, listeners=())
    assert pod_names(judged(advertising, pods=(pod(1),))) == {1: "broker-1"}


@pytest.mark.parametrize("host", ["broker-1.kafka.staging.svc.cluster.local", "broker-1.other.kafka.svc", "kafka", ""])
def test_a_node_that_advertises_a_name_of_no_pod_is_a_blocker(host: str) -> None:
    fleet = judged(replace(in_pod(1), host=host, listeners=()), pods=(pod(1),))
    assert not fleet.pods
    assert {blocker.reason for blocker in fleet.blockers} == {Reason.INVALID_SPEC}
    assert any("broker 1" in text and "is in no pod" in text for text in messages(fleet))
    assert any("pod broker-1 of broker is ready, and no node" in text for text in messages(fleet))


def test_one_listener_with_the_name_of_a_pod_is_enough_to_find_the_pod_of_a_node() -> None:
    advertising = replace(in_pod(1), host="kafka.example.com", port=443)
    assert pod_names(judged(advertising, pods=(pod(1),))) == {1: "broker-1"}


def test_a_port_of_a_kubernetes_node_leads_to_the_pod_that_owns_the_port() -> None:
    shared = {"ips": ("192.0.2.1",), "host_names": ()}
    pods = (
        pod(1, ports_of_node=(("192.0.2.1", 9092),), **shared),
        pod(2, ports_of_node=(("192.0.2.1", 9093),), **shared),
    )
    nodes = [replace(in_pod(i), host="192.0.2.1", port=9091 + i, listeners=(), proved_at="192.0.2.1") for i in (1, 2)]
    fleet = judged(*nodes, pods=pods)
    assert pod_names(fleet) == {1: "broker-1", 2: "broker-2"}
    assert not fleet.blockers


# --- the address at which a node has confirmed its id ---


def test_a_node_that_answers_at_an_address_that_its_pod_does_not_have_is_not_restarted() -> None:
    fleet = judged(in_pod(1, ip="10.9.9.9"), pods=(pod(1),))
    assert not fleet.pods
    assert not fleet.needing
    assert messages(fleet) == ["broker 1 answers at 10.9.9.9, but pod broker-1 has other addresses (10.0.0.1)"]


def test_a_node_that_has_not_confirmed_its_id_is_not_restarted() -> None:
    silent = replace(in_pod(1), proved_at="")
    fleet = judged(silent, pods=(pod(1),))
    assert not fleet.needing
    assert [wait.text for wait in fleet.waits] == [
        "broker 1 has not confirmed its node id at an address of pod broker-1"
    ]


def test_the_remedy_for_an_unconfirmed_node_is_the_right_to_read_settings_if_that_is_missing() -> None:
    denied = Failure(
        FailureKind.AUTHORIZATION, "h:1", "needs DESCRIBE_CONFIGS on the cluster", "grant it to User:kafkafeatures"
    )
    silent = replace(in_pod(1), proved_at="", unproved=denied)
    (blocker,) = judged(silent, pods=(pod(1),)).blockers
    assert blocker.reason is Reason.NOT_AUTHORIZED
    assert blocker.remedy == "grant it to User:kafkafeatures"


def test_an_address_that_two_pods_share_does_not_prove_which_pod_runs_a_node() -> None:
    pods = (pod(1, ips=("192.0.2.1",)), pod(2, ips=("192.0.2.1",)))
    fleet = judged(in_pod(1, ip="192.0.2.1"), in_pod(2, ip="192.0.2.1"), pods=pods)
    assert not fleet.needing
    assert [text.partition(" shares ")[0] for text in messages(fleet)] == [
        "broker 1 answers at 192.0.2.1, which pod broker-1",
        "broker 2 answers at 192.0.2.1, which pod broker-2",
    ]


@pytest.mark.parametrize(
    "fields", [{"waiting": "CrashLoopBackOff"}, {"phase": "Pending"}, {"phase": "Failed"}], ids=str
)
def test_a_node_in_a_pod_without_a_running_process_needs_no_confirmed_id(fields: dict[str, Any]) -> None:
    stuck = in_pod(1, state=NodeState.FENCED, said=SILENT)
    fleet = judged(stuck, pods=(pod(1, ready=False, **fields),))
    assert list(fleet.needing) == [1]
    assert fleet.unavailable == {1}


def test_a_node_in_a_pod_of_phase_unknown_is_not_restarted_without_a_confirmed_id() -> None:
    silent = replace(in_pod(1), proved_at="")
    assert not judged(silent, pods=(pod(1, phase="Unknown", ready=False),)).needing


def test_a_node_that_starts_in_a_pod_of_an_old_revision_is_waited_for() -> None:
    fleet = judged(in_pod(1, state=NodeState.FENCED, said=SILENT), pods=(pod(1, ready=False),))
    assert not fleet.needing
    assert [wait.text for wait in fleet.waits] == [
        "broker 1 has not confirmed its node id at an address of pod broker-1"
    ]


def test_a_node_that_needs_no_restart_needs_no_confirmed_id() -> None:
    fleet = judged(replace(in_pod(1), proved_at=""), pods=(pod(1, revision=NEW),))
    assert pod_names(fleet) == {1: "broker-1"}
    assert not fleet.blockers
    assert not fleet.waits


# --- nodes and pods that do not match ---


def test_two_nodes_that_advertise_one_pod_are_a_blocker_and_neither_is_restarted() -> None:
    fleet = judged(in_pod(1), in_pod(7, "broker-1"), in_pod(2), pods=(pod(1), pod(2)))
    assert pod_names(fleet) == {2: "broker-2"}
    assert messages(fleet) == ["broker 1 and broker 7 advertise the same pod broker-1, but a pod runs one node"]


def test_a_node_that_advertises_two_pods_is_a_blocker() -> None:
    advertising = replace(in_pod(1), listeners=(("broker-2.kafka", 9092),))
    fleet = judged(advertising, pods=(pod(1), pod(2)))
    assert not fleet.pods
    assert messages(fleet) == ["broker 1 advertises addresses of several pods: broker-1, broker-2"]


def test_a_node_in_no_pod_of_the_stateful_sets_is_a_blocker_and_counts_as_unavailable() -> None:
    elsewhere = replace(in_pod(9), host="vm-9.example.com", listeners=())
    fleet = judged(in_pod(1), elsewhere, pods=(pod(1),))
    assert messages(fleet) == ["broker 9 (vm-9.example.com:9092) is in no pod of the StatefulSets of the document"]
    assert fleet.unavailable == {9}


def test_a_ghost_of_a_broker_that_was_scaled_away_is_a_blocker_with_its_unregistration_as_remedy() -> None:
    gone = in_pod(3, state=NodeState.GHOST, said=SILENT)
    (blocker,) = judged(in_pod(1), in_pod(2), gone, pods=(pod(1), pod(2))).blockers
    assert blocker.kind is BlockerKind.GHOST_REGISTRATION
    assert "broker 3" in blocker.message
    assert "kafkafeatures unregister --broker 3" in blocker.remedy


def test_while_no_node_needs_a_restart_only_contradictions_to_the_document_are_blockers() -> None:
    gone = in_pod(3, state=NodeState.GHOST, said=SILENT)
    away = in_pod(4, state=NodeState.UNREACHABLE, said=SILENT)
    current = (pod(1, revision=NEW), pod(2, revision=NEW, ready=False))
    no_eviction = budget(*current, most=0)
    sets = (stateful_set(*current),)
    fleet = fleet_of(observed_fleet(in_pod(1), gone, away, sets=sets, budgets=(no_eviction,)), ROLLOUT)
    assert not fleet.blockers
    assert not fleet.waits
    elsewhere = replace(in_pod(9), host="vm-9.example.com", listeners=())
    assert fleet_of(observed_fleet(in_pod(1), elsewhere, sets=sets, budgets=(no_eviction,)), ROLLOUT).blockers
    unsafe = (stateful_set(*current, update_strategy="RollingUpdate"),)
    assert fleet_of(observed_fleet(in_pod(1), sets=unsafe), ROLLOUT).blockers


def test_a_ghost_of_a_controller_is_a_blocker_only_if_it_is_a_voter() -> None:
    removed = node(3009, state=NodeState.GHOST, said=SILENT, voter=False)
    assert not judged(in_pod(1), removed, pods=(pod(1),)).blockers
    voting = node(3009, state=NodeState.GHOST, said=SILENT, voter=True)
    assert judged(in_pod(1), voting, pods=(pod(1),)).blockers


def test_controllers_are_ignored_if_the_document_names_no_stateful_set_of_controllers() -> None:
    """Otherwise a controller in no pod is a blocker."""
    observation = observed_fleet(in_pod(1), node(3001), sets=(stateful_set(pod(1)),), budgets=(budget(pod(1)),))
    assert fleet_of(observation, ROLLOUT).blockers
    fleet = fleet_of(observation, replace(ROLLOUT, controllers=()))
    assert not fleet.blockers
    assert list(fleet.needing) == [1]


@pytest.mark.parametrize("state", [NodeState.LIVE, NodeState.UNREACHABLE, NodeState.FENCED, NodeState.GHOST])
def test_the_node_of_a_pod_that_is_being_created_is_waited_for(state: NodeState) -> None:
    fleet = judged(in_pod(1), in_pod(2, state=state, said=SILENT), pods=(pod(1),), replicas=2)
    assert not fleet.blockers
    assert len(fleet.waits) == 1
    assert "broker 2" in fleet.waits[0].text


def test_a_new_pod_is_waited_for_until_its_node_registers_and_is_a_blocker_if_that_fails() -> None:
    for new_pod in (pod(2, created_at=NOW - timedelta(minutes=1)), pod(2, ready=False)):
        fleet = judged(in_pod(1), pods=(pod(1), new_pod))
        assert [(pod.pod.name, pod.owner.name) for pod in fleet.without_node] == [("broker-2", "broker")]
        assert not fleet.blockers
    assert messages(judged(in_pod(1), pods=(pod(1), pod(2)))) == [
        "pod broker-2 of broker is ready, and no node of the cluster advertises it"
    ]


def test_a_node_in_flight_keeps_its_pod_by_name_while_the_pod_does_not_run() -> None:
    away = replace(in_pod(1, state=NodeState.FENCED, said=SILENT), host="10.0.0.77", listeners=())
    starting = pod(1, waiting="ContainerCreating", ready=False)
    fleet = judged(away, in_pod(2), pods=(starting, pod(2)), flying={1: "broker-1"})
    assert pod_names(fleet) == {1: "broker-1", 2: "broker-2"}
    assert not fleet.waits
    assert not fleet.blockers


def test_a_node_in_flight_is_not_matched_by_name_once_the_pod_runs_if_it_advertises_another_address() -> None:
    """By its name a node in flight keeps only a pod that does not run yet; one that runs must show by its address that
    it is the node.
    """
    away = replace(in_pod(1, state=NodeState.FENCED, said=SILENT), host="10.0.0.77", listeners=())
    running = pod(1, ready=False)
    fleet = judged(away, in_pod(2), pods=(running, pod(2)), flying={1: "broker-1"})
    assert pod_names(fleet) == {2: "broker-2"}
    assert fleet.unavailable == {1}
    assert not fleet.waits


# --- nodes that need a restart ---


def test_a_pod_of_another_revision_needs_a_restart_and_the_cause_names_both_revisions() -> None:
    fleet = judged(in_pod(1), in_pod(2), pods=(pod(1), pod(2, revision=NEW)))
    assert fleet.needing == {1: f"pod broker-1 is of revision {OLD}, the template of broker is {NEW}"}


def test_no_pod_needs_a_restart_while_the_status_of_its_stateful_set_is_of_an_older_template() -> None:
    fleet = judged(in_pod(1), pods=(pod(1),), observed=False)
    assert not fleet.needing
    assert [wait.text for wait in fleet.waits] == ["Kubernetes has not processed the change of StatefulSet broker yet"]


def test_no_pod_needs_a_restart_while_its_stateful_set_has_no_update_revision() -> None:
    assert not judged(in_pod(1), pods=(pod(1),), update_revision="").needing


@pytest.mark.parametrize(
    "fields",
    [{"terminating": True}, {"draining": True}, {"waiting": "CrashLoopBackOff"}, {"phase": "Pending"}],
    ids=str,
)
def test_a_node_is_unavailable_if_its_pod_stops_drains_or_does_not_run(fields: dict[str, Any]) -> None:
    fleet = judged(in_pod(1), in_pod(2), pods=(pod(1, revision=NEW, **fields), pod(2)))
    assert fleet.unavailable == {1}


def test_a_fleet_is_empty_if_the_pods_could_not_be_read() -> None:
    unread = replace(observed_fleet(in_pod(1), sets=()), workloads=Unknown(NOT_ASKED))
    assert fleet_of(unread, ROLLOUT) == Fleet.EMPTY


# --- blockers of StatefulSets ---


def blockers_of(stateful_set: StatefulSet, **reading: Any) -> tuple[tuple[Reason | None, str, str], ...]:
    observation: Observation = observed_fleet(
        in_pod(1), sets=(stateful_set,), budgets=(budget(*stateful_set.pods),), **reading
    )
    return tuple((each.reason, each.message, each.remedy) for each in fleet_of(observation, ROLLOUT).blockers)


def test_a_stateful_set_with_rolling_update_is_a_blocker_with_the_patch_as_remedy() -> None:
    ((reason, message, remedy),) = blockers_of(stateful_set(pod(1), update_strategy="RollingUpdate"))
    assert reason is Reason.UPDATE_STRATEGY_UNSAFE
    assert "StatefulSet broker has updateStrategy RollingUpdate" in message
    assert remedy.endswith(
        "kubectl -n kafka patch statefulset broker --type merge "
        """-p '{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}'"""
    )


def test_another_operator_that_restarts_the_pods_is_a_blocker() -> None:
    ((reason, message, _),) = blockers_of(stateful_set(pod(1), conflict="Kafka orders (kafka.strimzi.io)"))
    assert reason is Reason.DRIVER_CONFLICT
    assert message.startswith("Kafka orders (kafka.strimzi.io) restarts the pods of StatefulSet broker too")


def test_a_missing_stateful_set_and_a_missing_container_are_blockers() -> None:
    texts_of_blockers = blockers_of(stateful_set(pod(1), image=""), missing=("brokre",))
    assert [(reason, message) for reason, message, _ in texts_of_blockers] == [
        (Reason.INVALID_SPEC, "StatefulSet kafka/brokre not found"),
        (Reason.INVALID_SPEC, "StatefulSet broker has no container 'kafka'"),
    ]


def test_a_short_grace_period_of_brokers_is_reported_as_a_note() -> None:
    fleet = judged(in_pod(1), pods=(pod(1),), grace_seconds=30)  # Kubernetes' default
    assert len(fleet.notes) == 1
    assert "terminationGracePeriodSeconds 30" in fleet.notes[0]
    assert not judged(in_pod(1), pods=(pod(1),), grace_seconds=CLEAN_STOP_SECONDS).notes
    assert not judged(in_pod(1), pods=(pod(1),), grace_seconds=30, role="controllers").notes
