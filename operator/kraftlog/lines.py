"""Writes a line of text for each record of a file: usual records fast by `fast_json`, others by the caller's function.

It decides which records are usual: framed as Kafka frames them, of a type without secrets, in the current layout, in
printable ASCII, and without unknown tags. Both ways give exactly the same text, and both count the records in the
account of the reading. Called by commands that show records; `kraftlog.arrow.lines` is faster for large files, if numpy
and Arrow are installed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kraftlog.batches import CODEC_OR_CONTROL, HEADER_SIZE, Damage, usual_record
from kraftlog.errors import MalformedError
from kraftlog.reading import Entry, Reading, Share, content_of
from kraftlog.records import FRAME_VERSION, MAX_RECORD, readers_of
from kraftlog.redaction import has_secrets
from kraftlog.walks import Run

if TYPE_CHECKING:
    from kraftlog.fast_json import Writer

_AT_ONCE = 64 * 1024
"""Bytes of records, plus one record, whose lines are returned together; their text may be many times as large."""

_HEAD = struct.Struct(">q4xi5xh4xq22xi")  # of a batch: base offset, leader epoch, attributes, base timestamp, records
_FRAME = 3  # bytes: frame version, key and version, each of which is one in all releases
# Errors at a record that is not usual, whose line the caller's function writes.
_REFUSED = (KeyError, MalformedError, IndexError, struct.error, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class Form:
    """Format of a line. entry: writes the line of any record, without its end. time: writes a time in ms. separators:
    six texts, before the offset, and after offset, time, type, version and data. offset_width: least characters of the
    offset, which is padded on the left.
    """

    entry: Callable[[Entry], str]
    time: Callable[[int], str]
    separators: tuple[str, str, str, str, str, str]
    offset_width: int = 0


def lines(reading: Reading, form: Form) -> Iterator[str | Damage]:
    """Texts of one or many lines, each with its line end; and damage in its place."""
    writer = _Writer(reading, form)
    for item in reading.runs():
        if isinstance(item, Run):
            yield from writer.of_run(item)
        else:
            yield writer.of_item(item)


class _Kind(NamedTuple):
    """A type and version of records. head: text of its lines from the type to the data. write: returns the text of the
    data, or None (see `fast_json`). share: records and bytes that are not in the account yet.
    """

    name: str
    head: str
    write: Writer
    share: Share


class _Kinds(dict[bytes, _Kind]):
    """Kinds of records by their first bytes; KeyError for records that are not written here."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self._form = form

    def __missing__(self, frame: bytes) -> _Kind:
        if len(frame) < _FRAME or not frame.isascii() or frame[0] != FRAME_VERSION:
            raise KeyError(frame)
        _, key, version = frame
        decoders = readers_of(False, key)
        if decoders is None or version > decoders[0].last_version or has_secrets(decoders[0]):
            raise KeyError(frame)
        from kraftlog.fast_json import writer  # msgspec is needed only where text is written

        kind, readers = decoders
        (reader, _), *_ = readers[version]
        *_, behind_type, behind_version, _ = self._form.separators
        head = f"{kind.name}{behind_type}{version}{behind_version}"
        self[frame] = _Kind(kind.name, head, writer(reader, kind.layouts[0].fields), Share())
        return self[frame]


class _Writer:
    """Writes the lines of one reading."""

    def __init__(self, reading: Reading, form: Form) -> None:
        self._reading = reading
        self._form = form
        self._kinds = _Kinds(form)
        self._lines: list[str] = []  # lines that were not returned yet

    def of_item(self, item: Entry | Damage) -> str | Damage:
        """The line of a record that was read by itself."""
        return item if isinstance(item, Damage) else self._form.entry(item) + "\n"

    def of_run(self, run: Run) -> Iterator[str | Damage]:
        """The lines of a run of sound batches: in each batch usual records up to the first unusual one, then the others
        one by one.

        It is one loop over all batches for speed, because most batches have one or two records.
        """
        reading, data, kinds, add = self._reading, run.data, self._kinds, self._lines.append
        prefix, behind_offset, behind_time, *_, behind_data = self._form.separators
        end_of_line, width = behind_data + "\n", self._form.offset_width
        full, last_timestamp, time_text, batches, claimed = _AT_ONCE, None, "", 0, 0
        for number, (start, end) in enumerate(pairwise(run.starts)):
            if number in run.breaks:
                yield self._taken()
                yield from map(reading.damage, run.breaks[number])
            base_offset, epoch, attributes, base_timestamp, records = _HEAD.unpack_from(data, start)
            # The first record of a file is read by `reading`, which notes its type.
            if attributes & CODEC_OR_CONTROL or reading.first is None:
                yield self._taken()
                yield from map(self.of_item, reading.entries(run.batch(number)))
                continue
            batches, claimed = batches + 1, claimed + records
            # last: type of the last record, if that was written here; else `reading` has noted it.
            at, done, last = start + HEADER_SIZE, 0, None
            while done < records:
                if at >= full:
                    yield self._taken()
                    full = at + _AT_ONCE
                record = usual_record(data, at, end)
                if record is None:
                    break
                time_delta, offset_delta, begin, stop = record
                offset, timestamp, value = (
                    base_offset + offset_delta,
                    base_timestamp + time_delta,
                    data[begin : stop - 1],
                )
                if timestamp != last_timestamp:
                    last_timestamp, time_text = timestamp, f"{behind_offset}{self._form.time(timestamp)}{behind_time}"
                size, at, done = stop - at, stop, done + 1
                try:
                    last, head, write, share = kinds[value[:_FRAME]]
                    text = write(value, _FRAME) if len(value) <= MAX_RECORD else None
                except _REFUSED:
                    text = None
                if text is not None:
                    add(f"{prefix}{str(offset).rjust(width)}{time_text}{head}{text}{end_of_line}")
                    share.records += 1
                    share.bytes += size
                else:
                    last, content = None, content_of(value)
                    reading.count(content, size)
                    entry = Entry(run.position + start, size, offset, timestamp, epoch, False, content)
                    add(self._form.entry(entry) + "\n")
            if last is not None:
                reading.last = last
            if done < records or at < end:
                yield self._taken()
                begin = start + HEADER_SIZE
                yield from map(self.of_item, reading.remaining(run.batch(number), data[begin:end], done, at - begin))
        reading.count_batches(batches, claimed)
        self._count()
        yield self._taken()

    def _count(self) -> None:
        """Move the counts of all kinds to the account."""
        for name, _, _, share in self._kinds.values():
            if share.records:
                self._reading.account.add(self._reading.account.decoded, name, share.records, share.bytes)
                share.records = share.bytes = 0

    def _taken(self) -> str:
        """The text of the lines that were not returned yet, which are returned now."""
        text = "".join(self._lines)
        self._lines.clear()
        return text
