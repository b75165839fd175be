"""The script of changes: what is asked of which node, one after the other, and what came of it on real nodes.

A cluster of three controllers (3001 to 3003, static voters) and one broker (1) is formatted below what its release can
do, so that features are raised, refused for what they depend on, lowered and disabled. Rules: kafka's
`FeatureControlManagerTest` and `MetadataVersionIntegrationTest`; here they are asked through the doors of a cluster.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkafeatures.api.values import replace
from kafkafeatures.kafka.wire.codec import decode_response, encode_request
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest, UpdateFeaturesRequest
from tests.conformance.cases import GOLDEN, SAFE, UNKNOWN, UNSAFE, UPGRADE, Updates, World
from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD, RECENT

ACTIVE, STANDBY, BROKER = "active", "standby", "broker"
FORMAT = {OLD: ("3.7", 19), MIDDLE: ("3.9", 21), RECENT: ("3.9", 21), NEWEST: ("3.9", 21)}
"""--release-version, and the metadata.version that it finalizes, alone."""

METADATA, KRAFT, GROUP, TRANSACTION = "metadata.version", "kraft.version", "group.version", "transaction.version"
ELR, SHARE, STREAMS = "eligible.leader.replicas.version", "share.version", "streams.version"


@dataclass(frozen=True)
class Step:
    """One request that is not validateOnly. `to`: a kind of node; `version`: of UpdateFeatures."""

    to: str
    version: int
    updates: Updates

    @property
    def request(self) -> bytes:
        """The bytes that are sent, without their length."""
        message = UpdateFeaturesRequest(self.updates, validate_only=False)
        return encode_request(message, version=self.version, correlation_id=7, client_id="conformance")


@dataclass(frozen=True)
class Row:
    """What came of a step: the reply without its length, and what the nodes then say.

    `leader`: the active controller, another one in each recording. `levels`: finalized, as the active controller and
    the broker have them. `moved`: whether FinalizedFeaturesEpoch of the active controller rose; its value depends on
    how many records were written before for want of anything better.
    """

    step: Step
    leader: int
    reply: bytes
    levels: Mapping[str, int]
    moved: bool

    def led_by(self, leader: int) -> Row:
        """The row with another active controller, which replies name."""
        return replace(self, leader=leader, reply=self.reply.replace(str(self.leader).encode(), str(leader).encode()))


def node_of(step: Step, leader: int) -> int:
    """The id of the node that is asked."""
    return {ACTIVE: leader, STANDBY: 3002 if leader == 3001 else 3001, BROKER: 1}[step.to]


def steps(world: World) -> Iterator[Step]:
    """The steps of every change, in order."""
    for to in (STANDBY, BROKER):
        for version in range(1, world.request + 1):
            for updates in _few(world):
                yield Step(to, version, updates)
    for updates in SCRIPTS[world.version]:
        yield Step(ACTIVE, world.request, updates)


def _few(world: World) -> Iterable[Updates]:
    """What is asked of nodes that do not judge themselves; it ends with the levels it began with."""
    _, metadata = FORMAT[world.version]
    feature = KRAFT if world.version == OLD else GROUP
    return (
        ((METADATA, metadata, UPGRADE),),
        ((METADATA, 99, UPGRADE),),
        ((METADATA, metadata - 1, UPGRADE),),
        (("foo", 1, UPGRADE),),
        ((METADATA, metadata, UPGRADE), (feature, 1, UPGRADE)),
        ((METADATA, metadata, SAFE), ("foo", 1, UPGRADE)),
        ((feature, 1, UPGRADE), (feature, 0, SAFE)),  # the last one counts
        (),
    )


def _on_4_x(highest: int) -> tuple[Updates, ...]:
    return (
        ((METADATA, 21, UPGRADE),),  # unchanged
        ((METADATA, 21, SAFE),),
        ((METADATA, highest + 1, UPGRADE),),
        ((ELR, 1, UPGRADE),),  # what it depends on is missing
        ((ELR, 1, UPGRADE), (METADATA, 22, UPGRADE)),
        ((GROUP, 1, UPGRADE), ("foo", 1, UPGRADE)),  # nothing of it
        ((GROUP, 1, UPGRADE), (TRANSACTION, 9, UPGRADE)),
        ((ELR, 1, UPGRADE), (METADATA, 24, UPGRADE)),
        ((METADATA, 23, UPGRADE),),
        ((METADATA, 23, SAFE),),
        ((METADATA, 22, SAFE),),
        ((METADATA, 22, UNSAFE),),
        ((METADATA, 25, SAFE),),
        ((METADATA, 25, UPGRADE), (GROUP, 1, UPGRADE), (TRANSACTION, 2, UPGRADE)),
        ((METADATA, 24, UNSAFE),),
        ((METADATA, 24, UNKNOWN),),
        ((ELR, 0, UPGRADE),),
        ((ELR, 0, SAFE), (METADATA, 22, SAFE)),
        ((ELR, 0, SAFE),),
        ((ELR, 0, SAFE),),  # unchanged
        ((TRANSACTION, 1, UNSAFE),),
        ((TRANSACTION, 2, SAFE),),
        ((GROUP, 0, UNSAFE),),
        ((SHARE, 1, UPGRADE), (STREAMS, 1, UPGRADE)),
        ((STREAMS, 0, SAFE),),
        (("foo", 0, SAFE),),
        ((GROUP, -1, SAFE),),
        ((METADATA, highest, UPGRADE),),
        ((METADATA, highest - 1, SAFE),),
    )


SCRIPTS: Mapping[str, tuple[Updates, ...]] = {
    OLD: (
        ((METADATA, 21, UPGRADE),),
        ((METADATA, 21, UPGRADE),),  # unchanged
        ((METADATA, 21, SAFE),),
        ((METADATA, 22, UPGRADE),),
        ((METADATA, 20, UPGRADE),),
        ((METADATA, 19, SAFE),),
        ((METADATA, 20, SAFE),),
        ((METADATA, 16, SAFE),),
        ((METADATA, 16, UNSAFE),),
        ((METADATA, 17, UNSAFE),),
        ((METADATA, 3, SAFE),),
        ((METADATA, 0, SAFE),),
        ((METADATA, 18, UNKNOWN),),
        ((METADATA, 18, UPGRADE), ("foo", 1, UPGRADE)),  # half of it
        ((METADATA, 19, UPGRADE), (KRAFT, 2, UPGRADE)),
        ((KRAFT, 1, UPGRADE),),  # a record that changes nothing but what is said (KAFKA-18979)
        ((KRAFT, 1, UPGRADE), ("foo", 1, UPGRADE)),
        ((KRAFT, 0, UPGRADE),),
        ((KRAFT, 0, SAFE), (METADATA, 20, UPGRADE)),
        ((KRAFT, 0, UNSAFE),),
        ((GROUP, 1, UPGRADE),),
        ((GROUP, 0, SAFE),),
        (("foo", 0, SAFE),),
        ((METADATA, -1, SAFE),),
    ),
    MIDDLE: (
        *_on_4_x(27),
        ((KRAFT, 2, UPGRADE),),
        ((KRAFT, 0, SAFE),),  # unchanged
        ((KRAFT, 1, UPGRADE), ("bar", 1, UPGRADE)),  # the other is judged first
        ((KRAFT, 1, UPGRADE),),
        ((KRAFT, 1, SAFE),),
        ((KRAFT, 0, SAFE),),
    ),
    RECENT: (
        *_on_4_x(30),
        ((KRAFT, 1, UPGRADE), ("foo", 1, UPGRADE)),  # raised, although the answer is an error
        ((KRAFT, 1, UPGRADE), (GROUP, 1, UPGRADE)),
        ((KRAFT, 0, UNSAFE),),
    ),
    NEWEST: (
        *_on_4_x(33),
        ((METADATA, 32, UNSAFE),),
        ((SHARE, 3, UPGRADE),),
        ((SHARE, 2, UPGRADE),),
        ((SHARE, 1, SAFE),),
        ((KRAFT, 1, UPGRADE), ("foo", 1, UPGRADE)),  # raised, although the answer is an error
        ((KRAFT, 0, SAFE),),
    ),
}

WHICH_LEVELS = encode_request(ApiVersionsRequest("conformance", "1"), version=4, correlation_id=7, client_id=None)
"""The question for them, without its length."""


def levels_in(reply: bytes) -> tuple[Mapping[str, int], int]:
    """Finalized levels, and FinalizedFeaturesEpoch."""
    message = decode_response(18, 4, reply)[1]
    return message.finalized_features, message.finalized_features_epoch


def golden_of(world: World) -> Path:
    return GOLDEN / f"{world.version}-changes.jsonl.gz"


def recorded(world: World) -> list[Row]:
    """What came of each step on real nodes of this release."""
    with gzip.open(golden_of(world), "rt") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        updates = tuple(tuple(one) for one in row.pop("updates"))
        row["step"] = Step(row.pop("to"), row.pop("version"), updates)
        row["reply"] = bytes.fromhex(row["reply"])
    return [Row(**row) for row in rows]
