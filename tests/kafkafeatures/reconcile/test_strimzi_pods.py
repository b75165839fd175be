"""Pods of a cluster of Strimzi: in what they differ from their sets, sets without pods, and pods that are of no use.

Production's controller and driver, on the simulated API server with its pods, and on a simulated cluster.
"""

from __future__ import annotations

import pytest

from kafkafeatures.core.roll.drivers import STRIMZI
from kafkafeatures.kube.workloads.strimzi import templates
from tests.kafkafeatures.reconcile.strimzi_rig import POD_SET, PODS, Strimzi
from tests.kafkafeatures.reconcile.test_strimzi_driver import SPEC

COMPARED = (
    "revision",
    "resource-revision",
    "cluster-ca-cert-generation",
    "cluster-ca-key-generation",
    "clients-ca-cert-generation",
    "server-cert-hash",
)
"""Annotations `strimzi.io/...` in which pods are compared with their set (`ReconcilerUtils.reasonsToRestartPod`)."""


@pytest.mark.parametrize("value", ["before", None], ids=["another value", "no value"])
@pytest.mark.parametrize("name", [f"strimzi.io/{name}" for name in COMPARED])
async def test_a_level_waits_for_each_pod_that_differs_from_its_set_in_what_strimzi_restarts_it_for(
    name: str, value: str | None
) -> None:
    strimzi = Strimzi()
    pod_set = strimzi.api.server.read(POD_SET)
    assert pod_set is not None
    for template in pod_set["spec"]["pods"]:
        template["metadata"]["annotations"][name] = "wanted"
        strimzi.annotation(template["metadata"]["name"], name, "wanted")
    strimzi.api.server.store(POD_SET, pod_set)
    strimzi.annotation("broker-1", name, value)
    await strimzi.work(1)
    assert strimzi.reason[1].startswith("Strimzi has still to restart pod broker-1, which is not of the current rev")
    assert strimzi.level != 1
    strimzi.annotation("broker-1", name, "wanted")
    await strimzi.work()
    assert strimzi.level == 1


async def test_a_node_pool_without_replicas_keeps_no_level_and_no_restart_waiting() -> None:
    strimzi = Strimzi()
    strimzi.pod_set("spare", is_empty=True)
    strimzi.request("broker-1")
    await strimzi.work(2)
    assert strimzi.reason[1].startswith("Strimzi was asked to restart pod broker-1 (broker 2), and has not begun yet")
    strimzi.restart("broker-1")
    await strimzi.work(4)
    assert (strimzi.level, strimzi.reason[0]) == (1, "InSync")
    assert [*templates(strimzi, STRIMZI, SPEC)] == ["broker"]


async def test_the_last_pods_of_a_node_pool_without_replicas_are_waited_for() -> None:
    strimzi = Strimzi()
    strimzi.pod_set(is_empty=True)
    await strimzi.work(1)
    assert strimzi.level != 1
    reason, message = strimzi.reason
    assert reason == "WaitingForStrimzi"
    says = "Strimzi has still to remove pods of StrimziPodSet broker: there are 3, and there should be 0; "
    assert message.startswith(says)


async def test_the_remedy_for_pods_without_the_container_of_kafka_names_no_field_that_a_document_cannot_have() -> None:
    strimzi = Strimzi()
    pod_set = strimzi.api.server.read(POD_SET)
    assert pod_set is not None
    for template in pod_set["spec"]["pods"]:
        template["spec"]["containers"][0]["name"] = "broker"
    strimzi.api.server.store(POD_SET, pod_set)
    await strimzi.work()
    says = "StrimziPodSet broker has no container 'kafka'; compare it with others of Strimzi"
    assert says in strimzi.reason[1]
    assert "spec.cluster.strimzi.container" not in strimzi.reason[1]
    assert strimzi.level == 0


async def test_the_remedy_for_a_broker_of_another_team_names_no_field_that_a_document_cannot_have() -> None:
    strimzi = Strimzi()
    strimzi.wants(**{pod: f"{pod}-first" for pod in PODS[:2]})
    strimzi.workloads.change_pod("broker-2", lambda raw: raw["metadata"].pop("ownerReferences"))
    strimzi.request("broker-1")
    await strimzi.work()
    (blocker,) = strimzi.api.status["blockers"]
    assert blocker["message"].endswith(":9092) is in no pod of the StrimziPodSets of the Kafka")
    assert blocker["remedy"] == "let Strimzi run it in a pod, or stop it and unregister it"
    assert strimzi.requests == []
