"""Kafka release of a pod template, and the levels that this release supports, known before any pod of it is started.

Pure. Rolls depend on it: a node that is restarted with a binary that does not support a finalized level cannot register
again. A release that is not stated is unknown; it is never guessed. The opposite direction, the releases whose nodes
report certain ranges, is for messages and for evidence of what a node runs.

Source of the ranges: `Feature.java`, `MetadataVersion.java` and `QuorumFeatures.java` of the release branches. Those of
3.9, 4.1, 4.3 and 4.4 are compared with answers of real nodes (`tests/golden/conformance`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from kafkafeatures.api.names import KAFKA_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import NOT_SUPPORTED, Known, Node
from kafkafeatures.core.facts.releases import FEATURE_LEVELS, metadata_version_named, releases

VERSION_LABEL = "app.kubernetes.io/version"

Ranges = Mapping[str, VersionRange]
"""Supported range of each feature."""


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _ranges_of(release: str) -> Ranges:
    """Ranges of a release by the tables of `core/facts/releases.py`. Kafka 4.0 dropped all levels of metadata.version
    below 3.3-IV3 (7).
    """
    number, newest = _number(release), metadata_version_named(release)
    assert newest is not None  # noqa: S101 - of the same table
    ranges = {METADATA_VERSION: VersionRange(1 if number < (4, 0) else 7, newest.level)}
    return ranges | {
        name: VersionRange(0, level) for name, level, since, _ in FEATURE_LEVELS if _number(since) <= number
    }


_RANGES: Mapping[str, Ranges] = {
    release: MappingProxyType(_ranges_of(release)) for release in releases() if _number(release) >= (3, 3)
}

_VERSION = re.compile(r"(?<![\d.])(\d+)\.(\d+)\.\d+(?![\d.])")
"""Version anywhere in a tag, such as "4.1.0" or "4.1.0-rc1"."""
_KAFKA_VERSION = re.compile(r"kafka[-_](\d+)\.(\d+)\.\d+(?![\d.])")
"""Version of Kafka in a tag that begins with the version of something else, such as "0.45.0-kafka-3.9.0"."""
_WRITTEN = re.compile(r"v?(\d+)\.(\d+)(\.\d+)?")
"""Whole text of an annotation or a label."""


def supported_by(release: str) -> Ranges | None:
    """Range of every feature that nodes of a release such as "4.1" report; None for a release that is not in
    the table.
    """
    return _RANGES.get(release)


def releases_that_hold(*levels: Mapping[str, int]) -> tuple[str, ...]:
    """Known releases that support all of these levels, the oldest first."""
    return tuple(
        release
        for release, release_ranges in _RANGES.items()  # in the order of `releases()`, the oldest first
        if all(
            level in release_ranges.get(name, NOT_SUPPORTED) for required in levels for name, level in required.items()
        )
    )


def newest_release() -> str:
    """The newest known release."""
    return releases()[-1]


def releases_with(ranges: Ranges) -> tuple[str, ...]:
    """Known releases whose nodes report these ranges; none for ranges of another vendor. A feature that `ranges` lacks
    is not compared: old versions of ApiVersions leave out features whose minimum is 0.
    """
    if METADATA_VERSION not in ranges:
        return ()
    return tuple(
        release
        for release, release_ranges in _RANGES.items()
        if all(release_ranges.get(name, NOT_SUPPORTED) == reported for name, reported in ranges.items())
    )


def inferred_release(node: Node) -> str:
    """The Kafka release of a node by its ranges: "4.0", or "4.0 or 4.1"; empty where no release has them. The answer of
    the process is used before its registration, which may be that of an earlier process.
    """
    if isinstance(node.answer, Known):
        return " or ".join(releases_with(node.answer.value.supported))
    registered = [registration.value for registration in node.registered.values()]
    return " or ".join(
        releases_with({name: version_range for ranges in registered for name, version_range in ranges.items()})
    )


def release_of(labels: Mapping[str, str], annotations: Mapping[str, str], image: str) -> str:
    """The Kafka release of a pod template, such as "4.1"; empty where it is not known. The annotation `KAFKA_VERSION`
    is made for this purpose, so it wins. Otherwise the label `app.kubernetes.io/version` or the tag of the image is
    enough, unless both name known releases that differ.
    """
    if KAFKA_VERSION in annotations:
        return _written(annotations[KAFKA_VERSION])
    releases = {release for release in (_written(labels.get(VERSION_LABEL, "")), _of_image(image)) if release}
    return releases.pop() if len(releases) == 1 else ""


def _written(text: str) -> str:
    """The Kafka release that an annotation or a label gives; empty for any other text."""
    match = _WRITTEN.fullmatch(text.strip())
    return _known(match[1], match[2]) if match else ""


def _of_image(image: str) -> str:
    """The Kafka release in the tag of an image, such as "apache/kafka:4.1.0" or "strimzi/kafka:0.45.0-kafka-3.9.0"."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    versions = set(_KAFKA_VERSION.findall(tag) or _VERSION.findall(tag))  # several different ones prove nothing
    return _known(*versions.pop()) if len(versions) == 1 else ""


def _known(major: str, minor: str) -> str:
    """The release, if it is one of Kafka; empty for the version of something else, such as a platform."""
    release = f"{int(major)}.{int(minor)}"
    return release if release in _RANGES else ""
