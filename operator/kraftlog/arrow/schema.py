"""The schema of `metadata_records`: the columns of a row, and their meaning.

A row is a record, or damaged bytes. Fields that queries often use are columns in addition to the body. New columns must
be added at the end, and the meaning of a column must never change, since files with these columns are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from kraftlog.schema import table

RECORDS = pa.schema(
    [
        pa.field("origin", pa.string(), nullable=False),  # log, or snapshot: a state, in which no record is an event
        pa.field("offset", pa.int64()),  # null for damage; in a snapshot its own offsets, from 0 on
        pa.field("batch_position", pa.int64(), nullable=False),  # of the batch in the file, or of the damage
        pa.field("size", pa.int64(), nullable=False),  # bytes, as the account counts them: 0 for a break in the order
        pa.field("timestamp_ms", pa.int64()),  # ms since 1970 (UTC) at which the leader appended it
        pa.field("leader_epoch", pa.int32()),
        pa.field("is_control", pa.bool_()),
        pa.field("api_key", pa.int16()),  # for a control record its type; null if it cannot be read
        pa.field("version", pa.int16()),
        pa.field("record_type", pa.string()),  # Kafka's name; null for a key that no release has
        pa.field("status", pa.string(), nullable=False),  # decoded, kept or damaged
        pa.field("reason", pa.string()),  # reason why it is kept or damaged, as the account names it
        pa.field("detail", pa.string()),  # of damage; never quotes a record
        pa.field("body", pa.string()),  # JSON with Kafka's field names; null if the record is not decoded
        pa.field("raw", pa.binary()),  # bytes that are not decoded, which may hold secrets; null if these are left out
        pa.field("node_id", pa.int32()),
        pa.field("node_epoch", pa.int64()),
        pa.field("incarnation", pa.string()),
        pa.field("feature", pa.string()),
        pa.field("level", pa.int16()),  # records up to Kafka 3.2 have a range: its maximum
        pa.field("fenced", pa.bool_()),  # null in a change that leaves it unchanged
        pa.field("controlled_shutdown", pa.bool_()),
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leader", pa.int32()),  # -1: none; null in a change that leaves it unchanged
        pa.field("isr", pa.list_(pa.int32())),
    ]
)

PARQUET: Mapping[str, object] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": [
        "origin", "leader_epoch", "api_key", "version", "record_type", "status", "reason", "node_id", "incarnation",
        "feature", "level", "topic_id", "partition", "leader",
    ],
    "write_statistics": [name for name in RECORDS.names if name not in ("detail", "body", "raw")],
}  # fmt: skip
"""Options for Parquet files with these columns: dictionaries for columns with few values, no statistics of bodies."""

DECODED, KEPT, DAMAGED = "decoded", "kept", "damaged"

_REGISTRATION = {
    "node_id": "brokerId",
    "node_epoch": "brokerEpoch",
    "incarnation": "incarnationId",
    "fenced": "fenced",
    "controlled_shutdown": "inControlledShutdown",
}
_PARTITION = {"topic_id": "topicId", "partition": "partitionId", "leader": "leader", "isr": "isr"}
_FENCING = {"node_id": "id", "node_epoch": "epoch"}

FIELDS: Mapping[tuple[bool, int], Mapping[str, str]] = {
    (kind.control, kind.key): columns
    for kind, columns in (
        (table.REGISTER_BROKER, _REGISTRATION),
        (table.UNREGISTER_BROKER, _REGISTRATION),
        (table.BROKER_REGISTRATION_CHANGE, _REGISTRATION),
        (table.FENCE_BROKER, _FENCING),
        (table.UNFENCE_BROKER, _FENCING),
        (table.REGISTER_CONTROLLER, {"node_id": "controllerId", "incarnation": "incarnationId"}),
        (table.UNREGISTER_CONTROLLER, {"node_id": "controllerId"}),
        (table.TOPIC, _PARTITION),
        (table.REMOVE_TOPIC, _PARTITION),
        (table.PARTITION, _PARTITION),
        (table.PARTITION_CHANGE, _PARTITION),
        (table.FEATURE_LEVEL, {"feature": "name", "level": "featureLevel"}),
        (table.REMOVE_FEATURE_LEVEL, {"feature": "name"}),
        (table.KRAFT_VERSION, {"level": "kRaftVersion"}),
    )
}
"""By (is a control record, api key): the columns of this type, each with its field."""

CONSTANT: Mapping[tuple[bool, int], Mapping[str, object]] = {
    (False, table.FENCE_BROKER.key): {"fenced": True},
    (False, table.UNFENCE_BROKER.key): {"fenced": False},
    (False, table.REMOVE_FEATURE_LEVEL.key): {"level": 0},
    (True, table.KRAFT_VERSION.key): {"feature": "kraft.version"},
}
"""Columns with a constant value for a record type."""
