"""Kubernetes, etcd, CoreDNS, helm, kubeconform, servers of S3 and of images: built from Go modules, cached outside.

`python -m tests.e2e.rig.kubernetes.binaries` builds all of them beforehand, with `control-plane` only what a
`ControlPlane` runs. The cache is `$XDG_CACHE_HOME/kafka-features-operator/kubernetes` (or below `~/.cache`); a program
is there as `<version>/<name>`, or not at all. Two processes may ask at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.rig.releases import CACHE as KAFKA_CACHE
from tests.e2e.rig.releases import MissingTool

CACHE = KAFKA_CACHE.parent / "kubernetes"

KUBERNETES, ETCD, COREDNS, HELM, VERSITYGW = "1.34.4", "3.6.16", "1.15.0", "3.22.0", "1.8.0"
KREW, KUBECONFORM, REGISTRY, COSIGN, KIND = "0.4.3", "0.8.0", "3.1.2", "2.6.5", "0.33.0"

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
NODE = ("kube-scheduler", "kubelet", "kube-proxy", "coredns", "pause")
ALL = (*CONTROL_PLANE, *NODE, "helm", "kubeconform")

PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "buildah": "buildah",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
}
"""Program -> the Debian package that brings it."""

_PAUSE = """package main

import "time"

func main() { time.Sleep(1 << 62) }
"""
# With all of its plugins, and the clouds' libraries behind them, CoreDNS compiles several times as long.
_COREDNS = """package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
"""
# Storage in the clouds is most of what it is compiled with otherwise.
_REGISTRY = """package main

