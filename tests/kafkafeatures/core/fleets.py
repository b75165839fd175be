"""Observations of Kafka nodes in pods of two StatefulSets, with PodDisruptionBudgets: builders for tests of pods and of
rolls.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, SourceKind
from kafkafeatures.core.facts.workloads import Budget, Pod, StatefulSet, WorkloadsReading
from tests.kafkafeatures.worlds import NOW, node, observation

OLD, NEW = "broker-7d9", "broker-c4f"


def in_pod(id_: int, pod: str = "", *, service: str = "kafka", ip: str = "", **of_node: Any) -> Node:
    """Build a node that advertises the full DNS name of its pod and has confirmed its id there."""
    name = pod or f"broker-{id_}"
    host = f"{name}.{service}.kafka.svc.cluster.local"
    broker = node(id_, **of_node)
    proved = ip or f"10.0.0.{id_}" if broker.state is NodeState.LIVE else ""
    return replace(broker, host=host, port=9092, listeners=((host, 9092),), proved_at=proved)


def pod(id_: int, **fields: Any) -> Pod:
    """Build a pod that has run the old revision for an hour."""
    name = fields.pop("name", f"broker-{id_}")
    ip = f"10.0.0.{id_}"
    names = (name, f"{name}.kafka", f"{name}.kafka.kafka", f"{name}.kafka.kafka.svc")
    pod_ = Pod(name, f"uid-{id_}", "broker", OLD, (*names, ip), (ip,), ready=True, phase="Running")
    return replace(pod_, **{"created_at": NOW - timedelta(hours=1), **fields})


def stateful_set(*pods: Pod, **fields: Any) -> StatefulSet:
    """Build a StatefulSet of brokers whose template has just got a new image."""
    owner = StatefulSet(
        fields.pop("name", "broker"), "uid", "brokers", len(pods), NEW, "OnDelete", image="kafka:4.4.0", release="4.4",
        grace_seconds=600, labels={"app": "kafka"}, pods=pods,
    )  # fmt: skip
    return replace(owner, **fields)


def budget(*pods: Pod, most: int = 1, **fields: Any) -> Budget:
    """Build a PodDisruptionBudget that allows as many disruptions as it ever does."""
    names = frozenset(pod.name for pod in pods)
    disruption_budget = Budget(
        "broker", most, names, f"maxUnavailable: {most}", always_allows_unhealthy=True, most=most
    )
    return replace(disruption_budget, **fields)


def observed_fleet(
    *nodes: Node, sets: tuple[StatefulSet, ...], budgets: tuple[Budget, ...] = (), **of: Any
) -> Observation:
    """Build an observation of nodes and workloads that were read at the same time."""
    reading = WorkloadsReading(NOW, sets, budgets, namespace="kafka", **of)
    return replace(observation(*nodes), workloads=Known(reading, SourceKind.KUBERNETES, "", NOW))


def requested(observation: Observation, *pods: str) -> Observation:
    """Request the restart of these pods by annotation."""
    assert isinstance(observation.workloads, Known)
    sets = tuple(
        replace(stateful_set, pods=tuple(replace(pod, restart_requested=pod.name in pods) for pod in stateful_set.pods))
        for stateful_set in observation.workloads.value.stateful_sets
    )
    return replace(
        observation,
        workloads=replace(observation.workloads, value=replace(observation.workloads.value, stateful_sets=sets)),
    )
