"""The rig itself: a real node that runs pods, and a Kafka on it that this machine reaches."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from tests.e2e.rig.kubernetes.any_node import AnyNode
from tests.e2e.rig.kubernetes.binaries import run
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.images import PAUSE, PREFIX, PYTHON, base_image, build_image, kafka_name, pause_image
from tests.e2e.rig.kubernetes.kafka import Kafka
from tests.e2e.rig.kubernetes.kind import KIND
from tests.e2e.rig.kubernetes.network import HOST, NAMESPACE
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.releases import MIDDLE

IMAGE = f"{PREFIX}/said:1"


def api_versions(addresses: str) -> int:
    """Number of APIs that each of these nodes supports (the same for all), by an ApiVersions request of version 0."""
    (count,) = {_api_versions(*address.split(":")) for address in addresses.split(",")}
    return count


def _api_versions(host: str, port: str) -> int:
    with socket.create_connection((host, int(port)), timeout=10) as connection, connection.makefile("rb") as reply:
        request = struct.pack(">hhih3s", 18, 0, 1, 3, b"rig")
        connection.sendall(struct.pack(">i", len(request)) + request)
        _, correlation, error, count = struct.unpack(">iihi", reply.read(14))
        assert (correlation, error) == (1, 0)
        return int(count)


def pod(name: str, image: str, *command: str) -> dict[str, object]:
    container = {"name": "main", "image": image, "imagePullPolicy": "Never", "command": list(command)}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_the_kubernetes_node_runs_a_pod(node: AnyNode) -> None:
    plane = node.control_plane
    node.load_image(pause_image())
    plane.apply(pod("pause", PAUSE, "/pause"))
    plane.kubectl("wait", "--for=condition=Ready", "pod/pause", "--timeout=180s")
    assert ip_address(plane.get("pod", "pause")["status"]["podIP"]) in ip_network(node.pods)
    plane.kubectl("delete", "pod", "pause")


def test_the_kubernetes_node_runs_an_image_that_was_built_by_the_test(node: AnyNode, tmp_path: Path) -> None:
    recipe = 'ARG BASE\nFROM $BASE\nARG WORD\nRUN python3 -m venv /venv && echo $WORD >/word\nCMD ["cat", "/word"]\n'
    (tmp_path / "Dockerfile").write_text(recipe)
    base_image(PYTHON)
    node.load_image(build_image(IMAGE, tmp_path, {"BASE": PYTHON, "WORD": "spoken"}))
    plane = node.control_plane
    plane.kubectl("run", "said", f"--image={IMAGE}", "--image-pull-policy=Never", "--restart=Never")
    plane.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/said", "--timeout=180s")
    assert plane.kubectl("logs", "said") == "spoken\n"
    plane.kubectl("delete", "pod", "said")


def test_brokers_and_controllers_in_pods_are_reachable_from_the_machine_of_the_tests(kafka_on_node: Kafka) -> None:
    # every Kafka supports more than ten APIs
    assert api_versions(kafka_on_node.bootstrap_servers) > 10
    assert api_versions(kafka_on_node.bootstrap_controllers) > 10


Connect = Callable[[str], str]


@pytest.fixture(scope="module")
def connect(kafka_on_node: Kafka) -> Iterator[Connect]:
    """A function that connects from within a pod to `host/port`, and returns the output of its shell."""
    plane = kafka_on_node.node.control_plane
    plane.apply(pod("shell", kafka_name(MIDDLE), "sleep", "infinity"))
    plane.kubectl("wait", "--for=condition=Ready", "pod/shell", "--timeout=180s")
    command = "exec 3<>/dev/tcp/{} && echo connected"
    yield lambda address: plane.kubectl("exec", "shell", "--", "bash", "-c", command.format(address))
    plane.kubectl("delete", "pod", "shell")


def test_a_pod_reaches_services_by_name_and_kafka_by_address(kafka_on_node: Kafka, connect: Connect) -> None:
    assert connect("kubernetes.default.svc/443") == "connected\n"
    assert connect(kafka_on_node.bootstrap_servers.partition(",")[0].replace(":", "/")) == "connected\n"


if not KIND:  # in a cluster of kind, Docker decides which addresses pods reach

    def test_a_pod_reaches_no_address_outside_of_the_machine(node: AnyNode, connect: Connect) -> None:
        assert isinstance(node.control_plane, ControlPlane)
        assert connect(f"{HOST}/{node.control_plane.port}") == "connected\n"
        with pytest.raises(Refused, match="unreachable"):
            connect("198.18.0.1/443")
        assert run("ip", "-n", NAMESPACE, "route", "show", "default") == ""


def test_an_evicted_broker_starts_again_with_its_data(kafka_on_node: Kafka) -> None:
    kafka_on_node.evict("kafka-broker-0")
    assert api_versions(kafka_on_node.bootstrap_servers) > 10
    log = kafka_on_node.node.control_plane.kubectl("logs", "kafka-broker-0", "-n", kafka_on_node.namespace)
    assert "Formatting" not in log
