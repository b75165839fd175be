"""The image: what goes in is locked, what runs is nobody in particular and writes nowhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
STAGES = re.split(r"(?m)^FROM ", re.sub(r"(?m)^#.*\n|\\\n *", "", TEXT))[1:]
BUILD, FINAL = STAGES
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]


def instructions(stage: str, name: str) -> list[str]:
    return re.findall(rf"(?m)^{name} (.*)$", stage)


def test_both_bases_are_arguments_with_a_python_of_the_right_age() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    for name in ("BUILD_BASE", "RUNTIME_BASE"):
        assert f"\nARG {name}=python:{wanted}-slim\n" in TEXT
    assert BUILD.startswith("${BUILD_BASE} AS build")
    assert FINAL.startswith("${RUNTIME_BASE}")


def test_nothing_is_installed_that_is_not_locked_or_our_own() -> None:
    commands = [one for run in instructions(BUILD, "RUN") for one in run.split("&&")]
    installs = [one for one in commands if re.search(r"\b(install|wheel) ", one)]
    assert len(installs) == 4
    for one in installs:
        assert "--require-hashes" in one or "--no-index" in one, one


def test_the_final_stage_runs_no_command_and_gets_the_environment_alone() -> None:
    assert not instructions(FINAL, "RUN")
    assert instructions(FINAL, "COPY") == ["--from=build /opt/venv /opt/venv"]


def test_it_runs_as_a_number_that_is_not_root_and_can_be_told_a_name() -> None:
    """Kubernetes can only prove of a number that it is not root; Kopf asks for the name of the user."""
    assert instructions(FINAL, "USER") == ["65532:65532"]
    assert "USER=" in instructions(FINAL, "ENV")[0]


def test_it_is_the_command_line_and_runs_the_operator_unless_told_otherwise() -> None:
    assert instructions(FINAL, "ENTRYPOINT") == ['["kafkafeatures"]']
    assert instructions(FINAL, "CMD") == ['["run"]']


def test_the_context_holds_what_is_copied_and_nothing_else() -> None:
    assert IGNORED[0] == "*"
    given = {line.removeprefix("!") for line in IGNORED if line.startswith("!")}
    copied = {word for copy in instructions(BUILD, "COPY") for word in copy.split()[:-1]}
    assert copied == given
    assert all((ROOT / name).exists() for name in given)
