"""What Kafka says of its records: the message definitions in the jars of each release, merged into one type a record.

Every jar of kafka-metadata has the definitions of the metadata records of its release, and every jar of kafka-clients
those of the control records. Releases are taken from the oldest to the newest. A definition that only adds to the one
before it (more versions, more tagged fields) continues its layout; one that lays out the same version in another way
begins a layout of its own, and the older one is named after the releases that had it.
"""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kraftlog.schema.types import Array, Field, Layout, RecordType, Scalar, Struct
from tests.e2e.rig.releases import CACHE, MIDDLE, NEWEST, OLD, RECENT, MissingTool, release

RELEASES = (
    "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", OLD, "4.0.1", MIDDLE, "4.2.0",
    RECENT, NEWEST,
)  # fmt: skip
"""One of each minor release that has metadata records with the frame version of today."""

CONTROL = {2: "LeaderChangeMessage", 3: "SnapshotHeaderRecord", 4: "SnapshotFooterRecord", 5: "KRaftVersionRecord",
           6: "VotersRecord"}  # fmt: skip
"""Control records by their numbers, which are not in the definitions: `ControlRecordType.java`."""
CONTROL_NAMES = {
    "LeaderChangeMessage": "LEADER_CHANGE",
    "VotersRecord": "KRAFT_VOTERS",
    "KRaftVersionRecord": "KRAFT_VERSION",
}

_ITEM = (
    "<artifactItem><groupId>org.apache.kafka</groupId><artifactId>{}</artifactId><version>{}</version></artifactItem>"
)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rig</groupId><artifactId>definitions</artifactId><version>1</version><build><plugins><plugin>
<artifactId>maven-dependency-plugin</artifactId><configuration><artifactItems>{}</artifactItems>
<outputDirectory>{}</outputDirectory></configuration></plugin></plugins></build></project>
"""


@dataclass
class Merged:
    """One record, as far as the releases were read."""

    type: RecordType
    since: str
    until: str
    spans: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The first and the last release of each layout, counted from the oldest layout."""


