"""Kafka 3.9 on Kubernetes by the manifests of the page about its migration, as they stand there.

    kafka = PagedPods(node); kafka.begin(); kafka.names("brokers", "brokers-flag")

What a reader brings: an image, volumes for the claims, a ZooKeeper in pods with the names that the page has, and the id
of the cluster. The operator and all clients are in another namespace than Kafka, as the chart has it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.contract.test_documentation import BLOCK
from tests.e2e.kubernetes.on_node.volumes import persistent_volume
from tests.e2e.kubernetes.resources import allow_restarts
from tests.e2e.rig.kubernetes.images import ROOT, kafka_image, kafka_name, scripts_image, scripts_name
from tests.e2e.rig.kubernetes.migrating import MigratingPods
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.releases import OLD

PAGE = ROOT / "docs" / "how-to" / "migrate-on-kubernetes.md"
IMAGE = "registry.example/kafka:3.9.2"
FIRST_ID = {"brokers": 11, "controllers": 3001}
ZOOKEEPERS = 3
_SEARCH = "search kafka-features.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
"""The lines that kubelet writes for a pod in the chart's namespace."""
_KINDS_OF_BROKERS = ("brokers", "brokers-zookeeper")
_ZOOKEEPER = """set -eu
cat >/tmp/zoo.cfg <<END
tickTime=500
initLimit=40
syncLimit=8
dataDir=/tmp/data
clientPort=2181
admin.enableServer=false
quorumListenOnAllIPs=true
{servers}
END
mkdir /tmp/data
echo ${{HOSTNAME##*-}} >/tmp/data/myid
exec bash /opt/kafka/java.sh org.apache.zookeeper.server.quorum.QuorumPeerMain /tmp/zoo.cfg
"""


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """All of the page, by kind and name."""
    blocks = BLOCK.finditer(PAGE.read_text())
    objects = [one for block in blocks for one in yaml.safe_load_all(block["text"])]
    return {(one["kind"], one["metadata"]["name"]): one for one in objects if "kind" in one}


class PagedPods(MigratingPods):
    """See the prologue. `objects`: what Git has; `kind`: of those with settings. `client`: properties of clients."""

    kind = "ConfigMap"
    client = ""

    def __init__(self, node: Node) -> None:
        self.objects = manifests()
        cluster = self.objects["KafkaFeatures", "orders"]["spec"]["cluster"]
        servers, _, _ = cluster["zookeeper"]["connect"].partition("/")
        super().__init__(node, servers)
        self.search = _SEARCH

    @property
    def node_ids(self) -> dict[int, str]:
        return {first + number: f"{name}-{number}" for name, first in FIRST_ID.items() for number in range(3)}

    def host(self, pod: str) -> str:
        """The name by which the page has it."""
        return f"{pod}.{pod.rpartition('-')[0]}.{self.namespace}"

    def folder(self, pod: str) -> Path:
        return super().folder(pod) / "kafka"

    # --- what a person does ---

    def begin(self) -> None:
        """Brokers in ZooKeeper mode; nothing of controllers."""
        for archive in (kafka_image(OLD), scripts_image(OLD)):
            self.node.load_image(archive)
        self.node.tag_image(scripts_name(OLD), IMAGE)
        self.plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        allow_restarts(self.plane, self.namespace)
        self.plane.apply(*self._zookeeper())
        for name in FIRST_ID:
            self.makes_volumes(name)
        self.applies(*(one for one in self.objects if one[1] in _KINDS_OF_BROKERS))
        self.wait_ready(self.pods_of("brokers"))

    def applies(self, *wanted: tuple[str, str]) -> None:
        """`kubectl apply` of these objects, as Git has them now."""
        self.plane.apply(*(self.objects[one] for one in wanted))

    def makes_volumes(self, name: str) -> None:
        """An empty disk for each claim of a StatefulSet, as a storage class would make it."""
        (template,) = self.objects["StatefulSet", name]["spec"]["volumeClaimTemplates"]
        size, where = template["spec"]["resources"]["requests"]["storage"], self.node.data_of_pods(self.namespace)
        for pod in self.pods_of(name):
            super().folder(pod).mkdir(parents=True)
            claim = f"{template['metadata']['name']}-{pod}"
            volume = persistent_volume(claim, f"{where}/{pod}", self.namespace, mode="ReadWriteOnce", size=size)
            self.plane.apply(volume)

    def deletes_volumes(self, name: str) -> None:
        """The claims of a StatefulSet are deleted, and their disks with them."""
        self.plane.kubectl("delete", "pvc", *self._claims(name), "-n", self.namespace, "--timeout=60s")
        self.plane.kubectl("delete", "pv", *self._claims(name), "--timeout=60s")
        for pod in self.pods_of(name):
            shutil.rmtree(super().folder(pod))

    def volume_of(self, settings: str) -> dict[str, Any]:
        """The volume of a template with these settings."""
        return {"name": "config", "configMap": {"name": settings}}

    def data_of(self, settings: str) -> dict[str, str]:
        """The files in what has these settings."""
        data: dict[str, str] = self.objects[self.kind, settings]["data"]
        return data

    @property
    def servers_of_tools(self) -> tuple[str, ...]:
        return (*super().servers_of_tools, "--command-config", str(self.client_file))

    @property
    def client_file(self) -> Path:
        """The properties of who connects, as a file."""
        path = self.node.folder / "client.properties"
        path.write_text(self.client)
        return path

    def names(self, name: str, settings: str) -> None:
        """The template of a StatefulSet names other settings."""
        stateful_set = self.objects["StatefulSet", name]
        volumes = stateful_set["spec"]["template"]["spec"]["volumes"]
        volumes[:] = [self.volume_of(settings) if one["name"] == "config" else one for one in volumes]
        self.applies((self.kind, settings), ("StatefulSet", name))

    def scales(self, replicas: int) -> None:
        self.objects["StatefulSet", "controllers"]["spec"]["replicas"] = replicas
        self.applies(("StatefulSet", "controllers"))

    def remove(self) -> None:
        super().remove()
        self.plane.kubectl("delete", "pv", *(one for name in FIRST_ID for one in self._claims(name)))

    def _claims(self, name: str) -> Sequence[str]:
        return [f"data-{pod}" for pod in self.pods_of(name)]

    # --- what is there before ---

    def _zookeeper(self) -> list[dict[str, Any]]:
        """An ensemble in memory, as people may have it."""
        labels, name = {"app": "zookeeper"}, "zookeeper"
        servers = "\n".join(
            f"server.{number}={name}-{number}.{name}.{self.namespace}.svc.cluster.local:2888:3888"
            for number in range(ZOOKEEPERS)
        )
        container = {
            "name": name,
            "image": kafka_name(OLD),
            "imagePullPolicy": "Never",
            "command": ["bash", "-c", _ZOOKEEPER.format(servers=servers)],
            "readinessProbe": {"tcpSocket": {"port": 2181}, "periodSeconds": 1},
        }
        metadata = {"name": name, "namespace": self.namespace}
        service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": [{"port": 2181}]}
        stateful_set = {
            "serviceName": name,
            "replicas": ZOOKEEPERS,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
        }
        return [
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": stateful_set},
        ]
