"""Completions in a real fish and a real zsh, with a real API server. For bash: `cli/test_completion.py`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.e2e.kubernetes.command_line.orders import Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.rig.kubernetes.binaries import install_packages
from tests.kafkafeatures.terminal import session

PROGRAM = "kafkafeatures"


@pytest.fixture
def shell_home(orders: Orders, person: Person) -> Person:
    """A person who has the program on the PATH."""
    install_packages({"fish": "fish", "zsh": "zsh"})
    program = person.home / PROGRAM
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkafeatures "$@"\n')
    program.chmod(0o755)
    person.environment["PATH"] = f"{person.home}:{person.environment.get('PATH') or os.defpath}"
    return person


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("status o", ["orders"]),
        ("status --context ", ["rig"]),
        ("wa", ["wait"]),
        ("status -o ", ["json", "table", "yaml"]),
        ("completion ", ["bash", "fish", "zsh"]),
    ],
)
def test_fish_completes_existing_names_and_possible_words(shell_home: Person, line: str, expected: list[str]) -> None:
    script = f'{PROGRAM} completion fish | source; complete -C "{PROGRAM} {line}"'
    done = subprocess.run(
        ["fish", "-c", script], env=shell_home.environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    assert [one.split("\t")[0] for one in done.stdout.splitlines()] == expected


def test_zsh_completes_the_name_of_a_resource(shell_home: Person) -> None:
    """The line is typed at a pseudo terminal, since zsh completes nowhere else."""
    environment = {**shell_home.environment, "TERM": "dumb", "PS1": "> "}
    with session(["zsh", "-f", "-i"], env=environment) as zsh:
        zsh.reads()
        zsh.types(f"autoload -U compinit; compinit -u; source <({PROGRAM} completion zsh)")
        zsh.enters(f"{PROGRAM} status o\t")
        zsh.reads("status orders ")
