"""What real nodes were asked and replied, of each API and version. `record` writes it, the fuzzer reads it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkafeatures.kafka.wire.logger_codec import LOGGER_RESOURCE, IncrementalAlterConfigsRequest
from kafkafeatures.kafka.wire.messages import (
    SAFE_DOWNGRADE,
    UPGRADE,
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeQuorumRequest,
    FetchRequest,
    FetchSnapshotRequest,
    OffsetAndEpoch,
    UpdateFeaturesRequest,
)
from kafkafeatures.kafka.wire.topic_messages import (
    BROKER_RESOURCE,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
)
from kafkafeatures.kafka.wire.unregister_codec import UnregisterBrokerRequest, UnregisterControllerRequest

GOLDEN = Path(__file__).parents[1] / "golden"
REPLIES = GOLDEN / "replies"
LOGS = GOLDEN / "logs"

LOGGERS = [
    DescribeConfigsRequest(LOGGER_RESOURCE, ("1",), ("kafka.request.logger",)),
    IncrementalAlterConfigsRequest(1, "kafka.request.logger", "WARN"),
    IncrementalAlterConfigsRequest(2, "kafka.request.logger", "WARN"),
]
BROKER = [
    ApiVersionsRequest(),
    MetadataRequest(),
    MetadataRequest(all_topics=True),
    DescribeClusterRequest(),
    DescribeQuorumRequest(),
    UnregisterBrokerRequest(77),
    UnregisterControllerRequest(77),
    DescribeTopicPartitionsRequest(),
    DescribeTopicPartitionsRequest(limit=2),
    DescribeTopicPartitionsRequest(cursor=("orders", 3)),
    ListPartitionReassignmentsRequest(),
    DescribeLogDirsRequest(),
    DescribeConfigsRequest(names=("orders", "nobody"), keys=("min.insync.replicas",)),
    DescribeConfigsRequest(BROKER_RESOURCE, ("1",), ("min.insync.replicas",)),
    DescribeConfigsRequest(BROKER_RESOURCE, ("2",), ("min.insync.replicas",)),
    *LOGGERS,
]
CONTROL = [
    ApiVersionsRequest(),
    DescribeClusterRequest(endpoint_type=2),
    DescribeClusterRequest(),
    DescribeQuorumRequest(),
    UpdateFeaturesRequest((("metadata.version", 1, SAFE_DOWNGRADE),)),
    UpdateFeaturesRequest((("metadata.version", 9999, UPGRADE), ("group.version", 0, SAFE_DOWNGRADE))),
]


def log_requests(epoch: int, snapshot: OffsetAndEpoch) -> list[Any]:
    """Requests for a log that begins at 0: records, an end that diverges, one that is out of range, an
    epoch to come.
    """
    offset, of = snapshot.offset, snapshot.epoch
    fetches = [(0, 0, epoch), (offset, of, epoch), (offset, of - 1, epoch), (10**6, of, epoch), (0, 0, epoch + 1)]
    return [
        *(
            FetchRequest(fetch_offset=at, last_fetched_epoch=last, current_leader_epoch=now, max_wait_ms=0)
            for at, last, now in fetches
        ),
        *(
            FetchSnapshotRequest(snapshot_id=wanted, current_leader_epoch=now, max_bytes=most)
            for wanted, now, most in (
                (snapshot, epoch, 2**20),
                (snapshot, epoch, 500),
                (snapshot, epoch + 1, 500),
                (OffsetAndEpoch(1, 77), epoch, 500),
            )
        ),
    ]


@dataclass(frozen=True)
class Reply:
    """`data` is whole but for its length; `of` says who was asked what."""

    api: int
    version: int
    of: str
    data: bytes


def replies() -> Iterator[Reply]:
    for path in sorted(REPLIES.glob("*.jsonl.gz")):
        release = path.name.removesuffix(".jsonl.gz")
        with gzip.open(path, "rt") as lines:
            for line in lines:
                row = json.loads(line)
                of = f"{release} {row['of']}"
                yield Reply(row["api"], row["version"], of, bytes.fromhex(row["reply"]))


def one_of_each(limit: int) -> dict[tuple[int, int], Reply]:
    """(api, version) -> the longest reply of at most `limit` bytes."""
    found: dict[tuple[int, int], Reply] = {}
    for reply in replies():
        key = reply.api, reply.version
        if len(reply.data) <= limit and (key not in found or len(reply.data) > len(found[key].data)):
            found[key] = reply
    return found
