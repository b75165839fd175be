"""Statuses that an older release wrote in the midst of its work: read, written unchanged, and continued from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from itertools import groupby

import pytest

from kafkafeatures.api.status import read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.kinds import in_flight
from tests.amounts import some
from tests.kafkafeatures.reconcile.stories import BROKERS, CONTROLLERS, STORIES, Json, Scene, recorded

REMEMBERED = ("intents", "history", "changeCount", "spentConsents", "rollout", "soakStartedAt", "logPosition", "plan")
"""Fields on which the next reconciliation depends. The texts of conditions, plans and waits may change."""


def remembered(status: Json) -> Json:
    """Return the fields that an older release had: no revisions, causes of manual restarts or directories."""
    fields = {name: status[name] for name in REMEMBERED if name in status}
    plan, rollout = fields.get("plan", {}), dict(fields.get("rollout", {}))
    for name in ("waitingFor", "waitingSince", "revisions", "disks"):
        rollout.pop(name, None)
    for name in {"intents", "history"} & fields.keys():
        fields[name] = [_as_before(entry) for entry in fields[name]]
    return {**fields, "rollout": rollout, "plan": {name: plan.get(name) for name in ("hash", "stages", "approvedBy")}}


def _as_before(restart: Json) -> Json:
    is_by_hand = str(restart.get("after", "")).startswith("metadata.version ")
    return {name: value for name, value in restart.items() if name != "after" or not is_by_hand}


def as_sent(status: Json) -> str:
    return json.dumps(status, sort_keys=True)


def without_repeats(statuses: Iterable[Json]) -> list[str]:
    """Return the statuses whose remembered fields differ from those of the status before."""
    return [text for text, _ in groupby(as_sent(remembered(status)) for status in statuses)]


@pytest.mark.parametrize("story", STORIES)
def test_every_field_of_a_recorded_status_is_known_and_written_unchanged(story: str) -> None:
    for status in recorded(story):
        read, invalid = read_status(json.loads(as_sent(status)))
        assert not invalid
        assert not read.unknown
        assert as_sent(read.as_json()) == as_sent(status)


@pytest.mark.parametrize("story", STORIES)
def test_each_recorded_intent_is_read_as_a_step_that_is_written_with_the_same_fields(story: str) -> None:
    intents = [intent for status in recorded(story) for intent in read_status(status)[0].intents]
    assert intents
    for intent in intents:
        sent = in_flight(intent)
        assert isinstance(sent, InFlight)
        assert sent.to_intent() == intent
        made = replace(sent, intent=None).to_intent()
        assert as_sent(made.as_json()) == as_sent(intent.as_json())


@pytest.mark.parametrize("story", STORIES)
def test_this_release_writes_the_recorded_status_at_each_step_of_a_story(story: str) -> None:
    """An older release can also continue from a status of this release, after a downgrade of the operator."""
    scene = asyncio.run(STORIES[story]())
    assert without_repeats(scene.store.written) == without_repeats(recorded(story))


class Upgrade:
    """An upgrade of the operator in the middle of a story: once `at` statuses were written, the next one of the older
    release (`before`) is in the resource, and a new process begins.
    """

    def __init__(self, before: list[Json], at: int) -> None:
        self.before, self.at, self.done = before, at, False

    def __call__(self, scene: Scene) -> None:
        if not self.done and len(scene.store.written) >= self.at:
            self.done = True
            scene.store.status = self.before[len(scene.store.written) - 1]
            scene.restart_process()


@pytest.mark.parametrize("at", some([2, 4, 17, 28, 43]))
def test_a_roll_that_an_older_release_began_is_completed_without_restarting_a_node_twice(at: int) -> None:
    upgrade = Upgrade(recorded("roll"), at)
    scene = asyncio.run(STORIES["roll"](upgrade))
    assert upgrade.done
    restarted = [entry["target"] for entry in scene.store.status["history"] if entry.get("kind") == "RestartNode"]
    assert sorted(restarted) == sorted({*restarted})
    assert len(restarted) == len(CONTROLLERS) + len(BROKERS)
    assert scene.store.status["rollout"]["restarted"] == len(restarted)
    assert scene.store.status["metadataVersion"] == "4.4-IV0"


@pytest.mark.parametrize("at", some(range(1, 9)))
def test_a_level_change_that_an_older_release_sent_is_settled_and_made_once(at: int) -> None:
    upgrade = Upgrade(recorded("levels"), at)
    scene = asyncio.run(STORIES["levels"](upgrade))
    assert upgrade.done
    results = [(entry["action"], entry["result"]) for entry in scene.store.status["history"]]
    assert results.count(("group.version 1 -> 0", "Applied")) == 1
    assert scene.store.status["changeCount"] == recorded("levels")[-1]["changeCount"]
