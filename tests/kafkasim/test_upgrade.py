"""`kafkafeatures upgrade` on simulated clusters: plan, question and apply without a document."""

from __future__ import annotations

import json
import re
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


FLAGS = ("--release", RELEASE, "--metadata-version", "25", "--feature", "share.version=1")


@pytest.fixture
def server() -> Iterator[str]:
    with simulator(*FLAGS) as process:
        yield str(heard(process)["bootstrapServers"])


@pytest.fixture(scope="module")
def unchanged() -> Iterator[str]:
    """The server of all tests after which its levels are those of before."""
    with simulator(*FLAGS) as process:
        server = str(heard(process)["bootstrapServers"])
        before = finalized(server)
        yield server
        assert finalized(server) == before


def finalized(server: str) -> dict[str, int]:
    found = json.loads(shell(f"{PROGRAM} describe --bootstrap-server {server} -o json").stdout)
    return {one["name"]: one["finalized"] for one in found["features"]}


def test_upgrade_with_yes_raises_every_level_of_the_release_and_prints_the_status(server: str) -> None:
    done = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server} --yes -o json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == f"cluster at {server}"
    assert done.stderr.splitlines()[2] == "  1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)"
    assert "UpdateFeatures metadata.version 25 -> 29: Applied" in done.stderr
    assert json.loads(done.stdout)["status"]["metadataVersion"] == "4.2-IV1"
    assert finalized(server).items() >= REACHED.items()
    second = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server} --yes -o json")
    assert (second.returncode, "Applied" in second.stderr) == (0, False)


def test_upgrade_raises_only_the_features_that_are_named(server: str) -> None:
    words = f"{PROGRAM} upgrade --feature group.version=1 --feature metadata.version=4.1 --bootstrap-server {server}"
    done = shell(f"{words} --yes")
    assert done.returncode == 0, done.stderr
    levels = finalized(server)
    assert (levels["group.version"], levels["metadata.version"], levels["streams.version"]) == (1, 27, 0)


@pytest.mark.parametrize(
    ("feature", "code", "message"),
    [
        ("share.version=0", 4, "share.version is at 1: upgrade never downgrades; nothing was changed; to go back: "
         "kafkafeatures downgrade --feature share.version=0 --bootstrap-server 127.0.0.1:"),
        ("share.versoin=1", 4, "unknown feature share.versoin: no node supports it"),
        ("share.version", 64, "invalid feature level 'share.version': expected NAME=LEVEL"),
        ("share.version=many", 64, "invalid level 'many' of share.version: expected a number from 0 to 32767;"),
        ("share.version=99999", 64, "invalid level '99999' of share.version"),
        ("metadata.version=5.x", 64, "or a name such as 4.1-IV1"),
        ("share.version=1 --feature share.version=2", 64, "--feature share.version is given twice"),
        ("share.version=1 --release 4.2", 64, "not allowed with argument --feature"),
    ],
)  # fmt: skip
def test_upgrade_refuses_a_feature_that_it_cannot_raise(unchanged: str, feature: str, code: int, message: str) -> None:
    done = shell(f"{PROGRAM} upgrade --feature {feature} --bootstrap-server {unchanged} --yes")
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize("flag", ["-y", "--auto-approve", "-auto-approve"])
def test_a_flag_of_other_tools_that_skips_confirmation_is_answered(flag: str) -> None:
    done = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server 127.0.0.1:1 {flag}")
    assert (done.returncode, f"unknown flag {flag}: use --yes to skip confirmation" in done.stderr) == (64, True)


def test_a_dynamic_quorum_needs_its_consent_typed_in_a_terminal(server: str) -> None:
    words = (*IN_TERMINAL, "upgrade", "--feature", "kraft.version=1", "--bootstrap-server", server)
    done = in_terminal(words, answers=[("Type dynamic-quorum to consent: ", "yes\n")])
    assert (done.code, finalized(server)["kraft.version"]) == (4, 0)
    done = in_terminal(words, answers=[("Type dynamic-quorum to consent: ", "dynamic-quorum\n")])
    assert (done.code, finalized(server)["kraft.version"]) == (0, 1)


def test_upgrade_keeps_a_level_that_is_higher_than_that_of_the_release(unchanged: str) -> None:
    done = shell(f"{PROGRAM} upgrade --release 3.9 --bootstrap-server {unchanged} --yes")
    assert done.returncode == 0, done.stderr
    first = "metadata.version is at 25 (4.0-IV3), above 21 (3.9-IV0) of Kafka 3.9: upgrade never downgrades"
    assert done.stderr.splitlines()[1] == first
    assert finalized(unchanged)["metadata.version"] == 25


