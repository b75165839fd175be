"""The script of unregistered controllers: who is asked to unregister whom, one after the other, on Kafka 4.4.

A cluster of three controllers (3001 to 3003, static voters) and one broker (1) begins below metadata.version 33. Ids
are those of roles, as another controller leads in each recording. Source: `ClusterControlManager.unregisterController`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass

from kafkafeatures.kafka.wire.codec import encode_request
from kafkafeatures.kafka.wire.messages import UpdateFeaturesRequest
from kafkafeatures.kafka.wire.unregister_codec import UnregisterControllerRequest
from tests.conformance.cases import GOLDEN, UPGRADE
from tests.conformance.changes import ACTIVE, BROKER, METADATA, STANDBY

RECORDED = GOLDEN / "4.4.0-unregister-controller.jsonl.gz"
FORMAT = ("4.3", 30)
OTHER, NOBODY = "other", "nobody"
SUPPORTED_FROM = 33

RAISE = encode_request(
    UpdateFeaturesRequest(((METADATA, SUPPORTED_FROM, UPGRADE),), validate_only=False),
    version=2, correlation_id=7, client_id="conformance",
)  # fmt: skip

TOO_LOW = ((ACTIVE, NOBODY), (ACTIVE, ACTIVE), (ACTIVE, STANDBY), (STANDBY, STANDBY), (BROKER, STANDBY))
ALLOWED = (
    (ACTIVE, NOBODY), (ACTIVE, BROKER), (ACTIVE, ACTIVE), (BROKER, ACTIVE), (BROKER, NOBODY), (STANDBY, OTHER),
    (STANDBY, ACTIVE), (ACTIVE, STANDBY), (BROKER, OTHER),  # two voters that run, and register themselves again
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What a node answered, without the length. `raised`: whether metadata.version 33 was finalized."""

    to: str
    whom: str
    raised: bool
    leader: int
    reply: bytes

    @property
    def node(self) -> int:
        return id_of(self.to, self.leader)

    @property
    def request(self) -> bytes:
        return request_of(id_of(self.whom, self.leader))


def steps() -> Iterator[tuple[str, str, bool]]:
    """(to, whom, raised) in order."""
    yield from ((to, whom, False) for to, whom in TOO_LOW)
    yield from ((to, whom, True) for to, whom in ALLOWED)


def id_of(who: str, leader: int) -> int:
    followers = [each for each in (3001, 3002, 3003) if each != leader]
    return {ACTIVE: leader, STANDBY: followers[0], OTHER: followers[1], BROKER: 1, NOBODY: 9999}[who]


def request_of(controller: int) -> bytes:
    return encode_request(UnregisterControllerRequest(controller), version=0, correlation_id=7, client_id="conformance")


def recorded() -> list[Row]:
    """What real nodes of 4.4.0 answered."""
    with gzip.open(RECORDED, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [Row(**{**row, "reply": bytes.fromhex(row["reply"])}) for row in rows]
