"""The records that a real active controller writes when a level is raised or lowered, besides the level itself.

They are read from its metadata log, for each level of each feature. Registrations are left out: nodes send them again
by themselves, later.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from kafkafeatures.core.facts.binaries import supported_by
from kafkafeatures.core.levels.effects import ROWS
from kafkafeatures.kafka.wire.codec import decode_response
from kraftlog.batches import Batch
from kraftlog.records import Decoded, decode
from kraftlog.schema import NAMES
from kraftlog.walks import walk
from tests.conformance.cases import ASKED_AGAIN, UNSAFE, UPGRADE, World
from tests.conformance.changes import ELR, KRAFT, METADATA, WHICH_LEVELS
from tests.conformance.downgrades import LOWEST, LOWEST_LEVEL
from tests.conformance.record import ask, finalize, may_raise_kraft
from tests.e2e.kafka.cli import run
from tests.e2e.rig.cluster import Cluster, Node
from tests.e2e.rig.held import BROKER, admin, hold_topic, set_config
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD, RECENT, release

MIN_ISR = "min.insync.replicas"
FEATURE_LEVEL = "FEATURE_LEVEL_RECORD"
OF_NODES = {"REGISTER_BROKER_RECORD", "REGISTER_CONTROLLER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD", "NO_OP_RECORD"}
RAISABLE_KRAFT = "4.1"
TOOL = "org.apache.kafka.tools.FeatureCommand"
FORMATTED, BUNDLE = "3.9", "4.3"
"""--release-version: the one with which the cluster is formatted, and the one that is given to the tool."""


class Written(NamedTuple):
    """One record that is no level and of no node: its type, and its fields in short."""

    kind: str
    fields: str = ""


class Change(NamedTuple):
    feature: str
    level: int


EXPECTED = {
    # FeatureControlManager and ConfigurationControlManager.maybeGenerateElrSafetyRecords, 4.0 and later
    Change(ELR, 1): (
        Written("CONFIG_RECORD", f"4 '' {MIN_ISR}=1"),  # the value of the active controller
        Written("CONFIG_RECORD", f"4 '1' {MIN_ISR}=None"),  # that of broker 1 alone is removed
    ),
    # KafkaRaftClient.upgradeKRaftVersion: two control records, the version and the voters with their addresses
    Change(KRAFT, 1): (Written("control 5"), Written("control 6")),
}
"""The records of each change that writes any besides levels. Changes that are not listed write none."""

GATES = Path(__file__).with_name("LevelGates.java")
CLASSES = (
    "MetadataVersion", "KRaftVersion", "GroupVersion", "TransactionVersion", "EligibleLeaderReplicasVersion",
    "ShareVersion", "StreamsVersion",
)  # fmt: skip
NOT_IN_ITS_CLASS = {Change(METADATA, 4), Change(ELR, 1)}
"""Levels whose effect other classes decide: `Features` and `ConfigurationControlManager`."""


def test_plans_show_the_effects_of_each_level_that_writes_further_records() -> None:
    assert {Change(row.feature, row.level) for row in ROWS if row.writes} == set(EXPECTED)


@pytest.mark.parametrize("version", [OLD, MIDDLE, RECENT, NEWEST])
def test_the_levels_that_enable_an_effect_are_those_at_which_kafkas_classes_enable_it(version: str) -> None:
    command = ["java", "-cp", f"{release(version).home}/libs/*", str(GATES), *CLASSES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    decided = {Change(name, int(level)) for name, level, _ in map(str.split, done.stdout.splitlines())}
    supported = supported_by(version.rpartition(".")[0]) or {}
    raisable = {Change(name, level) for name, span in supported.items() for level in range(span.min + 1, span.max + 1)}
    listed = {Change(row.feature, row.level) for row in ROWS if row.turns_on}
    assert raisable & decided == (raisable & listed) - NOT_IN_ITS_CLASS


@pytest.mark.parametrize("world", ASKED_AGAIN, ids=lambda world: world.version)
def test_a_change_of_a_level_writes_only_the_records_that_the_table_of_effects_has(
    world: World, tmp_path: Path
) -> None:
    with Cluster(tmp_path / "kafka", world.version, controllers=1, brokers=1, release_version=LOWEST) as cluster:
        active, broker = cluster.nodes[3001], cluster.nodes[1]
        hold_topic(cluster, "orders", {0: [1]})
        set_config(broker.port, BROKER, "1", MIN_ISR, "2")
        supported = decode_response(18, 4, ask(active, WHICH_LEVELS))[1].supported_features
        others = [feature for feature in supported if feature not in (METADATA, KRAFT)]
        raises = [Change(METADATA, level) for level in range(LOWEST_LEVEL + 1, supported[METADATA].max + 1)]
        raises += [Change(name, level) for name in others for level in range(1, supported[name].max + 1)]
        if world.release >= RAISABLE_KRAFT:
            raises.append(Change(KRAFT, 1))
        start = len(list(written_in(active)))
        raised = {change: change_level(active, world, change, UPGRADE) for change in raises}
        lowered = {Change(name, 0): change_level(active, world, Change(name, 0), UNSAFE) for name in others}
        assert raised | lowered == {change: EXPECTED.get(change, ()) for change in raised | lowered}
        assert len(list(written_in(active))) == start + sum(map(len, raised.values()))  # no record came later


def change_level(active: Node, world: World, change: Change, kind: int) -> tuple[Written, ...]:
    """Change the level, and wait until it holds. Returns the records that were written meanwhile, in order."""
    before = len(list(written_in(active)))
    finalize(active, world, change.feature, change.level, kind)
    return tuple(written_in(active))[before:]


def written_in(active: Node) -> Iterator[Written]:
    """All records of the metadata log but levels and registrations."""
    for segment in sorted(active.metadata_dir.glob("*.log")):
        for batch in walk(segment.read_bytes()):
            if not isinstance(batch, Batch):
                continue
            for record in batch.records():
                if batch.is_control:
                    assert record.key is not None
                    yield Written(f"control {int.from_bytes(record.key[2:4])}")
                    continue
                decoded = decode(record.value)
                assert isinstance(decoded, Decoded)
                kind = NAMES[decoded.type.key]
                if kind not in OF_NODES and kind != FEATURE_LEVEL:
                    yield Written(kind, _config(decoded) if kind == "CONFIG_RECORD" else "")


def _config(record: Decoded) -> str:
    data = record.data
    return f"{data['resourceType']} {data['resourceName']!r} {data['name']}={data['value']}"


def test_kafkas_own_tool_makes_a_static_quorum_dynamic_and_lowers_min_insync_replicas(tmp_path: Path) -> None:
    """README and the comparison describe this effect of `kafka-features.sh upgrade --release-version` (KAFKA-21426)."""
    cluster = Cluster(tmp_path / "kafka", NEWEST, controllers=1, brokers=1, release_version=FORMATTED)
    cluster.nodes[1].extra[MIN_ISR] = "2"  # the controller's file has no value
    with cluster:
        hold_topic(cluster, "orders", {0: [1]})
        wait_until("the voter tells what it supports", partial(may_raise_kraft, cluster.nodes[3001]))
        assert (cluster.features()[KRAFT][2], min_isr_of_orders(cluster)) == ("0", "2")
        cluster.tool(TOOL, "--bootstrap-server", cluster.bootstrap_servers, "upgrade", "--release-version", BUNDLE)
        assert (cluster.features()[KRAFT][2], min_isr_of_orders(cluster)) == ("1", "1")


def min_isr_of_orders(cluster: Cluster) -> str:
    resource = ConfigResource(ConfigResourceType.TOPIC, "orders", {MIN_ISR: None})
    with admin(cluster) as client:
        return str(client.describe_configs([resource], config_filter="all")["topic"]["orders"][MIN_ISR]["value"])


def test_a_plan_of_levels_that_lower_min_insync_replicas_is_blocked_until_its_value_is_kept(tmp_path: Path) -> None:
    """The plan is blocked with the command that keeps the value; after it, the value stays."""
    cluster = Cluster(tmp_path / "kafka", NEWEST, controllers=1, brokers=1, release_version=FORMATTED)
    cluster.nodes[1].extra[MIN_ISR] = "2"
    with cluster:
        hold_topic(cluster, "orders", {0: [1]})
        document = tmp_path / "orders.yaml"
        document.write_text(
            "apiVersion: kafkafeatures.dev/v1alpha1\nkind: KafkaFeatures\nmetadata: {name: orders}\nspec:\n"
            f"  cluster: {{bootstrapServers: '{cluster.bootstrap_servers}', "
            f"bootstrapControllers: '{cluster.bootstrap_controllers}'}}\n  features: {{releaseVersion: '{BUNDLE}'}}\n"
        )
        refused = run("apply", "-f", str(document), "--yes")
        assert refused.returncode == 4
        message = " ".join(refused.stderr.split())
        assert f"{MIN_ISR}=2" in message
        assert min_isr_of_orders(cluster) == "2"
        set_config(cluster.nodes[1].port, BROKER, "", MIN_ISR, "2")  # as the remedy says
        plan = run("apply", "-f", str(document), "--dry-run")
        hash_ = re.search(r"sha256:[0-9a-f]+", plan.stdout + plan.stderr)
        approve = ["--approve", hash_[0]] if hash_ else []
        done = run("apply", "-f", str(document), "--yes", *approve)
        assert done.returncode == 0, done.stderr
        assert (cluster.features()[ELR][2], cluster.features()[KRAFT][2], min_isr_of_orders(cluster)) == ("1", "0", "2")
