"""The tables of metadata records, against the definitions in the jars of each release: no node is started."""

from __future__ import annotations

import re

import pytest

from kraftlog.schema import METADATA_TYPES, NAMES, Field
from kraftlog.schema.others import OTHER_TYPES
from tests.kraftlog.generate.__main__ import table_files
from tests.kraftlog.generate.definitions import RELEASES, fields, jars, read

TYPES = {kind.key: kind for kind in METADATA_TYPES + OTHER_TYPES}
NAMED = {"producerIdsEnd": "nextProducerId", "lastKnownELR": "lastKnownElr"}
"""Fields that were renamed; the bytes are the same."""


def present(found: list[Field] | tuple[Field, ...], version: int) -> list[Field]:
    """The fields of a version; those with a tag last, for old releases have fewer of them."""
    return sorted((one for one in found if one.since <= version), key=lambda one: (one.tag is not None, one.tag))


def renamed(one: Field) -> Field:
    return Field(NAMED.get(one.name, one.name), one.type, one.since, one.tag, one.nullable)


def test_the_record_tables_in_the_tree_are_those_that_the_generator_writes() -> None:
    assert [path.name for path, text in table_files().items() if path.read_text() != text] == []


@pytest.mark.parametrize("version", RELEASES)
def test_every_record_of_a_release_has_the_layout_of_the_release_in_the_tables(version: str) -> None:
    defined = [one for one in read(jars()[version], "common/metadata/") if one["type"] == "metadata"]
    assert len(defined) > 15
    for one in defined:
        kind, newest = TYPES[one["apiKey"]], int(one["validVersions"].rsplit("-", maxsplit=1)[-1])
        assert newest <= kind.last_version
        theirs = present([renamed(each) for each in fields(one["fields"], {})], newest)
        ours = [present(layout.fields.fields, newest) for layout in kind.layouts]
        assert any(each[: len(theirs)] == theirs for each in ours), one["name"]
        assert all(field.tag is not None for each in ours[:1] for field in each[len(theirs) :]) or len(ours) > 1


@pytest.mark.parametrize("version", RELEASES)
def test_every_record_of_a_release_has_its_name(version: str) -> None:
    for one in read(jars()[version], "common/metadata/"):
        if one["type"] == "metadata":
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", one["name"]).upper()
            assert NAMES[one["apiKey"]] == name