import (
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() { registry.RootCmd.Execute() }
"""
# Without the clouds' keys.
_COSIGN = """package main

import (
	"log"

	"github.com/sigstore/cosign/v2/cmd/cosign/cli"
)

func main() {
	if err := cli.New().Execute(); err != nil {
		log.Fatalf("error: %v", err)
	}
}
"""
# Standard input: the patches of a cluster config. Standard output: what kubeadm then gets for a release of Kubernetes.
_KIND_PATCH = """package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"sigs.k8s.io/kind/pkg/cluster/internal/kubeadm"
	"sigs.k8s.io/kind/pkg/internal/patch"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	config, err := kubeadm.Config(kubeadm.ConfigData{
		ClusterName: "rig", KubernetesVersion: os.Args[1], NodeName: "rig-control-plane", ControlPlane: true,
		ControlPlaneEndpoint: "rig:6443", APIBindPort: 6443, APIServerAddress: "127.0.0.1", NodeProvider: "docker",
		NodeAddress: "198.18.0.2", PodSubnet: "198.18.112.0/20", ServiceSubnet: "198.19.112.0/20", Token: "a.b",
	})
	if err != nil {
		log.Fatal(err)
	}
	patched, err := patch.KubeYAML(config, []string{string(text)}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(patched)
}
"""


class Failed(Exception):
    """A program did not succeed; the text is what it said."""


def _published(go_mod: str) -> str:
    """The staging folders are not in the published module; their contents are modules of their own, at v0.minor."""
    return re.sub(r"=> \./staging/src/(k8s\.io/[a-z-]+)", rf"=> \1 v0.{KUBERNETES[2:]}", go_mod)


def _unreplaced(go_mod: str) -> str:
    return re.sub(r"\nreplace \([^)]*\)|\nreplace [^(\n]*", "", go_mod)


@dataclass(frozen=True)
class Program:
    """How one program is built. `go_mod` adopts the module's own go.mod, and with it the versions of its release."""

    version: str
    module: str = ""
    package: str = "."
    main: str = ""
    go_mod: Callable[[str], str] | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    name: str = "rig/build"
    """The module that `main` is in: Go lets only packages below the same path import one that is `internal`."""

    @property
    def flags(self) -> list[str]:
        set_ = [f"-X {name}={value}" for name, value in self.variables.items()]
        return ["-trimpath", "-ldflags=" + " ".join(["-s -w", *set_])]


def _of_kubernetes(name: str) -> Program:
    module, version = "k8s.io/kubernetes", "k8s.io/component-base/version."
    variables = {f"{version}gitVersion": f"v{KUBERNETES}", f"{version}gitMajor": "1", f"{version}gitMinor": "34"}
    return Program(KUBERNETES, module, f"{module}/cmd/{name}", go_mod=_published, variables=variables)


_KUBERNETES = "kube-apiserver kube-controller-manager kubectl kube-scheduler kubelet kube-proxy"
PROGRAMS: dict[str, Program] = {
    "etcd": Program(ETCD, "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", go_mod=_unreplaced),
    **{name: _of_kubernetes(name) for name in _KUBERNETES.split()},
    "coredns": Program(COREDNS, "github.com/coredns/coredns", main=_COREDNS),
    "pause": Program("1", main=_PAUSE),
    "helm": Program(
        HELM,
        "helm.sh/helm/v3",
        "helm.sh/helm/v3/cmd/helm",
        go_mod=_unreplaced,
        variables={"helm.sh/helm/v3/internal/version.version": f"v{HELM}"},
    ),
    "kubeconform": Program(KUBECONFORM, "github.com/yannh/kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform"),
    "kind-patch": Program(KIND, "sigs.k8s.io/kind", main=_KIND_PATCH, name="sigs.k8s.io/kind/pkg/cluster/rig"),
    "krew": Program(KREW, "sigs.k8s.io/krew", "sigs.k8s.io/krew/cmd/krew"),
    "cosign": Program(COSIGN, "github.com/sigstore/cosign/v2", main=_COSIGN),
    "registry": Program(REGISTRY, "github.com/distribution/distribution/v3", main=_REGISTRY),
    "versitygw": Program(
        VERSITYGW, "github.com/versity/versitygw", "github.com/versity/versitygw/cmd/versitygw", go_mod=_unreplaced
    ),
}


def binary(name: str) -> Path:
    """Where the program is, once built."""
    return CACHE / PROGRAMS[name].version / name


def build(names: Iterable[str] = ALL) -> None:
    """Build what is missing of them. What is there costs nothing."""
    missing = [name for name in names if not binary(name).exists()]
    if not missing:
        return
    if shutil.which("go") is None:
        raise MissingTool("go is not there; the tests on real Kubernetes need Go 1.26 or newer")
    with locked("build"):
        for name in missing:
            if not binary(name).exists():
                _build(name, PROGRAMS[name])


def module(name: str, version: str) -> Path:
    """The folder of a published Go module, where go keeps it."""
    with tempfile.TemporaryDirectory(prefix="rig-go-") as folder:
        return Path(json.loads(_go(Path(folder))("mod", "download", "-json", f"{name}@v{version}"))["Dir"])


def install_packages(packages: Mapping[str, str] = PACKAGES) -> None:
    """Debian packages by their programs, those of a node if none are named, when root; else says which are missing."""
    missing = sorted({package for program, package in packages.items() if shutil.which(program) is None})
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise MissingTool(f"these tests need root, and {' '.join(missing)}")
    with locked("packages"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get", "update", env=environment)
        run("apt-get", "install", "-y", "--no-install-recommends", *missing, env=environment)


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end; its standard output. Raises Failed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    if done.returncode:
        raise Failed(f"{' '.join(words)[:300]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process of this machine at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(name: str, program: Program) -> None:
    """In an empty module of ours: `go install` refuses a module that replaces others."""
    with tempfile.TemporaryDirectory(prefix="rig-go-") as folder:
        here = Path(folder)
        go = _go(here)
        if program.main:
            (here / "main.go").write_text(program.main)
        if program.go_mod is None:
            go("mod", "init", program.name)
        else:
            source = module(program.module, program.version)
            text = re.sub(r"(?m)^module .*", "module rig/build", (source / "go.mod").read_text())
            (here / "go.mod").write_text(program.go_mod(text))
            shutil.copyfile(source / "go.sum", here / "go.sum")
        if program.module:
            go("mod", "edit", f"-require={program.module}@v{program.version}")
        go("build", *program.flags, "-o", str(here / "built"), program.package)
        binary(name).parent.mkdir(parents=True, exist_ok=True)
        part = binary(name).with_suffix(".part")
        shutil.copy(here / "built", part)
        part.rename(binary(name))


def _go(folder: Path) -> Callable[..., str]:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=mod", "GOWORK": "off"}

    def go(*arguments: str) -> str:
        return run("go", *arguments, cwd=folder, env=environment)

    return go


if __name__ == "__main__":
    try:
        if "control-plane" not in sys.argv:
            install_packages()
        for one in CONTROL_PLANE if "control-plane" in sys.argv else ALL:
            build([one])
            print(binary(one), flush=True)
    except (MissingTool, Failed) as error:
        sys.exit(str(error))
