"""Completions in a real fish and a real zsh, with a real API server. For bash: `cli/test_completion.py`."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys

import pytest

from tests.e2e.kubernetes.command_line.orders import Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.rig.kubernetes.binaries import install_packages
from tests.e2e.rig.process import wait_until

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
    keyboard, terminal = pty.openpty()
    environment = {**shell_home.environment, "TERM": "dumb", "PS1": "> "}
    zsh = subprocess.Popen(["zsh", "-f", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    screen = ""

    def types(text: str, until: str) -> None:
        nonlocal screen
        os.write(keyboard, text.encode())
        before = len(screen)

        def is_there() -> bool:
            nonlocal screen
            while select.select([keyboard], [], [], 0)[0]:
                screen += os.read(keyboard, 4096).decode(errors="replace")
            return until in screen[before:]

        try:
            wait_until(f"{until!r} is on the screen", is_there, 60)
        except AssertionError as late:
            late.add_note(screen)
            raise

    try:
        # The quotes keep "loaded" out of the typed line, which the terminal shows too.
        types(f"autoload -U compinit; compinit -u; source <({PROGRAM} completion zsh); echo load''ed\n", "loaded")
        types(f"{PROGRAM} status o\t", "status orders")
    finally:
        zsh.kill()
        zsh.wait()
        os.close(keyboard)
        os.close(terminal)
