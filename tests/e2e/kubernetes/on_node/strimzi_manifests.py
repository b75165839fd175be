"""The resources that Strimzi makes of a `Kafka` with one pool of dual-role nodes: for its stand-in beside this file.

Names, labels and annotations are those of `WorkloadUtils.java`, `Labels.java` and
`KafkaBrokerConfigurationBuilder.java` of Strimzi 1.2.0. What differs: the image and its start command are the rig's,
data are on the host, the address for clients is a headless Service, and one certificate authority signs nodes and
users.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.e2e.kubernetes.strimzi import GROUP, NAME, PODSETS
from tests.e2e.rig.certificates import Certificates
from tests.e2e.rig.kubernetes.images import kafka_name
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.racks import THREE_COPIES, text_of

NS, POOL = "strimzi", "dual"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
CONTROL, REPLICATION, CLIENTS = "CONTROLPLANE-9090", "REPLICATION-9091", "TLS-9093"
SERVICE, BOOTSTRAP = f"{NAME}-kafka-brokers", f"{NAME}-kafka-bootstrap"
CLUSTER_LABEL, REVISION, OF_RESOURCES, CA_GENERATION = (
    "strimzi.io/cluster",
    "strimzi.io/revision",
    "strimzi.io/resource-revision",
    "strimzi.io/cluster-ca-key-generation",
)
SELECTOR = {CLUSTER_LABEL: NAME, "strimzi.io/kind": "Kafka", "strimzi.io/name": f"{NAME}-kafka"}
_START = """set -eu
mkdir -p /data/$POD
[ -e /data/$POD/meta.properties ] ||
  bash /opt/kafka/java.sh kafka.tools.StorageTool format -t {id} -c /config/server.config --release-version {release}
