"""A release as `make release` makes it, with an image of a few files: pushed, pulled by digest, installed by oci://."""

from __future__ import annotations

import json
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkafeatures import __version__
from release.layout import Layout
from release.plan import ARCHITECTURES
from tests.e2e.kubernetes.chart.rendering import CRD_NAME, NAME, NS, ROOT
from tests.e2e.rig.kubernetes.binaries import binary, run
from tests.e2e.rig.kubernetes.certificates import Authority
from tests.e2e.rig.kubernetes.cluster import LOOPBACK, ControlPlane
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.registry import Registry, registry
from tests.e2e.rig.releasing import Clone, commit_tree, push_bases, push_settings, store

SOURCE = "https://forge.example/kff"
PACKAGE = "opt/venv/lib/python3.11/site-packages/example_package-1.2.dist-info"
DOCKERFILE = f"""ARG BUILD_BASE
ARG RUNTIME_BASE
FROM --platform=$BUILDPLATFORM ${{BUILD_BASE}} AS build
FROM --platform=$TARGETPLATFORM ${{RUNTIME_BASE}}
COPY --from=build /METADATA /{PACKAGE}/METADATA
"""
BASE = """FROM scratch
COPY METADATA /METADATA
COPY status /var/lib/dpkg/status
"""
METADATA = "Metadata-Version: 2.4\nName: Example_Package\nVersion: 1.2\n\nWhat it is.\n"
STATUS = """Package: libc6
Status: install ok installed
Architecture: {architecture}
Version: 2.36-9

Package: gone
Status: deinstall ok config-files
Architecture: {architecture}
Version: 1
"""


@dataclass(frozen=True)
class Released:
    """Made once, for all tests here."""

    registry: Registry
    clone: Clone
    bases: Mapping[str, str]
    environment: Mapping[str, str]
    printed: str

    def json(self, name: str) -> Any:
        return json.loads((self.clone.out / name).read_text())


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Released]:
    folder = tmp_path_factory.mktemp("released")
    contexts = {one: folder / f"base-{one}" for one in ARCHITECTURES}
    for architecture, context in contexts.items():
        context.mkdir()
        (context / "Dockerfile").write_text(BASE)
        (context / "METADATA").write_text(METADATA)
        (context / "status").write_text(STATUS.format(architecture=architecture))
    with registry(folder / "registry", Authority(folder / "authority"), LOOPBACK) as running, store() as environment:
        base = push_bases(running, "base", contexts, environment)
        bases = {"BUILD_BASE": base, "RUNTIME_BASE": base}
        clone = commit_tree(folder / "clone", {"Dockerfile": DOCKERFILE, ".dockerignore": ""})
        done = clone.release(**bases, **push_settings(running), **environment, SOURCE_URL=SOURCE)
        assert done.returncode == 0, done.stderr
        yield Released(running, clone, bases, environment, done.stdout)


def test_a_release_ends_with_the_references_that_were_pushed(released: Released) -> None:
    image, chart = (released.clone.reference(one) for one in ("image", "chart"))
    assert released.printed.endswith(f"pushed: {chart}\npushed: {image}\n")
    assert image == f"{released.registry.address}/team/{NAME}@{Layout(released.clone.out / 'image').digest}"


def test_the_image_is_pulled_by_its_digest_for_each_architecture(released: Released) -> None:
    used = {**os.environ, **released.environment, **released.registry.environment}
    for one in ARCHITECTURES:
        run("buildah", "pull", "--policy=always", f"--arch={one}", released.clone.reference("image"), env=used)
        found = json.loads(run("buildah", "inspect", "--type=image", released.clone.reference("image"), env=used))
        assert found["OCIv1"]["architecture"] == one


def test_the_labels_of_the_image_name_its_version_revision_and_base(released: Released) -> None:
    time = run("git", "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
               cwd=released.clone.folder, env={**os.environ, "TZ": "UTC"}).strip()  # fmt: skip
    name, _, digest = released.bases["RUNTIME_BASE"].partition("@")
    expected = {
        "version": __version__,
        "revision": run("git", "rev-parse", "HEAD", cwd=released.clone.folder).strip(),
        "created": time,
        "source": SOURCE,
        "base.name": name,
        "base.digest": digest,
    }
    for one in ARCHITECTURES:
        found = Layout(released.clone.out / "image").labels(one)
        assert {key: found[f"org.opencontainers.image.{key}"] for key in expected} == expected


def test_the_chart_in_the_registry_installs_the_image_that_was_pushed(released: Released, plane: ControlPlane) -> None:
    chart = f"oci://{released.registry.address}/team/charts/{NAME}"
    used = {**os.environ, **released.registry.environment, "KUBECONFIG": str(plane.kubeconfig)}
    run(binary("helm"), "install", NAME, chart, f"--version={__version__}", "-n", NS, env=used)
    try:
        selector = ("-n", NS, "-l", f"app.kubernetes.io/instance={NAME}")
        wait_until("the pod is made", lambda: plane.get("pods", *selector)["items"], 60)
        (pod,) = plane.get("pods", *selector)["items"]
        assert pod["spec"]["containers"][0]["image"] == released.clone.reference("image")
    finally:
        plane.helm("uninstall", NAME, "-n", NS, "--wait")
        plane.kubectl("delete", "crd", CRD_NAME, "--ignore-not-found")


