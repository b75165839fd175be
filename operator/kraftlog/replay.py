"""Builds an image from a snapshot and the log behind it, record by record.

What it decides: which batches count (whole, undamaged, in order, below the bound it is given), which records must be
decoded at all, and when records of a metadata transaction take effect (KIP-868: at End; Abort voids them; control
records do not take part). Called by whoever holds the bytes: a follower with fetched chunks, a command with files. It
reads nothing itself and never skips damage in a stream.

Speed: most records of a large cluster say nothing about features, so the loop looks at two bytes of a record's frame
and goes on. That loop is the only place that reads varints by hand.
"""

from __future__ import annotations

from types import MappingProxyType

from kraftlog.batches import HEADER_SIZE, Batch, Buffer, Codec, Damage, DamageReason, batch_at, read_record
from kraftlog.errors import DamagedError, GapError, MalformedError, SnapshotIncomplete
from kraftlog.image import Image
from kraftlog.records import FRAME_VERSION, Decoded, Raw, Unreadable, decode, decode_control
from kraftlog.schema import table
from kraftlog.state import CONTROL_RULES, METADATA_RULES, ContradictionError, State

_BEGIN, _END, _ABORT = table.BEGIN_TRANSACTION.key, table.END_TRANSACTION.key, table.ABORT_TRANSACTION.key
_KEYS = 128  # api keys that fit in one varint byte; a larger one goes the slow way
_WANTED = bytes(key in METADATA_RULES or key in (_BEGIN, _END, _ABORT) for key in range(_KEYS))
_CONTINUES = 0x80  # a varint goes on
_NULL_KEY = 1  # zigzag of -1


