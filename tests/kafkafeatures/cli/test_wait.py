"""What `wait` concludes from one reading of a resource."""

from __future__ import annotations

import argparse
import time
from typing import Any, cast

import pytest

from kafkafeatures.cli import wait
from kafkafeatures.cli.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.kube import Away, Denied, Kube
from kafkafeatures.cli.kube_resource import KubeResource
from kafkafeatures.cli.wait import Ending, Goal, _goal, _until, judge, progress
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource

READY, HERE, MORE = Goal(), Goal("metadata.version", 21), Goal("metadata.version", 27)


def approved(**more: Any) -> KubeResource:
    status = statuses.waiting_for_approval()
    return resource(status, annotations={"kafkafeatures.dev/approve": status["plan"]["hash"], **more})


@pytest.mark.parametrize(
    ("found", "goal", "code"),
    [
        (resource(), READY, None),
        (resource(), HERE, None),
        (resource(statuses.in_sync()), READY, Exit.DONE),
        (resource(statuses.in_sync(1), generation=2), READY, None),
        (resource(statuses.observed()), READY, Exit.DONE),
        (resource(statuses.acting()), READY, None),
        (resource(statuses.suspended()), READY, None),
        (resource(statuses.stalled()), READY, Exit.STALLED),
        (resource(statuses.stalled(1), generation=2), READY, None),
        (resource(statuses.waiting_for_approval()), READY, Exit.APPROVAL),
        (resource(statuses.waiting_for_approval(1), generation=2), READY, None),
        (approved(), READY, None),
        (resource(statuses.unreachable(statuses.in_sync())), READY, None),
        (resource(statuses.in_sync()), HERE, Exit.DONE),
        (resource(statuses.in_sync(1), generation=2), HERE, Exit.DONE),
        (resource(statuses.stalled()), HERE, Exit.DONE),
        (resource(statuses.waiting_for_approval()), HERE, Exit.DONE),
        (resource(statuses.in_sync()), MORE, None),
        (resource(statuses.stalled()), MORE, Exit.STALLED),
        (resource(statuses.waiting_for_approval()), MORE, Exit.APPROVAL),
        (approved(), MORE, None),
        (resource(statuses.unreachable(statuses.in_sync())), HERE, None),
        (resource(statuses.in_sync()), Goal("no.such", 1), None),
    ],
)
def test_what_is_concluded(found: KubeResource, goal: Goal, code: Exit | None) -> None:
    ending = judge(found, goal)
    assert (ending.code if ending else None) == code


def test_what_ends_it_early_says_what_to_do() -> None:
    stalled, approval = (
        judge(resource(statuses.stalled()), READY),
        judge(resource(statuses.waiting_for_approval()), READY),
    )
    assert stalled is not None
    assert "start a controller with id 3003 on the new Kafka once" in stalled.text
    assert approval is not None
    assert "kafkafeatures approve orders -n kafka --plan sha256:" in approval.text


@pytest.mark.parametrize(
    ("found", "goal", "line"),
    [
        (resource(), READY, "not reconciled yet"),
        (resource(statuses.in_sync(1), generation=2), READY, "generation 2 is not reconciled yet"),
        (resource(statuses.acting()), READY, "UpdatingFeatures: metadata.version 21 -> 27"),
        (resource(statuses.acting()), Goal("group.version", 1), "group.version is at 0; UpdatingFeatures: "),
        (resource(statuses.in_sync()), MORE, "metadata.version is at 21 (3.9-IV0), and the document does not"),
        (resource(), HERE, "metadata.version is at an unknown level"),
    ],
)  # fmt: skip
def test_on_the_way_it_says_where_it_is(found: KubeResource, goal: Goal, line: str) -> None:
    assert progress(found, goal).startswith(line)


class Readings:
    """What is read, one after the other: resources, and failures that are raised."""

    namespace, patience = "kafka", 0.0

    def __init__(self, *readings: KubeResource | CommandFailed) -> None:
        self._readings = list(readings)

    def resource(self, _: str) -> KubeResource:
        reading = self._readings.pop(0)
        if isinstance(reading, CommandFailed):
            raise reading
        return reading


def until(*readings: KubeResource | CommandFailed) -> Ending:
    return _until(cast(Kube, Readings(*readings)), "orders", READY, time.monotonic() + 60)


AWAY, DENIED = Away("away", Exit.UNREACHABLE), Denied("not allowed", Exit.BLOCKED)


def test_what_was_readable_is_not_given_up_for_a_refusal_that_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An API server that starts answers 401 and 403 until it has read who may what."""
    monkeypatch.setattr(wait, "EVERY", 0.0)
    acting, done = resource(statuses.acting()), resource(statuses.in_sync())
    assert until(AWAY, acting, AWAY, AWAY, DENIED, acting, done).code is Exit.DONE
    line = "UpdatingFeatures: metadata.version 21 -> 27"
    assert capsys.readouterr().err.splitlines() == ["away", line, "away", "not allowed", line]


def test_a_refusal_that_does_not_pass_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "EVERY", 0.0)
    with pytest.raises(Denied):
        until(AWAY, DENIED)
    monkeypatch.setattr(wait, "GRACE", 0.0)
    with pytest.raises(Denied):
        until(resource(statuses.acting()), DENIED)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("ready", READY),
        ("Ready", READY),
        ("feature=group.version>=1", Goal("group.version", 1)),
        ("feature=metadata.version>=27", MORE),
        ("feature=metadata.version>=4.1-IV1", MORE),
        ("feature=metadata.version>=4.1", MORE),
    ],
)
def test_goals_that_are_understood(text: str, goal: Goal) -> None:
    assert _goal(text) == goal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "condition=Ready",
        "feature=group.version",
        "feature=group.version=1",
        "feature=group.version>=0",
        "feature=group.version>=-1",
        "feature=group.version>=4.1-IV1",
        "feature=metadata.version>=9.9",
        "feature=Group>=1",
    ],
)
def test_goals_that_are_not(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        _goal(text)
