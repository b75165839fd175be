"""PodDisruptionBudgets on the simulated API server: the pods that they cover, and the most that may be disrupted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.values import replace
from tests.kafkafeatures.kube.test_stateful_sets import NEW_IMAGE, ROLLOUT, World
from tests.simulated.workloads import Delays


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("spec", "limit", "most"),
    [
        ({"maxUnavailable": 0}, "maxUnavailable: 0", 0),
        ({"minAvailable": 3}, "minAvailable: 3", 0),
        ({"minAvailable": 1}, "minAvailable: 1", 2),
    ],
    ids=["none may be unavailable", "all three must be available", "one must be available"],
)
async def test_the_most_pods_that_a_budget_allows_to_be_disrupted_follow_from_its_status(
    world: World, spec: dict[str, int], limit: str, most: int
) -> None:
    world.workloads.budget("brokers", {"app": "broker"}, **spec)
    (budget,) = (await world.read()).budgets
    assert (budget.limit, budget.most, budget.always_allows_unhealthy) == (limit, most, False)


@pytest.mark.parametrize(("least", "most"), [(2, 1), (3, 0)])
async def test_a_budget_is_judged_with_the_pod_that_its_stateful_set_has_yet_to_create_again(
    world: World, least: int, most: int
) -> None:
    """The pod that the StatefulSet has not created again is not in `expectedPods`, which Kubernetes counts."""
    world.workloads.delays = Delays(create=timedelta(hours=1))
    await world.restart("broker-0")
    world.workloads.budget("brokers", {"app": "broker"}, minAvailable=least)
    world.wait(10)
    raw = world.server.read("/apis/policy/v1/namespaces/kafka/poddisruptionbudgets/brokers")
    assert raw is not None
    assert raw["status"]["expectedPods"] == 2
    assert [one.most for one in (await world.read()).budgets] == [most]


async def test_a_budget_over_several_stateful_sets_counts_a_pod_that_has_yet_to_be_created_again(world: World) -> None:
    for name in ("zone-a", "zone-b", "zone-c"):
        labels = {"app": "zones", "zone": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "kafka", "image": NEW_IMAGE}]}}
        world.workloads.create(name, 1, selector={"matchLabels": labels}, template=template)
    zones = replace(ROLLOUT, brokers=("zone-a", "zone-b"))  # the third one is of another document
    world.workloads.delays = Delays(create=timedelta(hours=1))
    await world.restart("zone-a-0")
    world.workloads.budget("zones", {"app": "zones"}, minAvailable=2)
    world.wait(10)
    assert [(one.name, one.most) for one in (await world.read(zones)).budgets if one.name == "zones"] == [("zones", 1)]


async def test_an_unobserved_budget_has_unknown_disruptions_and_a_budget_of_other_pods_is_left_out(
    world: World,
) -> None:
    path = "/apis/policy/v1/namespaces/kafka/poddisruptionbudgets/brokers"
    raw = world.server.read(path)
    assert raw is not None
    world.server.store(path, {**raw, "metadata": {**raw["metadata"], "generation": 2}})
    assert [one.most for one in (await world.read()).budgets] == [-1]
    world.workloads.budget("brokers", {"app": "web"}, maxUnavailable=0)
    assert (await world.read()).budgets == ()
