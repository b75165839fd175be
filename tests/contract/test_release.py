"""A release as far as it needs no other programs: its checks, its steps and its commands.

A release is built and installed in tests/e2e/kubernetes/chart/test_released.py and
tests/e2e/kubernetes/on_node/test_release.py.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from kafkafeatures import __version__
from release import chart, checks, distributions, images, notes, signatures, steps
from release.layout import Layout
from release.plan import ARCHITECTURES, NAME, SETTINGS, Plan, read_plan
from release.programs import ReleaseError, run

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "make-a-release.md").read_text()
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
DIGEST = "sha256:" + 64 * "0"
GOOD = {"VERSION": __version__, "BUILD_BASE": f"base@{DIGEST}", "RUNTIME_BASE": f"base@{DIGEST}"}
CHANGELOG = f"# Changelog\n\n## Unreleased\n\n## {__version__} - 2026-01-31\n\n- It exists.\n\n## 0.0.9\n\n- Older.\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the files that the checks read."""
    for name in (*("operator/kafkafeatures", "operator/kraftlog"), f"charts/{NAME}"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("kafkafeatures", "kraftlog"):
        (tmp_path / "operator" / name / "__init__.py").write_text(f'__version__ = "{__version__}"\n')
    (tmp_path / checks.CHART).write_text((ROOT / checks.CHART).read_text())
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("/dist/\n")
    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@localhost commit -qm one"):
        subprocess.run(["git", *words.split()], cwd=tmp_path, check=True)
    return tmp_path


def problems(tree: Path, *programs: str, **settings: str) -> list[str]:
    return checks.problems(read_plan(tree, {"PATH": os.environ["PATH"], **GOOD, **settings}), programs)


def test_a_tree_that_is_ready_for_a_release_has_no_problem(tree: Path) -> None:
    assert problems(tree, "git") == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"VERSION": ""}, "VERSION is not set: name the version to release, for example make release VERSION=0.1.0"),
        ({"VERSION": "v1"}, "VERSION: invalid value 'v1'; expected a semantic version such as 0.1.0 or 0.2.0-rc.1"),
        ({"BUILD_BASE": ""}, "BUILD_BASE is not set; expected an image by digest, NAME@sha256:..."),
        ({"RUNTIME_BASE": "python:3.11-slim"}, "RUNTIME_BASE: invalid value 'python:3.11-slim'; expected an image by"),
        ({"REGISTRY": "https://registry.example"}, "REGISTRY: invalid value 'https://registry.example'; expected HOST"),
        ({"COSIGN_KEY": "key"}, "COSIGN_KEY is set, but REGISTRY is not: set both or neither"),
        ({"REGISTRY": "registry.example", "REGISTRY_PASSWORD": "x"}, "REGISTRY_PASSWORD is set, but REGISTRY_USER is"),
    ],
)
def test_a_setting_that_is_wrong_is_named_in_one_line(tree: Path, settings: dict[str, str], message: str) -> None:
    (found,) = problems(tree, **settings)
    assert found.startswith(message)
    assert "\n" not in found


def test_each_file_with_another_version_is_named(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text(CHANGELOG.replace(__version__, "9.9.9"))
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "two"], cwd=tree, check=True)
    (found,) = problems(tree, VERSION="9.9.9")
    assert found == (
        f"operator/kafkafeatures/__init__.py: __version__ is {__version__}, operator/kraftlog/__init__.py: __version__ "
        f"is {__version__}, charts/{NAME}/Chart.yaml: version is {__version__}, charts/{NAME}/Chart.yaml: appVersion "
        f"is {__version__}, expected 9.9.9: change and commit it"
    )


