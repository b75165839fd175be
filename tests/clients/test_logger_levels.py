"""`kafkafeatures clients evidence`: the request log of simulated brokers, switched and restored, whatever happens."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.cli.clients.request_logger.state import default_path
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.clients.request_logging import (
    LevelState,
    SwitchedBroker,
    gigabytes_per_hour,
    is_as_verbose,
    level_state,
    refusal,
)
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import ErrorCode
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkafeatures.kafka.requests.request_log_level import request_log_level, set_request_log_level
from kafkafeatures.kafka.wire.logger_codec import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kafkafeatures.kafka.wire.topic_messages import ConfigAnswer, DescribeConfigsRequest, DescribeConfigsResponse
from tests.clients.exporters import START, strimzi
from tests.kafkafeatures.kafka.scripted import BROKER_APIS, Cluster, Node, at
from tests.kafkasim.commands import ENVIRONMENT, shell
from tests.kafkasim.test_process import heard, say, simulator

EVIDENCE = "kafkafeatures clients evidence"
APIS = {**BROKER_APIS, 32: BROKER_APIS[18], 44: BROKER_APIS[18]}


@dataclass
class Simulated:
    """A cluster of two brokers of Kafka 3.9, and the file of this test."""

    process: subprocess.Popen[str]
    servers: str
    state: Path

    def run(self, words: str, code: Exit) -> str:
        done = shell(f"{EVIDENCE} {words} --state {self.state} --bootstrap-server {self.servers}")
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, words: str) -> subprocess.Popen[str]:
        """A command that has set the levels, and waits."""
        line = f"{EVIDENCE} start {words} --state {self.state} --bootstrap-server {self.servers}"
        process = subprocess.Popen(line.split(), env=ENVIRONMENT, stdout=-1, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        for text in process.stdout:
            if "evidence stop" in text:
                return process
        raise AssertionError("it ended")

    def crash(self, words: str) -> None:
        """A command that has set the levels, and is killed."""
        with self.start(words) as process:
            process.kill()

    def status(self) -> dict[int, tuple[str | None, str]]:
        """The level and the state of each broker."""
        text = self.run("status -o json", Exit.DONE)
        return {broker["id"]: (broker["level"], broker["state"]) for broker in json.loads(text)["brokers"]}

    def set(self, broker: int, level: str) -> None:
        """Set a level outside of the command."""
        host, port = self.servers.split(",")[broker - 1].split(":")

        async def go() -> str | Failure:
            async with Pool(ClusterSettings(), environment=SYSTEM) as pool:
                return await set_request_log_level(pool, broker, Address(host, int(port)), level)

        assert asyncio.run(go()) == level


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[subprocess.Popen[str], str]]:
    with simulator("--release", "3.9", "--brokers", "2", "--controllers", "1") as process:
        yield process, str(heard(process)["bootstrapServers"])


@pytest.fixture
def cluster(brokers: tuple[subprocess.Popen[str], str], tmp_path: Path) -> Simulated:
    return Simulated(*brokers, tmp_path / "state.json")


QUIET = {1: ("WARN", "NotSwitched"), 2: ("WARN", "NotSwitched")}
"""Status of the brokers while no level is switched."""


def test_the_level_is_restored_when_the_time_is_over(cluster: Simulated) -> None:
    text = cluster.run("start --all --level debug --for 1s", Exit.DONE)
    assert "broker 2: the request log is at DEBUG, and was at WARN" in text
    assert "broker 2: the request log is at WARN again" in text
    assert cluster.status() == QUIET
    assert not cluster.state.exists()


def test_after_a_crash_stop_restores_the_levels_in_the_state_file(cluster: Simulated) -> None:
    cluster.crash("--brokers 1 --level debug")
    assert cluster.status() == {1: ("DEBUG", "Set"), 2: ("WARN", "NotSwitched")}
    assert "still to be restored" in cluster.run("start --brokers 2 --level debug", Exit.BLOCKED)
    assert "broker 1: the request log is at WARN again" in cluster.run("stop", Exit.DONE)
    assert cluster.status() == QUIET
    assert "nothing to restore" in cluster.run("stop", Exit.DONE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_the_level_is_restored(cluster: Simulated, number: signal.Signals) -> None:
    process = cluster.start("--brokers 1 --level info")
    assert "still runs, as process" in cluster.run("stop", Exit.BLOCKED)
    process.send_signal(number)
    text, _ = process.communicate()
    assert "broker 1: the request log is at WARN again" in text
    assert process.returncode == Exit.INTERRUPTED
    assert cluster.status() == QUIET


def test_a_broker_that_restarts_has_lost_the_level_and_status_says_so(cluster: Simulated) -> None:
    cluster.crash("--brokers 1 --level debug")
    say(cluster.process, "stop broker 1")
    say(cluster.process, "start broker 1")
    assert cluster.status()[1] == ("WARN", "Restored")
    assert "DEBUG is lost: the broker has restarted" in " ".join(cluster.run("status", Exit.DONE).split())
    assert "at WARN already" in cluster.run("stop", Exit.DONE)
    assert not cluster.state.exists()


def test_a_level_that_somebody_else_changed_is_left(cluster: Simulated) -> None:
    cluster.crash("--brokers 1 --level debug")
    cluster.set(1, "TRACE")
    assert cluster.status()[1] == ("TRACE", "Changed")
    assert "neither DEBUG as set nor WARN as before" in cluster.run("stop", Exit.DONE)
    assert cluster.status()[1] == ("TRACE", "NotSwitched")
    assert "at TRACE already, and is left so" in cluster.run("start --brokers 1 --level debug", Exit.DONE)
    cluster.set(1, "WARN")


def test_a_broker_that_is_away_stays_in_the_state_file_until_stop_reaches_it(cluster: Simulated) -> None:
    cluster.crash("--all --level debug")
    say(cluster.process, "kill broker 1")
    text = cluster.run("stop", Exit.UNREACHABLE)
    assert "broker 2: the request log is at WARN again" in text
    assert "not restored: broker 1; once it is back: kafkafeatures clients evidence stop" in text
    assert [broker["id"] for broker in json.loads(cluster.state.read_text())["brokers"]] == [1]
    say(cluster.process, "start broker 1")
    cluster.run("stop", Exit.DONE)
    assert not cluster.state.exists()


def test_no_level_is_changed_if_the_earlier_levels_cannot_be_recorded(cluster: Simulated, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cluster.state = tmp_path / "file" / "state.json"
    assert "cannot be recorded" in cluster.run("start --brokers 1 --level debug", Exit.USAGE)
    cluster.state = tmp_path / "state.json"
    assert cluster.status() == QUIET


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not a RequestLogging state file"),
        ("[" * 100_000, "is not a RequestLogging state file"),
        ('{"kind": "RequestLogging", "clusterId": "x", "begin": 1, "until": 2, "brokers": []}', "is not a"),
        (
            '{"kind": "RequestLogging", "clusterId": "another", "begin": 1, "until": 2, "brokers": '
            '[{"id": 1, "before": "WARN", "level": "DEBUG", "process": ""}]}',
            "belongs to cluster another",
        ),
    ],
)  # fmt: skip
def test_another_file_or_the_state_file_of_another_cluster_is_refused(
    cluster: Simulated, content: str, words: str
) -> None:
    cluster.state.write_text(content)
    done = shell(f"{EVIDENCE} stop --state {cluster.state} --bootstrap-server {cluster.servers}")
    assert done.returncode in (Exit.USAGE, Exit.BLOCKED)
    assert words in done.stderr
    assert done.stderr.count("\n") == 2  # the first line names the cluster


def test_debug_on_several_brokers_is_refused_without_the_flag_all(cluster: Simulated) -> None:
    assert "only with --all" in cluster.run("start --brokers 1,2 --level debug", Exit.BLOCKED)
    assert cluster.status() == QUIET


def test_two_scrapes_predict_the_size_of_the_log(cluster: Simulated, tmp_path: Path) -> None:
    folder = tmp_path / "scrapes" / "1"
    folder.mkdir(parents=True)
    for minute, count in enumerate((1e6, 1e6 + 300_000)):
        (folder / f"{START // 1000 + minute * 60}.prom").write_text(
            strimzi({("ApiVersions", 3): 9.0, ("Fetch", 11): count})
        )
    # 300,000 requests a minute, with lines of 1200 to 1600 bytes.
    text = cluster.run(f"start --all --level debug --for 1s --scrapes {folder.parent}", Exit.DONE)
    assert "broker 1: expect 21.6 to 28.8 GB an hour, for 5,000 requests a second" in text
    assert "broker 2: how much it will log is not known: 1.2 to 1.6 kB for each request" in text


def test_info_is_refused_where_it_logs_nothing(tmp_path: Path) -> None:
    with simulator("--release", "4.2", "--brokers", "1", "--controllers", "1") as process:
        cluster = Simulated(process, str(heard(process)["bootstrapServers"]), tmp_path / "state.json")
        text = cluster.run("start --brokers 1 --level info", Exit.BLOCKED)
        assert "broker 1 runs Kafka 4.0 or newer, which logs nothing at INFO" in text
        assert "is not registered; the cluster has 1" in cluster.run("start --brokers 7 --level debug", Exit.USAGE)


@pytest.mark.parametrize(
    "words",
    [
        "", "begin", "start status", "start --level debug", "start --brokers 1", "start --all --brokers 1 --level info",
        "start --brokers 1, --level info", "start --brokers 1 --level info --for 0s", "stop -o json",
        "stop --release 4.1", "stop --brokers 1", "status --for 2h", "status --all",
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_a_connection_is_made(words: str) -> None:
    """Nothing listens at the address: after an attempt to connect, the exit code would be another one."""
    done = shell(f"{EVIDENCE} {words} --bootstrap-server 127.0.0.1:1")
    assert (done.returncode, done.stderr.count("\n")) == (Exit.USAGE, 1), done.stderr


# --- what a broker answers ---


async def test_a_missing_right_is_named_with_the_command_that_grants_it() -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answers: dict[type, Any] = {
        DescribeConfigsRequest: DescribeConfigsResponse(
            {"1": ConfigAnswer(denied, "Cluster authorization failed.", {})}
        ),
        IncrementalAlterConfigsRequest: IncrementalAlterConfigsResponse(denied, "Cluster authorization failed."),
    }
    cluster = Cluster({at(1): Node(APIS, answers)})
    async with cluster.pool(ClusterSettings(bootstrap_servers=(at(1),))) as pool:
        for failure, operation in (
            (await request_log_level(pool, 1, at(1)), "DescribeConfigs"),
            (await set_request_log_level(pool, 1, at(1), "DEBUG"), "AlterConfigs"),
        ):
            assert isinstance(failure, Failure)
            assert failure.kind is FailureKind.AUTHORIZATION
            assert f"--add --allow-principal User:ANONYMOUS --operation {operation} --cluster" in failure.remedy


async def test_another_broker_at_the_address_is_a_failure_and_not_its_level() -> None:
    text = "Unexpected broker id, expected 2, but received 1"
    answers: dict[type, Any] = {
        DescribeConfigsRequest: DescribeConfigsResponse({"1": ConfigAnswer(ErrorCode.INVALID_REQUEST, text, {})})
    }
    cluster = Cluster({at(1): Node(APIS, answers)})
    async with cluster.pool(ClusterSettings()) as pool:
        failure = await request_log_level(pool, 1, at(1))
    assert isinstance(failure, Failure)
    assert text in failure.message


# --- decisions ---


@pytest.mark.parametrize(
    ("level", "state"),
    [("DEBUG", LevelState.SET), ("WARN", LevelState.RESTORED), ("OFF", LevelState.CHANGED)],
)  # fmt: skip
def test_the_current_level_of_a_switched_log_tells_whether_it_is_set_restored_or_changed(
    level: str, state: LevelState
) -> None:
    """The level was WARN, and was set to DEBUG. `level`: the current one."""
    assert level_state(SwitchedBroker(1, "WARN", "DEBUG"), level) is state


def test_a_level_that_cannot_be_set_again_is_not_changed() -> None:
    assert refusal("DEBUG", {1: "WARN"}, refusing=[], is_for_all=False) == ""
    assert not is_as_verbose("OFF", "INFO")  # so it would have to be changed
    assert "OFF, which cannot be set again" in refusal("DEBUG", {1: "OFF"}, refusing=[], is_for_all=False)


def test_five_thousand_requests_per_second_are_logged_in_half_a_terabyte_or_more_per_day() -> None:
    """Per day: 518 GB of the smaller lines (1200 bytes), 691 GB of the larger (1600 bytes)."""
    smaller, larger = gigabytes_per_hour(5000)
    assert (round(smaller * 24), round(larger * 24)) == (518, 691)


@pytest.mark.parametrize("cluster_id", ["../../etc/passwd", "", "a" * 65, "a/b"])
def test_a_cluster_id_that_is_no_file_name_needs_a_named_file(cluster_id: str) -> None:
    with pytest.raises(CommandFailed, match="--state"):
        default_path(cluster_id)


def test_the_file_is_named_by_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert str(default_path("abc_-1")) == "/state/kafkafeatures/request-logging-abc_-1.json"
