"""Kafka in three racks, as people run it on Kubernetes: StatefulSets `controllers` (3) and `brokers` (6).

    racks = Racks(node); racks.apply(MIDDLE); racks.wait_ready(); racks.apply(NEWEST)

A pod is replaced when it is deleted, never by itself; it finds its data again, and has another address afterwards. So
nodes are known by the names of their pods, which this machine resolves only for a command `with_names`. Node ids
follow no ordinal. Nodes are ANONYMOUS among themselves, and may do everything; people and the operator log in on a
listener of their own, as the one user, who may do what a test granted.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.rig.cluster import uuid64
from tests.e2e.rig.kubernetes.binaries import run
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.images import kafka_image, kafka_name
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.tools import is_true
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, RECENT, release

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
USER, PASSWORD = "operator", "secret-8f21"
IDS = {"controllers": (903, 901, 902), "brokers": (21, 14, 33, 12, 25, 16)}
"""The node ids of each StatefulSet, by ordinal."""
RACKS = 3
ROLE = {"controllers": "controller", "brokers": "broker"}
PORT, USER_PORT = 9092, 9094
SNAPSHOT_EVERY = 20
"""Seconds; by default an hour."""

_RECORD = re.compile(r"\| offset: (?P<offset>\d+) CreateTime: (?P<at>\d+) .*? payload: (?P<payload>\{.*\})$")

_START = "exec bash /opt/kafka/java.sh kafka.Kafka /config/$POD.properties\n"
# Java keeps an address for 30 s, and a pod that comes back has another one.
_JAVA_OPTIONS = "-Dsun.net.inetaddr.ttl=1 -Dsun.net.inetaddr.negative.ttl=0"
THREE_COPIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "group.initial.rebalance.delay.ms": "0",
}
"""Three copies of every partition, on brokers that are small and soon ready."""


@dataclass
class Racks:
    """See the prologue. What a test wants otherwise, by the name of a StatefulSet, it sets before `apply`.

    `changed`: what is done to its manifest. `unavailable`: how many pods its PodDisruptionBudget allows to be away.
    `ids`: of its nodes, by ordinal.
    """

    node: Node
    namespace: str = "kafka"
    changed: dict[str, Callable[[dict[str, Any]], object]] = field(default_factory=dict)
    unavailable: dict[str, int] = field(default_factory=lambda: {"controllers": 1, "brokers": 2})
    ids: Mapping[str, Sequence[int]] = field(default_factory=lambda: IDS)
    image: str = ""
    search: str = ""  # what else the resolv.conf of commands has, for names that are not full

    @property
    def plane(self) -> ControlPlane:
        return self.node.control_plane

    def address(self, pod: str, port: int = PORT) -> str:
        return f"{self.host(pod)}:{port}"

    def host(self, pod: str) -> str:
        return f"{pod}.{pod.rpartition('-')[0]}.{self.namespace}.svc.cluster.local"

    def addresses(self, name: str, port: int = PORT) -> str:
        return ",".join(self.address(pod, port) for pod in self.pods_of(name))

    def pods_of(self, name: str) -> Sequence[str]:
        """The pods of a StatefulSet, by ordinal."""
        return pods_of(name, self.ids)

    @property
    def node_ids(self) -> dict[int, str]:
        """Node id -> pod."""
        return {id_: f"{name}-{number}" for name, ids in self.ids.items() for number, id_ in enumerate(ids)}

    def id_of(self, pod: str) -> int:
        return next(id_ for id_, name in self.node_ids.items() if name == pod)

    # --- what runs ---

    def apply(self, version: str, release_version: str = "4.1") -> None:
        """`kubectl apply` of all of it, with this release's image; `release_version`: what new data begin at."""
        self.node.load_image(kafka_image(version))
        if not self.folder(self.pods_of("brokers")[0]).exists():
            self._format(version, release_version)
            self._start_controllers(kafka_name(version))
        self.apply_image(kafka_name(version))

    def apply_image(self, image: str) -> None:
        """Applies the manifests with any image that the node has."""
        self.image = image
        self.plane.apply(*self.manifests(image))

    def apply_again(self) -> None:
        """With what was changed."""
        self.apply_image(self.image)

    def wait_ready(self, pods: Collection[str] = (), seconds: float = 180.0) -> None:
        """These pods (none: all) take connections. That is earlier than: all replicas have caught up."""
        wanted = {*(pods or self.node_ids.values())}

        def ready() -> bool:
            return {name for name, pod in self.pods().items() if is_true("Ready", pod)} >= wanted

        wait_until(f"Kafka in {self.namespace} is Ready", ready, seconds, step=0.2)

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods by name, as the API server has them now."""
        items = self.plane.read(f"/api/v1/namespaces/{self.namespace}/pods").get("items", [])
        return {one["metadata"]["name"]: one for one in items if one["metadata"]["labels"].get("app") == "kafka"}

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def phase(self, pod: str) -> str:
        """The phase in the pod's status; empty while there is none."""
        return str(self.pods().get(pod, {}).get("status", {}).get("phase", ""))

    def drain(self, pod: str) -> None:
        """`kubectl drain` of the node, but for this one pod, until it is gone; the node stays cordoned."""
        only = f"--pod-selector=statefulset.kubernetes.io/pod-name={pod}"
        self.plane.kubectl("drain", "node", only, "--timeout=120s")

    def delete(self, *pods: str, now: bool = False) -> None:
        """Deletes pods by `kubectl delete pod`: no budget is asked. `now`: the processes are killed."""
        force = ("--force", "--grace-period=0") if now else ()
        self.plane.kubectl("delete", "pod", *pods, "-n", self.namespace, "--wait=false", *force)

    def kill(self, pod: str) -> None:
        """The process, without a word; kubelet starts it again in the same pod."""
        self.node.kill_container(self._container(pod)["containerID"])

    def crash(self, pod: str) -> None:
        """Kill its process until kubelet waits before it starts it again; it will after 10 s."""
        killed: set[str] = set()

        def waits() -> bool:
            container = self._container(pod)
            id_ = str(container["containerID"])
            if "running" in container["state"] and id_ not in killed:
                self.node.kill_container(id_)
                killed.add(id_)
            return bool(container["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")

        wait_until(f"{pod} waits in CrashLoopBackOff", waits, step=0.3)

    def restarts(self, pod: str) -> int:
        """How often the pod's container restarted."""
        return int(self._container(pod)["restartCount"])

    def elect(self) -> None:
        """The first replica of each partition leads it again."""
        main, where = "org.apache.kafka.tools.LeaderElectionCommand", ("--bootstrap-server", self.addresses("brokers"))
        self.tool(main, *where, "--election-type", "preferred", "--all-topic-partitions")

    def _container(self, pod: str) -> dict[str, Any]:
        (container,) = self.pods()[pod]["status"]["containerStatuses"]
        return dict(container)

    def remove(self) -> None:
        """Remove everything, quickly: in good order, a broker would wait for controllers that are gone already."""
        where = ("-n", self.namespace)
        self.plane.kubectl("delete", "statefulsets", "--all", "--cascade=orphan", *where)
        self.plane.kubectl("delete", "pods", "--all", "--grace-period=1", *where)
        self.plane.kubectl("delete", "namespace", self.namespace)
        self.node.remove_data(self.namespace)

    def folder(self, pod: str) -> Path:
        """The folder with the data of a pod, as this machine sees it."""
        return self.node.data(self.namespace) / pod

    # --- commands on this machine ---

    def with_names(self, *command: str | Path) -> list[str]:
        """The command line of a process that resolves names as pods do."""
        return self.node.with_names(*command, search=self.search)

    def tool(self, main: str, *arguments: str) -> str:
        """One of Kafka's own; what it printed."""
        command = self.with_names(*release(MIDDLE).java(main, *arguments, log4j="tool"))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def create_topic(self, topic: str, partitions: int, *flags: str) -> None:
        many = ("--partitions", str(partitions), "--replication-factor", "3")
        main = "org.apache.kafka.tools.TopicCommand"
        self.tool(main, "--bootstrap-server", self.addresses("brokers"), "--create", "--topic", topic, *many, *flags)

    def partitions(self, topic: str) -> dict[int, list[int]]:
        """The replicas of each, as `kafka-topics.sh --describe` lists them."""
        main, where = "org.apache.kafka.tools.TopicCommand", ("--bootstrap-server", self.addresses("brokers"))
        told = self.tool(main, *where, "--describe", "--topic", topic)
        found = re.findall(r"Partition: (\d+)\tLeader: -?\d+\tReplicas: ([\d,]+)", told)
        return {int(number): [int(id_) for id_ in replicas.split(",")] for number, replicas in found}

    def leader(self) -> int:
        """The active controller, as the newest of the quorum-state files has it."""
        files = (self.folder(pod) / "__cluster_metadata-0" / "quorum-state" for pod in self.pods_of("controllers"))
        states = [json.loads(path.read_text()) for path in files]
        return int(max(states, key=lambda one: int(one["leaderEpoch"]))["leaderId"])

    def snapshots(self) -> int:
        """The offset up to which every controller has written a snapshot of its own."""
        folders = (self.folder(pod) / "__cluster_metadata-0" for pod in self.pods_of("controllers"))
        return min(max((int(one.name[:20]) for one in folder.glob("*.checkpoint")), default=0) for folder in folders)

    def records(self, pod: str = "controllers-0") -> list[dict[str, Any]]:
        """The metadata log as Kafka's own tool dumps a controller's files: `offset`, `at` in ms, `type`, `data`."""
        files = sorted(map(str, (self.folder(pod) / "__cluster_metadata-0").glob("*[0-9].log")))
        main = ("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", ",".join(files))
        done = subprocess.run(
            release(RECENT).java(*main, log4j="tool"), capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        assert "Error at" not in done.stdout, done.stdout
        return [_record(found) for found in map(_RECORD.match, done.stdout.splitlines()) if found]

    def _format(self, version: str, release_version: str) -> None:
        """With Kafka's tool once, on this machine: in nine pods it would take nine times as long. All begin alike."""
        (id_, pod), *others = self.node_ids.items()
        self._format_with_tool(version, release_version, id_, pod)
        for _, other in others:
            self.copy_format(pod, other)

    def copy_format(self, pod: str, other: str) -> None:
        """The disk of another pod, formatted as this one's: with its own id."""
        shutil.copytree(self.folder(pod), self.folder(other))
        meta = self.folder(other) / "meta.properties"
        lines = dict(line.split("=", 1) for line in meta.read_text().splitlines() if line[0] != "#")
        meta.write_text(text_of(lines | {"node.id": str(self.id_of(other)), "directory.id": uuid64()}))

    def exchange_disk(self, pod: str) -> None:
        """An empty disk, formatted anew, for a pod that does not run."""
        meta = (self.folder(pod) / "meta.properties").read_text()
        lines = dict(line.split("=", 1) for line in meta.splitlines() if line[0] != "#")
        shutil.rmtree(self.folder(pod))
        self.folder(pod).mkdir()
        (self.folder(pod) / "meta.properties").write_text(text_of(lines | {"directory.id": uuid64()}))

    def _format_with_tool(self, version: str, release_version: str, id_: int, pod: str) -> None:
        properties = self.node.folder / f"{pod}.properties"
        properties.write_text(text_of(self._properties(id_, pod) | {"log.dirs": str(self.folder(pod))}))
        words = ("format", f"--cluster-id={CLUSTER_ID}", "-c", str(properties), "--release-version", release_version)
        login = ("--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]")
        run(*release(version).java("kafka.tools.StorageTool", *words, *login, log4j="tool"))

    def _start_controllers(self, image: str) -> None:
        """Before brokers: those that look for names which are not there yet keep the processors from what makes them
        known, for minutes where other programs run too.
        """
        objects = self.manifests(image)
        brokers = next(one for one in objects if one["kind"] == "StatefulSet" and one["metadata"]["name"] == "brokers")
        self.plane.apply(*(one for one in objects if one is not brokers))
        self.wait_ready(self.pods_of("controllers"))

    # --- manifests ---

    def manifests(self, image: str) -> list[dict[str, Any]]:
        """All objects, the namespace first."""
        objects = [self._config_map()]
        for name in self.ids:
            stateful_set = self._stateful_set(name, image)
            if name in self.changed:
                self.changed[name](stateful_set)
            objects += [_service(name), _budget(name, self.unavailable[name]), stateful_set]
        for one in objects:
            one["metadata"]["namespace"] = self.namespace
        return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}, *objects]

    def _config_map(self) -> dict[str, Any]:
        data = {"start.sh": _START}
        for id_, pod in self.node_ids.items():
            data[f"{pod}.properties"] = text_of(self._properties(id_, pod))
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kafka"}, "data": data}

    def _properties(self, id_: int, pod: str) -> dict[str, str]:
        name, _, ordinal = pod.rpartition("-")
        voters = (f"{self.id_of(one)}@{self.address(one)}" for one in self.pods_of("controllers"))
        ours, users = ("CONTROLLER", "USERS") if name == "controllers" else ("PLAINTEXT", "CLIENT")
        lines = {
            "process.roles": ROLE[name],
            "node.id": str(id_),
            "log.dirs": f"/data/{pod}",
            "listeners": f"{ours}://:{PORT},{users}://:{USER_PORT}",
            "advertised.listeners": f"{ours}://{self.address(pod)},{users}://{self.address(pod, USER_PORT)}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CLIENT:SASL_PLAINTEXT"
            ),
            "controller.listener.names": "CONTROLLER,USERS",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            **{
                f"listener.name.{listener}.scram-sha-256.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                )
                for listener in ("users", "client")
            },
            "controller.quorum.voters": ",".join(voters),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            **THREE_COPIES,
            "share.coordinator.state.topic.replication.factor": "3",
            "metadata.log.max.snapshot.interval.ms": str(SNAPSHOT_EVERY * 1000),
            "initial.broker.registration.timeout.ms": "180000",  # as long as a start is waited for
        }
        if name == "brokers":
            lines |= {"broker.rack": f"rack-{int(ordinal) % RACKS}", "inter.broker.listener.name": "PLAINTEXT"}
        return lines

    def _stateful_set(self, name: str, image: str) -> dict[str, Any]:
        container = {
            "name": "kafka",
            "image": image,
            "imagePullPolicy": "Never",
            "command": ["bash", "/config/start.sh"],
            "env": [
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "JDK_JAVA_OPTIONS", "value": _JAVA_OPTIONS},
            ],
            "resources": {"requests": {"cpu": "200m"}},  # without one, whatever else runs here comes first
            "ports": [{"containerPort": PORT}, {"containerPort": USER_PORT}],
            "volumeMounts": [{"name": "config", "mountPath": "/config"}, {"name": "data", "mountPath": "/data"}],
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        }
        where = {"path": self.node.data_of_pods(self.namespace), "type": "DirectoryOrCreate"}
        template = {
            "metadata": {"labels": _labels(name)},
            "spec": {
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": 300,
                "containers": [container],
                "volumes": [{"name": "config", "configMap": {"name": "kafka"}}, {"name": "data", "hostPath": where}],
            },
        }
        spec = {
            "serviceName": name,
            "replicas": len(self.ids[name]),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": _labels(name)},
            "template": template,
        }
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def text_of(properties: Mapping[str, str]) -> str:
    """A file of properties."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def _record(found: re.Match[str]) -> dict[str, Any]:
    said = json.loads(found["payload"])
    return {"offset": int(found["offset"]), "at": int(found["at"]), "type": said["type"], "data": said["data"]}


def pods_of(name: str, ids: Mapping[str, Sequence[int]] = IDS) -> Sequence[str]:
    """The pods of a StatefulSet, by ordinal."""
    return [f"{name}-{number}" for number in range(len(ids[name]))]


def _labels(name: str) -> dict[str, str]:
    return {"app": "kafka", "role": ROLE[name]}


def _service(name: str) -> dict[str, Any]:
    """Names are there before pods are ready: nodes need each other for that."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": _labels(name), "ports": [{"port": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _budget(name: str, unavailable: int) -> dict[str, Any]:
    spec = {
        "maxUnavailable": unavailable,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": _labels(name)},
    }
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
