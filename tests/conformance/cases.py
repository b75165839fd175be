"""The table of conformance: what is asked of a controller, on which cluster. The answers are a real node's.

Every case is a validateOnly, so that each starts from the same levels, whatever came before. Rules: kafka's
`FeatureControlManagerTest` asks the same kind of questions; here each level is asked in each direction.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkafeatures.kafka.wire.codec import encode_request
from kafkafeatures.kafka.wire.messages import UpdateFeaturesRequest
from tests.amounts import SOAK
from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD, RECENT

GOLDEN = Path(__file__).parents[1] / "golden" / "conformance"
UNKNOWN, UPGRADE, SAFE, UNSAFE = 0, 1, 2, 3


@dataclass(frozen=True)
class World:
    """One cluster: one controller (3001), one broker (1). `release`: what the simulator calls it."""

    version: str
    release: str
    format: str  # --release-version
    metadata: tuple[int, ...]
    request: int  # version of UpdateFeatures

    @property
    def golden(self) -> Path:
        return GOLDEN / f"{self.version}.jsonl.gz"


WORLDS = {
    OLD: World(OLD, "3.9", "3.8", (0, 1, 3, 4, 14, 15, 16, 17, 18, 19, 20, 21, 22, 25, 99), 1),
    MIDDLE: World(MIDDLE, "4.1", "4.0", (0, 6, 7, 16, 17, 21, 22, 23, 24, 25, 26, 27, 28, 99), 2),
    RECENT: World(RECENT, "4.3", "4.1", (0, 6, 7, 17, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 99), 2),
    NEWEST: World(NEWEST, "4.4", "4.2", (0, 6, 7, 22, 23, 24, 25, 27, 28, 29, 30, 31, 32, 33, 34, 99), 2),
}
ASKED_AGAIN = [world for world in WORLDS.values() if SOAK or world.version in (OLD, NEWEST)]
"""Whose nodes are asked again each time what takes a cluster of its own; a soak asks those of all releases."""
FEATURES = {
    "group.version": (0, 1, 2),
    "transaction.version": (0, 1, 2, 3),
    "eligible.leader.replicas.version": (0, 1, 2),
    "share.version": (0, 1, 2),
    "streams.version": (0, 1, 2),
    "foo": (0, 1),
}
TOGETHER = (
    (("metadata.version", 99), ("group.version", 1)),
    (("metadata.version", 21), ("foo", 1)),
    (("metadata.version", 27), ("eligible.leader.replicas.version", 1)),
    (("group.version", 2), ("transaction.version", 9)),
)

Updates = tuple[tuple[str, int, int], ...]


def cases(world: World) -> Iterator[Updates]:
    """(feature, level, upgrade type) of each request."""
    for kind in (UPGRADE, SAFE, UNSAFE):
        for level in world.metadata:
            yield (("metadata.version", level, kind),)
        for feature, levels in FEATURES.items():
            for level in levels:
                yield ((feature, level, kind),)
    for pair in TOGETHER:
        yield tuple((feature, level, UPGRADE) for feature, level in pair)
    yield (("metadata.version", world.metadata[-2], UNKNOWN),)
    yield (("metadata.version", -1, SAFE),)


def request_of(world: World, updates: Updates, *, validate_only: bool = True) -> bytes:
    """The bytes that are sent, without their length."""
    message = UpdateFeaturesRequest(updates, validate_only=validate_only)
    return encode_request(message, version=world.request, correlation_id=7, client_id="conformance")


def recorded(world: World) -> dict[Updates, bytes]:
    """What a real node of this release answered, without the length."""
    with gzip.open(world.golden, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return {tuple(tuple(one) for one in row["updates"]): bytes.fromhex(row["reply"]) for row in rows}
