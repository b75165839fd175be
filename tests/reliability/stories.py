"""Acts that have to follow each other: what chance alone brings about once in ten thousand histories.

Each story makes one situation likely that a promise is about; when faults come in between, and what people do
meanwhile, stays drawn. `simulation.py` chooses one: a history has a theme.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kafkafeatures.core.facts.readings import Role
from tests.reliability.kafka import LEVELS, Cluster
from tests.reliability.rolls import a_roll
from tests.reliability.scene import NAMESPACE, Scene

Json = dict[str, Any]


async def drift(scene: Scene) -> None:
    """Levels that were reached are moved from outside, once or again and again, while the document is edited."""
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
    """Just when a change arrives at a broker, the quorum is lost; it is there again within minutes, by either clock."""
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
    """The Deployment is scaled to two, or another operator is installed that sees the same resources; later one is
    left.
    """
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


async def fight(scene: Scene) -> None:
    """Another client sets a level back as soon as it is there, again and again; each time that is corrected."""
    random = scene.random
    name = await _asked(scene, drift={"onDrift": "Correct", "checkEvery": "30s"})
    one = None if name is None else scene.server.stored(NAMESPACE, name)
    if name is None or one is None or not one["spec"]["features"].get("levels"):
        return
    cluster, asked = scene.cluster_of(one), random.choice(one["spec"]["features"]["levels"])
    feature, level = asked["name"], asked["level"]
    others = [each for each in LEVELS[feature] if each != level]
    for _ in range(random.choice((3, 4, 5))):
        for _ in range(60):
            if cluster.world.levels.get(feature, 0) == level and _is_ready(scene, name):
                break
            await scene.wait(1.0)
        other = random.choice(others)
        scene.edit(name, _with(consents=[f"{feature}:{other}->{level}"] if other > level else []))
        cluster.move(feature, other)
        await scene.wait(5.0 * random.random())
    await scene.wait(40.0 * random.random())


async def overtaken(scene: Scene) -> None:
    """A level is to be downgraded with its consent; another client moves it right before the request arrives."""
    random, roads = scene.random, scene.weather.roads
    name = await _asked(scene, features={"levels": [{"name": "transaction.version", "level": 1}]})
    one = None if name is None else scene.server.stored(NAMESPACE, name)
    if name is None or one is None:
        return
    await scene.wait(10.0 * random.random())
    before, roads.overtaken = roads.overtaken, 1.0
    features = {"levels": [{"name": "transaction.version", "level": 0}]}
    scene.edit(name, _with(features=features, consents=["transaction.version:1->0"]))
    await _sent(scene)
    await scene.wait(2.0)
    roads.overtaken = before
    await scene.wait(20.0 * random.random())


async def lost_state(scene: Scene) -> None:
    """A level is downgraded by a consent, or by an approval; then the status is lost, or is what it was before, and
    another client raises the level again.
    """
    random = scene.random
    name = await _asked(scene, features={"levels": [{"name": "transaction.version", "level": 1}]})
    if name is None:
        return
    await scene.wait(5.0 + 10.0 * random.random())
    revision, features = scene.server.revision, {"levels": [{"name": "transaction.version", "level": 0}]}
    policy = {"policy": random.choice(("Never", "Always"))}
    scene.edit(name, _with(features=features, consents=["transaction.version:1->0"], approval=policy))
    await scene.wait(5.0 * random.random())
    one = scene.server.stored(NAMESPACE, name)
    if one is not None and policy["policy"] == "Always":
        scene.approve(one)
    if random.random() < 0.6:
        revision = scene.server.revision
    await scene.wait(5.0 + 10.0 * random.random())
    one = scene.server.get(NAMESPACE, name)
    if one is None or "deletionTimestamp" in one["metadata"]:
        return
    drawn, cluster = random.random(), scene.cluster_of(one)
    if drawn < 0.15 and one.get("status"):
        scene.server.edit_status(NAMESPACE, name, lambda each: each["status"].pop("clusterId", None))
        elsewhere = f"{name}.{random.choice(sorted(scene.clusters))}:9092"
        scene.edit(name, _with(cluster={"bootstrapServers": elsewhere}))
    elif drawn < 0.35:
        scene.server.edit_status(NAMESPACE, name, lambda each: each.pop("status", None))
    elif drawn < 0.6 and not one["metadata"].get("finalizers"):
        scene.server.delete(NAMESPACE, name)
        annotations = one["metadata"].get("annotations") or {}
        scene.server.create(NAMESPACE, name, one["spec"], **({"annotations": annotations} if annotations else {}))
    else:
        scene.restore(revision)
    await scene.wait(20.0 * random.random())
    cluster.move("transaction.version", 1)
    await scene.wait(10.0 + 40.0 * random.random())
    again = scene.server.stored(NAMESPACE, name)
    if again is not None and random.random() < 0.3:
        scene.approve(again)
        await scene.wait(20.0 * random.random())


async def soak(scene: Scene) -> None:
    """An irreversible change soaks; a node is restarted meanwhile, or the operator is down."""
    random = scene.random
    name = scene.names[0]
    one = scene.server.stored(NAMESPACE, name)
    if one is None:
        return
    cluster = scene.cluster_of(one)
    for each in random.sample((Role.CONTROLLER, Role.BROKER), 2):
        start(cluster, each)
    can = scene.to_be_had(cluster).get("metadata.version", ())
    if not can:
        return
    lasts = random.choice(("10s", "30s", "1m"))
    features = {"levels": [{"name": "metadata.version", "level": max(can)}], "finalizeAfter": lasts}
    await _asked(scene, name, features=features)
    await scene.wait(25.0 * random.random())
    drawn = random.random()
    if drawn < 0.4:
        node = random.choice([each for _, each in sorted(cluster.world.nodes.items())])
        cluster.world.stop(node.role, node.id, kill=random.random() < 0.5)
        await scene.wait(5.0 * random.random())
        cluster.world.start(node.role, node.id)
    elif drawn < 0.6:
        for process in scene.processes:
            await process.kill()
        scene.processes.clear()
        await scene.wait(60.0 * random.random())
        scene.begin()
    elif drawn < 0.8:
        scene.set_clock(random.choice((400, 90_000)))
    await scene.wait(70.0 * random.random())


async def dynamic_quorum(scene: Scene) -> None:
    """kraft.version is raised, which cannot be undone, with its consent; then the document says something else."""
    random = scene.random
    levels = [{"name": "kraft.version", "level": 1}]
    if random.random() < 0.3:
        levels.append({"name": "group.version", "level": 1})
    name = await _asked(scene, features={"levels": levels}, consents=["dynamic-quorum"])
    await scene.wait(30.0 * random.random())
    if name is not None and random.random() < 0.4:
        scene.edit(name, _with(features={"levels": [{"name": "kraft.version", "level": 0}]}))
        await scene.wait(20.0 * random.random())


async def another_release(scene: Scene) -> None:
    """A newer release began something that this one does not know; a person takes it out of the status later."""
    random = scene.random
    one = scene.some_resource()
    if one is None or "deletionTimestamp" in one["metadata"] or not (one.get("status") or {}).get("conditions"):
        return
    name, begun = one["metadata"]["name"], {"kind": "MoveVoters", "at": "2027-01-15T08:00:00Z", "voter": 3004}
    scene.server.edit_status(NAMESPACE, name, lambda each: each["status"].setdefault("intents", []).append(begun))
    if random.random() < 0.7:
        await _asked(scene, name)
    await scene.wait(60.0 * random.random())
    if scene.server.stored(NAMESPACE, name) is not None:
        scene.server.edit_status(NAMESPACE, name, without_what_is_not_known)
    await scene.wait(20.0 * random.random())


def without_what_is_not_known(one: Json) -> None:
    """Let a person remove intents of kinds that only another release knows."""
    status = one.get("status") or {}
    known = ("UpdateFeature", "RestartNode")
    if "intents" in status:
        status["intents"] = [each for each in status["intents"] if each["kind"] in known]


def _is_ready(scene: Scene, name: str) -> bool:
    one = scene.server.stored(NAMESPACE, name)
    conditions = ((one or {}).get("status") or {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


Story = Callable[[Scene], Awaitable[None]]
STORIES: Mapping[str, tuple[Story, ...]] = {
    "anything": (drift, approval, kept_request, another_cluster, two_operators, fight, soak, overtaken, lost_state),
    "drift": (drift,),
    "approval": (approval,),
    "kept request": (kept_request,),
    "another cluster": (another_cluster,),
    "two operators": (two_operators,),
    "asked": (drift, approval, kept_request, fight),
    "fight": (fight,),
    "overtaken": (overtaken,),
    "lost state": (lost_state,),
    "soak": (soak,),
    "dynamic quorum": (dynamic_quorum,),
    "another release": (another_release,),
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
    there = cluster.world.levels
    news = {each: left for each in can if (left := tuple(one for one in can[each] if one != there.get(each, 0)))}
    can = news if news and random.random() < 0.9 else can
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
    """Wait until a request has left an operator, or for too long."""
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
