"""The levels Kafka has shipped, by name: one row per metadata.version.

Read by reports (a level is shown with its name) and by documents (a name is accepted for metadata.version).
A level or a name that is not in here is not an error of the cluster: vendors have levels of their own, and a newer
Kafka has levels this version of the tool does not know. Numbers always work.

Source: `MetadataVersion.java` of Kafka 3.9 to 4.4; the names and the mark `didMetadataChange`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkafeatures.api.names import METADATA_VERSION


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """`changed`: records were added or altered at this level, so it cannot be lowered below (KAFKA-13896)."""

    level: int
    name: str
    changed: bool


_ROWS = (
    (1, "3.0-IV1", True), (2, "3.1-IV0", False), (3, "3.2-IV0", True), (4, "3.3-IV0", False), (5, "3.3-IV1", True),
    (6, "3.3-IV2", True), (7, "3.3-IV3", True), (8, "3.4-IV0", True), (9, "3.5-IV0", False), (10, "3.5-IV1", False),
    (11, "3.5-IV2", True), (12, "3.6-IV0", False), (13, "3.6-IV1", True), (14, "3.6-IV2", True),
    (15, "3.7-IV0", True), (16, "3.7-IV1", False), (17, "3.7-IV2", True), (18, "3.7-IV3", False),
    (19, "3.7-IV4", False), (20, "3.8-IV0", False), (21, "3.9-IV0", False), (22, "4.0-IV0", False),
    (23, "4.0-IV1", True), (24, "4.0-IV2", False), (25, "4.0-IV3", False), (26, "4.1-IV0", False),
    (27, "4.1-IV1", False), (28, "4.2-IV0", False), (29, "4.2-IV1", False), (30, "4.3-IV0", True),
    (31, "4.4-IV0", False), (32, "4.4-IV1", True), (33, "4.4-IV2", True),
)  # fmt: skip

METADATA_VERSIONS = {level: MetadataVersion(level, name, changed) for level, name, changed in _ROWS}
_BY_NAME = {version.name: version for version in METADATA_VERSIONS.values()}


def level_name(feature: str, level: int) -> str:
    """The name of a metadata.version, such as "4.1-IV1" of 27; empty for other features and unknown levels."""
    if feature != METADATA_VERSION or level not in METADATA_VERSIONS:
        return ""
    return METADATA_VERSIONS[level].name


def metadata_version_named(name: str) -> MetadataVersion | None:
    """The level with exactly this name, or the newest of a release named "4.1"; None if the table has none."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    of_release = [v for v in METADATA_VERSIONS.values() if v.name.split("-")[0] == name]
    return of_release[-1] if of_release else None


def told(feature: str, level: int) -> str:
    """How people read a level: "27 (4.1-IV1)", or the bare number."""
    name = level_name(feature, level)
    return f"{level} ({name})" if name else str(level)
