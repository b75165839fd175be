"""Downgrades on real nodes: they answer as recorded, and a downgrade that `undo` calls safe loses no metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kafka.admin import ResourcePattern, ResourceType

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.releases import Undo, floor_of
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.kafka.wire.codec import decode_response
from kraftlog.batches import Batch
from kraftlog.records import Decoded, Raw, decode
from kraftlog.schema import NAMES
from kraftlog.walks import walk
from tests.amounts import SOAK
from tests.conformance.cases import ASKED_AGAIN, SAFE, WORLDS, World
from tests.conformance.changes import WHICH_LEVELS, levels_in
from tests.conformance.downgrades import LOWEST, LOWEST_LEVEL, METADATA, recorded
from tests.conformance.record import QUORUM, ask, finalize, replies_to_downgrades
from tests.e2e.rig.cluster import Cluster, Node
from tests.e2e.rig.held import hold_credential, hold_quota, hold_rights, hold_topic
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

PROVED = [world for world in WORLDS.values() if SOAK or world.version == NEWEST]
SCRAM_SINCE = 11  # metadata.version 3.5-IV2
TOLD_SINCE = {"logDirs": 17, "cordonedLogDirs": 30}
"""Fields of a registration that a broker sends by itself once the level allows them, each with the lowest such level.

For the first, it registers again (BrokerRegistrationTracker); the second is in its next heartbeat.
"""

WRITTEN = {
    "TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "CLIENT_QUOTA_RECORD", "ACCESS_CONTROL_ENTRY_RECORD",
}  # fmt: skip
BY_A_START = {"REGISTER_BROKER_RECORD", "REGISTER_CONTROLLER_RECORD", "PARTITION_RECORD", "NO_OP_RECORD"}
"""Records that a start changes, because they have incarnations and epochs."""


@pytest.mark.parametrize("world", ASKED_AGAIN, ids=lambda world: world.version)
def test_a_real_node_answers_every_downgrade_as_recorded(world: World, tmp_path: Path) -> None:
    assert list(replies_to_downgrades(world, tmp_path / "kafka")) == recorded(world)


@pytest.mark.parametrize("world", PROVED, ids=lambda world: world.version)
def test_a_downgrade_that_is_called_safe_loses_no_metadata(world: World, tmp_path: Path) -> None:
    """Metadata of every kind is written at the higher level. After the downgrade, the snapshot has the same records,
    byte for byte. Then the node, which is controller and broker, starts from it.
    """
    # Short sessions: a killed broker can register again only after its session has ended.
    sessions = {"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "500"}
    properties = {"metadata.log.max.record.bytes.between.snapshots": "1", **sessions}
    with Cluster(
        tmp_path / "kafka", world.version, controllers=0, brokers=0, combined=1, release_version=LOWEST,
        authorizer=True, properties=properties,
    ) as cluster:  # fmt: skip
        active = cluster.nodes[1]
        supported = decode_response(18, 4, ask(active, WHICH_LEVELS))[1].supported_features[METADATA]
        for floor, top in spans(supported):
            assert UpdateFeature(METADATA, floor, top).undo is Undo.SAFE
            finalize(active, world, METADATA, floor)
            finalize(active, world, METADATA, top)
            fill(cluster, top)
            # The broker registers by itself. Between the snapshots, that would look like an effect of the downgrade.
            wait_until(f"the broker's registration is that of level {top}", partial(has_registered, active, top))
            higher = snapshot(active)
            assert {kind for kind, _ in higher} >= WRITTEN
            finalize(active, world, METADATA, floor, SAFE)
            assert snapshot(active) == higher, (floor, top)
            active.kill()
            active.start(wait=False)
            cluster.wait_ready()
            assert levels_in(ask(active, WHICH_LEVELS))[0][METADATA] == floor
            assert lasting(snapshot(active)) == lasting(higher), (floor, top)


def spans(supported: VersionRange) -> Iterator[tuple[int, int]]:
    """Each level that changed metadata, and the highest level from which Kafka allows a downgrade to it."""
    for floor in range(LOWEST_LEVEL, supported.max + 1):
        top = max((level for level in range(floor, supported.max + 1) if floor_of(level) == floor), default=floor)
        if top > floor:
            yield floor, top


def fill(cluster: Cluster, level: int) -> None:
    """Create topics, configs, quotas, credentials and rights, named after the level at which they are written."""
    topic, user = f"t{level}", f"u{level}"
    hold_topic(cluster, topic, {0: [1], 1: [1], 2: [1]}, **{"retention.ms": "86400000"})
    hold_rights(cluster, user, "READ", resource=ResourcePattern(ResourceType.TOPIC, topic))
    hold_quota(cluster.nodes[1], user, "consumer_byte_rate", 1048576.0)
    if level >= SCRAM_SINCE:
        hold_credential(cluster, user, "x-y-z")


def snapshot(active: Node) -> Counter[tuple[str, bytes]]:
    """Type and bytes of every record, but that of metadata.version, in a snapshot of all that is written now."""
    end = decode_response(55, 1, ask(active, QUORUM))[1].high_watermark
    found: list[Path] = []

    def written() -> bool:
        found[:] = sorted(active.metadata_dir.glob("*.checkpoint"))
        return bool(found) and int(found[-1].name.split("-")[0]) >= end

    wait_until(f"a snapshot at offset {end} or later", written)
    records: Counter[tuple[str, bytes]] = Counter()
    for batch in walk(found[-1].read_bytes()):
        assert isinstance(batch, Batch)
        for record in () if batch.is_control else batch.records():
            decoded = decode(record.value)
            assert isinstance(decoded, Decoded | Raw)
            assert record.value is not None
            if not (isinstance(decoded, Decoded) and decoded.data.get("name") == METADATA):
                key = decoded.type.key if isinstance(decoded, Decoded) else decoded.key
                records[NAMES[key], record.value] += 1
    return records


def has_registered(active: Node, level: int) -> bool:
    """True if the broker's registration has all fields that it sends at this level."""
    (value,) = (value for kind, value in snapshot(active) if kind == "REGISTER_BROKER_RECORD")
    registration = decode(value)
    assert isinstance(registration, Decoded)
    return all(registration.data.get(field) is not None for field, since in TOLD_SINCE.items() if level >= since)


def lasting(records: Counter[tuple[str, bytes]]) -> Counter[tuple[str, bytes]]:
    """The records that a start does not change."""
    return Counter({(kind, value): count for (kind, value), count in records.items() if kind not in BY_A_START})
