"""Rules of simulated controllers for changes of levels: each check with its error message, and the order of checks.

`test_against_real_nodes` compares recorded answers; here are the rules that were not recorded.
"""

from typing import Any

import pytest

from kafkafeatures.core.facts.readings import Role
from kafkasim.quorum import ELECTION_MS, UPDATE_VOTER_MS
from kafkasim.rules import ALL_FAILED, FeatureUpdate, UpgradeType, Verdict, java_hash_order
from kafkasim.world import ControllerAnswer, World
from tests.kafkasim.clusters import plan, settle, world

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
NO_FLAG = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)
REFUSING = "Refusing to perform the requested downgrade because it might delete metadata information."
NO_UNSAFE = "Unsafe metadata downgrade is not supported in this version."


def ask(made: World, *updates: tuple[Any, ...], validate_only: bool = True) -> Verdict:
    return send(made, *updates, validate_only=validate_only).verdict


def send(made: World, *updates: tuple[Any, ...], validate_only: bool = False) -> ControllerAnswer:
    assert made.active_node is not None
    return made.update_features(
        made.active_node, [FeatureUpdate(*update) for update in updates], validate_only=validate_only
    )


def cluster(release: str, level: int, **more: Any) -> World:
    brokers = more.pop("brokers", {1: release})
    controllers = more.pop("controllers", {3001: release})
    return world(plan(brokers, controllers, metadata_version=level, **more))


