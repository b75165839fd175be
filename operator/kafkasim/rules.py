"""Judges UpdateFeatures like the active controller of each release: the same checks, order and messages.

`world` calls `judge` for every UpdateFeatures request, also with validateOnly. It writes nothing: a `Verdict` has the
response, and the records to be written. 3.9 judges each feature by itself and applies the valid ones (a result for each
feature, sorted by name); 4.x applies all or nothing, and names the first failure.

Source: `FeatureControlManager.java` and `QuorumController.java` of 3.9 and 4.2, checked against recorded answers of
real nodes (tests/golden/transcripts).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.releases import LOWEST_SETTABLE, METADATA_VERSIONS
from kafkasim.releases import ELR_VERSION, KRAFT_VERSION, Release
from kraftlog import Image

NONE, NOT_CONTROLLER, INVALID_UPDATE_VERSION = 0, 41, 95

CONTROLLER_REGISTRATION = 15  # metadata.version 3.7-IV0: controllers register, KIP-919
_DISABLED = VersionRange(0, 0)
_ALL_OR_NOTHING = (4, 0)
_DOWNGRADE_WORDED_ANEW = (4, 2)  # 4.1.2 still says "Invalid metadata.version"
_KRAFT_UPGRADE = (4, 1)  # earlier releases write a feature record that changes nothing (KAFKA-16538, KAFKA-18979)

_DEFINED: Mapping[tuple[int, int], frozenset[str]] = {(4, 1): frozenset({"streams.version"})}
"""Features that a release has in its code, but without a level for production: not advertised, yet accepted at
level 0.
"""

ALL_FAILED = "The update failed for all features since the following feature had an error: "
_DEPENDENCIES = {(ELR_VERSION, 1): (METADATA_VERSION, 23)}
"""Levels of features, each with the feature and the level that it needs. Source: `EligibleLeaderReplicasVersion.java`.
"""


class UpgradeType(IntEnum):
    """`FeatureUpdate.UpgradeType`; every other code on the wire is UNKNOWN."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3

    @classmethod
    def of(cls, code: int) -> UpgradeType:
        """The type with this code."""
        return cls(code) if code in set(cls) else cls.UNKNOWN


class FeatureUpdate(Struct, frozen=True):
    """One entry of the request. In KRaft mode v0 of the request has no type: it always means UPGRADE."""

    feature: str
    level: int
    type: UpgradeType = UpgradeType.UPGRADE


class FeatureResult(Struct, frozen=True):
    """The result for one feature, which the response has in v0 and v1."""

    feature: str
    error_code: int
    error_message: str | None


class Verdict(Struct, frozen=True):
    """The answer, and the records to write if the request is not validateOnly.

    `levels`: feature records in order. `kraft_version`: the level to raise the quorum to, which happens even if a later
    update of the request fails (4.1 and later); None for no change.
    """

    error_code: int = NONE
    error_message: str | None = None
    results: tuple[FeatureResult, ...] = ()
    levels: tuple[tuple[str, int], ...] = ()
    kraft_version: int | None = None


class View(Struct, frozen=True):
    """Facts by which the active controller judges.

    voters: ids in `controller.quorum.voters`; empty if that is not set.
    voters_reported: every voter has reported its supported kraft.version to this leader.
    """

    controller_id: int
    release: Release
    image: Image
    voters: tuple[int, ...]
    voters_reported: bool = True


def judge(view: View, updates: Sequence[FeatureUpdate]) -> Verdict:
    """The verdict on one request."""
    by_name = {update.feature: update for update in updates}  # the last one of duplicates wins
    proposed = dict(finalized(view.image, view.release)) | {u.feature: u.level for u in by_name.values()}
    if view.release.number < _ALL_OR_NOTHING:
        return _each_for_itself(view, by_name, proposed)
    levels: list[tuple[str, int]] = []
    kraft_version: int | None = None
    for name in java_hash_order(by_name):
        update = by_name[name]
        if reason := _refusal(view, update, proposed):
            return Verdict(INVALID_UPDATE_VERSION, ALL_FAILED + reason, kraft_version=kraft_version)
        if name == KRAFT_VERSION and view.release.number >= _KRAFT_UPGRADE:
            kraft_version = update.level if update.level > view.image.kraft_version else None
        else:
            levels.append((name, update.level))
    results = tuple(FeatureResult(update.feature, NONE, "NONE") for update in updates)
    return Verdict(NONE, None, results, tuple(levels), kraft_version)


def _each_for_itself(view: View, by_name: Mapping[str, FeatureUpdate], proposed: Mapping[str, int]) -> Verdict:
    """The verdict of 3.9, which applies the valid updates, and reports the others."""
    results: list[FeatureResult] = []
    levels: list[tuple[str, int]] = []
    for name in sorted(by_name):
        reason = _refusal(view, by_name[name], proposed)
        results.append(FeatureResult(name, INVALID_UPDATE_VERSION if reason else NONE, reason))
        if reason is None:
            levels.append((name, by_name[name].level))
    return Verdict(NONE, "", tuple(results), tuple(levels))


def finalized(image: Image, release: Release) -> Mapping[str, int]:
    """The levels that a node of this release reports: 3.9 takes kraft.version from a feature record if there is one,
    other releases from the quorum.
    """
    levels = dict(image.features)
    if release.number < _ALL_OR_NOTHING and image.feature_record_kraft_version:
        levels[KRAFT_VERSION] = image.feature_record_kraft_version
    elif image.kraft_version:
        levels[KRAFT_VERSION] = image.kraft_version
    return levels


