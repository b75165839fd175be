"""`plan` and the conditions under which `apply` moves levels, on real clusters: consents, approval, drift, bundles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kafka.cli import describe, levels, run
from tests.e2e.kafka.wire import meddle
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import NEWEST, OLD


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("plan"), NEWEST, release_version="4.0", controllers=3, brokers=1) as running:
        yield running


def document(path: Path, cluster: Cluster, **spec: Any) -> Path:
    """Write a document with these parts of a spec. It is JSON, which is also YAML."""
    body = {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "KafkaFeatures",
        "metadata": {"name": "orders"},
        "spec": {"cluster": {"bootstrapServers": cluster.bootstrap_servers}, **spec},
    }
    path.write_text(json.dumps(body))
    return path


def level(name: str, value: int | str) -> dict[str, Any]:
    return {"levels": [{"name": name, "level": value}]}


def plan(path: Path, *flags: str, code: int = 0) -> dict[str, Any]:
    done = run("plan", "-f", str(path), "-o", "json", *flags)
    assert done.returncode == code, done.stderr + done.stdout
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def apply(path: Path, *flags: str, code: int = 0) -> dict[str, Any]:
    done = run("apply", "-f", str(path), "-o", "json", *flags)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    status: dict[str, Any] = json.loads(done.stdout)["status"]
    return status


def reasons(status: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in status["conditions"]}


def test_a_plan_shows_its_steps_and_changes_no_level(cluster: Cluster, tmp_path: Path) -> None:
    path = document(tmp_path / "l.yaml", cluster, features=level("metadata.version", "4.1-IV1"))
    before = describe(cluster)["features"]
    computed = plan(path)
    assert (computed["verdict"], computed["generation"], computed["resource"]) == ("Changes", 1, "default/orders")
    assert computed["hash"].startswith("sha256:")
    assert [step["detail"] for step in computed["steps"]] == ["metadata.version 25 (4.0-IV3) -> 27 (4.1-IV1)"]
    assert (computed["steps"][0]["reversible"], computed["steps"][0]["undo"]) == (
        True,
        "Safe",
    )  # 26 and 27 changed no metadata
    assert computed["serverVerdict"] == {"state": "Accepted"}
    assert plan(path, "--detailed-exitcode", code=2)["hash"] == computed["hash"]
    assert describe(cluster)["features"] == before
    assert list(tmp_path.iterdir()) == [path]
    text = run("plan", "-f", str(path)).stdout
    assert "1. metadata.version 25 (4.0-IV3) -> 27 (4.1-IV1)" in text
    assert "Dry run (validateOnly) accepted by the active controller" in text
    assert "Plan: Changes" in text


def test_the_latest_levels_are_the_highest_that_all_nodes_support(cluster: Cluster, tmp_path: Path) -> None:
    path = document(tmp_path / "l.yaml", cluster)
    computed = plan(path, "--latest", code=3)  # it needs an approval: the document does not name the levels
    wanted = {one["name"]: one["desired"] for one in computed["features"] if "desired" in one}
    assert wanted["metadata.version"] == 33
    assert wanted["share.version"] == 2
    assert "kraft.version" not in wanted
    assert plan(path)["verdict"] == "InSync"


def test_a_downgrade_needs_a_consent_and_the_consent_is_used_once(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "l.yaml"
    refused = apply(document(path, cluster, features=level("transaction.version", 0)), code=4)
    assert reasons(refused)["Stalled"] == "ConsentRequired"
    assert "transaction.version:2->0" in refused["blockers"][0]["remedy"]

    consented = document(path, cluster, features=level("transaction.version", 0), consents=["transaction.version:2->0"])
    assert apply(consented)["spentConsents"] == ["transaction.version:2->0"]
    assert levels(describe(cluster))["transaction.version"] == 0

    # Git is reverted and the downgrade is committed again: the consent that remained in the document is used up.
    consents = ["transaction.version:2->0"]
    apply(document(path, cluster, features=level("transaction.version", 2), consents=consents))
    refused = apply(document(path, cluster, features=level("transaction.version", 0), consents=consents), code=4)
    assert reasons(refused)["Stalled"] == "ConsentSpent"
    assert levels(describe(cluster))["transaction.version"] == 2

    # After it was removed from the document and added again, it is a new consent.
    apply(document(path, cluster, features=level("transaction.version", 2)))
    apply(document(path, cluster, features=level("transaction.version", 0), consents=consents))
    assert levels(describe(cluster))["transaction.version"] == 0


def test_a_downgrade_that_loses_metadata_is_refused_though_it_has_a_consent(cluster: Cluster, tmp_path: Path) -> None:
    path = document(
        tmp_path / "l.yaml", cluster, features=level("metadata.version", 22), consents=["metadata.version:25->22"]
    )
    refused = apply(path, code=4)
    assert reasons(refused)["Stalled"] == "DowngradeRefused"
    assert "metadata would be lost" in refused["blockers"][0]["message"]
    assert levels(describe(cluster))["metadata.version"] == 25


def test_a_dependency_that_a_downgrade_breaks_is_named_with_its_level_beside_the_refused_downgrade(
    cluster: Cluster, tmp_path: Path
) -> None:
    """From metadata.version 25 to 22 metadata would be lost, so the consent does not allow it."""
    path = document(
        tmp_path / "l.yaml",
        cluster,
        features={
            "levels": [
                {"name": "metadata.version", "level": 22},
                {"name": "eligible.leader.replicas.version", "level": 1},
            ]
        },
        consents=["metadata.version:25->22"],
    )
    messages = {(one["kind"], one["feature"]): one["message"] for one in plan(path, code=4)["blockers"]}
    dependency, downgrade = ("Dependency", "eligible.leader.replicas.version"), ("Downgrade", "metadata.version")
    assert messages.keys() == {dependency, downgrade}
    assert "metadata.version 23" in messages[dependency]


def test_a_plan_with_computed_levels_waits_for_the_approval_of_its_own_hash(cluster: Cluster, tmp_path: Path) -> None:
    path = document(tmp_path / "l.yaml", cluster, features={"releaseVersion": "4.1"})
    computed = plan(path, code=3)
    assert computed["verdict"] == "ApprovalRequired"
    assert computed["irreversible"] is False
    assert {one["undo"] for one in computed["steps"]} == {"Safe", "Lossy"}
    waiting = apply(path, code=3)
    assert reasons(waiting)["ApprovalRequired"] == "PlanPending"
    assert "Stalled" not in reasons(waiting)
    assert waiting["plan"]["hash"] == computed["hash"]
    other = apply(path, "--approve", "sha256:00000000", code=3)
    assert reasons(other)["ApprovalRequired"] == "PlanChanged"
    assert levels(describe(cluster))["metadata.version"] == 25

    # The cluster changes, so the plan is no longer the one that was approved.
    raised = document(tmp_path / "other.yaml", cluster, features=level("metadata.version", 26))
    apply(raised)
    assert reasons(apply(path, "--approve", computed["hash"], code=3))["ApprovalRequired"] == "PlanChanged"

    now = plan(path, code=3)["hash"]
    done = apply(path, "--approve", now[:19])
    assert reasons(done)["Ready"] == "InSync"
    assert done["changeCount"] >= 2  # one approval covers the steps of its plan
    now_finalized = levels(describe(cluster))
    names = ("metadata.version", "eligible.leader.replicas.version", "group.version")
    assert [now_finalized[name] for name in names] == [27, 1, 1]
    assert now_finalized["kraft.version"] == 0  # no release bundle changes it


def test_an_approval_is_not_valid_for_a_later_repetition_of_the_same_change(cluster: Cluster, tmp_path: Path) -> None:
    """A change is approved in the document, and then made and reverted by hand. The approval is not valid for it again.

    Nor is an approval valid after the document no longer asks for the change and then asks for it again.
    """
    path, features = tmp_path / "l.yaml", level("streams.version", 1)
    always = {"drift": {"onDrift": "Correct"}, "approval": {"policy": "Always"}}
    hash_ = apply(document(path, cluster, features=features, **always), code=3)["plan"]["hash"]
    approved = {**always, "approval": {"policy": "Always", "planHash": hash_}}
    meddle(cluster, "streams.version", 1)
    apply(document(path, cluster, features=features, **approved))
    meddle(cluster, "streams.version", 0)
    for command in (apply, plan, apply):
        waiting = command(path, code=3)
    assert reasons(waiting)["ApprovalRequired"] == "PlanChanged"
    assert levels(describe(cluster))["streams.version"] == 0

    approved["approval"]["planHash"] = waiting["plan"]["hash"]
    apply(document(path, cluster, features={"levels": []}, **approved))
    waiting = apply(document(path, cluster, features=features, **approved), code=3)
    assert reasons(waiting)["ApprovalRequired"] == "PlanChanged"
    # The hash in the document must be that of the plan as well.
    waiting = apply(path, "--approve", waiting["plan"]["hash"], code=3)
    approved["approval"]["planHash"] = waiting["plan"]["hash"]
    apply(document(path, cluster, features=features, **approved))
    assert levels(describe(cluster))["streams.version"] == 1
    meddle(cluster, "streams.version", 0)


def test_drift_is_reported_and_is_corrected_where_the_document_says_correct(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "l.yaml"
    apply(document(path, cluster, features=level("share.version", 1)))
    meddle(cluster, "share.version", 0)
    reported = apply(path, code=4)
    assert reasons(reported)["DriftDetected"] == "LevelBehind"
    assert reasons(reported)["Ready"] == "Drifted"
    assert levels(describe(cluster))["share.version"] == 0

    # The correction repeats a change that is not safe to undo, so it waits for an approval.
    correct = document(path, cluster, features=level("share.version", 1), drift={"onDrift": "Correct"})
    assert reasons(apply(correct, code=3))["ApprovalRequired"] == "PlanPending"
    apply(correct, "--approve", plan(correct, code=3)["hash"])
    assert levels(describe(cluster))["share.version"] == 1

    never = document(
        path, cluster, features=level("share.version", 1), drift={"onDrift": "Correct"}, approval={"policy": "Never"}
    )
    meddle(cluster, "share.version", 0)
    apply(never)
    meddle(cluster, "share.version", 0)
    conflict = apply(never, code=4)
    assert reasons(conflict)["Stalled"] == "ConflictDetected"
    assert levels(describe(cluster))["share.version"] == 0


def test_a_document_in_observe_mode_or_suspended_sends_no_update(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "l.yaml"
    before = levels(describe(cluster))
    observed = apply(document(path, cluster, features=level("streams.version", 1), mode="Observe"))
    assert reasons(observed)["Ready"] == "Observed"
    assert reasons(observed)["FeaturesFinalized"] == "BehindTarget"
    assert observed["plan"]["summary"] == "streams.version 0 -> 1"
    suspended = apply(document(path, cluster, features=level("streams.version", 1), suspend=True), code=4)
    assert reasons(suspended)["Ready"] == "Suspended"
    assert levels(describe(cluster)) == before


def test_init_prints_a_document_that_is_in_sync_with_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    done = run("init", "--bootstrap-server", cluster.bootstrap_servers, "--name", "orders")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "l.yaml"
    path.write_text(done.stdout)
    assert yaml.safe_load(done.stdout)["spec"]["mode"] == "Observe"
    computed = plan(path)
    assert computed["verdict"] == "InSync"
    assert computed["clusterId"] == cluster.cluster_id
    path.write_text(done.stdout.replace("    # - ", "    - ").replace("    #   ", "      "))
    offered = plan(path)
    assert "share.version 0 -> " in str(offered["steps"])


def test_kraft_version_is_raised_last_in_a_step_of_its_own_and_only_with_a_consent(
    cluster: Cluster, tmp_path: Path
) -> None:
    wanted = {"levels": [{"name": "kraft.version", "level": 1}, {"name": "group.version", "level": 1}]}
    refused = run("apply", "-f", str(document(tmp_path / "l.yaml", cluster, features=wanted)))
    assert refused.returncode == 64
    assert "add 'dynamic-quorum' to consents" in refused.stderr
    path = document(tmp_path / "l.yaml", cluster, features=wanted, consents=["dynamic-quorum"])
    computed = plan(path, code=3)
    planned = computed["steps"][-1]["effects"]
    apply(path, code=3)  # a consent covers no addresses of voters, so they need an approval
    status = apply(path, "--approve", computed["hash"])
    assert status["history"][-1]["action"] == "kraft.version 0 -> 1"
    assert cluster.features()["kraft.version"][2] == "1"

    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    described = cluster.tool(tool, "--bootstrap-server", cluster.bootstrap_servers, "describe", "--status").stdout
    frozen = [
        f"{voter['id']}@{voter['endpoints'][0].partition('://')[2]}"
        for voter in json.loads(described.partition("CurrentVoters:")[2].splitlines()[0])
    ]
    assert sorted(frozen) == [line.rpartition(" ")[2] for line in planned if "will hold voter" in line]
    (ready,) = [one["message"] for one in status["conditions"] if one["type"] == "Ready"]
    assert "remove controller.quorum.voters from the files of nodes 1, 3001-3003" in ready


def test_an_old_kafka_is_not_asked_to_raise_kraft_version(borrow: Callable[[str], Cluster], tmp_path: Path) -> None:
    """3.9 and 4.0 accept the request and write a record without effect (KAFKA-16538, KAFKA-18979)."""
    old = borrow(f"small {OLD}")
    path = document(tmp_path / "l.yaml", old, features=level("kraft.version", 1), consents=["dynamic-quorum"])
    waiting = apply(
        path, "--timeout", "5s", code=5
    )  # `apply` waits, because an upgrade of the nodes may be in progress
    assert "runs a Kafka release before 4.1" in waiting["blockers"][0]["message"]
