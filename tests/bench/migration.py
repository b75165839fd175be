"""What a migration from ZooKeeper costs, on real nodes of Kafka 3.9: three brokers, three controllers, one ZooKeeper.

The whole way with `apply`, whose requests a person carries out at once, against a script of the steps that Kafka
documents, which waits for in-sync replicas alone; both on clusters of their own, with the same topics. Then the way
back, from the stop of the last controller until ZooKeeper has another one, and how long `/controller` takes to read.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from kafka.admin import KafkaAdminClient, NewTopic

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from kafkafeatures.zookeeper.reader import read_controller
from tests.bench.weighed import weighed
from tests.e2e.kafka.migration_person import Person, migrating
from tests.e2e.rig.asking import listed_brokers
from tests.e2e.rig.process import wait_until

TOPICS, PARTITIONS = 20, 12
LOOKS = 30


def migration(rounds: int) -> None:
    """Both ways in turn, so many of each."""
    ours, theirs, back = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder, migrating(Path(folder)) as person:
            ours.append(_with_apply(person))
        with tempfile.TemporaryDirectory(prefix="bench-") as folder, migrating(Path(folder)) as person:
            theirs.append(_by_script(person))
        with tempfile.TemporaryDirectory(prefix="bench-") as folder, migrating(Path(folder)) as person:
            back.append(_way_back(person))
            looks = asyncio.run(_looks(person.cluster.ensemble))
    print(
        f"from ZooKeeper to KRaft, {TOPICS * PARTITIONS} partitions: {_shown(ours)} with apply, {_shown(theirs)} by a "
        f"script of the documented steps: {statistics.median(ours) / statistics.median(theirs):.2f}x"
    )
    print(f"way back, from the last controller's stop until ZooKeeper has another controller: {_shown(back)}")
    print(f"/controller to what it says, with a session and sync: {1000 * statistics.median(looks):.0f} ms of {LOOKS}")
    _memory()


def _shown(seconds: Iterable[float]) -> str:
    found = sorted(seconds)
    return f"{statistics.median(found):.1f} s ({found[0]:.1f}-{found[-1]:.1f})"


def _made(person: Person) -> None:
    client = KafkaAdminClient(bootstrap_servers=person.cluster.bootstrap_servers)
    client.create_topics([NewTopic(f"topic-{number}", PARTITIONS, 3) for number in range(TOPICS)])
    client.close()


def _with_apply(person: Person) -> float:
    _made(person)
    began = time.monotonic()
    person.start_controllers()
    for desired, *consents in (("PreMigration",), ("DualWrite",), ("Finalized", "zk-finalize")):
        person.wants(desired, *consents, stable_for="0s")
        flags: tuple[str, ...] = ()
        if consents:
            (plan_hash,) = set(re.findall(r"sha256:[0-9a-f]{12}", person.plan()))
            flags = ("--approve", plan_hash)
        person.apply(*flags)
    took = time.monotonic() - began
    assert person.status["migration"]["phase"] == "Finalized"
    return took


def _by_script(person: Person) -> float:
    """The steps of Kafka's documentation, each as soon as the one before it is done."""
    cluster = person.cluster
    _made(person)
    began = time.monotonic()
    person.start_controllers()
    wait_until("the controllers wait for brokers", lambda: person.at("/migration") is not None, step=0.2)
    for shape in (Shape.FLAGGED_BROKER, Shape.KRAFT_BROKER):
        for id_ in cluster.brokers:
            cluster.run(id_, shape)
            wait_until(f"broker {id_} is in sync", lambda: _all_in_sync(person), step=0.2)
        wait_until("the metadata is copied", lambda: _is_copied(person), step=0.2)
    for id_ in cluster.controllers:
        cluster.run(id_, Shape.CONTROLLER)
        wait_until("a controller is active", lambda: cluster.leader() in cluster.controllers, step=0.2)
    wait_until("all is in sync", lambda: _all_in_sync(person), step=0.2)
    return time.monotonic() - began


def _is_copied(person: Person) -> bool:
    found = person.at("/migration")
    return bool(found and found["kraft_metadata_offset"] > 0)


def _all_in_sync(person: Person) -> bool:
    """Each broker is listed by each, and no replica of a topic is out of sync."""
    cluster = person.cluster
    try:
        if any(listed_brokers(cluster.ports[id_]) != set(cluster.brokers) for id_ in cluster.brokers):
            return False
        client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        try:
            topics = client.describe_topics([f"topic-{number}" for number in range(TOPICS)])
        finally:
            client.close()
    except Exception:  # whatever a client says of a broker that has just stopped
        return False
    return all(
        len(_ids(partition, "isr")) == len(_ids(partition, "replica"))
        for topic in topics
        for partition in topic["partitions"]
    )


def _ids(partition: dict[str, list[int]], what: str) -> list[int]:
    return next(value for name, value in partition.items() if name.startswith(what))


def _way_back(person: Person) -> float:
    """With one broker in KRaft mode. The clock starts when the last controller has stopped."""
    _made(person)
    person.start_controllers()
    person.wants("DualWrite")
    person.apply(killed_after=4)
    person.wants("RolledBack")
    seen: list[float] = []
    watch = threading.Thread(target=_watched, args=(person, seen), daemon=True)
    watch.start()
    person.apply()
    watch.join()
    stopped, again = seen
    return again - stopped


def _watched(person: Person, seen: list[float]) -> None:
    cluster = person.cluster
    wait_until("all controllers have stopped", lambda: not any(cluster.nodes[id_].alive for id_ in cluster.controllers))
    seen.append(time.monotonic())
    wait_until("a broker is controller", lambda: (person.at("/controller") or {}).get("brokerid") in cluster.brokers)
    seen.append(time.monotonic())


async def _looks(ensemble: str) -> list[float]:
    found = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        read = await read_controller(Ensemble(*parse_connect(ensemble, "bench")))
        found.append(time.perf_counter() - began)
        assert not isinstance(read, Failure), read
    return found


def _memory() -> None:
    """What a client of ZooKeeper adds to a process that has everything else of an operator."""
    base = "import kafkafeatures.reconcile.act, kafkafeatures.kafka.cluster, sys"
    without = weighed([sys.executable, "-c", f"{base}; assert 'kazoo' not in sys.modules"])
    loaded = weighed([sys.executable, "-c", f"{base}, kafkafeatures.zookeeper.client; assert 'kazoo' in sys.modules"])
    print(f"kazoo: {(loaded.peak - without.peak) / 2**20:.0f} MiB once it is imported; none before")
