"""Table of the levels that Kafka has shipped: their names, the levels that belong to a release, dependencies, and how
far they can be downgraded. A new release is a new row.

A level or name that is missing here is no error of the cluster: vendors have their own levels, and a newer Kafka has
levels that this version does not know. Documents may always give numbers; nothing is promised about an unknown level.

Source: `MetadataVersion.java` of Kafka 3.9 to 4.4 (names, `didMetadataChange`), `Feature.java` and the enums of the
features (`bootstrapMetadataVersion`, `dependencies`); the tests compare them with Kafka's own tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from kafkafeatures.api.names import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.levels import VersionRange


class Undo(StrEnum):
    """Ways in which a change can be undone, the worst last; compared with real nodes by `tests/conformance`."""

    SAFE = "Safe"
    """Undone without a loss, as was proved on real Kafka."""
    LOSSY = "Lossy"
    """Kafka allows the downgrade; metadata may be lost."""
    IMPOSSIBLE = "Impossible"
    """Kafka refuses the downgrade."""


class MetadataVersion(Struct, frozen=True):
    """A level of metadata.version. `changed`: it added or altered records, so Kafka refuses downgrades below it
    (KAFKA-13896).
    """

    level: int
    name: str
    changed: bool


_ROWS = (  # level, name, changed, as in `MetadataVersion`
    (1, "3.0-IV1", True), (2, "3.1-IV0", False), (3, "3.2-IV0", True), (4, "3.3-IV0", False), (5, "3.3-IV1", True),
    (6, "3.3-IV2", True), (7, "3.3-IV3", True), (8, "3.4-IV0", True), (9, "3.5-IV0", False), (10, "3.5-IV1", False),
    (11, "3.5-IV2", True), (12, "3.6-IV0", False), (13, "3.6-IV1", True), (14, "3.6-IV2", True),
    (15, "3.7-IV0", True), (16, "3.7-IV1", False), (17, "3.7-IV2", True), (18, "3.7-IV3", False),
    (19, "3.7-IV4", False), (20, "3.8-IV0", False), (21, "3.9-IV0", False), (22, "4.0-IV0", False),
    (23, "4.0-IV1", True), (24, "4.0-IV2", False), (25, "4.0-IV3", False), (26, "4.1-IV0", False),
    (27, "4.1-IV1", False), (28, "4.2-IV0", False), (29, "4.2-IV1", False), (30, "4.3-IV0", True),
    (31, "4.4-IV0", False), (32, "4.4-IV1", True), (33, "4.4-IV2", True),
)  # fmt: skip

FEATURE_LEVELS: tuple[tuple[str, int, str, int | None], ...] = (
    (KRAFT_VERSION, 1, "3.9", None),
    ("group.version", 1, "4.0", 22),
    ("transaction.version", 2, "4.0", 24),
    (ELIGIBLE_LEADER_REPLICAS, 1, "4.0", 26),
    ("share.version", 1, "4.1", 28),
    ("streams.version", 1, "4.2", 29),
    ("share.version", 2, "4.4", 31),
)
"""Feature, level, the first release that supports it, and the metadata.version from which on a bundle
(`--release-version`) contains it; None: in no bundle. Kafka's bundles also contain kraft.version; ours do not, because
raising it is irreversible.
"""

KAFKAS_FEATURES = frozenset({METADATA_VERSION, *(feature for feature, *_ in FEATURE_LEVELS)})
"""Features of Apache Kafka. Any other feature is a vendor's, or of a newer Kafka."""

_DEPENDENCIES = {(ELIGIBLE_LEADER_REPLICAS, 1): {METADATA_VERSION: 23}}
"""Levels that a feature's level requires, besides `LOWEST_FOR_FEATURES`, by feature and level."""

LOWEST_FOR_FEATURES = 7
"""metadata.version 3.3-IV3: any other feature above 0 needs it (`Feature.validateVersion`)."""

WITHOUT_A_LEVEL = 1
"""metadata.version 3.0-IV1, which Kafka assumes for a log without any (`MetadataVersion.MINIMUM_KRAFT_VERSION`
of 3.x).
"""

LOWEST_SETTABLE = 4
"""metadata.version 3.3-IV0: Kafka 3.x refuses lower ones; 4.x supports none below 7."""

WITHOUT_ZOOKEEPER = 22
"""metadata.version 4.0-IV0: a node that supports it knows no ZooKeeper, and no migration."""

KRAFT_VERSION_RAISABLE = 26
"""metadata.version 4.1-IV0: a controller must support it before kraft.version is raised. Older ones accept the raise
and write a useless record (KAFKA-16538, KAFKA-18979).
"""

KRAFT_VERSION_MISREPORTED = range(21, KRAFT_VERSION_RAISABLE)
"""Highest metadata.versions that nodes of Kafka 3.9 and 4.0 support: these nodes may report another kraft.version than
their quorum uses (KAFKA-18602, KAFKA-18979). Older nodes have no dynamic quorum.
"""

CONTROLLER_REGISTRATION = 15
"""metadata.version 3.7-IV0: from then on controllers register, with their addresses (KIP-919)."""

CONTROLLER_UNREGISTRATION = 33
"""metadata.version 4.4-IV2: once it is finalized, controllers can be unregistered (KIP-1312)."""

METADATA_VERSIONS = {level: MetadataVersion(level, name, changed) for level, name, changed in _ROWS}
_BY_NAME = {version.name: version for version in METADATA_VERSIONS.values()}