exec bash /opt/kafka/java.sh kafka.Kafka /config/server.config
"""


def pod_name(node_id: int) -> str:
    return f"{NAME}-{POOL}-{node_id}"


def host_name(pod: str) -> str:
    return f"{pod}.{SERVICE}.{NS}.svc"


def owned_by(kind: str, group: str, name: str, uid: str) -> list[dict[str, Any]]:
    """References to the only owner. Of pods alone it is the controller (`ModelUtils.createOwnerReference`)."""
    owner = {"apiVersion": f"{group}/v1", "kind": kind, "name": name, "uid": uid}
    return [{**owner, "controller": kind == "StrimziPodSet"}]


def services() -> list[dict[str, Any]]:
    """Names of pods, which are there before these are ready; and the address for clients, with the pods that are."""
    ports = [{"name": "tls", "port": 9093}]
    spec = {"clusterIP": "None", "selector": SELECTOR, "ports": ports}
    return [
        _object("v1", "Service", SERVICE, spec={**spec, "publishNotReadyAddresses": True}),
        _object("v1", "Service", BOOTSTRAP, spec=spec),
    ]


def budget(nodes: int) -> dict[str, Any]:
    """One for all nodes, controllers included (`PodDisruptionBudgetUtils.java`)."""
    spec = {"minAvailable": nodes - 1, "selector": {"matchLabels": SELECTOR}}
    return _object("policy/v1", "PodDisruptionBudget", f"{NAME}-kafka", spec=spec)


def of_node(node_id: int, ids: tuple[int, ...], certificates: Certificates, trusted: str, release: str) -> Any:
    """The ConfigMap and the Secret of a pod, which have its name."""
    pod = pod_name(node_id)
    certificate, key = certificates.node
    config = text_of(_properties(node_id, ids))
    start = _START.format(id=CLUSTER_ID, release=release)
    return [
        _object("v1", "ConfigMap", pod, data={"server.config": config, "start.sh": start}),
        _object("v1", "Secret", pod, stringData={"node.pem": certificate + key, "ca.pem": trusted}),
    ]


def foreign_broker(
    node_id: int, ids: tuple[int, ...], kafka: dict[str, Any], node: Node, certificates: Certificates
) -> list[dict[str, Any]]:
    """A broker that another team runs in the same cluster: in no pool, and without the labels of Strimzi."""
    config, secret = of_node(node_id, ids, certificates, certificates.ca, "4.1")
    config["data"]["server.config"] = text_of(_properties(node_id, ids, "broker"))
    pod = _pod(kafka, node, node_id, 0, {})
    pod["metadata"]["labels"] = {}
    return [config, secret, pod]


def _properties(node_id: int, ids: tuple[int, ...], roles: str = "broker,controller") -> dict[str, str]:
    """`server.config`: the voters are static, and every listener takes certificates alone."""
    host = host_name(pod_name(node_id))
    listeners = {REPLICATION: 9091, CLIENTS: 9093} | ({CONTROL: 9090} if "controller" in roles else {})
    return {
        "process.roles": roles,
        "node.id": str(node_id),
        "log.dirs": f"/data/{pod_name(node_id)}",
        "listeners": ",".join(f"{name}://:{port}" for name, port in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{host}:{port}" for name, port in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:SSL" for name in (CONTROL, REPLICATION, CLIENTS)),
        "controller.listener.names": CONTROL,
        "inter.broker.listener.name": REPLICATION,
        "controller.quorum.voters": ",".join(f"{id_}@{host_name(pod_name(id_))}:9090" for id_ in ids),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/certificates/node.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/certificates/ca.pem",
        "ssl.client.auth": "required",
        **THREE_COPIES,
        "initial.broker.registration.timeout.ms": "180000",  # as long as a start is waited for
    }


def node_pool(ids: tuple[int, ...]) -> dict[str, Any]:
    """The only pool, as people write it."""
    pool = _object(f"{GROUP}/v1", "KafkaNodePool", POOL, spec={"replicas": len(ids), "roles": ["controller", "broker"]})
    pool["metadata"]["labels"] = {CLUSTER_LABEL: NAME}
    return pool


def pod_set(
    kafka: dict[str, Any], pool: dict[str, Any], node: Node, ids: tuple[int, ...], generation: int
) -> dict[str, Any]:
    """The StrimziPodSet with whole pods, each with the revision of its own content (`PodRevision.java`). Its node pool
    owns it, not the `Kafka` (`KafkaCluster.generatePodSets`).
    """
    name = f"{NAME}-{POOL}"
    resources = pool["spec"].get("resources", {})
    pods = [_pod(kafka, node, node_id, generation, resources) for node_id in ids]
    owner = owned_by("KafkaNodePool", GROUP, POOL, pool["metadata"]["uid"])
    spec = {"selector": {"matchLabels": {**SELECTOR, "strimzi.io/pool-name": POOL}}, "pods": pods}
    labels = {**SELECTOR, "strimzi.io/pool-name": POOL}
    made = _object(f"{PODSETS}/v1", "StrimziPodSet", name, spec=spec)
    made["metadata"] |= {"labels": labels, "ownerReferences": owner}
    return made


def _pod(kafka: dict[str, Any], node: Node, node_id: int, generation: int, resources: dict[str, Any]) -> dict[str, Any]:
    """A pod. Its revision leaves out CPU and memory, which have one of their own (`PodRevision.java`)."""
    name, spec = pod_name(node_id), kafka["spec"]["kafka"]
    roles = {"strimzi.io/broker-role": "true", "strimzi.io/controller-role": "true"}
    labels = {**SELECTOR, **roles, "strimzi.io/pool-name": POOL, "strimzi.io/component-type": "kafka"}
    template = spec.get("template", {}).get("pod", {}).get("metadata", {}).get("annotations", {})
    container = {
        "name": "kafka",
        "image": kafka_name(spec["version"]),
        "imagePullPolicy": "Never",
        "command": ["bash", "/config/start.sh"],
        "env": [
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            # Java keeps an address for 30 s, and a pod that comes back has another one.
            {"name": "JDK_JAVA_OPTIONS", "value": "-Dsun.net.inetaddr.ttl=1 -Dsun.net.inetaddr.negative.ttl=0"},
        ],
        "ports": [{"containerPort": port} for port in (9090, 9091, 9093)],
        "volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in ("config", "certificates", "data")],
        "readinessProbe": {"tcpSocket": {"port": 9093}, "periodSeconds": 1},
    }
    where = {"path": node.data_of_pods(NS), "type": "DirectoryOrCreate"}
    volumes = [
        {"name": "config", "configMap": {"name": name}},
        {"name": "certificates", "secret": {"secretName": name}},
        {"name": "data", "hostPath": where},
    ]
    made = _object("v1", "Pod", name)
    made["spec"] = {
        "hostname": name,
        "subdomain": SERVICE,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "volumes": volumes,
    }
    annotations = {**template, "strimzi.io/kafka-version": spec["version"], CA_GENERATION: str(generation)}
    made["metadata"] |= {"labels": labels, "annotations": annotations}
    annotations |= {REVISION: _hash(made), OF_RESOURCES: _hash(resources)}
    container["resources"] = resources
    return made


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha1(json.dumps(content, sort_keys=True).encode(), usedforsecurity=False).hexdigest()[:8]


def _object(version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NS}, **content}