def jars(
    artifact: str = "kafka-metadata", releases: Sequence[str] = RELEASES, folder: str = "definitions"
) -> dict[str, Path]:
    """The jar of each release, fetched once and kept beside the other jars."""
    home = CACHE / folder
    found = {version: home / f"{artifact}-{version}.jar" for version in releases}
    if not (home / "complete").exists() or not all(path.exists() for path in found.values()):
        home.mkdir(parents=True, exist_ok=True)
        items = "".join(_ITEM.format(artifact, version) for version in releases)
        (home / "pom.xml").write_text(_POM.format(items, home))
        command = ["mvn", "-q", "-B", "-f", str(home / "pom.xml"), "dependency:copy"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingTool(f"Maven could not fetch the definitions of Kafka:\n{done.stdout[-2000:]}")
        (home / "complete").touch()
    return found


def metadata() -> list[Merged]:
    """Every metadata record that a release from 3.0 to the newest defines, by its key."""
    merged: dict[int, Merged] = {}
    for version, jar in jars().items():
        for defined in read(jar, "common/metadata/"):
            if defined["type"] == "metadata":
                _merge(
                    merged, defined["apiKey"], _constant(defined["name"]) + "_RECORD", defined, version, control=False
                )
    return [merged[key] for key in sorted(merged)]


def control() -> list[Merged]:
    """The control records of a metadata log."""
    merged: dict[int, Merged] = {}
    for version in (OLD, MIDDLE, RECENT, NEWEST):
        jar = release(version).home / "libs" / f"kafka-clients-{version}.jar"
        by_name = {part["name"]: part for part in read(jar, "common/message/")}
        for key, name in CONTROL.items():
            _merge(merged, key, CONTROL_NAMES.get(name) or _constant(name), by_name[name], version, control=True)
    return [merged[key] for key in sorted(merged)]


def read(jar: Path, folder: str) -> Iterator[dict[str, Any]]:
    """The definitions in a folder of a jar; they are JSON with comments."""
    with zipfile.ZipFile(jar) as content:
        for name in sorted(content.namelist()):
            if name.startswith(folder) and name.endswith(".json"):
                yield json.loads(re.sub(r"^\s*//.*$", "", content.read(name).decode(), flags=re.MULTILINE))


def _constant(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Record")).upper()


def _merge(
    merged: dict[int, Merged], key: int, name: str, defined: dict[str, Any], version: str, *, control: bool
) -> None:
    minor = version.rsplit(".", 1)[0]
    if defined["flexibleVersions"] != "0+":
        raise ValueError(f"{name} of {version} is not flexible")
    first, _, last = defined["validVersions"].partition("-")
    if first != "0":
        raise ValueError(f"{name} of {version} has no version 0")
    structs = {part["name"]: part["fields"] for part in defined.get("commonStructs", ())}
    layout = Layout(Struct(tuple(fields(defined["fields"], structs))))
    record_type = RecordType(key, name, int(last or first), (layout,), control)
    earlier = merged.get(key)
    if earlier is None:
        merged[key] = Merged(record_type, minor, minor, {0: (minor, minor)})
        return
    if earlier.type.name != name:
        raise ValueError(f"key {key} is {name} in {version}, and was {earlier.type.name}")
    newest, *older = earlier.type.layouts
    count = len(earlier.type.layouts)
    since, until = earlier.spans[count - 1]
    if _continues(newest.fields, layout.fields, min(earlier.type.last_version, record_type.last_version)):
        earlier.type, earlier.spans[count - 1] = replace(record_type, layouts=(layout, *older)), (since, minor)
    else:
        if record_type.last_version or earlier.type.last_version:
            raise ValueError(f"{name} of {version} has another layout, and more than one version")
        earlier.type = replace(record_type, layouts=(layout, Layout(newest.fields, f"{since}-{until}"), *older))
        earlier.spans[count] = (minor, minor)
    earlier.until = minor


def fields(defined: Iterable[dict[str, Any]], structs: dict[str, list[dict[str, Any]]]) -> list[Field]:
    """The fields of Kafka's definition, in the terms of this package."""
    return [
        Field(
            part["name"][0].lower() + part["name"][1:],
            _kind(part, structs),
            since=_since(part["versions"]),
            tag=int(part["tag"]) if "tag" in part else None,  # some have it in quotes
            nullable=bool(part.get("nullableVersions")),
        )
        for part in defined
    ]


def _since(versions: str) -> int:
    """The number of `2+`. Raises ValueError for a field that was removed again: its layout does not follow from the
    schema.
    """
    if not (found := re.fullmatch(r"(\d+)\+", versions)):
        raise ValueError(f"a field of versions {versions}")
    return int(found[1])


def _kind(one: dict[str, Any], structs: dict[str, list[dict[str, Any]]]) -> Scalar | Array | Struct:
    name = one["type"].removeprefix("[]")
    scalars = {each.value: each for each in Scalar}
    inner: Scalar | Struct = (
        scalars[name] if name in scalars else Struct(tuple(fields(one.get("fields") or structs[name], structs)))
    )
    return Array(inner) if one["type"].startswith("[]") else inner


def _continues(before: Struct, now: Struct, last: int) -> bool:
    """Whether all that was written by the one reads as the other, up to a version: field by field but for their names,
    and with tags that only become more.
    """
    old, new = _present(before, last), _present(now, last)
    tags = {part.tag: part for part in new if part.tag is not None}
    return _all_same(_plain(old), _plain(new), last) and all(
        part.tag in tags and _all_same([part], [tags[part.tag]], last) for part in old if part.tag is not None
    )


def _present(struct: Struct, version: int) -> list[Field]:
    return [part for part in struct.fields if part.since <= version]


def _plain(found: Sequence[Field]) -> list[Field]:
    return [part for part in found if part.tag is None]


def _all_same(old: Sequence[Field], new: Sequence[Field], last: int) -> bool:
    return len(old) == len(new) and all(
        (a.since, a.tag, a.nullable) == (b.since, b.tag, b.nullable) and _same(a.type, b.type, last)
        for a, b in zip(old, new, strict=True)
    )


def _same(old: Scalar | Array | Struct, new: Scalar | Array | Struct, last: int) -> bool:
    if isinstance(old, Array) and isinstance(new, Array):
        return _same(old.of, new.of, last)
    if isinstance(old, Struct) and isinstance(new, Struct):
        return _continues(old, new, last)
    return old == new
