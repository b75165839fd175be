"""Sending a change: first a connection, then the intent, then the request within seconds; and settling a change without
an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.settling import BROKER_KEEPS, DELIVERED_WITHIN, ON_ITS_WAY, SEND_WITHIN
from kafkafeatures.core.engine.steps import Applied, DryRun, DryRunRejected, DryRunUnavailable, NotSent, OutcomeUnknown
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.ports import PreparedUpdate
from kafkafeatures.kube.client import REQUEST_TIMEOUT
from kafkafeatures.reconcile.act import Reconciliation
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.operators import HAND_OVER
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, context_of, once, reconcile_once, run

BEGIN = {"metadata.version": 21}
LOWERED = DesiredState({"share.version": 0}, consents=frozenset({"share.version:1->0"}))


class Watched(Cluster):
    """A cluster that records connections and changes in `happened`. `refuses`: no connection is opened; `meanwhile`:
    what happens right before a connection is opened.
    """

    def __init__(self, levels: dict[str, int]) -> None:
        super().__init__(levels)
        self.happened: list[str] = []
        self.refuses = False
        self.meanwhile: Callable[[], object] = lambda: None
        self.verdicts: list[DryRun] = []
        self.behind: list[Sequence[UpdateFeature]] = []
        """Dry runs of the current level, which the controller answers only after requests sent before; `verdicts`:
        their results, if not Kafka's own.
        """

    @asynccontextmanager
    async def prepared(self, change: UpdateFeature) -> AsyncIterator[PreparedUpdate | NotSent]:
        self.meanwhile()
        async with super().prepared(change) as request:
            self.happened.append("connected")
            yield NotSent("no connection within 10 s") if self.refuses else request

    async def update(self, change: UpdateFeature) -> NotSent | OutcomeUnknown:
        self.happened.append("sent")
        return await super().update(change)  # type: ignore[return-value]

    async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        verdict = await super().validate(changes, directly=directly)
        if any(change.from_level != change.to_level for change in changes):
            return verdict  # the dry run of a change
        self.behind.append(changes)
        return self.verdicts.pop(0) if self.verdicts else verdict


class Watching(Store):
    """A store that records writes in `happened`. `while_intent_is_written`: what happens meanwhile."""

    def __init__(self, cluster: Watched, levels: dict[str, int]) -> None:
        super().__init__(cluster, levels)
        self.happened = cluster.happened
        self.while_intent_is_written: Callable[[], object] = lambda: None

    async def write_status(self, status: Status) -> None:
        self.happened.append("intent" if status.intents else "status")
        await super().write_status(status)
        if status.intents:
            self.while_intent_is_written()


# --- the order ---


def test_the_connection_is_open_before_the_intent_is_written() -> None:
    cluster = Watched(BEGIN)
    once(cluster, Watching(cluster, {"metadata.version": 27}))
    assert cluster.happened[:3] == ["connected", "intent", "sent"]


def test_without_a_connection_no_intent_is_written_and_the_failure_is_recorded_once() -> None:
    cluster = Watched(BEGIN)
    store = Watching(cluster, {"metadata.version": 27})
    cluster.refuses = True
    for _ in range(3):
        assert isinstance(once(cluster, store).outcome, NotSent)
    assert cluster.happened == ["connected", "status", "connected", "connected"]
    (entry,) = store.status["history"]
    assert (entry["result"], entry["message"]) == ("NotSent", "no connection within 10 s")
    cluster.refuses = False
    assert isinstance(run(cluster, store).decision, Done)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


def reconcile_timed(cluster: Cluster, store: Store, clock: Clock) -> Reconciliation:
    return asyncio.run(reconcile_once(context_of(cluster, store, monotonic=clock)))


@pytest.mark.parametrize(
    ("seconds", "leaves"),
    [(SEND_WITHIN.total_seconds(), True), (10.1, False), (38.0, False)],
    ids=["at the last moment", "just too late", "much too late"],
)
def test_a_change_is_not_sent_later_than_ten_seconds_after_its_intent(seconds: float, leaves: bool) -> None:
    """The next operator process waits for requests that may be on their way for a limited time, and relies on this."""
    cluster, clock = Watched({"metadata.version": 27, "share.version": 1}), Clock()
    store = Watching(cluster, {})
    store.wanted = LOWERED
    store.while_intent_is_written = lambda: clock.wait(seconds)
    last = reconcile_timed(cluster, store, clock)
    assert isinstance(last.outcome, NotSent) is not leaves
    assert cluster.levels.get("share.version", 0) == (0 if leaves else 1)
    if not leaves:
        assert "within 10 s or not at all" in store.status["history"][-1]["message"]
        assert not store.status.get("spentConsents")
        assert "intents" not in store.status


def test_a_successor_waits_longer_than_a_request_of_its_predecessor_may_take() -> None:
    """The successor counts from the moment when it reads the intent, which is later than the time
    when it was written.
    """
    sent_at_the_latest = SEND_WITHIN.total_seconds()
    assert sent_at_the_latest >= REQUEST_TIMEOUT  # else an intent that is written slowly could never be carried out
    delivered_at_the_latest = sent_at_the_latest + DELIVERED_WITHIN.total_seconds()
    assert delivered_at_the_latest * 1.25 < ON_ITS_WAY.total_seconds() == HAND_OVER


# --- the level it starts from ---


@pytest.mark.parametrize("late", [False, True], ids=["before the intent", "while the intent is written"])
def test_a_downgrade_is_not_sent_if_the_level_is_not_the_one_of_the_consent(late: bool) -> None:
    """The consent is for 21 -> 20; another client raises the level to 27 between the reading and the request."""
    cluster = Watched({"metadata.version": 21})
    store = Watching(cluster, {})
    store.wanted = DesiredState({"metadata.version": 20}, consents=frozenset({"metadata.version:21->20"}))

    def moved() -> None:
        if cluster.levels["metadata.version"] == 21:
            assert cluster.move("metadata.version", 27)

    if late:
        store.while_intent_is_written = moved
    else:
        cluster.meanwhile = moved
    last = once(cluster, store)
    assert isinstance(last.outcome, NotSent)
    assert cluster.levels["metadata.version"] == 27
    assert cluster.sent == []
    assert store.status["history"][-1]["result"] == "NotSent"
    assert not store.status.get("spentConsents")
    assert isinstance(once(cluster, store).decision, Stalled)  # a downgrade from 27 has no consent


# --- through a broker ---


def test_a_change_sent_through_a_broker_is_not_reverted_while_the_broker_may_send_it_again() -> None:
    """Otherwise the level, lowered with a consent, would be raised again once the broker sends the
    request once more.
    """
    cluster, clock = Watched({"metadata.version": 27, "share.version": 0}), Clock()
    cluster.through_broker = True
    store, ages = Store(cluster, {"share.version": 1}), Ages(clock)

    def reconcile_again() -> Reconciliation:
        context = replace(context_of(cluster, store, monotonic=clock), ages=ages)
        return asyncio.run(reconcile_once(context))

    for _ in range(3):
        last = reconcile_again()
    assert isinstance(last.decision, Done)
    assert [(entry["result"], entry.get("via")) for entry in store.status["history"]] == [("Applied", "Broker")]
    store.wanted = LOWERED
    reconcile_again()
    clock.wait(BROKER_KEEPS.total_seconds() - 61)  # with the 30 s and 31 s below, as long as a broker keeps the change
    last = reconcile_again()
    assert isinstance(last.decision, Wait)
    assert last.decision.reason is Reason.VERIFYING
    assert "a broker forwarded the last change of share.version" in last.decision.message
    message = last.decision.message
    clock.wait(30)
    assert getattr(reconcile_again().decision, "message", "") == message  # no other message, so no write, each minute
    assert cluster.levels["share.version"] == 1
    assert not store.status.get("spentConsents")
    clock.wait(31)
    assert isinstance(reconcile_again().outcome, Applied)
    assert cluster.levels.get("share.version", 0) == 0


def test_an_open_outcome_of_one_feature_does_not_hold_up_another_feature() -> None:
    cluster = Watched({"metadata.version": 25, "share.version": 0})
    cluster.through_broker = True
    store = Store(cluster, {"metadata.version": 27, "share.version": 1})
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 2


def test_a_change_sent_directly_to_the_active_controller_may_be_reverted_at_once() -> None:
    cluster = Watched({"metadata.version": 27, "share.version": 0})
    store = Store(cluster, {"share.version": 1})
    assert isinstance(run(cluster, store).decision, Done)
    assert "via" not in store.status["history"][-1]  # no broker forwarded it
    store.wanted = LOWERED
    assert isinstance(run(cluster, store).decision, Done)


# --- changes without an answer ---


def with_queued_request(cluster: Watched, store: Store, verdict: DryRun) -> Reconciliation:
    """Leave a request without an answer in the controller's queue, with this result of the next four dry runs."""
    cluster.outcomes = [OutcomeUnknown("no answer within 10 s")]
    once(cluster, store)
    cluster.verdicts = [verdict] * 4
    for _ in range(4):
        last = once(cluster, store)
    return last


