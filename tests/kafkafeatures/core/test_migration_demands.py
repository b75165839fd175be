"""The settings that each node needs at the next position of a migration; a node with unknown settings never counts as
right.
"""

from __future__ import annotations

import msgspec
import pytest

from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.settings import IBP, NodeSettings, Setting, SettingSource
from kafkafeatures.core.migration.demands import SHAPES, SettingsByNode, demands, setting_facts_of
from kafkafeatures.core.migration.edges import (
    BACK,
    FINALIZE,
    FLAG_BROKERS,
    FORWARD,
    MOVE_BROKERS,
    START_CONTROLLERS,
    TARGETS,
)
from kafkafeatures.core.migration.positions import FLAG, Position
from kafkafeatures.core.migration.settings import (
    AUTHORIZER,
    BOOTSTRAP,
    LISTENER,
    OF_ZOOKEEPER,
    PROTOCOLS,
    QUORUM_LISTENERS,
    VOTERS,
    Shape,
    differences,
    lines_of,
)
from kafkafeatures.core.report.migration_document import settings_document

P, B, C = Position, Role.BROKER, Role.CONTROLLER
SILENT = Failure(FailureKind.TIMED_OUT, "broker-2:9092", "no answer within 5 s", "check that it runs")


def node(**values: str) -> NodeSettings:
    return NodeSettings(
        "10.0.0.1", {name.replace("_", "."): Setting(SettingSource.FILE, value) for name, value in values.items()}
    )


PLAIN = node(broker_id="1", inter_broker_protocol_version="3.9", zookeeper_connect="zk:2181")


def test_every_edge_and_every_target_of_a_migration_defines_the_shapes_of_the_nodes() -> None:
    assert {*(edge.end for edge in (*FORWARD, *BACK)), *TARGETS.values()} <= SHAPES.keys()
    for edge in (*FORWARD, *BACK):
        if edge.asks is not None:
            assert edge.asks in SHAPES[edge.end].values()


def test_a_node_whose_settings_cannot_be_read_is_unknown_with_its_failure() -> None:
    node_settings: SettingsByNode = {(B, 1): PLAIN, (B, 2): SILENT, (C, 3001): node(node_id="3001")}
    requirements = demands(
        P.PRE_MIGRATION, P.COPIED, FLAG_BROKERS, setting_facts_of(node_settings, "3.9-IV0"), node_settings
    )
    assert requirements.unknown == (SILENT,)
    assert [node.id for node in requirements.differing] == [1, 3001]
    assert [node.differs for node in requirements.nodes if node.id == 2] == [SILENT]


def test_nodes_of_a_required_role_that_are_not_known_are_reported_as_missing_with_a_remedy() -> None:
    node_settings: SettingsByNode = {(B, 1): PLAIN}
    (missing,) = demands(
        P.PRE_MIGRATION, P.COPIED, FLAG_BROKERS, setting_facts_of(node_settings, ""), node_settings
    ).missing
    assert (missing.location, missing.remedy) == ("controllers", "give --bootstrap-controller")
    (missing,) = demands(P.COPIED, P.DUAL_WRITE, MOVE_BROKERS, setting_facts_of({}, ""), {(C, 3001): PLAIN}).missing
    assert missing.remedy == "give --bootstrap-server"


def test_controllers_are_not_missing_before_they_are_to_be_started() -> None:
    node_settings: SettingsByNode = {(B, 1): PLAIN}
    facts = setting_facts_of(node_settings, "")
    assert not demands(P.ZOOKEEPER, P.PRE_MIGRATION, START_CONTROLLERS, facts, node_settings).missing


def test_the_values_of_the_lines_to_set_are_taken_from_the_settings_of_the_nodes() -> None:
    brokers: SettingsByNode = {(B, 1): node(**{LISTENER: "INTERNAL", AUTHORIZER: OF_ZOOKEEPER, IBP: "3.8"})}
    known = setting_facts_of(brokers, "")
    assert (known.ibp, known.listener, known.acls, known.dynamic) == ("3.8", "INTERNAL", True, False)
    assert setting_facts_of(brokers, "3.9-IV0").ibp == "3.9-IV0"


def test_a_value_that_the_brokers_do_not_share_is_not_known() -> None:
    one_with_listener: SettingsByNode = {
        (B, 1): node(**{LISTENER: "INTERNAL", IBP: "3.8"}), (B, 2): node(**{IBP: "3.9"}),
    }  # fmt: skip
    facts = setting_facts_of(one_with_listener, "")
    assert (facts.ibp, facts.listener) == ("", "")


def test_a_quorum_is_dynamic_if_its_controllers_have_bootstrap_servers_and_no_voters() -> None:
    assert setting_facts_of({(C, 3001): node(**{BOOTSTRAP: "c:9093"})}, "").dynamic
    assert not setting_facts_of({(C, 3001): node(**{BOOTSTRAP: "c:9093", VOTERS: "1@c:9093"})}, "").dynamic


