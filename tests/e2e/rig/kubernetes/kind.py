"""The tests' Kubernetes node by kind, where Docker is and root is not: KIND=1 make e2e, or KIND=NODE_IMAGE for another
release.

    with KindNode(tmp_path) as node:        # as tests.e2e.rig.kubernetes.node.Node

The cluster is made of `kind-config.yaml`, under a name and with folders that no other has: who tries the operator on a
cluster of that file keeps it, and only what was made here is deleted. Images are built by Docker, on the bases that
users have. What is the rig's own is not there: pods reach what Docker lets them reach, and the control plane is not
ours to kill.
"""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import Self

from tests.e2e.rig.kubernetes.audit import AuditLog
from tests.e2e.rig.kubernetes.binaries import run
from tests.e2e.rig.kubernetes.tools import Tools

KIND = os.environ.get("KIND", "")
ROOT = Path(__file__).parents[4]
CONFIG = ROOT / "kind-config.yaml"
_AUDIT_MOUNT = "hostPath: .kind,"


class KindNode:
    """See the prologue."""

    pods = "198.18.112.0/20"  # as in kind-config.yaml

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = f"kafka-features-tests-{uuid.uuid4().hex[:12]}"
        self._node = f"{self.name}-control-plane"
        self._audit = folder / "audit"
        self._config = folder / "kind-config.yaml"
        self.control_plane = Tools(folder, folder / "kubeconfig", AuditLog(self._audit / "audit.log"))
        self.address = ""

    def __enter__(self) -> Self:
        self._audit.mkdir()
        self._config.write_text(self._own_config())
        image = [] if KIND == "1" else ["--image", KIND]
        if self.name in run("kind", "get", "clusters").split():
            raise RuntimeError(f"there is a kind cluster {self.name} already, which was not made here")
        try:
            # Where the config's own paths begin.
            run("kind", "create", "cluster", "--config", self._config, *image, "--wait", "180s", *self._us(), cwd=ROOT)
            address = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
            self.address = run("docker", "inspect", "--format", address, self._node).strip()
            run("docker", "exec", self._node, "chmod", "0644", "/var/log/kubernetes/audit.log")
            self.control_plane.wait_for_controllers()
        except BaseException:
            self._delete()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._delete()

    def load_image(self, archive: Path) -> None:
        run("kind", "load", "image-archive", archive, "--name", self.name)

    def kill_container(self, container_id: str, signal_: str = "SIGKILL") -> None:
        id_ = container_id.removeprefix("containerd://")
        run("docker", "exec", self._node, "ctr", "-n", "k8s.io", "tasks", "kill", "--signal", signal_, id_)

    @staticmethod
    def data_of_pods(name: str) -> str:
        return f"/var/rig/{name}"

    def remove_data(self, name: str) -> None:
        run("docker", "exec", self._node, "rm", "-rf", self.data_of_pods(name))

    def _own_config(self) -> str:
        """The config with this cluster's name and its own folder for the audit log."""
        text, count = re.subn(r"(?m)^name: .*$", f"name: {self.name}", CONFIG.read_text())
        if count != 1 or text.count(_AUDIT_MOUNT) != 1:
            raise RuntimeError(f"{CONFIG.name} has no single name, or no single mount with {_AUDIT_MOUNT}")
        return text.replace(_AUDIT_MOUNT, f"hostPath: {self._audit},")

    def _us(self) -> list[str | Path]:
        return ["--name", self.name, "--kubeconfig", self.control_plane.kubeconfig]

    def _delete(self) -> None:
        run("kind", "delete", "cluster", *self._us())
