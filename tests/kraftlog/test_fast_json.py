"""The text that msgspec encodes is that of `as_json`, to the byte, or it is not taken."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.as_json import written
from kraftlog.fast_json import writer
from kraftlog.records import Decoded, decode, frame, readers_of
from kraftlog.redaction import has_secrets
from kraftlog.schema import RecordType, table
from kraftlog.schema.others import CLIENT_QUOTA
from kraftlog.schema.types import UNKNOWN_TAGS
from tests.amounts import share
from tests.kraftlog.strategies import TYPES_AND_VERSIONS, body, label

OPEN = [(kind, version) for kind, version, layout in TYPES_AND_VERSIONS
        if not kind.control and not has_secrets(kind) and layout is kind.layouts[0]]  # fmt: skip


def text_of(kind: RecordType, version: int, data: Mapping[str, Any]) -> str | None:
    readers = readers_of(False, kind.key)
    assert readers is not None
    (reader, _), *_ = readers[1][version]
    return writer(reader, kind.layouts[0].fields)(frame(kind, data, version), 3)


def is_usual(value: Any) -> bool:
    """Tell whether a body has only printable ASCII, no unknown tag, and no text that looks like one."""
    if isinstance(value, dict):
        return UNKNOWN_TAGS not in value and all(map(is_usual, value.values()))
    if isinstance(value, tuple):
        return all(map(is_usual, value))
    return not isinstance(value, str) or (value != UNKNOWN_TAGS and value.isascii() and "\x7f" not in value)


@pytest.mark.parametrize(("kind", "version"), OPEN, ids=[label(kind, version, "") for kind, version in OPEN])
@settings(max_examples=share(50), deadline=None)
@given(data=st.data())
def test_fast_json_writes_the_text_of_as_json_or_none(kind: RecordType, version: int, data: st.DataObject) -> None:
    content = decode(frame(kind, data.draw(body(kind.layouts[0].fields, version)), version))
    assert isinstance(content, Decoded)
    expected = written(content.data) if is_usual(content.data) else None
    assert text_of(kind, version, content.data) == expected


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.0, 1e15, 1e16, 1e17, 1e22, 1e-4, 1e-5, 0.1, 1 / 3, 5e-324, 1.5e300, 123456789012345680.0,
              math.inf, -math.inf, math.nan]
)  # fmt: skip
def test_a_number_is_written_as_python_writes_it_and_infinity_as_text(value: float) -> None:
    data = {"entity": ({"entityType": "user", "entityName": None},), "key": "k", "value": value, "remove": False}
    assert text_of(CLIENT_QUOTA, 0, data) == written(data)


@pytest.mark.parametrize("name", ['"', "\\", "/", "</script>", "\0\1\x1f", "\t\n\r\b\f", " ", "~", "{}[],:'"])
def test_ascii_is_escaped_as_python_escapes_it(name: str) -> None:
    assert text_of(table.FEATURE_LEVEL, 0, {"name": name, "featureLevel": 1}) == written(
        {"name": name, "featureLevel": 1}
    )


@pytest.mark.parametrize("name", ["\x7f", "\x80", "é", "\u2028", "\U0001f600"])
def test_the_fast_text_is_none_for_characters_that_msgspec_does_not_escape(name: str) -> None:
    assert text_of(table.FEATURE_LEVEL, 0, {"name": name, "featureLevel": 1}) is None


def test_the_fast_text_is_none_for_a_text_that_looks_like_the_key_of_unknown_tags() -> None:
    """The key is searched for in the text as a whole, which is fast."""
    assert text_of(table.FEATURE_LEVEL, 0, {"name": UNKNOWN_TAGS, "featureLevel": 1}) is None


@pytest.mark.parametrize("data", [{UNKNOWN_TAGS: ((7, b"hunter2"),)}, {}])
def test_the_fast_text_is_none_for_a_record_with_unknown_tags_and_for_no_other(data: dict[str, Any]) -> None:
    assert (text_of(table.NO_OP, 0, data) is None) == bool(data)
