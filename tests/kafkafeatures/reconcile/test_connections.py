"""The connections that the operator opens for a document: to a ZooKeeper ensemble only with a migration, with its own
Secrets.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.zookeeper.ensemble import Digest, Ensemble
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.reconcile.rig import Kafka, Rig
from tests.kafkasim.clusters import plan
from tests.simulated.orders import KEY, Orders

CERTIFICATES = Certificates()
CONNECT = "zk-1:2181,zk-2:2181/kafka"
SERVERS = (Address("zk-1", 2181), Address("zk-2", 2181))
MIGRATION = {"desired": "DualWrite"}
LABELS = {"kafkafeatures.dev/credentials": "true"}


def orders(*, migration: dict[str, Any] | None = None, **zookeeper: Any) -> Orders:
    api = Orders()
    cluster = {"bootstrapServers": "kafka:9092", "zookeeper": {"connect": CONNECT, **zookeeper}}
    api.edit(cluster=cluster, **({} if migration is None else {"migration": migration}))
    return api


def login(api: Orders, password: str = "its-secret", *, labels: dict[str, str] | None = None) -> None:
    data = {"username": "kafka", "password": password}
    api.server.put(
        KEY.namespace, "secrets", "zookeeper", labels=LABELS if labels is None else labels,
        data={name: b64encode(text.encode()).decode() for name, text in data.items()},
    )  # fmt: skip


DIGEST = {"digestSecretRef": {"name": "zookeeper"}}


@pytest.mark.parametrize("migration", [None, {"desired": "None"}], ids=["no spec.migration", "desired None"])
async def test_no_connection_to_an_ensemble_is_opened_without_a_migration(
    migration: dict[str, Any] | None,
) -> None:
    rig = Rig(orders(migration=migration, **DIGEST))
    await rig.work()
    assert len(rig.opened) == 1
    assert (rig.ensembles, rig.zookeeper.reads) == ([], 0)


async def test_a_connection_to_an_ensemble_has_tls_a_digest_and_the_permitted_addresses() -> None:
    api = orders(migration=MIGRATION, tls={"caConfigMapRef": {"name": "ca"}}, **DIGEST)
    api.server.put(KEY.namespace, "configmaps", "ca", data={"ca.crt": CERTIFICATES.ca})
    login(api)
    rig = Rig(api)
    await rig.work()
    tls, digest = Tls(ca=CERTIFICATES.ca), Digest("kafka", "its-secret")
    assert rig.ensembles == [Ensemble(SERVERS, "/kafka", tls, digest, rig.policy)]
    assert rig.zookeeper.reads


async def test_the_connection_to_an_ensemble_is_kept_until_its_secret_or_the_migration_changes() -> None:
    api = orders(migration=MIGRATION, **DIGEST)
    rig = Rig(api)
    login(api, "first")
    for password in ("first", "second"):
        login(api, password)
        await rig.work()
        await rig.work()
    assert [ensemble.digest and ensemble.digest.password for ensemble in rig.ensembles] == ["first", "second"]
    api.edit(migration={"desired": "None"})
    reads = rig.zookeeper.reads
    await rig.work()
    assert len(rig.ensembles) == 2
    assert rig.zookeeper.reads == reads


@pytest.mark.parametrize("labels", [None, {}], ids=["no Secret", "Secret without the label"])
async def test_a_digest_is_not_taken_from_a_secret_that_is_absent_or_has_no_label(
    labels: dict[str, str] | None,
) -> None:
    api = orders(migration=MIGRATION, **DIGEST)
    if labels is not None:
        login(api, labels=labels)
    rig = Rig(api)
    await rig.work()
    assert rig.ensembles == []
    assert api.condition("Reachable")["reason"] == "CredentialsInvalid"
    message = api.condition("Ready")["message"]
    assert "Secret zookeeper does not exist, or does not have the label" in message
    assert "its-secret" not in message


async def test_certificates_of_an_ensemble_that_cannot_be_used_are_named_with_their_field() -> None:
    api = orders(migration=MIGRATION, tls={"caConfigMapRef": {"name": "ca"}})
    api.server.put(KEY.namespace, "configmaps", "ca", data={"ca.crt": "no certificate"})
    await Rig(api).work()
    assert "spec.cluster.zookeeper.tls: " in api.condition("Ready")["message"]


AT_REST = 21
# zk_migration_state 3: POST_MIGRATION.
FINALIZED = replace(plan(dict.fromkeys((1, 2, 3), "3.9"), dict.fromkeys((3001, 3002), "3.9")), zk_migration_state=3)


@pytest.mark.parametrize(
    ("migration", "looks"), [(None, 1), ({"desired": "Finalized"}, 3)], ids=["no migration", "migration"]
)
async def test_a_resource_with_a_migration_is_read_fully_each_time(
    migration: dict[str, Any] | None, looks: int
) -> None:
    """The metadata log has not changed (`same`), which is not enough: it does not show changes in ZooKeeper."""
    api = orders(migration=migration)
    api.edit(features={"levels": [{"name": "metadata.version", "level": AT_REST}]})
    rig = Rig(api, Kafka({"metadata.version": AT_REST}, FINALIZED))
    rig.kafka.same = True
    for _ in range(3):
        await rig.work()
    assert api.condition("Ready")["reason"] == "InSync"
    assert rig.kafka.looks == looks
