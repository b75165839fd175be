"""A cluster in pods of another operator, and a document that wants a level with the driver Pods."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kafkafeatures.kube.workloads.rights import KubernetesRight
from tests.contract.driver_story import Story
from tests.kafkafeatures.kube.test_evictions import right_of
from tests.simulated.requests import Fault, Request

PODS = ("broker-0", "broker-1", "broker-2", "controller-0")
SELECTOR, ANNOTATION = "kafka_cr=orders", "example.com/version"
REVISION = "controller-revision-hash"
Json = dict[str, Any]


class Followed(Story):
    """A controller and brokers 1, 2 and 3 in pods of another operator, which are current and ready, and a document that
    wants a level. used: rights that the operator used. version: annotation of the next pods.
    """

    def __init__(self, **pods: str) -> None:
        self.used: set[KubernetesRight] = set()
        self.version, self.is_of_koperator = "1", False
        super().__init__(only_controller=True)
        self.workloads.made = self._made
        for pod in PODS:
            self.workloads.change_pod(pod, self._made)
        workload = {"driver": "Pods", "pods": {"selector": SELECTOR, **pods}}
        self.api.edit(workload=workload, features={"levels": [{"name": "group.version", "level": 1}]})
        self.pass_time(timedelta(minutes=1))  # its pods are ready for longer than any wait for that

    def label(self, pod: str, name: str, value: str | None) -> None:
        self.workloads.change_pod(pod, lambda raw: _set(raw["metadata"]["labels"], name, value))

    def annotate(self, pod: str, name: str, value: str | None) -> None:
        self.workloads.change_pod(pod, lambda raw: _set(raw["metadata"]["annotations"], name, value))

    def set_image(self, pod: str, image: str) -> None:
        """What an update in place does."""
        self.workloads.change_pod(pod, lambda raw: raw["spec"]["containers"][0].update(image=image))

    def have_owners_of_their_own(self) -> None:
        """Each pod is owned by an object for this pod alone, as with `enableInstanceAPI` of KubeBlocks."""
        for pod in PODS:
            self.workloads.change_pod(pod, _of_an_instance)

    def as_koperator_makes_them(self) -> None:
        """Pods without a revision, of one KafkaCluster, from now on too."""
        for pod in PODS:
            self.workloads.change_pod(pod, _of_kafka_cluster)
        self.is_of_koperator = True

    def are_not_selected(self, *pods: str) -> None:
        """The selector does not match them."""
        for pod in pods:
            self.label(pod, "kafka_cr", None)

    def foreign_pod(self, in_place_of: str = "") -> None:
        """A pod of another cluster, which the selector matches too, or `in_place_of` this one."""
        pod = self.api.server.read("/api/v1/namespaces/kafka/pods/broker-0")
        assert pod is not None
        pod["metadata"] |= {"name": "other-0", "uid": "uid-of-other"}
        pod["spec"] |= {"hostname": "other-0", "subdomain": "other"}
        pod["status"] |= {"podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}
        self.api.server.store("/api/v1/namespaces/kafka/pods/other-0", pod)
        if in_place_of:
            self.are_not_selected(in_place_of)

    @property
    def answered_at(self) -> datetime:
        return self.api.now

    def objects_of(self, plural: tuple[str, str], version: str, selector: str) -> list[Json]:
        assert (plural, version, selector) == (("pods", ""), "v1", SELECTOR)
        there = self.api.server.there("/api/v1/namespaces/kafka/pods")
        pods = [pod for path in there if (pod := self.api.server.read(path))]
        return [pod for pod in pods if pod["metadata"]["labels"].get("kafka_cr") == "orders"]

    def object_of(self, plural: tuple[str, str], version: str, name: str) -> Json | None:
        raise AssertionError(plural)

    def _made(self, pod: Json) -> None:
        pod["metadata"]["labels"]["kafka_cr"] = "orders"
        pod["metadata"]["annotations"] = {ANNOTATION: self.version}
        if self.is_of_koperator:
            _of_kafka_cluster(pod)

    def _heard(self, request: Request) -> Fault | None:
        if "/pods" in request.path or "/statefulsets" in request.path:
            self.used.add(right_of(request))
        return super()._heard(request)


def _set(texts: Json, name: str, value: str | None) -> None:
    texts.pop(name, None)
    if value is not None:
        texts[name] = value


def _of_an_instance(pod: Json) -> None:
    name = pod["metadata"]["name"]
    pod["metadata"]["ownerReferences"] = [{"kind": "Instance", "name": name, "uid": f"of-{name}", "controller": True}]


def _of_kafka_cluster(pod: Json) -> None:
    pod["metadata"]["labels"].pop(REVISION, None)
    pod["metadata"]["ownerReferences"] = [
        {"kind": "KafkaCluster", "name": "orders", "uid": "uid-of-orders", "controller": True}
    ]
