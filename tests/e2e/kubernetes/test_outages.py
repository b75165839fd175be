"""The operator is killed, or the API server or Kafka is away: in the end the levels are the same, none is raised twice,
and nobody has to restart anything.
"""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.amounts import SOAK
from tests.e2e.kafka.wire import feature_records, meddle
from tests.e2e.kubernetes.resources import ROOT, Resources, away, delete_all, install
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

INSTANTS = 60 if SOAK else 4
"""Number of kills at random moments."""

LEVELS = {"share.version": 1, "streams.version": 1, "eligible.leader.replicas.version": 1}


def one_broker(folder: Path) -> Cluster:
    return Cluster(folder, NEWEST, release_version="4.2", controllers=1, brokers=1)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with one_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def resources(operator: Operator, kafka: Cluster) -> Iterator[Resources]:
    kafka.heal()  # also after a test that failed
    for feature in LEVELS:
        meddle(kafka, feature, 0)
    yield Resources(operator.plane, kafka)
    delete_all(operator.plane)


def test_an_operator_killed_at_random_instants_of_an_upgrade_raises_no_level_twice(
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
        assert "intents" not in resources.status(name)
        resources.delete(name)
        for feature in LEVELS:
            meddle(kafka, feature, 0)


def test_a_resource_deleted_at_random_instants_is_removed_at_once_and_a_new_one_is_reconciled(
    resources: Resources, operator: Operator, kafka: Cluster
) -> None:
    chance = random.Random(3)
    for number in range(INSTANTS // 2):
        name, before = f"deleted-{number}", feature_records(kafka)
        resources.apply(name, LEVELS)
        away(chance.uniform(0.0, 0.3))
        resources.plane.kubectl("delete", "kff", name, "-n", resources.namespace, "--timeout=10s")
        wait_until("forgotten", partial(forgotten, operator, name))
        assert feature_records(kafka) <= before + len(LEVELS)
        resources.apply(f"next-{number}", LEVELS)
        resources.wait(f"next-{number}", "Ready")
        assert feature_records(kafka) == before + len(LEVELS)
        resources.delete(f"next-{number}")
        for feature in LEVELS:
            meddle(kafka, feature, 0)


def forgotten(operator: Operator, name: str) -> bool:
    return operator.metric("kafkafeatures_condition", name=name) == 0


@dataclass(frozen=True)
class Site:
    """An operator with its API server and its Kafka. `without_api`, `without_kafka`: what an outage takes away."""

    operator: Operator
    kafka: Cluster
    without_api: bool
    without_kafka: bool

    @property
    def resources(self) -> Resources:
        return Resources(self.operator.plane, self.kafka)

    def break_down(self) -> None:
        if self.without_api:
            self.operator.plane.api_server.kill()
        if self.without_kafka:
            for node in self.kafka.nodes.values():
                node.kill()

    def repair(self) -> None:
        if self.without_kafka:
            for node in self.kafka.nodes.values():
                node.start(wait=False)
            self.kafka.wait_ready()
        if self.without_api:
            self.operator.plane.api_server.start()


@contextmanager
def another_site(folder: Path, *, without_api: bool, without_kafka: bool) -> Iterator[Site]:
    with ControlPlane(folder / "plane") as plane, one_broker(folder / "kafka") as kafka:
        install(plane)
        with Operator(plane, folder / "operator") as operator:
            yield Site(operator, kafka, without_api, without_kafka)


def test_every_resource_is_reconciled_again_after_an_outage_of_two_minutes(
    resources: Resources, operator: Operator, kafka: Cluster, tmp_path: Path
) -> None:
    """The API server is away, or Kafka, or both: at three sites, so that one wait of two minutes suffices.

    The operator stays healthy meanwhile, even with a resource that has as many silent addresses and as long a timeout
    as the schema allows.
    """
    with (
        socket.create_server(("", 0)) as nobody,  # accepts connections, and never answers
        another_site(tmp_path / "api", without_api=True, without_kafka=False) as no_api,
        another_site(tmp_path / "kafka", without_api=False, without_kafka=True) as no_kafka,
    ):
        sites = (Site(operator, kafka, without_api=True, without_kafka=True), no_api, no_kafka)
        for site in sites:
            site.resources.apply("known", {"share.version": 1})
            site.resources.wait("known", "Ready")
        addresses = ",".join(f"127.0.0.{n}:{nobody.getsockname()[1]}" for n in range(10, 130))[:2048].rpartition(",")[0]
        worst = {"bootstrapServers": addresses, "bootstrapControllers": addresses, "requestTimeout": "5m"}
        no_kafka.resources.apply("worst", {"share.version": 1}, cluster=worst)
        for site in sites:
            site.break_down()
        away(120.0)
        assert [site.operator.asked("/healthz")[0] for site in sites] == [200] * 3
        # Even of that resource a reconciliation was completed.
        assert no_kafka.resources.condition("worst", "Reachable")["reason"] == "BootstrapUnreachable"
        no_kafka.resources.delete("worst")
        for site in sites:
            site.repair()
            meddle(site.kafka, "share.version", 0)
        for site in sites:
            site.resources.until("known", "Ready", "Drifted")
            site.resources.apply("known", {"streams.version": 1})
            site.resources.wait("known", "Ready")
            site.resources.apply("new", {}, mode="Observe")
            site.resources.wait("new", "Ready")
            assert site.operator.alive


def test_the_status_keeps_its_facts_and_reports_kafka_as_unreachable_during_an_outage(
    resources: Resources, kafka: Cluster
) -> None:
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
    resources.wait("facts", "Ready")


def test_a_refused_status_write_does_not_end_the_reconciliation_of_the_resource(
    resources: Resources, operator: Operator
) -> None:
    """With Kopf's own status writes, one 422 ended a daemon permanently while the process looked alive."""
    plane = operator.plane
    resources.apply("refused", {"share.version": 1})
    resources.wait("refused", "Ready")
    crd = yaml.safe_load((ROOT / "crds" / "kafkafeatures.yaml").read_text())
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    status["properties"]["progress"] = {"type": "string", "maxLength": 1}
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(crd))
    try:
        mark = plane.audit.mark()
        wait_until("the schema is in force", lambda: "maxLength" in str(plane.get("crd", crd["metadata"]["name"])))
        resources.apply("refused", {"share.version": 1, "streams.version": 1})
        plane.audit.wait_for(lambda rows: rows, mark, subresource="status", code=422)
    finally:
        install(plane)
    resources.wait("refused", "Ready")
    assert operator.asked("/healthz")[0] == 200