def test_upgrade_without_a_terminal_shows_the_plan_and_needs_a_confirmation(server: str, tmp_path: Path) -> None:
    words = f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server}"
    done = shell(f"{words} --save levels.yaml", tmp_path)
    _, plan, step, *_, refusal = done.stderr.splitlines()
    assert step == "  1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)"
    approve = f"--approve {plan.split()[1]}"
    assert refusal == (
        f"kafkafeatures: not a terminal; use --yes to skip confirmation, {approve} for this plan alone, or --dry-run "
        "to only see it; nothing was changed"
    )
    assert (done.returncode, list(tmp_path.iterdir()), finalized(server)["metadata.version"]) == (3, [], 25)
    dry = shell(f"{words} --dry-run")
    assert dry.returncode == 0
    assert "1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)" in dry.stdout
    assert finalized(server)["metadata.version"] == 25
    approved = shell(f"{words} {approve}")
    assert (approved.returncode, finalized(server)["metadata.version"]) == (0, 29)
    assert shell(words).returncode == 0  # nothing is left to confirm


def test_upgrade_without_a_confirmation_does_not_wait_for_an_old_node() -> None:
    with simulator("--release", RELEASE, "--metadata-version", "25", "--old-broker", "2=4.0") as process:
        server = heard(process)["bootstrapServers"]
        done = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server} --timeout 1h")
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1].endswith(": blocked by 1 outdated node; nothing was changed")


@pytest.mark.parametrize(("answer", "code", "level"), [("y\n", 0, 29), ("n\n", 4, 25)])
def test_upgrade_in_a_terminal_shows_the_plan_and_asks(server: str, answer: str, code: int, level: int) -> None:
    words = (*IN_TERMINAL, "upgrade", "--release", RELEASE, "--bootstrap-server", server)
    done = in_terminal(words, answers=[("Apply this plan? [y/N] ", answer)])
    assert done.code == code
    assert "1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)" in done.text
    assert done.text.endswith(": InSync" if code == 0 else "not confirmed; nothing was changed")
    assert finalized(server)["metadata.version"] == level


def test_the_document_saved_by_upgrade_is_in_sync_with_the_cluster(server: str, tmp_path: Path) -> None:
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
    second = shell(words)
    assert (second.returncode, f"{file} exists already; use apply -f {file}" in second.stderr) == (64, True)


@pytest.mark.parametrize(("answer", "code"), [("n\n", 4), ("\x03", 130)])
def test_a_declined_upgrade_leaves_no_file_and_asks_again(server: str, tmp_path: Path, answer: str, code: int) -> None:
    file = tmp_path / "orders.yaml"
    words = (*IN_TERMINAL, "upgrade", "--release", RELEASE, "--bootstrap-server", server, "--save", str(file))
    done = in_terminal(words, answers=[("Apply this plan? [y/N] ", answer)])
    assert (done.code, "document written" in done.text, list(tmp_path.iterdir())) == (code, False, [])
    done = in_terminal(words, answers=[("Apply this plan? [y/N] ", "y\n")])
    assert done.code == 0
    assert f"document written to {file}" in "".join(done.lines)
    assert {one.name for one in tmp_path.iterdir()} == {file.name, "orders.status.yaml", "orders.status.yaml.lock"}


def test_upgrade_sends_nothing_if_a_node_is_too_old_for_the_release() -> None:
    with simulator("--release", RELEASE, "--old-broker", "2=4.0", "--metadata-version", "25") as process:
        server = str(heard(process)["bootstrapServers"])
        done = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {server} --yes --timeout 5s")
        assert done.returncode == 5
        assert "upgrade Kafka on broker 2" in done.stderr
        assert finalized(server)["metadata.version"] == 25


@pytest.fixture
def older() -> Iterator[str]:
    """Kafka changed its metadata between these levels and those of the release: to raise them is irreversible."""
    with simulator("--release", RELEASE, "--metadata-version", "21") as process:
        yield str(heard(process)["bootstrapServers"])


IRREVERSIBLE = "1. metadata.version 21 (3.9-IV0) -> 29 (4.2-IV1)  irreversible"
TO_APPROVE = re.compile(
    r"[Tt]o approve: (kafkafeatures (?:up|down)grade .* --approve (sha256:[0-9a-f]{12}))$", re.MULTILINE
)


