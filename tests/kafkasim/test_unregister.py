"""`kafkafeatures unregister --controller` on a simulated cluster of Kafka 4.4, from the blocked raise to its cure."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafkasim.commands import shell
from tests.kafkasim.test_process import heard, say, simulator
from tests.kafkasim.test_remedies import REMEDY, write_document


@pytest.fixture
def cluster() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """(process, servers): four controllers once, of which 3004 registered with Kafka 4.3 and is gone."""
    flags = "--release 4.4 --ghost-controller 3004=4.3 --metadata-version 30 --brokers 1"
    with simulator(*flags.split()) as process:
        yield process, str(heard(process)["bootstrapServers"])


def unregister(servers: str, controller: int, folder: Path) -> tuple[int, str]:
    done = shell(f"kafkafeatures unregister --controller {controller} --yes --bootstrap-server {servers}", folder)
    return done.returncode, done.stdout + done.stderr


def test_the_commands_of_the_blocker_remove_a_ghost_controller(
    cluster: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    process, servers = cluster
    write_document(tmp_path, servers, {"metadata.version": 33})
    blocked = shell("kafkafeatures apply -f 'our levels.yaml' 2>&1 >status", tmp_path)
    assert "start a controller with id 3004 on the new Kafka once" in blocked.stdout
    code, words = unregister(servers, 3004, tmp_path)
    assert (code, "once metadata.version 33 (4.4-IV2) is finalized" in words) == (4, True)
    assert say(process, "start controller 3004 4.4")["done"] is True
    code, words = unregister(servers, 3004, tmp_path)
    assert (code, "controller 3004 answers at" in words) == (4, True)
    assert say(process, "stop controller 3004")["done"] is True
    assert shell("kafkafeatures apply -f 'our levels.yaml'", tmp_path).returncode == 0
    found = REMEDY.search(shell(f"kafkafeatures describe --bootstrap-server {servers}", tmp_path).stdout)
    assert found is not None  # now the command alone
    one_line = " ".join(found[0].replace("\\\n", "").split())
    assert one_line == f"kafkafeatures unregister --controller 3004 --bootstrap-server {servers}"
    done = shell(f"{one_line} --yes", tmp_path)
    assert (done.returncode, done.stdout) == (0, "controller 3004 is no longer registered\n"), done
    assert "3004" not in shell(f"kafkafeatures describe --bootstrap-server {servers}", tmp_path).stdout


def test_unregister_refuses_the_active_controller_voters_and_unknown_ids(
    cluster: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    process, servers = cluster
    described = shell(f"kafkafeatures describe -o json --bootstrap-server {servers}", tmp_path).stdout
    leader = json.loads(described)["activeController"]
    voter = next(id_ for id_ in (3001, 3002, 3003) if id_ != leader)
    for controller, words in (
        (leader, f"controller {leader} is the active controller"),
        (voter, f"controller {voter} is a voter"),
        (3009, "controller 3009 is not registered"),
        (1, "controller 1 is not registered"),
    ):
        code, output = unregister(servers, controller, tmp_path)
        assert (code, words in output) == (4, True), output
    assert say(process, f"stop controller {voter}")["done"] is True
    code, output = unregister(servers, voter, tmp_path)
    assert (code, f"controller {voter} is a voter" in output) == (4, True), output
