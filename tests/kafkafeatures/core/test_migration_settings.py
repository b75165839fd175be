"""The settings that a node must have in each phase of a migration, and the lines that report a difference."""

from __future__ import annotations

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.settings import IBP, Setting, SettingSource
from kafkafeatures.core.migration.positions import FLAG
from kafkafeatures.core.migration.settings import (
    BOOTSTRAP,
    CONNECT,
    PROTOCOLS,
    VOTERS,
    Requirement,
    SettingFacts,
    Shape,
    differences,
    lines_of,
    required,
)

KNOWN = SettingFacts(node_id=1, ibp="3.9-IV0")


def settings(**values: str) -> dict[str, Setting]:
    return {name.replace("_", "."): Setting(SettingSource.FILE, value) for name, value in values.items()}


def settings_of(shape: Shape, known: SettingFacts = KNOWN) -> dict[str, Setting]:
    """Build a node whose file has all lines of this shape."""
    rules = required(shape, known)
    return {
        name: Setting(SettingSource.FILE, "x" if rule is Requirement.SET else rule)
        for name, rule in rules
        if rule is not Requirement.NOT_SET
    }


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize(
    "known",
    [
        KNOWN,
        replace(KNOWN, dynamic=True, listener="REPLICATION", acls=True),
        replace(KNOWN, quorum_listener="CONTROLLER"),
    ],
    ids=["static quorum", "dynamic quorum, broker listener, ACLs", "listener of the quorum"],
)
def test_a_node_with_the_lines_of_its_shape_has_no_difference_and_each_missing_line_is_one(
    shape: Shape, known: SettingFacts
) -> None:
    node_settings = settings_of(shape, known)
    assert differences(shape, known, node_settings) == ()
    for name in node_settings:
        without = {other: setting for other, setting in node_settings.items() if other != name}
        assert [difference.name for difference in differences(shape, known, without)] == [name]


def test_the_lines_of_each_shape_differ_by_what_the_documentation_of_kafka_changes() -> None:
    flagged, kraft, plain = (
        set(lines_of(shape, KNOWN).add) for shape in (Shape.FLAGGED_BROKER, Shape.KRAFT_BROKER, Shape.PLAIN_BROKER)
    )
    assert flagged - plain == {f"{FLAG}=true", f"{VOTERS}=...", "controller.listener.names=..."}
    assert plain <= flagged
    assert kraft - flagged == {"process.roles=broker", "node.id=1"}
    assert set(lines_of(Shape.KRAFT_BROKER, KNOWN).remove) >= {CONNECT, FLAG, IBP, "control.plane.listener.name"}
    with_flag, without = lines_of(Shape.MIGRATING_CONTROLLER, KNOWN), lines_of(Shape.CONTROLLER, KNOWN)
    assert set(with_flag.add) - set(without.add) == {f"{FLAG}=true", f"{CONNECT}=..."}


def test_the_lines_of_controllers_have_super_users_if_brokers_have_an_authorizer() -> None:
    principals = "super.users=User:<each broker>;User:<each controller>;User:<KafkaFeatures>"
    for shape in Shape:
        of_controllers = shape in (Shape.MIGRATING_CONTROLLER, Shape.CONTROLLER)
        lines = set(lines_of(shape, replace(KNOWN, authorizes=True, allows_everyone=True)).add)
        added = {principals, "allow.everyone.if.no.acl.found=..."}
        assert lines - set(lines_of(shape, KNOWN).add) == (added if of_controllers else set())
        assert principals not in lines_of(shape, replace(KNOWN, allows_everyone=True)).add


def test_a_protocol_version_in_the_file_has_to_be_removed_unlike_its_default_and_a_flag_of_false() -> None:
    node_settings = settings_of(Shape.KRAFT_BROKER) | {
        IBP: Setting(SettingSource.DEFAULT, "3.9-IV0"),
        FLAG: Setting(SettingSource.FILE, "false"),
    }
    assert differences(Shape.KRAFT_BROKER, KNOWN, node_settings) == ()
    with_value = node_settings | {IBP: Setting(SettingSource.FILE, "3.9")}
    assert [str(difference) for difference in differences(Shape.KRAFT_BROKER, KNOWN, with_value)] == [f"remove {IBP}"]


def test_a_protocol_version_equals_its_short_name_and_no_other_version() -> None:
    short = settings_of(Shape.FLAGGED_BROKER) | {IBP: Setting(SettingSource.FILE, "3.9")}
    assert differences(Shape.FLAGGED_BROKER, KNOWN, short) == ()
    another = short | {IBP: Setting(SettingSource.FILE, "3.8")}
    (difference,) = differences(Shape.FLAGGED_BROKER, KNOWN, another)
    assert str(difference) == f"set {IBP}=3.9-IV0 (now 3.8)"


def test_a_flagged_broker_must_map_the_listener_of_the_controllers_to_a_security_protocol() -> None:
    """Seen on Kafka 3.9: else it does not start, also where its map is not set. Names of listeners are compared whole,
    and without regard to case.
    """
    known = replace(KNOWN, quorum_listener="CONTROLLER")
    node_settings = settings_of(Shape.FLAGGED_BROKER, known)
    assert f"{PROTOCOLS}=...,CONTROLLER:..." in lines_of(Shape.FLAGGED_BROKER, known).add
    for mapped, differs in (("INTERNAL:SSL, controller:SSL", False), ("INTERNAL:SSL,MY_CONTROLLER:SSL", True)):
        mapping = node_settings | {PROTOCOLS: Setting(SettingSource.FILE, mapped)}
        expected = [PROTOCOLS] if differs else []
        assert [difference.name for difference in differences(Shape.FLAGGED_BROKER, known, mapping)] == expected
    plain = node_settings | {PROTOCOLS: Setting(SettingSource.DEFAULT, "PLAINTEXT:PLAINTEXT,SSL:SSL")}
    assert [str(difference) for difference in differences(Shape.FLAGGED_BROKER, known, plain)] == [
        f"set {PROTOCOLS}=...,CONTROLLER:... (not set)"
    ]


def test_a_listener_that_is_in_the_default_map_needs_no_map() -> None:
    assert PROTOCOLS not in dict(required(Shape.FLAGGED_BROKER, replace(KNOWN, quorum_listener="SSL")))


def test_the_lines_for_a_dynamic_quorum_set_its_bootstrap_servers() -> None:
    dynamic = replace(KNOWN, node_id=3001, dynamic=True)
    node_settings = settings_of(Shape.MIGRATING_CONTROLLER, KNOWN) | settings(node_id="3001")
    assert [difference.name for difference in differences(Shape.MIGRATING_CONTROLLER, dynamic, node_settings)] == [
        BOOTSTRAP
    ]


def test_a_secret_counts_as_set_without_its_value_unlike_an_empty_value() -> None:
    node_settings = settings_of(Shape.PLAIN_BROKER) | {CONNECT: Setting(SettingSource.FILE, None, is_secret=True)}
    assert differences(Shape.PLAIN_BROKER, KNOWN, node_settings) == ()
    empty = node_settings | {CONNECT: Setting(SettingSource.FILE, "")}
    assert [difference.name for difference in differences(Shape.PLAIN_BROKER, KNOWN, empty)] == [CONNECT]