MV = "metadata.version"
REFUSALS = [
    # release, metadata.version now, update, words behind "Invalid update version <level> for feature <feature>. "
    ("4.2", 25, (MV, 30, UP), "Local controller 3001 only supports versions 7-29"),
    ("4.3", 25, (MV, 31, UP), "Local controller 3001 only supports versions 7-30"),
    ("4.4", 25, (MV, 34, UP), "Local controller 3001 only supports versions 7-33"),
    ("4.4", 25, ("share.version", 3, UP), "Local controller 3001 only supports versions 0-2"),
    ("4.0", 25, ("streams.version", 1, UP), "Local controller 3001 does not support this feature."),
    ("4.2", 25, ("foo", 0, SAFE), "Feature foo not found."),
    ("4.2", 25, (MV, 24, UP), NO_FLAG),
    ("4.2", 25, (MV, 26, SAFE), "Can't downgrade to a newer version."),
    ("4.2", 25, (MV, 26, UNSAFE), "Can't downgrade to a newer version."),
    ("4.2", 25, (MV, 25, UpgradeType.UNKNOWN), "The controller does not support the given upgrade type."),
    ("4.2", 25, ("group.version", -1, SAFE), "A feature version cannot be less than 0."),
    (
        "4.2", 22, ("eligible.leader.replicas.version", 1, UP),
        "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("release", "level", "update", "words"), REFUSALS)
def test_a_4_x_controller_refuses_with_the_error_messages_of_kafka(
    release: str, level: int, update: tuple[Any, ...], words: str
) -> None:
    feature, wanted, _ = update
    verdict = ask(cluster(release, level), update)
    message = f"{ALL_FAILED}Invalid update version {wanted} for feature {feature}. {words}"
    assert (verdict.error_code, verdict.error_message, verdict.results) == (95, message, ())


DOWNGRADES = [
    # release, metadata.version now, level requested, type, message (None: accepted)
    ("3.9", 21, 20, SAFE, None),
    ("3.9", 21, 17, SAFE, None),
    ("3.9", 21, 16, SAFE, f"Invalid metadata.version 16. {REFUSING}"),
    ("3.9", 21, 16, UNSAFE, f"Invalid metadata.version 16. {NO_UNSAFE}"),
    ("3.9", 21, 3, SAFE, "Invalid metadata.version 3. Unable to set a metadata.version less than 3.3-IV0"),
    ("4.0", 25, 22, SAFE, f"Invalid metadata.version 22. {REFUSING}"),
    ("4.0", 25, 23, SAFE, None),
    ("4.1", 27, 22, SAFE, f"Invalid metadata.version 22. {REFUSING}"),
    ("4.2", 29, 23, UNSAFE, None),
    ("4.3", 30, 29, SAFE, f"Unsupported metadata.version downgrade from 30 to 29. {REFUSING}"),
    ("4.3", 30, 29, UNSAFE, f"Unsupported metadata.version downgrade from 30 to 29. {NO_UNSAFE}"),
]


@pytest.mark.parametrize(("release", "level", "wanted", "how", "words"), DOWNGRADES)
def test_metadata_version_cannot_be_downgraded_below_the_last_change_of_record_formats(
    release: str, level: int, wanted: int, how: UpgradeType, words: str | None
) -> None:
    verdict = ask(cluster(release, level), (MV, wanted, how))
    if release == "3.9":
        assert (verdict.error_code, verdict.error_message) == (0, "")
        assert verdict.results[0].error_message == words
    else:
        assert verdict.error_message == (None if words is None else ALL_FAILED + words)


REGISTERED = [
    # nodes and level of the cluster, update, end of the message
    ({"brokers": {1: "4.2", 7: "4.0"}}, (MV, 27), "Broker 7 only supports versions 7-25"),
    ({"brokers": {1: "4.2", 7: "3.9"}, "level": 21}, ("group.version", 1), "Broker 7 does not support this feature."),
    ({"ghosts": ((Role.BROKER, 9, "4.0"),)}, (MV, 26), "Broker 9 only supports versions 7-25"),
    ({"ghosts": ((Role.CONTROLLER, 9, "4.1"),)}, (MV, 28), "Controller 9 only supports versions 7-27"),
    (
        {"controllers": {3001: "4.2", 3002: "4.0", 3003: "4.2"}}, ("share.version", 1),
        "Controller 3002 does not support this feature.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "update", "words"), REGISTERED)
def test_a_level_must_be_supported_by_every_registered_node_alive_or_not(
    shape: dict[str, Any], update: tuple[Any, ...], words: str
) -> None:
    made = cluster("4.2", shape.pop("level", 25), **shape)
    assert str(ask(made, update).error_message).endswith(words)


def test_controllers_are_not_registered_and_not_checked_below_3_7() -> None:
    made = cluster("4.2", 14, controllers={3001: "4.2", 3002: "4.1", 3003: "4.2"})
    assert made.image.controllers == {}
    assert ask(made, (MV, 29)).error_code == 0


def test_raising_to_3_7_makes_the_controllers_register() -> None:
    level_of_3_6, level_of_3_7 = 14, 15
    made = cluster("4.2", level_of_3_6, controllers={3001: "4.2", 3002: "4.2", 3003: "4.2"})
    assert not settle(made).image.controllers
    assert send(made, (MV, level_of_3_7)).verdict.error_code == 0
    assert sorted(settle(made).image.controllers) == [3001, 3002, 3003]


def test_a_voter_that_has_not_registered_blocks_a_raise() -> None:
    made = cluster("4.2", 14, controllers={3001: "4.2", 3002: "4.2", 3003: "4.2"})
    made.stop(Role.CONTROLLER, 3003)
    send(made, (MV, 15))
    words = "controller 3003 has not registered, and may not support this feature"
    assert str(ask(settle(made), (MV, 16)).error_message).endswith(words)


def test_kafka_4_applies_all_updates_or_none_and_3_9_each_on_its_own() -> None:
    new, old = cluster("4.2", 22), cluster("3.9", 20)
    good_and_bad = ((MV, 23), ("foo", 1))
    assert ask(new, *good_and_bad, validate_only=False).error_code == 95
    assert settle(new).image.features == {MV: 22}
    verdict = ask(old, (MV, 21), ("foo", 1), validate_only=False)
    assert [(r.feature, r.error_code) for r in verdict.results] == [("foo", 95), (MV, 0)]
    assert settle(old).image.features == {MV: 21}


def test_kraft_version_is_raised_even_when_another_feature_of_the_request_fails() -> None:
    made = cluster("4.2", 29)
    both = (("kraft.version", 1), ("foo", 1))
    ask(made, *both)
    assert settle(made).image.kraft_version == 0  # not with validateOnly
    assert ask(made, *both, validate_only=False).error_code == 95
    assert settle(made).image.kraft_version == 1
    assert made.image.voters is not None


NOT_ALL_VOTERS = (
    f"{ALL_FAILED}Invalid upgrade of kraft.version to KRAFT_VERSION_1 because not all of the voters support it"
)


def with_a_second_leader(release: str) -> tuple[World, int]:
    """Three controllers, another of which leads since the first leader stopped; and the id of the first leader."""
    made = cluster(release, 25, controllers={3001: release, 3002: release, 3003: release})
    assert made.active is not None
    first = made.active
    made.stop(Role.CONTROLLER, first)
    return settle(made, ELECTION_MS), first


@pytest.mark.parametrize("release", ["4.1", "4.3"])
def test_kraft_version_is_refused_until_every_voter_informed_the_new_leader_of_its_range(release: str) -> None:
    made, first = with_a_second_leader(release)
    settle(made, 60_000)
    assert ask(made, ("kraft.version", 1)).error_message == NOT_ALL_VOTERS
    assert ask(made, ("kraft.version", 0, SAFE)).error_code == 0  # kraft.version is at 0: nothing changes
    made.start(Role.CONTROLLER, first)
    assert ask(settle(made, UPDATE_VOTER_MS - 1), ("kraft.version", 1)).error_message == NOT_ALL_VOTERS
    assert ask(settle(made, 1), ("kraft.version", 1)).error_code == 0


def test_a_voter_that_stopped_after_it_informed_the_leader_does_not_block_kraft_version() -> None:
    made = cluster("4.3", 25, controllers={3001: "4.3", 3002: "4.3", 3003: "4.3"}, leader=3001)
    made.stop(Role.CONTROLLER, 3002)
    assert ask(settle(made, 60_000), ("kraft.version", 1)).error_code == 0


def test_before_4_1_kraft_version_does_not_wait_for_voters() -> None:
    assert ask(with_a_second_leader("4.0")[0], ("kraft.version", 1)).error_code == 0


@pytest.mark.parametrize(
    ("release", "level", "reported"),
    [("3.9", 21, 1), ("4.0", 25, 0)],
    ids=["3.9 reports the record", "4.0 reports the quorum"],
)
def test_raising_kraft_version_before_4_1_writes_a_record_without_effect_which_only_3_9_reports(
    release: str, level: int, reported: int
) -> None:
    made = cluster(release, level)
    send(made, ("kraft.version", 1))
    settle(made)
    assert (made.image.kraft_version, made.image.feature_record_kraft_version) == (0, 1)
    levels, _ = made.finalized(made.nodes[Role.BROKER, 1])
    assert levels.get("kraft.version", 0) == reported


def test_validate_only_writes_no_record() -> None:
    made = cluster("4.2", 25)
    end = made.log.end_offset
    assert send(made, (MV, 29), validate_only=True).offset == 0
    assert made.log.end_offset == end


def test_an_unchanged_level_is_written_again() -> None:
    made = cluster("4.2", 25)
    end = made.log.end_offset
    assert send(made, (MV, 25, SAFE)).verdict.error_code == 0
    assert made.log.end_offset == end + 1


def test_the_error_names_the_first_failed_feature_in_the_order_of_a_java_hash_map() -> None:
    assert java_hash_order(["transaction.version", "group.version"]) == ["group.version", "transaction.version"]
    verdict = ask(cluster("4.2", 25), ("transaction.version", 9), ("group.version", 9))
    assert "feature group.version" in str(verdict.error_message)
