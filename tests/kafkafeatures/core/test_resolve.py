"""A document resolved to a desired state: workloads, rollouts, soaks, migrations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.document import InvalidDocument, UnknownRelease, read_document
from kafkafeatures.api.spec import Availability, Desired
from kafkafeatures.core.engine.desired_state import DesiredState, MaxParallel, Migration, Rollout
from kafkafeatures.core.resolve import wanted_of
from kafkafeatures.core.roll.drivers import MANUAL, NOBODY, PODS, STATEFUL_SET


def wanted(**spec: Any) -> DesiredState:
    body = {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "KafkaFeatures",
        "metadata": {"name": "orders"},
        "spec": {"cluster": {"bootstrapServers": "a:1"}, **spec},
    }
    return wanted_of(read_document(body))


IN_ZOOKEEPER = {"bootstrapServers": "a:1", "zookeeper": {"connect": "zk:2181/kafka"}}
SETS = {"brokers": ["orders-a", "orders-b"], "controllers": ["orders-c"]}


def test_by_default_no_node_is_restarted_and_nothing_soaks() -> None:
    desired = wanted()
    assert desired.finalize_after == timedelta(0)
    assert desired.rollout == Rollout()
    assert wanted(workload={}).rollout.driver == NOBODY.name


def test_the_stateful_set_driver_is_read_with_its_stateful_sets_and_container() -> None:
    rollout = wanted(workload={"driver": "StatefulSet", "statefulSet": {**SETS, "container": "broker"}}).rollout
    assert (rollout.driver, rollout.brokers, rollout.controllers, rollout.container) == (
        STATEFUL_SET.name,
        ("orders-a", "orders-b"),
        ("orders-c",),
        "broker",
    )


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (
            {"driver": "Crane"},
            "driver: invalid value 'Crane'; expected 'None', 'Manual', 'StatefulSet', 'Strimzi' or 'Pods'",
        ),
        ({"driver": "Strimzi"}, "driver Strimzi needs cluster.strimzi"),
        ({"driver": "StatefulSet"}, "spec.workload: driver StatefulSet needs workload.statefulSet"),
        ({"driver": "Pods"}, "spec.workload: driver Pods needs workload.pods"),
        ({"pods": {"selector": "app=kafka"}}, "spec.workload: pods needs a driver; set workload.driver to Pods"),
        ({"driver": "", "pods": {"selector": "app=kafka"}}, "spec.workload: pods needs a driver"),
    ],
    ids=["unknown driver", "no Kafka", "no StatefulSets", "no selector", "no driver", "an empty driver"],
)
def test_an_unknown_driver_and_a_driver_without_its_stateful_sets_are_refused(
    workload: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidDocument, match=words):
        wanted(workload=workload)


FOLLOWED = {"driver": "Pods", "pods": {"selector": "app=kafka", "container": "broker"}}


def test_the_driver_pods_is_read_with_its_selector_and_container_and_without_stateful_sets() -> None:
    rollout = wanted(workload={**FOLLOWED, "statefulSet": SETS}).rollout
    assert (rollout.driver, rollout.selector, rollout.annotation) == (PODS.name, "app=kafka", "")
    assert (rollout.container, rollout.brokers) == ("broker", ())
    assert wanted(workload={**FOLLOWED, "driver": "Manual"}).rollout.selector == ""


@pytest.mark.parametrize(
    "more",
    [{"migration": {"desired": "PreMigration"}}, {"interBrokerProtocolVersion": "3.9"}],
    ids=lambda one: next(iter(one)),
)
def test_a_migration_and_another_protocol_version_which_need_restarts_are_refused_with_the_driver_pods(
    more: dict[str, Any],
) -> None:
    with pytest.raises(InvalidDocument, match="driver Pods excludes migration and interBrokerProtocolVersion, which"):
        wanted(cluster=IN_ZOOKEEPER, workload=FOLLOWED, **more)


def test_the_stateful_sets_of_a_document_are_ignored_with_another_driver() -> None:
    rollout = wanted(workload={"driver": "Manual", "statefulSet": SETS}).rollout
    assert (rollout.driver, rollout.brokers, rollout.controllers) == (MANUAL.name, (), ())


def test_a_stateful_set_of_combined_nodes_is_read_once_also_where_it_is_listed_as_both() -> None:
    sets = {"brokers": ["orders"], "controllers": ["orders", "orders-c"]}
    rollout = wanted(workload={"driver": "StatefulSet", "statefulSet": sets}).rollout
    assert (rollout.brokers, rollout.controllers) == (("orders",), ("orders-c",))


def test_the_bounds_of_a_rollout_become_numbers_and_durations() -> None:
    rollout = wanted(
        rollout={"maxParallel": "10%", "availability": "RespectMinISR", "stableFor": "2m", "nodeTimeout": "1h"}
    ).rollout
    assert rollout.max_parallel == MaxParallel(10, percent=True)
    assert rollout.availability is Availability.RESPECT_MIN_ISR
    assert (rollout.stable_for, rollout.node_timeout) == (timedelta(minutes=2), timedelta(hours=1))
    assert wanted(rollout={"maxParallel": 3}).rollout.max_parallel == MaxParallel(3)


def test_finalize_after_is_read_as_a_duration() -> None:
    assert wanted(features={"finalizeAfter": "36h"}).finalize_after == timedelta(hours=36)


@pytest.mark.parametrize("desired", Desired)
def test_a_document_asks_for_a_migration_only_if_desired_names_a_phase(desired: Desired) -> None:
    migration = wanted(cluster=IN_ZOOKEEPER, migration={"desired": desired.value}).migration
    by_default = timedelta(hours=24)  # holdDualWriteFor
    assert migration == (None if desired is Desired.NONE else Migration(desired, by_default))
    assert wanted(cluster=IN_ZOOKEEPER).migration is None


def test_hold_dual_write_for_is_read_as_a_duration() -> None:
    migration = wanted(cluster=IN_ZOOKEEPER, migration={"desired": "Finalized", "holdDualWriteFor": "90m"}).migration
    assert migration == Migration(Desired.FINALIZED, timedelta(minutes=90))


@pytest.mark.parametrize(
    "workload", [{"driver": "Manual"}, {"driver": "StatefulSet", "statefulSet": SETS}], ids=["Manual", "StatefulSet"]
)
def test_a_migration_accepts_every_driver_that_restarts_nodes(workload: dict[str, Any]) -> None:
    desired = wanted(cluster=IN_ZOOKEEPER, migration={"desired": "DualWrite"}, workload=workload)
    assert desired.migration is not None
    assert desired.rollout.driver == workload["driver"]


@pytest.mark.parametrize("version", ["4.0", "3.9-IV7", "9.9", "0.10"])
def test_an_inter_broker_protocol_version_that_kafka_never_had_is_refused(version: str) -> None:
    with pytest.raises(UnknownRelease, match=r"spec\.interBrokerProtocolVersion: unknown"):
        wanted(interBrokerProtocolVersion=version, cluster=IN_ZOOKEEPER)


def test_an_inter_broker_protocol_version_is_kept_as_it_was_written() -> None:
    desired = wanted(interBrokerProtocolVersion="3.9", cluster=IN_ZOOKEEPER)
    assert (desired.ibp, desired.rests_on_zookeeper) == ("3.9", True)


@pytest.mark.parametrize(("name", "kafka"), [("7.9", "3.9"), ("7.4", "3.4"), ("8.0", "4.0"), ("8.3", "4.3")])
def test_a_release_of_confluent_platform_is_refused_with_the_kafka_release_that_it_contains(
    name: str, kafka: str
) -> None:
    with pytest.raises(UnknownRelease, match=f"Confluent Platform {name} is Kafka {kafka}: use '{kafka}'"):
        wanted(features={"releaseVersion": name})


@pytest.mark.parametrize("name", ["6.2", "9.9"])
def test_a_release_of_no_known_platform_is_refused_without_a_suggested_release(name: str) -> None:
    with pytest.raises(UnknownRelease, match="name levels instead"):
        wanted(features={"releaseVersion": name})


STRIMZI = {"strimzi": {"name": "my-cluster"}}


def test_remedies_for_a_cluster_that_strimzi_manages_find_it_by_the_document() -> None:
    assert wanted(cluster=STRIMZI).cluster_flags == "-f FILE"


def test_the_release_of_a_cluster_that_strimzi_manages_leaves_out_the_metadata_version() -> None:
    of_strimzi, of_others = (
        wanted(features={"releaseVersion": "4.3"}, **spec).bundle for spec in ({"cluster": STRIMZI}, {})
    )
    assert of_others == {**of_strimzi, "metadata.version": 30}
    assert of_strimzi.keys() >= {"group.version", "transaction.version", "share.version"}


@pytest.mark.parametrize(
    ("name", "words"), [("metadata.version", "managed by Strimzi"), ("kraft.version", "stay at 0")]
)
def test_a_level_that_strimzi_manages_is_refused(name: str, words: str) -> None:
    levels = {"levels": [{"name": name, "level": 1}]}
    with pytest.raises(InvalidDocument, match=words):
        wanted(cluster=STRIMZI, features=levels, consents=["dynamic-quorum"])
    assert wanted(features=levels, consents=["dynamic-quorum"]).levels == {name: 1}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"migration": {"desired": "PreMigration"}}, "cluster.strimzi excludes migration"),
        ({"interBrokerProtocolVersion": "3.9"}, "cluster.strimzi excludes interBrokerProtocolVersion"),
        ({"workload": {"driver": "StatefulSet", "statefulSet": SETS}}, "cluster.strimzi excludes workload.statefulSet"),
    ],
    ids=["a migration", "an inter.broker.protocol.version", "StatefulSets"],
)
def test_fields_that_strimzi_does_not_support_are_refused_for_its_clusters(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDocument, match=words):
        wanted(cluster=STRIMZI, **more)


@pytest.mark.parametrize(
    "more",
    [{"bootstrapServers": "a:1"}, {"zookeeper": {"connect": "zk:2181"}}, {"tls": {}}, {"controllerListener": {}}],
    ids=lambda more: next(iter(more)),
)
def test_a_cluster_that_strimzi_manages_has_no_address_or_security_of_its_own(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidDocument, match="strimzi excludes bootstrapServers"):
        wanted(cluster={**STRIMZI, **more})
