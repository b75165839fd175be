"""`kafkafeatures check` on simulated clusters: exit codes for scripts, words for people, JUnit for CI servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from tests.kafkasim.commands import shell
from tests.kafkasim.documents import PROGRAM
from tests.kafkasim.test_process import heard, simulator

MIXED = ("--release", "4.2", "--old-broker", "2=4.0", "--ghost-broker", "4=4.0", "--metadata-version", "25")


@pytest.fixture(scope="module")
def healthy() -> Iterator[str]:
    with simulator("--release", "4.2", "--metadata-version", "25") as process:
        yield str(heard(process)["bootstrapServers"])


@pytest.fixture(scope="module")
def mixed() -> Iterator[str]:
    with simulator(*MIXED) as process:
        yield str(heard(process)["bootstrapServers"])


def test_a_healthy_cluster_that_can_go_to_a_release_is_ready(healthy: str) -> None:
    done = shell(f"{PROGRAM} check --bootstrap-server {healthy} --release 4.2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "Ready: 6 nodes healthy, and ready for Kafka 4.2\n"
        "  5 other features can be raised: eligible.leader.replicas.version 0 -> 1,\n"
        "    group.version 0 -> 1, share.version 0 -> 1, streams.version 0 -> 1,\n"
        "    transaction.version 0 -> 2\n"
    )


def test_a_healthy_cluster_is_blocked_for_a_release_whose_level_no_node_supports(healthy: str) -> None:
    done = shell(f"{PROGRAM} check --bootstrap-server {healthy} --release 4.4")
    assert done.returncode == 4
    assert done.stdout.startswith("Blocked\n")
    assert "metadata.version 33" in done.stdout
    assert shell(f"{PROGRAM} check --bootstrap-server {healthy}").returncode == 0


def test_check_lists_an_old_broker_and_a_ghost_registration_with_their_remedies(mixed: str) -> None:
    done = shell(f"{PROGRAM} check --bootstrap-server {mixed} --release 4.2 -o json")
    assert done.returncode == 4
    report = json.loads(done.stdout)
    assert (report["kind"], report["release"], report["verdict"]) == ("Check", "4.2", "Blocked")
    kinds = {(one["kind"], tuple(node["id"] for node in one["nodes"])) for one in report["blockers"]}
    assert {("GhostRegistration", (4,)), ("NodeRange", (2,))} <= kinds
    assert all(one["remedy"] for one in report["blockers"])
    levels = {(one["feature"], one["wanted"]) for one in report["blockers"] if one["kind"] == "GhostRegistration"}
    assert levels == {("metadata.version", 29), ("share.version", 1), ("streams.version", 1)}
    text = shell(f"{PROGRAM} check --bootstrap-server {mixed} --release 4.2").stdout
    assert "  GhostRegistration: broker 4, Kafka 4.0; registered, but not running\n    metadata.version 7-25 " in text
    assert text.count("broker 4, Kafka 4.0") == text.count("GhostRegistration") == 1


def test_check_without_a_release_reports_only_blockers_of_health(mixed: str) -> None:
    report = json.loads(shell(f"{PROGRAM} check --bootstrap-server {mixed} -o json").stdout)
    assert [(one["kind"], one["feature"], one["wanted"]) for one in report["blockers"]] == [
        ("GhostRegistration", None, None)
    ]


def test_a_ghost_that_is_only_down_is_to_be_started_on_the_new_kafka_only_if_there_is_one(mixed: str) -> None:
    words = f"{PROGRAM} check --bootstrap-server {mixed}"
    assert shell(words).stdout.endswith("\n    otherwise start it\n")
    assert "\n    otherwise start it on the new Kafka\n" in shell(f"{words} --release 4.2").stdout


def test_check_writes_one_junit_case_for_each_node(mixed: str) -> None:
    done = shell(f"{PROGRAM} check --bootstrap-server {mixed} --release 4.2 -o junit")
    suite = ElementTree.fromstring(done.stdout)
    failed = {case.get("name") for case in suite if case.find("failure") is not None}
    assert failed == {"broker 2", "broker 4"}
    # Three brokers, three controllers and the ghost; and a case for the cluster.
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("8", "2", "0")


def test_an_unknown_release_is_a_wrong_flag(healthy: str) -> None:
    done = shell(f"{PROGRAM} check --bootstrap-server {healthy} --release 9.9")
    assert done.returncode == 64
    assert "release '9.9' is not known to this version" in done.stderr


# --- rights ---


def test_all_rights_are_granted_without_an_authorizer_and_a_ghost_is_not_asked(healthy: str, mixed: str) -> None:
    for servers in (healthy, mixed):
        done = shell(f"{PROGRAM} check --rights --bootstrap-server {servers}")
        assert done.stdout.startswith(
            "Granted: rights of User:ANONYMOUS for mode levels: 4 granted\n"
            "Authorizer: none: every user may do everything\n\nKafka\n  granted    DESCRIBE on the cluster: "
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_no_line_of_check_rights_is_wider_than_the_terminal(healthy: str) -> None:
    done = shell(f"{PROGRAM} check --rights --mode ibp --driver Manual --bootstrap-server {healthy}")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\nZooKeeper\n  not needed READ on all znodes: " in done.stdout


def test_unknown_rights_in_kubernetes_end_check_rights_with_an_error_code(healthy: str) -> None:
    flags = f"--driver StatefulSet --kubeconfig /nowhere --bootstrap-server {healthy}"
    done = shell(f"{PROGRAM} check --rights {flags} -o json")
    assert done.returncode == 5
    rights = [right for right in json.loads(done.stdout)["rights"] if right["system"] == "Kubernetes"]
    assert [(right["right"], right["on"]) for right in rights] == [
        ("get", "statefulsets.apps"), ("list", "pods"), ("list", "poddisruptionbudgets.policy"),
        ("create", "pods/eviction"),
    ]  # fmt: skip
    assert {right["state"] for right in rights} == {"Unknown"}
    assert all("kubeconfig /nowhere does not exist" in right["message"] for right in rights)


def test_check_rights_writes_one_junit_case_for_each_right(healthy: str) -> None:
    done = shell(f"{PROGRAM} check --rights --driver StatefulSet --kubeconfig /n --bootstrap-server {healthy} -o junit")
    suite = ElementTree.fromstring(done.stdout)
    # Six rights in Kafka, and four in Kubernetes, which are unknown without the kubeconfig.
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("10", "0", "4")
