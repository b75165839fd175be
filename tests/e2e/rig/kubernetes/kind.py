"""The tests' Kubernetes node by kind, where Docker is and root is not: KIND=1 make e2e, or KIND=NODE_IMAGE for another
release.

    with KindNode(tmp_path) as node:        # as tests.e2e.rig.kubernetes.node.Node

The cluster is the one of `kind-config.yaml`. Images are built by Docker, on the bases that users have. What is the
rig's own is not there: pods reach what Docker lets them reach, and the control plane is not ours to kill.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.rig.kubernetes.audit import AuditLog
from tests.e2e.rig.kubernetes.binaries import run
from tests.e2e.rig.kubernetes.tools import Tools

KIND = os.environ.get("KIND", "")
ROOT = Path(__file__).parents[4]
NAME = "kafka-features"  # of the cluster in kind-config.yaml
NODE = f"{NAME}-control-plane"
AUDIT = ROOT / "build" / "kind" / "audit.log"  # as kind-config.yaml mounts it


class KindNode:
    """See the prologue. One on a machine."""

    pods = "198.18.112.0/20"  # as in kind-config.yaml

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.control_plane = Tools(folder, folder / "kubeconfig", AuditLog(AUDIT))
        self.address = ""

    def __enter__(self) -> Self:
        shutil.rmtree(AUDIT.parent, ignore_errors=True)
        AUDIT.parent.mkdir(parents=True)
        image = [] if KIND == "1" else ["--image", KIND]
        config = ROOT / "kind-config.yaml"
        try:
            # Where the config's own paths begin.
            run("kind", "create", "cluster", "--config", config, *image, "--wait", "180s", *self._us(), cwd=ROOT)
            address = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
            self.address = run("docker", "inspect", "--format", address, NODE).strip()
            run("docker", "exec", NODE, "chmod", "0644", "/var/log/kubernetes/audit.log")
            self.control_plane.wait_for_controllers()
        except BaseException:
            self._delete()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._delete()

    def load_image(self, archive: Path) -> None:
        run("kind", "load", "image-archive", archive, "--name", NAME)

    def kill_container(self, container_id: str, signal_: str = "SIGKILL") -> None:
        id_ = container_id.removeprefix("containerd://")
        run("docker", "exec", NODE, "ctr", "-n", "k8s.io", "tasks", "kill", "--signal", signal_, id_)

    @staticmethod
    def data_of_pods(name: str) -> str:
        return f"/var/rig/{name}"

    def remove_data(self, name: str) -> None:
        run("docker", "exec", NODE, "rm", "-rf", self.data_of_pods(name))

    def _us(self) -> list[str | Path]:
        return ["--kubeconfig", self.control_plane.kubeconfig]

    def _delete(self) -> None:
        run("kind", "delete", "cluster", "--name", NAME, *self._us())
