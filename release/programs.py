"""Runs other programs. What they print is kept in a file; an error is one line that names the program and the file."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from release.plan import Plan


class ReleaseError(Exception):
    """The release ends here; the text says what, where and what to do."""


def run(plan: Plan, *words: str | Path, given: str = "", cwd: Path | None = None, **environment: str) -> str:
    """Run a program to its end; what it printed."""
    command = [str(word) for word in words]
    log = plan.out / "log.txt"
    done = subprocess.run(  # noqa: S603 - words of our own
        command, input=given, cwd=cwd or plan.root, env=_environment(plan, environment),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n{done.stdout}\n")
    if done.returncode:
        raise ReleaseError(f"{_named(command)} ended with exit code {done.returncode}: {_last(done.stdout)}; see {log}")
    return done.stdout


def _environment(plan: Plan, variables: Mapping[str, str]) -> dict[str, str]:
    """After the login of a release, all programs read the file that skopeo wrote; else each has its own."""
    login = plan.out / ".login" / "config.json"
    logins = {"REGISTRY_AUTH_FILE": login, "HELM_REGISTRY_CONFIG": login, "DOCKER_CONFIG": login.parent}
    used = {name: str(path) for name, path in logins.items()} if login.exists() else {}
    return {**plan.environment, **used, "SOURCE_DATE_EPOCH": str(plan.seconds), **variables}


def _named(command: Sequence[str]) -> str:
    """The program and its first words, without options and paths."""
    return " ".join([Path(command[0]).name, *(word for word in command[1:3] if word.isalpha())])


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"
