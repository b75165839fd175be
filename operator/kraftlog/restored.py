"""Restores the image at an offset from the files of a log: from the last complete snapshot up to that offset, and the
records of the log after it.

    restored = image_at(names, opened, at=442)

It decides which snapshot to begin with, and guarantees an exact image: with every record below the offset, and no
other, even if the offset is within a batch. A gap, damage, or an earlier end of the log raises `StateUnknown`. If no
offset is given, the image ends there instead. `opened` returns the bytes of a file, which are read in pieces. A
snapshot without its footer is incomplete, and is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kraftlog.batches import (
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAX_BATCH,
    Damage,
    DamageReason,
    Pieces,
    head_at,
)
from kraftlog.encoding import encode_batch
from kraftlog.errors import DamagedError, GapError, KraftLogError, MalformedError, TooLargeError
from kraftlog.files import Segment, Snapshot, in_order
from kraftlog.image import SMALL, Image, Section
from kraftlog.replay import Replay, SnapshotReader
from kraftlog.walks import Walk

PIECE = 4 * 1024 * 1024  # bytes that are read at a time
END = 1 << 62  # above every offset

Opener = Callable[[str], AbstractContextManager[Pieces]]
"""(name of a file) -> context manager with its bytes."""


@dataclass(frozen=True, slots=True)
class Restored:
    """An image that is exact at its offset, and its sources.

    made_of: the files used, in order. left_out: incomplete snapshots, each with the reason. stop_reason: the reason if
    it ends before the end of the log; always empty if an offset was requested. impossible: the records at which Kafka
    would throw (`judged`), each with its file, except one that is the `stop_reason` already; `image_at` leaves it
    empty, callers add them.
    """

    image: Image
    made_of: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    stop_reason: str = ""
    impossible: tuple[str, ...] = ()


class StateUnknown(KraftLogError):
    """The state at this offset cannot be restored from these files.

    `exact_until`: the last offset at which it can be restored, with the same snapshot; None if there is none.
    """

    def __init__(self, reason: str, exact_until: int | None = None) -> None:
        super().__init__(reason)
        self.exact_until = exact_until


def image_at(
    names: Iterable[str],
    opened: Opener,
    *,
    at: int | None = None,
    sections: Iterable[Section] = SMALL,
    limit: int | None = None,
) -> Restored:
    """The image at offset `at`, or at the end of the log. `sections`, `limit`: see `Replay`.

    Raises StateUnknown if there is no exact image at this offset, and TooLargeError like Replay.
    """
    snapshots, segments = in_order(names)
    chosen, left_out = tuple(sections), []
    for snapshot in reversed(snapshots):
        if at is not None and snapshot.end_offset > at:
            continue
        try:
            with opened(snapshot.name) as data:
                replay = loaded(data, snapshot, sections=chosen, limit=limit)
        except KraftLogError as error:
            left_out.append(f"{snapshot.name}: {error}")
            continue
        return _continued(replay, segments, opened, at, made_of=[snapshot.name], left_out=left_out)
    if segments and segments[0].base_offset == 0:
        return _continued(Replay(sections=chosen, limit=limit), segments, opened, at, made_of=[], left_out=left_out)
    raise StateUnknown("; ".join([_no_base(segments, snapshots, at), *left_out]))


def loaded(
    data: Pieces, snapshot: Snapshot, *, sections: Iterable[Section] = SMALL, limit: int | None = None
) -> Replay:
    """A Replay with the state of a snapshot, which is read in pieces. Raises what a SnapshotReader raises."""
    reader = SnapshotReader(end_offset=snapshot.end_offset, epoch=snapshot.epoch, sections=sections, limit=limit)
    for start in range(0, len(data), PIECE):
        reader.feed(data[start : start + PIECE])
    return reader.finish()


def _no_base(segments: Sequence[Segment], snapshots: Sequence[Snapshot], at: int | None) -> str:
    """The reason why there is nothing to begin with, in words."""
    begins = f"the log begins at offset {segments[0].base_offset}" if segments else "no segment of the log is here"
    if at is not None and snapshots and snapshots[0].end_offset > at:
        return f"{begins}, and the oldest snapshot is of offset {snapshots[0].end_offset}: what was before is not known"
    return f"{begins}, and no whole snapshot is here to begin with"


def _continued(
    replay: Replay,
    segments: Sequence[Segment],
    opened: Opener,
    at: int | None,
    *,
    made_of: list[str],
    left_out: Sequence[str],
) -> Restored:
    """Apply the segments after the snapshot, up to offset `at`."""
    below, stop_reason, previous = END if at is None else at, "", ""
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        if not is_last and segments[index + 1].base_offset <= replay.offset:  # all of it is in the snapshot
            continue
        if replay.offset >= below or stop_reason:
            break
        if segment.base_offset > replay.offset:
            stop_reason = (
                f"offsets {replay.offset} to {segment.base_offset - 1} are missing: {segment.name} is the next file"
            )
            break
        if previous and segment.base_offset < replay.offset:
            stop_reason = f"{segment.name}: begins at offset {segment.base_offset}, which {previous} has already"
            break
        offset, previous = replay.offset, segment.name
        with opened(segment.name) as data:
            stop_reason = _appended(replay, data, segment.name, below, is_last)
        if replay.offset > offset:
            made_of.append(segment.name)
    if at is not None and replay.offset < at:
        raise StateUnknown(stop_reason or f"the log ends at offset {replay.offset}", replay.offset)
    return Restored(replay.image(), tuple(made_of), tuple(left_out), "" if at is not None else stop_reason)


def _appended(replay: Replay, data: Pieces, name: str, below: int, is_last: bool) -> str:
    """Apply a segment up to offset `below`. Returns the reason if it ended before the end of the segment; else ""."""
    position = 0
    while position < len(data):
        size, is_cut = _whole(data[position : position + PIECE], below)
        try:
            replay.append(data[position : position + size], below=below)
        except GapError as error:
            return _missing(name, error.expected, error.actual)
        except DamagedError as error:
            return f"{name}: at byte {position + error.position}: {error.detail}"
        position += size
        if is_cut:
            return _divided(replay, data, position, name, below)
        if not size:  # damage, the end, a batch behind `below`, or one that is larger than a piece
            head = head_at(data, position)
            if not isinstance(head, Damage):
                if head.base_offset >= below:
                    return _missing(name, replay.offset, head.base_offset)
                if head.size > MAX_BATCH:
                    raise TooLargeError(f"{name}: a batch of {head.size} bytes; at most {MAX_BATCH} are read")
                replay.append(data[position : position + head.size], below=below)
                position += head.size
                continue
            damage = _measured(data, position)
            is_end = is_last and damage.reason in (DamageReason.TRUNCATED, DamageReason.ZEROS)
            return "" if is_end else f"{name}: at byte {position}: {damage.reason.value}"
    return ""


def _missing(name: str, expected: int, actual: int) -> str:
    """The reason that offsets are missing before the next batch; empty if none are."""
    return f"{name}: offsets {expected} to {actual - 1} are missing" if actual > expected else ""


def _whole(window: memoryview, below: int) -> tuple[int, bool]:
    """(bytes of the complete batches at the beginning of a window that end at or below offset `below`, whether the next
    batch contains that offset).

    Only lengths and offsets are read here; `append` checks the rest.
    """
    position = 0
    while position + HEADER_SIZE <= len(window):
        base, length, *_, delta, _, _, _, _, _, _ = HEADER.unpack_from(window, position)
        size = LENGTH_END + length
        if not HEADER_SIZE <= size <= min(MAX_BATCH, len(window) - position):
            break
        if base + delta >= below:
            return position, base < below
        position += size
    return position, False


def _divided(replay: Replay, data: Pieces, position: int, name: str, below: int) -> str:
    """Apply the records below offset `below` of the batch that contains it. Returns the reason if that is impossible,
    or "".
    """
    head = head_at(data, position)
    if isinstance(head, Damage):
        return f"{name}: at byte {position}: {head.reason.value}"
    if head.base_offset > replay.offset:
        return _missing(name, replay.offset, head.base_offset)
    batch = head.batch(data, position)
    try:
        records = [record for record in batch.records() if record.offset < below]
    except MalformedError as error:
        return f"{name}: at byte {position}: {error}"
    part = encode_batch(
        records, leader_epoch=batch.leader_epoch, control=batch.is_control, base_offset=batch.base_offset,
        base_timestamp=batch.base_timestamp, last_offset_delta=below - 1 - batch.base_offset,
    )  # fmt: skip
    replay.append(part, below=below)
    return ""


def _measured(data: Pieces, position: int) -> Damage:
    """The damage at this position with its real size and reason, which needs a search for the next batch."""
    (damage,) = Walk(data, position).next()
    assert isinstance(damage, Damage)  # noqa: S101 - no batch begins there, as `head_at` has shown
    return damage
