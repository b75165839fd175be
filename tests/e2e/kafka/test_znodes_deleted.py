"""The transaction of a rollback on a real ZooKeeper: it is applied as a whole or not at all, and at most once.

No broker or controller runs. A client writes what Kafka 3.9 writes when one of them is elected.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import make_acl, make_digest_acl

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import Result, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.settling import ON_ITS_WAY, ObservationPair, OpenOutcome
from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.delete_znodes import (
    BAD_VERSION,
    NO_AUTH,
    NO_NODE,
    DeleteZnodes,
    DeletionInFlight,
)
from kafkafeatures.core.migration.release import release, withdraw
from kafkafeatures.environment import SYSTEM
from kafkafeatures.zookeeper.client import ZooKeeper as Port
from kafkafeatures.zookeeper.ensemble import Digest, Ensemble, parse_connect
from tests.e2e.kafka.relay import Relay
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper
from tests.kafkafeatures.worlds import observation

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
AT = Stamp("2026-01-02T03:04:05Z")
CHROOTS = count(1)


def sent_at_once() -> None:
    """Allow the transaction to be sent."""


def quorum(controller: int, epoch: int) -> bytes:
    document = {"version": 2, "brokerid": controller, "timestamp": "1", "kraftControllerEpoch": epoch}
    return json.dumps(document).encode()


@dataclass
class Znodes:
    """A cluster below a chroot of its own, which its quorum has claimed. `client`: it has all rights."""

    client: KazooClient
    chroot: str
    connect: str

    def ensemble(self, **settings: Any) -> Ensemble:
        return Ensemble(*parse_connect(self.connect + self.chroot, "test"), **{"timeout": 5.0, **settings})

    @property
    def port(self) -> Port:
        return Port(self.ensemble(), SYSTEM)

    def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        self.client.create(self.chroot + path, data, ephemeral=ephemeral, makepath=True)

    def claim(self, data: bytes, *, ephemeral: bool = False) -> None:
        """What Kafka does in one transaction when a broker or a KRaft controller becomes controller."""
        epoch, stat = self.client.get(f"{self.chroot}/controller_epoch")
        multi = self.client.transaction()
        multi.set_data(f"{self.chroot}/controller_epoch", str(int(epoch) + 1).encode(), stat.version)
        if self.client.exists(f"{self.chroot}/controller"):
            multi.delete(f"{self.chroot}/controller")
        multi.create(f"{self.chroot}/controller", data, ephemeral=ephemeral)
        assert not [one for one in multi.commit() if isinstance(one, Exception)]

    def elect(self) -> None:
        """A broker in ZooKeeper mode becomes controller."""
        self.claim(quorum(1, -1), ephemeral=True)

    def text(self, path: str) -> str | None:
        try:
            data: bytes = self.client.get(self.chroot + path)[0]
        except NoNodeError:
            return None
        return data.decode()

    def state(self) -> tuple[str | None, ...]:
        """The epoch, the id in `/controller`, and "there" if `/migration` exists. At first: 5, 3003, there."""
        claim = self.text("/controller")
        id_ = str(json.loads(claim)["brokerid"]) if claim is not None else None
        return self.text("/controller_epoch"), id_, "there" if self.text("/migration") is not None else None


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="module")
def client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    writer = KazooClient(zookeeper.connect)
    writer.start()
    yield writer
    writer.stop()
    writer.close()


@pytest.fixture
def cluster(zookeeper: ZooKeeper, client: KazooClient) -> Znodes:
    return new_cluster(zookeeper, client)


def new_cluster(zookeeper: ZooKeeper, client: KazooClient) -> Znodes:
    cluster = Znodes(client, f"/cluster-{next(CHROOTS)}", zookeeper.connect)
    cluster.create("/cluster/id", json.dumps({"version": "1", "id": CLUSTER_ID}).encode())
    cluster.create("/controller_epoch", b"4")
    cluster.claim(quorum(3003, 3))
    progress = {
        "version": 0, "kraft_metadata_offset": 409, "kraft_controller_id": 3003, "kraft_metadata_epoch": 3,
        "kraft_controller_epoch": 3,
    }  # fmt: skip
    cluster.create("/migration", json.dumps(progress).encode())
    return cluster


async def read(port: Port) -> ZooKeeperReading:
    found = await port.read()
    assert isinstance(found, ZooKeeperReading), found
    return found


async def released(port: Port, partition_epoch: int = 3) -> DeleteZnodes:
    found = release(await read(port), partition_epoch=partition_epoch)
    assert isinstance(found, DeleteZnodes), found
    return found


async def send(port: Port, step: DeleteZnodes) -> Outcome:
    async with port.prepared(step) as transaction:
        assert not isinstance(transaction, NotSent), transaction
        return await transaction.send(sent_at_once)


async def settled(port: Port, step: DeleteZnodes, age: timedelta = timedelta(0)) -> Result | OpenOutcome:
    before, after = [observed(await read(port)) for _ in range(2)]
    in_flight = DeletionInFlight(step, AT, Via.ZOOKEEPER)
    return in_flight.settle(ObservationPair(before, after, AT, lambda _: age, lambda _: age))


def observed(reading: ZooKeeperReading) -> Observation:
    return replace(observation(), zookeeper=Known(reading, SourceKind.ZOOKEEPER, reading.ensemble, reading.at))


# --- all or nothing ---


async def test_the_claim_of_a_quorum_and_its_progress_are_deleted_in_one_transaction(cluster: Znodes) -> None:
    step = await released(cluster.port)
    assert await send(cluster.port, step) == Applied()
    assert cluster.state() == ("5", None, None)
    cluster.elect()
    assert cluster.state() == ("6", "1", None)
    assert await settled(cluster.port, step) is Result.APPLIED


async def test_the_controller_epoch_is_raised_in_the_transaction_that_deletes_the_claim(cluster: Znodes) -> None:
    step = await released(cluster.port, partition_epoch=11)
    assert step.raise_to == 12
    assert await send(cluster.port, step) == Applied()
    assert cluster.state() == ("12", None, None)
    assert await settled(cluster.port, step) is Result.APPLIED
    cluster.elect()
    assert cluster.state() == ("13", "1", None)
    assert await settled(cluster.port, step) is Result.APPLIED


@pytest.mark.parametrize("partition_epoch", [3, 11], ids=["checked", "raised"])
async def test_a_repeated_transaction_is_rejected_as_a_whole_before_and_after_a_broker_is_elected(
    cluster: Znodes, partition_epoch: int
) -> None:
    step = await released(cluster.port, partition_epoch)
    assert await send(cluster.port, step) == Applied()
    gone = cluster.state()
    repeated = await send(cluster.port, step)
    assert isinstance(repeated, Rejected)
    assert repeated.code in (NO_NODE, BAD_VERSION)
    assert cluster.state() == gone
    cluster.elect()
    elected = cluster.state()
    repeated = await send(cluster.port, step)
    assert isinstance(repeated, Rejected)
    assert (repeated.code, repeated.message) == (BAD_VERSION, "znode /controller_epoch: it was written meanwhile")
    assert cluster.state() == elected  # its /controller has version 0, as the deleted one had
    assert await settled(cluster.port, step) is Result.APPLIED


async def test_a_newer_claim_of_the_quorum_stays_and_the_step_is_settled_as_not_applied(cluster: Znodes) -> None:
    step = await released(cluster.port)
    cluster.claim(quorum(3001, 4))
    found = await send(cluster.port, step)
    assert isinstance(found, Rejected)
    assert found.code == BAD_VERSION
    assert cluster.state() == ("6", "3001", "there")
    assert await settled(cluster.port, step) is Result.NOT_APPLIED


async def test_the_claim_and_progress_stay_where_progress_was_written_meanwhile(cluster: Znodes) -> None:
    step = await released(cluster.port)
    cluster.client.set(f"{cluster.chroot}/migration", (cluster.text("/migration") or "").encode())
    found = await send(cluster.port, step)
    assert isinstance(found, Rejected)
    assert found.message == "znode /migration: it was written meanwhile"
    assert cluster.state() == ("5", "3003", "there")


async def test_no_znode_is_deleted_in_the_ensemble_of_another_cluster(cluster: Znodes) -> None:
    """Neither if `/cluster/id` changes while the session is open, nor in the next session."""
    step, before = await released(cluster.port), cluster.state()
    async with cluster.port.prepared(step) as transaction:
        assert not isinstance(transaction, NotSent)
        cluster.client.set(f"{cluster.chroot}/cluster/id", json.dumps({"version": "1", "id": "another"}).encode())
        found = await transaction.send(sent_at_once)
    assert found == Rejected(BAD_VERSION, "znode /cluster/id: it was written meanwhile")
    async with cluster.port.prepared(step) as transaction:
        assert isinstance(transaction, NotSent)
        text = f"it is the ensemble of cluster another, but the nodes belong to cluster {CLUSTER_ID}"
        assert text in transaction.reason
    assert cluster.state() == before


async def test_progress_is_deleted_alone_while_a_broker_is_controller(cluster: Znodes) -> None:
    cluster.elect()
    found = withdraw(await read(cluster.port))
    assert isinstance(found, DeleteZnodes)
    before = cluster.client.get(f"{cluster.chroot}/controller_epoch")
    assert await send(cluster.port, found) == Applied()
    assert cluster.state() == ("6", "1", None)
    assert cluster.client.get(f"{cluster.chroot}/controller_epoch") == before  # a write would depose the controller
    assert await settled(cluster.port, found) is Result.APPLIED


async def test_a_claim_that_precedes_the_deletion_of_progress_keeps_its_progress(cluster: Znodes) -> None:
    cluster.elect()
    found = withdraw(await read(cluster.port))
    assert isinstance(found, DeleteZnodes)
    cluster.claim(quorum(3003, 5))
    outcome = await send(cluster.port, found)
    assert isinstance(outcome, Rejected)
    assert cluster.state() == ("7", "3003", "there")
    assert await settled(cluster.port, found) is Result.NOT_APPLIED


async def test_an_unexpected_child_of_a_znode_is_named_and_the_transaction_is_rejected(
    cluster: Znodes,
) -> None:
    cluster.create("/migration/below", b"")
    found = await send(cluster.port, await released(cluster.port))
    assert isinstance(found, Rejected)
    assert found.message == "znode /migration: there are znodes below it, which Kafka never creates"
    assert cluster.state() == ("5", "3003", "there")


# --- at most once, or not at all ---


async def test_a_transaction_that_is_withheld_at_the_last_moment_is_not_sent(cluster: Znodes) -> None:
    step = await released(cluster.port)
    async with cluster.port.prepared(step) as transaction:
        assert not isinstance(transaction, NotSent)
        assert await transaction.send(lambda: "this process is shutting down") == NotSent(
            "this process is shutting down"
        )
    assert cluster.state() == ("5", "3003", "there")
    assert await settled(cluster.port, step) != Result.APPLIED


async def test_a_lost_request_is_open_until_no_server_may_apply_it(cluster: Znodes, zookeeper: ZooKeeper) -> None:
    async with Relay(zookeeper.servers[0].port) as relay:
        step = await released(cluster.port)
        found = await send(replace(cluster, connect=relay.connect).port, step)
        assert isinstance(found, OutcomeUnknown)
        assert "ConnectionLoss" in found.reason
        result = await settled(cluster.port, step)
        assert isinstance(result, OpenOutcome)
        assert "may still carry it out" in result.reason
        assert await settled(cluster.port, step, ON_ITS_WAY) is Result.NOT_APPLIED
        assert cluster.state() == ("5", "3003", "there")


async def test_a_transaction_with_a_lost_answer_is_settled_by_the_znodes(cluster: Znodes, zookeeper: ZooKeeper) -> None:
    async with Relay(zookeeper.servers[0].port) as relay:
        step = await released(cluster.port, partition_epoch=11)
        assert isinstance(await send(replace(cluster, connect=relay.connect).port, step), OutcomeUnknown)
        assert isinstance(await settled(cluster.port, step), OpenOutcome)
        await relay.pass_on()
        await until(lambda: cluster.state() == ("12", None, None))
    assert await settled(cluster.port, step) is Result.APPLIED


async def test_a_transaction_after_another_claim_is_rejected_as_a_whole(cluster: Znodes, zookeeper: ZooKeeper) -> None:
    """A broker is elected before the transaction arrives, and the session of the transaction is still open."""
    async with Relay(zookeeper.servers[0].port) as relay:
        step = await released(cluster.port)
        assert isinstance(await send(replace(cluster, connect=relay.connect).port, step), OutcomeUnknown)
        cluster.client.delete(f"{cluster.chroot}/controller")
        cluster.elect()
        assert await settled(cluster.port, step) is Result.NOT_APPLIED
        before, answered = cluster.state(), relay.answered
        await relay.pass_on()
        await until(lambda: relay.answered > answered)
        assert cluster.state() == before == ("6", "1", "there")


async def until(holds: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, "ZooKeeper has applied it", holds)


@pytest.mark.parametrize(("dies", "becomes"), [("before", None), ("after", Result.APPLIED)])
async def test_the_intent_of_a_process_killed_around_the_first_byte_is_settled_by_the_znodes(
    cluster: Znodes, dies: str, becomes: Result | None
) -> None:
    step = await released(cluster.port)
    sent = DeletionInFlight(step, AT, Via.ZOOKEEPER).to_intent().as_json()
    command = [sys.executable, str(KILLED), cluster.connect + cluster.chroot, json.dumps(sent), dies]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    if becomes is None:
        assert isinstance(await settled(cluster.port, step), OpenOutcome)
        assert await settled(cluster.port, step, ON_ITS_WAY) is Result.NOT_APPLIED
    else:
        await until(lambda: cluster.state() == ("5", None, None))
        assert await settled(cluster.port, step) is becomes


KILLED = Path(__file__).with_name("deletion_killed.py")


# --- rights ---


ALL = make_digest_acl("operator", "its-secret", all=True)
READER = make_digest_acl("reader", "its-secret", read=True)


@pytest.mark.parametrize(
    ("path", "partition_epoch", "says"),
    [
        ("", 3, "znode /controller: not authorized; grant DELETE on {chroot} to the user of the digest"),
        ("/controller_epoch", 11, "znode /controller_epoch: not authorized; grant WRITE on /controller_epoch to"),
    ],
)
async def test_a_missing_right_is_named_with_its_znode_and_no_znode_is_deleted(
    cluster: Znodes, path: str, partition_epoch: int, says: str
) -> None:
    step = await released(cluster.port, partition_epoch)
    of_cluster = make_acl("ip", "127.0.0.1", read=True)
    cluster.client.set_acls(cluster.chroot + path, [ALL, READER, of_cluster])
    for digest in (None, Digest("reader", "its-secret")):
        found = await send(Port(cluster.ensemble(digest=digest), SYSTEM), step)
        assert isinstance(found, Rejected)
        assert found.code == NO_AUTH
        assert says.format(chroot=cluster.chroot) in found.message
        assert "its-secret" not in found.message
        assert cluster.state() == ("5", "3003", "there")
    user = Port(cluster.ensemble(digest=Digest("operator", "its-secret")), SYSTEM)
    assert await send(user, step) == Applied()


# --- last, because it freezes the server of all tests ---


async def test_no_transaction_is_sent_while_no_server_answers(cluster: Znodes, zookeeper: ZooKeeper) -> None:
    port, step = Port(cluster.ensemble(timeout=1.0), SYSTEM), await released(cluster.port)
    (server,) = zookeeper.servers
    server.freeze()
    try:
        async with port.prepared(step) as transaction:
            assert isinstance(transaction, NotSent)
            assert cluster.connect in transaction.reason
    finally:
        server.thaw()
    wait_until("the server answers again", lambda: server.asked("srvr"))
    assert cluster.state() == ("5", "3003", "there")