@pytest.mark.parametrize(
    "verdict",
    [
        DryRunUnavailable("127.0.0.1:9093: no answer within 10 s"),
        DryRunUnavailable("UpdateFeatures needs ALTER on the cluster; grant it", rights=True),
        DryRunRejected(42, "not a request"),  # Kafka decides this before the request is queued
    ],
    ids=["no answer", "no right", "invalid request"],
)
def test_a_change_is_reported_as_not_applied_only_after_a_later_dry_run_was_answered(
    verdict: DryRunUnavailable | DryRunRejected,
) -> None:
    """Kafka's controller has no deadline for queued requests. That its high watermark moves does not show that its
    queue does.
    """
    cluster = Watched(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    last = with_queued_request(cluster, store, verdict)
    assert isinstance(last.decision, Wait | Stalled)
    denied = isinstance(verdict, DryRunUnavailable) and verdict.rights
    assert last.decision.reason is (Reason.NOT_AUTHORIZED if denied else Reason.VERIFYING)
    assert "the active controller has to answer a dry run (validateOnly)" in last.decision.message
    message = verdict.message if isinstance(verdict, DryRunRejected) else verdict.reason
    assert message in last.decision.message
    assert len(cluster.sent) == 1
    assert len(store.status["intents"]) == 1
    assert cluster.move("metadata.version", 27)  # now it comes
    assert isinstance(run(cluster, store).decision, Done)
    assert [entry["result"] for entry in store.status["history"]] == ["Applied"]


def test_an_answered_dry_run_proves_that_the_earlier_change_is_no_longer_queued() -> None:
    cluster = Watched(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    last = with_queued_request(cluster, store, DryRunUnavailable("no answer"))
    assert isinstance(last.decision, Wait)
    cluster.verdicts = [DryRunRejected(95, "Invalid update version")]
    once(cluster, store)
    assert [entry["result"] for entry in store.status["history"]] == ["NotApplied"]
    assert isinstance(run(cluster, store).decision, Done)


def test_the_dry_run_behind_a_change_asks_for_the_current_level() -> None:
    """Kafka accepts a dry run of the current level in any case, so its answer only shows that the queue moves."""
    cluster = Watched(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    with_queued_request(cluster, store, DryRunUnavailable("no answer"))
    assert cluster.behind[-1] == (UpdateFeature("metadata.version", 21, 21),)


def test_a_dry_run_answered_by_a_newly_elected_leader_proves_nothing() -> None:
    cluster = Watched(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)

    async def elected(seconds: float) -> None:
        leader = cluster.world.active_node
        assert leader is not None
        cluster.world.stop(leader.role, leader.id, kill=True)
        await cluster.sleep(5.0)
        cluster.world.start(leader.role, leader.id)

    last = asyncio.run(reconcile_once(context_of(cluster, store, sleep=elected)))
    assert cluster.behind[-1] == (UpdateFeature("metadata.version", 21, 21),)
    assert isinstance(last.decision, Wait)
    assert len(store.status["intents"]) == 1
