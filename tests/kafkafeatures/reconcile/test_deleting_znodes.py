"""The ZooKeeper transaction of a rollback, sent and settled: first a session, then the intent, then the transaction in
this session; and the content of `/migration` is in the status before it is deleted.

A test gives the step as decided; real ZooKeeper carries it out in tests/e2e.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.desired_state import Rollout, Window
from kafkafeatures.core.engine.settling import ON_ITS_WAY
from kafkafeatures.core.engine.steps import Applied, NotSent, OutcomeUnknown, Rejected
from kafkafeatures.core.facts.znodes import ControllerEpoch
from kafkafeatures.core.migration.delete_znodes import BAD_VERSION, NO_AUTH, DeleteZnodes
from kafkafeatures.core.migration.release import release, withdraw
from kafkafeatures.reconcile.act import Reconciliation, execute, with_decision
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import EffectRecord, ReconcileContext
from kafkafeatures.reconcile.evaluate import evaluate
from kafkafeatures.reconcile.evaluation import Evaluation
from tests.kafkafeatures.ensembles import Ensemble, elected, progress
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, context_of, reconcile_once

LEVELS = {"metadata.version": 21}
ID = Cluster(LEVELS).world.cluster_id
reading = partial(znodes, cluster_id=ID)
RELEASED = reading(controller=elected(), migration=None, controller_epoch=ControllerEpoch(9, 7))


def released() -> DeleteZnodes:
    """The step that deletes `/controller` and `/migration`."""
    step = release(reading(), partition_epoch=7)
    assert isinstance(step, DeleteZnodes)
    return step


def withdrawn() -> DeleteZnodes:
    """The step that deletes `/migration` alone."""
    step = withdraw(reading(controller=elected(), migration=progress(-1)))
    assert isinstance(step, DeleteZnodes)
    return step


class Watching(Store):
    """A store that records its writes among the events of the ensemble. `meanwhile`: called while
    an intent is written.
    """

    def __init__(self, cluster: Cluster, ensemble: Ensemble) -> None:
        super().__init__(cluster, LEVELS)
        self.happened = ensemble.happened
        self.meanwhile: Callable[[], object] = lambda: None

    async def write_status(self, status: Status) -> None:
        self.happened.append("intent" if status.intents else "status")
        await super().write_status(status)
        if status.intents:
            self.meanwhile()


class Scene:
    """A resource in sync, its cluster and its ensemble. `seconds`: time of the monotonic clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cluster, self.ensemble = Cluster(LEVELS), Ensemble(reading())
        self.store = Watching(self.cluster, self.ensemble)
        self.effects: list[EffectRecord] = []
        self.settled = 0
        self.ages = Ages(lambda: self.seconds)

    def context(self, **parts: Any) -> ReconcileContext:
        context = replace(
            context_of(self.cluster, self.store, monotonic=lambda: self.seconds), zookeeper=self.ensemble,
            ages=self.ages, effects=self.effects.append, on_settled=self._settled,
        )  # fmt: skip
        return replace(context, **parts)

    def sends(self, step: DeleteZnodes, **parts: Any) -> Reconciliation:
        """Reconcile, with the decision to send this step."""

        async def decided() -> Reconciliation:
            context = self.context(**parts)
            evaluation = await evaluate(context, await self.store.read())
            assert isinstance(evaluation, Evaluation)
            self.ensemble.happened.clear()
            return await execute(context, with_decision(context, evaluation, Act(step), evaluation.remembered))

        return asyncio.run(decided())

    def looks(self) -> Reconciliation:
        """Reconcile."""
        return asyncio.run(reconcile_once(self.context()))

    @property
    def history(self) -> list[tuple[str, str]]:
        return [(entry["kind"], entry["result"]) for entry in self.store.status.get("history", ())]

    def _settled(self) -> None:
        self.settled += 1


def test_a_deletion_opens_its_session_then_writes_its_intent_then_sends_its_transaction() -> None:
    scene = Scene()
    last = scene.sends(released())
    assert isinstance(last.outcome, Applied)
    assert scene.ensemble.happened == ["connected", "intent", "/controller and /migration", "intent", "closed"]
    (intent,) = scene.store.status["intents"]
    assert (intent["via"], intent["kept"], intent["raiseTo"]) == ("ZooKeeper", progress().text, 8)
    assert [str(effect.step) for effect in scene.effects] == [str(released())]
    assert scene.settled == 1


def test_deleted_znodes_are_verified_and_their_content_is_kept_in_the_history() -> None:
    scene = Scene()
    scene.sends(released())
    scene.ensemble.found = RELEASED
    scene.looks()
    assert scene.history == [("DeleteZnodes", "Applied")]
    assert "intents" not in scene.store.status
    assert scene.store.status["migration"] == {"keptMigrationNode": progress().text}
    scene.looks()
    assert scene.store.status["migration"] == {"keptMigrationNode": progress().text}


