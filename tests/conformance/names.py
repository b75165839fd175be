"""The table of names: ApiVersions that say which node they are meant for (KIP-1242), asked of Kafka 4.4.

One cluster of one controller (3001) and one broker (1). A broker refuses a name that is not its own, a controller none
(`KafkaApis.scala`, `ControllerApis.scala`): from a controller, an answer says nothing of who it is.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass

from kafkafeatures.kafka.wire.codec import decode_response, encode_request
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest
from tests.conformance.cases import GOLDEN

RECORDED = GOLDEN / "4.4.0-names.jsonl.gz"
OWN = "own"
CLUSTERS = (OWN, "other", "", None)
VERSIONS = (4, 5, 6)


@dataclass(frozen=True)
class Row:
    """Who was asked by which name. `offset`: what was added to its own id, None: no id was named."""

    node: int
    version: int
    cluster: str | None
    offset: int | None
    reply: bytes

    @property
    def code(self) -> int:
        """The error code of the reply."""
        return int(decode_response(18, self.version, self.reply)[1].error_code)

    def request(self, cluster_id: str) -> bytes:
        """What is sent, to a node of this cluster."""
        cluster = cluster_id if self.cluster == OWN else self.cluster
        message = ApiVersionsRequest("probe", "1", cluster, -1 if self.offset is None else self.node + self.offset)
        sent = encode_request(message, version=min(self.version, 5), correlation_id=7, client_id="conformance")
        return sent[:2] + self.version.to_bytes(2, "big") + sent[4:]


def rows() -> Iterator[Row]:
    """All that is asked."""
    for node in (1, 3001):
        yield from (Row(node, 5, cluster, offset, b"") for cluster in CLUSTERS for offset in (0, 1, None))
        yield from (Row(node, version, OWN, 1, b"") for version in VERSIONS if version != 5)


def recorded() -> list[Row]:
    """What real nodes of 4.4.0 answered."""
    with gzip.open(RECORDED, "rt") as lines:
        found = [json.loads(line) for line in lines]
    return [Row(**{**row, "reply": bytes.fromhex(row["reply"])}) for row in found]
