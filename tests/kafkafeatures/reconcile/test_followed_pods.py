"""With the driver Pods the operator waits while any other operator rolls pods, by what they show of their version.

Production's controller and driver, on the simulated API server with its pods, and on a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kafkafeatures.api.names import RESTART_POD_UID
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.roll.drivers import PODS as DRIVER
from kafkafeatures.kube.workloads.followed_pods import RIGHTS, templates
from kafkafeatures.kube.workloads.templates import Template
from tests.kafkafeatures.reconcile.followed_rig import ANNOTATION, PODS, REVISION, SELECTOR, Followed, Json
from tests.kafkafeatures.reconcile.test_stateful_sets import OLDER
from tests.simulated.orders import KEY
from tests.simulated.requests import Fault, refusal


async def test_without_a_roll_the_level_is_raised_by_the_right_to_list_pods_alone() -> None:
    followed = Followed()
    await followed.work()
    assert (followed.level, followed.reason[0]) == (1, "InSync")
    assert followed.api.condition("NodesRolled")["reason"] == "AllCurrent"
    assert followed.used == set(RIGHTS)


async def test_a_level_waits_until_the_roll_that_another_operator_makes_is_over() -> None:
    followed = Followed()
    followed.restart("broker-0")
    await followed.work()
    assert followed.level != 1
    reason, message = followed.reason
    assert reason == "RollingNodes"
    assert message.startswith(
        "the other operator has still to restart pod broker-1, which is not of the current revision"
    )
    rolled = followed.api.condition("NodesRolled")
    assert (rolled["status"], rolled["message"].split(";")[0]) == ("False", "1 of 4 nodes are current")
    workloads = {each["name"]: (each.get("updated", 0), each["total"]) for each in followed.api.status["workloads"]}
    assert workloads == {"broker": (1, 3), "controller": (0, 1)}
    assert followed.api.status["rollout"]["waitingSince"]
    followed.restart("broker-1")
    followed.restart("broker-2")
    await followed.work(4)
    assert followed.level != 1
    text = "the other operator has still to restart pod controller-0, "  # of another owner, and of an older release
    assert followed.reason[1].startswith(text)
    followed.set_image("controller-0", "kafka:4.4.0")
    await followed.work(4)
    assert (followed.level, followed.reason[0]) == (1, "InSync")
    assert (followed.requests, followed.workloads.evictions) == ([], [])


async def test_a_roll_is_seen_by_an_annotation_where_pods_have_no_revision() -> None:
    followed = Followed(versionAnnotation=ANNOTATION)
    followed.as_koperator_makes_them()
    followed.workloads.set_image("broker", "kafka:4.2.0")  # that of the pods, so that the image shows nothing
    await followed.work()
    assert (followed.level, followed.reason[0]) == (1, "InSync")
    followed.version = "2"
    followed.restart("broker-0")
    await followed.work()
    assert followed.reason[0] == "RollingNodes"
    assert [(each["name"], each["updated"]) for each in followed.api.status["workloads"]] == [("orders", 1)]


async def test_a_roll_is_seen_by_the_image_where_a_pod_is_updated_in_place() -> None:
    followed = Followed()
    followed.set_image("broker-2", "kafka:4.2.0-1")  # of the same release
    await followed.work()
    assert (followed.level == 1, followed.reason[0]) == (False, "RollingNodes")


def _is_not_ready(pod: Json) -> None:
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


STILL: dict[str, tuple[Callable[[Followed], object], str, str]] = {
    "no pod": (
        lambda followed: followed.are_not_selected(*PODS),
        "Preflight",
        "what the pods run is not known: selector kafka_cr=orders in namespace kafka: no pod matches it; correct "
        "spec.workload.pods.selector, or bring the pods back",
    ),
    "too few pods": (
        lambda followed: followed.are_not_selected("broker-1"),
        "RollingNodes", "broker 2 (broker-1.broker.kafka.svc.cluster.local:9092) has no pod since ",
    ),
    "pods of two clusters under one selector": (
        lambda followed: followed.foreign_pod(),
        "InvalidSpec", "pod other-0 of broker is ready, and no node of the cluster advertises it",
    ),
    "pods of another cluster instead": (
        lambda followed: followed.foreign_pod(in_place_of="broker-1"),
        "InvalidSpec", "broker 2 (broker-1.broker.kafka.svc.cluster.local:9092) is in no pod of the selector",
    ),
    "a pod stops": (
        lambda followed: followed.workloads._stop("broker-1", followed.workloads.uid("broker-1")),
        "RollingNodes", "pod broker-1 is stopping; wait; ",
    ),
    "a pod is not ready": (
        lambda followed: followed.workloads.change_pod("broker-1", _is_not_ready),
        "RollingNodes", "pod broker-1 is not ready; wait; ",
    ),
    "a pod without an owner": (
        lambda followed: followed.workloads.change_pod("broker-1", lambda raw: raw["metadata"].pop("ownerReferences")),
        "Preflight", "pod broker-1 has no owner that would create it again; correct spec.workload.pods.selector",
    ),
    "neither a revision nor an annotation": (
        lambda followed: followed.label("broker-1", REVISION, None),
        "Preflight", "pod broker-1 has no label controller-revision-hash; name an annotation that changes",
    ),
    "two owners with one name": (
        lambda followed: followed.workloads.change_pod(
            "broker-2", lambda raw: raw["metadata"]["ownerReferences"][0].update(kind="InstanceSet", uid="another")
        ),
        "Preflight", "it matches pods of several owners with the name broker: InstanceSet and StatefulSet; narrow ",
    ),
    "an owner for each pod": (
        lambda followed: followed.have_owners_of_their_own(),
        "Preflight", "pod broker-0 is of Instance broker-0, so its controller-revision-hash may ",
    ),
    "another container": (
        lambda followed: followed.workloads.change_pod(
            "controller-0", lambda raw: raw["spec"]["containers"][0].update(name="java")
        ),
        "InvalidSpec", "StatefulSet controller has no container 'kafka'; correct spec.workload.pods.container",
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", STILL.values(), ids=STILL)
async def test_no_level_is_raised_unless_every_pod_is_known_and_at_rest(
    state: tuple[Callable[[Followed], object], str, str],
) -> None:
    change, reason, message = state
    followed = Followed()
    change(followed)
    await followed.work(1)
    assert followed.level != 1
    assert followed.reason[0] == reason, followed.reason
    assert message in followed.reason[1]
    assert (followed.requests, followed.workloads.evictions) == ([], [])


async def test_a_sidecar_that_is_named_as_the_container_of_kafka_is_refused_as_it_hides_the_image() -> None:
    followed = Followed(container="metrics")
    for pod in PODS:
        followed.workloads.change_pod(
            pod, lambda raw: raw["spec"]["containers"].append({"name": "metrics", "image": "metrics:1.0.0"})
        )
    followed.set_image("broker-2", "kafka:4.4.0-1")
    await followed.work(1)
    assert (followed.level == 1, followed.reason[0]) == (False, "Preflight")
    assert "has a container kafka, and the document names its container metrics; correct spec." in followed.reason[1]


async def test_the_annotation_that_a_document_names_must_be_on_the_newest_pod_and_older_ones_count_as_outdated() -> (
    None
):
    followed = Followed(versionAnnotation=ANNOTATION)
    followed.annotate("broker-1", ANNOTATION, None)
    await followed.work(1)
    assert "the other operator has still to restart pod broker-1, " in followed.reason[1]
    for pod in PODS:
        followed.annotate(pod, ANNOTATION, None)
    await followed.work(1)
    assert followed.reason[0] == "Preflight"
    text = f"pod broker-2, the newest of its owner, has no annotation {ANNOTATION}; correct spec.workload.pods"
    assert text in followed.reason[1]


async def test_the_annotation_is_to_be_the_same_on_the_pods_of_all_owners() -> None:
    followed = Followed(versionAnnotation=ANNOTATION)
    followed.have_owners_of_their_own()
    followed.annotate("broker-0", ANNOTATION, "2")
    await followed.work()
    assert followed.level != 1
    assert followed.reason[0] == "RollingNodes"
    for pod in PODS:
        followed.annotate(pod, ANNOTATION, "2")
    await followed.work()
    assert (followed.level, followed.reason[0]) == (1, "InSync")


async def test_a_level_waits_for_the_next_pod_of_a_broker_that_no_longer_runs_and_has_none() -> None:
    """The last pod of a roll was deleted, and is not created again yet: all pods that exist are current."""
    followed = Followed()
    followed.are_not_selected("broker-1")
    followed.uids.pop(2)
    followed.kafka.world.stop(Role.BROKER, 2)
    followed.kafka.world.advance(followed.kafka.world.now_ms + 60_000)
    await followed.work()
    assert followed.level != 1
    reason, message = followed.reason
    assert reason == "RollingNodes"
    assert message.startswith("broker 2 (broker-1.broker.kafka.svc.cluster.local:9092) has no pod since ")
    assert "; if it is permanently gone: kafkafeatures unregister --broker 2 " in message
    rolled = followed.api.condition("NodesRolled")
    assert (rolled["status"], rolled["message"].split(";")[0]) == ("False", "3 of 4 nodes are current")


async def test_an_older_document_that_restarts_the_same_pods_is_followed_as_any_other_operator() -> None:
    followed = Followed()
    older = {"namespace": OLDER.namespace, "name": OLDER.name, "uid": "0", "creationTimestamp": "2020-01-01T00:00:00Z"}
    rolls = {"driver": "StatefulSet", "statefulSet": {"brokers": ["broker"]}}
    followed.claims.note(
        {"metadata": older, "spec": {"mode": "Apply", "workload": rolls}, "status": {"clusterId": "x"}}
    )
    followed.label("broker-0", REVISION, "newer")
    await followed.work(1)
    assert (followed.level == 1, followed.reason[0]) == (False, "RollingNodes")
    followed.label("broker-1", REVISION, "newer")
    followed.label("broker-2", REVISION, "newer")
    await followed.work()
    assert (followed.level, followed.reason[0]) == (1, "InSync")


async def test_without_the_right_to_list_pods_the_message_names_the_value_of_the_chart() -> None:
    followed = Followed()
    followed.api.faults = lambda request: Fault(refusal(403, "no")) if "/pods" in request.path else None
    await followed.work(1)
    assert (followed.level == 1, followed.reason[0]) == (False, "NotAuthorized")
    assert "drivers.pods" in followed.reason[1]


async def test_the_request_of_a_person_to_restart_a_pod_has_no_effect() -> None:
    followed = Followed()
    followed.annotate("broker-1", RESTART_POD_UID, followed.workloads.uid("broker-1"))
    await followed.work()
    assert (followed.level, followed.reason[0]) == (1, "InSync")
    assert (followed.requests, followed.workloads.evictions) == ([], [])


async def test_a_broker_whose_pod_is_being_replaced_keeps_a_level_waiting_and_halts_nothing() -> None:
    """Another operator may take its time between the old pod and the next one."""
    followed = Followed()
    await followed.work()
    followed.workloads._stop("broker-1", followed.workloads.uid("broker-1"))
    for _ in range(12):
        followed.pass_time(timedelta(seconds=1))
        assert await followed.controller.reconcile(KEY) is not None
        stalled = [each for each in followed.api.status["conditions"] if each["type"] == "Stalled"]
        assert [each["message"] for each in stalled if each["status"] == "True"] == []


async def test_a_level_waits_for_the_version_that_a_document_names_before_its_roll_begins() -> None:
    followed = Followed(versionAnnotation=ANNOTATION, version="2")
    followed.as_koperator_makes_them()
    followed.version = "2"
    await followed.work(1)
    assert followed.level != 1
    text = "the other operator has still to restart pod broker-0, which is not of the current revision"
    assert (followed.reason[0], followed.reason[1].partition(";")[0]) == ("RollingNodes", text)
    assert followed.api.condition("NodesRolled")["message"].startswith("0 of 4 nodes are current")
    (workload,) = followed.api.status["workloads"]
    assert templates(followed, DRIVER, followed.api.spec) == {"orders": Template(workload["updateRevision"], 4)}
    followed.restart("broker-0")
    await followed.work(1)
    assert followed.reason[1].startswith("the other operator has still to restart pod broker-1, ")
    for pod in PODS[1:]:
        followed.annotate(pod, ANNOTATION, "2")
        followed.set_image(pod, "kafka:4.4.0")
    await followed.work(4)
    assert (followed.level, followed.reason[0]) == (1, "InSync")


def test_wait_for_rolled_reads_the_version_of_the_newest_pod_of_each_owner() -> None:
    followed = Followed()
    spec = {"workload": {"pods": {"selector": SELECTOR, "versionAnnotation": ANNOTATION}}}
    first = templates(followed, DRIVER, spec)
    assert [(name, each is not None and each.replicas) for name, each in first.items()] == [
        ("broker", 3), ("controller", 1),
    ]  # fmt: skip
    followed.label("broker-2", REVISION, "newer")
    second = templates(followed, DRIVER, spec)
    assert (second["broker"] == first["broker"], second["controller"] == first["controller"]) == (False, True)
    followed.annotate("broker-2", ANNOTATION, None)
    text = (
        f"pod broker-2, the newest of its owner, has no annotation {ANNOTATION} (selector {SELECTOR}); "
        "correct spec.workload.pods.versionAnnotation, or set the annotation in the resource of the cluster"
    )
    assert templates(followed, DRIVER, spec) == {SELECTOR: Template("", 0, text)}
