"""Evictions on the simulated API server: the request, the outcome by each answer, and the rights that they need."""

from __future__ import annotations

import re

import pytest

from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.kube.workloads import stateful_sets
from kafkafeatures.kube.workloads.rights import KubernetesRight
from tests.kafkafeatures.kube.test_stateful_sets import NEW_IMAGE, World
from tests.simulated.requests import Fault, Request, refusal

# --- the eviction ---


@pytest.fixture
def world() -> World:
    return World()


async def test_an_eviction_has_the_uid_of_the_pod_as_its_only_precondition(world: World) -> None:
    uid = world.workloads.uid("broker-1")
    assert await world.restart("broker-1") == Applied()
    (request,) = world.requests
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/kafka/pods/broker-1/eviction")
    assert request.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "kafka", "name": "broker-1"},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    world.workloads.set_image("broker", NEW_IMAGE)
    world.wait(20)
    assert world.workloads.pods() == {
        "controller-0": "kafka:4.1.2", "broker-0": "kafka:4.1.2", "broker-1": NEW_IMAGE, "broker-2": "kafka:4.1.2",
    }  # fmt: skip
    assert (await world.pod("broker-1")).ready


async def test_an_eviction_of_a_deleted_pod_is_applied_and_a_recreated_pod_is_not_evicted(world: World) -> None:
    old = world.workloads.uid("broker-1")
    await world.restart("broker-1")
    world.wait(5)
    assert await world.restart("broker-1", old) == Applied()  # the pod is gone
    world.wait(20)
    # A conflict on the uid: the next reading of the pods shows that the pod was replaced.
    assert isinstance(await world.restart("broker-1", old), OutcomeUnknown)
    world.wait(20)
    assert world.workloads.evictions == ["broker-1"]


async def test_an_eviction_refused_by_a_disruption_budget_has_the_message_of_the_budget(world: World) -> None:
    await world.restart("broker-1")
    outcome = await world.restart("broker-0")
    assert isinstance(outcome, Rejected)
    assert outcome.code == 429
    assert "budget brokers needs 2 healthy pods and has 2 currently" in outcome.message
    world.wait(20)
    assert await world.restart("broker-0") == Applied()


async def test_an_unready_pod_is_evicted_if_enough_pods_are_healthy_or_the_budget_always_allows_it(
    world: World,
) -> None:
    world.workloads.budget("brokers", {"app": "broker"}, maxUnavailable=1)
    not_ready = [{"type": "Ready", "status": "False"}]
    world.workloads.change_pod("broker-2", lambda pod: pod["status"].update(conditions=not_ready))
    assert await world.restart("broker-2") == Applied()
    world.wait(20)
    for name in ("broker-1", "broker-2"):
        world.workloads.change_pod(name, lambda pod: pod["status"].update(conditions=not_ready))
    assert not (await world.read()).budgets[0].has_enough_healthy
    outcome = await world.restart("broker-2")
    assert isinstance(outcome, Rejected)
    assert outcome.code == 429
    world.workloads.budget("brokers", {"app": "broker"}, maxUnavailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert await world.restart("broker-2") == Applied()


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(), OutcomeUnknown),
        (Fault(carried_out=True), OutcomeUnknown),
        (Fault(refusal(504, "timeout")), OutcomeUnknown),
        (Fault(refusal(500, "internal error")), OutcomeUnknown),
        (Fault(refusal(401, "Unauthorized")), OutcomeUnknown),
        (Fault(refusal(409, "the object has been modified")), OutcomeUnknown),
        (Fault(refusal(422, "invalid")), Rejected),
        (Fault(refusal(429, "too many requests, please try again later")), Rejected),
    ],
    ids=["no answer", "carried out, and no answer", "504", "500", "401", "409", "422", "429"],
)
async def test_the_outcome_of_an_eviction_is_unknown_unless_the_answer_is_a_definite_refusal(
    world: World, fault: Fault, expected: type[Outcome]
) -> None:
    world.faults = lambda request: fault
    assert isinstance(await world.restart("broker-0"), expected)


@pytest.mark.parametrize(
    ("fault", "is_named"),
    [
        (Fault(refusal(500, "failed calling webhook")), True),
        (Fault(refusal(401, "Unauthorized")), False),
        (Fault(refusal(409, "the object has been modified")), False),
        (Fault(), False),
    ],
    ids=["it failed", "no account", "conflict", "lost"],
)
async def test_the_failure_names_admission_webhooks_only_if_the_api_server_itself_failed(
    world: World, fault: Fault, is_named: bool
) -> None:
    world.faults = lambda request: fault
    outcome = await world.restart("broker-0")
    assert isinstance(outcome, OutcomeUnknown)
    assert "; it is asked for again" in outcome.reason
    assert ("validatingwebhookconfigurations,mutatingwebhookconfigurations" in outcome.reason) is is_named


async def test_a_forbidden_eviction_names_the_chart_value_that_grants_the_right(world: World) -> None:
    world.server.forbidden.add("pods/eviction")
    outcome = await world.restart("broker-0")
    assert isinstance(outcome, Rejected)
    assert outcome.code == 403
    assert "drivers.statefulSet" in outcome.message
    assert world.workloads.evictions == []


# --- its rights ---


async def test_the_driver_uses_exactly_the_rights_that_it_declares(world: World) -> None:
    await world.read()
    await world.restart("broker-1")
    assert {right_of(one) for one in world.requests} == set(stateful_sets.RIGHTS)


def right_of(request: Request) -> KubernetesRight:
    """The right that Kubernetes requires for this request."""
    found = re.fullmatch(
        r"/apis?(?:/(?P<group>[^/]+(?=/[^/]+/namespaces)))?/[^/]+/namespaces/\w+/(?P<plural>\w+)(?P<name>/[^/]+)?(?P<sub>/\w+)?",
        request.path,
    )
    assert found is not None
    reads = "get" if found["name"] else "list"
    verb = {"GET": reads, "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]
    return KubernetesRight(found["group"] or "", found["plural"] + (found["sub"] or ""), verb)


async def test_an_eviction_that_is_withheld_before_its_first_byte_was_not_sent(world: World) -> None:
    assert await world.restart("broker-1", withheld="it is too late") == NotSent("it is too late")
    assert world.workloads.evictions == []
