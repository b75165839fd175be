"""What Strimzi has in a namespace for a cluster, as docs/how-to/with-strimzi.md says: a `Kafka`, whose status has the
addresses of listeners, the Secret of a KafkaUser, and the Secrets of the cluster CA. A test writes them; no Strimzi
runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kafkafeatures.api.names import CREDENTIALS
from tests.e2e.kubernetes.resources import NS, grant_to_operator
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.listeners import USERS
from tests.e2e.rig.process import wait_until

NAME, USER = "my-cluster", "kafka-features"
GROUP, PLURAL = "kafka.strimzi.io", "kafkas"
PODSETS = "core.strimzi.io"
_TEXT, _NUMBER, _ANY = {"type": "string"}, {"type": "integer"}, {"x-kubernetes-preserve-unknown-fields": True}


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _crd(group: str, kind: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """A kind as Strimzi 1.x serves it; the API server drops every field that is not named here."""
    plural = f"{kind.lower()}s"
    schema = _object(spec=spec, status=status)
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


_CONDITIONS = _list(_object(type=_TEXT, status=_TEXT, reason=_TEXT, message=_TEXT, lastTransitionTime=_TEXT))
_LISTENER = _object(
    name=_TEXT,
    port=_NUMBER,
    type=_TEXT,
    tls={"type": "boolean"},
    authentication=_object(type=_TEXT),
    configuration=_object(brokerCertChainAndKey=_object(secretName=_TEXT, certificate=_TEXT, key=_TEXT)),
)
_ADDRESSES = _list(_object(host=_TEXT, port=_NUMBER))
CRDS = (
    _crd(
        GROUP,
        "Kafka",
        _object(
            kafka=_object(
                version=_TEXT,
                metadataVersion=_TEXT,
                listeners=_list(_LISTENER),
                template=_object(pod=_object(metadata=_object(annotations={"type": "object", **_ANY}))),
            )
        ),
        _object(
            conditions=_CONDITIONS,
            observedGeneration=_NUMBER,
            listeners=_list(
                _object(name=_TEXT, bootstrapServers=_TEXT, addresses=_ADDRESSES, certificates=_list(_TEXT))
            ),
            clusterId=_TEXT,
            kafkaVersion=_TEXT,
            kafkaMetadataVersion=_TEXT,
            operatorLastSuccessfulVersion=_TEXT,
        ),
    ),
    _crd(
        GROUP,
        "KafkaNodePool",
        _object(replicas=_NUMBER, roles=_list(_TEXT), resources={"type": "object", **_ANY}),
        _object(conditions=_CONDITIONS, observedGeneration=_NUMBER, nodeIds=_list(_NUMBER)),
    ),
    _crd(
        PODSETS,
        "StrimziPodSet",
        _object(selector={"type": "object", **_ANY}, pods=_list({"type": "object", **_ANY})),
        _object(
            conditions=_CONDITIONS,
            observedGeneration=_NUMBER,
            pods=_NUMBER,
            readyPods=_NUMBER,
            currentPods=_NUMBER,
        ),
    ),
)
RIGHTS: list[dict[str, Any]] = [
    {"apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["get"]},
    {"apiGroups": [GROUP], "resources": ["kafkanodepools"], "verbs": ["list"]},
    {"apiGroups": [PODSETS], "resources": ["strimzipodsets"], "verbs": ["list"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
]
"""In a namespace with clusters of Strimzi, as the chart grants them."""


def install_kinds(plane: ControlPlane) -> None:
    """The kinds `Kafka`, `KafkaNodePool` and `StrimziPodSet`."""
    plane.apply(*CRDS)
    paths = [f"/apis/{crd['spec']['group']}/v1/{crd['spec']['names']['plural']}" for crd in CRDS]
    wait_until("the API server serves them", lambda: all("items" in plane.read(path) for path in paths), 60, step=0.1)


class Strimzi:
    """The resources of one cluster. `cluster`: where it really is. `authentication`: of its listener and user."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, authentication: str) -> None:
        self.plane, self.cluster, self.authentication = plane, cluster, authentication

    def install(self) -> None:
        install_kinds(self.plane)

    def allow(self) -> None:
        """The operator's account gets the right of `drivers.strimzi`."""
        grant_to_operator(self.plane, NS, "strimzi", RIGHTS)

    def create(self) -> None:
        """The `Kafka` after its first reconciliation, its user and its certificates."""
        authentication = {"type": self.authentication}
        listener = {"name": "tls", "port": 9093, "type": "internal", "tls": True, "authentication": authentication}
        plain = {"name": "plain", "port": 9092, "type": "internal", "tls": False}
        kafka = {"apiVersion": f"{GROUP}/v1", "kind": "Kafka", "metadata": {"name": NAME, "namespace": NS}}
        self.plane.apply({**kafka, "spec": {"kafka": {"listeners": [plain, listener]}}})
        self.show(self.cluster.bootstrap_servers)
        if self.authentication == "tls":
            certificate, key = self.cluster.certificates.client(USER)
            user = {"user.crt": certificate, "user.key": key}
        else:
            user = {"password": USERS["alice"]}
        self.secret(self.user, user, labels={CREDENTIALS: "true"})
        self.trust(self.cluster.certificates.ca)

    @property
    def user(self) -> str:
        """The name of the KafkaUser: of a login with a password it is the user of the rig."""
        return USER if self.authentication == "tls" else "alice"

    @property
    def uid(self) -> str:
        uid: str = self.plane.read(f"/apis/{GROUP}/v1/namespaces/{NS}/{PLURAL}/{NAME}")["metadata"]["uid"]
        return uid

    def show(self, address: str | None) -> None:
        """Strimzi writes the address of the listener into the status; None: the cluster is paused, and the status has
        no listeners.
        """
        listeners = [{"name": "tls", "bootstrapServers": address}] if address else None
        patch = json.dumps({"status": {"listeners": listeners}})
        self.plane.kubectl(
            "patch",
            f"{PLURAL}.{GROUP}",
            NAME,
            "-n",
            NS,
            "--subresource=status",
            "--type=merge",
            "-p",
            patch,
        )

    def trust(self, authorities: str) -> None:
        """The bundle of all certificate authorities that are trusted now."""
        owner = {"apiVersion": f"{GROUP}/v1", "kind": "Kafka", "name": NAME, "uid": self.uid}
        self.secret(f"{NAME}-trustbundle", {"cluster-ca.crt": authorities}, ownerReferences=[owner])

    def secret(self, name: str, texts: Mapping[str, str], **metadata: Any) -> None:
        named = {"name": name, "namespace": NS, **metadata}
        self.plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": named, "stringData": {**texts}})

    def remove(self) -> None:
        """The right as well."""
        self.plane.kubectl("delete", "role,rolebinding", "strimzi", "-n", NS, "--timeout=30s")
        self.plane.kubectl("delete", f"{PLURAL}.{GROUP}", "--all", "-n", NS, "--timeout=30s")
        self.plane.kubectl("delete", "secrets", "--all", "-n", NS, "--timeout=30s")
