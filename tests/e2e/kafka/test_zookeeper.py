"""Readings of a real ZooKeeper: during a real migration to KRaft, with TLS and a digest, and while servers fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.positions import FLAG
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.zookeeper.ensemble import Digest, Ensemble, parse_connect
from kafkafeatures.zookeeper.reader import read_zookeeper
from tests.e2e.kafka.cli import run
from tests.e2e.rig.certificates import Certificates
from tests.e2e.rig.migration import Migration
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper

CONTROLLER = {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}
FILLED = {
    "/kafka/cluster/id": {"version": "1", "id": "4L6g3nShT-eMCtK--X86sw"},
    "/kafka/controller": CONTROLLER,
    "/kafka/controller_epoch": 7,
}


def ensemble_of(connect: str, **settings: Any) -> Ensemble:
    return Ensemble(*parse_connect(connect + "/kafka", "test"), **{"timeout": 5.0, **settings})


async def read(ensemble: Ensemble) -> ZooKeeperReading | Failure:
    return await read_zookeeper(ensemble, lambda: datetime.now(UTC))


async def controller_in(ensemble: Ensemble) -> object:
    reading = await read(ensemble)
    assert isinstance(reading, ZooKeeperReading), reading
    return reading.controller


@contextmanager
def filled(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    """Write the znodes of a cluster into an ensemble. Yields a client that can write more."""
    client = KazooClient(zookeeper.connect)
    client.start()
    try:
        for path, content in FILLED.items():
            client.create(path, json.dumps(content).encode(), makepath=True)
        yield client
    finally:
        client.stop()
        client.close()


# --- a real broker ---


def phase(cluster: Migration, *where: str) -> dict[str, Any]:
    """What `describe` reads from ZooKeeper. The phase is None while a node that was just started does not answer."""
    done = run("describe", "--zookeeper", cluster.ensemble, *where, "-o", "json")
    if done.returncode == 5:
        return {"phase": None}
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    of_zookeeper: dict[str, Any] = document["zooKeeper"]
    return of_zookeeper


def settings_document(cluster: Migration, to: str, *where: str) -> dict[str, Any]:
    """The document of `migration settings`, with its exit code as `code`."""
    done = run("migration", "settings", "--zookeeper", cluster.ensemble, *where, "--to", to, "-o", "json")
    assert done.stdout, done.stderr
    return {"code": done.returncode, **json.loads(done.stdout)}


def lines(document: dict[str, Any], role: str) -> set[str]:
    return {line for one in document["lines"] if one["role"] == role for line in one["add"]}


def differing(document: dict[str, Any]) -> dict[tuple[str, int], set[str]]:
    return {(node["role"], node["id"]): {each["name"] for each in node["differences"]} for node in document["nodes"]}


def test_each_phase_of_a_real_migration_is_recognized(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path) as zookeeper, Migration(tmp_path, zookeeper) as cluster:
        brokers = ("--bootstrap-server", cluster.bootstrap_servers)
        both = (*brokers, "--bootstrap-controller", cluster.bootstrap_controllers)
        found: dict[str, Any] = {}

        def reached(name: str, where: tuple[str, ...]) -> Callable[[], bool]:
            def is_reached() -> bool:
                found.update(phase(cluster, *where))
                return bool(found["phase"] == name)

            return is_reached

        cluster.run("broker", cluster.plain)
        wait_until("a broker is elected", reached("ZooKeeper", both), step=0.5)
        assert (found["controller"]["id"], found["controller"]["kraft"], found["migration"]) == (1, False, None)
        assert [one["id"] for one in found["brokers"]] == [1]

        assert phase(cluster, *brokers)["phase"] is None  # controllers may run, but none was read
        needs = settings_document(cluster, "DualWrite", *brokers)
        assert (needs["position"], needs["next"], needs["code"]) == ("ZooKeeper", "PreMigration", 5)
        assert [one["what"] for one in needs["notRead"]] == ["controllers"]
        assert differing(needs) == {("Broker", 1): set()}
        assert {"process.roles=controller", f"{FLAG}=true"} <= lines(needs, "Controller")

        cluster.format_controller(found["clusterId"])
        cluster.run("controller", cluster.migrating_controller)
        wait_until("the quorum waits for brokers", reached("PreMigration", both), step=0.5)
        assert (found["migration"] or {"offset": -1})["offset"] == -1  # the controller is about to create it

        needs = settings_document(cluster, "DualWrite", *both)
        assert (needs["position"], needs["next"], needs["code"]) == ("PreMigration", "Copied", 4)
        assert differing(needs) == {
            ("Controller", 3001): set(),
            ("Broker", 1): {FLAG, "controller.quorum.voters", "controller.listener.names"},
        }

        cluster.run("broker", cluster.flagged)
        wait_until("ZooKeeper is copied", reached("Copied", both), step=0.5)
        assert (found["controller"]["id"], found["controller"]["kraft"]) == (3001, True)
        assert found["migration"]["offset"] > 0

        needs = settings_document(cluster, "DualWrite", *both)
        assert (needs["position"], needs["next"], needs["code"]) == ("Copied", "DualWrite", 4)
        assert differing(needs) == {
            ("Controller", 3001): set(),
            ("Broker", 1): {FLAG, "process.roles", "zookeeper.connect", "inter.broker.protocol.version"},
        }  # broker.id counts as node.id

        cluster.run("broker", cluster.kraft)
        wait_until("the broker is in KRaft mode", reached("DualWrite", both), step=0.5)
        assert found["brokers"] == []

        needs = settings_document(cluster, "Finalized", *both)
        assert (needs["position"], needs["next"], needs["code"]) == ("DualWrite", "Finalized", 4)
        assert differing(needs) == {("Controller", 3001): {FLAG, "zookeeper.connect"}, ("Broker", 1): set()}
        back = settings_document(cluster, "RolledBack", *both)
        assert {FLAG, "zookeeper.connect", "process.roles"} <= differing(back)["Broker", 1]

        cluster.run("controller", cluster.controller)
        wait_until("the migration is finalized", reached("Finalized", both), step=0.5)

        output = run("describe", "--zookeeper", cluster.ensemble, *both).stdout.splitlines()
        assert "Phase        Finalized" in output
        assert settings_document(cluster, "Finalized", *both)["code"] == 0
        refused = run("migration", "settings", "--zookeeper", cluster.ensemble, *both, "--to", "RolledBack")
        assert refused.returncode == 4
        assert "cannot be rolled back" in refused.stderr


# --- the ensemble ---


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("secured"), certificates=certificates) as zookeeper:
        with filled(zookeeper) as client:
            client.create("/kafka/migration", b"{}", acl=[make_digest_acl("kafka", "its-secret", all=True)])
        yield zookeeper


async def test_zookeeper_is_read_over_tls_with_a_client_certificate(
    secured: ZooKeeper, certificates: Certificates
) -> None:
    certificate, key = certificates.client("alice")
    tls = Tls(ca=certificates.ca, certificate=certificate, key=key)
    found = await controller_in(ensemble_of(secured.secure_connect, tls=tls))
    assert isinstance(found, ControllerClaim)
    assert found.node_id == 1


async def test_a_server_certificate_of_another_ca_or_for_another_host_is_rejected(
    secured: ZooKeeper, certificates: Certificates
) -> None:
    certificate, key = certificates.client("alice")
    tls = Tls(ca=certificates.other_ca, certificate=certificate, key=key)
    ensemble = ensemble_of(secured.secure_connect, tls=tls, timeout=2.0)
    by_number = replace(
        ensemble_of(secured.secure_connect.replace("localhost", "127.0.0.2"), timeout=2.0),
        tls=replace(tls, ca=certificates.ca),
    )
    for untrusted in (ensemble, by_number):
        found = await read(untrusted)
        assert isinstance(found, Failure)
        assert found.kind in (FailureKind.TLS, FailureKind.UNREACHABLE)
        assert key not in str(found)


async def test_a_znode_that_a_digest_may_not_read_is_named_by_its_path_and_all_other_znodes_are_read(
    secured: ZooKeeper,
) -> None:
    found = await read(ensemble_of(secured.connect))
    assert isinstance(found, ZooKeeperReading)
    assert isinstance(found.migration, Failure)
    assert (found.migration.kind, found.migration.location) == (FailureKind.AUTHORIZATION, "znode /migration")
    assert isinstance(found.controller, ControllerClaim)
    known = await read(ensemble_of(secured.connect, digest=Digest("kafka", "its-secret")))
    assert isinstance(known, ZooKeeperReading)
    assert isinstance(known.migration, Failure)
    assert known.migration.kind is FailureKind.REJECTED  # it was read, and {} has no progress of a migration
    assert "its-secret" not in str(known)


def test_the_command_line_reads_tls_and_a_digest_from_properties(
    secured: ZooKeeper, certificates: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "alice.pem").write_text("".join(certificates.client("alice")))
    (tmp_path / "ca.pem").write_text(certificates.ca)
    path = tmp_path / "zookeeper.properties"
    user = "zookeeper.digest.username=kafka\nzookeeper.digest.password=its-secret\n"
    path.write_text(
        f"zookeeper.ssl.client.enable=true\nzookeeper.ssl.keystore.location={tmp_path}/alice.pem\n"
        f"zookeeper.ssl.truststore.location={tmp_path}/ca.pem\n{user}"
    )
    done = run(
        "describe", "--zookeeper", f"{secured.secure_connect}/kafka", "--zookeeper-config", str(path), "-o", "json"
    )
    document = json.loads(done.stdout)
    assert document["controller"]["id"] == 1
    (unread,) = document["notRead"]
    assert "cannot be read" in unread["why"]  # {} is not valid; without the digest it would not be authorized
    assert "its-secret" not in done.stdout + done.stderr


def test_a_path_without_a_cluster_is_reported_with_exit_code_5(secured: ZooKeeper) -> None:
    done = run("describe", "--zookeeper", f"{secured.connect}/elsewhere")
    assert done.returncode == 5
    assert "no Kafka cluster is kept below this path" in done.stderr
    assert done.stdout == ""


async def test_another_server_answers_when_the_leader_is_killed_and_a_lost_majority_is_reported(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path, servers=3) as zookeeper:
        with filled(zookeeper):
            ensemble = ensemble_of(zookeeper.connect)
        assert isinstance(await controller_in(ensemble), ControllerClaim)
        next(server for server in zookeeper.servers if server.leads).kill()
        wait_until("another server leads", lambda: any(server.leads for server in zookeeper.servers))
        assert isinstance(await controller_in(ensemble), ControllerClaim)
        next(server for server in zookeeper.servers if server.leads).kill()
        found = await read(replace(ensemble, timeout=3.0))
        assert isinstance(found, Failure)
        assert found.kind in (FailureKind.TIMED_OUT, FailureKind.UNREACHABLE)
        assert found.remedy
