"""Writes the directories of a cluster's nodes at the end of its history, with what Kafka's retention leaves of the log.

Called by `fleet`. These clusters have a `metadata.log.segment.ms` and a `metadata.log.max.snapshot.interval.ms` of one
day, and a `metadata.max.retention.ms` of a day less than `Scale.kept_days`. A snapshot older than that is deleted if
there is a newer one; the log then begins at the oldest snapshot that is left, and segments that end below it are
deleted (`KafkaMetadataLog.maybeClean`). Each node writes snapshots at times of its own; the last batches have not
reached every node. Index files are left out: nothing but Kafka reads them, and it makes them anew.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from kafkafeatures.core.facts.readings import Role
from kafkasim.fleet.history import History, NodeSnapshot
from kafkasim.fleet.idle import IdleRun
from kafkasim.fleet.plan import DAY_MS, Scale
from kafkasim.log import Piece
from kafkasim.node import Node
from kraftlog.files import DIRECTORY, PROPERTIES
from kraftlog.records import kafka_uuid

_BATCHES_AT_ONCE = 20_000  # batches of an idle run that are in memory
_METADATA_TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"  # id of the topic `__cluster_metadata`, which every cluster has


_FirstCopies = dict[tuple[int, int], Path]
"""Path of each segment that was written already, by its first and its end offset: other nodes get copies of it."""


class _Segment(Struct, frozen=True):
    """A segment of the log: consecutive pieces, which one file holds."""

    pieces: Sequence[Piece]

    @property
    def base_offset(self) -> int:
        return self.pieces[0].base_offset

    @property
    def end_offset(self) -> int:
        return self.pieces[-1].end_offset


def write_cluster(folder: Path, history: History, scale: Scale) -> None:
    """Write a folder, named by the node id, for each node of which the fleet has a copy."""
    segments = _segments(history.log.pieces)
    copies: _FirstCopies = {}
    nodes = [history.nodes[Role.CONTROLLER, each] for each in history.plan.controllers]
    nodes += [history.nodes[Role.BROKER, each] for each in history.plan.brokers]
    for number, node in enumerate(nodes[: scale.copies]):
        missing = 0 if node.id == history.active else number % 3  # batches at the end that the node does not have
        own_segments = [*segments[:-1], _without_last(segments[-1], missing)]
        _write_log(folder / str(node.id) / DIRECTORY, _retained(history, node.id, scale), own_segments, copies)
        _write_identity(folder / str(node.id), history, node)


def _write_log(
    log: Path, snapshots: Sequence[NodeSnapshot], segments: Sequence[_Segment], copies: _FirstCopies
) -> None:
    """Write the log of a node from its oldest snapshot on."""
    log.mkdir(parents=True)
    for snapshot_file in snapshots:
        position = snapshot_file.snapshot.id
        (log / f"{position.offset:020}-{position.epoch:010}.checkpoint").write_bytes(snapshot_file.snapshot.data)
    start = snapshots[0].snapshot.id.offset if snapshots else 0
    epochs: dict[int, int] = {}
    for segment in segments:
        if segment.end_offset <= start:
            continue
        for piece in segment.pieces:
            if piece.end_offset > start:
                epochs.setdefault(piece.epoch, max(piece.base_offset, start))
        path = log / f"{segment.base_offset:020}.log"
        first_copy = copies.setdefault((segment.base_offset, segment.end_offset), path)
        if first_copy is path:
            _write_segment(path, segment)
        else:
            shutil.copyfile(first_copy, path)
    starts = "".join(f"{epoch} {offset}\n" for epoch, offset in epochs.items())
    (log / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{starts}")


def _write_identity(folder: Path, history: History, node: Node) -> None:
    log = folder / DIRECTORY
    (log / "partition.metadata").write_text(f"version: 0\ntopic_id: {_METADATA_TOPIC}")
    (log / "quorum-state").write_text(json.dumps(_quorum_state(history), separators=(",", ":")))
    directory, began = kafka_uuid(node.directory), datetime.fromtimestamp(history.began_ms / 1000, UTC)
    (folder / PROPERTIES).write_text(
        f"#\n#{began:%a %b %d %H:%M:%S UTC %Y}\nnode.id={node.id}\ndirectory.id={directory}\nversion=1\n"
        f"cluster.id={history.cluster_id}\n"
    )


def _retained(history: History, node_id: int, scale: Scale) -> list[NodeSnapshot]:
    """The snapshots of a node that are not deleted, the oldest first; its newest one is always among them."""
    own_snapshots = [each for each in history.snapshots if each.node_id == node_id]
    oldest = history.until_ms - (scale.kept_days - 1) * DAY_MS
    return [each for each in own_snapshots if each.last_ms >= oldest] or own_snapshots[-1:]


def _segments(pieces: Sequence[Piece]) -> list[_Segment]:
    """The segments of a log: each ends before the first batch that is more than a day younger than its first one."""
    segments: list[_Segment] = []
    current: list[Piece] = []
    for piece in pieces:
        remaining: Piece | None = piece
        while remaining is not None:
            until = (current[0].first_ms if current else remaining.first_ms) + DAY_MS
            part, remaining = _split(remaining, until)
            if part is not None:
                current.append(part)
            if remaining is not None:
                segments.append(_Segment(current))
                current = []
    segments.append(_Segment(current))
    return segments


def _split(piece: Piece, until_ms: int) -> tuple[Piece | None, Piece | None]:
    """The part of a piece up to that time, and the part after it; None for an empty part."""
    if not isinstance(piece, IdleRun):
        return (piece, None) if piece.first_ms <= until_ms else (None, piece)
    fitting = (until_ms - piece.first_ms) // piece.every_ms + 1  # batches up to that time, the first one included
    if fitting <= 0:
        return None, piece
    return (piece, None) if fitting >= piece.count else piece.split(fitting)


def _without_last(segment: _Segment, count: int) -> _Segment:
    """The segment without its last batches, which have not reached this node; it keeps at least one."""
    pieces = list(segment.pieces)
    while count > 0 and (len(pieces) > 1 or isinstance(pieces[0], IdleRun)):
        last = pieces.pop()
        if isinstance(last, IdleRun) and last.count > 1:
            pieces.append(last.split(last.count - 1)[0])
        elif not pieces:
            return _Segment([last])
        count -= 1
    return _Segment(pieces)


def _write_segment(path: Path, segment: _Segment) -> None:
    with path.open("wb") as file:
        for piece in segment.pieces:
            for part in _parts(piece):
                file.write(part.data)


def _parts(piece: Piece) -> Iterator[Piece]:
    """The piece in parts of which each fits into memory."""
    while isinstance(piece, IdleRun) and piece.count > _BATCHES_AT_ONCE:
        part, piece = piece.split(_BATCHES_AT_ONCE)
        yield part
    yield piece


def _quorum_state(history: History) -> dict[str, object]:
    """Content of the file `quorum-state`; a dynamic quorum has another layout."""
    leader = -1 if history.active is None else history.active
    if history.image.voters is not None:
        return {
            "leaderId": leader,
            "leaderEpoch": history.epoch,
            "votedId": -1,
            "votedDirectoryId": kafka_uuid(history.nodes[Role.CONTROLLER, history.voters[0]].directory),
            "data_version": 1,
        }
    return {
        "clusterId": "",
        "leaderId": leader,
        "leaderEpoch": history.epoch,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": each} for each in history.voters],
        "data_version": 0,
    }
