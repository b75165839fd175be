"""The status people and tools read: bounded, stamped with generations, and moving only when something moved."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
import yaml

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.decide import Act, Decision, Done, Memory, Stalled, Wait, decide, propose
from kafkafeatures.core.observation import NodeState, Observation
from kafkafeatures.core.report import cluster_document, status_of, status_of_unreachable
from kafkafeatures.core.steps import Accepted, UpdateFeature
from kafkafeatures.core.survey import Failure, FailureKind
from kafkafeatures.core.wanted import Wanted
from tests.kafkafeatures.worlds import NEW, NOW, OLD, SILENT, answer, node, observation

WANTED = Wanted({"metadata.version": 27})


def decided(seen: Observation) -> Decision:
    return decide(WANTED, seen, verdict=Accepted())


def status(
    decision: Decision,
    seen: Observation,
    *,
    previous: dict[str, Any] | None = None,
    generation: int = 7,
    later: int = 0,
) -> dict[str, Any]:
    return status_of(
        decision, seen, propose(WANTED, seen, Memory()),
        generation=generation, previous=previous or {}, version="0.1.0", now=NOW + timedelta(seconds=later),
    )  # fmt: skip


def conditions(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in document["conditions"]}


def test_three_hundred_old_nodes_stay_below_32_kib_with_twenty_blockers_and_a_total() -> None:
    old = [node(i, said=answer(OLD), written=OLD) for i in range(1, 301)]
    seen = observation(node(3001), *old)
    made = status(decided(seen), seen)
    assert len(made["blockers"]) == 20
    assert made["blockersTotal"] == 300
    assert len(json.dumps(made).encode()) < 32 * 1024
    assert len(yaml.safe_dump(made).encode()) < 32 * 1024


def test_whatever_nodes_say_of_features_and_failures_the_status_stays_below_32_kib() -> None:
    many = {f"feature.{i}": (0, 9) for i in range(60)}
    why = Failure(FailureKind.AUTHENTICATION, "node:1", "x" * 1200, "y" * 600)
    silent = [node(3000 + i, said=why, written=None) for i in range(40)]
    seen = observation(node(1, said=answer(NEW | many | {"z" * 32_000: (0, 1)})), *silent, gaps=(why,) * 5)
    entry = {"at": "2026-01-02T03:04:05Z", "action": "metadata.version 21 -> 27", "result": "r" * 512}
    made = status(decide(WANTED, seen), seen, previous={"history": [entry] * 10})
    assert len(json.dumps(made).encode()) < 32 * 1024
    assert 0 < len(made["blockers"]) < 20
    assert made["blockersTotal"] == 40


def test_long_messages_are_cut_before_they_make_a_status_too_large() -> None:
    seen = observation(gaps=tuple(Failure(FailureKind.TIMED_OUT, f"node:{i}", "x" * 900) for i in range(300)))
    assert len(json.dumps(status(Stalled(Reason.INVALID_SPEC, "y" * 5000), seen)).encode()) < 32 * 1024


def test_the_generation_stands_on_the_status_and_on_every_condition() -> None:
    seen = observation()
    made = status(decided(seen), seen, generation=12)
    assert made["observedGeneration"] == 12
    assert {one["observedGeneration"] for one in made["conditions"]} == {12}


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    seen = observation()
    first = status(Wait(Reason.VERIFYING, "a", after=1), seen)
    second = status(Wait(Reason.WAITING_FOR_NODES, "b", after=1), seen, previous=first, later=60)
    third = status(Done(Reason.IN_SYNC, "c"), seen, previous=second, later=120)
    times = [{one["type"]: one["lastTransitionTime"] for one in made["conditions"]} for made in (first, second, third)]
    assert times[0]["Ready"] == times[1]["Ready"] == "2026-01-02T03:04:05Z"
    assert times[2]["Ready"] == "2026-01-02T03:06:05Z"
    assert times[2]["Reachable"] == "2026-01-02T03:04:05Z"


def test_the_same_pass_again_makes_the_same_status() -> None:
    seen = observation()
    first = status(decided(seen), seen)
    assert status(decided(seen), seen, previous=first, later=3600) == first


@pytest.mark.parametrize(
    ("decision", "ready", "extra"),
    [
        (Done(Reason.IN_SYNC, "m"), ("True", "InSync"), None),
        (Act(UpdateFeature("metadata.version", 21, 27)), ("False", "UpdatingFeatures"), "Reconciling"),
        (Wait(Reason.WAITING_FOR_QUORUM, "m", after=2), ("False", "WaitingForQuorum"), "Reconciling"),
        (Stalled(Reason.CLUSTER_ID_MISMATCH, "m"), ("False", "ClusterIdMismatch"), "Stalled"),
    ],
)
def test_reconciling_and_stalled_are_there_only_while_they_are_true(
    decision: Decision, ready: tuple[str, str], extra: str | None
) -> None:
    made = conditions(status(decision, observation()))
    assert made["Ready"] == ready
    assert set(made) - {"Ready", "Reachable", "FeaturesFinalized"} == ({extra} if extra else set())


def test_what_asking_could_not_see_makes_the_cluster_connected_partly() -> None:
    seen = observation(gaps=(Failure(FailureKind.AUTHORIZATION, "metadata log", "needs X", "grant X"),))
    made = status(decided(seen), seen)
    reachable = next(one for one in made["conditions"] if one["type"] == "Reachable")
    assert reachable["reason"] == "ConnectedPartly"
    assert "metadata log: needs X; grant X" in reachable["message"]


def test_facts_stay_when_the_cluster_cannot_be_reached_and_the_conditions_say_so() -> None:
    seen = observation()
    before = status(Done(Reason.IN_SYNC, "m"), seen)
    made = status_of_unreachable(SILENT, generation=8, previous=before, now=NOW)
    assert made["features"] == before["features"]
    assert conditions(made) == {
        "Ready": ("Unknown", "Unreachable"),
        "Reachable": ("False", "BootstrapUnreachable"),
        "FeaturesFinalized": ("Unknown", "Unknown"),
    }
    assert made["observedGeneration"] == 8


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (FailureKind.TLS, "TlsFailed"),
        (FailureKind.AUTHENTICATION, "AuthenticationFailed"),
        (FailureKind.TIMED_OUT, "BootstrapUnreachable"),
    ],
)
def test_each_way_of_not_reaching_a_cluster_has_its_reason(kind: FailureKind, reason: str) -> None:
    made = status_of_unreachable(Failure(kind, "h:1", "m"), generation=1, previous={}, now=NOW)
    assert conditions(made)["Reachable"] == ("False", reason)


def test_levels_that_nobody_asked_for_are_unmanaged() -> None:
    made = status(decided(observation()), observation())
    assert {one["name"]: one["state"] for one in made["features"]} == {
        "metadata.version": "Pending",
        "group.version": "Unmanaged",
        "kraft.version": "Unmanaged",
    }


def test_a_ghost_is_in_the_document_with_the_range_it_registered() -> None:
    seen = observation(node(3001), node(1), node(3003, state=NodeState.GHOST, said=SILENT, written=OLD, voter=False))
    (ghost,) = [one for one in cluster_document(seen)["nodes"] if one["state"] == "Ghost"]
    assert ghost["id"] == 3003
    assert ghost["features"]["metadata.version"] == {"min": 1, "max": 21}
    assert ghost["why"] == "h:1: connection refused; start it"
    assert next(f for f in cluster_document(seen)["features"] if f["name"] == "metadata.version")["supportedMax"] == 21


def test_nodes_whose_range_is_not_known_are_listed_beside_the_range_of_the_others() -> None:
    seen = observation(node(3001), node(1), node(2, said=SILENT, written=None, state=NodeState.UNREACHABLE))
    shape = next(f for f in cluster_document(seen)["features"] if f["name"] == "metadata.version")
    assert shape["unknownNodes"] == [2]
    assert shape["supportedMax"] == NEW["metadata.version"][1]
