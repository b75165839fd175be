"""Kafka 3.9 on its way from ZooKeeper to KRaft, as people run it on Kubernetes: StatefulSets `controllers` and
`brokers`, three pods each.

    kafka = MigratingPods(node, ensemble); kafka.begin(); kafka.changes("brokers", Shape.FLAGGED_BROKER)

A template names the shape of its pods in its environment, and a pod takes the settings of that shape from a ConfigMap:
so a change in Git is a new revision, and a pod keeps its settings for as long as it lives. Settings are those of
Kafka's documentation (3.9, "ZooKeeper to KRaft Migration"). Nodes and controllers know people as ANONYMOUS, who may do
everything; on a listener of their own brokers let the one user log in, who may do what a test granted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient

from kafkafeatures.core.migration.settings import OF_ZOOKEEPER, STANDARD_AUTHORIZER, Shape
from tests.e2e.rig.kubernetes.images import kafka_image, kafka_name
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.racks import CLUSTER_ID, PASSWORD, PORT, THREE_COPIES, USER, USER_PORT, Racks, text_of
from tests.e2e.rig.releases import OLD, release

IBP = "3.9"
FLAG = {"zookeeper.metadata.migration.enable": "true"}
IDS = {"controllers": (3003, 3001, 3002), "brokers": (12, 13, 11)}
"""The node ids of each StatefulSet, by ordinal."""
SHAPES = {
    "controllers": (Shape.MIGRATING_CONTROLLER, Shape.CONTROLLER),
    "brokers": (Shape.PLAIN_BROKER, Shape.FLAGGED_BROKER, Shape.KRAFT_BROKER),
}
SHAPE = "SHAPE"
CHROOT = "/kafka"
_START = """exec bash /opt/kafka/java.sh kafka.Kafka /config/$POD.$SHAPE.properties $OVERRIDES
"""


class MigratingPods(Racks):
    """See the prologue. `shapes`, `replicas`: what Git has, by StatefulSet. `ibp`: of brokers in ZooKeeper mode."""

    def __init__(self, node: Node, ensemble: str, namespace: str = "kafka", *, ibp: str = IBP) -> None:
        super().__init__(node, namespace, ids=IDS)
        self.servers, self.ensemble = ensemble, ensemble + CHROOT
        self.shapes = {"controllers": Shape.MIGRATING_CONTROLLER, "brokers": Shape.PLAIN_BROKER}
        self.replicas = {"controllers": 0, "brokers": 3}
        self.unavailable = {"controllers": 1, "brokers": 1}
        self.ibp = ibp
        self.image = kafka_name(OLD)

    # --- what a person does ---

    def begin(self) -> None:
        """Brokers in ZooKeeper mode, and disks of controllers that are formatted for their cluster."""
        self.node.load_image(kafka_image(OLD))
        client = KazooClient(self.servers)
        client.start()
        try:
            client.create(
                f"{CHROOT}/cluster/id", json.dumps({"version": "1", "id": CLUSTER_ID}).encode(), makepath=True
            )
        finally:
            client.stop()
            client.close()
        self.format_controllers()
        self.apply_again()
        self.wait_ready(self.pods_of("brokers"))

    def changes(self, name: str, shape: Shape) -> None:
        """Git changes the settings of all pods of a StatefulSet; its pods are replaced when they are deleted."""
        self.shapes[name] = shape
        self.apply_again()

    def raises(self, ibp: str) -> None:
        """Git changes the `inter.broker.protocol.version` of the brokers, and nothing else."""
        self.ibp = ibp
        self.apply_again()

    def scales(self, replicas: int) -> None:
        """Git starts the controllers, or stops them."""
        self.replicas["controllers"] = replicas
        self.apply_again()

    def format_controllers(self) -> None:
        """Format the disks of the controllers, with Kafka's tool once: all begin alike, but for their ids. Whatever was
        on them is gone.
        """
        first, *others = self.pods_of("controllers")
        for pod in (first, *others):
            shutil.rmtree(self.folder(pod), ignore_errors=True)
        properties = self.node.folder / f"{first}.properties"
        settings = self.settings(first, Shape.MIGRATING_CONTROLLER)
        properties.write_text(text_of({**settings, "log.dirs": str(self.folder(first))}))
        words = ("format", f"--cluster-id={CLUSTER_ID}", "-c", str(properties), "--release-version", IBP)
        command = release(OLD).java("kafka.tools.StorageTool", *words, log4j="tool")
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        for pod in others:
            self.copy_format(first, pod)

    def tool(self, main: str, *arguments: str) -> str:
        """One of Kafka 3.9's own; what it printed."""
        command = self.with_names(*release(OLD).java(main, *arguments, log4j="tool"))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # --- manifests ---

    def _config_map(self) -> dict[str, Any]:
        data = {"start.sh": _START}
        for name, shapes in SHAPES.items():
            for pod in self.pods_of(name):
                for shape in shapes:
                    data[f"{pod}.{shape.name}.properties"] = text_of(self.settings(pod, shape))
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kafka"}, "data": data}

    def _stateful_set(self, name: str, image: str) -> dict[str, Any]:
        found = super()._stateful_set(name, image)
        found["spec"]["replicas"] = self.replicas[name]
        (container,) = found["spec"]["template"]["spec"]["containers"]
        container["env"].append({"name": SHAPE, "value": self.shapes[name].name})
        if self.shapes[name] is Shape.PLAIN_BROKER:
            words = f"--override inter.broker.protocol.version={self.ibp}"
            container["env"].append({"name": "OVERRIDES", "value": words})
        return found

    def settings(self, pod: str, shape: Shape) -> Mapping[str, str]:
        """All settings of the node of a pod that is to be this."""
        id_, is_broker = str(self.id_of(pod)), pod in self.pods_of("brokers")
        in_zookeeper = shape in (Shape.PLAIN_BROKER, Shape.FLAGGED_BROKER)
        lines = {
            "log.dirs": f"/data/{pod}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "authorizer.class.name": OF_ZOOKEEPER if in_zookeeper else STANDARD_AUTHORIZER,
            "super.users": "User:ANONYMOUS",
            **THREE_COPIES,
            "password.encoder.secret": "encodes-for-tests",
            "delegation.token.secret.key": "signs-for-tests",
        }
        if is_broker:
            lines |= {
                "listeners": f"PLAINTEXT://:{PORT},USERS://:{USER_PORT}",
                "advertised.listeners": f"PLAINTEXT://{self.address(pod)},USERS://{self.address(pod, USER_PORT)}",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.name.users.scram-sha-256.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                ),
            }
        else:
            lines["listeners"] = f"CONTROLLER://:{PORT}"
        if in_zookeeper:
            lines |= {"broker.id": id_, "inter.broker.protocol.version": IBP}
        else:
            lines |= {"process.roles": "broker" if is_broker else "controller", "node.id": id_}
        if shape is not Shape.PLAIN_BROKER:
            voters = (f"{self.id_of(one)}@{self.address(one)}" for one in self.pods_of("controllers"))
            lines |= {"controller.quorum.voters": ",".join(voters), "controller.listener.names": "CONTROLLER"}
        if in_zookeeper or shape is Shape.MIGRATING_CONTROLLER:
            lines["zookeeper.connect"] = self.ensemble
        if shape in (Shape.FLAGGED_BROKER, Shape.MIGRATING_CONTROLLER):
            lines |= FLAG
        return lines

    # --- people's access ---

    def admits(self) -> None:
        """The one user may log in."""
        words = ("--entity-type", "users", "--entity-name", USER, "--alter", "--add-config")
        self.tool("kafka.admin.ConfigCommand", *self.servers_of_tools, *words, f"SCRAM-SHA-256=[password={PASSWORD}]")

    @property
    def servers_of_tools(self) -> tuple[str, ...]:
        """Where Kafka's tools find the cluster."""
        return ("--bootstrap-server", self.addresses("brokers"))
