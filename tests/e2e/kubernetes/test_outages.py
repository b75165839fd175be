"""The operator killed, and the API server and Kafka away: the same end, nothing done twice, nobody restarts it."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.e2e.kafka.wire import feature_records, meddle
from tests.e2e.kubernetes.resources import ROOT, Resources
from tests.e2e.rig.cluster import Cluster, wait_until
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.releases import NEWEST

SOAK = bool(os.environ.get("SOAK"))
INSTANTS = 60 if SOAK else 20
TWO_MINUTES, A_WHILE = 120.0, 20.0
"""Seconds. Each is longer than any request may take."""

LEVELS = {"share.version": 1, "streams.version": 1, "eligible.leader.replicas.version": 1}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("kafka"), NEWEST, release_version="4.2", controllers=1, brokers=1) as running:
        yield running


@pytest.fixture
def resources(operator: Operator, kafka: Cluster) -> Iterator[Resources]:
    for feature in LEVELS:
        meddle(kafka, feature, 0)
    yield Resources(operator.plane, kafka)
    operator.plane.kubectl("delete", "kff", "--all", "-A", "--timeout=30s")


def test_killed_at_random_instants_of_an_upgrade_nothing_is_done_twice(
    resources: Resources, operator: Operator, kafka: Cluster
) -> None:
    chance = random.Random(7)
    for number in range(INSTANTS):
        name, before = f"killed-{number}", feature_records(kafka)
        resources.apply(name, LEVELS)
        assert operator.process is not None
        try:
            operator.process.wait(chance.uniform(0.0, 0.6))
        except subprocess.TimeoutExpired:
            operator.kill()
        operator.start(wait=False)
        resources.wait(name, "Ready")
        assert feature_records(kafka) == before + len(LEVELS), name
        assert "intent" not in resources.status(name)
        resources.delete(name)
        for feature in LEVELS:
            meddle(kafka, feature, 0)


def test_deleted_at_any_moment_it_is_gone_at_once_and_whoever_comes_next_goes_on(
    resources: Resources, operator: Operator, kafka: Cluster
) -> None:
    chance = random.Random(3)
    for number in range(INSTANTS // 2):
        name, before = f"deleted-{number}", feature_records(kafka)
        resources.apply(name, LEVELS)
        away(chance.uniform(0.0, 0.3))
        resources.plane.kubectl("delete", "kff", name, "-n", resources.namespace, "--timeout=2s")
        wait_until("forgotten", lambda name=name: operator.metric("kafkafeatures_condition", name=name) == 0)
        assert feature_records(kafka) <= before + len(LEVELS)
        resources.apply(f"next-{number}", LEVELS)
        resources.wait(f"next-{number}", "Ready")
        assert feature_records(kafka) == before + len(LEVELS)
        resources.delete(f"next-{number}")
        for feature in LEVELS:
            meddle(kafka, feature, 0)


def away(seconds: float) -> None:
    """A while in which nobody waits for anything else."""
    try:
        subprocess.run(["tail", "-f", "/dev/null"], timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return


@pytest.mark.parametrize("who", ["the API server", "Kafka", "both"])
def test_what_is_away_for_long_comes_back_to_the_same_keys(
    resources: Resources, operator: Operator, kafka: Cluster, who: str
) -> None:
    resources.apply("known", {"share.version": 1})
    resources.wait("known", "Ready")
    process = operator.process
    if who != "Kafka":
        operator.plane.api_server.kill()
    if who != "the API server":
        for node in kafka.nodes.values():
            node.kill()
    away(TWO_MINUTES if SOAK or who == "both" else A_WHILE)
    assert operator.asked("/healthz")[0] == 200
    if who != "the API server":
        for node in kafka.nodes.values():
            node.start(wait=False)
        kafka.wait_ready()
    if who != "Kafka":
        operator.plane.api_server.start()
    meddle(kafka, "share.version", 0)
    resources.until("known", "Ready", "Drifted", seconds=90)
    resources.apply("known", {"streams.version": 1})
    resources.wait("known", "Ready", seconds=90)
    resources.apply("new", {}, mode="Observe")
    resources.wait("new", "Ready")
    assert operator.process is process


def test_kafka_that_is_away_is_said_and_the_facts_of_before_stay(resources: Resources, kafka: Cluster) -> None:
    resources.apply("facts", {"share.version": 1})
    resources.wait("facts", "Ready")
    for node in kafka.nodes.values():
        node.kill()
    resources.until("facts", "Reachable", "BootstrapUnreachable")
    assert resources.condition("facts", "Ready")["status"] == "Unknown"
    assert resources.status("facts")["progress"] == "1/1 levels"
    for node in kafka.nodes.values():
        node.start(wait=False)
    kafka.wait_ready()
    resources.wait("facts", "Ready", seconds=90)


def test_one_refused_status_write_ends_nothing(resources: Resources, operator: Operator) -> None:
    """With Kopf's own status writes, one 422 ended a daemon for good while the process looked alive."""
    plane = operator.plane
    resources.apply("refused", {"share.version": 1})
    resources.wait("refused", "Ready")
    crd = yaml.safe_load((ROOT / "crds" / "kafkafeatures.yaml").read_text())
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    status["properties"]["progress"] = {"type": "string", "maxLength": 1}
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(crd))
    mark = plane.audit.mark()
    wait_until("the schema is in force", lambda: "maxLength" in str(plane.get("crd", crd["metadata"]["name"])))
    resources.apply("refused", {"share.version": 1, "streams.version": 1})
    plane.audit.wait_for(lambda rows: rows, mark, subresource="status", code=422)
    plane.kubectl("apply", "-f", str(ROOT / "crds" / "kafkafeatures.yaml"))
    resources.wait("refused", "Ready", seconds=90)
    assert operator.asked("/healthz")[0] == 200