@pytest.mark.parametrize("known", [True, False], ids=["no session", "no ensemble"])
def test_a_deletion_without_a_session_writes_no_intent_and_is_recorded_once(known: bool) -> None:
    scene = Scene()
    scene.ensemble.refuses = True
    for _ in range(3):
        last = scene.sends(released(), zookeeper=scene.ensemble if known else None)
        assert isinstance(last.outcome, NotSent)
    assert "intents" not in scene.store.status
    assert scene.history == [("DeleteZnodes", "NotSent")]
    assert scene.effects == []


def test_a_deletion_with_an_open_outcome_is_not_repeated_and_holds_back_every_other_change() -> None:
    scene = Scene()
    scene.ensemble.outcomes = [OutcomeUnknown("no answer")]
    scene.sends(released())
    scene.store.wanted = replace(scene.store.wanted, levels={"metadata.version": 27})
    for _ in range(3):
        last = scene.looks().decision
        assert isinstance(last, Wait)
        assert last.reason is Reason.VERIFYING
        assert "ZooKeeper may still carry it out, until 30 s after it began" in last.message
    assert scene.cluster.sent == []
    assert scene.settled == 0
    scene.seconds += ON_ITS_WAY.total_seconds()
    scene.looks()
    assert scene.history[0] == ("DeleteZnodes", "NotApplied")
    assert not scene.store.status.get("spentConsents")
    assert "migration" not in scene.store.status
    assert len(scene.effects) == 1 + len(scene.cluster.sent)


def test_a_deletion_whose_answer_was_lost_is_settled_by_the_next_observation() -> None:
    scene = Scene()
    scene.ensemble.outcomes = [OutcomeUnknown("no answer")]
    scene.sends(released())
    scene.ensemble.found = RELEASED
    scene.looks()
    assert scene.history == [("DeleteZnodes", "Applied")]


@pytest.mark.parametrize(
    ("code", "reason", "stalled"),
    [(NO_AUTH, Reason.NOT_AUTHORIZED, True), (BAD_VERSION, Reason.MIGRATING, False)],
    ids=["no right", "znode changed"],
)
def test_a_rejected_deletion_leaves_no_intent(code: int, reason: Reason, stalled: bool) -> None:
    scene = Scene()
    scene.ensemble.outcomes = [Rejected(code, "znode /controller: because")]
    last = scene.sends(released())
    assert isinstance(last.decision, Stalled if stalled else Wait)
    assert last.decision.reason is reason
    assert "znode /controller: because" in last.decision.message
    assert "intents" not in scene.store.status
    assert not scene.store.status.get("spentConsents")
    assert scene.settled == 1


def test_windows_delay_the_deletion_of_migration_but_not_that_of_controller() -> None:
    """Without a controller (/controller is left of a stopped quorum) a cluster must not wait for a window."""
    never = Rollout(windows=(Window("0 0 29 2 *", timedelta(minutes=1)),))
    for step, leaves in ((released(), True), (withdrawn(), False)):
        scene = Scene()

        async def decided(scene: Scene = scene, step: DeleteZnodes = step) -> Reconciliation:
            context = scene.context()
            resource = await scene.store.read()
            resource = replace(resource, desired=replace(resource.desired, rollout=never))
            evaluation = await evaluate(context, resource)
            assert isinstance(evaluation, Evaluation)
            acting = replace(with_decision(context, evaluation, Act(step), evaluation.remembered), resource=resource)
            return await execute(replace(context, store=Windowed(scene.store, never)), acting)

        asyncio.run(decided())
        assert (step.target in scene.ensemble.happened) is leaves


class Windowed:
    """A store whose document has these windows, which `spec_of` does not write."""

    def __init__(self, store: Store, rollout: Rollout) -> None:
        self._store, self._rollout = store, rollout
        self.read, self.write_status = store.read, store.write_status

    async def read_again(self) -> Any:
        resource = await self._store.read_again()
        return replace(resource, desired=replace(resource.desired, rollout=self._rollout))


def test_a_deletion_that_is_late_after_its_intent_is_not_sent() -> None:
    scene = Scene()

    def wait() -> None:
        scene.seconds += 10.1  # a step is sent within 10 s of its intent (`SEND_WITHIN`)

    scene.store.meanwhile = wait
    last = scene.sends(released())
    assert isinstance(last.outcome, NotSent)
    assert released().target not in scene.ensemble.happened
    assert scene.history == [("DeleteZnodes", "NotSent")]


def test_a_stopping_process_leaves_a_deletion_to_its_successor() -> None:
    scene = Scene()
    scene.sends(released(), is_stopping=lambda: True)
    assert released().target not in scene.ensemble.happened
    assert scene.history == [("DeleteZnodes", "NotSent")]
