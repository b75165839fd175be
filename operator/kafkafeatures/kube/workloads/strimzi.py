"""The Strimzi driver: it reads the `Kafka` of a document, its node pools, its StrimziPodSets and their pods, and asks
Strimzi to restart one pod.

Imported by its name in `adapters.py`, for a resource with `spec.cluster.strimzi`. It judges nothing, as `core/roll/`
does that. Its only write is the annotation of a pod that was read, by its uid, on which Strimzi restarts that pod, and
the removal of this annotation. It never evicts or deletes a pod of Strimzi, which would know nothing of it. What
Strimzi writes where is in docs/how-to/with-strimzi.md, with its sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any

from kafkafeatures.api.names import KAFKA_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.engine.steps import Outcome
from kafkafeatures.core.facts.binaries import release_of
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import ManagingOperator, Pod, StatefulSet, WorkloadsReading
from kafkafeatures.core.ports import Withheld
from kafkafeatures.core.roll.drivers import STRIMZI, Driver
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.core.roll.strimzi import PAUSE, StrimziConditions, failed, paused, unprocessed, without_sets
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.errors import Gone, KubeError
from kafkafeatures.kube.first_byte import withholding
from kafkafeatures.kube.workloads.adapters import Rival
from kafkafeatures.kube.workloads.answers import listed_up_to, outcome_of, reading_of
from kafkafeatures.kube.workloads.pods import container_of, pod_of
from kafkafeatures.kube.workloads.requests import RequestedPod, is_of_another, own_requests, remove_request
from kafkafeatures.kube.workloads.rights import KubernetesRight
from kafkafeatures.kube.workloads.templates import ObjectReader, Template, Templates

RIGHTS = (
    KubernetesRight("kafka.strimzi.io", "kafkas", "get"),
    KubernetesRight("kafka.strimzi.io", "kafkanodepools", "list"),
    KubernetesRight("core.strimzi.io", "strimzipodsets", "list"),
    KubernetesRight("events.k8s.io", "events", "list"),
    KubernetesRight("", "pods", "list"),
    KubernetesRight("", "pods", "patch"),
)
KAFKA = "/apis/kafka.strimzi.io/v1/namespaces/{}/kafkas/{}"
POOLS = "/apis/kafka.strimzi.io/v1/namespaces/{}/kafkanodepools"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
SETS = "/apis/core.strimzi.io/v1/namespaces/{}/strimzipodsets"
RESTART = "strimzi.io/manual-rolling-update"
"""Annotation of a pod that Strimzi restarts at the beginning of its next reconciliation."""
REVISION, RELEASE = "strimzi.io/revision", "strimzi.io/kafka-version"
ROLLED_FOR = (
    REVISION,
    "strimzi.io/resource-revision",  # CPU and memory, which REVISION leaves out (`PodRevision.java`)
    "strimzi.io/cluster-ca-cert-generation",
    "strimzi.io/cluster-ca-key-generation",
    "strimzi.io/clients-ca-cert-generation",
    "strimzi.io/server-cert-hash",
)
"""Annotations of pods. Where a pod has another value than its StrimziPodSet, Strimzi restarts it."""
READ_BEFORE = timedelta(seconds=30)
"""Time, longer than Strimzi takes in a reconciliation from the status of node pools to their StrimziPodSets
(`KafkaReconciler.reconcile`): until then a change of a pool shows nowhere.
"""
CONTAINER = "kafka"
CLUSTER = "strimzi.io/cluster"
_POOL_LABELS = CLUSTER + "={}"
_LABELS = _POOL_LABELS + ",strimzi.io/kind=Kafka"
MOST_PODS = 2_000
"""Most StrimziPodSets, or pods, of one cluster that are read."""
LONGEST_MESSAGE = 300
CLUSTER_OPERATOR = "strimzi.io/cluster-operator"
"""What Strimzi names itself in its Events, by which it gives the reason for each restart of a pod."""
REMEDY = "name the namespace in the chart's value drivers.strimzi, or grant the rights of docs/how-to/install.md"

Json = Mapping[str, Any]


class StrimziPods:
    """`WorkloadPort` for the pods of one `Kafka`. `rival`: returns, for "Kafka NAME", the older resource that names it
    too; empty for none.
    """

    def __init__(
        self,
        api: WorkloadsApi,
        namespace: str,
        rollout: Rollout,
        clock: Callable[[], datetime],
        rival: Rival = lambda name: "",
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name, self._stable_for = rollout.managed_by, rollout.stable_for
        self._clock = clock
        self._rival = rival

    async def read(self) -> WorkloadsReading | Failure:
        return await reading_of(self._read(), self._namespace, REMEDY)

    async def restart(self, step: RestartNode, withheld: Withheld) -> Outcome:
        with withholding(withheld):
            change = {"metadata": {"uid": step.pod_uid, "annotations": {RESTART: "true"}}}
            path = f"/api/v1/namespaces/{self._namespace}/pods/{step.pod}"
            return await outcome_of(self._api.send("PATCH", path, change), REMEDY)

    async def _read(self) -> WorkloadsReading | Failure:
        at = self._clock()
        kafka_name = f"Kafka {self._namespace}/{self._name}"
        try:
            kafka = await self._api.get(KAFKA.format(self._namespace, self._name))
        except Gone:
            return Failure(FailureKind.REJECTED, kafka_name, "it does not exist", "correct spec.cluster.strimzi.name")
        if kafka["metadata"].get("deletionTimestamp"):
            return Failure(FailureKind.REJECTED, kafka_name, "it is being deleted", "delete this resource, or wait")
        try:
            pools = await self._listed(POOLS.format(self._namespace), _POOL_LABELS)
            read_at = self._api.answered_at or at  # before the sets are read, in which a change of a pool has to show
            sets = await self._listed(SETS.format(self._namespace))
        except Gone:
            text = "the API server has no KafkaNodePools (kafka.strimzi.io/v1) or StrimziPodSets (core.strimzi.io/v1)"
            return Failure(FailureKind.REJECTED, kafka_name, text, "install the CRDs of Strimzi 1.0 or newer")
        for raw in sets:
            if not _is_of(raw, pools):
                name = raw["metadata"]["name"]
                text = f"it has the labels of {kafka_name}, but no node pool of it owns this set"
                remedy = f"wait if its node pool was just deleted; else correct the label {CLUSTER} of one of the two"
                return Failure(FailureKind.REJECTED, f"StrimziPodSet {self._namespace}/{name}", text, remedy)
        pods = await self._listed(f"/api/v1/namespaces/{self._namespace}/pods")
        owned = [(raw, [pod for pod in pods if raw["metadata"]["uid"] in _owners(pod)]) for raw in sets]
        at = min(at, self._api.answered_at or at)  # see `WorkloadsReading.at`
        rival = self._rival(f"Kafka {self._name}")
        made = tuple(_set_of(raw, its_pods, rival) for raw, its_pods in owned if raw["spec"]["pods"] or its_pods)
        operator = operator_of(kafka, pools, sets, read_at)
        reading = WorkloadsReading(at, made, namespace=self._namespace, managed_by=operator)
        # Only if something waits is somebody interested in Events.
        if any(StrimziConditions().waits(reading, self._stable_for, is_due=True)):
            reading = replace(reading, managed_by=replace(operator, last_event=await self._last_event()))
        return reading

    async def _last_event(self) -> str:
        """The last Event of Strimzi about the `Kafka`: its time, reason and text; empty for none. Without it everything
        else of the reading is as good, so an error is a text too.
        """
        query = {"fieldSelector": f"regarding.kind=Kafka,regarding.name={self._name}"}
        last = ("", "")
        try:
            async with aclosing(self._api.listed(EVENTS.format(self._namespace), query)) as listed:
                async for raw in listed:
                    if raw.get("reportingController") == CLUSTER_OPERATOR:
                        last = max(last, (str(raw.get("eventTime") or ""), f"{raw.get('reason')}: {raw.get('note')}"))
        except KubeError as error:
            return _line(f"could not be read: {error}")
        at, text = last
        return f"{at[:10]} {at[11:19]} UTC: {_line(text)}" if at else ""

    async def _listed(self, path: str, labels: str = _LABELS) -> Sequence[Json]:
        """The objects of this collection that belong to the `Kafka` by their labels. Raises Gone, ListTooLarge."""
        query = {"labelSelector": labels.format(self._name)}
        return await listed_up_to(MOST_PODS, "objects of this cluster", self._api, path, query)


async def requests(api: WorkloadsApi, namespace: str) -> list[RequestedPod]:
    """Pods with the annotation, by this operator."""
    return await own_requests(api, namespace, "strimzi.io/kind=Kafka", RESTART)


async def withdraw(api: WorkloadsApi, namespace: str, step: RestartNode | RequestedPod) -> Outcome:
    """Remove the annotation of exactly this pod, unless it is that of a person."""
    return await outcome_of(remove_request(api, namespace, step, RESTART), REMEDY)


def templates(objects: ObjectReader, driver: Driver, spec: Mapping[str, Any]) -> Templates:
    """Templates of the StrimziPodSets of a `Kafka`, which Strimzi may change until it was reconciled as it is now.
    Where it has none, or does not exist, the only entry has its name, and no revision.
    """
    (name,) = (name.removeprefix("Kafka ") for name in driver.names_in(spec))
    kafka = objects.object_of(("kafkas", "kafka.strimzi.io"), "kafka.strimzi.io/v1", name)
    if kafka is None:
        return {name: Template("", 0, f"Kafka {name} not found")}
    pools = objects.objects_of(("kafkanodepools", "kafka.strimzi.io"), "kafka.strimzi.io/v1", _POOL_LABELS.format(name))
    read_at = objects.answered_at
    listed = objects.objects_of(("strimzipodsets", "core.strimzi.io"), "core.strimzi.io/v1", _LABELS.format(name))
    sets = [raw for raw in listed if _is_of(raw, pools)]
    operator = operator_of(kafka, pools, sets, read_at)
    pending, halt = unprocessed(operator) or failed(operator), paused(operator, kafka["metadata"]["namespace"])
    made = (_set_of(raw, [], "") for raw in sets if raw["spec"]["pods"])
    return {
        each.name: Template(each.update_revision if each.observed else "", each.replicas, pending, halt)
        for each in made
    } or {name: Template("", 0, pending or without_sets(operator), halt)}


def operator_of(kafka: Json, pools: Iterable[Json], sets: Iterable[Json], at: datetime) -> ManagingOperator:
    """State of a `Kafka`, with its node pools, which have generations of their own. That of the `Kafka` is in its
    status once a reconciliation has ended, that of a pool shortly before its set is changed (`READ_BEFORE`). While it
    is paused, and until the next reconciliation, its status says nothing else.

    sets: its StrimziPodSets. at: when the pools were read, by the clock of the API server; the sets were read later.
    """
    metadata, status = kafka["metadata"], kafka.get("status") or {}
    conditions = [each for each in status.get("conditions") or () if each.get("status") == "True"]
    kinds = {str(each.get("type")) for each in conditions}
    is_current = _is_observed(kafka) and "ReconciliationPaused" not in kinds
    behind = sorted(str(pool["metadata"]["name"]) for pool in pools if not _is_settled(pool, at - READ_BEFORE))
    to_roll = sorted(str(raw["metadata"]["name"]) for raw in sets if _has(raw, RESTART))
    said = {str(each.get("type")): f"{each.get('reason')}: {each.get('message')}" for each in reversed(conditions)}
    resource = f"Kafka {metadata['name']}"
    return ManagingOperator(
        resource,
        unprocessed=resource if not is_current else f"KafkaNodePool {behind[0]}" if behind else "",
        to_roll=f"StrimziPodSet {to_roll[0]}" if to_roll else "",
        is_paused=_has(kafka, PAUSE),
        failure=_line(said.get("NotReady", "")),
    )


def _has(raw: Json, annotation: str) -> bool:
    return str((raw["metadata"].get("annotations") or {}).get(annotation)).lower() == "true"


def _is_observed(raw: Json) -> bool:
    """Tell whether its status is of its present generation."""
    return bool((raw.get("status") or {}).get("observedGeneration") == raw["metadata"]["generation"])


def _set_of(raw: Json, pods: list[Json], conflict: str) -> StatefulSet:
    """A StrimziPodSet with its pods. Each pod has a revision of its own, so the revision of the set is a hash of those
    that it wants, and a pod has it if nothing for which Strimzi restarts pods differs. Where it wants none,
    its last pods show their image and role.
    """
    metadata, spec = raw["metadata"], raw["spec"]
    templates = {str(template["metadata"]["name"]): template for template in spec["pods"]}
    wanted = {name: _rolled_for(template) for name, template in templates.items()}
    text = "\n".join(f"{name} {sorted(values.items())}" for name, values in sorted(wanted.items()))
    revision = hashlib.sha256(text.encode()).hexdigest()[:10]
    shown = [*templates.values(), *pods]
    first, first_spec = shown[0]["metadata"], shown[0].get("spec") or {}
    image = str(container_of(first_spec, CONTAINER).get("image") or "")
    annotations = first.get("annotations") or {}
    return StatefulSet(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        role="brokers" if any(map(_is_broker, shown)) else "controllers",
        replicas=len(templates),
        update_revision=revision if all(REVISION in values for values in wanted.values()) else "",
        update_strategy="",
        observed=_is_observed(raw),
        image=image,
        release=release_of({}, {KAFKA_VERSION: str(annotations.get(RELEASE) or "")}, image),
        conflict=conflict,
        grace_seconds=int(first_spec.get("terminationGracePeriodSeconds") or 30),
        pods=tuple(sorted((_pod(pod, metadata["name"], wanted, revision) for pod in pods), key=lambda pod: pod.name)),
        kind=STRIMZI.kind,
        restarts_outdated=STRIMZI.restarts_outdated,
    )


def _pod(raw: Json, owner: str, wanted: Mapping[str, Mapping[str, str]], revision: str) -> Pod:
    """A pod. `wanted`: what each pod of its set should be rolled for. `revision`: of the set."""
    pod, annotations = pod_of(raw, owner, CONTAINER, RESTART), raw["metadata"].get("annotations") or {}
    values = wanted.get(pod.name)
    is_current = values is not None and all(annotations.get(name) == value for name, value in values.items())
    return replace(
        pod,
        revision=revision if is_current else str(annotations.get(REVISION) or ""),
        release=release_of({}, {KAFKA_VERSION: str(annotations.get(RELEASE) or "")}, ""),
        request_is_of_another=is_of_another(raw["metadata"], RESTART),
    )


def _rolled_for(template: Json) -> dict[str, str]:
    annotations = template["metadata"].get("annotations") or {}
    return {name: str(annotations[name]) for name in ROLLED_FOR if name in annotations}


def _is_broker(template: Json) -> bool:
    return (template["metadata"].get("labels") or {}).get("strimzi.io/broker-role") != "false"


def _is_of(raw: Json, pools: Iterable[Json]) -> bool:
    """Tell whether one of these node pools owns this StrimziPodSet. The `Kafka` itself owns neither: pools are made by
    people, and name their `Kafka` in a label (`KafkaCluster.java`, `generatePodSets`).
    """
    return any(pool["metadata"]["uid"] in _owners(raw) for pool in pools)


def _is_settled(raw: Json, at: datetime) -> bool:
    """Tell whether its status is of its present generation, and was so at that time, as the API server notes."""
    noted = [entry for entry in raw["metadata"].get("managedFields") or () if entry.get("subresource") == "status"]
    times = [datetime.fromisoformat(entry["time"]) for entry in noted if entry.get("time")]
    return _is_observed(raw) and all(time <= at for time in times)


def _owners(raw: Json) -> set[str]:
    return {str(owner["uid"]) for owner in raw["metadata"].get("ownerReferences") or ()}


def _line(text: str) -> str:
    """The text in one line, behind which a sentence continues."""
    return " ".join(text.split())[:LONGEST_MESSAGE].rstrip(". ")


open_port = StrimziPods  # the function of this name that `Adapter` of `adapters.py` asks of a driver's module
