"""Two operators on one resource: a successor takes over, and two at the same time stop and report the conflict."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.reconcile.operators import HAND_OVER
from tests.kafkafeatures.reconcile.rig import Kafka, Rig
from tests.simulated.orders import KEY, Orders


@dataclass
class TwoOperators:
    """Operators of the same resource and the same cluster; their instances are named a and b."""

    api: Orders = field(default_factory=Orders)
    kafka: Kafka = field(default_factory=lambda: Kafka({"metadata.version": 21}))

    def __post_init__(self) -> None:
        self.first, self.second = Rig(self.api, self.kafka, "a"), Rig(self.api, self.kafka, "b")

    async def begun(self, instance: str = "") -> Rig:
        """Begin both operators, and another one if `instance` names it, a minute ago; returns the last one. Each has
        read the resource, so it knows the time of the API server.
        """
        begun = [self.first, self.second]
        if instance:
            begun.append(Rig(self.api, self.kafka, instance))
        for rig in begun:
            await rig.client.resource(KEY)
        self.api.now += timedelta(minutes=1)
        return begun[-1]

    async def settled(self, *rigs: Rig) -> None:
        """Reconcile each in turn, until none of them writes."""
        for _ in range(10):
            before = self.api.writes
            for rig in rigs:
                await rig.work()
                rig.seconds += 3600.0
            if self.api.writes == before:
                return
        raise AssertionError(f"they write again and again: {self.api.status}")


async def test_a_status_names_the_operator_that_wrote_it() -> None:
    two = TwoOperators()
    await two.begun()
    await two.first.work()
    assert two.api.status["operator"] == {"namespace": "ours", "name": "operator", "instance": "a"}
    wrote = [
        manager for manager in two.api.object["metadata"]["managedFields"] if manager.get("subresource") == "status"
    ]
    assert [manager["manager"] for manager in wrote] == ["kafkafeatures.dev/ours/operator"]


async def test_two_operators_of_one_resource_detect_the_conflict_and_both_stop() -> None:
    two = TwoOperators()
    await two.begun()
    await two.first.work()  # one step
    assert len(two.kafka.sent) == 1
    await two.settled(two.second, two.first)
    stalled = two.api.condition("Stalled")
    assert stalled["reason"] == two.api.condition("Ready")["reason"] == "ConflictDetected"
    assert "ours/operator (a), ours/operator (b)" in stalled["message"]
    assert len(two.kafka.sent) == 1
    writes = two.api.writes
    two.api.edit(features={"levels": [{"name": "metadata.version", "level": 26}]})
    await two.settled(two.first, two.second)
    assert two.api.writes == writes + 1  # the new generation is reported, once
    assert len(two.kafka.sent) == 1


async def test_a_step_that_another_operator_just_sent_is_not_sent_again() -> None:
    """The intent of the first operator is in the status, but the level is unchanged yet, so the second operator would
    send the step again.
    """
    two = TwoOperators()
    await two.begun()
    rival = asyncio.Event()

    async def meanwhile() -> None:
        await two.second.work()
        rival.set()

    tasks = []
    two.kafka.during_update = lambda: tasks.append(asyncio.ensure_future(meanwhile()))
    await two.first.work()
    await rival.wait()
    await two.settled(two.first, two.second)
    assert len(two.kafka.sent) == 1
    assert two.api.condition("Stalled")["reason"] == "ConflictDetected"


async def test_an_operator_that_begins_after_the_other_one_ended_takes_over() -> None:
    two = TwoOperators()
    await two.begun()
    await two.first.work()
    two.api.now += timedelta(seconds=1)
    await two.settled(await two.begun("c"))
    assert two.api.condition("Ready")["reason"] == "InSync"
    assert two.kafka.effective == 1


async def test_an_operator_that_is_stopped_finishes_its_reconciliation_while_the_next_one_has_begun() -> None:
    """The successor of an evicted pod starts at once, while the pod has up to half a minute for its reconciliation."""
    two = TwoOperators()
    await two.begun()
    two.kafka.during_update = two.first.controller.hand_over
    await two.first.work()
    assert two.api.status["operator"] == {"namespace": "ours", "name": "operator"}
    await two.settled(two.second)
    assert two.api.condition("Ready")["reason"] == "InSync"
    assert two.kafka.effective == len(two.kafka.sent) == 1


async def test_a_successor_sends_nothing_while_a_process_replaced_by_force_still_writes() -> None:
    """After `kubectl delete pod --force`, or on a lost Kubernetes node, the former process may still run."""
    two = TwoOperators()
    await two.begun()
    two.api.now -= timedelta(seconds=55)  # to 5 s after both began, which is within `HAND_OVER`
    await two.first.work()  # it sends one step, which is not that of the next process
    await two.second.work()
    assert two.api.condition("Stalled")["reason"] == "ConflictDetected"
    assert len(two.kafka.sent) == 1
    two.second.seconds += HAND_OVER + 1
    for _ in range(3):
        await two.second.work()
    assert two.api.condition("Ready")["reason"] == "InSync"
    assert two.kafka.effective == 1
    two.api.now += timedelta(minutes=5)
    await two.first.work()  # the former process still runs
    await two.settled(two.second)
    assert two.api.condition("Stalled")["reason"] == "ConflictDetected"


async def test_an_operator_that_is_stopped_begins_no_step() -> None:
    two = TwoOperators()
    await two.begun()
    two.kafka.during_look = two.first.controller.hand_over
    await two.first.work()
    assert not two.kafka.sent
    assert "intents" not in two.api.status


async def test_of_two_conflicting_operators_the_remaining_one_continues_once_it_is_restarted() -> None:
    two = TwoOperators()
    await two.begun()
    await two.first.work()
    await two.settled(two.second, two.first)
    assert two.api.condition("Ready")["reason"] == "ConflictDetected"
    two.api.now += timedelta(seconds=1)
    restarted = await two.begun("c")
    await two.settled(restarted)
    assert two.api.condition("Ready")["reason"] == "InSync"
    assert two.kafka.effective == 1
    # If the other operator still runs after all, the conflict is reported again.
    await two.settled(two.second, restarted)
    assert "ours/operator (b), ours/operator (c)" in two.api.condition("Stalled")["message"]


async def test_a_status_written_or_restored_by_a_person_is_not_taken_for_a_second_operator() -> None:
    two = TwoOperators()
    await two.begun()
    await two.first.work()
    two.api.now += timedelta(seconds=1)
    successor = await two.begun("c")
    two.api.now += timedelta(days=1)
    two.api.edit_status(lambda status: status.update(changeCount=7))
    await two.settled(successor)
    assert two.api.condition("Ready")["reason"] == "InSync"


async def test_a_recreated_resource_of_the_same_name_has_no_conflict_of_operators() -> None:
    two = TwoOperators()
    await two.begun()
    await two.first.work()
    await two.settled(two.second, two.first)
    two.api.server.delete(*KEY)
    two.api.create(cluster={"bootstrapServers": "kafka:9092"})
    await two.settled(two.second)
    assert two.api.condition("Ready")["reason"] == "InSync"


@given(turns=st.lists(st.integers(0, 2), max_size=25), edits=st.lists(st.integers(0, 24), max_size=3))
def test_three_operators_in_any_order_send_no_step_twice(turns: list[int], edits: list[int]) -> None:
    async def play() -> None:
        two = TwoOperators()
        rigs = (two.first, two.second, await two.begun("c"))
        for number, turn in enumerate(turns):
            if number in edits:
                two.api.edit()
            await rigs[turn].work()
        assert two.kafka.effective == len(two.kafka.sent) <= 1
        await two.settled(*rigs)
        before = two.api.writes
        await two.settled(*rigs)
        assert two.api.writes == before

    asyncio.run(play())