def test_a_changelog_without_the_version_and_a_changed_tree_are_problems(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- Something.\n")
    assert problems(tree) == [
        f"CHANGELOG.md has no text below a heading '## {__version__}': move the text below '## Unreleased' there",
        "the working tree has 1 changed files, such as CHANGELOG.md: commit them",
    ]


def test_a_program_that_is_missing_is_named(tree: Path) -> None:
    assert problems(tree, "git", "no-such-builder") == ["no-such-builder is not on the PATH: install it"]


def test_no_artifact_is_built_before_the_checks_pass_and_no_traceback_is_printed(tree: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "VERSION": "1"}
    words = [sys.executable, "-m", "release"]
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert all(line.startswith("release: ") for line in done.stderr.splitlines())
    assert not (tree / "dist").exists()


# --- steps ---


def plan(tree: Path, **settings: str) -> Plan:
    return read_plan(tree, {"PATH": os.environ["PATH"], **GOOD, **settings})


def test_no_artifact_is_pushed_without_a_registry_or_signed_without_a_key(tree: Path) -> None:
    assert not [one.name for one in steps.of(plan(tree)) if one.wanted]
    assert steps.programs(plan(tree)) == ["git", "buildah", "helm"]
    assert steps.programs(plan(tree, REGISTRY="r.example")) == ["git", "buildah", "helm", "skopeo"]
    signing = plan(tree, REGISTRY="r.example", COSIGN_KEY="key", REGISTRY_USER="me")
    assert [one.name for one in steps.of(signing)] == [one.name for one in steps.STEPS]
    assert "cosign" in steps.programs(signing)


def test_a_program_that_fails_is_named_with_its_last_line_and_the_path_of_its_log(tree: Path) -> None:
    made = plan(tree)
    made.out.mkdir(parents=True)
    with pytest.raises(ReleaseError) as caught:
        run(made, "git", "no-such-command")
    assert str(caught.value).startswith("git ended with exit code 1: git: 'no-such-command' is not a git command")
    assert str(caught.value).endswith(f"; see {made.out / 'log.txt'}")
    assert "no-such-command" in (made.out / "log.txt").read_text()


def test_the_notes_end_where_the_next_version_begins(tree: Path) -> None:
    assert notes.section(plan(tree)) == "- It exists."
    assert notes.section(plan(tree, VERSION="0.0.9")) == "- Older."
    assert notes.section(plan(tree, VERSION="0.0")) == ""


def test_the_reference_of_the_image_is_set_in_the_values_of_the_chart_and_comments_remain() -> None:
    values = (ROOT / "charts" / NAME / "values.yaml").read_text()
    given = {"registry": "r.example/team", "digest": DIGEST}
    made = chart.with_image(values, given)
    assert yaml.safe_load(made)["image"] == yaml.safe_load(values)["image"] | given
    assert yaml.safe_load(made)["pipeline"] == yaml.safe_load(values)["pipeline"]
    assert made.count("#") == values.count("#")
    with pytest.raises(ReleaseError, match=r"no empty image\.registry"):
        chart.with_image(made, given)


def test_sources_that_build_a_different_wheel_are_refused(tmp_path: Path) -> None:
    for name, files in {"one.whl": {"a.py": "", "b.py": ""}, "other.whl": {"a.py": "x"}}.items():
        with zipfile.ZipFile(tmp_path / name, "w") as wheel:
            for file, content in files.items():
                wheel.writestr(file, content)
    with pytest.raises(ReleaseError, match=r"differs from one\.whl in 2 files, such as a\.py"):
        distributions.compare(tmp_path / "one.whl", tmp_path / "other.whl", tmp_path / "one.tar.gz")


# --- the image ---


def layout(folder: Path, machines: dict[str, int]) -> Layout:
    """An image with one program for each architecture. `machines`: the machine in the ELF header of its program."""

    def blob(content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        (folder / "blobs" / "sha256" / digest).write_bytes(content)
        return f"sha256:{digest}"

    listed = []
    for architecture, machine in machines.items():
        program = b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            member = tarfile.TarInfo("./usr/bin/program")
            member.size = len(program)
            archive.addfile(member, io.BytesIO(program))
        config = blob(json.dumps({"config": {"Labels": {}}}).encode())
        content = {"config": {"digest": config}, "layers": [{"digest": blob(packed.getvalue())}]}
        digest = blob(json.dumps(content).encode())
        listed.append({"digest": digest, "platform": {"architecture": architecture, "os": "linux"}})
    index = blob(json.dumps({"manifests": listed}).encode())
    (folder / "index.json").write_text(json.dumps({"manifests": [{"digest": index}]}))
    return Layout(folder)


def test_an_image_with_a_program_of_another_architecture_is_refused(tmp_path: Path) -> None:
    images.check(layout(tmp_path / "good", ARCHITECTURES))
    # Machine 62 is x86-64.
    with pytest.raises(ReleaseError, match="/usr/bin/program of the image for arm64 is a program for machine 62"):
        images.check(layout(tmp_path / "mixed", {"amd64": 62, "arm64": 62}))
    with pytest.raises(ReleaseError, match="images for amd64, expected amd64, arm64"):
        images.check(layout(tmp_path / "few", {"amd64": 62}))


def test_image_chart_and_checksums_are_signed_and_the_components_of_the_image_are_attested(tree: Path) -> None:
    made = plan(tree, REGISTRY="r.example/team", COSIGN_KEY="cosign.key")
    made.out.mkdir(parents=True)
    image = layout(made.layout, ARCHITECTURES)
    (made.out / "chart-reference.txt").write_text(f"r.example/team/charts/{NAME}@{DIGEST}\n")
    found = signatures.commands(made, tree / "predicate.json")
    assert all("--key=cosign.key" in one and "--tlog-upload=false" in one for one in found)
    asked = [(one[0], *(word for word in one if word.startswith("--type")), one[-1]) for one in found]
    ours = f"r.example/team/{NAME}"
    assert asked == [
        ("sign", f"{ours}@{image.digest}"),
        ("attest", "--type=slsaprovenance1", f"{ours}@{image.digest}"),
        *(("attest", "--type=cyclonedx", f"{ours}@{one}") for one in image.digests.values()),
        ("sign", f"r.example/team/charts/{NAME}@{DIGEST}"),
        ("sign-blob", str(made.out / "SHA256SUMS")),
    ]


# --- the workflow and the page ---


def test_the_workflow_calls_only_targets_of_the_makefile() -> None:
    (job,) = WORKFLOW["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == ["make check", 'make release VERSION="${GITHUB_REF_NAME#v}"']
    assert {step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step} == {
        "actions/checkout",
        "actions/upload-artifact",
    }


def test_the_workflow_sets_only_what_a_release_or_cosign_reads() -> None:
    (job,) = WORKFLOW["jobs"].values()
    given = {name for step in job["steps"] for name in step.get("env", {})}
    assert given == (set(SETTINGS) - {"VERSION"}) | {"COSIGN_PASSWORD", "COSIGN_PRIVATE_KEY"}


def test_the_page_names_each_setting_each_program_and_each_file(tree: Path) -> None:
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", PAGE, re.MULTILINE)) == set(SETTINGS)
    for program in steps.programs(plan(tree, REGISTRY="r.example", COSIGN_KEY="key")):
        assert f"`{program}`" in PAGE
    for step in steps.STEPS:
        for one in step.makes:
            assert f"`{one}`" in PAGE, one


def test_no_module_of_the_release_has_more_than_400_lines() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in (ROOT / "release").glob("*.py")}
    assert max(lengths.values()) <= 400
