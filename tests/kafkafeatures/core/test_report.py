"""The status: bounded in size, stamped with generations, and unchanged while nothing changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import Status, read_status
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRunAccepted, DryRunRejected
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.report import status as report
from kafkafeatures.core.report.cluster_document import cluster_document
from tests.kafkafeatures import deciding
from tests.kafkafeatures.deciding import decide, propose
from tests.kafkafeatures.worlds import NEW, NOW, OLD, SILENT, answer, node, observation

WANTED = DesiredState({"metadata.version": 27})


def in_json(make: Callable[..., Status]) -> Callable[..., dict[str, Any]]:
    """Wrap a function of `core/report/status.py`: its statuses are JSON, as the API server has them."""

    def make_json(*args: Any, **options: Any) -> dict[str, Any]:
        if "previous" in options:
            options["previous"], invalid = read_status(options["previous"])
            assert not invalid
        return make(*args, **options).as_json()

    return make_json


status_of = in_json(deciding.status_of)
status_of_failed_reconciliation = in_json(report.status_of_failed_reconciliation)
status_of_invalid = in_json(report.status_of_invalid)
status_of_unreachable = in_json(report.status_of_unreachable)
status_of_wrong_cluster = in_json(report.status_of_wrong_cluster)


def decided(observation: Observation) -> Decision:
    return decide(WANTED, observation, verdict=DryRunAccepted())


def status(
    decision: Decision,
    observation: Observation,
    *,
    previous: dict[str, Any] | None = None,
    generation: int = 7,
    later: int = 0,
) -> dict[str, Any]:
    return status_of(
        decision, observation, propose(WANTED, observation, Memory()),
        generation=generation, previous=previous or {}, version="0.1.0", now=NOW + timedelta(seconds=later),
    )  # fmt: skip


def conditions(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in document["conditions"]}


def test_three_hundred_half_upgraded_nodes_are_one_blocker_in_a_status() -> None:
    half = [node(i, said=answer(OLD if i % 2 else NEW), written=OLD if i % 2 else NEW) for i in range(1, 301)]
    observed = observation(node(3001), *half)
    reported = status(decided(observed), observed)
    (blocker,) = reported["blockers"]
    assert blocker["message"] == (
        "150 brokers (1, 3, 5, ... 299) support metadata.version 1-21; 27 (4.1-IV1) is required"
    )
    assert blocker["remedy"] == "upgrade Kafka on these brokers"
    assert "nodeId" not in blocker
    assert reported["blockersTotal"] == 1
    assert [condition["message"] for condition in reported["conditions"] if condition["type"] == "Ready"] == [
        blocker["message"]
    ]


def test_a_status_of_three_hundred_kinds_of_old_nodes_has_twenty_blockers_and_a_total_below_32_kib() -> None:
    kinds = {i: {"metadata.version": (i, 2 * i)} for i in range(28, 328)}
    old = [node(i, said=answer(of), written=of) for i, of in kinds.items()]
    observed = observation(node(3001), *old)
    reported = status(decided(observed), observed)
    assert len(reported["blockers"]) == 20
    assert reported["blockersTotal"] == 300
    assert len(json.dumps(reported).encode()) < 32 * 1024
    assert len(yaml.safe_dump(reported).encode()) < 32 * 1024


def test_a_status_stays_below_32_kib_whatever_features_and_failures_nodes_report() -> None:
    many = {f"feature.{i}": (0, 9) for i in range(60)}
    failure = Failure(FailureKind.AUTHENTICATION, "node:1", "x" * 1200, "y" * 600)
    silent = [
        node(3000 + i, said=Failure(kind, "node:1", "x" * 1200, "y" * 600), written=None)
        for i, kind in enumerate(FailureKind)
    ]
    observed = observation(node(1, said=answer(NEW | many | {"z" * 32_000: (0, 1)})), *silent, gaps=(failure,) * 5)
    entry = {
        "at": "2026-01-02T03:04:05Z",
        "action": "metadata.version 21 -> 27",
        "result": "Rejected",
        "message": "r" * 512,
    }
    reported = status(decide(WANTED, observed), observed, previous={"history": [entry] * 10})
    assert len(json.dumps(reported).encode()) < 32 * 1024
    assert 0 < len(reported["blockers"]) < len(FailureKind)
    assert reported["blockersTotal"] == len(FailureKind)


def test_long_messages_are_cut_before_they_make_a_status_too_large() -> None:
    observed = observation(gaps=tuple(Failure(FailureKind.TIMED_OUT, f"node:{i}", "x" * 900) for i in range(300)))
    assert (
        len(
            json.dumps(
                status(Stalled(Reason.INVALID_SPEC, "y" * 5000, subject="broker 1", remedy="see its log"), observed)
            ).encode()
        )
        < 32 * 1024
    )


def test_the_condition_reachable_names_a_node_that_is_down_also_where_it_blocks_no_step() -> None:
    levels = {"metadata.version": 27}
    observed = observation(node(1, said=answer(NEW, levels)), node(2, said=SILENT), levels=levels)
    reported = status(decided(observed), observed)
    assert conditions(reported)["Ready"] == ("True", "InSync")
    assert conditions(reported)["Reachable"] == ("True", "PartiallyConnected")
    (message,) = [condition["message"] for condition in reported["conditions"] if condition["type"] == "Reachable"]
    assert message == "broker 2 (h:2) does not answer"


def test_the_condition_reachable_names_each_cause_for_which_nodes_do_not_answer() -> None:
    tls = Failure(FailureKind.TLS, "h:1", "the certificate has expired")
    denied = Failure(FailureKind.AUTHENTICATION, "h:1", "invalid credentials", "correct the password")
    silent = (SILENT, Failure(FailureKind.TIMED_OUT, "h:2", "no answer within 5 s"), tls, denied, denied)
    nodes = (node(3001 + i, said=failure) for i, failure in enumerate(silent))
    observed = observation(node(1, said=answer(NEW)), *nodes)
    reported = status(decided(observed), observed)
    (message,) = [condition["message"] for condition in reported["conditions"] if condition["type"] == "Reachable"]
    assert message == (
        "2 controllers (3001, 3002) do not answer; "
        "controller 3003 (h:3003): the certificate has expired; check the certificates of both sides, and "
        "spec.cluster.tls; 2 controllers (3004, 3005): for example invalid credentials; correct the password"
    )


def crowded(*, wanted: int, names: str = "f") -> tuple[DesiredState, Observation, dict[str, Any]]:
    """Build 80 features with names of 62 characters, texts of three bytes a character, and a history of refusals.
    `wanted`: number of features that the document names.
    """
    many = {f"{names * 58}{i:04d}": (0, 1) for i in range(80)}
    node_answer = answer(NEW | many, {"metadata.version": 21})
    gap = Failure(FailureKind.REJECTED, "h", "拒" * 1200)
    observed = observation(*(node(i, said=node_answer, written=NEW | many) for i in (3001, 1)), gaps=(gap,))
    entry = {
        "at": "2026-01-02T03:04:05Z",
        "action": "metadata.version 21 -> 27",
        "result": "Rejected",
        "message": ("拒" * 600)[:512],
    }
    corrected = {"at": entry["at"], "action": entry["action"], "result": "Corrected"}
    names_wanted = dict.fromkeys(sorted(many)[80 - wanted :], 1)
    return DesiredState({"metadata.version": 27, **names_wanted}), observed, {"history": [corrected, *[entry] * 9]}


def refused(wanted: DesiredState, observation: Observation, previous: dict[str, Any]) -> dict[str, Any]:
    proposal = propose(wanted, observation, Memory())
    return status_of(
        decide(wanted, observation, proposal=proposal, verdict=DryRunRejected(95, "拒" * 1200)), observation, proposal,
        generation=1, previous=previous, version="0.1.0", now=NOW,
    )  # fmt: skip


@pytest.mark.parametrize(("names", "wanted_count"), [("f", 31), ("拒", 0)])
def test_a_status_with_names_of_any_language_stays_at_28_kib_to_leave_room_for_an_intent(
    names: str, wanted_count: int
) -> None:
    wanted, observed, previous = crowded(wanted=wanted_count, names=names)
    made = refused(wanted, observed, previous)
    assert len(json.dumps(made).encode()) <= 28 * 1024
    assert all(len(condition["message"].encode()) <= 1024 for condition in made["conditions"])
    assert {feature["name"] for feature in made["features"]} >= set(wanted.levels)  # they are remembered by being here


def test_features_that_are_left_out_of_a_status_are_counted_and_the_next_status_is_the_same() -> None:
    wanted, observed, previous = crowded(wanted=5)
    made = refused(wanted, observed, previous)
    (ready,) = [condition for condition in made["conditions"] if condition["type"] == "Ready"]
    # 80 of `crowded`, and three of Kafka that the nodes support.
    assert ready["message"].endswith(f" ({len(made['features'])} of 83 features shown)")
    assert {feature["name"] for feature in made["features"]} >= set(wanted.levels)
    assert refused(wanted, observed, made) == made


def test_corrections_stay_longest_in_a_history_that_is_too_long() -> None:
    wanted, observed, previous = crowded(wanted=20)
    history = refused(wanted, observed, previous)["history"]
    assert 0 < len(history) < 10
    assert history[0] == previous["history"][0]


def test_a_status_without_a_new_reading_is_bounded_as_well() -> None:
    wanted, observed, previous = crowded(wanted=31)
    before = {**refused(wanted, observed, {}), **previous}
    reported = status_of_unreachable(Failure(FailureKind.TLS, "h", "拒" * 1200), generation=1, previous=before, at=NOW)
    assert len(json.dumps(reported).encode()) <= 28 * 1024
    assert len(before["history"]) == 10  # what was read is left as it is


@pytest.mark.parametrize(
    "foreign",
    [{"fleet": {"nodes": ["x" * 60] * 1000}}, {"intents": [{"kind": "RestartNode", "nodes": ["x" * 60] * 1000}]}],
    ids=["a field of the status", "a field of an intent"],
)
def test_fields_of_another_release_shorten_no_other_field_of_the_status_however_large_they_are(
    foreign: dict[str, Any],
) -> None:
    wanted, observed, previous = crowded(wanted=5)
    ours = refused(wanted, observed, previous)
    assert refused(wanted, observed, {**previous, **foreign}) == {**ours, **foreign}


def test_fields_of_another_release_near_the_limit_of_the_api_server_are_reported_and_kept() -> None:
    foreign = {"fleet": ["x" * 1024] * 1024, "moves\x1b": {}}
    observed = observation()
    reported = status(decided(observed), observed, previous=foreign)
    assert {name: reported[name] for name in foreign} == foreign
    (ready,) = [condition["message"] for condition in reported["conditions"] if condition["type"] == "Ready"]
    assert " (other releases wrote 1028 KiB of this status: fleet, moves�; above" in ready
    assert len(ready.encode()) <= 1024
    assert status(decided(observed), observed, previous=reported) == reported


def test_the_text_of_a_blocker_is_printable_and_has_at_most_512_bytes() -> None:
    gap = Failure(FailureKind.AUTHENTICATION, "h", "no\x1b[2J" + "拒" * 600, "拒" * 600)
    observed = observation(node(1), node(3001, said=gap, written=None), gaps=(gap,))
    reported = status(decide(WANTED, observed), observed)
    assert reported["blockers"]
    for words in (blocker[key] for blocker in reported["blockers"] for key in ("message", "remedy") if key in blocker):
        assert words.isprintable()
        assert len(words.encode()) <= 512
    assert all(condition["message"].isprintable() for condition in reported["conditions"])


def test_the_status_and_every_condition_have_the_observed_generation() -> None:
    observed = observation()
    reported = status(decided(observed), observed, generation=12)
    assert reported["observedGeneration"] == 12
    assert {condition["observedGeneration"] for condition in reported["conditions"]} == {12}


def test_a_condition_keeps_its_transition_time_until_its_status_changes() -> None:
    observed = observation()
    first = status(Wait(Reason.VERIFYING, "a", delay=1, subject="broker 1", remedy="see its log"), observed)
    second = status(
        Wait(Reason.WAITING_FOR_NODES, "b", delay=1, subject="broker 1", remedy="see its log"),
        observed,
        previous=first,
        later=60,
    )
    third = status(Done(Reason.IN_SYNC, "c"), observed, previous=second, later=120)
    times = [
        {condition["type"]: condition["lastTransitionTime"] for condition in made["conditions"]}
        for made in (first, second, third)
    ]
    assert times[0]["Ready"] == times[1]["Ready"] == "2026-01-02T03:04:05Z"
    assert times[2]["Ready"] == "2026-01-02T03:06:05Z"
    assert times[2]["Reachable"] == "2026-01-02T03:04:05Z"


def test_the_same_reconciliation_again_makes_the_same_status() -> None:
    observed = observation()
    first = status(decided(observed), observed)
    assert status(decided(observed), observed, previous=first, later=3600) == first


@pytest.mark.parametrize(
    ("decision", "ready", "extra"),
    [
        (Done(Reason.IN_SYNC, "m"), ("True", "InSync"), None),
        (Act(UpdateFeature("metadata.version", 21, 27)), ("False", "UpdatingFeatures"), "Reconciling"),
        (
            Wait(Reason.WAITING_FOR_QUORUM, "m", delay=2, subject="broker 1", remedy="see its log"),
            ("False", "WaitingForQuorum"),
            "Reconciling",
        ),
        (
            Stalled(Reason.CLUSTER_ID_MISMATCH, "m", subject="broker 1", remedy="see its log"),
            ("False", "ClusterIdMismatch"),
            "Stalled",
        ),
    ],
    ids=["done", "act", "wait", "stalled"],
)
def test_the_conditions_reconciling_and_stalled_exist_only_while_they_are_true(
    decision: Decision, ready: tuple[str, str], extra: str | None
) -> None:
    made = conditions(status(decision, observation()))
    assert made["Ready"] == ready
    assert set(made) - {"Ready", "Reachable", "FeaturesFinalized"} == ({extra} if extra else set())


def test_a_gap_in_the_reading_makes_the_condition_reachable_partially_connected() -> None:
    observed = observation(gaps=(Failure(FailureKind.AUTHORIZATION, "metadata log", "needs X", "grant X"),))
    reported = status(decided(observed), observed)
    reachable = next(condition for condition in reported["conditions"] if condition["type"] == "Reachable")
    assert reachable["reason"] == "PartiallyConnected"
    assert "metadata log: needs X; grant X" in reachable["message"]


def test_the_features_of_a_status_stay_when_the_cluster_is_unreachable_and_the_conditions_are_unknown() -> None:
    observed = observation()
    before = status(Done(Reason.IN_SYNC, "m"), observed)
    reported = status_of_unreachable(SILENT, generation=8, previous=before, at=NOW)
    assert reported["features"] == before["features"]
    assert conditions(reported) == {
        "Ready": ("Unknown", "Unreachable"),
        "Reachable": ("False", "BootstrapUnreachable"),
        "FeaturesFinalized": ("Unknown", "Unknown"),
    }
    assert reported["observedGeneration"] == 8


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (FailureKind.TLS, "TlsFailed"),
        (FailureKind.AUTHENTICATION, "AuthenticationFailed"),
        (FailureKind.TIMED_OUT, "BootstrapUnreachable"),
    ],
)
def test_each_kind_of_failure_to_reach_a_cluster_has_its_reason(kind: FailureKind, reason: str) -> None:
    reported = status_of_unreachable(Failure(kind, "h:1", "m"), generation=1, previous={}, at=NOW)
    assert conditions(reported)["Reachable"] == ("False", reason)


def test_levels_that_the_document_does_not_name_are_unmanaged() -> None:
    reported = status(decided(observation()), observation())
    assert {feature["name"]: feature["state"] for feature in reported["features"]} == {
        "metadata.version": "Pending",
        "group.version": "Unmanaged",
        "kraft.version": "Unmanaged",
    }


def test_a_ghost_is_in_the_cluster_document_with_the_range_that_it_registered() -> None:
    observed = observation(
        node(3001), node(1), node(3003, state=NodeState.GHOST, said=SILENT, written=OLD, voter=False)
    )
    (ghost,) = [node for node in cluster_document(observed)["nodes"] if node["state"] == "Ghost"]
    assert ghost["id"] == 3003
    assert ghost["features"]["metadata.version"] == {"min": 1, "max": 21}
    assert ghost["why"] == "h:1: connection refused; start it"
    assert (
        next(f for f in cluster_document(observed)["features"] if f["name"] == "metadata.version")["supportedMax"] == 21
    )


def test_nodes_of_unknown_range_are_listed_beside_the_supported_range_of_the_known_nodes() -> None:
    observed = observation(node(3001), node(1), node(2, said=SILENT, written=None, state=NodeState.UNREACHABLE))
    shape = next(f for f in cluster_document(observed)["features"] if f["name"] == "metadata.version")
    assert shape["unknownNodes"] == [2]
    assert shape["supportedMax"] == NEW["metadata.version"][1]
