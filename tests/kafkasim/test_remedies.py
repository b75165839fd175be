"""Remedies are commands to be copied: each is taken from the output of a command, and run unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kafkafeatures.core.engine.remedies import cluster_flags
from tests.kafkasim.commands import in_bash, shell
from tests.kafkasim.test_process import heard, simulator

REMEDY = re.compile(r"kafkafeatures (unregister|apply) (\\\n|[^;\n])+")
"""A command in the output, also one that a backslash continues on the next line."""


@pytest.fixture
def servers() -> Iterator[str]:
    with simulator("--release", "4.2", "--metadata-version", "25", "--ghost-broker", "7=4.0") as process:
        yield str(heard(process)["bootstrapServers"])


def write_document(folder: Path, servers: str, levels: dict[str, int]) -> None:
    spec = {
        "cluster": {"bootstrapServers": servers},
        "features": {"levels": [{"name": name, "level": level} for name, level in levels.items()]},
    }
    kind = {"apiVersion": "kafkafeatures.dev/v1alpha1", "kind": "KafkaFeatures", "metadata": {"name": "x"}}
    (folder / "our levels.yaml").write_text(json.dumps({**kind, "spec": spec}))


@pytest.mark.parametrize(
    "command",
    [
        "kafkafeatures describe --bootstrap-server {}",
        "kafkafeatures plan -f 'our levels.yaml'",
        "kafkafeatures apply -f 'our levels.yaml' 2>&1 >status",
    ],
)
def test_the_printed_remedy_of_a_ghost_is_a_command_that_unregisters_the_ghost(
    command: str, servers: str, tmp_path: Path
) -> None:
    write_document(tmp_path, servers, {"metadata.version": 29})
    printed = shell(command.format(servers), tmp_path)
    remedy_match = REMEDY.search(printed.stdout)
    assert remedy_match is not None, printed
    cured = in_bash(f"{remedy_match[0]} --yes", tmp_path)
    assert (cured.returncode, cured.stdout) == (0, "broker 7 is no longer registered\n"), cured
    assert shell("kafkafeatures apply -f 'our levels.yaml'", tmp_path).returncode == 0


def test_the_status_has_the_remedy_of_a_ghost_that_the_command_prints(servers: str, tmp_path: Path) -> None:
    write_document(tmp_path, servers, {"metadata.version": 29})
    shell("kafkafeatures apply -f 'our levels.yaml'", tmp_path)
    status = yaml.safe_load((tmp_path / "our levels.status.yaml").read_text())["status"]
    (remedy,) = [one["remedy"] for one in status["blockers"]]
    assert f"kafkafeatures unregister --broker 7 --bootstrap-server {servers};" in remedy


@pytest.mark.parametrize("command", ["plan -f 'our levels.yaml'", "apply -f 'our levels.yaml' 2>&1 >status"])
def test_the_printed_remedy_of_a_waiting_plan_is_a_command_that_approves_the_plan(
    command: str, servers: str, tmp_path: Path
) -> None:
    write_document(tmp_path, servers, {})
    path = tmp_path / "our levels.yaml"
    path.write_text(path.read_text().replace('"levels": []', '"releaseVersion": "4.2"'))
    assert shell(f"kafkafeatures unregister --broker 7 --yes --bootstrap-server {servers}", tmp_path).returncode == 0
    remedy_match = REMEDY.search(shell(f"kafkafeatures {command}", tmp_path).stdout)
    assert remedy_match is not None
    assert shell(remedy_match[0], tmp_path).returncode == 0
    assert "Plan: InSync" in shell("kafkafeatures plan -f 'our levels.yaml'", tmp_path).stdout


@pytest.mark.parametrize(
    ("servers", "controllers", "config", "flags"),
    [
        ("a:1, b:2", "c:3", "", "--bootstrap-server a:1,b:2"),
        ("", "c:3", "", "--bootstrap-controller c:3"),
        ("a:1", "", "my client.properties", "--bootstrap-server a:1 --config 'my client.properties'"),
        ("a:1;reboot", "", "", "--bootstrap-server 'a:1;reboot'"),
        (",".join(f"kafka-{i}.example:9092" for i in range(40)), "", "",
         "--bootstrap-server kafka-0.example:9092,kafka-1.example:9092,kafka-2.example:9092"),
    ],
    ids=["brokers, not controllers", "only controllers", "a file", "a text that a shell would run", "40 brokers"],
)  # fmt: skip
def test_the_flags_of_a_remedy_reach_the_cluster_and_fit_in_a_line(
    servers: str, controllers: str, config: str, flags: str
) -> None:
    assert cluster_flags(servers, controllers, config) == flags
