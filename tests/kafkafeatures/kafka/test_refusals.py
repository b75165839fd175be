"""The texts are those real nodes of 3.9 and 4.x sent, and those their source has for older releases."""

from __future__ import annotations

import pytest

from kafkafeatures.core.levels import VersionRange
from kafkafeatures.core.readings import Role
from kafkafeatures.kafka.refusals import Cause, Refusal, parse_refusal

ALL = "The update failed for all features since the following feature had an error: "
MV = "metadata.version"


def invalid(feature: str, level: int) -> str:
    return f"Invalid update version {level} for feature {feature}. "


@pytest.mark.parametrize(
    ("text", "cause", "facts"),
    [
        (
            invalid(MV, 99) + "Local controller 3002 only supports versions 7-29",
            Cause.NODE_RANGE,
            {"feature": MV, "level": 99, "role": Role.CONTROLLER, "node_id": 3002, "local": True}
            | {"supported": VersionRange(7, 29)},
        ),
        (
            invalid(MV, 28) + "Controller 3003 only supports versions 7-27",
            Cause.NODE_RANGE,
            {"feature": MV, "level": 28, "role": Role.CONTROLLER, "node_id": 3003, "supported": VersionRange(7, 27)},
        ),
        (
            invalid(MV, 28) + "Broker 4 only supports versions 7-27",
            Cause.NODE_RANGE,
            {"feature": MV, "level": 28, "role": Role.BROKER, "node_id": 4, "supported": VersionRange(7, 27)},
        ),
        (
            invalid(MV, 20) + "Broker 2 only supports versions 21",
            Cause.NODE_RANGE,
            {"feature": MV, "level": 20, "role": Role.BROKER, "node_id": 2, "supported": VersionRange(21, 21)},
        ),
        (
            invalid(MV, 8) + "Broker 5 does not support the given version. It supports 1 to 7.",
            Cause.NODE_RANGE,
            {"feature": MV, "level": 8, "role": Role.BROKER, "node_id": 5, "supported": VersionRange(1, 7)},
        ),
        (
            invalid("foo", 1) + "Local controller 3002 does not support this feature.",
            Cause.NODE_LACKS_FEATURE,
            {"feature": "foo", "level": 1, "role": Role.CONTROLLER, "node_id": 3002, "local": True},
        ),
        (
            invalid("streams.version", 1) + "Controller 3003 does not support this feature.",
            Cause.NODE_LACKS_FEATURE,
            {"feature": "streams.version", "level": 1, "role": Role.CONTROLLER, "node_id": 3003},
        ),
        (
            invalid("streams.version", 1) + "Broker 4 does not support this feature.",
            Cause.NODE_LACKS_FEATURE,
            {"feature": "streams.version", "level": 1, "role": Role.BROKER, "node_id": 4},
        ),
        (
            invalid("", 1) + "Local controller 3002 does not support this feature.",
            Cause.NODE_LACKS_FEATURE,
            {"feature": "", "level": 1, "role": Role.CONTROLLER, "node_id": 3002, "local": True},
        ),
        (
            invalid(MV, 22) + "controller 3001 has not registered, and may not support this feature",
            Cause.NODE_NOT_REGISTERED,
            {"feature": MV, "level": 22, "role": Role.CONTROLLER, "node_id": 3001},
        ),
        (invalid("foo", 0) + "Feature foo not found.", Cause.FEATURE_UNKNOWN, {"feature": "foo", "level": 0}),
        (
            invalid("eligible.leader.replicas.version", 1)
            + "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23",
            Cause.DEPENDENCY,
            {"feature": "eligible.leader.replicas.version", "level": 1, "depends_on": (MV, 23)},
        ),
        (
            invalid(MV, 24)
            + "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
            Cause.DOWNGRADE,
            {"feature": MV, "level": 24},
        ),
        (invalid(MV, 25) + "Can't downgrade to a newer version.", Cause.DOWNGRADE, {"feature": MV, "level": 25}),
        (
            invalid("kraft.version", 0) + "Can't downgrade the version of this feature.",
            Cause.DOWNGRADE_REFUSED,
            {"feature": "kraft.version", "level": 0},
        ),
        (
            "Unsupported metadata.version downgrade from 25 to 22. Refusing to perform the requested downgrade because "
            "it might delete metadata information.",
            Cause.DOWNGRADE_REFUSED,
            {"feature": MV, "level": 22},
        ),
        (
            "Unsupported metadata.version downgrade from 25 to 22. Unsafe metadata downgrade is not supported in this "
            "version.",
            Cause.DOWNGRADE_REFUSED,
            {"feature": MV, "level": 22},
        ),
        (
            "Invalid metadata.version 16. Refusing to perform the requested downgrade because it might delete metadata "
            "information.",
            Cause.DOWNGRADE_REFUSED,
            {"feature": MV, "level": 16},
        ),
        (
            "Invalid metadata.version 16. Unsafe metadata downgrade is not supported in this version.",
            Cause.DOWNGRADE_REFUSED,
            {"feature": MV, "level": 16},
        ),
        (
            "Invalid metadata.version 3. Unable to set a metadata.version less than 3.3-IV0",
            Cause.LEVEL_INVALID,
            {"feature": MV, "level": 3},
        ),
        (
            "Invalid metadata.version 6. Valid versions are from 7 to 29.",
            Cause.LEVEL_INVALID,
            {"feature": MV, "level": 6},
        ),
        (
            invalid("group.version", -1) + "A feature version cannot be less than 0.",
            Cause.LEVEL_INVALID,
            {"feature": "group.version", "level": -1},
        ),
        (
            invalid("group.version", 1) + "The controller does not support the given upgrade type.",
            Cause.UPGRADE_TYPE,
            {"feature": "group.version", "level": 1},
        ),
        (
            "Invalid metadata.version 21. Unable to modify metadata.version while a ZK migration is in progress.",
            Cause.MIGRATION,
            {"feature": MV, "level": 21},
        ),
        ("The controller is in pre-migration mode.", Cause.MIGRATION, {}),
        (
            "Could not apply finalized feature update because the provided feature is not supported.",
            Cause.ZOOKEEPER,
            {},
        ),
        ("Can not delete non-existing finalized feature.", Cause.ZOOKEEPER, {}),
        ("Feature versioning system is disabled.", Cause.ZOOKEEPER, {}),
        ("Something nobody has ever seen.", Cause.OTHER, {}),
    ],
)
@pytest.mark.parametrize("prefix", ["", ALL], ids=["3.9", "4.x"])
def test_the_words_of_a_refusal_name_the_feature_the_node_and_the_range(
    text: str, cause: Cause, facts: dict[str, object], prefix: str
) -> None:
    refusal = parse_refusal(prefix + text)
    got = {name: getattr(refusal, name) for name in Refusal.__slots__ if name not in {"cause", "reason"}}
    empty = {"feature": None, "level": None, "role": None, "node_id": None, "local": False} | {
        "supported": None,
        "depends_on": None,
    }
    assert (refusal.cause, got) == (cause, empty | facts)
    assert refusal.reason
    assert refusal.reason in text


@pytest.mark.parametrize("text", [None, ""])
def test_a_refusal_without_words_has_no_cause_we_know(text: str | None) -> None:
    assert parse_refusal(text) == Refusal(Cause.OTHER, "")
