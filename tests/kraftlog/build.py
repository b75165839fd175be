"""Small logs for tests: a function for each type of record, and functions that put records into batches and files."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from kraftlog.batches import HEADER_SIZE, Batch, Codec, Record
from kraftlog.encoding import encode_batch, encode_record, seal
from kraftlog.records import control, frame
from kraftlog.schema import RecordType, table

NOW = 1_795_219_804_022
"""The time of offset 0, in ms: 2026-11-21T00:10:04.022Z. In `batch` and `log`, each offset is 1 ms later."""


def no_op() -> bytes:
    return frame(table.NO_OP, {})


def level(name: str, value: int) -> bytes:
    return frame(table.FEATURE_LEVEL, {"name": name, "featureLevel": value})


def begin(name: str = "a transaction") -> bytes:
    return frame(table.BEGIN_TRANSACTION, {"name": name})


def end() -> bytes:
    return frame(table.END_TRANSACTION, {})


def abort() -> bytes:
    return frame(table.ABORT_TRANSACTION, {"reason": "a new controller"})


def broker(number: int, epoch: int, version: int = 3, **changes: Any) -> bytes:
    data: dict[str, Any] = {
        "brokerId": number,
        "incarnationId": uuid.UUID(int=epoch),
        "brokerEpoch": epoch,
        "endPoints": ({"name": "PLAINTEXT", "host": "a.example", "port": 9092, "securityProtocol": 0},),
        "features": ({"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": 29},),
        "rack": None,
        "fenced": True,
    }
    if version >= 1:
        data["inControlledShutdown"] = False
    if version >= 2:
        data["isMigratingZkBroker"] = False
    return frame(table.REGISTER_BROKER, data | changes, version)


def controller(number: int, incarnation: int = 1) -> bytes:
    data = {
        "controllerId": number,
        "incarnationId": uuid.UUID(int=incarnation),
        "zkMigrationReady": False,
        "endPoints": ({"name": "CONTROLLER", "host": "c.example", "port": 9093, "securityProtocol": 3},),
        "features": ({"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": 29},),
    }
    return frame(table.REGISTER_CONTROLLER, data)


def change(number: int, epoch: int, version: int = 1, **fields: Any) -> bytes:
    return frame(table.BROKER_REGISTRATION_CHANGE, {"brokerId": number, "brokerEpoch": epoch, **fields}, version)


def fence(number: int, epoch: int) -> bytes:
    return frame(table.FENCE_BROKER, {"id": number, "epoch": epoch})


def unfence(number: int, epoch: int) -> bytes:
    return frame(table.UNFENCE_BROKER, {"id": number, "epoch": epoch})


def unregister(number: int, epoch: int) -> bytes:
    return frame(table.UNREGISTER_BROKER, {"brokerId": number, "brokerEpoch": epoch})


def batch(offset: int, *values: bytes, epoch: int = 1, attributes: int = 0) -> bytes:
    """A batch of data records from `offset` on."""
    return encode_batch(
        [Record(offset + at, NOW + offset + at, value) for at, value in enumerate(values)],
        leader_epoch=epoch,
        attributes=attributes,
    )


def control_batch(offset: int, *items: tuple[RecordType, dict[str, Any]], epoch: int = 1, at_ms: int = NOW) -> bytes:
    """A control batch from `offset` on."""
    records = []
    for at, (kind, data) in enumerate(items):
        key, value = control(kind, data)
        records.append(Record(offset + at, at_ms + offset + at, value, key))
    return encode_batch(records, leader_epoch=epoch, control=True)


def log(*batches: Iterable[bytes], start: int = 0, epoch: int = 1) -> bytes:
    """A log with a batch of data records for each argument."""
    out, offset = b"", start
    for values in batches:
        content = list(values)
        out += batch(offset, *content, epoch=epoch)
        offset += len(content)
    return out


def snapshot(*values: bytes, epoch: int = 1) -> bytes:
    """A complete snapshot file; the last record of the log in it was written 5 ms before NOW."""
    return (
        control_batch(0, (table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": NOW - 5}), epoch=epoch)
        + (batch(1, *values, epoch=epoch) if values else b"")
        + control_batch(1 + len(values), (table.SNAPSHOT_FOOTER, {}), epoch=epoch)
    )


def segment(offset: int) -> str:
    """The name of the file that begins at this offset."""
    return f"{offset:020}.log"


def checkpoint(offset: int, epoch: int = 1) -> str:
    """The name of the snapshot that ends at this offset."""
    return f"{offset:020}-{epoch:010}.checkpoint"


def reencode(batch: Batch) -> bytes:
    """Encode a decoded batch. The bytes of an uncompressed batch are the original ones if it is encoded as Kafka does.
    A compressed section is taken over: the same records have several compressed forms.
    """
    if batch.codec is Codec.NONE:
        section = b"".join(encode_record(r, batch.base_offset, batch.base_timestamp) for r in batch.records())
    else:
        section = bytes(batch.data[HEADER_SIZE:])
    return seal(
        section,
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        count=batch.count,
    )
