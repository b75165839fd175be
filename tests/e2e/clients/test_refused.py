"""The request log of real brokers, switched and restored; clients that a broker of Kafka 4.x refuses, by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clients.conftest import DEADLINE, one_node
from tests.e2e.clients.log4j2 import log4j2_flags
from tests.e2e.clients.old_clients import CLIENTS
from tests.e2e.rig.asking import listed_brokers
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, OLD
from tests.started import PYTHONPATH

PROGRAM = (sys.executable, "-m", "kafkafeatures", "clients")
ENVIRONMENT = {**os.environ, "PYTHONPATH": PYTHONPATH}
OLD_CLIENT = "java-0.10.2.2"


@dataclass
class Switch:
    """`clients evidence` of one cluster."""

    cluster: Cluster
    state: Path

    def words(self, step: str, *more: str) -> list[str]:
        connection = ("--bootstrap-server", self.cluster.bootstrap_servers, "--state", str(self.state))
        return [*PROGRAM, "evidence", step, *connection, *more]

    def run(self, step: str, *more: str) -> str:
        done = subprocess.run(
            self.words(step, *more), env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self) -> subprocess.Popen[str]:
        """The command, once the level is DEBUG."""
        words = self.words("start", "--brokers", "1", "--level", "debug")
        process = subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for text in process.stdout:
            if "evidence stop" in text:
                return process
        with process:
            raise AssertionError("it ended")

    def crash(self) -> None:
        """The level is DEBUG, and the command that set it is gone."""
        with self.start() as process:
            process.kill()

    def status(self) -> tuple[str, str]:
        (broker,) = json.loads(self.run("status", "-o", "json"))["brokers"]
        return broker["level"], broker["state"]

    def logged(self) -> int:
        return self.cluster.brokers[0].log.count(" DEBUG Completed request:")


@pytest.fixture(scope="module")
def switch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    folder = tmp_path_factory.mktemp("switch")
    cluster = one_node(folder / "c", request.param)
    if request.param != OLD:
        cluster.jvm += log4j2_flags(request.param, folder)
    with cluster:
        yield Switch(cluster, folder / "state.json")


def refused_by(cluster: Cluster) -> list[dict[str, Any]]:
    """What the broker refused, by its log, which has the lines of both loggers."""
    log = str(cluster.brokers[0].log_file)
    words = [*PROGRAM, "rejected", log, "--request-logs", log, "-o", "json"]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rejected"]
    assert done.returncode == 4, done.stderr
    return rows


ON_BOTH, ON_OLD, ON_4 = (
    pytest.mark.parametrize("switch", releases, indirect=True, scope="module")
    for releases in ([OLD, MIDDLE], [OLD], [MIDDLE])
)


@ON_BOTH
def test_requests_are_logged_until_stop_restores_the_level_after_a_crash(switch: Switch) -> None:
    level, _ = switch.status()
    process = switch.start()
    port = switch.cluster.brokers[0].port
    wait_until("requests are logged", lambda: bool(listed_brokers(port)) and switch.logged() > 0)
    with process:
        process.kill()
    assert switch.status() == ("DEBUG", "Set")
    assert f"broker 1: the request log is at {level} again" in switch.run("stop")
    assert switch.status() == (level, "NotSwitched")
    assert not switch.state.exists()


@ON_4
def test_a_client_that_is_refused_is_named_by_its_connection(switch: Switch) -> None:
    switch.crash()
    process = CLIENTS[OLD_CLIENT]().start(switch.cluster.bootstrap_servers, OLD_CLIENT)
    process.communicate(timeout=DEADLINE)
    switch.run("stop")
    rows = refused_by(switch.cluster)
    assert {(row["address"], row["api"], row["version"]) for row in rows} == {("127.0.0.1", "Produce", 2)}
    client = rows[0]["clients"][0]
    assert (client["clientId"], client["principal"], client["join"]) == (OLD_CLIENT, "User:ANONYMOUS", "Connection")


@ON_OLD
def test_a_broker_that_restarts_has_lost_the_level(switch: Switch) -> None:
    level, _ = switch.status()
    switch.crash()
    broker = switch.cluster.brokers[0]
    broker.kill()
    broker.start()
    switch.cluster.wait_ready()
    assert switch.status() == (level, "Restored")
    assert f"at {level} already" in switch.run("stop")
