"""Waits are as long as they should be, with operator clocks that are wrong or are set."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import Status
from kafkafeatures.app import real_evidence
from kafkafeatures.core.engine.decisions import Act, Done, Stalled, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, OnDrift
from kafkafeatures.core.engine.memory import CONFLICT_WINDOW
from kafkafeatures.core.engine.settling import BROKER_KEEPS
from kafkafeatures.core.engine.steps import OutcomeUnknown
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kube.errors import Conflict
from kafkafeatures.metrics import Metrics
from kafkafeatures.reconcile.act import Reconciliation
from kafkafeatures.reconcile.ages import MAX_STAMPS, Ages
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.controller import Controller
from kafkafeatures.reconcile.operator_context import OperatorContext
from kafkafeatures.reconcile.operators import HAND_OVER
from tests.kafkafeatures.reconcile.rig import Kafka
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, lost_through_a_broker, reconcile_once
from tests.kafkafeatures.worlds import NOW
from tests.simulated.orders import KEY, Orders

DAY = timedelta(days=1)
JUMPS = pytest.mark.parametrize(
    "jump", [-DAY, timedelta(0), DAY], ids=["clock set back", "clock not set", "clock set ahead"]
)


@dataclass
class Clocks:
    """A wall clock that can be set forward and back, and a monotonic clock (`seconds`)."""

    wall: datetime = NOW
    seconds: float = 1000.0
    ages: Ages = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin a new process, which has measured no time itself."""
        self.ages = Ages(lambda: self.seconds)

    def wait(self, time: timedelta) -> None:
        self.wall += time
        self.seconds += time.total_seconds()

    def reconcile(self, cluster: Cluster, store: Store) -> Reconciliation:
        return asyncio.run(
            reconcile_once(
                ReconcileContext(
                    store,
                    cluster,
                    Environment(clock=lambda: self.wall, sleep=cluster.sleep),
                    self.ages,
                    hand_over=HAND_OVER,
                )
            )
        )


@JUMPS
def test_setting_the_clock_does_not_change_how_long_a_request_kept_by_a_broker_is_waited_for(jump: timedelta) -> None:
    (cluster, store), clocks = lost_through_a_broker(), Clocks()
    clocks.reconcile(cluster, store)
    clocks.wall += jump
    for _ in range(4):
        assert isinstance(clocks.reconcile(cluster, store).decision, Wait)
        clocks.wait(BROKER_KEEPS / 5)
        clocks.wall -= jump / 2
    assert isinstance(clocks.reconcile(cluster, store).decision, Wait)
    assert len(cluster.sent) == 1
    clocks.wait(BROKER_KEEPS / 5)
    assert isinstance(clocks.reconcile(cluster, store).decision, Act)
    assert len(cluster.sent) == 2


@JUMPS
def test_a_request_of_an_earlier_process_is_waited_for_as_long_as_a_broker_may_keep_it(jump: timedelta) -> None:
    (cluster, store), clocks = lost_through_a_broker(), Clocks(NOW + jump)
    clocks.reconcile(cluster, store)
    clocks.wall = NOW
    clocks.restart()
    assert isinstance(clocks.reconcile(cluster, store).decision, Wait)
    clocks.wait(BROKER_KEEPS)
    assert isinstance(clocks.reconcile(cluster, store).decision, Act)
    assert len(cluster.sent) == 2


@JUMPS
def test_only_an_intent_of_another_process_may_still_be_on_its_way(jump: timedelta) -> None:
    """The former process may still run, if its pod was deleted with force or its Kubernetes node was lost. So an intent
    is settled at once by the process that wrote it, and by another process only after its request must have arrived.
    """
    clocks = Clocks(NOW + jump)
    cluster = Cluster({"metadata.version": 21})
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF"), OutcomeUnknown("EOF")]
    clocks.reconcile(cluster, store)
    assert isinstance(clocks.reconcile(cluster, store).decision, Act)
    assert [entry["result"] for entry in store.status["history"]] == ["NotApplied"]
    clocks.wall = NOW
    clocks.restart()
    for _ in range(2):
        assert isinstance(clocks.reconcile(cluster, store).decision, Wait)
        clocks.wait(timedelta(seconds=HAND_OVER / 2))
    assert len(cluster.sent) == 2
    assert cluster.move("metadata.version", 27)  # now it comes
    assert isinstance(settled(cluster, store, clocks).decision, Done)
    assert [entry["result"] for entry in store.status["history"]] == ["NotApplied", "Applied"]
    assert len(cluster.sent) == 2


