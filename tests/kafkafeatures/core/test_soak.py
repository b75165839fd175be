"""An irreversible change waits until every node has been healthy on a binary that holds it, for as long as asked."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import EMPTY, Intent, PlanStatus, Stage, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.decide import decide, propose
from kafkafeatures.core.decisions import Act, Decision, Done, Held, Wait
from kafkafeatures.core.memory import Memory
from kafkafeatures.core.observation import NodeState, Observation
from kafkafeatures.core.report import stamp
from kafkafeatures.core.soak import Soak, soak_of, with_soak
from kafkafeatures.core.steps import DryRunAccepted
from kafkafeatures.core.wanted import ApprovalPolicy, Mode, Rollout, Wanted, Window
from tests.kafkafeatures.core.plans import EVERY, change, world
from tests.kafkafeatures.worlds import NOW, OLD, SILENT, answer, node, observation

DAY = timedelta(hours=24)
WANTED = Wanted({"metadata.version": 30}, finalize_after=DAY)
IRREVERSIBLE = (change("metadata.version 25->30"),)
LEVELS = {"metadata.version": 25}
HOUR_AGO = stamp(NOW - timedelta(hours=1))


def remembered(started_at: str | None = HOUR_AGO, target: int = 30) -> Status:
    """Of a plan that raises metadata.version."""
    plan = PlanStatus(
        hash="sha256:00",
        created_at=stamp(NOW),
        irreversible=True,
        summary="",
        stages=(Stage(kind="Levels", start={"metadata.version": 25}, target={"metadata.version": target}),),
    )
    return Status(plan=plan, soak_started_at=Stamp(started_at) if started_at else None)


def soaking(
    seen: Observation | None = None, before: Status = EMPTY, wanted: Wanted = WANTED, now: datetime = NOW
) -> Soak | None:
    def age_of(moment: str) -> timedelta:
        return now - datetime.fromisoformat(moment)

    changes = propose(wanted, seen or world(), Memory()).changes
    return soak_of(wanted, seen or world(), changes, before, age_of=age_of, now=stamp(now))


def deciding(wanted: Wanted, soak: Soak | None, seen: Observation | None = None) -> Decision:
    return decide(wanted, seen or world(), verdict=DryRunAccepted(), soak=soak)


def holding(soak: Soak | None) -> Soak:
    assert soak is not None
    return soak


# --- when it begins, lasts, ends ---


def test_it_begins_with_the_first_look_at_which_every_node_is_healthy_and_holds_the_target() -> None:
    soak = holding(soaking())
    assert (soak.started_at, soak.left, soak.why_not) == (stamp(NOW), DAY, "")
    assert soak.until == "2026-01-03T03:04:05Z"


def test_it_goes_on_from_when_it_began() -> None:
    soak = holding(soaking(before=remembered()))
    assert (soak.started_at, soak.left, soak.is_over) == (HOUR_AGO, timedelta(hours=23), False)
    assert soak.until == "2026-01-03T02:04:05Z"


def test_it_is_over_after_as_long_as_the_document_asks_by_now() -> None:
    assert holding(soaking(before=remembered(), now=NOW + timedelta(hours=23))).is_over
    assert holding(soaking(before=remembered(), wanted=replace(WANTED, finalize_after=timedelta(hours=1)))).is_over
    assert not holding(soaking(before=remembered(), wanted=replace(WANTED, finalize_after=2 * DAY))).is_over


UNHEALTHY: dict[str, dict[str, Any]] = {
    "broker 2 is Fenced": {"state": NodeState.FENCED},
    "broker 2 is Unreachable": {"state": NodeState.UNREACHABLE, "said": SILENT},
    "broker 2 is Ghost": {"state": NodeState.GHOST, "said": SILENT},
    "broker 2 supports metadata.version 1-21": {"said": answer(OLD), "written": OLD},
    "what broker 2 supports of metadata.version is not known": {"said": answer(OLD)},  # its registration says otherwise
}


@pytest.mark.parametrize("why", UNHEALTHY)
def test_a_node_that_is_not_healthy_ends_it_and_it_begins_anew(why: str) -> None:
    nodes = [node(i, said=answer(EVERY, LEVELS), written=EVERY) for i in (3001, 1)]
    seen = observation(*nodes, node(2, **{"written": EVERY, **UNHEALTHY[why]}), levels=LEVELS)
    soak = holding(soaking(seen, remembered()))
    assert (soak.started_at, soak.until, soak.why_not) == (None, None, why)
    after = with_soak(remembered(), soak)
    assert after.soak_started_at is None
    assert holding(soaking(before=after)).started_at == stamp(NOW)


def test_a_restart_in_flight_ends_it_and_a_level_that_was_sent_does_not() -> None:
    restart = replace(remembered(), intents=(Intent(kind="RestartNode"),))
    assert holding(soaking(before=restart)).why_not == "a restart is in progress"
    level = replace(remembered(), intents=(Intent(kind="UpdateFeature"),))
    assert holding(soaking(before=level)).started_at == HOUR_AGO


def test_of_another_target_nobody_knows_since_when_every_node_has_held_it() -> None:
    assert holding(soaking(before=remembered(target=29))).started_at == stamp(NOW)
    assert holding(soaking(before=replace(remembered(), plan=None))).started_at == stamp(NOW)


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted({"metadata.version": 30}),  # no finalizeAfter
        Wanted({"group.version": 1, "metadata.version": 25}, finalize_after=DAY),  # its downgrade is allowed
        Wanted({"metadata.version": 25}, finalize_after=DAY),  # nothing to do
    ],
)
def test_what_can_be_undone_does_not_soak_and_what_was_remembered_is_dropped(wanted: Wanted) -> None:
    assert soaking(before=remembered(), wanted=wanted) is None
    after = with_soak(with_soak(remembered(), soaking()), None)
    assert (after.soak_started_at, after.way_back) == (None, None)


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "2026-01-02T03:04:05+02:00"])
def test_whatever_stamp_stands_in_a_status_it_is_told(moment: str) -> None:
    def no_time(_: str) -> timedelta:
        return timedelta(0)

    soak = soak_of(WANTED, world(), IRREVERSIBLE, remembered(moment), age_of=no_time, now=stamp(NOW))
    assert holding(soak).started_at == moment
    assert with_soak(EMPTY, soak).way_back is not None
    assert "soaking: metadata.version 30" in str(soak)


# --- what is decided meanwhile ---


def test_an_irreversible_change_waits_while_it_soaks_and_then_goes() -> None:
    waiting = deciding(WANTED, soaking())
    assert isinstance(waiting, Wait)
    assert waiting.reason is Reason.SOAKING
    assert waiting.message == (
        "soaking: metadata.version 30 (4.3-IV0) is finalized once every node has been healthy for 24h, "
        "not before 2026-01-03T03:04:05Z"
    )
    assert isinstance(deciding(WANTED, soaking(before=remembered(), now=NOW + DAY)), Act)


def test_it_says_which_node_keeps_it_from_beginning() -> None:
    nodes = [node(i, said=answer(EVERY, LEVELS), written=EVERY) for i in (3001, 3002, 1)]
    away = node(2, state=NodeState.UNREACHABLE, said=SILENT, written=EVERY)
    seen = observation(*nodes, away, levels=LEVELS)
    waiting = deciding(WANTED, soaking(seen), seen)
    assert isinstance(waiting, Wait)
    assert waiting.message.endswith("healthy for 24h; not begun yet: broker 2 is Unreachable")


def test_it_looks_again_in_time_to_see_a_node_fail_and_not_after_the_end() -> None:
    nearly = soaking(before=remembered(), now=NOW + timedelta(hours=23) - timedelta(seconds=3))
    for soak, after in ((soaking(), 10.0), (nearly, 3.0)):
        waiting = deciding(WANTED, soak)
        assert isinstance(waiting, Wait)
        assert waiting.after == after


def test_reversible_steps_before_it_do_not_wait_for_it() -> None:
    wanted = replace(WANTED, levels={"transaction.version": 0, "metadata.version": 30},
                     consents=frozenset({"transaction.version:2->0"}))  # fmt: skip
    seen = world(transaction_version=2)
    assert deciding(wanted, soaking(seen, wanted=wanted), seen) == Act(change("transaction.version 2->0"))


def test_it_may_be_approved_while_it_soaks() -> None:
    wanted = replace(WANTED, policy=ApprovalPolicy.ALWAYS)
    waiting = deciding(wanted, soaking())
    assert isinstance(waiting, Wait)
    assert waiting.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    assert "; approve plan sha256:" in waiting.message
    plan = propose(wanted, world(), Memory()).plan
    approved = replace(wanted, approvals=frozenset({plan.hash}), may_approve_unseen=True)
    waiting = deciding(approved, soaking())
    assert isinstance(waiting, Wait)
    assert waiting.condition is None
    assert isinstance(deciding(wanted, soaking(before=remembered(), now=NOW + DAY)), Held)
    assert isinstance(deciding(approved, soaking(before=remembered(), now=NOW + DAY)), Act)


@pytest.mark.parametrize(("mode", "suspend"), [(Mode.OBSERVE, False), (Mode.APPLY, True)])
def test_who_only_looks_is_told_of_it(mode: Mode, suspend: bool) -> None:
    wanted = replace(WANTED, mode=mode, suspend=suspend)
    said = deciding(wanted, soaking(wanted=wanted))
    assert isinstance(said, Done | Held)
    assert "would change metadata.version 25 -> 30; soaking: metadata.version 30 (4.3-IV0) is" in said.message
    over = deciding(wanted, soaking(wanted=wanted, before=remembered(), now=NOW + DAY))
    assert "soaking" not in getattr(over, "message", "")


# --- the way back ---


def test_the_way_back_says_until_when_and_how() -> None:
    way_back = with_soak(EMPTY, soaking()).way_back
    assert way_back is not None
    assert way_back.until == "2026-01-03T03:04:05Z"
    assert way_back.how == (
        "set the document to metadata.version 25 (4.0-IV3), then downgrade Kafka on the nodes; "
        "to stay at these levels, suspend"
    )


def test_after_the_soak_it_is_open_until_the_plan_is_carried_out() -> None:
    way_back = with_soak(EMPTY, soaking(before=remembered(), now=NOW + DAY)).way_back
    assert way_back is not None
    assert way_back.until is None


def test_there_is_none_once_a_level_was_sent_and_its_outcome_is_open() -> None:
    sent = replace(remembered(), intents=(Intent(kind="UpdateFeature"),))
    assert with_soak(sent, soaking(before=sent)).way_back is None
    restarting = replace(remembered(), intents=(Intent(kind="RestartNode"),))
    assert with_soak(restarting, soaking(before=restarting)).way_back is not None


# --- windows ---

NOON = Rollout(windows=(Window("0 12 * * *", timedelta(hours=1)),))


def test_outside_the_windows_nothing_is_changed_and_it_says_when_the_next_one_opens() -> None:
    wanted = Wanted({"metadata.version": 30}, rollout=NOON)
    waiting = deciding(wanted, None)
    assert isinstance(waiting, Wait)
    assert (waiting.reason, waiting.message) == (
        Reason.WAITING_FOR_WINDOW,
        "the next window of spec.rollout opens at 2026-01-02T12:00+00:00",
    )
    noon = replace(world(), at=NOW.replace(hour=12, minute=30))
    assert isinstance(deciding(wanted, None, noon), Act)


def test_a_plan_may_be_approved_before_its_window_opens() -> None:
    waiting = deciding(Wanted({}, bundle={"metadata.version": 30}, rollout=NOON), None)
    assert isinstance(waiting, Wait)
    assert waiting.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)


def test_what_soaks_is_told_before_the_window_that_it_waits_for_as_well() -> None:
    waiting = deciding(replace(WANTED, rollout=NOON), soaking())
    assert isinstance(waiting, Wait)
    assert waiting.reason is Reason.SOAKING
