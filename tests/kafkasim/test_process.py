"""`python -m kafkasim` as a process, and the demo that is built on it."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkafeatures.cli.demo.stage import Demonstration
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.facts.readings import Role
from kafkasim.__main__ import add_arguments, plan_of
from tests.amounts import only_in_soak
from tests.started import PYTHONPATH

ENVIRONMENT = os.environ | {"PYTHONPATH": PYTHONPATH, "COLUMNS": "80", "NO_COLOR": "1"}


@contextmanager
def simulator(*flags: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "kafkasim", *flags]
    with subprocess.Popen(command, env=ENVIRONMENT, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process: "subprocess.Popen[str]", request: str) -> dict[str, object]:
    """Send a request to the simulator's standard input. Returns its answer."""
    assert process.stdin is not None
    process.stdin.write(request + "\n")
    process.stdin.flush()
    return heard(process)


def heard(process: "subprocess.Popen[str]") -> dict[str, object]:
    """The next line that the simulator writes: at first its greeting, then the answer to each request."""
    assert process.stdout is not None
    answer: dict[str, object] = json.loads(process.stdout.readline())
    return answer


def test_the_simulator_announces_itself_accepts_requests_and_ends_with_sigterm() -> None:
    with simulator("--brokers", "2", "--old-broker", "2=4.0") as process:
        greeting = heard(process)
        assert greeting["simulated"] is True
        assert len(str(greeting["bootstrapServers"]).split(",")) == 2
        assert say(process, "upgrade broker 2 4.2")["done"] is True
        assert "broker 9 does not exist" in str(say(process, "stop broker 9")["error"])
        process.send_signal(signal.SIGTERM)
        assert process.communicate() == ("", "")
        assert process.returncode == 0


def test_the_simulator_ends_with_its_standard_input_on_request() -> None:
    with simulator("--brokers", "1", "--controllers", "1", "--exit-with-stdin") as process:
        heard(process)
        assert process.communicate(input="")[1] == ""
        assert process.returncode == 0


def test_the_simulator_serves_on_where_no_requests_can_be_sent() -> None:
    command = [sys.executable, "-m", "kafkasim", "--brokers", "1", "--controllers", "1", "--exit-with-stdin"]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True
    ) as process:
        assert heard(process)["simulated"] is True
        process.send_signal(signal.SIGTERM)
        assert process.communicate() == ("", "")
        assert process.returncode == 0


def test_an_impossible_cluster_is_refused_with_one_line() -> None:
    with simulator("--metadata-version", "29", "--ghost-broker", "4=4.0") as process:
        assert process.communicate() == (
            "", "kafkasim: metadata.version 29 cannot be finalized with broker 4 of Kafka 4.0 registered\n"
        )  # fmt: skip
        assert process.returncode == 64


@pytest.mark.parametrize(
    ("flags", "nodes", "metadata_version"),
    [  # by default three brokers and three controllers of Kafka 4.2, with the highest level that all of them support
        ("", 6, 29),
        ("--release 4.1", 6, 27),
        ("--nodes 1000", 1000, 29),
        ("--old-broker 2=3.9", 6, 21),
        ("--ghost-controller 3004=4.0 --ghost-broker 7=4.2", 8, 25),
        ("--old-broker 4=4.0 --metadata-version 4.1-IV1", 7, 27),
    ],
)
def test_the_flags_of_the_simulator_describe_a_cluster(flags: str, nodes: int, metadata_version: int) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    plan = plan_of(parser.parse_args(flags.split()))
    assert len(plan.nodes) == nodes
    assert plan.levels == {"metadata.version": metadata_version}
    assert {node.id for node in plan.nodes if node.role is Role.CONTROLLER} >= {3001, 3002, 3003}


def demo(*words: str) -> str:
    """The output of a demo into a pipe."""
    command = [sys.executable, "-m", "kafkafeatures", "demo", *words]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_demo_is_short_and_ends_with_commands_for_a_cluster_of_the_reader() -> None:
    text = demo()
    assert len(text.splitlines()) < 115
    refusal = "Broker 2 only supports versions 7-25"
    places = [
        " ".join(text.split()).index(words)
        for words in (
            refusal,
            "FEATURE FINALIZED",
            "GhostRegistration: broker 4",
            "Now the levels can be raised",
            "InSync: finalized",
        )
    ]
    assert places == sorted(places)
    (command,) = re.findall(r"^  (\S+) describe --bootstrap-server HOST:PORT$", text, re.MULTILINE)
    done = subprocess.run([command, "version"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done


@only_in_soak
def test_the_whole_demo_tells_its_story_piped_in_80_columns_without_colour() -> None:
    text = demo("--story", "all")
    assert "SIMULATED" in text
    assert "\x1b" not in text
    assert text.count("$ kafkafeatures plan") == 2
    for words in ("7-25", "Plan: Blocked", "UpdateFeatures share.version 1 -> 0", "was already used", "Drifted"):
        assert words in text


@pytest.mark.parametrize(
    ("code", "shows", "words"),
    [
        (Exit.BLOCKED, (), "`version` ended with 0 instead of 4"),
        (Exit.DONE, ("no such word",), "`version` does not mention no such word"),
    ],
)
def test_a_step_with_an_unexpected_result_ends_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: Exit, shows: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CommandFailed, match="the demo did not work as expected") as failed:
        Demonstration(tmp_path).run(("version",), code=code, shows=shows)
    assert words in str(failed.value)
    assert failed.value.code is Exit.FAILED
    assert "$ kafkafeatures version" in capsys.readouterr().out