def level_name(feature: str, level: int) -> str:
    """The name of a metadata.version, such as "4.1-IV1" of 27; empty for other features and unknown levels."""
    if feature != METADATA_VERSION or level not in METADATA_VERSIONS:
        return ""
    return METADATA_VERSIONS[level].name


def metadata_version_named(name: str) -> MetadataVersion | None:
    """The level with exactly this name, or the newest level of a release such as "4.1"; None for any other text."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    of_release = [version for version in METADATA_VERSIONS.values() if version.name.split("-")[0] == name]
    return of_release[-1] if of_release else None


_CONFLUENT = {
    "7.0": "3.0", "7.1": "3.1", "7.2": "3.2", "7.3": "3.3", "7.4": "3.4", "7.5": "3.5", "7.6": "3.6", "7.7": "3.7",
    "7.8": "3.8", "7.9": "3.9", "8.0": "4.0", "8.1": "4.1", "8.2": "4.2", "8.3": "4.3",
}  # fmt: skip
"""Releases of Confluent Platform, and the Kafka in them, as public repositories quote Confluent's table "Supported
Versions and Interoperability" (quotes of 2023 for 7.0 to 7.5, of 2026 for 7.5 to 8.3); the table itself was not read.
"""


def kafka_in_confluent(name: str) -> str:
    """The Kafka release in a Confluent Platform such as "7.9", "7.9.1" or "cp-7.9"; empty for any other text."""
    parts = name.strip().lower().removeprefix("cp-").removeprefix("v").split(".")
    return _CONFLUENT.get(".".join(parts[:2]), "")


def releases() -> tuple[str, ...]:
    """The Kafka releases that introduced a metadata.version, the oldest first."""
    return tuple(dict.fromkeys(version.name.split("-")[0] for version in METADATA_VERSIONS.values()))


def format_level(feature: str, level: int) -> str:
    """Level for people: "27 (4.1-IV1)", or the bare number."""
    name = level_name(feature, level)
    return f"{level} ({name})" if name else str(level)


def has_no_level(levels: Mapping[str, int]) -> bool:
    """Tell whether the levels are of a metadata log without metadata.version, for which Kafka assumes
    `WITHOUT_A_LEVEL`. False where a vendor's feature replaces it, such as confluent.metadata.version.
    """
    return not levels.get(METADATA_VERSION) and not level_of_vendor(levels)


def level_of_vendor(levels: Mapping[str, int]) -> str:
    """Name and level, as text, of the feature with which a vendor's Kafka replaces metadata.version, such as
    "confluent.metadata.version 3"; empty for none.
    """
    vendors = (f"{name} {level}" for name, level in levels.items() if level and name.endswith(f".{METADATA_VERSION}"))
    return next(vendors, "")


def format_in_kraft(feature: str, levels: Mapping[str, int]) -> str:
    """The level of a feature in KRaft mode, in words."""
    if feature == METADATA_VERSION and has_no_level(levels):
        return f"{format_level(feature, WITHOUT_A_LEVEL)}, not in the log"
    return format_level(feature, levels.get(feature, 0))


def level_in_kraft(feature: str, levels: Mapping[str, int]) -> dict[str, int | str | bool]:
    """The level of a feature in KRaft mode, for a document: `finalized`, its name, and `inLog` False if Kafka assumes
    the level, as the log has none.
    """
    is_assumed = feature == METADATA_VERSION and has_no_level(levels)
    level = WITHOUT_A_LEVEL if is_assumed else levels.get(feature, 0)
    name = level_name(feature, level)
    return {"finalized": level, **({"finalizedName": name} if name else {}), **({"inLog": False} if is_assumed else {})}


def format_range(feature: str, supported_range: VersionRange) -> str:
    """Range for people: "7-25 (up to 4.0-IV3)", or the bare numbers."""
    name = level_name(feature, supported_range.max)
    return f"{supported_range} (up to {name})" if name else str(supported_range)


def bundle(name: str) -> dict[str, int] | None:
    """Feature to level for `releaseVersion: name`; None for an unknown release."""
    version = metadata_version_named(name)
    if version is None:
        return None
    levels = {METADATA_VERSION: version.level}
    levels.update({feature: level for feature, level, _, since in FEATURE_LEVELS if since and since <= version.level})
    return levels


def dependencies(feature: str, level: int) -> dict[str, int]:
    """Feature to the lowest level that this feature's level requires (KIP-1022)."""
    if feature in (METADATA_VERSION, KRAFT_VERSION) or level == 0:
        return {}
    return {METADATA_VERSION: LOWEST_FOR_FEATURES, **_DEPENDENCIES.get((feature, level), {})}


def floor_of(level: int) -> int | None:
    """The lowest metadata.version that a downgrade from `level` can reach without loss; None for an unknown level."""
    if level not in METADATA_VERSIONS:
        return None
    while level > LOWEST_SETTABLE and not METADATA_VERSIONS[level].changed:
        level -= 1
    return level


def undo_of_raise(feature: str, from_level: int, to_level: int) -> Undo:
    """Way in which a raise could be undone; IMPOSSIBLE for an unknown metadata.version, so that nothing is promised.

    metadata.version can be downgraded to the newest level that changed metadata (KAFKA-13896), without loss. Other
    features can be downgraded, but Kafka does not check what they lose.
    """
    if feature == METADATA_VERSION:
        floor = floor_of(to_level)
        return Undo.SAFE if floor is not None and floor <= from_level else Undo.IMPOSSIBLE
    return Undo.IMPOSSIBLE if feature == KRAFT_VERSION else Undo.LOSSY
