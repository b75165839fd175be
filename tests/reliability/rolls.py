"""Histories of rolls: a cluster in pods, what people and Kubernetes do to it, and how it is made whole in the end.

Acts are drawn by `simulation.py` where a history is about rolls; each is done to the scene.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from kafkafeatures.core.facts.readings import Role
from kafkasim.statefulsets import LEAKY, BudgetPlan, release_of
from tests.reliability.kafka import Cluster
from tests.reliability.pods import BROKERS, CONTROLLERS, OLD, RecordedPods, rollout_fields
from tests.reliability.scene import Scene

IMAGES = ("kafka:4.4.0", "kafka:4.4.0", "kafka:4.4.0", "kafka:4.2.1", OLD, "kafka:4.4.0-debug", "kafka:4.0.1")
BROKEN, LEAKS = "kafka:latest", f"kafka:4.4.0{LEAKY}"
LAST, AFTER_LAST = "kafka:4.4.1", "kafka:4.4.1-debug"


# --- what happens ---


def _pods(scene: Scene) -> RecordedPods:
    pods = scene.clusters["a"].pods
    assert isinstance(pods, RecordedPods)
    return pods


def the_image_changes(scene: Scene) -> None:
    """The image of all StatefulSets changes, or of one; now and then to one that cannot run, or not for long."""
    pods, image = _pods(scene), scene.random.choice(IMAGES)
    if scene.random.random() < 0.2:
        image = scene.random.choice((BROKEN, BROKEN, LEAKS))
    chosen = (CONTROLLERS, BROKERS) if scene.random.random() < 0.7 else (scene.random.choice((CONTROLLERS, BROKERS)),)
    for one in chosen:
        pods.set_image(one, image)


def a_pod_is_deleted(scene: Scene) -> None:
    """Delete or evict a pod from outside, with or without regard to budgets."""
    pods = _pods(scene)
    name = scene.random.choice(pods.names())
    if scene.random.random() < 0.5:
        pods.evict(name)
    else:
        pods.delete(name)


def a_container_dies(scene: Scene) -> None:
    """A container is killed, for instance for taking too much memory."""
    pods = _pods(scene)
    pods.kill(scene.random.choice(pods.names()))


async def a_kubernetes_node_is_drained(scene: Scene) -> None:
    """The pod on a drained Kubernetes node is evicted as soon as a budget lets it, and comes back a while later."""
    pods = _pods(scene)
    name = scene.random.choice(pods.names())
    pods.drain(name)
    for _ in range(10):
        if pods.evict(name):
            break
        await scene.wait(2.0)
    await scene.wait(40.0 * scene.random.random())
    pods.uncordon(name)


def replicas_fall_behind(scene: Scene) -> None:
    """A slow disk."""
    world = scene.clusters["a"].world
    broker = scene.random.choice([one.id for one in world.of_role(Role.BROKER)])
    world.fall_behind(broker, for_ms=int(60_000 * scene.random.random()))


def a_node_hangs(scene: Scene) -> None:
    """A node does not answer for a while, although its session continues."""
    world, pods = scene.clusters["a"].world, _pods(scene)
    node = pods.node_of(scene.random.choice(pods.names()))
    world.hung.add(node)
    scene.loop.call_later(90.0 * scene.random.random(), world.hung.discard, node)


def partitions_are_moved(scene: Scene) -> None:
    """Reassign partitions, as Cruise Control does."""
    world = scene.clusters["a"].world
    found = scene.random.choice(world.partitions())
    brokers = [one.id for one in world.of_role(Role.BROKER)]
    if world.active is not None and not found.state.adding and not found.state.removing:
        target = scene.random.sample(brokers, len(found.state.replicas))
        world.reassign(found.topic, found.number, target)


def a_budget_changes(scene: Scene) -> None:
    """Made, changed, or taken away."""
    pods = _pods(scene)
    pods.budgets = []
    if scene.random.random() < 0.7:
        pods.budgets = [
            BudgetPlan("kafka", (BROKERS,), scene.random.choice((0, 1, 1, 2)), scene.random.random() < 0.8),
            BudgetPlan("quorum", (CONTROLLERS,), 1),
        ]


def more_replicas_are_needed(scene: Scene) -> None:
    """min.insync.replicas of a topic, or of all that say nothing."""
    world = scene.clusters["a"].world
    if world.active is not None:
        world.configure(scene.random.choice((1, 2, 2, 3)), topic=scene.random.choice((None, "stock", "orders")))


def topics_are_hidden(scene: Scene) -> None:
    """An ACL is taken away, or given back."""
    world = scene.clusters["a"].world
    world.hidden_topics = frozenset() if world.hidden_topics else frozenset({"orders"})


ACTS: tuple[tuple[int, Callable[[Scene], Any]], ...] = (
    (14, the_image_changes),
    (4, a_pod_is_deleted),
    (4, a_container_dies),
    (3, a_kubernetes_node_is_drained),
    (5, replicas_fall_behind),
    (3, a_node_hangs),
    (3, partitions_are_moved),
    (4, a_budget_changes),
    (2, more_replicas_are_needed),
    (1, topics_are_hidden),
)


def a_person_restarts_what_is_asked_for(scene: Scene) -> None:
    """A person restarts the nodes that the status asks for, with a newer Kafka."""
    pods = _pods(scene)
    asked = {
        int(intent["nodeId"])
        for one in scene.resources()
        for intent in (one.get("status") or {}).get("intents", ())
        if intent["kind"] == "RestartNode" and not intent.get("podUid")
    }
    for name in pods.names():
        if pods.node_of(name) in asked:
            pods.set_image(name.rpartition("-")[0], LAST)
            if pods.node_of(name) in pods.nodes().behind:
                scene.loop.call_later(1.0, pods.delete, name)  # Kubernetes has seen the template by then


def a_person_changes_the_image_where_a_restart_did_not_help(scene: Scene) -> None:
    """The status advises it then: an operator that could not write may not know that a pod was replaced since."""
    for one in scene.resources():
        conditions = (one.get("status") or {}).get("conditions", ())
        if any("why its restart did not help" in condition["message"] for condition in conditions):
            for name in (CONTROLLERS, BROKERS):
                _pods(scene).set_image(name, AFTER_LAST)


def a_person_deletes_what_crashed_and_runs(scene: Scene) -> None:
    """The status advises it where the image is not to blame; one of them at a time, once all nodes are well."""
    pods, world = _pods(scene), scene.clusters["a"].world
    nodes = pods.nodes()
    if world.active is None or nodes.away or not nodes.crashing:
        return
    advised = any(
        "is not to blame, delete the pod" in condition["message"]
        for one in scene.resources()
        for condition in (one.get("status") or {}).get("conditions", ())
    )
    if advised:
        pods.delete(next(name for name in pods.names() if pods.node_of(name) in nodes.crashing))


NOT_RUNNING = re.compile(r"pod (\S+) does not run \([^)]*\): delete the pod if it does not start again by itself")


def a_person_deletes_a_pod_that_does_not_run(scene: Scene) -> None:
    """The status advises it where others wait for its node: for twenty seconds it did not run again by itself."""
    for one in scene.resources():
        for condition in (one.get("status") or {}).get("conditions", ()):
            found = NOT_RUNNING.search(condition["message"]) if condition["type"] == "Ready" else None
            if found is not None and found[1] in _pods(scene).names():
                _pods(scene).delete(found[1])


NEW_DISK = re.compile(r"add (new-disk:\S+) to consents")


def a_person_says_that_disks_were_meant(scene: Scene) -> None:
    """Once they have looked what became of them."""
    for one in scene.resources():
        text = str((one.get("status") or {}).get("conditions"))
        given = list(one["spec"].get("consents") or ())
        if (found := NEW_DISK.search(text)) and found[1] not in given:
            scene.edit(one["metadata"]["name"], lambda each: each["spec"].update(consents=[*given, found[1]]))  # noqa: B023
            scene.clusters["a"].world.emptied.clear()


def acts_of(scene: Scene) -> tuple[tuple[int, Callable[[Scene], Any]], ...]:
    """The possible events of a roll, each with its frequency."""
    return (*ACTS, (30, a_person_restarts_what_is_asked_for)) if _pods(scene).by_hand else ACTS


async def a_roll(scene: Scene) -> None:
    """One resource asks for it and nothing keeps it back; while it runs, the image changes, or it is suspended."""
    random, pods = scene.random, _pods(scene)
    name = scene.names[0]
    fields = rollout_fields(random, pods.workload) | {"mode": "Apply", "suspend": False}
    scene.edit(name, lambda one: one["spec"].update(fields))
    image = random.choice(("kafka:4.4.0", "kafka:4.4.0-debug", "kafka:4.2.1"))
    for one in (CONTROLLERS, BROKERS):
        pods.set_image(one, image)
    await scene.wait(60.0 * random.random())
    drawn = random.random()
    if drawn < 0.25:
        for one in (CONTROLLERS, BROKERS):
            pods.set_image(one, random.choice((OLD, "kafka:4.4.0-debug")))
    elif drawn < 0.5:
        pods.set_image(random.choice((CONTROLLERS, BROKERS)), random.choice((BROKEN, LEAKS)))
        await scene.wait(60.0 * random.random())
        if random.random() < 0.5:  # twice, and what runs waits for a while
            name = random.choice(pods.names())
            pods.kill(name)
            await scene.wait(4.0)
            pods.kill(name)
        await scene.wait(120.0 * random.random())
        for one in (CONTROLLERS, BROKERS):
            pods.set_image(one, random.choice((OLD, image)))
    elif drawn < 0.75:
        scene.edit(name, lambda one: one["spec"].update(suspend=True))
        await scene.wait(40.0 * random.random())
        scene.edit(name, lambda one: one["spec"].update(suspend=False))
    elif random.random() < 0.4:
        a_container_dies(scene)
    else:
        await _a_controller_is_drained(scene)
    await scene.wait(60.0 * random.random())


async def _a_controller_is_drained(scene: Scene) -> None:
    """Once only brokers are left to be restarted; its pod comes back a while later."""
    pods, random = _pods(scene), scene.random
    left = pods.nodes()
    for _ in range(60):
        left = pods.nodes()
        if not left.behind & left.voters.keys():
            break
        await scene.wait(2.0)
    name = random.choice([one for one in pods.names() if pods.node_of(one) in left.voters])
    pods.drain(name)
    pods.delete(name)
    await scene.wait(30.0 + 60.0 * random.random())
    pods.uncordon(name)


# --- the end ---


async def heal(scene: Scene, cluster: Cluster) -> None:
    """Everything can be rolled now, to an image that runs; nothing else touches it from now on."""
    pods, world = _pods(scene), cluster.world
    pods.budgets, world.hidden_topics = [], frozenset()
    pods.gone.clear()
    pods.sticky.clear()
    world.loses_disks = False
    releases = {runs.name if (runs := release_of(one.image)) else "" for one in pods.sets.values()}
    usable = releases in ({"4.2"}, {"4.4"}) and not any(one.image.endswith(LEAKY) for one in pods.sets.values())
    if not usable or scene.random.random() < 0.5:
        for one in (CONTROLLERS, BROKERS):
            pods.set_image(one, LAST)
    for name in pods.names():
        pods.uncordon(name)
    for turn in range(100):
        await asyncio.sleep(3.0)
        cluster.catch_up()
        if pods.by_hand or (world.active is None and turn > LEADERLESS_LOOKS):
            _replace_stuck(pods)
        if world.active is not None and not (pods.by_hand and _cannot_run(pods)):
            break
    world.configure(1)
    for topic in sorted({one.topic for one in world.partitions()}):
        world.configure(1, topic=topic)
    brokers = [one.id for one in world.of_role(Role.BROKER)]
    for found in world.partitions():
        staying = [each for each in found.state.replicas if each not in found.state.removing]
        if len(staying) == 1:
            others = [each for each in brokers if each not in staying]
            world.reassign(found.topic, found.number, (*staying, others[0]))


LEADERLESS_LOOKS = 50
"""Looks at a cluster without a leader, until a person deletes the pods that cannot run, as the operator advises."""


def _replace_stuck(pods: RecordedPods) -> None:
    """Delete the pods that cannot run, as a person does who restarts nodes by hand."""
    stuck = _cannot_run(pods)
    for name in pods.names():
        if pods.node_of(name) in stuck:
            pods.delete(name)


def _cannot_run(pods: RecordedPods) -> frozenset[int]:
    """The nodes that cannot run with their present pods. A container that crashes runs for moments, one that leaks for
    minutes.
    """
    nodes = pods.nodes()
    now = nodes.stuck | nodes.away | {voter for voter, runs in nodes.voters.items() if not runs}
    return nodes.behind & (now | pods.leaking())


CALM: Mapping[str, Any] = {
    "rollout": {"maxParallel": 2, "stableFor": "1s", "nodeTimeout": "15m"},
}
"""What a document says of rolls in the end."""


def are_current(cluster: Cluster) -> bool:
    """True if the pods are all of their templates, if the operator restarts them."""
    return cluster.pods is None or cluster.pods.by_hand or not cluster.pods.nodes().behind
