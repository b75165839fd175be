"""A release of the real image: it is pushed to a registry, installed from there, and pulled by a node by digest. Its
image for the other architecture runs too.
"""

from __future__ import annotations

import os
import shlex
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkafeatures import __version__
from release.layout import Layout
from release.plan import NAME
from tests.amounts import only_in_soak
from tests.e2e.kubernetes.chart.rendering import ROOT
from tests.e2e.kubernetes.on_node.test_install import NS, RELEASE, operator_container, operator_pod
from tests.e2e.rig.kubernetes.bases import EMULATOR, FOREIGN, OURS, push_pythons
from tests.e2e.rig.kubernetes.binaries import Failed, binary, build, install_packages, run
from tests.e2e.rig.kubernetes.network import HOST
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.registry import PASSWORD, USER, Registry, registry
from tests.e2e.rig.releasing import Clone, commit_tree, push_settings, store

pytestmark = only_in_soak

IMPORTS = "aiohttp, google_crc32c, kopf, kubernetes, msgspec, numpy, yaml"
"""Libraries of the operator, most of them compiled."""


@pytest.fixture(scope="module")
def running(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry at an address that the node reaches."""
    folder = tmp_path_factory.mktemp("registry")
    with registry(folder / "registry", node.control_plane.authority, HOST) as started:
        node.trust(started)
        yield started


@pytest.fixture(scope="module")
def released(running: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """A clone whose release is pushed and signed."""
    build(["cosign"])
    folder = tmp_path_factory.mktemp("released")
    password = {"COSIGN_PASSWORD": "the-password-of-the-key"}
    run(binary("cosign"), "generate-key-pair", cwd=folder, env={**os.environ, **password})
    key = {"COSIGN_KEY": str(folder / "cosign.key"), **password}
    clone = commit_tree(folder / "clone")
    with store() as environment:
        bases = push_pythons(running, folder / "bases", environment)
        done = clone.release(binary("cosign").parent, **bases, **push_settings(running), **environment, **key)
        assert done.returncode == 0, done.stderr
        yield clone


def test_an_operator_installed_from_the_registry_runs_in_the_image_that_was_pushed(
    node: Node, running: Registry, released: Clone
) -> None:
    plane = node.control_plane
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    login = (f"--docker-server={running.address}", f"--docker-username={USER}", f"--docker-password={PASSWORD}")
    plane.kubectl("create", "secret", "docker-registry", "registry", "-n", NS, *login)
    used = {**os.environ, **running.environment, "KUBECONFIG": str(plane.kubeconfig)}
    chart = (f"oci://{running.address}/team/charts/{NAME}", f"--version={__version__}")
    run(binary("helm"), "install", RELEASE, *chart, "-n", NS, "--set", "imagePullSecrets[0].name=registry", env=used)
    try:
        assert operator_container(node)
        (status,) = operator_pod(node)["status"]["containerStatuses"]
        assert status["imageID"] == released.reference("image")
        version = plane.kubectl("exec", f"deploy/{RELEASE}", "-n", NS, "--", "kafkafeatures", "version")
        assert version.startswith(f"kafkafeatures {__version__}\n")
    finally:
        plane.helm("uninstall", RELEASE, "-n", NS, "--wait")
        plane.kubectl("delete", "secret", "registry", "-n", NS)


def test_the_public_key_verifies_image_chart_checksums_and_attestations(
    running: Registry, released: Clone, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "how-to" / "make-a-release.md").read_text()
    (line,) = [one.split() for one in page.splitlines() if one.startswith("    cosign verify ")]
    *words, _ = line[1:]
    assert words[:2] == ["verify", "--key"]
    keyed = [released.folder.parent / word if word == "cosign.pub" else word for word in words[1:]]
    # cosign requests the keys of the public log even where they are not used; here it must not reach the internet.
    no_log = {"TUF_MIRROR": f"https://{running.address}/none", "TUF_ROOT": str(tmp_path)}
    used = {**os.environ, **running.environment, **no_log}

    def cosign(*words: str | Path) -> str:
        return run(binary("cosign"), *words, cwd=released.out, env=used)

    image, digests = released.reference("image"), Layout(released.out / "image").digests
    for one in (image, released.reference("chart")):
        assert one.partition("@")[2] in cosign("verify", *keyed, one)
    assert cosign("verify-attestation", *keyed, "--type=slsaprovenance1", image)
    for digest in digests.values():
        assert cosign("verify-attestation", *keyed, "--type=cyclonedx", f"{image.partition('@')[0]}@{digest}")
    cosign("verify-blob", *keyed, "--signature=SHA256SUMS.sig", "SHA256SUMS")
    with pytest.raises(Failed, match=r"signature|invalid"):
        cosign("verify-blob", *keyed, "--signature=SHA256SUMS.sig", "provenance.json")


def test_the_image_for_the_other_architecture_runs_in_an_emulator(released: Clone, tmp_path: Path) -> None:
    """Only this test needs the emulator; no step of the release does."""
    install_packages({EMULATOR: "qemu-user-static"})
    image = Layout(released.out / "image")
    for layer in image.layers(FOREIGN):
        with tarfile.open(layer) as archive:
            archive.extractall(tmp_path, filter="tar")
    emulator = Path(run("which", EMULATOR).strip())
    (tmp_path / "emulator").write_bytes(emulator.read_bytes())
    (tmp_path / "emulator").chmod(0o755)
    python = ("chroot", tmp_path, "/emulator", "/opt/venv/bin/python")
    clean = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
    assert run(*python, "-m", "kafkafeatures", "version", env=clean).startswith(f"kafkafeatures {__version__}\n")
    imports = f"import {IMPORTS}, kafkafeatures.app, platform; print(platform.machine())"
    assert run(*python, "-c", imports, env=clean).strip() == {"arm64": "aarch64", "amd64": "x86_64"}[FOREIGN]


FIRST_USE = {"kafka_features_operator": "-m kafkafeatures version", "kraftlog": "-c 'import kraftlog'"}
"""Arguments of Python that use what is in a wheel, by wheel."""


@pytest.mark.parametrize("wheel", FIRST_USE)
def test_a_wheel_installs_in_an_empty_environment(wheel: str, released: Clone, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run(python, "-m", "pip", "install", "-q", *released.out.glob(f"{wheel}-*.whl"), env=clean)
    run(python, *shlex.split(FIRST_USE[wheel]), cwd=tmp_path, env=clean)


def test_compiled_files_of_python_in_the_image_contain_no_time(released: Clone) -> None:
    """Bytes 4 to 7 are flags: 1 stands for a hash of the source instead of its time (PEP 552). So each build makes the
    same file.
    """
    files = Layout(released.out / "image").files(OURS)
    kinds = {content[4:8] for path, content in files if path.startswith("opt/venv/") and path.endswith(".pyc")}
    assert kinds == {b"\x01\0\0\0"}


def test_both_architectures_have_the_same_packages_of_python(released: Clone) -> None:
    def packages(architecture: str) -> set[str]:
        text = (released.out / f"{NAME}-{__version__}-linux-{architecture}.cdx.json").read_text()
        return {word.strip('",') for word in text.split() if word.startswith('"pkg:pypi/')}

    assert {f"pkg:pypi/kafka-features-operator@{__version__}"} <= packages(OURS) == packages(FOREIGN)
    assert len(packages(OURS)) > 30  # all libraries of the operator, not just the operator
