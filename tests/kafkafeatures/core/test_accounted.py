"""Level changes in the metadata log that the status accounts for, those of other clients, and the recognition of
another log.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import (
    EMPTY,
    FeatureStatus,
    HistoryEntry,
    LogPosition,
    PlannedStage,
    PlanStatus,
    Status,
    Via,
)
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Observation, Source, SourceKind
from kafkafeatures.core.facts.past import PastLevels
from kafkafeatures.core.facts.readings import Moves
from kafkafeatures.core.levels.accounted import (
    MAX_OWN,
    missing_in,
    moved_unremembered,
    position_of,
    void_after,
    with_own_moves,
)
from kafkafeatures.core.levels.update_feature import ChangeInFlight, UpdateFeature
from tests.kafkafeatures.worlds import NOW, observation

AT = Stamp("2026-01-02T03:04:05Z")
HERE = LogPosition(offset=100, epoch=4)
"""The position in the log up to which the status accounts for level changes."""
RAISE = ChangeInFlight(UpdateFeature("group.version", 0, 1), AT, Via.CONTROLLER, offset=100).to_intent()


def observation_with_changes(
    moves: dict[str, Moves] | None = None, *, offset: int = 120, epoch: int = 4
) -> Observation:
    """Build an observation of a log up to `offset`. `moves`: changes of levels, as (offset after it, new level)."""
    past = PastLevels({}, None, NOW, 0, moves or {})
    return replace(observation(), source=Source(SourceKind.METADATA_LOG, offset, epoch, NOW), past_levels=past)


def status(**fields: Any) -> Status:
    return replace(EMPTY, log_position=HERE, **fields)


def planned(feature: str = "group.version") -> PlanStatus:
    stage = PlannedStage(kind="Levels", start={feature: 1}, target={feature: 0})
    return PlanStatus(hash="sha256:0", created_at=AT, irreversible=False, summary="", stages=(stage,))


def unremembered(moves: dict[str, Moves], *, before: Status | None = None, after: Status | None = None) -> set[str]:
    """Return the features that were changed by others: `before`, `after`: status before and after this reading."""
    before = before or status()
    return set(moved_unremembered(before, after or before, observation_with_changes(moves), {}))


# --- level changes ---


def test_only_a_level_change_after_the_recorded_log_position_is_unaccounted_for() -> None:
    assert unremembered({"group.version": ((100, 1),)}) == set()
    assert unremembered({"group.version": ((101, 1),)}) == {"group.version"}
    assert unremembered({"group.version": ((90, 1), (101, 0)), "share.version": ((99, 1),)}) == {"group.version"}


def test_without_a_log_position_or_without_the_log_no_level_change_is_unaccounted_for() -> None:
    moves: dict[str, Moves] = {"group.version": ((101, 1),)}
    assert unremembered(moves, before=EMPTY) == set()
    assert not moved_unremembered(status(), status(), replace(observation_with_changes(moves), past_levels=None), {})


def test_a_single_level_change_to_the_target_of_a_sent_step_is_that_step_and_any_other_is_foreign() -> None:
    sent = status(intents=(RAISE,))
    for moves, foreign in (
        (((101, 1),), set()),
        (((101, 1), (102, 0), (103, 1)), {"group.version"}),
        (((101, 2),), {"group.version"}),
        (((101, 0),), {"group.version"}),
    ):
        assert unremembered({"group.version": moves}, before=sent, after=status()) == foreign


def test_a_step_that_was_settled_without_the_log_is_kept_with_the_log_position() -> None:
    """The log shows its change later, which then is not taken for a change by another client."""
    sent = status(intents=(RAISE,))
    recorded = with_own_moves(sent, status())
    assert recorded.log_position == replace(HERE, own=("group.version:1",))
    assert unremembered({"group.version": ((101, 1),)}, before=recorded) == set()
    assert unremembered({"group.version": ((101, 1), (102, 0))}, before=recorded) == {"group.version"}
    assert unremembered({"group.version": ((101, 2),)}, before=recorded) == {"group.version"}


def test_a_step_that_is_still_open_is_not_kept_with_the_log_position() -> None:
    sent = status(intents=(RAISE,))
    assert with_own_moves(sent, sent) == sent


def test_no_step_is_kept_beyond_the_bound_or_without_a_log_position() -> None:
    full = replace(HERE, own=("group.version:1",) * MAX_OWN)
    sent = status(intents=(RAISE,))
    assert with_own_moves(replace(sent, log_position=full), replace(status(), log_position=full)).log_position == full
    assert with_own_moves(EMPTY, EMPTY) == EMPTY


def test_level_changes_of_a_feature_with_an_open_step_are_judged_once_the_step_is_settled() -> None:
    sent = status(intents=(RAISE,))
    moves: dict[str, Moves] = {"group.version": ((101, 1), (102, 0)), "share.version": ((103, 1),)}
    assert unremembered(moves, before=sent) == {"share.version"}


def test_level_changes_read_from_earlier_parts_of_the_log_count_once() -> None:
    earlier: dict[str, Moves] = {"group.version": ((101, 1), (105, 0)), "share.version": ((102, 1),)}
    unremembered = moved_unremembered(
        status(), status(), observation_with_changes({"group.version": ((105, 0), (110, 1))}), earlier
    )
    assert unremembered == {"group.version": ((101, 1), (105, 0), (110, 1)), "share.version": ((102, 1),)}


UP, DOWN = "group.version 0 -> 1", "group.version 1 -> 0"


@pytest.mark.parametrize(
    ("last_seen", "own", "levels", "is_foreign"),
    [
        pytest.param(1, (), (1,), False, id="the cluster began with the level"),
        pytest.param(2, (), (1, 0, 2), False, id="others changed it before it was last seen"),
        pytest.param(1, (UP,), (1,), False, id="own raise"),
        pytest.param(0, (UP,), (1,), False, id="own raise, settled by this reading"),
        pytest.param(1, (UP, DOWN, UP), (1, 0, 1), False, id="three own changes"),
        pytest.param(1, (UP,), (1, 0, 1), True, id="one own raise of two: which of them was seen is not known"),
        pytest.param(1, (), (1, 0), True, id="lowered since it was last seen"),
        pytest.param(0, (), (1, 0), True, id="raised and lowered since it was last seen"),
        pytest.param(0, (), (0,), True, id="the beginning of the log is gone"),
        pytest.param(None, (), (1,), True, id="never seen before"),
        pytest.param(1, (), (), False, id="no change in the log"),
    ],
)
def test_without_a_log_position_a_level_counts_as_changed_unless_its_last_change_is_known(
    last_seen: int | None, own: tuple[str, ...], levels: tuple[int, ...], is_foreign: bool
) -> None:
    """`last_seen`: the level in the status; `own`: changes in its history; `levels`: changes in the log."""
    before = replace(EMPTY, cluster_id="c", features=(FeatureStatus(name="group.version", finalized=last_seen),))
    after = replace(before, history=tuple(HistoryEntry(at=AT, action=action, result="Applied") for action in own))
    moves = tuple(enumerate(levels, start=90))
    shown: dict[str, Moves] = {"group.version": moves} if moves else {}
    assert moved_unremembered(before, after, observation_with_changes(shown), {}) == (shown if is_foreign else {})
    assert unremembered(shown, before=replace(before, cluster_id=""), after=after) == set()  # a first contact
    assert unremembered(shown, before=before, after=replace(after, intents=(RAISE,))) == set()  # judged later


# --- consents and plans that end with a level change of others ---


CONSENTS = ("dynamic-quorum", "group.version:1->0", "group.version:2->1", "share.version:1->0")


@pytest.mark.parametrize(
    ("plan", "moves", "spent"),
    [
        (planned(), {"group.version": ((101, 2),)}, ("group.version:1->0", "group.version:2->1")),
        (planned(), {"share.version": ((101, 2),)}, ()),
        (None, {"group.version": ((101, 0), (102, 1))}, ("group.version:1->0",)),  # its very change was made
        (None, {"group.version": ((101, 1),)}, ("group.version:2->1",)),  # from which level is not known
        (None, {"group.version": ((101, 2), (102, 0))}, ()),  # another one was made
    ],
    ids=[
        "plan of the feature",
        "another feature",
        "downgrade made",
        "downgrade from an unknown level",
        "other changes",
    ],
)
def test_a_consent_is_spent_once_a_plan_of_its_feature_ends_or_its_downgrade_was_made(
    plan: PlanStatus | None, moves: dict[str, Moves], spent: tuple[str, ...]
) -> None:
    before = status(plan=plan)
    after = void_after(before, before, CONSENTS, moves)
    assert after.spent_consents == spent


def test_the_first_level_change_of_a_wholly_read_log_starts_at_level_0() -> None:
    before = replace(status(), log_position=None)
    assert void_after(before, before, CONSENTS, {"group.version": ((101, 1),)}).spent_consents == ()
    lowered: dict[str, Moves] = {"group.version": ((5, 2), (101, 1))}
    assert void_after(before, before, CONSENTS, lowered).spent_consents == ("group.version:2->1",)


def test_a_plan_whose_level_was_changed_by_others_is_over_and_counts_as_one_change() -> None:
    before = status(plan=planned("group.version"), change_count=3)
    by_others: dict[str, Moves] = {"group.version": ((101, 0),)}
    after = void_after(before, before, consents=(), moved=by_others)
    assert (after.plan, after.change_count) == (None, 4)


def test_a_change_by_others_is_not_counted_again_if_the_end_of_the_own_step_was_counted() -> None:
    before = status(plan=planned("group.version"), change_count=3)
    counted = replace(before, change_count=4)
    by_others: dict[str, Moves] = {"group.version": ((101, 0),)}
    assert void_after(before, counted, consents=(), moved=by_others).change_count == 4


def test_a_change_by_others_of_another_feature_ends_no_plan() -> None:
    before = status(plan=planned("group.version"), change_count=3)
    by_others: dict[str, Moves] = {"share.version": ((101, 1),)}
    after = void_after(before, before, consents=(), moved=by_others)
    assert (after.plan, after.change_count) == (before.plan, 3)


# --- the recognition of another log ---


@pytest.mark.parametrize(
    ("end", "is_missing"),
    [((100, 4), False), ((99, 4), True), ((99, 9), True), ((500, 3), True), ((100, 5), False)],
    ids=["the same end", "lower offset", "lower offset, newer epoch", "older epoch", "newer epoch"],
)
def test_a_log_that_ends_at_a_lower_offset_or_older_epoch_is_another_log(
    end: tuple[int, int], is_missing: bool
) -> None:
    """The position in the status is offset 100 in epoch 4."""
    offset, epoch = end
    observation = observation_with_changes(offset=offset, epoch=epoch)
    assert missing_in(observation, status(), None) == (HERE if is_missing else None)
    assert missing_in(observation, EMPTY, HERE) == (HERE if is_missing else None)


def test_a_log_that_ends_before_the_offset_of_a_sent_step_is_another_log() -> None:
    sent = replace(EMPTY, intents=(RAISE,))
    assert missing_in(observation_with_changes(offset=99), sent, None) == LogPosition(offset=100, epoch=-1)
    assert missing_in(observation_with_changes(offset=100), sent, None) is None


def test_without_the_metadata_log_an_observation_has_no_log_position() -> None:
    without_log = replace(observation(), source=Source(SourceKind.API_REQUESTS, at=NOW))
    assert position_of(without_log) is None
    assert missing_in(without_log, status(), HERE) is None
