"""Comparison of two readings of a file, of many records at once and record by record: lines, damage and account."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kraftlog import as_json
from kraftlog.batches import Damage
from kraftlog.lines import Form
from kraftlog.reading import Entry, Reading
from kraftlog.records import Decoded

ENDS = "first", "last", "begin_offset", "end_offset"


def form(asked: list[Entry], redact: bool = True) -> Form:
    """A form of lines that appends to `asked` the records that are written one by one."""

    def one(entry: Entry) -> str:
        asked.append(entry)
        return f"<{entry.offset:>6} {entry.timestamp_ms} {_said(entry, redact)}>"

    return Form(one, str, ("<", " ", " ", ":", ":", ">"), 6)


def _said(entry: Entry, redact: bool) -> str:
    content = entry.content
    if isinstance(content, Decoded) and not content.layout:
        return f"{content.type.name}:{content.version}:{as_json.body(content, redact=redact)}"
    return repr(entry)


def compare_lines(
    data: bytes, lines: Callable[[Reading, Form], Iterator[str | Damage]], redact: bool = True
) -> tuple[list[str | Damage], list[Entry]]:
    """The lines of a file by `lines`, after a comparison with those of each record; and records written one by one."""
    fast, slow, asked = Reading(data), Reading(data), list[Entry]()
    texts, items = list(lines(fast, form(asked, redact))), list(slow)
    entry = form([], redact).entry
    assert _text(texts) == _text([entry(item) + "\n" if isinstance(item, Entry) else item for item in items])
    assert {repr(each) for each in asked} <= {repr(each) for each in items}
    assert_same(fast, slow)
    return texts, asked


def assert_same(fast: Reading, slow: Reading) -> None:
    """Compare what two readings of a whole file report about it."""
    assert fast.account == slow.account
    assert [getattr(fast, name) for name in ENDS] == [getattr(slow, name) for name in ENDS]


def _text(items: list[str | Damage]) -> str:
    return "".join(item if isinstance(item, str) else f"{item!r}\n" for item in items)
