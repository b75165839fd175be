"""The command line waits on a simulated cluster, and asks for consents and for restarts by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafkasim.commands import ENVIRONMENT, shell
from tests.kafkasim.documents import CONSENT, DOWN, PROGRAM, RAISED, document, finalized
from tests.kafkasim.test_process import heard, say, simulator


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, Any]]:
    with simulator("--release", "4.2", "--metadata-version", "25") as process:
        yield heard(process)


def apply_while(
    process: subprocess.Popen[str], folder: Path, until: str, *requests: str, flags: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Run `apply`, and send requests to the simulator once its stderr has the text `until`. Returns (exit code,
    stderr).
    """
    command = [sys.executable, "-m", "kafkafeatures", "apply", "-f", "levels.yaml", *flags]
    with subprocess.Popen(
        command, env=ENVIRONMENT, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        output = ""
        while until not in output and (line := running.stderr.readline()):
            output += line
        for request in requests:
            assert say(process, request).get("done"), request
        output += running.stderr.read()
        return running.wait(60), output


def test_apply_waits_for_an_old_broker_that_is_being_upgraded(tmp_path: Path) -> None:
    with simulator("--old-broker", "2=4.0") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        code, output = apply_while(process, tmp_path, "WaitingForNodes: broker 2", "upgrade broker 2 4.2")
    assert (code, output.count("; waiting")) == (0, 1)
    assert "InSync" in output


def test_apply_waits_for_a_quorum(tmp_path: Path) -> None:
    with simulator("--metadata-version", "25") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        for request in ("stop controller 3001", "stop controller 3002"):
            assert say(process, request)["done"]
        both = ("start controller 3001", "start controller 3002")
        code, output = apply_while(process, tmp_path, "WaitingForQuorum", *both)
    assert code == 0, output
    assert "InSync" in output


def test_apply_shows_plan_and_blockers_before_it_waits_and_ends_after_its_timeout(tmp_path: Path) -> None:
    with simulator("--old-broker", "2=4.0") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        code, output = apply_while(process, tmp_path, "WaitingForNodes", flags=("--timeout", "12s"))
    assert code == 5
    plan, blockers, wait = output.index("Plan sha256:"), output.index("\nBlockers\n"), output.index("WaitingForNodes: ")
    assert plan < blockers < wait
    assert output[blockers:wait].endswith("\n    upgrade Kafka on broker 2\n")
    assert output.count("Blockers\n") == 1
    assert "timed out" in output.splitlines()[-1]


def test_apply_after_nodes_were_too_old_for_too_long_says_how_to_wait_longer(tmp_path: Path) -> None:
    words = f"{PROGRAM} apply -f levels.yaml --timeout 3s"
    with simulator("--old-broker", "2=4.0") as process:
        path = document(tmp_path, heard(process), {"metadata.version": 29})
        body = json.loads(path.read_text())
        body["spec"]["rollout"] = {"nodeTimeout": "1s"}
        path.write_text(json.dumps(body))
        assert shell(words, tmp_path).returncode in (4, 5)
        late = shell(words, tmp_path)
        assert (late.returncode, late.stderr.splitlines()[-1]) == (
            4,
            "default/x: blocked by 1 outdated node; upgrade Kafka on broker 2, or raise spec.rollout.nodeTimeout (1 s) "
            "to wait longer; nothing was changed; see docs/runbooks/NodesBehind.md",
        )
        body["spec"]["rollout"] = {"nodeTimeout": "1h"}
        path.write_text(json.dumps(body))
        assert shell(words, tmp_path).returncode == 5


def test_apply_does_not_wait_where_an_action_is_required(tmp_path: Path) -> None:
    with simulator("--ghost-broker", "4=4.0", "--old-broker", "2=4.0") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        code, output = apply_while(process, tmp_path, "never output", flags=("--timeout", "1h"))
    assert code == 4
    assert "waiting" not in output


def test_version_names_the_known_releases_of_kafka() -> None:
    assert "knows Kafka 3.0, 3.1, 3.2, " in shell(f"{PROGRAM} version").stdout
    assert all(f" {release}" in shell(f"{PROGRAM} version").stdout for release in ("3.9,", "4.0,", "4.4\n"))


@pytest.mark.parametrize("state", ["-f levels.yaml", "-f levels.yaml --state other.yaml", "-f - < levels.yaml"])
def test_a_downgrade_by_consent_needs_a_confirmation_if_the_state_file_was_lost(tmp_path: Path, state: str) -> None:
    with simulator(*RAISED) as process:
        cluster = heard(process)
        document(tmp_path, cluster, DOWN, [CONSENT])
        assert f"it is unknown whether consent {CONSENT}" in shell(f"{PROGRAM} plan {state}", tmp_path).stdout
        for _ in range(2):  # the second time there is a state file, but it does not say whether the consent was used
            done = shell(f"{PROGRAM} apply {state}", tmp_path)
            assert done.returncode == 3
            assert f"it is unknown whether consent {CONSENT} was already used" in done.stderr
            assert "not a terminal; use --yes to skip confirmation; nothing was changed" in done.stderr
        assert finalized(cluster, "share.version") == 1
        assert shell(f"{PROGRAM} apply --yes {state}", tmp_path).returncode == 0
        assert finalized(cluster, "share.version") == 0


def test_a_downgrade_needs_no_confirmation_if_its_consent_is_newer_than_the_state_file(tmp_path: Path) -> None:
    with simulator(*RAISED) as process:
        cluster = heard(process)
        document(tmp_path, cluster, {"share.version": 1})
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        document(tmp_path, cluster, DOWN, [CONSENT])
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        assert finalized(cluster, "share.version") == 0


def test_a_consent_stays_unverified_until_it_is_removed_and_added_again(tmp_path: Path) -> None:
    with simulator(*RAISED) as process:
        cluster = heard(process)
        document(tmp_path, cluster, {"share.version": 1}, [CONSENT])  # left in Git; the state was lost
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        document(tmp_path, cluster, DOWN, [CONSENT])
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 3
        document(tmp_path, cluster, {"share.version": 1})
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        document(tmp_path, cluster, DOWN, [CONSENT])
        assert shell(f"{PROGRAM} apply -f levels.yaml", tmp_path).returncode == 0
        assert finalized(cluster, "share.version") == 0


STATEFUL_SET = {"driver": "StatefulSet", "statefulSet": {"brokers": ["orders-broker"]}}


def with_workload(folder: Path, cluster: dict[str, Any], workload: dict[str, Any]) -> Path:
    path = document(folder, cluster, {"streams.version": 0})
    body = json.loads(path.read_text())
    body["spec"]["workload"] = workload
    path.write_text(json.dumps(body))
    return path


def test_the_command_line_plans_but_does_not_apply_a_document_with_driver_stateful_set(
    cluster: dict[str, Any], tmp_path: Path
) -> None:
    with_workload(tmp_path, cluster, STATEFUL_SET)
    refused = shell(f"{PROGRAM} apply -f levels.yaml", tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (4, 1)
    assert "levels.yaml: spec.workload.driver: StatefulSet needs the operator" in refused.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["levels.yaml"]
    planned = shell(f"{PROGRAM} plan -f levels.yaml", tmp_path)
    assert planned.returncode == 0
    assert "Restarts: by the operator, of the pods of orders-broker; plan NAME shows which" in planned.stdout


def test_the_command_line_applies_a_document_with_driver_manual(cluster: dict[str, Any], tmp_path: Path) -> None:
    with_workload(tmp_path, cluster, {"driver": "Manual"})
    applied = shell(f"{PROGRAM} apply -f levels.yaml", tmp_path)
    assert applied.returncode == 0
    assert "stableFor" not in applied.stderr


def test_apply_with_driver_manual_asks_for_the_restart_of_one_node_and_waits_for_it(tmp_path: Path) -> None:
    """Broker 2 does not support the level: the person at the command line restarts it, on the newer Kafka."""
    with simulator("--release", "4.2", "--metadata-version", "25", "--old-broker", "2=4.0") as process:
        cluster = heard(process)
        path = with_workload(tmp_path, cluster, {"driver": "Manual"})
        body = json.loads(path.read_text())
        body["spec"]["features"] = {"levels": [{"name": "share.version", "level": 1}]}
        path.write_text(json.dumps(body))
        applied = shell(f"{PROGRAM} apply -f levels.yaml --yes --timeout 4s -o yaml", tmp_path)
        assert applied.returncode == 5
        warning, connection, plan, first, *lines = applied.stderr.splitlines()
        assert warning == (
            "warning: default/x: --timeout is not longer than spec.rollout.stableFor (30 s): a node that is restarted "
            "does not count as back in this run"
        )
        assert connection.endswith("; the connection is that of spec.cluster of levels.yaml")
        assert plan.startswith("Plan sha256:")
        assert first.startswith("  1. share.version 0 -> 1")
        assert [line for line in lines if not line.startswith("  ")] == [
            "RestartRequested: broker 2",
            "RollingNodes: restart broker 2 with the newer Kafka; it was not restarted yet",
            "kafkafeatures: timed out; run the command again to continue",
        ]
        assert "restart broker 2; 5 of 6 nodes are current" in applied.stdout
        assert finalized(cluster, "share.version") == 0
