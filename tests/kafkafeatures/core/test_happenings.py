"""Events: one for each thing that happened, none for a pass in which nothing did."""

from __future__ import annotations

from typing import Any

from kafkafeatures.core.happenings import MAX_NOTE, happenings

PLAN = {"hash": "sha256:" + "a" * 64, "summary": "share.version 0 -> 1"}


def status(**conditions: tuple[str, str]) -> dict[str, Any]:
    said = [{"type": kind, "reason": reason, "message": message} for kind, (reason, message) in conditions.items()]
    return {"conditions": said}


def reasons(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [one.reason for one in happenings(before, after)]


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
    told = happenings({}, {"history": history})
    assert [one.reason for one in told] == ["FeatureUpdated", "DriftCorrected", "FeatureUpdateRejected"]
    assert [one.warning for one in told] == [False, False, True]
    assert reasons({"history": history[:3]}, {"history": history[1:]}) == []  # the oldest fell out


def test_the_same_thing_done_twice_is_told_twice() -> None:
    once = {"at": "1", "action": "f 0 -> 1", "result": "read back"}
    assert reasons({"history": [once]}, {"history": [once, once]}) == ["FeatureUpdated"]


def test_suspended_and_resumed_drift_and_each_stalled_reason_once() -> None:
    held, free = status(Ready=("Suspended", "suspended")), status(Ready=("InSync", "ok"))
    assert reasons(free, held) == ["Suspended"]
    assert reasons(held, held) == []
    assert reasons(held, free) == ["Resumed"]
    for away in (status(Ready=("Unreachable", "refused")), status(Ready=("InternalError", "a deadline"))):
        assert reasons(held, away) == []  # nobody resumed anything
    drift = status(DriftDetected=("LevelBehind", "was 1 and is 0"))
    assert reasons(free, drift) == ["DriftDetected"]
    ghost, more = (status(Stalled=("GhostRegistration", text)) for text in ("broker 2", "broker 2 (and 1 more)"))
    assert reasons(free, ghost) == ["GhostRegistration"]
    assert reasons(ghost, more) == []


def test_a_note_fits_into_what_the_api_server_takes() -> None:
    (told,) = happenings({}, status(Stalled=("NodeRefused", "x" * 5000)))
    assert len(told.note) == MAX_NOTE
