"""The table of downgrades: for every level that a release can finalize, which lower levels Kafka goes back to.

A cluster of one controller (3001) and one broker (1) is formatted as low as the release can be; each feature is raised
level by level, and at each level the active controller is asked (validateOnly, SAFE_DOWNGRADE) for every lower one that
it supports. Levels and features are those of the node itself, so a new release is a row of `WORLDS` and no more.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.kafka.wire.codec import decode_response
from tests.conformance.cases import GOLDEN, SAFE, Updates, World

METADATA, KRAFT = "metadata.version", "kraft.version"
LOWEST = "3.3"
"""--release-version: metadata.version 7, the lowest that all of the releases format."""
LOWEST_LEVEL = 7


@dataclass(frozen=True)
class Row:
    """`finalized` was the level when the controller was asked to go down to `level`; `reply` without its length."""

    feature: str
    finalized: int
    level: int
    reply: bytes

    @property
    def updates(self) -> Updates:
        """What was asked, with validateOnly."""
        return ((self.feature, self.level, SAFE),)

    def allowed(self, world: World) -> bool:
        """Whether Kafka would have done it."""
        message = decode_response(57, world.request, self.reply)[1]
        return message.error_code == 0 and all(code == 0 for code, _ in message.results.values())


def in_order(features: Mapping[str, VersionRange]) -> Iterator[tuple[str, int, range]]:
    """Feature, a level to finalize, and the lower ones to ask for then. What others depend on comes first."""
    for feature in sorted(features, key=lambda one: (one != METADATA, one == KRAFT, one)):
        supported = features[feature]
        for level in range(LOWEST_LEVEL if feature == METADATA else supported.min + 1, supported.max + 1):
            yield feature, level, range(supported.min, level)


def golden_of(world: World) -> Path:
    return GOLDEN / f"{world.version}-downgrades.jsonl.gz"


def recorded(world: World) -> list[Row]:
    """What a real node of this release answered."""
    with gzip.open(golden_of(world), "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [Row(row["feature"], row["finalized"], row["level"], bytes.fromhex(row["reply"])) for row in rows]
