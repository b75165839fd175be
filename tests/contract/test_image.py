"""The images, of the operator and of the pipeline: what goes in is locked, what runs is an unprivileged user."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPERATOR, PIPELINE, KERBEROS = "Dockerfile", "Dockerfile.pipeline", "Dockerfile.kerberos"
TEXTS = {name: (ROOT / name).read_text() for name in (OPERATOR, PIPELINE)}


def stages(text: str) -> list[str]:
    return re.split(r"(?m)^FROM ", re.sub(r"(?m)^#.*\n|\\\n *", "", text))[1:]


STAGES = {name: stages(text) for name, text in TEXTS.items()}
WITH_KERBEROS = stages((ROOT / KERBEROS).read_text())
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
each = pytest.mark.parametrize("name", STAGES)


def instructions(stage: str, name: str) -> list[str]:
    return re.findall(rf"(?m)^{name} (.*)$", stage)


@each
def test_all_base_images_are_arguments_and_python_has_the_version_of_the_package(name: str) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    for argument in ("BUILD_BASE", "RUNTIME_BASE"):
        assert f"\nARG {argument}=python:{wanted}-slim\n" in TEXTS[name]
    bases = [next(word for word in stage.split() if not word.startswith("--")) for stage in STAGES[name]]
    operators = ["${BUILD_BASE}", "${RUNTIME_BASE}"]
    assert bases == {OPERATOR: operators, PIPELINE: ["${JAVA_BASE}", operators[0], "libraries", operators[1]]}[name]


def test_the_image_of_the_operator_is_cross_built_on_the_platform_of_the_builder() -> None:
    """The programs of the final stage are of the target, and none of them runs while the image is built."""
    build, final = STAGES[OPERATOR]
    assert build.startswith("--platform=$BUILDPLATFORM ")
    assert final.startswith("--platform=$TARGETPLATFORM ")


def test_compiled_files_stay_valid_when_a_release_sets_the_times_of_all_files() -> None:
    """By default a compiled file has the time of its source; with another time Python compiles it at each start."""
    assert "python -m compileall -q -f --invalidation-mode unchecked-hash /opt/venv/lib" in STAGES[OPERATOR][0]


@each
def test_only_locked_or_own_packages_are_installed(name: str) -> None:
    commands = [one for run in instructions("".join(STAGES[name][:-1]), "RUN") for one in run.split("&&")]
    installs = [one for one in commands if re.search(r"\b(install|wheel) ", one)]
    assert len(installs) == {OPERATOR: 4, PIPELINE: 5}[name]
    for one in installs:
        assert "--require-hashes" in one or "--no-index" in one, one
        assert "--no-binary" not in one or "--no-build-isolation" in one, one


@each
def test_the_final_stage_gets_environments_and_runs_no_program(name: str) -> None:
    runs, copies = (instructions(STAGES[name][-1], one) for one in ("RUN", "COPY"))
    libraries = [f"--from={one} /opt/venv" for one in ("libraries /opt/venv", "build /opt/ours")]
    assert (
        copies
        == {
            OPERATOR: ["--from=build /opt/venv /opt/venv"],
            PIPELINE: ["--from=java ${JAVA_HOME} /opt/java", *libraries],
        }[name]
    )
    assert [one.split()[0] for one in runs] == {OPERATOR: [], PIPELINE: ["echo"]}[name]


@each
def test_the_image_runs_as_a_numeric_user_other_than_root(name: str) -> None:
    """Kubernetes can only prove of a number that it is not root."""
    assert instructions(STAGES[name][-1], "USER") == ["65532:65532"]


def test_the_user_of_the_image_of_the_pipeline_has_a_name() -> None:
    """Hadoop's libraries read /etc/passwd."""
    (said,) = instructions(STAGES[PIPELINE][-1], "RUN")
    assert re.fullmatch(r"echo 'pipeline:x:65532:65532:[^']*' >>/etc/passwd", said)


def test_the_image_of_the_operator_is_the_command_line_and_runs_the_operator_by_default() -> None:
    assert instructions(STAGES[OPERATOR][-1], "ENTRYPOINT") == ['["kafkafeatures"]']
    assert instructions(STAGES[OPERATOR][-1], "CMD") == ['["run"]']


def test_the_entrypoint_of_the_image_of_the_pipeline_is_the_module_container() -> None:
    """See tests/featurelog/test_container.py."""
    assert instructions(STAGES[PIPELINE][-1], "ENTRYPOINT") == ['["python", "-m", "featurelog.container"]']


def test_the_build_context_contains_exactly_the_copied_paths() -> None:
    assert IGNORED[0] == "*"
    given = {line.removeprefix("!") for line in IGNORED if line.startswith("!")}
    builds = [stage for image in (*STAGES.values(), WITH_KERBEROS) for stage in image[:-1]]
    copied = {word for build in builds for copy in instructions(build, "COPY") for word in copy.split()[:-1]}
    assert copied == given
    assert all((ROOT / name).exists() for name in given)


def test_the_image_with_kerberos_is_the_operators_with_locked_libraries_and_its_user() -> None:
    build, final = WITH_KERBEROS
    installs = [one for run in instructions(build, "RUN") for one in run.split("&&") if "pip install" in one]
    assert len(installs) == 2
    assert all("--require-hashes" in one for one in installs)
    assert final.startswith("${IMAGE}\n")
    assert instructions(final, "COPY") == ["--from=build /opt/kerberos /opt/kerberos"]
    assert instructions(final, "USER")[-1] == instructions(STAGES[OPERATOR][-1], "USER")[0]
    assert not instructions(final, "ENTRYPOINT")
