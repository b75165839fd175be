"""A line of text for each record, many at once: what `columns` reads of them, put into one text.

Called by commands that show large files, with the function by which they write a single record: it writes the unusual
records, and the lines written here for the usual ones are identical. The reading's account is kept.
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
    """Lines of one or many records, each with its end; and damage where it was met."""
    for item in items(reading):
        if isinstance(item, Records):
            yield _many(reading, item, form, redact)
        else:
            yield item if isinstance(item, Damage) else form.entry(item) + "\n"


def _many(reading: Reading, records: Records, form: Form, redact: bool) -> str:
    rows = len(records)
    content = columns.read(reading, records, redact, lambda entry: form.entry(entry) + "\n")
    times = pa.array(records.timestamp).dictionary_encode()
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
    return str(memoryview(text.buffers()[2])[: np.frombuffer(text.buffers()[1], dtype=np.int32)[rows]], "utf-8")
