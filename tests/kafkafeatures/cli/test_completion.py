"""Completion of commands, flags and names, in a real bash."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkafeatures.cli.kube.offers import offer
from kafkafeatures.cli.shell.commands import COMMANDS
from kafkafeatures.cli.shell.completion import SHELLS
from tests.simulated.conformance import SPEC
from tests.simulated.http import served
from tests.simulated.kubernetes import ApiServer
from tests.started import PYTHONPATH


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a kubeconfig, for an API server with two resources."""
    api = ApiServer()
    api.create("kafka", "orders", SPEC)
    api.create("streaming", "clicks", SPEC)
    folder = tmp_path_factory.mktemp("home")
    with served(api) as address:
        addresses = {"here": address, "gone": "http://127.0.0.1:1"}
        config = {
            "current-context": "here",
            "clusters": [{"name": name, "cluster": {"server": one}} for name, one in addresses.items()],
            "contexts": [{"name": name, "context": {"cluster": name, "namespace": "kafka"}} for name in addresses],
        }
        (folder / "config").write_text(json.dumps(config))
        program = folder / "kafkafeatures"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkafeatures "$@"\n')
        program.chmod(0o755)
        yield folder


LIVE = [
    (("status", ""), {"orders"}),
    (("wait", "-n", "streaming", "c"), {"clicks"}),
    (("plan", "-n", ""), {"kafka", "streaming"}),
    (("list", "--context", ""), {"here", "gone"}),
    (("status", "--context", "gone", "-n", ""), set[str]()),
]


@pytest.mark.parametrize(("words", "expected"), LIVE)
def test_names_offered_for_completion_come_from_the_api_server_and_the_kubeconfig(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    home: Path,
    words: tuple[str, ...],
    expected: set[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(home / "config"))
    offer(words)
    output = capsys.readouterr()
    assert output.err == ""
    offers = output.out.split("\n")[:-2]  # without the directive in the last line, and the empty text after it
    assert {offer_ for offer_ in offers if not offer_.startswith("-")} == expected


@pytest.mark.parametrize(("words", "expected"), LIVE)
def test_bash_completion_asks_the_program_for_names(
    monkeypatch: pytest.MonkeyPatch, home: Path, words: tuple[str, ...], expected: set[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(home / "config"))
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    assert {one for one in offered(str(home / "kafkafeatures"), *words) if not one.startswith("-")} == expected


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
def test_completion_offers_commands_flags_and_values(words: tuple[str, ...], expected: set[str]) -> None:
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
def test_the_kubectl_plugin_completes_the_same_words(
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    expected: set[str],
    files: bool,
) -> None:
    offer(words)
    *offers, directive = capsys.readouterr().out.splitlines()
    assert {one.split("\t")[0] for one in offers} == expected
    assert directive == (":0" if files else ":4")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_completes_every_command(shell: str) -> None:
    script = SHELLS[shell]()
    assert all(command in script for command in COMMANDS)
    assert "%(" not in script