def test_the_lines_to_set_show_a_value_that_all_nodes_share_and_no_value_that_differs() -> None:
    node_settings: SettingsByNode = {
        (B, 1): PLAIN, (B, 2): SILENT, (B, 3): node(**{LISTENER: "INTERNAL"}),
        (C, 3001): node(zookeeper_connect="zk:2181", **{VOTERS: "3001@c:9093", QUORUM_LISTENERS: "CONTROLLER"}),
        (C, 3002): node(zookeeper_connect="zk:2181", **{VOTERS: "3001@d:9093", QUORUM_LISTENERS: "CONTROLLER"}),
    }  # fmt: skip
    requirements = demands(
        P.ZOOKEEPER, P.PRE_MIGRATION, START_CONTROLLERS, setting_facts_of(node_settings, "3.9-IV0"), node_settings
    )
    add = {role: lines.add for role, _, lines in requirements.lines}
    assert {"zookeeper.connect=zk:2181", f"{VOTERS}=...", f"{QUORUM_LISTENERS}=CONTROLLER"} <= set(add[C])


def test_controllers_get_a_line_for_the_listener_of_brokers_whose_absence_is_no_difference() -> None:
    facts = msgspec.structs.replace(setting_facts_of({(B, 1): PLAIN}, "3.9-IV0"), listener="INTERNAL")
    assert f"{PROTOCOLS}=...,INTERNAL:..." in lines_of(Shape.MIGRATING_CONTROLLER, facts).add
    assert PROTOCOLS not in {difference.name for difference in differences(Shape.MIGRATING_CONTROLLER, facts, PLAIN.of)}


@pytest.mark.parametrize("release", ["", "3.9-IV0"])
def test_nodes_that_do_not_exist_yet_have_lines_with_a_placeholder_for_the_node_id(release: str) -> None:
    node_settings: SettingsByNode = {(B, 1): PLAIN}
    requirements = demands(
        P.ZOOKEEPER, P.PRE_MIGRATION, START_CONTROLLERS, setting_facts_of(node_settings, release), node_settings
    )
    add = {role: lines.add for role, _, lines in requirements.lines}
    assert {"process.roles=controller", "node.id=...", f"{FLAG}=true"} <= set(add[C])
    assert f"{IBP}={release or '3.9'}" in add[B]
    assert requirements.differing == ()


def test_controllers_need_the_topic_defaults_that_all_brokers_share() -> None:
    three_replicas_six_partitions = node(**{"default.replication.factor": "3", "num.partitions": "6"})
    three_replicas_twelve_partitions = node(**{"default.replication.factor": "3", "num.partitions": "12"})
    for node_settings, wanted in (
        (
            {(B, 1): three_replicas_six_partitions, (B, 2): three_replicas_six_partitions},
            {"default.replication.factor=3", "num.partitions=6"},
        ),
        (
            {(B, 1): three_replicas_six_partitions, (B, 2): three_replicas_twelve_partitions},
            {"default.replication.factor=3"},
        ),
    ):
        requirements = demands(
            P.ZOOKEEPER, P.PRE_MIGRATION, START_CONTROLLERS, setting_facts_of(node_settings, ""), node_settings
        )
        add = {shape: lines.add for _, shape, lines in requirements.lines}
        defaults = {line for line in add[Shape.MIGRATING_CONTROLLER] if line.startswith(("default.", "num."))}
        assert defaults == wanted
        assert not [line for line in add[Shape.PLAIN_BROKER] if line.startswith(("default.", "num."))]


def test_a_setting_that_a_request_has_set_is_copied_by_the_migration_and_is_in_no_line_to_set() -> None:
    name = "unclean.leader.election.enable"
    layers = {SettingSource.NODE: "true", SettingSource.FILE: "false"}
    for setting, wanted in (
        (Setting(SettingSource.NODE, "true", layers=layers), f"{name}=false"),
        (Setting(SettingSource.NODE, "true", layers={SettingSource.NODE: "true"}), ""),
    ):
        node_settings: SettingsByNode = {(B, 1): NodeSettings("10.0.0.1", {name: setting})}
        requirements = demands(
            P.ZOOKEEPER, P.PRE_MIGRATION, START_CONTROLLERS, setting_facts_of(node_settings, ""), node_settings
        )
        add = {shape: lines.add for _, shape, lines in requirements.lines}
        assert [line for line in add[Shape.MIGRATING_CONTROLLER] if line.startswith(name)] == (
            [wanted] if wanted else []
        )


def test_the_settings_document_has_the_caution_of_the_edge() -> None:
    requirements = demands(P.DUAL_WRITE, P.FINALIZED, FINALIZE, setting_facts_of({}, ""), {})
    assert settings_document(requirements)["caution"] == FINALIZE.caution != ""