class Replay:
    """A log as far as it was read. Empty at offset 0; not for several threads."""

    __slots__ = ("_counts", "_epoch", "_offset", "_pending", "_state", "_timestamp_ms", "_unreadable")

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._state = State()
        self._offset = 0
        self._epoch = -1
        self._timestamp_ms = -1
        self._pending: list[Decoded] | None = None  # None outside of a transaction
        self._counts: dict[int, int] = {}
        self._unreadable = 0

    @property
    def offset(self) -> int:
        """End offset, exclusive: where the next batch starts."""
        return self._offset

    @property
    def epoch(self) -> int:
        """Leader epoch of the last batch, -1 before any."""
        return self._epoch

    def load_snapshot(self, data: Buffer, *, end_offset: int, epoch: int) -> None:
        """Forget everything and take the state of a whole snapshot file, of which (end_offset, epoch) is the id.

        Raises SnapshotIncomplete, the former state untouched, when the header or the footer is missing, or a batch is
        damaged or missing.
        """
        fresh = Replay()
        fresh._take_snapshot(bytes(data))
        fresh._offset, fresh._epoch = end_offset, epoch
        fresh._timestamp_ms = fresh._state.snapshot_timestamp_ms
        fresh._state.leader_id = None
        fresh._state.features_offset = end_offset
        for name in Replay.__slots__:
            setattr(self, name, getattr(fresh, name))

    def _take_snapshot(self, data: bytes) -> None:
        position, header, footer = 0, False, False
        while position < len(data):
            batch = batch_at(data, position)
            if isinstance(batch, Damage):
                raise SnapshotIncomplete(f"{batch.reason.value} at byte {position} of the snapshot")
            if batch.base_offset != self._offset:
                raise SnapshotIncomplete(f"offset {self._offset} of the snapshot is missing")
            if footer:
                raise SnapshotIncomplete(f"batches behind the footer, at byte {position} of the snapshot")
            if batch.is_control:
                types = self._control(batch)
                if position == 0:
                    header = types[:1] == [table.SNAPSHOT_HEADER.key]
                footer = types[-1:] == [table.SNAPSHOT_FOOTER.key]
            else:
                self._records(batch)
            self._offset = batch.last_offset + 1
            position += batch.size
        if not header or not footer:
            raise SnapshotIncomplete(f"the snapshot has no {'footer' if header else 'header'}")

    def append(self, data: Buffer, *, below: int) -> int:
        """Apply the whole batches of a piece of log whose last offset is below `below`, in order; the new end offset.

        Records that are in already are left out. A batch that is cut, or reaches `below`, is left for the next call.
        Raises GapError when a batch starts beyond the end offset and DamagedError when one is not what was written;
        what came before it is applied in both cases.
        """
        buffer = bytes(data)
        position = 0
        while position < len(buffer):
            batch = batch_at(buffer, position)
            if isinstance(batch, Damage):
                if batch.reason is DamageReason.TRUNCATED:
                    break
                raise DamagedError(position, f"{batch.reason.value} ({batch.detail})")
            position += batch.size
            end = batch.last_offset + 1
            if end <= self._offset:
                continue
            if end > below:
                break
            if batch.base_offset > self._offset:
                raise GapError(self._offset, batch.base_offset)
            self._state.offset, self._state.timestamp_ms = end, batch.max_timestamp
            if batch.is_control:
                self._control(batch)
            else:
                self._records(batch)
            self._offset, self._epoch, self._timestamp_ms = end, batch.leader_epoch, batch.max_timestamp
        return self._offset

    def image(self) -> Image:
        """The state now. Cheap; later calls do not change it."""
        state = self._state
        return Image(
            offset=self._offset,
            epoch=self._epoch,
            timestamp_ms=self._timestamp_ms,
            brokers=state.brokers.view(),
            controllers=state.controllers.view(),
            features=state.features.view(),
            features_offset=state.features_offset,
            feature_record_kraft_version=state.feature_record_kraft_version,
            kraft_version=state.kraft_version,
            voters=state.voters,
            zk_migration_state=state.zk_migration_state,
            leader_id=state.leader_id,
            in_transaction=self._pending is not None,
            counts=MappingProxyType(dict(self._counts)),
            unreadable=self._unreadable,
            unregistered=state.unregistered.view(),
        )

    def _control(self, batch: Batch) -> list[int]:
        """Apply a control batch at once; the type numbers of its records."""
        types = []
        try:
            for record in batch.records():
                if record.offset < self._offset:
                    continue
                found = decode_control(record.key, record.value)
                if not isinstance(found, Decoded):
                    # An unknown type of control record could be anything about the quorum: it counts against the image.
                    self._unreadable += 1
                    continue
                CONTROL_RULES[found.type.key](self._state, found.data)
                types.append(found.type.key)
        except MalformedError:
            self._unreadable += 1
        return types

    def _records(self, batch: Batch) -> None:
        try:
            if batch.codec is Codec.NONE and batch.base_offset >= self._offset:
                self._scan(batch.data, HEADER_SIZE, batch.count)
            elif batch.base_offset >= self._offset:
                self._scan(batch.record_section(), 0, batch.count)
            else:  # the snapshot ended inside this batch
                for record in batch.records():
                    if record.offset >= self._offset:
                        self._value(record.value)
        except (MalformedError, IndexError):  # IndexError: the loop below ran over the end of a section
            self._unreadable += 1

    def _scan(self, data: bytes, position: int, count: int) -> None:
        """Look at every record of an uncompressed section; decode those the image needs."""
        counts, limit = self._counts, len(data)
        for _ in range(count):
            start = position
            byte = data[position]
            position += 1
            length, shift = byte & 0x7F, 7
            while byte & _CONTINUES:
                byte = data[position]
                position += 1
                length |= (byte & 0x7F) << shift
                shift += 7
            end = position + (length >> 1)
            if length & 1 or end > limit:
                raise MalformedError(f"a record that is longer than its batch at byte {start}")
            position += 1  # attributes
            while data[position] & _CONTINUES:  # timestamp delta
                position += 1
            position += 1
            while data[position] & _CONTINUES:  # offset delta
                position += 1
            position += 1
            if data[position] == _NULL_KEY:
                position += 1
                while data[position] & _CONTINUES:  # value length
                    position += 1
                key = data[position + 2]
                # A frame has three bytes at least and the header count follows: shorter ones go the slow way.
                if data[position + 1] == FRAME_VERSION and key < _KEYS and not _WANTED[key] and position + 4 < end:
                    counts[key] = counts.get(key, 0) + 1
                    position = end
                    continue
            record, position = read_record(data, start, 0, 0)
            self._value(record.value)
        if position != limit:
            raise MalformedError(f"{limit - position} bytes behind the last record")

    def _value(self, value: bytes | None) -> None:
        found = decode(value)
        if isinstance(found, Decoded):
            key = found.type.key
            self._counts[key] = self._counts.get(key, 0) + 1
            self._decoded(found)
            return
        if found.key >= 0:
            self._counts[found.key] = self._counts.get(found.key, 0) + 1
        if isinstance(found, Unreadable) or found.key < 0 or _matters(found):
            self._unreadable += 1

    def _decoded(self, record: Decoded) -> None:
        key = record.type.key
        if key == _BEGIN:
            if self._pending is not None:  # Kafka's controller stops at this; the records so far stay open
                self._unreadable += 1
            else:
                self._pending = []
        elif key in (_END, _ABORT):
            pending, self._pending = self._pending, None
            if pending is None:
                self._unreadable += 1
            elif key == _END:
                for each in pending:
                    self._apply(each)
        elif self._pending is not None:
            self._pending.append(record)
        else:
            self._apply(record)

    def _apply(self, record: Decoded) -> None:
        rule = METADATA_RULES.get(record.type.key)
        if rule is None:
            return
        try:
            rule(self._state, record.data)
        except ContradictionError:
            self._unreadable += 1


def _matters(record: Raw) -> bool:
    """Whether a record kept as bytes could have changed the image: a newer version of a type the image is made of."""
    return record.key < _KEYS and bool(_WANTED[record.key])
