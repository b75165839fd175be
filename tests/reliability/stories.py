"""Acts that have to follow each other: what chance alone brings about once in ten thousand histories.

Each story makes one situation likely that a promise is about; when faults come in between, and what people do
meanwhile, stays drawn. Told by `simulation.py`: a history has a theme.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kafkafeatures.core.readings import Role
from tests.reliability.kafka import Cluster
from tests.reliability.rolls import a_roll
from tests.reliability.scene import LEVELS, NAMESPACE, Scene

Json = dict[str, Any]


async def drift(scene: Scene) -> None:
    """What was reached is moved by somebody else, once or again and again, while the document is edited."""
    random = scene.random
    name = await _asked(scene)
    if name is None:
        return
    await scene.wait(5.0 + 30.0 * random.random())
    for _ in range(random.choice((1, 1, 2, 4))):
        one = scene.server.stored(NAMESPACE, name)
        levels = one["spec"]["features"].get("levels") if one else None
        if one is None or not levels:
            return
        cluster, feature = scene.cluster_of(one), random.choice(levels)["name"]
        cluster.move(feature, random.choice(LEVELS.get(feature, (0,))))
        await scene.wait(20.0 + 25.0 * random.random())
        if random.random() < 0.3:
            scene.edit(name, _with(consents=scene.consents(cluster.name)))


async def approval(scene: Scene) -> None:
    """A plan is approved; then it is carried out, done by hand or withdrawn; then the same is to be done again."""
    random = scene.random
    held = random.random() < 0.4
    name = await _asked(scene, approval={"policy": random.choice(("Always", "Always", "Never"))}, suspend=held)
    if name is None:
        return
    await scene.wait(5.0 + 10.0 * random.random())
    one = scene.server.stored(NAMESPACE, name)
    if one is None:
        return
    cluster, before, asked = scene.cluster_of(one), scene.cluster_of(one).world.levels, one["spec"]["features"]
    scene.approve(one)
    await scene.wait(10.0 * random.random())
    levels = {each["name"]: each["level"] for each in asked.get("levels", ())}
    if random.random() < 0.5:  # by hand
        for feature, level in sorted(levels.items()):
            cluster.move(feature, level)
        await scene.wait(40.0 * random.random())
    if random.random() < 0.5:  # withdrawn
        left = [each for each in asked.get("levels", ()) if random.random() < 0.3]
        scene.edit(name, _with(features={"levels": left}))
        await scene.wait(10.0 * random.random())
    if random.random() < 0.7:  # undone by hand
        for feature in sorted(levels):
            cluster.move(feature, before.get(feature, 0))
        await scene.wait(40.0 * random.random())
    scene.edit(name, _with(features=asked, suspend=False))
    await scene.wait(35.0 * random.random())


async def kept_request(scene: Scene) -> None:
    """As a change arrives at a broker, the quorum is lost; it is there again within minutes, by whatever clock."""
    random, roads = scene.random, scene.weather.roads
    mute, lost = roads.mute_leader, roads.quorum_lost
    roads.mute_leader = roads.quorum_lost = 1.0
    name = await _asked(scene)
    await _sent(scene)
    roads.mute_leader, roads.quorum_lost = mute, lost
    await scene.wait(random.choice((2.0, 40.0, 200.0)) * random.random())
    if random.random() < 0.6:
        scene.set_clock(random.choice((400, 400, 90_000, -400)))
    for cluster in scene.clusters.values():
        start(cluster, Role.CONTROLLER)
    await scene.wait(random.choice((5.0, 60.0, 60.0)))
    if name is not None and random.random() < 0.3:
        await _asked(scene, name)


async def another_cluster(scene: Scene) -> None:
    """The document is pointed elsewhere while the outcome of a change is open, and maybe back again."""
    random, roads = scene.random, scene.weather.roads
    lost, roads.lost_after = roads.lost_after, 1.0
    name = await _asked(scene)
    await _sent(scene)
    roads.lost_after = lost
    one = None if name is None else scene.server.stored(NAMESPACE, name)
    if name is None or one is None:
        return
    here = scene.cluster_of(one).name
    there = random.choice([each for each in (*sorted(scene.clusters), "nowhere") if each != here])
    for each in random.choice(((there,), (there, here), (there, here))):
        scene.edit(name, _with(cluster={"bootstrapServers": f"{name}.{each}:9092"}))
        await scene.wait(30.0 * random.random())


async def two_operators(scene: Scene) -> None:
    """Somebody scales it to two, or installs another one that sees the same resources; later one of them is left."""
    random = scene.random
    if len(scene.processes) != 1:
        return
    scene.begin(random.choice(("operator", "another")))
    for _ in range(random.choice((2, 3))):
        await scene.wait(25.0 * random.random() + 10.0)
        await _asked(scene)
    await scene.wait(10.0)
    for process in scene.processes:
        await process.kill()
    scene.processes.clear()
    scene.begin()


Story = Callable[[Scene], Awaitable[None]]
STORIES: Mapping[str, tuple[Story, ...]] = {
    "anything": (drift, approval, kept_request, another_cluster, two_operators),
    "drift": (drift,),
    "approval": (approval,),
    "kept request": (kept_request,),
    "another cluster": (another_cluster,),
    "two operators": (two_operators,),
    "roll": (a_roll, approval),
}


async def _asked(scene: Scene, name: str = "", **fields: Any) -> str | None:
    """One resource asks, with nothing in its way, for something that can be had; which one."""
    random = scene.random
    one = (
        scene.server.stored(NAMESPACE, name or scene.names[0])
        if name or random.random() < 0.7
        else scene.some_resource()
    )
    if one is None:
        return None
    ids = {each.world.cluster_id: each for each in scene.clusters.values()}
    cluster = ids.get((one.get("status") or {}).get("clusterId", "")) or scene.cluster_of(one)
    can = scene.to_be_had(cluster)
    chosen = random.sample(sorted(can), min(len(can), random.choice((1, 1, 2, 3))))
    levels = [{"name": feature, "level": random.choice(can[feature])} for feature in chosen]
    asked = {"features": {"levels": levels}, "mode": "Apply", "suspend": False, "approval": {"policy": "Never"}}
    consents = scene.consents(cluster.name)

    def change(each: Json) -> None:
        address = f"{each['metadata']['name']}.{cluster.name}:9092"
        each["spec"] |= {**asked, "consents": consents, "cluster": {"bootstrapServers": address}, **fields}
        each["metadata"]["annotations"] = {}

    scene.edit(one["metadata"]["name"], change)
    return str(one["metadata"]["name"])


def _with(**fields: Any) -> Callable[[Json], object]:
    """The document with these fields."""
    return lambda each: each["spec"].update(fields)


async def _sent(scene: Scene) -> None:
    """Until something left an operator, or it takes too long."""
    before = scene.sent
    for _ in range(100):
        if scene.sent != before:
            return
        await scene.wait(0.3)


def start(cluster: Cluster, role: Role) -> None:
    """All nodes of a role that are stopped."""
    for node in cluster.world.of_role(role):
        if not node.running:
            cluster.world.start(node.role, node.id)
