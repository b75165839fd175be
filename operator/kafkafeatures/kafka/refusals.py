"""The controller's words for a refused feature update, taken apart.

Called by whoever explains a refusal to people: which feature, which node, which range. The texts are those of
`FeatureControlManager.java`, `QuorumFeatures.java` and, for ZooKeeper mode, `KafkaController.scala`, as real nodes
of 3.9 to 4.4 sent them. A text nobody knows is `OTHER` and keeps its words: nothing is decided by parsing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from kafkafeatures.core.levels import VersionRange
from kafkafeatures.core.readings import Role


class Cause(StrEnum):
    """What stands in the way."""

    NODE_RANGE = "NodeRange"  # a node supports other levels of the feature: `supported`
    NODE_LACKS_FEATURE = "NodeLacksFeature"
    NODE_NOT_REGISTERED = "NodeNotRegistered"  # a voter that has never registered; it may still come
    FEATURE_UNKNOWN = "FeatureUnknown"
    DEPENDENCY = "Dependency"  # another feature is too low: `depends_on`
    DOWNGRADE = "Downgrade"  # a downgrade that was not asked for as one, or a raise that was asked for as a downgrade
    DOWNGRADE_REFUSED = "DowngradeRefused"  # metadata would be lost, or the feature never goes back
    LEVEL_INVALID = "LevelInvalid"  # no such level, or one below what KRaft can run
    UPGRADE_TYPE = "UpgradeType"
    MIGRATION = "Migration"  # a migration from ZooKeeper is open
    ZOOKEEPER = "ZooKeeper"  # ZooKeeper mode: features cannot be finalized there
    OTHER = "Other"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`node_id` with `role`: the node in the way; `local` if it is the active controller itself that answered.

    `level` and `feature`: as the controller names them (None where it does not). `reason`: its words without the
    prefixes that repeat the request.
    """

    cause: Cause
    reason: str
    feature: str | None = None
    level: int | None = None
    role: Role | None = None
    node_id: int | None = None
    local: bool = False
    supported: VersionRange | None = None
    depends_on: tuple[str, int] | None = None


def parse_refusal(message: str | None) -> Refusal:
    """Take a text apart. Never raises; an unknown or missing text has the cause `OTHER`."""
    reason = (message or "").strip()
    reason = reason.removeprefix(_ALL_FAILED).lstrip()
    feature: str | None = None
    level: int | None = None
    if prefix := _PREFIX.match(reason):
        feature, level, reason = prefix["feature"], int(prefix["level"]), reason[prefix.end() :].strip()
    elif prefix := _METADATA_PREFIX.match(reason):
        feature, level = "metadata.version", int(prefix["level"])
    for cause, pattern in _TEXTS:
        if found := pattern.search(reason):
            return _refusal(cause, reason, feature, level, found.groupdict())
    return Refusal(Cause.OTHER, reason, feature, level)


def _refusal(cause: Cause, reason: str, feature: str | None, level: int | None, part: dict[str, str | None]) -> Refusal:
    who, low, depends = part.get("who"), part.get("low"), part.get("other")
    if named := part.get("level"):
        level = int(named)
    return Refusal(
        cause,
        reason,
        part.get("feature") or feature,
        level,
        role=(Role.BROKER if who == "Broker" else Role.CONTROLLER) if who else None,
        node_id=int(part["id"] or -1) if who else None,
        local=who == "Local controller",
        supported=VersionRange(int(low), int(part.get("high") or low)) if low else None,
        depends_on=(depends, int(part.get("needed") or 0)) if depends else None,
    )


_ALL_FAILED = "The update failed for all features since the following feature had an error:"  # 4.0 and newer
_PREFIX = re.compile(r"Invalid update version (?P<level>-?\d+) for feature (?P<feature>\S*)\. ")
_METADATA_PREFIX = re.compile(r"Invalid metadata\.version (?P<level>-?\d+)\. ")
_NODE = r"(?P<who>Local controller|Controller|controller|Broker) (?P<id>-?\d+) "
_RANGE = r"(?P<low>\d+)(?:(?:-| to )(?P<high>\d+))?"  # "7-29"; "21" of a broker in ZooKeeper mode; "1 to 7" before 3.7

_TEXTS: tuple[tuple[Cause, re.Pattern[str]], ...] = tuple(
    (cause, re.compile(text))
    for cause, text in (
        (Cause.NODE_RANGE, _NODE + r"only supports versions " + _RANGE),
        (Cause.NODE_RANGE, _NODE + r"does not support the given version\. It supports " + _RANGE),
        (Cause.NODE_LACKS_FEATURE, _NODE + r"does not support this feature"),
        (Cause.NODE_NOT_REGISTERED, _NODE + r"has not registered"),
        (Cause.FEATURE_UNKNOWN, r"^Feature (?P<feature>\S+) not found"),
        (
            Cause.DEPENDENCY,
            r"^(?P<feature>\S+) could not be set to (?P<level>\d+) "
            r"because it depends on (?P<other>\S+) level (?P<needed>\d+)",
        ),
        (Cause.DOWNGRADE, r"^Can't downgrade the version of this feature without setting the upgrade type"),
        (Cause.DOWNGRADE, r"^Can't downgrade to a newer version"),
        (Cause.DOWNGRADE_REFUSED, r"^Can't downgrade the version of this feature\."),
        (Cause.DOWNGRADE_REFUSED, r"^Unsupported (?P<feature>metadata\.version) downgrade from \d+ to (?P<level>\d+)"),
        (Cause.DOWNGRADE_REFUSED, r"Refusing to perform the requested downgrade"),
        (Cause.DOWNGRADE_REFUSED, r"Unsafe metadata downgrade is not supported"),
        (Cause.MIGRATION, r"while a ZK migration is in progress"),
        (Cause.MIGRATION, r"controller is in pre-migration mode"),
        (Cause.LEVEL_INVALID, r"Unable to set a metadata\.version less than"),
        (Cause.LEVEL_INVALID, r"Valid versions are from"),
        (Cause.LEVEL_INVALID, r"^A feature version cannot be less than"),
        (Cause.UPGRADE_TYPE, r"does not support the given upgrade type"),
        (Cause.ZOOKEEPER, r"^Could not apply finalized feature update because"),
        (Cause.ZOOKEEPER, r"^Can not (?:delete|downgrade|upgrade) "),
        (Cause.ZOOKEEPER, r"^Feature versioning system is disabled"),
    )
)
