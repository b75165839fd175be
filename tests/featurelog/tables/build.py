"""Small clusters for tests of tables: logs and snapshots of a quorum of three controllers, and copies of its nodes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from featurelog.tables import (
    CHECKPOINTS,
    NO_DOCUMENTS,
    ClusterCopies,
    Documents,
    FileRecords,
    History,
    Judging,
    NodeCopy,
    clusters_of,
    history_of,
    tables_of,
)
from kraftlog.arrow import LOG, RECORDS, SNAPSHOT, record_batches
from kraftlog.image import Image
from kraftlog.reading import Reading
from kraftlog.records import frame
from kraftlog.replay import Replay
from kraftlog.schema import RecordType, table
from tests.kraftlog.build import NOW, batch, control_batch

VOTERS = (3001, 3002, 3003)
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"

Item = bytes | tuple[RecordType, Mapping[str, Any]]
"""A data record by its value, or a control record."""


def ranges(**highest: int) -> tuple[dict[str, Any], ...]:
    """Supported ranges; `metadata_version=29` is 7-29, of others the lowest is 0."""
    return tuple(
        {
            "name": (dotted := name.replace("_", ".")),
            "minSupportedVersion": 7 if dotted == "metadata.version" else 0,
            "maxSupportedVersion": top,
        }
        for name, top in highest.items()
    )


LATEST = ranges(metadata_version=33, kraft_version=1, transaction_version=2, group_version=1, share_version=2,
                streams_version=1, eligible_leader_replicas_version=1)  # fmt: skip
OF_3_9 = ranges(metadata_version=21, kraft_version=1)


def registered_broker(number: int, epoch: int, *, supports: Iterable[Any] = LATEST, **changes: Any) -> bytes:
    data: dict[str, Any] = {
        "brokerId": number,
        "isMigratingZkBroker": False,
        "incarnationId": uuid.UUID(int=epoch),
        "brokerEpoch": epoch,
        "endPoints": ({"name": "PLAINTEXT", "host": f"b{number}.example", "port": 9092, "securityProtocol": 0},),
        "features": tuple(supports),
        "rack": None,
        "fenced": True,
        "inControlledShutdown": False,
    }
    return frame(table.REGISTER_BROKER, data | changes, 3)


def registered_controller(number: int, incarnation: int = 1, *, supports: Iterable[Any] = LATEST) -> bytes:
    data = {
        "controllerId": number,
        "incarnationId": uuid.UUID(int=incarnation),
        "zkMigrationReady": False,
        "endPoints": ({"name": "CONTROLLER", "host": f"c{number}.example", "port": 9093, "securityProtocol": 3},),
        "features": tuple(supports),
    }
    return frame(table.REGISTER_CONTROLLER, data)


def changed(number: int, epoch: int, **fields: Any) -> bytes:
    return frame(table.BROKER_REGISTRATION_CHANGE, {"brokerId": number, "brokerEpoch": epoch, **fields}, 1)


def unregistered_broker(number: int, epoch: int) -> bytes:
    return frame(table.UNREGISTER_BROKER, {"brokerId": number, "brokerEpoch": epoch})


def leader(number: int, voters: Iterable[int] = VOTERS) -> Item:
    said = tuple({"voterId": one} for one in voters)
    return table.LEADER_CHANGE, {"leaderId": number, "voters": said, "grantingVoters": said}


def level(name: str, value: int) -> bytes:
    return frame(table.FEATURE_LEVEL, {"name": name, "featureLevel": value})


def kraft_version(value: int) -> Item:
    return table.KRAFT_VERSION, {"kRaftVersion": value}


def migration(code: int) -> bytes:
    return frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": code})


def min_insync(value: str | None = "2", broker: str = "") -> bytes:
    """The record of a request that sets min.insync.replicas for all brokers, or for one; None removes the value."""
    data = {"resourceType": 4, "resourceName": broker, "name": "min.insync.replicas", "value": value}
    return frame(table.CONFIG, data)


def healthy(brokers: int = 2, version: int = 27) -> list[Item]:
    """The begin of the log of a healthy cluster, with min.insync.replicas 2 for all brokers. With two brokers it has
    nine records, offsets 0 to 8. The last broker is registered unfenced.
    """
    items: list[Item] = [leader(3001), level("metadata.version", version)]
    items += [registered_controller(one) for one in VOTERS]
    for number in range(1, brokers + 1):
        items += [registered_broker(number, 100 + number), changed(number, 100 + number, fenced=-1)]
    items[-2:] = [registered_broker(brokers, 100 + brokers, fenced=False), min_insync()]
    return items


def batches(items: Iterable[Item], *, start: int = 0, epoch: int = 1) -> list[bytes]:
    """A batch for each record."""
    made = []
    for offset, item in enumerate(items, start):
        if isinstance(item, bytes):
            made.append(batch(offset, item, epoch=epoch))
        else:
            made.append(control_batch(offset, (item[0], dict(item[1])), epoch=epoch))
    return made


def log(items: Iterable[Item], *, start: int = 0, epoch: int = 1) -> bytes:
    return b"".join(batches(items, start=start, epoch=epoch))


def segment_name(offset: int) -> str:
    return f"{offset:020}.log"


def snapshot_name(end: int, epoch: int = 1) -> str:
    return f"{end:020}-{epoch:010}.checkpoint"


def image_of(data: bytes, below: int) -> Image:
    replay = Replay()
    replay.append(data, below=below)
    return replay.image()


def snapshot_of(image: Image, *, at_ms: int = NOW, control: Iterable[tuple[RecordType, dict[str, Any]]] = ()) -> bytes:
    """The snapshot of this image, written at `at_ms`. control: records of the quorum, which follow the header."""
    values = [level(name, value) for name, value in image.features.items()]
    values += [
        registered_broker(
            one.id, one.epoch, supports=_supported(one.features), incarnationId=one.incarnation, fenced=one.fenced,
            inControlledShutdown=one.in_controlled_shutdown, isMigratingZkBroker=one.is_migrating_zk_broker,
        )
        for one in image.brokers.values()
    ]  # fmt: skip
    values += [
        registered_controller(one.id, one.incarnation.int, supports=_supported(one.features))
        for one in image.controllers.values()
    ]
    if image.zk_migration_state is not None:
        values.append(migration(image.zk_migration_state))
    values.append(min_insync())
    header = {"lastContainedLogTimestamp": image.timestamp_ms}
    first = [(table.SNAPSHOT_HEADER, header), *control]
    epoch, end = image.epoch, len(first) + len(values)
    return (
        control_batch(0, *first, epoch=epoch)
        + (batch(len(first), *values, epoch=epoch) if values else b"")
        + control_batch(end, (table.SNAPSHOT_FOOTER, {}), epoch=epoch, at_ms=at_ms)
    )


def _supported(features: Mapping[str, tuple[int, int]]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"name": name, "minSupportedVersion": low, "maxSupportedVersion": high}
        for name, (low, high) in features.items()
    )


def rows_of(name: str, data: bytes) -> pa.Table:
    origin = SNAPSHOT if name.endswith(".checkpoint") else LOG
    return pa.Table.from_batches(record_batches(Reading(data), origin=origin), RECORDS)


def copy(
    node: str,
    files: Mapping[str, bytes],
    *,
    cluster: str = "prod",
    cluster_id: str | None = CLUSTER_ID,
    node_id: int | None = None,
    voted: int | None = None,
) -> NodeCopy:
    """The copy of a node in the folder `node`. files: content by name; node_id: of its meta.properties, by default the
    name of the folder. voted: candidate of its vote in epoch 1, by default itself, so that copies of two nodes differ;
    -1: it has no vote.
    """
    records = [FileRecords.of(node, name, rows_of(name, data).to_batches) for name, data in files.items()]

    said = int(node) if node_id is None and node.isdecimal() else node_id
    vote = None if voted == -1 else (1, voted if voted is not None else said or 0, "")
    return NodeCopy(cluster, node, cluster_id, tuple(records), node_id=said, vote=vote)


def snapshot_at(end: int, data: bytes, **more: Any) -> dict[str, bytes]:
    """The snapshot of this log at an offset, by its name."""
    return {snapshot_name(end): snapshot_of(image_of(data, end), **more)}


def copies_of(data: bytes | Mapping[str, bytes], nodes: Iterable[int] = VOTERS) -> list[NodeCopy]:
    """A copy of this log, or of these files, on each of these nodes."""
    files = {segment_name(0): data} if isinstance(data, bytes) else data
    return [copy(str(node), files) for node in nodes]


def one(copies: Iterable[NodeCopy]) -> ClusterCopies:
    (cluster,) = clusters_of(copies)
    return cluster


def history(*copies: NodeCopy) -> History:
    return history_of(one(copies))


def tables(
    copies: Iterable[NodeCopy], *, at_ms: int | None = None, documents: Documents = NO_DOCUMENTS, valid_for_ms: int = 0
) -> dict[str, pa.Table]:
    """All tables, judged at the time of the last record, or at `at_ms`."""
    cluster = one(copies)
    if at_ms is None:
        at_ms = history_of(cluster).end_ms or 0
    made = tables_of(cluster, documents, Judging(at_ms, valid_for_ms))
    return {name: table for name, table in made.items() if name != CHECKPOINTS}


def rows(copies: Iterable[NodeCopy], name: str, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tables(copies, **more)[name].to_pylist()
    return found


def readiness(copies: Iterable[NodeCopy], target: str = "4.2", **more: Any) -> dict[str, Any]:
    """The row of one target."""
    (found,) = [row for row in rows(copies, "upgrade_readiness", **more) if row["target"] == target]
    return found


def unknown_kinds(row: dict[str, Any]) -> set[str]:
    """The kinds of missing evidence in a row of readiness."""
    return {one["kind"] for one in row["unknown_because"]}


def milliseconds(value: Any) -> int | None:
    """A time of a row, counted from `NOW`."""
    return None if value is None else int(value.timestamp() * 1000) - NOW


def verdicts(copies: Iterable[NodeCopy], **more: Any) -> dict[str, str]:
    """Target to verdict."""
    return {row["target"]: row["verdict"] for row in rows(copies, "upgrade_readiness", **more)}
