"""Production's controller and driver for a cluster of Strimzi, on the simulated API server with its pods, and on a
simulated cluster; and what Strimzi and people do to it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kafkafeatures.api.names import RESTART_POD_UID
from kafkafeatures.api.records import stamp
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kube.workloads.rights import KubernetesRight
from tests.kafkafeatures.kube.test_evictions import right_of
from tests.kafkafeatures.reconcile.test_stateful_sets import Rig
from tests.kafkafeatures.reconcile.test_strimzi import (
    BUNDLE,
    CERTIFICATE,
    CERTIFICATES,
    KAFKA,
    LABELS,
    PRIVATE_KEY,
    TLS,
    UID,
    Scene,
    listener,
)
from tests.simulated.requests import Fault, Request

POOL = "/apis/kafka.strimzi.io/v1/namespaces/kafka/kafkanodepools/broker"
SETS = "/apis/core.strimzi.io/v1/namespaces/kafka/strimzipodsets"
EVENTS = "/apis/events.k8s.io/v1/namespaces/kafka/events"
POD_SET = f"{SETS}/broker"
RESTART, PAUSE = "strimzi.io/manual-rolling-update", "strimzi.io/pause-reconciliation"
OF_KAFKA = {"strimzi.io/cluster": "my-cluster", "strimzi.io/kind": "Kafka"}
READY = {"type": "Ready", "status": "True"}
POOL_UID = "uid-of-pool"
PODS = ("broker-0", "broker-1", "broker-2")
Json = dict[str, Any]


class Strimzi(Rig):
    """A Kafka of Strimzi: brokers 1, 2 and 3 in the pods of one StrimziPodSet, current and ready, and a document that
    wants a level. requests: changes of pods by the operator. used: rights that it used. event_lists: how often it
    listed Events. revisions: those that Strimzi wants.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.used: set[KubernetesRight] = set()
        self.event_lists = 0
        self.uids: dict[int, str] = {}
        self.revisions = {pod: f"{pod}-first" for pod in PODS}
        super().__init__()
        self.workloads.made = self._made
        for pod in PODS:
            self.workloads.change_pod(pod, self._made)
        self.api.server.edit("kafka", "orders", lambda resource: resource["spec"].pop("workload"))
        self.api.edit(
            cluster={"strimzi": {"name": "my-cluster"}}, features={"levels": [{"name": "group.version", "level": 1}]}
        )
        self.wants(**self.revisions)
        self.kafka_is()
        self.pool_is()
        Scene.secret(self, "kafka-features", {"user.crt": CERTIFICATE, "user.key": PRIVATE_KEY}, labels=LABELS)  # type: ignore[arg-type]
        Scene.secret(self, BUNDLE, {"cluster-ca.crt": CERTIFICATES.ca}, owner=UID)  # type: ignore[arg-type]
        self.api.faults = self._heard
        self.uids = {id_: self.workloads.uid(f"broker-{id_ - 1}") for id_ in (1, 2, 3)}
        self.pass_time(timedelta(minutes=1))  # its pods are ready for longer than any wait for that

    def path(self, secret: str) -> str:
        return f"/api/v1/namespaces/kafka/secrets/{secret}"

    # --- what Strimzi and people do ---

    def kafka_is(
        self,
        *conditions: Json,
        generation: int = 1,
        observed: int = 1,
        is_paused: bool = False,
        is_deleted: bool = False,
    ) -> None:
        """The `Kafka`, as Strimzi shows it."""
        metadata: Json = {"namespace": "kafka", "name": "my-cluster", "uid": UID, "generation": generation}
        metadata |= {"deletionTimestamp": "2026-01-02T03:04:05Z"} if is_deleted else {}
        shown = [{"name": "tls", "bootstrapServers": "tls.example:9094", "certificates": []}]
        status = {"listeners": shown, "observedGeneration": observed, "conditions": [*(conditions or (READY,))]}
        spec = {"kafka": {"listeners": [listener("tls", authentication=TLS)]}}
        annotations = {PAUSE: "true"} if is_paused else {}
        kafka = {"metadata": {**metadata, "annotations": annotations}, "spec": spec, "status": status}
        self.api.server.store(KAFKA, kafka)

    def pool_is(self, generation: int = 1, observed: int = 1, *, ago: timedelta = timedelta(hours=1)) -> None:
        """The only node pool. `ago`: how long ago its status was written."""
        metadata: Json = {"namespace": "kafka", "name": "broker", "labels": {"strimzi.io/cluster": "my-cluster"}}
        written = {"subresource": "status", "time": stamp(self.api.now - ago)}
        metadata |= {"uid": POOL_UID, "generation": generation, "managedFields": [written]}
        self.api.server.store(POOL, {"metadata": metadata, "status": {"observedGeneration": observed}})

    def wants(self, **revisions: str) -> None:
        """The StrimziPodSet, with these revisions of pods; the pods stay as they are."""
        self.revisions = revisions
        self.pod_set()

    def pod_set(
        self,
        name: str = "broker",
        owner: str = POOL_UID,
        observed: int = 1,
        *,
        is_empty: bool = False,
        is_to_roll: bool = False,
    ) -> None:
        """A StrimziPodSet with the labels of the cluster. `owner`: uid of its node pool, which alone owns it
        (`KafkaCluster.generatePodSets`). `is_empty`: of a node pool with
        0 replicas. `is_to_roll`: with the annotation on which Strimzi restarts all its pods.
        """
        templates = [
            {
                "metadata": {"name": pod, "labels": OF_KAFKA, "annotations": {"strimzi.io/revision": revision}},
                "spec": {"containers": [{"name": "kafka", "image": "strimzi/kafka:1.2.0-kafka-4.2.0"}]},
            }
            for pod, revision in ({} if is_empty else self.revisions).items()
        ]
        uid = {"broker": "uid-of-set"}.get(name, f"uid-of-{name}")
        metadata: Json = {"namespace": "kafka", "name": name, "uid": uid, "generation": 1, "labels": OF_KAFKA}
        owners = [{"kind": "KafkaNodePool", "name": "broker", "uid": owner}]
        metadata |= {"ownerReferences": owners, "annotations": {RESTART: "true"} if is_to_roll else {}}
        pod_set = {"metadata": metadata, "spec": {"pods": templates}}
        self.api.server.store(f"{SETS}/{name}", {**pod_set, "status": {"observedGeneration": observed}})

    def event(self, at: str, reason: str, note: str, by: str = "strimzi.io/cluster-operator") -> None:
        """An Event about the `Kafka`, as Strimzi writes one for a restart (`KubernetesRestartEventPublisher`)."""
        metadata = {"name": f"strimzi-event-{at}", "namespace": "kafka"}
        event = {"metadata": metadata, "eventTime": f"2026-11-30T{at}.000001Z", "reason": reason, "note": note}
        self.api.server.store(f"{EVENTS}/{metadata['name']}", {**event, "reportingController": by})

    def restart(self, pod: str) -> None:
        """Strimzi restarts a pod, whose next one is of the revision that it wants."""
        self.workloads._stop(pod, self.workloads.uid(pod))
        for _ in range(4):  # it stops, is created, starts, and is ready
            self.pass_time(timedelta(seconds=10))

    def annotation(self, pod: str, name: str, value: str | None) -> None:
        self.workloads.change_pod(pod, lambda raw: _annotate(raw, name, value))

    def annotations(self, pod: str) -> Json:
        found = self.api.server.read(f"/api/v1/namespaces/kafka/pods/{pod}")
        return dict(found["metadata"].get("annotations") or {}) if found else {}

    def request(self, pod: str) -> None:
        """What `kafkafeatures restart --pod` does."""
        self.annotation(pod, RESTART_POD_UID, self.workloads.uid(pod))

    # --- as `ObjectReader` ---

    @property
    def answered_at(self) -> datetime:
        return self.api.now

    def object_of(self, plural: tuple[str, str], version: str, name: str) -> Json | None:
        return self.api.server.read(f"/apis/{version}/namespaces/kafka/{plural[0]}/{name}")

    def objects_of(self, plural: tuple[str, str], version: str, selector: str) -> list[Json]:
        of_set = ",".join(f"{key}={value}" for key, value in OF_KAFKA.items())
        assert selector == {"kafkanodepools": "strimzi.io/cluster=my-cluster"}.get(plural[0], of_set)
        collection = f"/apis/{version}/namespaces/kafka/{plural[0]}"
        return [document for path in self.api.server.there(collection) if (document := self.api.server.read(path))]

    # --- inside ---

    def _made(self, pod: Json) -> None:
        metadata = pod["metadata"]
        metadata["labels"] = {**metadata["labels"], **OF_KAFKA}
        metadata["annotations"] = {"strimzi.io/revision": self.revisions[metadata["name"]]}
        metadata["ownerReferences"] = [{"kind": "StrimziPodSet", "name": "broker", "uid": "uid-of-set"}]

    def pass_time(self, time: timedelta) -> None:
        super().pass_time(time)
        world = self.kafka.world if self.uids else None
        for id_ in self.uids:
            pod = self.api.server.read(f"/api/v1/namespaces/kafka/pods/broker-{id_ - 1}")
            if pod is None or "deletionTimestamp" in pod["metadata"]:
                self.kafka.world.stop(Role.BROKER, id_)
            elif pod["metadata"]["uid"] != self.uids[id_] and pod["status"].get("podIP"):
                self.uids[id_] = pod["metadata"]["uid"]
                self.kafka.world.ips[Role.BROKER, id_] = pod["status"]["podIP"]
                self.kafka.world.start(Role.BROKER, id_)
        if world is not None:
            world.advance(world.now_ms + int(time.total_seconds() * 1000))

    def _heard(self, request: Request) -> Fault | None:
        is_of_events = request.method == "GET" and request.path == EVENTS
        self.event_lists += is_of_events
        if "strimzi.io" in request.path or "/pods" in request.path or is_of_events:
            self.used.add(right_of(request))
        if request.writes and "/pods/" in request.path:
            annotations = request.body["metadata"]["annotations"]
            self.requests.append(f"{request.method} {request.path.rpartition('/')[2]} {annotations}")
        return None


def _annotate(raw: Json, name: str, value: str | None) -> None:
    annotations = raw["metadata"].setdefault("annotations", {})
    annotations.pop(name, None)
    if value is not None:
        annotations[name] = value
