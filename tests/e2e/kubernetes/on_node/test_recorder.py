"""The recorder as users enable it: in the operator's pod, on a claim that the chart makes; its process is killed."""

from __future__ import annotations

import base64
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftlog import files
from tests.e2e.kubernetes.chart.rendering import CHART
from tests.e2e.kubernetes.on_node.test_install import NS, RELEASE, document, operator_container, operator_pod
from tests.e2e.kubernetes.on_node.volumes import persistent_volume
from tests.e2e.kubernetes.resources import delete_all
from tests.e2e.rig.kubernetes.binaries import build
from tests.e2e.rig.kubernetes.images import OPERATOR, operator_image
from tests.e2e.rig.kubernetes.kafka import Kafka
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.process import wait_until
from tests.examples import ROOT

CLAIM, VOLUME = f"{RELEASE}-recordings", "recordings"
USER = GROUP = 65532
PAGE = (ROOT / "docs" / "how-to" / "keep-history.md").read_text()


@pytest.fixture
def volume(node: Node) -> Iterator[Path]:
    """The folder of the recordings, as this machine sees it. It belongs to root, as on a new disk."""
    build(["helm"])
    plane = node.control_plane
    node.load_image(operator_image())
    node.data(VOLUME).mkdir(mode=0o755)
    plane.apply(persistent_volume(VOLUME, node.data_of_pods(VOLUME), NS, claim=CLAIM, mode="ReadWriteOnce"))
    turned_on = next(line.split() for line in PAGE.splitlines() if "--set recorder.enabled=true" in line)
    image = ("--set", f"image.repository={OPERATOR.rpartition(':')[0]}", "--set", "image.pullPolicy=Never")
    watched = ("--set", "watchAllNamespaces=true")
    plane.helm("install", RELEASE, str(CHART), "-n", NS, "--create-namespace", *image, *watched, *turned_on)
    yield node.data(VOLUME) / "logs"
    delete_all(plane)
    plane.helm("uninstall", RELEASE, "-n", NS, "--wait")
    assert plane.get("pvc", CLAIM, "-n", NS)["status"]["phase"] == "Bound", "the recordings were removed with the chart"
    plane.kubectl("delete", "pvc", CLAIM, "-n", NS)
    plane.kubectl("delete", "pv", VOLUME)
    node.remove_data(VOLUME)


def test_a_killed_pod_continues_its_recording_on_the_volume(kafka_on_node: Kafka, volume: Path) -> None:
    """The recording is byte for byte a part of the controller's log, and its files have the user and modes of the
    chart.
    """
    node = kafka_on_node.node
    assert isinstance(node, Node)
    plane, namespace = node.control_plane, kafka_on_node.namespace

    def recorded() -> bytes:
        return b"".join(path.read_bytes() for path in sorted(volume.glob(f"*/*/{files.DIRECTORY}/*.log*")))

    plane.apply(document(kafka_on_node, "orders", {}, mode="Observe"))
    wait_until("the log is recorded", recorded)
    before, container = recorded(), operator_container(node)
    node.kill_container(container)
    wait_until("the recording continues", lambda: len(recorded()) > len(before))
    assert operator_container(node) != container

    ours = recorded()
    command = ("sh", "-c", f"cat /data/kafka-controller-0/{files.DIRECTORY}/*.log | base64 -w0")
    theirs = base64.b64decode(plane.kubectl("exec", "kafka-controller-0", "-n", namespace, "--", *command))
    assert ours.startswith(before)
    assert ours in theirs
    (recording,) = volume.glob(f"*/recorder-{namespace}_orders")
    assert f"cluster.id={recording.parent.name}\n" in (recording / files.PROPERTIES).read_text()
    for path in (volume, *volume.rglob("*")):
        found = path.stat()
        assert (found.st_uid, found.st_gid) == (USER, GROUP), path
        assert stat.S_IMODE(found.st_mode) & 0o777 == (0o700 if path.is_dir() else 0o600), path
    (inside,) = operator_pod(node)["spec"]["containers"]
    assert inside["securityContext"]["readOnlyRootFilesystem"]
