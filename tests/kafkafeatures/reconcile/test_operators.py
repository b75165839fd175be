"""Two operators on one resource: one that replaces another takes over; two at the same time stop, and say so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.reconcile.operators import HAND_OVER
from tests.kafkafeatures.reconcile.test_worker import Kafka, Rig, Touched
from tests.kafkafeatures.worlds import NOW


@dataclass
class Two:
    """Operators that look at the same resource and the same cluster."""

    api: Touched = field(default_factory=Touched)
    kafka: Kafka = field(default_factory=lambda: Kafka({"metadata.version": 21}))

    def __post_init__(self) -> None:
        self.first, self.second = self.begin("a"), self.begin("b")

    def begin(self, instance: str) -> Rig:
        return Rig(self.api, self.kafka, instance)

    async def settled(self, *rigs: Rig) -> None:
        """Passes of each in turn, until nobody writes any more."""
        for _ in range(10):
            before = self.api.writes
            for rig in rigs:
                await rig.work()
                rig.seconds += 3600.0
            if self.api.writes == before:
                return
        raise AssertionError(f"they fight: {self.api.object['status']}")


async def test_a_status_names_the_operator_that_wrote_it() -> None:
    two = Two()
    await two.first.work()
    assert two.api.object["status"]["operator"] == {"namespace": "ours", "name": "operator", "instance": "a"}
    assert [one["manager"] for one in two.api.object["metadata"]["managedFields"]] == [
        "kafkafeatures.dev/ours/operator"
    ]


async def test_two_operators_find_each_other_and_neither_goes_on() -> None:
    two = Two()
    two.kafka.during_update = lambda: None
    await two.first.work()  # one step
    assert len(two.kafka.sent) == 1
    await two.settled(two.second, two.first)
    stalled = two.api.condition("Stalled")
    assert stalled["reason"] == two.api.condition("Ready")["reason"] == "ConflictDetected"
    assert "ours/operator (a), ours/operator (b)" in stalled["message"]
    assert len(two.kafka.sent) == 1
    writes = two.api.writes
    two.api.edit()["features"] = {"levels": [{"name": "metadata.version", "level": 26}]}
    await two.settled(two.first, two.second)
    assert two.api.writes == writes + 1  # the new generation is told of, once
    assert len(two.kafka.sent) == 1


async def test_a_step_that_the_other_one_just_sent_is_not_taken_for_one_of_a_dead_process() -> None:
    """Its intent stands, and its level reads as before: it would be sent once more."""
    two = Two()
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
    two = Two()
    await two.first.work()
    two.api.began = two.api.now + timedelta(seconds=1)
    two.api.now += timedelta(seconds=2)
    await two.settled(two.begin("c"))
    assert two.api.condition("Ready")["reason"] == "InSync"
    assert two.kafka.effective == 1


async def test_an_operator_that_is_stopped_finishes_its_pass_while_the_next_one_has_begun() -> None:
    """A pod that is evicted has its successor at once, and up to half a minute for its last pass."""
    two = Two()
    two.kafka.during_update = two.first.worker.hand_over
    await two.first.work()
    assert two.api.object["status"]["operator"] == {"namespace": "ours", "name": "operator"}
    await two.settled(two.second)
    assert two.api.condition("Ready")["reason"] == "InSync"
    assert two.kafka.effective == len(two.kafka.sent) == 1


async def test_a_process_that_was_replaced_by_force_may_write_on_for_a_moment() -> None:
    """Nobody told it: `kubectl delete pod --force`, a node that is lost."""
    two = Two()
    two.api.now = NOW + timedelta(seconds=5)
    await two.first.work()  # one step, which the next process does not take for its own
    await two.second.work()
    assert two.api.condition("Stalled")["reason"] == "ConflictDetected"
    assert len(two.kafka.sent) == 1
    two.second.seconds += HAND_OVER + 1
    for _ in range(3):
        await two.second.work()
    assert two.api.condition("Ready")["reason"] == "InSync"
    assert two.kafka.effective == 1
    two.api.now = NOW + timedelta(minutes=5)
    await two.first.work()  # it lives after all
    await two.settled(two.second)
    assert two.api.condition("Stalled")["reason"] == "ConflictDetected"


async def test_an_operator_that_is_stopped_begins_no_step() -> None:
    two = Two()
    two.kafka.during_look = two.first.worker.hand_over
    await two.first.work()
    assert not two.kafka.sent
    assert "intent" not in two.api.object["status"]


async def test_of_two_that_stopped_the_one_that_stays_goes_on_once_it_is_started_again() -> None:
    two = Two()
    await two.first.work()
    await two.settled(two.second, two.first)
    assert two.api.condition("Ready")["reason"] == "ConflictDetected"
    two.api.began = two.api.now + timedelta(seconds=1)
    two.api.now += timedelta(seconds=2)
    again = two.begin("c")
    await two.settled(again)
    assert two.api.condition("Ready")["reason"] == "InSync"
    assert two.kafka.effective == 1
    two.api.began = NOW  # the other one, which was not stopped after all, began long before
    await two.settled(two.second, again)
    assert "ours/operator (b), ours/operator (c)" in two.api.condition("Stalled")["message"]


async def test_a_status_that_a_person_wrote_or_restored_is_no_second_operator() -> None:
    two = Two()
    await two.first.work()
    two.api.began = two.api.now + timedelta(seconds=1)
    two.api.now += timedelta(days=1)
    metadata, status = two.api.object["metadata"], two.api.object["status"]
    metadata["managedFields"].append(
        {"manager": "kubectl-edit", "subresource": "status", "time": two.api.now.isoformat()}
    )
    metadata["resourceVersion"] += "2"
    status["changeCount"] = 7
    await two.settled(two.begin("c"))
    assert two.api.condition("Ready")["reason"] == "InSync"


async def test_a_resource_made_anew_under_the_name_is_nobody_elses() -> None:
    two = Two()
    await two.first.work()
    await two.settled(two.second, two.first)
    two.api.object["metadata"] |= {"uid": "another", "managedFields": []}
    del two.api.object["status"]
    await two.settled(two.second)
    assert two.api.condition("Ready")["reason"] == "InSync"


@given(turns=st.lists(st.integers(0, 2), max_size=25), edits=st.lists(st.integers(0, 24), max_size=3))
def test_however_many_run_and_whoever_is_first_nothing_is_sent_twice_and_nobody_fights(
    turns: list[int], edits: list[int]
) -> None:
    async def play() -> None:
        two = Two()
        rigs = (two.first, two.second, two.begin("c"))
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
