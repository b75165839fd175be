"""Writes a line of text for each record, many at once: the values that `columns` reads, joined to one text.

For commands that show large files. A command's own function (`Form.entry`) writes the lines of unusual records. The
lines of usual records are made here, and equal those that `Form.entry` would write. All records are counted in the
account of the reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.arrow import columns
from kraftlog.arrow.framing import Records
from kraftlog.arrow.runs import items
from kraftlog.arrow.texts import Parts, joined, numbers, placed
from kraftlog.batches import Damage
from kraftlog.lines import Form
from kraftlog.reading import Reading


def lines(reading: Reading, form: Form, *, redact: bool = True) -> Iterator[str | Damage]:
    """Texts of one or many lines, each with its line end; and damage in its place."""
    for item in items(reading):
        if isinstance(item, Records):
            yield _many(reading, item, form, redact)
        else:
            yield item if isinstance(item, Damage) else form.entry(item) + "\n"


def _many(reading: Reading, records: Records, form: Form, redact: bool) -> str:
    rows = len(records)
    content = columns.read(reading, records, redact, lambda entry: form.entry(entry) + "\n")
    times = pa.array(records.timestamp).dictionary_encode()  # each different time is written once
    fields = (
        pc.utf8_lpad(numbers(records.offset), form.offset_width),
        pa.array(map(form.time, times.dictionary.to_pylist()), pa.string()).take(times.indices),
        content.names,
        numbers(content.versions),
        placed(content.pieces.get("body", ()), rows, pa.string()),
    )
    first, *separators = form.separators
    parts: Parts = [first, *chain.from_iterable(zip(fields, separators, strict=True)), "\n"]
    text = joined(parts, rows)
    if content.singles:
        at = np.fromiter(content.singles, dtype=np.int64)
        text = placed([(None, text), (at, pa.array(content.singles.values(), pa.string()))], rows, pa.string())
    # All lines in order are the data of the array (buffer 2), up to its last offset (buffer 1).
    return str(memoryview(text.buffers()[2])[: np.frombuffer(text.buffers()[1], dtype=np.int32)[rows]], "utf-8")
