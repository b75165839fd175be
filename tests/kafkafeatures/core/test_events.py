"""Events: one for each thing that happened, none for a pass in which nothing did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.decide import Memory, Rival, decide, propose
from kafkafeatures.core.events import MAX_NOTE, events_between
from kafkafeatures.core.observation import Observation
from kafkafeatures.core.report import (
    status_of,
    status_of_failed_pass,
    status_of_invalid,
    status_of_unreachable,
    status_of_wrong_cluster,
)
from kafkafeatures.core.steps import Accepted
from kafkafeatures.core.wanted import Mode, Wanted
from tests.kafkafeatures.worlds import NOW, OLD, SILENT, answer, node, observation

PLAN = {"hash": "sha256:" + "a" * 64, "summary": "share.version 0 -> 1"}


def status(**conditions: tuple[str, str]) -> dict[str, Any]:
    said = [{"type": kind, "reason": reason, "message": message} for kind, (reason, message) in conditions.items()]
    return {"conditions": said}


def reasons(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [one.reason for one in events_between(before, after)]


def test_a_status_that_did_not_change_makes_none() -> None:
    same = {
        **status(Stalled=("NodeRefused", "x")),
        "plan": PLAN,
        "history": [{"at": "1", "action": "a", "result": "b"}],
    }
    assert reasons(same, same) == []


def test_a_plan_is_computed_once_and_approved_once() -> None:
    approved = {"plan": {**PLAN, "approvedBy": "PlanHash"}}
    assert reasons({}, {"plan": PLAN}) == ["PlanComputed"]
    assert reasons({"plan": PLAN}, approved) == ["PlanApproved"]
    assert reasons({}, approved) == ["PlanComputed", "PlanApproved"]
    assert reasons(approved, {}) == []


def test_each_end_of_an_update_is_told_by_what_came_of_it() -> None:
    ends = ["read back", "corrected, after somebody else had moved it", "refused (95): no", "not applied"]
    history = [{"at": "1", "action": f"f {n} -> 1", "result": result} for n, result in enumerate(ends)]
    told = events_between({}, {"history": history})
    assert [one.reason for one in told] == ["FeatureUpdated", "DriftCorrected", "FeatureUpdateRejected"]
    assert [one.warning for one in told] == [False, False, True]
    assert reasons({"history": history[:3]}, {"history": history[1:]}) == []  # the oldest fell out


def test_the_same_thing_done_twice_is_told_twice() -> None:
    once = {"at": "1", "action": "f 0 -> 1", "result": "read back"}
    assert reasons({"history": [once]}, {"history": [once, once]}) == ["FeatureUpdated"]


def test_suspended_and_resumed_drift_and_each_stalled_reason_once() -> None:
    held, free = status(Ready=("Suspended", "suspended")), status(Ready=("UpdatingFeatures", "f 0 -> 1"))
    assert reasons(free, held) == ["Suspended"]
    assert reasons(held, held) == []
    assert reasons(held, free) == ["Resumed"]
    drift = status(DriftDetected=("LevelBehind", "was 1 and is 0"))
    assert reasons(free, drift) == ["DriftDetected"]
    ghost, more = (status(Stalled=("GhostRegistration", text)) for text in ("broker 2", "broker 2 (and 1 more)"))
    assert reasons(free, ghost) == ["GhostRegistration"]
    assert reasons(ghost, more) == []


SUSPENDED = Wanted({"metadata.version": 27}, suspend=True)


def passed(
    wanted: Wanted, seen: Observation, previous: dict[str, Any] | None = None, *, older: bool = False
) -> dict[str, Any]:
    proposal = propose(wanted, seen, Memory())
    rival = Rival("kafka/older", known=True) if older else None
    decision = decide(wanted, seen, proposal=proposal, verdict=Accepted(), rival=rival)
    return status_of(decision, seen, proposal, generation=1, previous=previous or {}, version="0.1.0", now=NOW)


def of_no_id(previous: dict[str, Any]) -> dict[str, Any]:
    decision = decide(SUSPENDED, observation(cluster_id=SILENT))
    return status_of_wrong_cluster(decision, generation=1, previous=previous, now=NOW)


@pytest.mark.parametrize(
    "after",
    [
        of_no_id,
        lambda before: passed(SUSPENDED, observation(levels={"metadata.version": 27}), before),
        lambda before: passed(SUSPENDED, observation(), before, older=True),
        lambda before: passed(replace(SUSPENDED, mode=Mode.OBSERVE), observation(), before),
        lambda before: status_of_invalid(Reason.INVALID_SPEC, "no", generation=2, previous=before, now=NOW),
        lambda before: status_of_unreachable(SILENT, generation=1, previous=before, now=NOW),
        lambda before: status_of_failed_pass("a deadline", generation=1, previous=before, now=NOW),
    ],
    ids=["no cluster id", "somebody else raised it", "an older owner", "observed", "invalid", "away", "failed"],
)
def test_what_is_suspended_is_never_said_to_be_resumed(after: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    before = passed(SUSPENDED, observation())
    assert "Resumed" not in reasons(before, after(before))
    assert "Resumed" not in reasons(after(before), before)


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (Wanted({"metadata.version": 27}), observation()),
        (Wanted({}, {"metadata.version": 27}), observation()),
        (Wanted({"metadata.version": 20}), observation()),
        (Wanted({"no.such": 1}), observation()),
        (Wanted({"metadata.version": 27}), observation(node(3001), node(1, said=answer(OLD), written=OLD))),
    ],
    ids=["it acts", "it waits for approval", "it wants a consent", "it knows no such feature", "it waits for a node"],
)
def test_what_goes_on_is_said_to_be_resumed_once_also_where_something_else_is_in_the_way(
    wanted: Wanted, seen: Observation
) -> None:
    before = passed(replace(wanted, suspend=True), seen)
    after = passed(wanted, seen, before)
    assert reasons(before, after).count("Resumed") == 1
    assert "Resumed" not in reasons(after, after)


def test_a_note_fits_into_what_the_api_server_takes() -> None:
    (told,) = events_between({}, status(Stalled=("NodeRefused", "x" * 5000)))
    assert len(told.note) == MAX_NOTE