def approval_of(text: str) -> tuple[str, str]:
    """The command line that is to be copied, and the hash in it."""
    found = TO_APPROVE.search(text)
    assert found, text
    return found[1].replace("kafkafeatures", PROGRAM, 1), found[2]


@pytest.mark.parametrize("flags", ["--yes", "--yes -o json", "--yes --timeout 30s"])
def test_upgrade_with_yes_shows_irreversible_changes_and_does_not_approve_them(older: str, flags: str) -> None:
    done = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {older} {flags}")
    assert done.returncode == 3, done.stderr
    assert IRREVERSIBLE in done.stderr
    assert "nothing was changed" in done.stderr
    assert finalized(older)["metadata.version"] == 21
    approved = shell(approval_of(done.stderr)[0])
    assert approved.returncode == 0, approved.stderr
    assert IRREVERSIBLE in approved.stderr
    assert finalized(older)["metadata.version"] == 29


def test_the_dry_run_of_upgrade_prints_the_hash_that_approves_irreversible_changes(older: str) -> None:
    words = f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {older}"
    dry = shell(f"{words} --dry-run")
    assert (dry.returncode, IRREVERSIBLE in dry.stdout) == (3, True)
    approved = shell(f"{words} --approve {approval_of(dry.stdout)[1]}")
    assert approved.returncode == 0, approved.stderr
    assert finalized(older)["metadata.version"] == 29


def test_upgrade_with_the_approval_of_another_plan_changes_nothing(older: str, tmp_path: Path) -> None:
    words = f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {older} --yes --save {tmp_path / 'a.yaml'}"
    other = approval_of(shell(f"{PROGRAM} upgrade --release 4.1 --bootstrap-server {older} --dry-run").stdout)[1]
    for hash_ in (other, "sha256:0000000000000000"):
        done = shell(f"{words} --approve {hash_}")
        assert (done.returncode, IRREVERSIBLE in done.stderr) == (3, True)
        assert finalized(older)["metadata.version"] == 21
        assert list(tmp_path.iterdir()) == []


def test_a_plan_that_changed_since_its_dry_run_needs_a_new_approval(older: str) -> None:
    words = f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {older}"
    before = approval_of(shell(f"{words} --dry-run").stdout)[1]
    command, _ = approval_of(shell(f"{PROGRAM} upgrade --release 4.0 --bootstrap-server {older} --dry-run").stdout)
    assert shell(command).returncode == 0
    done = shell(f"{words} --approve {before}")
    assert (done.returncode, "the approval is for another plan" in done.stderr) == (3, True)
    assert finalized(older)["metadata.version"] == 25


def test_a_refused_upgrade_saves_no_document(older: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    done = shell(f"{PROGRAM} upgrade --release {RELEASE} --bootstrap-server {older} --yes --save {file}")
    assert (done.returncode, list(tmp_path.iterdir())) == (3, [])
    approved = shell(approval_of(done.stderr)[0])
    assert approved.returncode == 0, approved.stderr
    assert file.exists()


def test_a_blocked_upgrade_saves_no_document(older: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    done = shell(f"{PROGRAM} upgrade --feature foo.version=1 --bootstrap-server {older} --yes --save {file}")
    assert (done.returncode, list(tmp_path.iterdir())) == (4, [])


def test_a_yes_from_a_pipe_does_not_approve_an_irreversible_step(older: str) -> None:
    done = shell(f"yes | {PROGRAM} upgrade --release {RELEASE} --bootstrap-server {older}")
    assert (done.returncode, "a plan is waiting for approval; to approve: " in done.stderr) == (3, True)
    assert finalized(older)["metadata.version"] == 21


@pytest.mark.parametrize(
    ("flags", "answer", "code", "level"), [((), "y\n", 0, 29), ((), "n\n", 4, 21), (("--yes",), "", 3, 21)]
)
def test_irreversible_changes_of_upgrade_can_be_approved_in_a_terminal(
    older: str, flags: tuple[str, ...], answer: str, code: int, level: int
) -> None:
    words = (*IN_TERMINAL, "upgrade", "--release", RELEASE, "--bootstrap-server", older, *flags)
    done = in_terminal(words, answers=[("Approve and apply? [y/N] ", answer)] if answer else [], columns=120)
    assert done.code == code, done.text
    assert IRREVERSIBLE.replace("  ", " ") in done.text
    assert finalized(older)["metadata.version"] == level
