"""Simulated restarts compared with those of real nodes in real pods (tests/golden/restarts): the same records in the
same order, and delays of similar length.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.core.facts.readings import Role
from kafkasim.plan import NodePlan, Plan, TopicPlan
from kafkasim.pods import Pods
from kafkasim.releases import release_named
from kafkasim.statefulsets import SetPlan, addresses
from kafkasim.world import World
from kraftlog import Decoded, decode
from tests.kafkasim.clusters import START_MS, batches, settle, world

GOLDEN = Path(__file__).parents[1] / "golden" / "restarts"
RELEASES = ("4.1.2", "4.4.0")
FACTOR = 2.0
"""The factor by which times may differ: the recorded nodes, nine of them, ran on two cores."""

Json = dict[str, Any]


def recorded(release: str) -> tuple[Json, list[Json]]:
    first, *restarts = map(json.loads, gzip.decompress((GOLDEN / f"{release}.jsonl.gz").read_bytes()).splitlines())
    return first, restarts


def simulated(cluster: Json, release: str, restarted: list[str], leader: int | None) -> tuple[Pods, World]:
    """The recorded cluster as simulated nodes, pods and partitions."""
    nodes = {int(node): pod for node, pod in cluster["nodes"].items()}
    sets = tuple(
        SetPlan(
            name, name, tuple(n for n, pod in sorted(nodes.items(), key=lambda one: one[1]) if name in pod), release
        )
        for name in ("brokers", "controllers")
    )
    roles = {"brokers": Role.BROKER, "controllers": Role.CONTROLLER}
    planned = [NodePlan(roles[one.name], node, release_named(release)) for one in sets for node in one.nodes]
    replicas = tuple(tuple(each) for _, each in sorted(cluster["partitions"].items(), key=lambda one: int(one[0])))
    metadata = release_named(release).bootstrap_level
    plan = Plan(
        tuple(planned),
        {"metadata.version": metadata},
        leader=leader,
        addresses=addresses(sets),
        topics=(TopicPlan("observed", replicas, 2),),
    )
    made = world(plan)
    return Pods(made, sets), made


def records_since(made: World, offset: int) -> Iterator[Json]:
    """The records behind an offset, in the form in which the recorder of restarts keeps them."""
    for batch in batches(made.log.read(0, max_bytes=1 << 40)):
        for record in batch.records():
            found = decode(record.value) if record.offset >= offset and not batch.is_control else None
            if isinstance(found, Decoded):
                at = (record.timestamp_ms - START_MS) / 1000
                yield {"at": at, "type": found.type.name, **found.data}


def shape(record: Json) -> tuple[object, ...] | None:
    """The parts of a record that have to be the same: changes of a registration, ISR and leader of a partition."""
    match record["type"]:
        case "BROKER_REGISTRATION_CHANGE_RECORD":
            return record["brokerId"], record.get("fenced", 0), record.get("inControlledShutdown", 0)
        case "REGISTER_BROKER_RECORD":
            return record["brokerId"], "registered", record["fenced"], record["inControlledShutdown"]
        case "REGISTER_CONTROLLER_RECORD":
            return record["controllerId"], "registered"
        case "PARTITION_CHANGE_RECORD":
            return record["partitionId"], frozenset(record["isr"]), record.get("leader")
        case _:
            return None


def phases(records: list[Json], cluster: Json) -> list[tuple[str, frozenset[object]]]:
    """Runs of records of one type. The records of a run have no order, as replicas catch up in any order."""
    found: list[tuple[str, set[object]]] = []
    for one in records:
        kind, parts = one["type"], shape(one)
        if parts is None:
            continue
        replicas = cluster["partitions"].get(str(one.get("partitionId")), ())
        if kind == "PARTITION_CHANGE_RECORD" and not set(one["isr"]) <= set(replicas):
            continue  # of another topic
        if not found or found[-1][0] != kind:
            found.append((kind, set()))
        found[-1][1].add(parts)
    return [(kind, frozenset(parts)) for kind, parts in found]


@pytest.mark.parametrize("release", RELEASES)
def test_a_restarted_simulated_broker_writes_the_records_of_a_real_broker(release: str) -> None:
    cluster, restarts = recorded(release)
    real = next(one for one in restarts if len(one["restarted"]) == 1 and one["pods"][0].startswith("brokers"))
    pods, made = simulated(cluster, release, real["pods"], None)
    begin = made.log.end_offset
    pods.evict(real["pods"][0])
    settle(made, 40_000)
    ours = list(records_since(made, begin))
    theirs = [one for one in real["timeline"] if "type" in one]
    expected = phases(theirs, cluster)
    assert [kind for kind, _ in phases(ours, cluster)] == [kind for kind, _ in expected]
    for (kind, parts), (_, real_parts) in zip(phases(ours, cluster), expected, strict=True):
        # The recording does not say of which topic a partition is, and there are others than the observed one.
        assert parts <= real_parts if kind == "PARTITION_CHANGE_RECORD" else parts == real_parts


@pytest.mark.parametrize("release", RELEASES)
def test_a_restarted_leader_of_the_quorum_registers_again(release: str) -> None:
    cluster, restarts = recorded(release)
    real = next(one for one in restarts if one["pods"][0].startswith("controllers"))
    pods, made = simulated(cluster, release, real["pods"], real["restarted"][0])
    begin = made.log.end_offset
    pods.evict(real["pods"][0])
    settle(made, 40_000)
    assert phases(list(records_since(made, begin)), cluster) == phases(
        [one for one in real["timeline"] if "type" in one], cluster
    )
    assert made.active != real["restarted"][0]


@pytest.mark.parametrize("release", RELEASES)
def test_a_simulated_restart_takes_about_as_long_as_a_real_restart(release: str) -> None:
    cluster, restarts = recorded(release)
    real = next(one for one in restarts if len(one["restarted"]) == 1 and one["pods"][0].startswith("brokers"))
    pods, made = simulated(cluster, release, real["pods"], None)
    begin = made.log.end_offset
    pods.evict(real["pods"][0])
    settle(made, 60_000)
    ours = times(list(records_since(made, begin)))
    theirs = times([one for one in real["timeline"] if "type" in one])
    assert ours.keys() == theirs.keys()
    for name, seconds in theirs.items():
        assert seconds / FACTOR - 0.5 <= ours[name] <= seconds * FACTOR + 0.5, (name, ours, theirs)


def times(records: list[Json]) -> dict[str, float]:
    """Seconds from the request for the controlled shutdown to each phase of the restart."""
    changes = [one for one in records if one["type"] == "BROKER_REGISTRATION_CHANGE_RECORD"]
    began = changes[0]["at"]
    return {
        "fenced": next(one["at"] for one in changes if one.get("fenced") == 1) - began,
        "registered": next(one["at"] for one in records if one["type"] == "REGISTER_BROKER_RECORD") - began,
        "unfenced": next(one["at"] for one in changes if one.get("fenced") == -1) - began,
        "in sync": [one["at"] for one in records if one["type"] == "PARTITION_CHANGE_RECORD"][-1] - began,
    }
