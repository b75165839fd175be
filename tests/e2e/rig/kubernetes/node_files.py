"""What the programs of a node read: how the first process begins, and the settings of containerd, kubelet and DNS."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.e2e.rig.kubernetes.certificates import Authority
from tests.e2e.rig.kubernetes.cluster import LOOPBACK
from tests.e2e.rig.kubernetes.images import PAUSE
from tests.e2e.rig.kubernetes.network import NODE, PODS

NAME = "node"
HERE = Path("/run/rig")  # what the node sees of its folder: paths of sockets are short
SOCKET = HERE / "containerd.sock"
GROUP = "kafka-features-operator"  # the control group of all pods

_KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
"""What kubelet would write into the kernel, did it not read it there."""

_START = """set -eu
mount --make-rshared /
mount -t tmpfs tmpfs /run
mkdir {here}
mount --bind {folder} {here}
mkdir -p {here}/data
mount -t tmpfs tmpfs {here}/data
{masks}
exec containerd --config {here}/containerd.toml
"""
_MASK = "echo {value} >/run/{file}; mount --bind /run/{file} /proc/sys/{name}"

_CONTAINERD = """version = 2
root = "{here}/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{here}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{here}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{here}/registries"
"""

_CNI = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": PODS}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": "/run/addresses",
            },
        }
    ],
}

_DNS = """.:53 {{
  bind {node}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig}
    pods insecure
    ttl 1
  }}
}}
"""

_REGISTRY = """server = "https://{address}"
[host."https://{address}"]
  ca = "{here}/registries/{address}/ca.crt"
"""


def write_registry(folder: Path, address: str, authority: Path) -> None:
    """Into the node's folder: from now on containerd trusts this registry. It reads the files at each pull."""
    place = folder / "registries" / address
    place.mkdir(parents=True)
    shutil.copy(authority, place / "ca.crt")
    (place / "hosts.toml").write_text(_REGISTRY.format(address=address, here=HERE))


def write_files(folder: Path, authority: Authority, dns_kubeconfig: Path) -> None:
    """Into the node's folder, which the node sees as HERE."""
    masks = [_MASK.format(value=value, file=name.replace("/", "."), name=name) for name, value in _KERNEL.items()]
    (folder / "start.sh").write_text(_START.format(here=HERE, folder=folder, masks="\n".join(masks)))
    (folder / "containerd.toml").write_text(_CONTAINERD.format(here=HERE, socket=SOCKET, pause=PAUSE))
    (folder / "kubelet.json").write_text(json.dumps(_kubelet(authority)))
    (folder / "Corefile").write_text(_DNS.format(node=NODE, kubeconfig=dns_kubeconfig))
    (folder / "resolv.conf").touch()  # nothing outside is ever asked for a name
    (folder / "cni").mkdir()
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(_CNI))


def _kubelet(authority: Authority) -> dict[str, Any]:
    certificate, key = authority.issue("kubelet", NODE, LOOPBACK, NAME)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE,
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "authentication": {"x509": {"clientCAFile": str(authority.ca)}},
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",  # there may be no systemd
        "cgroupRoot": f"/{GROUP}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        # The machine is shared: its disk may be nearly full, and an image that is gone cannot be pulled again.
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [NODE],
        "clusterDomain": "cluster.local",
        "resolvConf": str(HERE / "resolv.conf"),
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "volumePluginDir": str(HERE / "volume-plugins"),
        "podLogsDir": str(HERE / "pod-logs"),
    }
