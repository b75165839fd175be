"""`kafkafeatures upgrade` on simulated clusters: plan, question and apply without a document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.kafkafeatures.terminal import PROGRAM as IN_TERMINAL
from tests.kafkafeatures.terminal import in_terminal
from tests.kafkasim.commands import shell
from tests.kafkasim.documents import PROGRAM
from tests.kafkasim.test_process import heard, simulator

RELEASE = "4.2"
REACHED = {"metadata.version": 29, "group.version": 1, "share.version": 1, "streams.version": 1}


@pytest.fixture
def server() -> Iterator[str]:
    with simulator("--release", RELEASE, "--metadata-version", "25", "--feature", "share.version=1") as process:
        yield str(heard(process)["bootstrapServers"])


def finalized(server: str) -> dict[str, int]:
    found = json.loads(shell(f"{PROGRAM} describe --bootstrap-server {server} -o json").stdout)
    return {one["name"]: one["finalized"] for one in found["features"]}


def test_for_scripts_it_raises_every_level_of_the_release_and_prints_the_status(server: str) -> None:
    done = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server} --yes -o json")
    assert done.returncode == 0, done.stderr
    assert "UpdateFeatures metadata.version 25 -> 29: Applied" in done.stderr
    assert json.loads(done.stdout)["status"]["metadataVersion"] == "4.2-IV1"
    assert finalized(server).items() >= REACHED.items()
    again = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server} --yes -o json")
    assert (again.returncode, "Applied" in again.stderr) == (0, False)


def test_a_level_that_is_higher_than_that_of_the_release_stays(server: str) -> None:
    done = shell(f"{PROGRAM} upgrade --release 3.9 --bootstrap-server {server} --yes")
    assert done.returncode == 0, done.stderr
    first = "metadata.version is at 25 (4.0-IV3), above 21 (3.9-IV0) of Kafka 3.9: upgrade never downgrades"
    assert done.stderr.splitlines()[0] == first
    assert finalized(server)["metadata.version"] == 25


def test_without_a_terminal_it_asks_for_a_yes_and_a_dry_run_needs_none(server: str) -> None:
    words = f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server}"
    done = shell(words)
    assert (done.returncode, "not a terminal; use --yes to skip confirmation" in done.stderr) == (64, True)
    dry = shell(f"{words} --dry-run")
    assert dry.returncode == 0
    assert "1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)" in dry.stdout
    assert finalized(server)["metadata.version"] == 25


@pytest.mark.parametrize(("answer", "code", "level"), [("y\n", 0, 29), ("n\n", 4, 25)])
def test_on_a_terminal_it_shows_the_plan_and_asks(server: str, answer: str, code: int, level: int) -> None:
    words = (*IN_TERMINAL, "upgrade", "--release", RELEASE, "--bootstrap-server", server)
    done = in_terminal(words, answers=[("Apply this plan? [y/N] ", answer)])
    assert done.code == code
    assert "1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)" in done.text
    assert done.text.endswith("default/kafka: InSync" if code == 0 else "not confirmed; nothing was changed")
    assert finalized(server)["metadata.version"] == level


def test_the_document_that_is_saved_is_in_sync_with_what_was_done(server: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    words = f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server} --yes --name orders --save {file}"
    done = shell(words)
    assert done.returncode == 0, done.stderr
    assert f"document written to {file}" in done.stderr
    saved = yaml.safe_load(file.read_text())
    assert {"name": "metadata.version", "level": "4.2-IV1"} in saved["spec"]["features"]["levels"]
    assert saved["metadata"]["name"] == "orders"
    assert shell(f"{PROGRAM} plan -f {file} --detailed-exitcode").returncode == 0
    assert file.with_suffix(".status.yaml").exists()
    again = shell(words)
    assert (again.returncode, f"{file} exists already; use apply -f {file}" in again.stderr) == (64, True)


@pytest.mark.parametrize(("answer", "code"), [("n\n", 4), ("\x03", 130)])
def test_after_a_no_nothing_is_left_and_the_same_command_asks_again(
    server: str, tmp_path: Path, answer: str, code: int
) -> None:
    file = tmp_path / "orders.yaml"
    words = (*IN_TERMINAL, "upgrade", "--release", RELEASE, "--bootstrap-server", server, "--save", str(file))
    done = in_terminal(words, answers=[("Apply this plan? [y/N] ", answer)])
    assert (done.code, "document written" in done.text, list(tmp_path.iterdir())) == (code, False, [])
    done = in_terminal(words, answers=[("Apply this plan? [y/N] ", "y\n")])
    assert done.code == 0
    assert f"document written to {file}" in "".join(done.lines)
    assert {one.name for one in tmp_path.iterdir()} == {file.name, "orders.status.yaml", "orders.status.yaml.lock"}


def test_a_release_for_which_a_node_is_too_old_is_blocked_and_nothing_is_sent() -> None:
    with simulator("--release", RELEASE, "--old-broker", "2=4.0", "--metadata-version", "25") as process:
        server = str(heard(process)["bootstrapServers"])
        done = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server} --yes --timeout 1s")
        assert done.returncode == 5
        assert "upgrade Kafka on broker 2" in done.stderr
        assert finalized(server)["metadata.version"] == 25
