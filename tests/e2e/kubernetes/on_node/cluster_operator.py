"""A stand-in for Strimzi's cluster operator, which no registry has that tests may use: on a real API server with real
Kafka in pods it does what Strimzi 1.2.0 was seen to do. Each rule names the class of Strimzi that it is taken from.

    for moment in strimzi.reconciling(): ...     # one reconciliation; the test goes on with it when it wants to
    strimzi.reconcile()                          # the whole of it

A reconciliation runs when a test says so, in place of Strimzi's interval of two minutes; one that is not continued is
a Strimzi that takes long, or that died. The pod set controller runs by itself.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Generator
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from kafkafeatures.core.facts.releases import level_name, metadata_version_named
from tests.e2e.kubernetes.on_node import strimzi_manifests as made
from tests.e2e.kubernetes.on_node.strimzi_manifests import BOOTSTRAP, CA_GENERATION, NS, OF_RESOURCES, REVISION
from tests.e2e.kubernetes.strimzi import GROUP, NAME, PODSETS
from tests.e2e.rig.asking import asked
from tests.e2e.rig.certificates import Certificates
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.tools import is_true
from tests.e2e.rig.process import wait_until

KAFKA, PODS = f"/apis/{GROUP}/v1/namespaces/{NS}/kafkas/{NAME}", f"/api/v1/namespaces/{NS}/pods"
POOLS = f"/apis/{GROUP}/v1/namespaces/{NS}/kafkanodepools"
SETS = f"/apis/{PODSETS}/v1/namespaces/{NS}/strimzipodsets"
MANUAL, PAUSE = "strimzi.io/manual-rolling-update", "strimzi.io/pause-reconciliation"
MERGE = "application/merge-patch+json"
DEFAULTS = {"4.1.2": "4.1-IV1", "4.4.0": "4.4-IV2"}
"""The metadata.version of a release, where the `Kafka` names none (`kafka-versions.yaml`)."""
UPGRADE, SAFE_DOWNGRADE = 1, 2
REASONS = {
    CA_GENERATION: "ClusterCaCertKeyReplaced",
    OF_RESOURCES: "PodHasOldResourceRevision",
    REVISION: "PodHasOldRevision",
}
"""Why a pod is restarted (`RestartReason.java`), by the annotation in which it differs."""
SECONDS = 120.0


class Moment(NamedTuple):
    """A moment of a roll. `is_gone`: the pod was deleted and is not back yet; else it is to be deleted next."""

    pod: str
    is_gone: bool


class RollFailed(Exception):
    """`UnforceableProblem` of `KafkaRoller.java`: another node is not ready."""


class ClusterOperator:
    """See the prologue. `ids`: of the nodes of the only pool. `folder`: for its certificate."""

    def __init__(self, node: Node, folder: Path, ids: tuple[int, ...]) -> None:
        self.node, self.plane, self.ids, self.folder = node, node.control_plane, ids, folder
        hosts = (made.host_name(made.pod_name(id_)) for id_ in ids)
        self.certificates = Certificates(f"{BOOTSTRAP}.{NS}.svc", *hosts)
        self.trusted, self.generation = self.certificates.ca, 0
        self._controller = PodSetController(self)

    def __enter__(self) -> ClusterOperator:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

    # --- one reconciliation (`KafkaReconciler.reconcile`, in its order) ---

    def reconcile(self) -> None:
        for _ in self.reconciling():
            pass

    def reconciling(self) -> Generator[Moment]:
        """One reconciliation. The status is written at its end, so it says Ready during a roll
        (`AbstractOperator.reconcileResource`).
        """
        kafka = self.plane.read(KAFKA)
        if not kafka:
            return
        pools = self.plane.read(POOLS)["items"]
        status = {"clusterId": made.CLUSTER_ID, "observedGeneration": kafka["metadata"]["generation"]}
        if kafka["metadata"].get("annotations", {}).get(PAUSE) == "true":
            # Nothing else stays in the status; its generation is that of the last reconciliation.
            last = kafka.get("status", {}).get("observedGeneration", 0)
            paused = _condition("ReconciliationPaused")
            return self._write_status({**status, "observedGeneration": last, "conditions": [paused]})
        try:
            # Its failure is logged only (`KafkaReconciler.manualRollingUpdate`).
            with suppress(RollFailed):
                for pod in self._annotated():
                    yield from self._restart(pod, "ManualRollingUpdate")
            self._write_status_of(pools)
            self._write_resources(kafka)
            while reasons := self._reasons_to_restart():
                yield from self._restart(*next(iter(reasons.items())))
            wait_until("all pods are ready", lambda: self._ready() == set(self.ids), SECONDS)
            self._unregister()
            warnings = self._set_metadata_version(kafka["spec"]["kafka"])
        except (RollFailed, OSError, AssertionError) as error:
            failure = _condition("NotReady", type(error).__name__, str(error))
            return self._write_status({**status, "conditions": [failure]})
        self._write_status(
            {
                **status,
                "conditions": [*warnings, _condition("Ready")],
                "listeners": [self._listener(each) for each in kafka["spec"]["kafka"]["listeners"]],
                "kafkaVersion": kafka["spec"]["kafka"]["version"],
                "kafkaMetadataVersion": level_name("metadata.version", self.level("metadata.version")),
                "operatorLastSuccessfulVersion": "1.2.0",
            }
        )

    def _write_status_of(self, pools: list[dict[str, Any]]) -> None:
        """The generation that was read at the start, before anything is changed for it
        (`KafkaReconciler.updateNodePoolStatuses`).
        """
        for pool in pools:
            status = {"nodeIds": [*self.ids], "observedGeneration": pool["metadata"]["generation"]}
            path = f"{POOLS}/{pool['metadata']['name']}/status"
            assert self.plane.send("PATCH", path, {"status": status}, MERGE) == HTTPStatus.OK

    def _write_status(self, status: dict[str, Any]) -> None:
        """The whole of it: what a reconciliation does not say is gone. Nothing if the `Kafka` was deleted."""
        kafka = self.plane.read(KAFKA)
        if kafka:
            self.plane.send("PUT", f"{KAFKA}/status", {**kafka, "status": status})

    def _listener(self, listener: dict[str, Any]) -> dict[str, Any]:
        """The address of an internal listener, with the certificate of its authority (`KafkaListenersReconciler`)."""
        host, port = f"{BOOTSTRAP}.{NS}.svc", listener["port"]
        shown = {"name": listener["name"], "bootstrapServers": f"{host}:{port}"}
        return {**shown, "addresses": [{"host": host, "port": port}], "certificates": [self.certificates.ca]}

    def _write_resources(self, kafka: dict[str, Any]) -> None:
        """Secrets, ConfigMaps, budget, and last the StrimziPodSet as a whole: an annotation on it is gone then
        (`StrimziPodSetOperator.patchOrReplace`).
        """
        owner = made.owned_by("Kafka", GROUP, NAME, kafka["metadata"]["uid"])
        spec = kafka["spec"]["kafka"]
        release = self._target(spec).partition("-")[0]
        objects = [*made.services(), made.budget(len(self.ids)), *self._authorities()]
        for id_ in self.ids:
            objects += made.of_node(id_, self.ids, self.certificates, self.trusted, release)
        for each in objects:
            each["metadata"]["ownerReferences"] = owner
        self.plane.apply(*objects)
        (pool,) = self.plane.read(POOLS)["items"]
        pod_set = made.pod_set(kafka, pool, self.node, self.ids, self.generation)
        path = f"{SETS}/{pod_set['metadata']['name']}"
        if not (before := self.plane.read(path)):
            self.plane.send("POST", SETS, pod_set)
        else:
            pod_set["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
            assert self.plane.send("PUT", path, pod_set) == HTTPStatus.OK

    # --- restarts (`KafkaRoller.java`: one pod at a time, and none while another one is away) ---

    def _restart(self, pod: str, reason: str) -> Generator[Moment]:
        if not {id_ for id_ in self.ids if made.pod_name(id_) != pod} <= self._ready():
            raise RollFailed(f"Pod {pod} cannot be updated right now")
        yield Moment(pod, is_gone=False)
        self._publish(pod, reason)
        uid = self.pods()[pod]["metadata"]["uid"]
        self.plane.send("DELETE", f"{PODS}/{pod}", {})
        yield Moment(pod, is_gone=True)
        wait_until(f"{pod} is ready again", lambda: self._is_back(pod, uid), SECONDS)

    def _is_back(self, pod: str, uid: str) -> bool:
        current = self.pods().get(pod, {})
        return bool(current) and current["metadata"]["uid"] != uid and is_true("Ready", current)

    def _annotated(self) -> list[str]:
        """Pods with the annotation, and those of a set with it; read once, when a reconciliation starts."""
        sets = self.plane.read(SETS)["items"]
        if any(each["metadata"].get("annotations", {}).get(MANUAL) == "true" for each in sets):
            return sorted(self.pods())
        return [name for name, pod in sorted(self.pods().items()) if _annotation(pod, MANUAL) == "true"]

    def _reasons_to_restart(self) -> dict[str, str]:
        """Pods that are not as their set has them, by revision or by generation of the authority
        (`ReconcilerUtils.reasonsToRestartPod`).
        """
        pods = self.pods()
        wanted = [each for pod_set in self.plane.read(SETS)["items"] for each in pod_set["spec"]["pods"]]
        return {
            each["metadata"]["name"]: reason
            for each in wanted
            for annotation, reason in REASONS.items()
            if each["metadata"]["name"] in pods
            and _annotation(pods[each["metadata"]["name"]], annotation) != _annotation(each, annotation)
        }

    def _publish(self, pod: str, reason: str) -> None:
        """The Event of a restart (`KubernetesRestartEventPublisher.java`)."""
        metadata = {"generateName": "strimzi-event-", "namespace": NS}
        event = {
            "metadata": metadata,
            "type": "Normal",
            "action": "StrimziInitiatedPodRestart",
            "reason": reason,
            "note": f"Rolling Pod {pod} due to {reason}",
            "regarding": {"kind": "Kafka", "name": NAME, "namespace": NS},
            "related": {"kind": "Pod", "name": pod, "namespace": NS},
            "reportingController": "strimzi.io/cluster-operator",
            "reportingInstance": "strimzi-cluster-operator",
            "eventTime": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
        assert self.plane.send("POST", f"/apis/events.k8s.io/v1/namespaces/{NS}/events", event) == HTTPStatus.CREATED

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods of the cluster by name, as the API server has them now."""
        items = self.plane.read(PODS).get("items", [])
        return {each["metadata"]["name"]: each for each in items if made.SELECTOR.items() <= _labels(each).items()}

    def _ready(self) -> set[int]:
        return {id_ for id_ in self.ids if is_true("Ready", self.pods().get(made.pod_name(id_), {}))}

    # --- certificate authority ---

    def renew_authority(self) -> None:
        """The first of three steps of a new key (`InternalCa.java`): nodes are to trust the new authority too, and
        show certificates of the old one. Done at the next reconciliation.
        """
        self.trusted, self.generation = self.certificates.other_ca + self.certificates.ca, self.generation + 1

    def _authorities(self) -> list[dict[str, Any]]:
        """The bundle of all that are trusted, and the cluster CA's Secret, where the old one has its date as a name."""
        new = {"ca.crt": self.certificates.other_ca, "ca-2026-11-30T04-30-00Z.crt": self.certificates.ca}
        shown = new if self.generation else {"ca.crt": self.certificates.ca}
        bundle = {"cluster-ca.crt": self.trusted, "clients-ca.crt": self.certificates.ca}
        secret = {"apiVersion": "v1", "kind": "Secret"}
        return [
            {**secret, "metadata": {"name": f"{NAME}-cluster-ca-cert", "namespace": NS}, "stringData": shown},
            {**secret, "metadata": {"name": f"{NAME}-trustbundle", "namespace": NS}, "stringData": bundle},
        ]

    # --- Kafka, through port 9091 with a certificate of its own ---

    def level(self, feature: str) -> int:
        """The finalized level; 0 for none."""
        request = ApiVersionsRequest(client_software_name="strimzi", client_software_version="1.2.0", version=3)
        reply = ApiVersionsResponse.decode(self._send(request), version=3, header=True)
        return next((each.max_version_level for each in reply.finalized_features if each.name == feature), 0)

    def _unregister(self) -> None:
        """Every registered broker that is not in the pool, fenced ones too (`KafkaNodeUnregistration.java`)."""
        for id_ in self.registered() - set(self.ids):
            # UnregisterBroker v0, for which the client has no message.
            body = struct.pack(">hhih3sBiB", 64, 0, 7, 3, b"rig", 0, id_, 0)
            self._exchange(body)

    def registered(self) -> set[int]:
        """Ids of all brokers, fenced ones too."""
        reply = self._send(DescribeClusterRequest(include_fenced_brokers=True, endpoint_type=1, version=2))
        return {each.broker_id for each in DescribeClusterResponse.decode(reply, version=2, header=True).brokers}

    @staticmethod
    def _target(spec: dict[str, Any]) -> str:
        """The metadata.version of the `Kafka`, else the default of its release (`KRaftVersionChangeCreator.java`)."""
        return str(spec.get("metadataVersion") or DEFAULTS[spec["version"]])

    def _set_metadata_version(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        """Set the level back, up or down, and return the warnings: for a level below the release
        (`KafkaSpecChecker.java`), and for a refusal, without the reason of Kafka (`KRaftMetadataManager.java`).
        """
        target, current = self._target(spec), self.level("metadata.version")
        version = metadata_version_named(target)
        assert version is not None
        warnings = []
        if not spec["version"].startswith(target.partition("-")[0]):
            text = (
                "Metadata version is older than the Kafka version used by the cluster, which suggests that an upgrade "
            )
            warnings.append(_warning("KafkaMetadataVersion", f"{text}is incomplete."))
        if version.level != current and not self.set_metadata_version(version.level):
            warnings.append(_warning("MetadataUpdateFailed", f"Failed to update metadata version to {target}"))
        return warnings

    def set_metadata_version(self, level: int) -> bool:
        """Up, or down where nothing is lost; False if Kafka refuses it."""
        kind = UPGRADE if level > self.level("metadata.version") else SAFE_DOWNGRADE
        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature="metadata.version", max_version_level=level, upgrade_type=kind
        )
        request = UpdateFeaturesRequest(feature_updates=[update], timeout_ms=10_000, validate_only=False, version=1)
        done = UpdateFeaturesResponse.decode(self._send(request), version=1, header=True)
        return not done.error_code and not any(each.error_code for each in done.results)

    def _send(self, request: Any) -> bytes:
        request.with_header(correlation_id=7, client_id="rig")
        return self._exchange(request.encode(header=True))

    def _exchange(self, request: bytes) -> bytes:
        """One request to a node that is ready."""
        pod = made.pod_name(min(self._ready()))
        address = self.pods()[pod]["status"]["podIP"]
        return asked(9091, request, host=address, tls=self._tls, server=made.host_name(pod))

    @property
    def _tls(self) -> ssl.SSLContext:
        path = self.folder / "cluster-operator.pem"
        if not path.exists():
            path.write_text("".join(self.certificates.client("cluster-operator")))
        context = ssl.create_default_context(cadata=self.certificates.ca)
        context.load_cert_chain(path)
        return context


