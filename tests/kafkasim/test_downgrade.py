"""`kafkafeatures downgrade` on simulated clusters: each downgrade needs its consent typed, or the hash of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.kafkafeatures.terminal import PROGRAM as IN_TERMINAL
from tests.kafkafeatures.terminal import in_terminal
from tests.kafkasim.commands import shell
from tests.kafkasim.documents import PROGRAM
from tests.kafkasim.test_process import heard, simulator
from tests.kafkasim.test_upgrade import approval_of, finalized

CONSENT = "transaction.version:2->1"
QUESTION = f"Type {CONSENT} to consent: "
LOST = "The downgrade may lose metadata, which raising the level again does not restore: transaction.version 2 -> 1."


@pytest.fixture
def server() -> Iterator[str]:
    words = ("--release", "4.2", "--feature", "transaction.version=2", "--feature", "group.version=1")
    with simulator(*words) as process:
        yield str(heard(process)["bootstrapServers"])


def level(server: str) -> int:
    return finalized(server)["transaction.version"]


@pytest.mark.parametrize(("answer", "code", "reached"), [(CONSENT, 0, 1), ("y", 4, 2), ("", 4, 2), ("\x03", 130, 2)])
def test_a_downgrade_begins_once_its_consent_is_typed(server: str, answer: str, code: int, reached: int) -> None:
    words = (*IN_TERMINAL, "downgrade", "--feature", "transaction.version=1", "--bootstrap-server", server)
    done = in_terminal(words, answers=[(QUESTION, f"{answer}\n".replace("\x03\n", "\x03"))])
    assert (done.code, level(server)) == (code, reached), done.text
    assert LOST in done.text
    assert "way back to 2: raise it again; what the downgrade removed stays lost" in done.text


@pytest.mark.parametrize("flags", ["", "--yes", "--yes -o json"])
def test_without_a_terminal_only_the_hash_of_the_plan_approves_a_downgrade(server: str, flags: str) -> None:
    done = shell(f"{PROGRAM} downgrade --feature transaction.version=1 --bootstrap-server {server} {flags}")
    assert (done.returncode, level(server)) == (3, 2)
    assert LOST in done.stderr
    assert ("--yes does not approve it" in done.stderr) == bool(flags)
    approved = shell(approval_of(done.stderr)[0])
    assert (approved.returncode, level(server)) == (0, 1), approved.stderr


def test_the_dry_run_of_downgrade_prints_the_hash_and_changes_nothing(server: str) -> None:
    dry = shell(f"{PROGRAM} downgrade --feature transaction.version=1 --bootstrap-server {server} --dry-run")
    assert (dry.returncode, level(server)) == (3, 2)
    assert "already used" not in dry.stdout
    assert shell(approval_of(dry.stdout)[0]).returncode == 0
    assert level(server) == 1


def test_the_approval_of_a_downgrade_is_of_no_other_downgrade(server: str) -> None:
    words = f"{PROGRAM} downgrade --bootstrap-server {server} --feature"
    plan_hash = approval_of(shell(f"{words} transaction.version=1 --dry-run").stdout)[1]
    done = shell(f"{words} transaction.version=0 --approve {plan_hash}")
    assert (done.returncode, level(server)) == (3, 2)
    assert "the approval is for another plan" in done.stderr


def test_each_of_several_downgrades_needs_its_own_consent(server: str) -> None:
    features = ("--feature", "transaction.version=1", "--feature", "group.version=0")
    words = (*IN_TERMINAL, "downgrade", *features, "--bootstrap-server", server)
    first = ("Type group.version:1->0 to consent: ", "group.version:1->0\n")
    assert in_terminal(words, answers=[first, (QUESTION, "no\n")]).code == 4
    assert finalized(server).items() >= {"transaction.version": 2, "group.version": 1}.items()
    assert in_terminal(words, answers=[first, (QUESTION, f"{CONSENT}\n")]).code == 0
    assert finalized(server).items() >= {"transaction.version": 1, "group.version": 0}.items()


def test_the_document_saved_by_downgrade_is_in_sync_and_its_consent_is_used_up(server: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    words = f"{PROGRAM} downgrade --feature transaction.version=1 --bootstrap-server {server} --save {file}"
    done = shell(words)
    assert (done.returncode, list(tmp_path.iterdir())) == (3, [])
    done = shell(approval_of(done.stderr)[0])
    assert done.returncode == 0, done.stderr
    assert f"document written to {file}" in done.stderr
    spec = yaml.safe_load(file.read_text())["spec"]
    assert {"name": "transaction.version", "level": 1} in spec["features"]["levels"]
    assert spec["consents"] == [CONSENT]
    assert shell(f"{PROGRAM} plan -f {file} --detailed-exitcode").returncode == 0
    assert shell(f"{PROGRAM} upgrade --feature transaction.version=2 --bootstrap-server {server} --yes").returncode == 0
    assert shell(f"{PROGRAM} apply -f {file} --yes").returncode != 0
    assert level(server) == 2


@pytest.mark.parametrize(
    ("feature", "code", "message"),
    [
        (
            "group.version=2",
            4,
            "group.version is at 1: downgrade never raises; nothing was changed; to raise it: "
            "kafkafeatures upgrade --feature group.version=2 --bootstrap-server 127.0.0.1:",
        ),
        ("transactoin.version=0", 4, "unknown feature transactoin.version: no node supports it"),
        ("metadata.version=3.7", 4, "set metadata.version to 23 (4.0-IV1) or higher"),
        ("group.version", 64, "invalid feature level 'group.version': expected NAME=LEVEL"),
        ("group.version=1", 0, "InSync"),
    ],
)
def test_downgrade_refuses_what_is_no_downgrade(server: str, feature: str, code: int, message: str) -> None:
    done = shell(f"{PROGRAM} downgrade --feature {feature} --bootstrap-server {server}")
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert "way back" not in done.stderr