def test_the_commands_of_the_install_page_push_the_chart_of_a_clone_to_a_registry_and_install_it(
    released: Released, plane: ControlPlane
) -> None:
    """The image is in the registry already: the commands of the page that push it need Docker."""
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    block = page.partition("\n## From a registry\n")[2].partition("\n## ")[0].replace("\\\n", " ")
    lines = [line.strip() for line in block.splitlines() if line.startswith("    ")]
    assert [line.split()[1] for line in lines] == ["package", "push", "install"]
    path = f"{binary('helm').parent}:{os.environ['PATH']}"
    used = {**os.environ, **released.registry.environment, "KUBECONFIG": str(plane.kubeconfig), "PATH": path}
    digest = Layout(released.clone.out / "image").digest
    try:
        for line in lines:
            typed = line.replace("REGISTRY", f"{released.registry.address}/team").replace("sha256:...", digest)
            run("bash", "-c", typed, cwd=released.clone.folder, env=used)
        deployment = plane.get("deployment", NAME, "-n", "kafka-features")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["image"] == released.clone.reference("image")
    finally:
        plane.helm("uninstall", NAME, "-n", "kafka-features", "--wait")
        plane.kubectl("delete", "crd", CRD_NAME, "--ignore-not-found")


def test_the_packaged_chart_differs_from_its_source_only_in_the_reference_of_the_image(released: Released) -> None:
    with tarfile.open(released.clone.out / f"{NAME}-{__version__}.tgz") as archive:
        archive.extractall(released.clone.folder / "dist" / "chart", filter="data")
    packaged, source = released.clone.folder / "dist" / "chart" / NAME, released.clone.folder / "charts" / NAME
    chart = yaml.safe_load((packaged / "Chart.yaml").read_text())
    (operator, *_) = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert operator["image"] == released.clone.reference("image")
    ours, theirs = (yaml.safe_load((one / "values.yaml").read_text()) for one in (source, packaged))
    ours["image"] |= {
        "registry": f"{released.registry.address}/team",
        "digest": Layout(released.clone.out / "image").digest,
    }
    assert theirs == ours


def test_the_list_of_components_has_the_packages_of_python_and_of_debian(released: Released) -> None:
    for one in ARCHITECTURES:
        found = released.json(f"{NAME}-{__version__}-linux-{one}.cdx.json")
        assert found["metadata"]["component"]["bom-ref"] == Layout(released.clone.out / "image").digests[one]
        assert {component["purl"] for component in found["components"]} == {
            f"pkg:deb/debian/libc6@2.36-9?arch={one}",
            "pkg:pypi/example-package@1.2",
        }


def test_the_provenance_names_all_artifacts_and_their_sources(released: Released) -> None:
    found = released.json("provenance.json")
    subjects = {one["name"]: one["digest"]["sha256"] for one in found["subject"]}
    for pushed in (released.clone.reference(one) for one in ("image", "chart")):
        name, _, digest = pushed.partition("@sha256:")
        assert subjects[name] == digest
    assert {one.name for one in released.clone.out.glob("*") if one.suffix in (".whl", ".gz", ".tgz")} <= set(subjects)
    materials = {one["uri"]: one["digest"] for one in found["predicate"]["buildDefinition"]["resolvedDependencies"]}
    commit = run("git", "rev-parse", "HEAD", cwd=released.clone.folder).strip()
    assert materials[f"git+{SOURCE}"] == {"gitCommit": commit}
    name, _, digest = released.bases["RUNTIME_BASE"].partition("@sha256:")
    assert materials[f"oci:{name}"] == {"sha256": digest}
    assert "the-password" not in (released.clone.out / "provenance.json").read_text()


def test_the_checksums_hold_and_no_login_or_password_is_left(released: Released) -> None:
    said = run("sha256sum", "--check", "SHA256SUMS", cwd=released.clone.out)
    assert {"notes.md: OK", "image/index.json: OK", "provenance.json: OK"} <= set(said.splitlines())
    assert not (released.clone.out / ".login").exists()
    for path in released.clone.out.rglob("*"):
        assert not path.is_file() or b"the-password-of" not in path.read_bytes(), path


def test_the_notes_are_the_section_of_the_changelog(released: Released) -> None:
    changelog = (released.clone.folder / "CHANGELOG.md").read_text()
    section = changelog.partition(f"\n## {__version__} - 2026-01-31\n")[2].partition("\n## ")[0]
    assert (released.clone.out / "notes.md").read_text() == section.strip() + "\n"


def test_wheels_and_sources_of_both_distributions_are_made(released: Released) -> None:
    for name, package in {"kafka_features_operator": "kafkafeatures", "kraftlog": "kraftlog"}.items():
        with zipfile.ZipFile(released.clone.out / f"{name}-{__version__}-py3-none-any.whl") as wheel:
            assert f"{package}/__init__.py" in wheel.namelist()
        assert (released.clone.out / f"{name}-{__version__}.tar.gz").exists()


def test_the_same_commit_makes_the_same_image_wheels_and_sources(released: Released, tmp_path: Path) -> None:
    second_clone = released.clone.cloned(tmp_path / "again")
    with store() as environment:  # an empty store of images, as on another machine
        login = released.registry.environment
        done = second_clone.release(**released.bases, **environment, **login, SOURCE_URL=SOURCE)
    assert done.returncode == 0, done.stderr
    first, second = (dict(_sums(one.out)) for one in (released.clone, second_clone))
    assert {one for one in second if first[one] != second[one]} == {
        # No registry was set for the second release, so its chart names another image; and helm packs the time.
        *(f"{NAME}-{__version__}.tgz", "provenance.json"),
    }


def _sums(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and digest, from the file of checksums."""
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        yield name, digest
