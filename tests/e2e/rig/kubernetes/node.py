"""A real node behind a control plane: containerd and kubelet run pods, with Services, DNS and evictions as they are.

    with network(), ControlPlane(tmp_path / "plane", HOST) as plane, Node(plane, tmp_path / "node") as node:
        node.load_image(pause_image())
        plane.apply(pod)                     # image: localhost/rig/...; imagePullPolicy: Never, there is no registry

The node is the first process of a process namespace, in mount and network namespaces of its own. When it dies the
kernel ends all of its pods, mounts, bridges and rules; that also holds for SIGKILL of the test process. What can stay
is empty: control groups and a network namespace, which the next start takes away. The kernel's own settings are not
touched: kubelet finds those that it wants.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Self

from tests.e2e.rig.kubernetes.binaries import NODE as PROGRAMS
from tests.e2e.rig.kubernetes.binaries import Failed, binary, build, run
from tests.e2e.rig.kubernetes.cluster import LOOPBACK, SECONDS, ControlPlane
from tests.e2e.rig.kubernetes.groups import make_groups, remove_groups
from tests.e2e.rig.kubernetes.images import pause_image
from tests.e2e.rig.kubernetes.network import HOST, NAMESPACE, NODE, PODS
from tests.e2e.rig.kubernetes.node_files import HERE, NAME, SOCKET, write_files, write_registry
from tests.e2e.rig.kubernetes.tools import is_true
from tests.e2e.rig.process import Daemon, free_port, wait_until
from tests.e2e.rig.registry import Registry


class Node:
    """See the prologue. One on a machine."""

    address, pods = NODE, PODS

    def __init__(self, control_plane: ControlPlane, folder: Path) -> None:
        assert control_plane.address == HOST, "pods reach the API server only where the node's network begins"
        build(PROGRAMS)
        self.control_plane, self.folder = control_plane, folder
        folder.mkdir(parents=True, exist_ok=True)
        write_files(folder, control_plane.authority, self._kubeconfig("dns", "dns", "system:masters"))
        start = ["nsenter", f"--net=/run/netns/{NAMESPACE}", "unshare", "--pid", "--mount", "--mount-proc"]
        start += ["--fork", "--kill-child", "sh", str(folder / "start.sh")]
        self.containerd = Daemon(start, folder / "containerd.log", self._containerd_answers)
        self.daemons: list[Daemon] = []
        self._loaded: dict[Path, int] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        remove_groups()
        make_groups()
        self.containerd.start()
        self.load_image(pause_image())
        self.daemons = [self._scheduler(), self._kubelet(), self._proxy(), self._dns()]
        for daemon in self.daemons:
            daemon.start()
        wait_until("the node is Ready", self._ready, SECONDS)

    def stop(self) -> None:
        """All at once, without a word to the pods. Logs stay, the rest goes."""
        if init := self._init():
            os.kill(init, signal.SIGKILL)  # the kernel takes the namespaces' processes with it, and then it is gone
            self.containerd.wait_gone()
        for daemon in self.daemons:
            daemon.kill()
        self.containerd.kill()
        remove_groups()
        for gone in ("containerd", "kubelet", "data"):
            shutil.rmtree(self.folder / gone, ignore_errors=True)

    def load_image(self, archive: Path) -> None:
        """Imports the images of an OCI archive; pods may use them from now on. What is there already costs nothing."""
        written = archive.stat().st_mtime_ns
        if self._loaded.get(archive) != written:
            self._ctr("images", "import", archive)
            self._loaded[archive] = written

    def trust(self, registry: Registry) -> None:
        """Pods may use images of this registry from now on; its address has to be one that the node reaches."""
        write_registry(self.folder, registry.address, registry.authority)

    def tag_image(self, image: str, name: str) -> None:
        """Another name for an image that is there."""
        self._ctr("images", "tag", image, name)

    def kill_container(self, container_id: str, signal_: str = "SIGKILL") -> None:
        """A signal to its first process. `container_id` as in a pod's status, `containerd://...`."""
        self._ctr("tasks", "kill", "--signal", signal_, container_id.removeprefix("containerd://"))

    @staticmethod
    def data_of_pods(name: str) -> str:
        """A folder that pods may mount as a hostPath (DirectoryOrCreate). In memory, so that a busy disk
        delays no pod.
        """
        return str(HERE / "data" / name)

    def data(self, name: str) -> Path:
        """The folder of `data_of_pods`, as this machine sees it."""
        return Path(f"/proc/{self._init()}/root{self.data_of_pods(name)}")

    def remove_data(self, name: str) -> None:
        shutil.rmtree(self.data(name))

    def with_names(self, *command: str | Path, search: str = "") -> list[str]:
        """The command line of a process of this machine that resolves names as pods do. `search`: further lines of its
        resolv.conf, for names that are not full.
        """
        resolver = self.folder / "resolv-of-pods.conf"
        resolver.write_text(f"nameserver {self.address}\n{search}")
        bind = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", bind, str(resolver), *map(str, command)]

    # --- inside the namespaces ---

    def _init(self) -> int | None:
        """The node's first process: the one child of `unshare`."""
        if not self.containerd.alive:
            return None
        pid = self.containerd.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None

    def _inside(self, *command: str | Path) -> list[str | Path]:
        return ["nsenter", f"--target={self._init()}", "--pid", "--mount", "--net", "--", *command]

    def _ctr(self, *words: str | Path) -> str:
        return run(*self._inside("ctr", "--address", SOCKET, "--namespace", "k8s.io", *words))

    def _containerd_answers(self) -> bool:
        try:
            return self._init() is not None and bool(self._ctr("version"))
        except Failed:
            return False

    def _ready(self) -> bool:
        return is_true("Ready", self.control_plane.read(f"/api/v1/nodes/{NAME}"))

    # --- what runs ---

    def _kubeconfig(self, name: str, user: str, group: str = "none") -> Path:
        plane = self.control_plane
        return plane.authority.kubeconfig(name, plane.server, user=user, group=group)

    def _scheduler(self) -> Daemon:
        command: list[str | Path] = [
            binary("kube-scheduler"),
            f"--kubeconfig={self._kubeconfig('scheduler', 'system:kube-scheduler')}",
            *("--leader-elect=false", f"--bind-address={LOOPBACK}", f"--secure-port={free_port()}"),
        ]
        return Daemon(command, self.folder / "scheduler.log")

    def _kubelet(self) -> Daemon:
        command = self._inside(
            binary("kubelet"),
            f"--config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={self._kubeconfig('kubelet-client', f'system:node:{NAME}', 'system:nodes')}",
            *(f"--root-dir={HERE / 'kubelet'}", f"--cert-dir={HERE / 'kubelet-pki'}"),
            *(f"--hostname-override={NAME}", f"--node-ip={NODE}"),
        )
        return Daemon(command, self.folder / "kubelet.log")

    def _proxy(self) -> Daemon:
        command = self._inside(
            binary("kube-proxy"),
            f"--kubeconfig={self._kubeconfig('proxy', 'system:kube-proxy')}",
            *(f"--hostname-override={NAME}", "--proxy-mode=iptables", f"--cluster-cidr={PODS}"),
            *("--masquerade-all", "--conntrack-max-per-core=0"),
        )
        return Daemon(command, self.folder / "proxy.log")

    def _dns(self) -> Daemon:
        return Daemon(self._inside(binary("coredns"), "-conf", HERE / "Corefile"), self.folder / "dns.log")
