"""The tables of metadata records, compared with the definitions in the jars of each release. No node is started."""

from __future__ import annotations

import re

import pytest

from kraftlog.schema import METADATA_TYPES, NAMES, Field
from kraftlog.schema.others import OTHER_TYPES
from tests.kraftlog.generate.__main__ import table_files
from tests.kraftlog.generate.definitions import RELEASES, fields, jars, read

TYPES = {kind.key: kind for kind in METADATA_TYPES + OTHER_TYPES}
NAMED = {"producerIdsEnd": "nextProducerId", "lastKnownELR": "lastKnownElr"}
"""Fields that were renamed, though their bytes are the same: former name to new name."""


def present(found: list[Field] | tuple[Field, ...], version: int) -> list[Field]:
    """The fields of a version. Those with a tag are last, because older releases have fewer of them."""
    of_version = (field for field in found if field.since <= version)
    return sorted(of_version, key=lambda field: (field.tag is not None, field.tag))


def renamed(field: Field) -> Field:
    return Field(NAMED.get(field.name, field.name), field.type, field.since, field.tag, field.nullable)


def test_the_record_tables_in_the_tree_are_those_that_the_generator_writes() -> None:
    assert [path.name for path, text in table_files().items() if path.read_text() != text] == []


@pytest.mark.parametrize("version", RELEASES)
def test_every_record_of_a_release_has_the_layout_of_the_release_in_the_tables(version: str) -> None:
    defined = [one for one in read(jars()[version], "common/metadata/") if one["type"] == "metadata"]
    assert len(defined) > 15
    for one in defined:
        kind, newest = TYPES[one["apiKey"]], int(one["validVersions"].rsplit("-", maxsplit=1)[-1])
        assert newest <= kind.last_version
        in_release = present([renamed(each) for each in fields(one["fields"], {})], newest)
        in_tables = [present(layout.fields.fields, newest) for layout in kind.layouts]
        assert any(each[: len(in_release)] == in_release for each in in_tables), one["name"]
        added = [field for each in in_tables[:1] for field in each[len(in_release) :]]
        assert all(field.tag is not None for field in added) or len(in_tables) > 1


@pytest.mark.parametrize("version", RELEASES)
def test_every_record_of_a_release_has_its_name(version: str) -> None:
    for one in read(jars()[version], "common/metadata/"):
        if one["type"] == "metadata":
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", one["name"]).upper()
            assert NAMES[one["apiKey"]] == name
