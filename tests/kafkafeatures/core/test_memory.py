"""The end of a step as it is written into the history of a status."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import EMPTY, Intent, Result, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.levels.update_feature import ChangeInFlight, UpdateFeature
from kafkafeatures.core.report.history import with_result

AT = Stamp("2026-01-02T03:04:05Z")


@pytest.mark.parametrize("result", [Result.APPLIED, Result.NOT_APPLIED, Result.SUPERSEDED])
def test_a_change_that_has_ended_closes_its_own_intent_and_no_other(result: Result) -> None:
    ended, other = (
        ChangeInFlight(UpdateFeature(name, 0, 1), AT, Via.CONTROLLER) for name in ("group.version", "share.version")
    )
    unknown = Intent(kind="OfAnotherRelease")
    before = replace(EMPTY, intents=(other.to_intent(), ended.to_intent(), unknown))
    after = with_result(before, ended, result, at=AT, age_of=lambda _: timedelta(0))
    assert after.intents == (other.to_intent(), unknown)
    assert [entry.action for entry in after.history] == ["group.version 0 -> 1"]


@pytest.mark.parametrize(("via", "kept_time"), [(Via.BROKER, "the last time"), (Via.CONTROLLER, "the first time")])
def test_a_change_that_is_rejected_again_has_one_history_entry_with_the_last_time_if_a_broker_rejects_it(
    via: Via, kept_time: str
) -> None:
    """A broker may forward each of the two requests once more, for some minutes after the last one."""
    status, later = EMPTY, Stamp("2026-01-02T03:14:05Z")
    for at in (AT, later):
        sent = ChangeInFlight(UpdateFeature("group.version", 0, 1), at, via)
        status = with_result(status, sent, Result.REJECTED, at=at, age_of=lambda _: timedelta(0), message="no")
    assert [entry.at for entry in status.history] == [later if kept_time == "the last time" else AT]
