"""Read the PodDisruptionBudgets that cover pods. Called by drivers whose requests Kubernetes checks against budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkafeatures.core.facts.workloads import Budget, StatefulSet
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.workloads.answers import listed_up_to
from kafkafeatures.kube.workloads.rights import KubernetesRight
from kafkafeatures.kube.workloads.selectors import Selector, selects

Json = Mapping[str, Any]
MOST_BUDGETS = 2_000
"""Most PodDisruptionBudgets of a namespace that are read."""
RIGHT = KubernetesRight("policy", "poddisruptionbudgets", "list")


async def listed(api: WorkloadsApi, namespace: str) -> Sequence[Json]:
    """All PodDisruptionBudgets of the namespace, as JSON. Raises ListTooLarge."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    return await listed_up_to(MOST_BUDGETS, "PodDisruptionBudgets", api, path)


def covering(items: Iterable[Json], labels: Mapping[str, Json], sets: Sequence[StatefulSet]) -> tuple[Budget, ...]:
    """The budgets that cover one of these pods. `labels`: labels by name of the pod. `sets`: their StatefulSets."""
    budgets = []
    for raw in items:
        selector = raw["spec"].get("selector")
        covered = frozenset(name for name, pod_labels in labels.items() if selects(selector, pod_labels))
        if covered:
            budgets.append(_budget(raw, covered, sets))
    return tuple(budgets)


def _budget(raw: Json, covered: frozenset[str], sets: Sequence[StatefulSet]) -> Budget:
    """The budget as a value. `covered`: names of the pods that it covers. `sets`: all StatefulSets of the document."""
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    is_current = int(status.get("observedGeneration") or 0) >= int(metadata.get("generation") or 0)
    expected, desired = int(status.get("expectedPods") or 0), int(status.get("desiredHealthy") or 0)
    if isinstance(spec.get("minAvailable"), int):
        # With a number as minAvailable, Kubernetes expects the pods that exist, without those being replaced.
        # Expected 0 stays 0: Kubernetes has not counted yet.
        expected = expected and expected + _missing(spec.get("selector"), covered, sets)
    limits: Sequence[str] = [
        f"{name}: {spec[name]}" for name in ("maxUnavailable", "minAvailable") if spec.get(name) is not None
    ]
    return Budget(
        name=str(metadata["name"]),
        disruptions_allowed=int(status.get("disruptionsAllowed") or 0),
        pods=covered,
        limit=", ".join(limits) or "no limit",
        always_allows_unhealthy=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        has_enough_healthy=0 < desired <= int(status.get("currentHealthy") or 0),
        most=max(expected - desired, 0) if is_current and expected else -1,  # -1: Kubernetes has not computed it yet
    )


def _missing(selector: Selector | None, covered: frozenset[str], sets: Sequence[StatefulSet]) -> int:
    """Number of pods that the budget will cover in addition once each StatefulSet has all its replicas."""
    return sum(
        max(stateful_set.replicas - len(stateful_set.pods), 0)
        for stateful_set in sets
        if (
            any(pod.name in covered for pod in stateful_set.pods)
            if stateful_set.pods
            else selects(selector, stateful_set.labels)
        )
    )