def test_a_timestamp_whose_write_lost_a_conflict_is_not_aged_by_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that begin in the same second write the same timestamp."""
    clocks, cluster = Clocks(), Cluster({"metadata.version": 21})
    store = Store(cluster, {"metadata.version": 27})

    async def lost(status: Status) -> None:
        raise Conflict("the object has been modified")

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_status", lost)
        with pytest.raises(Conflict):
            clocks.reconcile(cluster, store)
    assert not clocks.ages.is_ours(stamp(clocks.wall))
    clocks.reconcile(cluster, store)
    assert clocks.ages.is_ours(stamp(clocks.wall))


def fighting(clocks: Clocks) -> tuple[Cluster, Store]:
    """Set up a level that another client reverted twice, and the operator corrected twice; then it
    is reverted again.
    """
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    settled(cluster, store, clocks)
    for _ in range(2):
        assert cluster.move("group.version", 0)
        assert isinstance(settled(cluster, store, clocks).decision, Done)
    assert cluster.move("group.version", 0)
    return cluster, store


def settled(cluster: Cluster, store: Store, clocks: Clocks) -> Reconciliation:
    for _ in range(20):
        last = clocks.reconcile(cluster, store)
        if last.requeue_after is None:
            return last
    raise AssertionError(last)


@JUMPS
def test_a_conflict_with_another_client_ends_after_an_hour_even_if_the_clock_is_set(jump: timedelta) -> None:
    clocks = Clocks()
    cluster, store = fighting(clocks)
    clocks.wall += jump
    last = settled(cluster, store, clocks)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.CONFLICT_DETECTED
    clocks.wait(CONFLICT_WINDOW)
    assert isinstance(settled(cluster, store, clocks).decision, Done)


def test_a_conflict_with_another_client_lasts_for_an_hour_after_the_last_move() -> None:
    clocks = Clocks()
    cluster, store = fighting(clocks)
    clocks.wait(timedelta(minutes=59))
    last = settled(cluster, store, clocks)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.CONFLICT_DETECTED
    clocks.wait(timedelta(minutes=1))
    assert isinstance(settled(cluster, store, clocks).decision, Done)


def test_corrections_dated_in_the_future_count_for_an_hour() -> None:
    clocks = Clocks(NOW + DAY)
    cluster, store = fighting(clocks)
    clocks.wall = NOW
    clocks.restart()
    assert isinstance(settled(cluster, store, clocks).decision, Stalled)
    clocks.wait(CONFLICT_WINDOW)
    assert isinstance(settled(cluster, store, clocks).decision, Done)


async def test_ages_are_measured_across_reconciliations() -> None:
    clocks, api, kafka = Clocks(), Orders(), Kafka({"metadata.version": 21})
    kafka.through_broker, kafka.outcomes = True, [OutcomeUnknown("EOF")]
    operator = OperatorIdentity("", "operator", "test")
    context = OperatorContext(
        Environment(lambda: clocks.wall, lambda: clocks.seconds, sleep=kafka.sleep),
        operator,
        AddressPolicy(),
        real_evidence(SYSTEM),
    )
    controller = Controller(
        api.client(), Claims(monotonic=SYSTEM.monotonic), lambda settings: kafka, context, Metrics(environment=SYSTEM)
    )

    async def work() -> None:
        pause = await controller.reconcile(KEY)
        assert pause is not None
        clocks.wait(timedelta(seconds=pause))

    await work()
    clocks.wall += DAY
    for _ in range(5):
        await work()
    assert len(kafka.sent) == 1
    clocks.wall -= 2 * DAY
    clocks.wait(BROKER_KEEPS)
    await work()
    assert len(kafka.sent) == 2


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(-100_000, 100_000), st.integers(0, 1000)), max_size=40))
def test_the_age_of_a_timestamp_never_shrinks_and_grows_with_the_monotonic_clock(
    moments: list[tuple[int, int, int]],
) -> None:
    clocks = Clocks()
    shown: dict[str, tuple[float, timedelta]] = {}
    for made, jump, passed in moments:
        clocks.wall += timedelta(seconds=jump)
        clocks.wait(timedelta(seconds=passed))
        moment = stamp(NOW + timedelta(seconds=made))
        age = clocks.ages.of(moment, clocks.wall)
        at, before = shown.get(moment, (clocks.seconds, max(age, timedelta(0))))
        assert age == before + timedelta(seconds=clocks.seconds - at)
        shown[moment] = clocks.seconds, age


def test_the_number_of_remembered_timestamps_is_bounded() -> None:
    ages, clocks = Ages(lambda: 0.0), Clocks()
    used = stamp(NOW - DAY)
    for number in range(3 * MAX_STAMPS):
        assert ages.of(used, NOW) == DAY
        ages.note_own_stamp(stamp(NOW + number * timedelta(seconds=1)))
    assert ages.of(used, NOW + DAY) == DAY
    assert clocks.ages.of(used, NOW + DAY) == 2 * DAY
    assert len(cast(Any, ages)._times) == MAX_STAMPS
