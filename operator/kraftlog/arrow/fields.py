"""Decodes the bodies of many records of one type and version at once, into columns of values and JSON texts.

Called by `columns`. Each row has a cursor; all cursors advance together, field by field of the schema table. Only usual
values are read here: lengths of one or two bytes, texts of printable ASCII, no unknown tags, few items. A row with
anything else is given up, and the caller decodes it by itself (`records.decode`), with the same result.

No cursor leaves the data and the padding behind it (`PAD`): every length is compared with the end of its row before it
is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kraftlog.arrow.texts import (
    UUID,
    Bools,
    Parts,
    are_plain,
    joined,
    lists,
    numbers,
    placed,
    quoted,
    spans,
    spread,
)
from kraftlog.edges import Positions
from kraftlog.partitions import Bytes
from kraftlog.redaction import REDACTED, is_shown
from kraftlog.schema import Array, Field, RecordType, Scalar, Struct, table

PAD = 64
"""Bytes that must follow the last row, since fields of fixed size are read before lengths are checked."""

_NUMBERS = {
    Scalar.INT8: "i1", Scalar.INT16: ">i2", Scalar.UINT16: ">u2", Scalar.INT32: ">i4", Scalar.INT64: ">i8",
    Scalar.BOOL: "u1",
}  # fmt: skip
_BOOLEANS = pa.array(["false", "true"])
_MORE = 0x80  # the bit of a byte after which a varint continues
_NO_TAG = np.uint8(0xFF)
_ITEMS = 32  # most structs in an array: they are read one after the other


@dataclass(frozen=True, slots=True)
class Value:
    """Values of one field. rows: the rows that have it, None for all. null: mask of null values."""

    data: Any
    rows: Positions | None = None
    null: Bools | None = None


@dataclass(slots=True)
class Rows:
    """Rows of bytes. begins, ends: of each row, in `view`. at: its cursor. good: mask of the rows that are not given
    up.
    """

    view: Bytes
    begins: Positions
    ends: Positions
    at: Positions
    good: Bools = field(init=False)

    def __post_init__(self) -> None:
        self.good = np.ones(len(self.at), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.at)

    def judge(self, good: Bools) -> None:
        """Give up the rows that are not `good`. Their cursors are set back to the beginning of the row, where reading
        is safe.
        """
        if not good.all():
            self.good &= good
            self.at = np.where(self.good, self.at, self.begins)

    def fixed(self, kind: str) -> NDArray[Any]:
        """A value of a fixed size."""
        size = np.dtype(kind).itemsize
        values = np.ndarray((len(self.view) - size + 1,), dtype=kind, buffer=self.view, strides=(1,))[self.at]
        self.at = self.at + size
        return values

    def length(self) -> Positions:
        """A length of one or two bytes; 0 in rows that are given up."""
        self.judge(self.at < self.ends)
        lengths = self.view[self.at].astype(np.int64)
        self.at = self.at + 1
        long = np.flatnonzero(lengths >= _MORE)
        if len(long):
            high = self.view[self.at[long]].astype(np.int64)
            lengths[long] = lengths[long] & 0x7F | high << 7
            self.at[long] += 1
            good = np.ones(len(self), dtype=np.bool_)
            good[long] = (high < _MORE) & (high > 0)
            self.judge(good)
        lengths[~self.good] = 0
        return lengths

    def subset(self, rows: Positions) -> Rows:
        """A selection of the rows."""
        return Rows(self.view, self.begins[rows], self.ends[rows], self.at[rows])

    def merge(self, rows: Positions, some: Rows) -> None:
        """Take over the cursors of some rows, and which of them are given up."""
        self.at[rows] = some.at
        if not some.good.all():
            good = np.ones(len(self), dtype=np.bool_)
            good[rows] = some.good
            self.judge(good)


@cache
def is_read(kind: RecordType) -> bool:
    """True for types whose records are read here."""
    fields = kind.layouts[0].fields.fields
    # Fields with a tag are written behind a comma, so one without a tag has to come first, in every version.
    has_plain = not fields or any(each.tag is None and not each.since for each in fields)
    return not kind.control and has_plain and all(_is_read(each.type) for each in fields)


def _is_read(kind: Scalar | Array | Struct) -> bool:
    if isinstance(kind, Struct):
        return False
    if not isinstance(kind, Array):
        return kind in _NUMBERS or kind in (Scalar.UUID, Scalar.STRING)
    if isinstance(kind.of, Struct):
        return all(_is_read(each.type) and each.tag is None for each in kind.of.fields)
    return kind.of in (Scalar.INT32, Scalar.UUID)


def read(kind: RecordType, version: int, rows: Rows, redact: bool) -> tuple[pa.Array, dict[str, Value]]:
    """(JSON texts of the bodies, values of their fields); meaningless for rows that were given up."""
    texts, values = _plain(kind.layouts[0].fields, version, rows)
    if kind is table.CONFIG and redact:
        texts["value"] = _shown(texts["value"], values, rows.good)
    parts = _object(texts)
    # In place of the closing brace, which is added again below.
    parts[-1:] = _tagged(kind.layouts[0].fields, version, rows, values)
    rows.judge(rows.at == rows.ends)
    return joined([*parts, "}"], len(rows)), values


def _plain(struct: Struct, version: int, rows: Rows) -> tuple[dict[str, Parts], dict[str, Value]]:
    """Read the fields without a tag. Returns (texts by name, values by name)."""
    texts, values = {}, {}
    for each in struct.fields:
        if each.tag is None and each.since <= version:
            texts[each.name], values[each.name] = _value(each, version, rows)
    return texts, values


def _object(texts: dict[str, Parts]) -> Parts:
    parts: Parts = ["{"]
    for name, text in texts.items():
        parts += [f'{"," if len(parts) > 1 else ""}"{name}":', *text]
    return [*parts, "}"]


def _tagged(struct: Struct, version: int, rows: Rows, values: dict[str, Value]) -> Parts:
    """Reads the fields with a tag, which stand in the order of their tags. A row with an unknown tag is given up."""
    remaining, parts = rows.length(), Parts()
    tagged_fields = {each.tag: each for each in struct.fields if each.tag is not None and each.since <= version}
    tags = np.where(remaining > 0, rows.view[rows.at], _NO_TAG)
    for tag, each in sorted(tagged_fields.items(), key=lambda item: item[0] or 0):
        present = np.flatnonzero(tags == tag)
        if not len(present):
            continue
        some = rows.subset(present)
        some.at = some.at + 1
        ends = some.length() + some.at
        some.judge(ends <= some.ends)
        inner = Rows(rows.view, some.begins, np.where(some.good, ends, some.ends), some.at)
        text, value = _value(each, version, inner)
        inner.judge((inner.at == inner.ends) & some.good)
        rows.merge(present, inner)
        remaining[present] -= 1
        tags[present] = np.where((remaining[present] > 0) & inner.good, rows.view[inner.at], _NO_TAG)
        parts.append(spread(joined([f',"{each.name}":', *text], len(present)), present, len(rows)))
        values[each.name] = Value(value.data, present, value.null)
    rows.judge(remaining == 0)
    return parts


def _value(each: Field, version: int, rows: Rows) -> tuple[Parts, Value]:
    """Read a field of all rows. Returns (parts of its JSON text, its values)."""
    kind = each.type
    if isinstance(kind, Array):
        return _array(each, kind, version, rows)
    if kind is Scalar.STRING:
        return _string(each, rows)
    if kind is Scalar.UUID:
        text = quoted(rows.fixed(f"V{UUID}"))
        return [text], Value(text)
    assert isinstance(kind, Scalar)  # noqa: S101 - `is_read` says so
    values = rows.fixed(_NUMBERS[kind])
    if kind is Scalar.BOOL:
        rows.judge(values <= 1)
        return [_BOOLEANS.take(pa.array(np.minimum(values, 1)))], Value(values == 1)
    native = values.astype(values.dtype.newbyteorder("="))
    return [numbers(native)], Value(native)


def _count(each: Field, rows: Rows, size: int) -> tuple[Positions, Bools | None]:
    """(number of items of this size in each row, mask of rows with null instead)."""
    lengths = rows.length() - 1
    is_null = lengths < 0
    if not each.nullable:
        rows.judge(~is_null)
    count = np.maximum(lengths, 0)
    rows.judge(rows.at + count * size <= rows.ends)
    count[~rows.good] = 0
    return count, is_null if each.nullable and is_null.any() else None


def _or_null(parts: Parts, is_null: Bools | None) -> Parts:
    if is_null is None:
        return parts
    return [pc.if_else(pa.array(is_null), "null", joined(parts, len(is_null)))]


def _string(each: Field, rows: Rows) -> tuple[Parts, Value]:
    size, is_null = _count(each, rows, 1)
    texts = spans(rows.view, rows.at, size, pa.string())
    rows.at = rows.at + size
    rows.judge(are_plain(texts))
    return _or_null(['"', texts, '"'], is_null), Value(texts, null=is_null)


def _array(each: Field, kind: Array, version: int, rows: Rows) -> tuple[Parts, Value]:
    if isinstance(kind.of, Struct):
        return _structs(each, kind.of, version, rows)
    size = UUID if kind.of is Scalar.UUID else 4
    count, is_null = _count(each, rows, size)
    offsets = np.zeros(len(count) + 1, dtype=np.int64)
    np.cumsum(count, out=offsets[1:])
    at = np.repeat(rows.at - offsets[:-1] * size, count) + np.arange(int(offsets[-1])) * size
    rows.at = rows.at + count * size
    items = Rows(rows.view, at, at, at)  # `fixed` uses neither begins nor ends
    if kind.of is Scalar.UUID:
        texts, value = quoted(items.fixed(f"V{UUID}")), Value(None)
    else:
        native = items.fixed(">i4").astype(np.int32)
        texts, value = numbers(native), Value(lists(offsets, pa.array(native)), null=is_null)
    return _or_null(["[", pc.binary_join(lists(offsets, texts), ","), "]"], is_null), value


def _structs(each: Field, struct: Struct, version: int, rows: Rows) -> tuple[Parts, Value]:
    """Read an array of structs: the first items of all rows, then the second ones, and so on."""
    count, is_null = _count(each, rows, 1)
    rows.judge(count <= _ITEMS)
    count[~rows.good] = 0
    offsets, pieces = np.concatenate([[0], np.cumsum(count)]), []
    for number in range(int(count.max(initial=0))):
        present = np.flatnonzero((count > number) & rows.good)
        some = rows.subset(present)
        texts, _ = _plain(struct, version, some)
        some.judge(some.length() == 0)  # tags
        rows.merge(present, some)
        pieces.append((offsets[present] + number, joined(_object(texts), len(present))))
    items = placed(pieces, int(offsets[-1]), pa.string())
    return _or_null(["[", pc.binary_join(lists(offsets, items.fill_null("")), ","), "]"], is_null), Value(None)


def _shown(text: Parts, values: dict[str, Value], good: Bools) -> Parts:
    """The text of config values, where a value that may be secret is replaced. Rows that are given up may have names
    that are not UTF-8.
    """
    names = pc.if_else(pa.array(good), values["name"].data, "").dictionary_encode()
    kinds = values["resourceType"].data.astype(np.int64)
    pairs = kinds << 32 | np.asarray(names.indices, dtype=np.int64)
    distinct, inverse = np.unique(pairs, return_inverse=True)
    config_names = names.dictionary.to_pylist()
    is_visible = (is_shown(int(pair >> 32), config_names[pair & 0xFFFFFFFF]) for pair in distinct)
    visible = np.array([*is_visible], dtype=np.bool_)[inverse]
    null = values["value"].null
    if null is not None:
        visible = visible | null
    return [pc.if_else(pa.array(visible), joined(text, len(good)), f'"{REDACTED}"')]
