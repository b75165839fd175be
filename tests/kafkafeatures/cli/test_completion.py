"""What a real bash offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkafeatures.cli.shell.completion import SHELLS, for_kubectl
from kafkafeatures.cli.shell.main import COMMANDS


def offered(*words: str) -> set[str]:
    line = " ".join(f"'{word}'" for word in words)
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _kafkafeatures; echo "${{COMPREPLY[@]}}"'
    script = f"{SHELLS['bash']()}\n{ask}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("kafkafeatures", ""), set(COMMANDS)),
        (("kafkafeatures", "wa"), {"wait"}),
        (("kafkafeatures", "status", "-o", ""), {"table", "json", "yaml"}),
        (("kafkafeatures", "status", "--n"), {"--namespace"}),
        (("kafkafeatures", "completion", "b"), {"bash"}),
        (("kafkafeatures", "plan", "-f", "le"), set()),  # files, which the shell itself offers
        (("kubectl-kafkafeatures", "approve", "--p"), {"--plan"}),
    ],
)
def test_commands_flags_and_values_are_offered(words: tuple[str, ...], expected: set[str]) -> None:
    assert offered(*words) == expected


@pytest.mark.parametrize(
    ("words", "expected", "files"),
    [
        ((), set(COMMANDS), False),
        (("wa",), {"wait"}, False),
        (("status", "-o", ""), {"table", "json", "yaml"}, False),
        (("status", "orders", "--n"), {"--namespace"}, False),
        (("plan", "-f", "le"), set(), True),
        (("nonsense", ""), set(), False),
    ],
)
def test_kubectl_is_offered_the_same(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    expected: set[str],
    files: bool,
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-kafkafeatures", *words])
    for_kubectl()
    *offers, directive = capsys.readouterr().out.splitlines()
    assert {one.split("\t")[0] for one in offers} == expected
    assert directive == (":0" if files else ":4")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_completes_every_command(shell: str) -> None:
    script = SHELLS[shell]()
    assert all(command in script for command in COMMANDS)
    assert "%(" not in script
