"""Rules of rolls: each is checked with a small written history that keeps it, and one that breaks it.

The last tests are of the simulation that makes long histories.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkafeatures.api.values import replace
from tests.reliability.facts import Facts
from tests.reliability.pods import BROKERS, CONTROLLERS, RecordedPods
from tests.reliability.records import (
    Asked,
    Copies,
    Ended,
    History,
    Looked,
    Nodes,
    Record,
    Stopped,
    Stored,
    Templated,
    Whole,
)
from tests.reliability.roll_partition_rules import no_partition_falls_below_min_insync_replicas
from tests.reliability.roll_rules import (
    controllers_keep_their_majority,
    no_node_is_restarted_twice_for_one_revision,
    nothing_goes_while_a_node_has_lost_its_disk,
)
from tests.reliability.rolls import LAST, LEAKS, heal
from tests.reliability.scene import ROLLS
from tests.reliability.simulation import Simulation
from tests.reliability.virtual import run

UID, CLUSTER, PROCESS = "1", "A", "operator-1"
ALL = frozenset({1, 2, 3})
THERE = {1: "uid-1", 2: "uid-2", 3: "uid-3"}
"""The process of each broker."""
NEXT = {**THERE, 1: "uid-of-the-next"}
"""The processes after broker 1 has restarted."""


def looked(at: float, serving: Mapping[int, str], *, lacks: frozenset[str]) -> Looked:
    """An observation of three partitions on three brokers. `lacks`: partitions with which broker 1 is not in sync."""
    needed = {"stock-0": 2, "events-0": 1, "orders-0": 1}
    copies = {name: Copies(ALL, ALL - {1} if name in lacks else ALL, least) for name, least in needed.items()}
    nodes = Nodes(copies, ALL, ALL, frozenset(), frozenset(), {}, -1, {}, serving=serving)
    return Looked(at, PROCESS, UID, CLUSTER, {}, True, {}, nodes)


def restart(at: float, node: int, number: int) -> list[Record]:
    """A restart is asked for, and the pod begins to stop."""
    pod, uid = f"brokers-{node}", f"uid-{node}"
    asked = Asked(at, PROCESS, UID, CLUSTER, node, pod, uid, number)
    return [asked, Stopped(at, CLUSTER, node, pod, uid, "old", "new", number)]


@pytest.mark.parametrize(
    ("serving", "lacks", "is_back"),
    [
        (NEXT, {"events-0"}, True),
        (NEXT, set(), True),
        (NEXT, {"events-0", "orders-0"}, False),
        (NEXT, {"orders-0"}, False),
        (THERE, {"events-0"}, False),
        ({2: "uid-2", 3: "uid-3"}, {"events-0"}, False),
    ],
    ids=[
        "in sync as before", "in sync with all", "out of sync with one more", "out of sync with another one",
        "the same process as before", "no process",
    ],
)  # fmt: skip
def test_a_node_has_returned_when_a_new_process_is_in_sync_with_the_earlier_partitions(
    serving: Mapping[int, str], lacks: set[str], is_back: bool
) -> None:
    """Broker 1 restarts, and then broker 2, which breaks the rule unless broker 1 has returned. Before its restart,
    broker 1 was not in sync with events-0, so that is not waited for ("In flight" in docs/explanation/how-it-rolls.md).
    """
    first = [looked(0.0, THERE, lacks=frozenset({"events-0"})), *restart(1.0, 1, 1)]
    second = [looked(9.0, serving, lacks=frozenset(lacks)), *restart(10.0, 2, 2)]
    found = no_partition_falls_below_min_insync_replicas(Facts(History(0, [*first, *second])))
    texts = [] if is_back else ["restart 2 of node 2 (brokers-2) leaves stock-0 with [3] in sync, 2 are needed"]
    assert [one.text for one in found] == texts


def controllers(at: float, uid: str, node: int, number: int) -> list[Record]:
    """A restart of a controller for the document of this uid, while all three voters have caught up."""
    voters = dict.fromkeys((3001, 3002, 3003), True)
    nodes = Nodes({}, frozenset(), frozenset({node}), frozenset(), frozenset(), voters, 3003, {}, serving={})
    pod, life = f"controllers-{node}", f"uid-{node}"
    return [
        Looked(at, PROCESS, uid, CLUSTER, {}, True, {}, nodes),
        Asked(at, PROCESS, uid, CLUSTER, node, pod, life, number),
        Stopped(at, CLUSTER, node, pod, life, "old", "new", number),
    ]


@pytest.mark.parametrize(
    ("lasts", "broken"),
    [("5s", set()), ("20s", {"majority", "controllers"})],
    ids=["over after 5 s", "not over within 20 s"],
)
def test_a_restart_that_is_over_by_stable_for_of_its_document_stays_over_for_the_next_owner(
    lasts: str, broken: set[str]
) -> None:
    """The first restart returns at 6 s and the second begins at 16 s, for another document, whose stableFor is 20 s."""
    documents: list[Record] = [
        Stored(0.0, "ADDED", {"metadata": {"uid": uid}, "spec": {"rollout": {"stableFor": stable}}}, "kubectl-edit")
        for uid, stable in (("1", lasts), ("2", "20s"))
    ]
    first, second = controllers(4.0, "1", 3001, 1), controllers(16.0, "2", 3002, 2)
    history = History(0, [*documents, *first, Whole(6.0, CLUSTER, 3001), *second])
    assert {one.rule for one in controllers_keep_their_majority(Facts(history))} == broken


def in_vain(at: float, number: int | None) -> Stopped:
    """A restart of broker 1, which still runs the old revision. `number`: of the request; None: by a person."""
    return Stopped(at, CLUSTER, 1, "brokers-1", f"uid-{at}", "old", "new", number)


@pytest.mark.parametrize(
    ("between", "broken"),
    [
        ([], {"once"}),
        ([Templated(5.0, CLUSTER, "brokers", "new")], set()),
        ([Templated(5.0, CLUSTER, "controllers", "new")], {"once"}),
        ([in_vain(5.0, None)], set()),
    ],
    ids=["nothing between", "a new template", "a new template of other nodes", "a restart by a person between"],
)
def test_a_second_restart_of_an_unchanged_node_for_the_same_template_breaks_the_promise(
    between: list[Record], broken: set[str]
) -> None:
    asked = Asked(9.0, PROCESS, UID, CLUSTER, 1, "brokers-1", "uid-9.0", 2)
    records = [looked(0.0, THERE, lacks=frozenset()), in_vain(1.0, 1), *between, asked, in_vain(9.0, 2)]
    found = no_node_is_restarted_twice_for_one_revision(Facts(History(0, records)))
    assert {one.rule for one in found} == broken


@pytest.mark.parametrize(
    ("emptied", "broken"), [(frozenset({2}), {"disks"}), (frozenset({1}), set())], ids=["another node", "the same node"]
)
def test_a_restart_while_another_node_has_lost_its_disk_breaks_the_promise(
    emptied: frozenset[int], broken: set[str]
) -> None:
    look = looked(0.0, THERE, lacks=frozenset())
    assert look.nodes is not None
    records = [replace(look, nodes=replace(look.nodes, emptied=emptied)), *restart(1.0, 1, 1)]
    assert {one.rule for one in nothing_goes_while_a_node_has_lost_its_disk(Facts(History(0, records)))} == broken


def scene_of_pods(*, by_hand: bool) -> tuple[Simulation, RecordedPods]:
    """The first simulated roll in which a person restarts the nodes, or in which the operator does."""
    for seed in range(ROLLS - 1, 3_000, ROLLS):
        scene = Simulation(seed)
        pods = scene.clusters["a"].pods
        assert isinstance(pods, RecordedPods)
        if pods.by_hand is by_hand:
            return scene, pods
    raise AssertionError("there is no such history")


def test_a_simulated_pod_that_is_deleted_does_not_crash_again() -> None:
    """A person who deletes a crashing pod knows that its image is not the cause: from then on it halts no roll."""

    async def lives() -> tuple[frozenset[int], frozenset[int]]:
        scene, pods = scene_of_pods(by_hand=False)
        pods.kill("brokers-0")
        await scene.wait(20.0)
        before = pods.nodes().crashing
        pods.delete("brokers-0")
        assert pods.reading().stateful_sets[0].pods[0].terminating
        return before, pods.nodes().crashing

    before, after = run(lives())
    assert (len(before), after) == (1, frozenset())


def test_healing_a_roll_by_hand_restarts_a_process_of_a_leaking_image() -> None:
    """A process of the image LEAKS ends again and again, and keeps its image until a person restarts it. `heal`, with
    which a simulated history ends, has to restart it, or the history would never become calm.
    """

    async def ends() -> tuple[frozenset[int], frozenset[int], list[Ended]]:
        scene, pods = scene_of_pods(by_hand=True)
        pods.set_image(BROKERS, LEAKS)
        await scene.wait(1.0)
        pods.delete("brokers-0")
        await scene.wait(30.0)
        for one in (BROKERS, CONTROLLERS):
            pods.set_image(one, LAST)
        await scene.wait(1.0)
        before = pods.leaking()
        await heal(scene, scene.clusters["a"])
        at = scene.loop.time()
        await scene.wait(600.0)
        ended = [one for one in scene.history.records if isinstance(one, Ended) and one.at > at]
        return before, pods.leaking(), ended

    before, after, ended = run(ends())
    assert (len(before), after, ended) == (1, frozenset(), [])