class PodSetController(Thread):
    """`StrimziPodSetController.java`: a thread of its own, which pausing does not stop. A pod that is missing is
    created as its set has it now, with whatever is new in that.
    """

    def __init__(self, strimzi: ClusterOperator) -> None:
        super().__init__(name="pod-set-controller", daemon=True)
        self._strimzi, self._plane, self._ended = strimzi, strimzi.plane, Event()

    def run(self) -> None:
        while not self._ended.wait(0.1):
            for pod_set in self._plane.read(SETS).get("items", []):
                self._reconcile(pod_set)

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _reconcile(self, pod_set: dict[str, Any]) -> None:
        metadata, wanted = pod_set["metadata"], pod_set["spec"]["pods"]
        pods = self._strimzi.pods()
        owner = made.owned_by("StrimziPodSet", PODSETS, metadata["name"], metadata["uid"])
        for pod in wanted:
            if pod["metadata"]["name"] not in pods and not metadata.get("deletionTimestamp"):
                self._plane.send("POST", PODS, {**pod, "metadata": {**pod["metadata"], "ownerReferences": owner}})
        existing = [(pods[each["metadata"]["name"]], each) for each in wanted if each["metadata"]["name"] in pods]
        status = {
            "observedGeneration": metadata["generation"],
            "pods": len(wanted),
            "readyPods": sum(is_true("Ready", pod) for pod, _ in existing),
            "currentPods": sum(_annotation(pod, REVISION) == _annotation(each, REVISION) for pod, each in existing),
        }
        if pod_set.get("status") != status:
            self._plane.send("PATCH", f"{SETS}/{metadata['name']}/status", {"status": status}, MERGE)


def _condition(kind: str, reason: str = "", message: str = "") -> dict[str, Any]:
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    texts = {key: text for key, text in (("reason", reason), ("message", message)) if text}
    return {"type": kind, "status": "True", "lastTransitionTime": at, **texts}


def _warning(reason: str, message: str) -> dict[str, Any]:
    return _condition("Warning", reason, message)


def _annotation(pod: dict[str, Any], name: str) -> str:
    return str(pod["metadata"].get("annotations", {}).get(name, ""))


def _labels(pod: dict[str, Any]) -> dict[str, str]:
    return dict(pod["metadata"].get("labels", {}))
