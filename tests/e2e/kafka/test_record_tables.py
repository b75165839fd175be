"""The tables of metadata records, against the definitions in the jars of each release: no node is started."""

from __future__ import annotations

import json
import re
import zipfile
from typing import Any

import pytest

from kraftlog.schema import METADATA_TYPES, NAMES, Array, Field, RecordType, Scalar, Struct
from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD, RECENT, release

TYPES = {kind.key: kind for kind in METADATA_TYPES}
SCALARS = {each.value: each for each in Scalar}


def definitions(version: str) -> list[dict[str, Any]]:
    (jar,) = (release(version).home / "libs").glob("kafka-metadata-*.jar")
    with zipfile.ZipFile(jar) as content:
        names = [name for name in content.namelist() if name.startswith("common/metadata/") and name.endswith(".json")]
        return [json.loads(re.sub(r"^\s*//.*$", "", content.read(name).decode(), flags=re.MULTILINE)) for name in names]


def last(versions: str) -> int:
    return int(versions.rsplit("-", maxsplit=1)[-1].rstrip("+"))


def fields(defined: list[dict[str, Any]]) -> list[Field]:
    """What Kafka's definition says, in our vocabulary."""
    return [
        Field(
            one["name"][0].lower() + one["name"][1:],
            kind(one),
            since=int(re.match(r"\d+", one["versions"])[0]),  # type: ignore[index]  # every range begins with a number
            tag=int(one["tag"]) if "tag" in one else None,  # 3.9 has one in quotes
            nullable=bool(one.get("nullableVersions")),
        )
        for one in defined
    ]


def kind(one: dict[str, Any]) -> Scalar | Array | Struct:
    name = one["type"].removeprefix("[]")
    inner: Scalar | Struct = SCALARS[name] if name in SCALARS else Struct(tuple(fields(one["fields"])))
    return Array(inner) if one["type"].startswith("[]") else inner


def ours(record: RecordType, version: int) -> list[Field]:
    return [field for field in record.layouts[0].fields.fields if field.since <= version]


@pytest.mark.parametrize("version", [OLD, MIDDLE, RECENT, NEWEST])
def test_every_record_of_the_tables_is_laid_out_as_the_release_says(version: str) -> None:
    defined = [one for one in definitions(version) if one["apiKey"] in TYPES]
    assert len(defined) >= len(TYPES) - 4  # 3.9 has none of the last two, later ones none of the first releases'
    for one in defined:
        newest = last(one["validVersions"])
        assert newest <= TYPES[one["apiKey"]].last_version, one["name"]
        assert ours(TYPES[one["apiKey"]], newest) == fields(one["fields"]), one["name"]


@pytest.mark.parametrize("version", [OLD, MIDDLE, RECENT, NEWEST])
def test_every_record_of_a_release_has_its_name(version: str) -> None:
    for one in definitions(version):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", one["name"]).upper()
        assert NAMES[one["apiKey"]] == {"ZK_MIGRATION_RECORD": "ZK_MIGRATION_STATE_RECORD"}.get(name, name)
