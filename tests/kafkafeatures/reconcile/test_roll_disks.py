"""A roll whose nodes come back with empty disks: the first of them halts the roll."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.readings import Role
from kafkasim.rules import FeatureUpdate, UpgradeType
from kafkasim.statefulsets import EMPTY
from tests.kafkafeatures.reconcile.stories import BROKERS, BY_SETS, SETS, Json, Scene, is_in_sync

CONSENT = re.compile(r"new-disk:(broker|controller)-([0-9]+):[0-9a-f]{8}")


def with_empty_disks(levels: dict[str, int] | None = None) -> Scene:
    """Set up a roll to an image whose pods mount an empty disk."""
    scene = Scene(DesiredState(levels or {}, rollout=BY_SETS))
    for stateful_set in SETS:
        scene.pods.set_image(stateful_set.name, f"kafka:4.4.0{EMPTY}")
    scene.world.advance(scene.world.now_ms + 1000)
    return scene


def halt_message(status: Json) -> str:
    """Return the message of the halted roll, or an empty text."""
    halts = (condition for condition in status.get("conditions", ()) if condition["reason"] == "RolloutHalted")
    return next((str(condition["message"]) for condition in halts), "")


def stops(scene: Scene, key: tuple[Role, int]) -> None:
    """Wait until the process of a node has ended, and the next one has not started yet."""
    for _ in range(1000):
        if not scene.world.nodes[key].running:
            return
        scene.world.advance(scene.world.now_ms + 100)
    raise AssertionError(key)


def drained_and_emptied(scene: Scene, id_: int) -> None:
    """Delete the pod of a broker outside the roll; its next pod mounts an empty volume."""
    key = Role.BROKER, id_
    (pod,) = (name for name in scene.pods.names() if scene.pods.node_of(name) == id_)
    scene.pods.delete(pod)
    stops(scene, key)
    scene.world.nodes[key].directory = uuid4()


async def rolling_brokers(scene: Scene) -> int:
    """Begin the roll of brokers, and return one that was not restarted yet."""
    scene.set_images()
    await scene.until(lambda _: any(pod.startswith("broker") for pod in scene.restarts.asked))
    evicted = {scene.pods.node_of(pod) for pod in scene.restarts.asked}
    return next(id_ for id_ in BROKERS if id_ not in evicted)


def loses_nothing(scene: Scene) -> None:
    """Keep both the status and the process."""


def loses_its_process(scene: Scene) -> None:
    scene.restart_process()


def loses_its_status(scene: Scene) -> None:
    scene.store.status = {"clusterId": scene.store.status["clusterId"]}


@pytest.mark.parametrize(
    "loses",
    [loses_nothing, loses_its_process, loses_its_status],
    ids=["same process", "another process", "status lost"],
)
async def test_a_broker_that_was_drained_and_comes_back_empty_halts_the_roll_until_its_disk_is_accepted(
    loses: Callable[[Scene], None],
) -> None:
    scene = Scene(DesiredState({}, rollout=BY_SETS))
    drained = await rolling_brokers(scene)
    drained_and_emptied(scene, drained)
    loses(scene)
    asked_before = len(scene.restarts.asked)
    await scene.until(lambda status: bool(halt_message(status)))
    consent = CONSENT.search(halt_message(scene.store.status))
    assert consent is not None
    assert int(consent[2]) == drained
    before = len(scene.restarts.asked)
    assert before <= asked_before + 1  # at most one restart, before the drained node has registered again
    for _ in range(40):
        await scene.once()
    assert len(scene.restarts.asked) == before
    scene.store.wanted = replace(scene.store.wanted, consents=frozenset({consent[0]}))
    await scene.until(is_in_sync)
    assert scene.store.status["spentConsents"] == [consent[0]]
    assert "disks" not in scene.store.status["rollout"]


async def test_a_restarted_broker_that_loses_its_disk_before_the_last_restart_keeps_the_roll_from_being_over() -> None:
    scene = Scene(DesiredState({}, rollout=BY_SETS))
    await rolling_brokers(scene)
    await scene.until(lambda status: status["rollout"]["done"] == status["rollout"]["total"] - 1)
    emptied = scene.pods.node_of(scene.restarts.asked[0])
    if (Role.BROKER, emptied) not in scene.world.nodes:
        emptied = scene.pods.node_of(next(pod for pod in scene.restarts.asked if pod.startswith("broker")))
    drained_and_emptied(scene, emptied)
    for _ in range(60):
        await scene.once()
        assert not is_in_sync(scene.store.status)
    assert f"broker {emptied} came back on a new disk" in halt_message(scene.store.status)


async def test_the_first_broker_that_comes_back_empty_halts_the_roll_until_its_disk_is_accepted() -> None:
    scene = with_empty_disks()
    formatted = {node.id: node.directory for node in scene.world.nodes.values()}
    accepted: list[int] = []
    while len(accepted) < len(BROKERS):
        await scene.until(lambda status: bool(halt_message(status)))
        for _ in range(40):
            await scene.once()
        changed = {id_ for id_ in BROKERS if scene.world.nodes[Role.BROKER, id_].directory != formatted[id_]}
        consent = CONSENT.search(halt_message(scene.store.status))
        assert consent is not None
        assert int(consent[2]) in changed
        assert changed == {*accepted, int(consent[2])}
        accepted.append(int(consent[2]))
        consents = scene.store.wanted.consents | {consent[0]}
        scene.store.wanted = replace(scene.store.wanted, consents=consents)
        scene.restart_process()
        await scene.once()
        assert consent[0] in scene.store.status["spentConsents"]
    await scene.until(is_in_sync)
    assert sorted(accepted) == sorted(BROKERS)


async def test_a_broker_that_has_its_old_disk_again_needs_no_consent() -> None:
    scene = with_empty_disks()
    formatted = {key: node.directory for key, node in scene.world.nodes.items()}
    await scene.until(lambda status: bool(halt_message(status)))
    (broken,) = (intent["target"] for intent in scene.store.status["intents"])
    scene.set_images()
    scene.pods.delete(broken)
    key = Role.BROKER, scene.pods.node_of(broken)
    stops(scene, key)
    scene.world.nodes[key].directory = formatted[key]
    await scene.until(is_in_sync)
    assert not scene.store.status.get("spentConsents")


async def test_a_controller_of_a_dynamic_quorum_that_lost_its_metadata_log_halts_the_roll() -> None:
    """Kafka does not show which directory a voter of a static quorum has."""
    scene = with_empty_disks({"kraft.version": 1})
    update = FeatureUpdate("kraft.version", 1, UpgradeType.UPGRADE)
    leader = scene.world.active_node
    assert leader is not None
    scene.world.update_features(leader, [update], validate_only=False)
    await scene.until(lambda status: bool(halt_message(status)))
    assert re.search(r"controller \d+ came back on a new disk", halt_message(scene.store.status))
    assert len(scene.restarts.asked) == 1