def _refusal(view: View, update: FeatureUpdate, proposed: Mapping[str, int]) -> str | None:
    """The message of the first check that fails, in Kafka's order; None if the update is valid."""
    reason = _unfit(view, update)
    if reason is None:
        current = finalized(view.image, view.release).get(update.feature, 0)
        reason = _wrong_direction(current, update)
        if reason is None and update.feature == METADATA_VERSION:
            return _metadata_version(view.release, current, update)
        if reason is None and _raises_the_quorum(view, current, update) and not view.voters_reported:
            name = f"KRAFT_VERSION_{update.level}"
            return f"Invalid upgrade of {KRAFT_VERSION} to {name} because not all of the voters support it"
        if reason is None and view.release.number >= _ALL_OR_NOTHING:
            reason = _kraft_or_dependency(view, current, update, proposed)
    return None if reason is None else f"Invalid update version {update.level} for feature {update.feature}. {reason}"


def _unfit(view: View, update: FeatureUpdate) -> str | None:
    """The reason why the type or level is invalid, or not supported by a registered node; None if there is none."""
    if update.type is UpgradeType.UNKNOWN:
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    local_range = view.release.features.get(update.feature, _DISABLED)
    if reason := _unsupported(f"Local controller {view.controller_id}", local_range, update.level):
        return reason
    for broker_id, broker in sorted(view.image.brokers.items()):  # fenced or not, alive or not
        supported = VersionRange(*broker.features.get(update.feature, (0, 0)))
        if reason := _unsupported(f"Broker {broker_id}", supported, update.level):
            return reason
    if view.image.features.get(METADATA_VERSION, 0) < CONTROLLER_REGISTRATION:
        return None
    for controller_id, controller in sorted(view.image.controllers.items()):
        if controller_id == view.controller_id:
            continue  # judged as "Local controller" above
        supported = VersionRange(*controller.features.get(update.feature, (0, 0)))
        if reason := _unsupported(f"Controller {controller_id}", supported, update.level):
            return reason
    missing = next((voter for voter in view.voters if voter not in view.image.controllers), None)
    if missing is not None:
        return f"controller {missing} has not registered, and may not support this feature"
    return None


def _unsupported(who: str, supported: VersionRange, level: int) -> str | None:
    """Reason why a node does not support a level (`QuorumFeatures.reasonNotSupported`); None if it does. `who`: its
    name. A node supports level 0 of a feature that it does not have.
    """
    if level in supported:
        return None
    if supported == _DISABLED:
        return f"{who} does not support this feature."
    versions = str(supported) if supported.min != supported.max else str(supported.min)
    return f"{who} only supports versions {versions}"


def _wrong_direction(current: int, update: FeatureUpdate) -> str | None:
    """Reason why the level may not change in this direction with this type; None if it may."""
    if update.level < current and update.type is UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and update.type is not UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _metadata_version(release: Release, current: int, update: FeatureUpdate) -> str | None:
    """Checks of metadata.version, whose messages lack the usual beginning (KAFKA-13896: no lossy downgrade)."""
    level = update.level
    if release.number < _ALL_OR_NOTHING and level < LOWEST_SETTABLE:
        return f"Invalid metadata.version {level}. Unable to set a metadata.version less than 3.3-IV0"
    if not any(METADATA_VERSIONS[step].changed for step in range(level + 1, current + 1)):
        return None
    begin = f"Invalid metadata.version {level}."
    if release.number >= _DOWNGRADE_WORDED_ANEW:
        begin = f"Unsupported metadata.version downgrade from {current} to {level}."
    if update.type is UpgradeType.UNSAFE_DOWNGRADE:
        return f"{begin} Unsafe metadata downgrade is not supported in this version."
    return f"{begin} Refusing to perform the requested downgrade because it might delete metadata information."


def _raises_the_quorum(view: View, current: int, update: FeatureUpdate) -> bool:
    """Tell whether the update makes the quorum dynamic."""
    return update.feature == KRAFT_VERSION and view.release.number >= _KRAFT_UPGRADE and update.level > current


def _kraft_or_dependency(view: View, current: int, update: FeatureUpdate, proposed: Mapping[str, int]) -> str | None:
    """The message of 4.x for a lower kraft.version, an unknown feature or a missing dependency; None for none."""
    if update.feature == KRAFT_VERSION:
        lowered = view.release.number >= _KRAFT_UPGRADE and update.level < current
        return "Can't downgrade the version of this feature." if lowered else None
    if update.feature not in view.release.features and update.feature not in _DEFINED.get(view.release.number, ()):
        return f"Feature {update.feature} not found."  # reached at level 0 only
    needs = _DEPENDENCIES.get((update.feature, update.level))
    if needs and proposed.get(needs[0], 0) < needs[1]:
        return f"{update.feature} could not be set to {update.level} because it depends on {needs[0]} level {needs[1]}"
    return None


def java_hash_order(names: Iterable[str]) -> list[str]:
    """The order in which a `java.util.HashMap` with these keys walks over them: it decides which failure is named."""
    keys = list(names)
    buckets = 16
    while len(keys) > buckets * 3 // 4:
        buckets *= 2
    return sorted(keys, key=lambda name: _spread_hash(name) & (buckets - 1))  # stable: by insertion within a bucket


@lru_cache(maxsize=1024)
def _spread_hash(text: str) -> int:
    """`String.hashCode`, spread as `HashMap.hash` does. Feature names are ASCII, so code points are UTF-16 units."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value ^ (value >> 16)
