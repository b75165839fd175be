"""The rights of a user of a real ZooKeeper on Kafka's znodes: granted, missing or unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.zookeeper.ensemble import Digest
from kafkafeatures.zookeeper.rights import znode_rights
from tests.e2e.kafka.test_znodes_deleted import ALL, READER, Znodes, new_cluster
from tests.e2e.rig.zookeeper import ZooKeeper


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ZooKeeper, KazooClient]]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        client = KazooClient(server.connect)
        client.start()
        yield server, client
        client.stop()
        client.close()


@pytest.fixture
def cluster(ensemble: tuple[ZooKeeper, KazooClient]) -> Znodes:
    return new_cluster(*ensemble)


def rights_of(cluster: Znodes, *words: str) -> dict[str, str]:
    """The state of each right."""
    digest = Digest(*words) if words else None
    rights = asyncio.run(znode_rights(cluster.ensemble(digest=digest), goes_back=True))
    assert not isinstance(rights, Failure)
    states = {True: "granted", False: "missing"}
    return {
        each.right: "unknown" if isinstance(each.is_granted, Failure) else states[each.is_granted] for each in rights
    }  # fmt: skip


def test_the_rights_that_a_rollback_needs_are_read_before_the_rollback(cluster: Znodes) -> None:
    assert rights_of(cluster) == {"READ": "granted", "WRITE": "granted", "DELETE": "granted"}
    for path in ("", "/controller_epoch"):
        cluster.client.set_acls(cluster.chroot + path, [ALL, READER])
    assert rights_of(cluster, "operator", "its-secret") == {"READ": "granted", "WRITE": "granted", "DELETE": "granted"}
    assert rights_of(cluster, "reader", "its-secret") == {"READ": "granted", "WRITE": "missing", "DELETE": "missing"}
    assert rights_of(cluster)["READ"] == "missing"  # /controller_epoch
    assert rights_of(cluster, "reader", "another") == rights_of(cluster)


def test_an_acl_entry_that_may_match_the_user_leaves_the_right_unknown(cluster: Znodes) -> None:
    cluster.client.set_acls(cluster.chroot, [ALL, make_acl("ip", "127.0.0.0/8", all=True)])
    assert rights_of(cluster)["DELETE"] == "unknown"
