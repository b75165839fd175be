"""Damaged znodes, and an ensemble that fails during a reading, on a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import MigrationZnode, ZooKeeperReading
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from kafkafeatures.zookeeper.reader import read_zookeeper
from kafkafeatures.zookeeper.session import Session
from tests.e2e.kafka.cli import run
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper

CONTROLLER = {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}
FILLED = {
    "/cluster/id": {"version": "1", "id": "4L6g3nShT-eMCtK--X86sw"},
    "/controller": CONTROLLER,
    "/controller_epoch": 7,
}
PROGRESS = {
    "version": 0, "kraft_metadata_offset": 5, "kraft_controller_id": 3001, "kraft_controller_epoch": 1,
    "kraft_metadata_epoch": 1,
}  # fmt: skip
SECRET = "hidden-9f3c"
LARGEST = 1024 * 1024 - 1024
"""The most bytes of a znode, so that a request with its path and header is still accepted by ZooKeeper."""
DAMAGED = {
    "no UTF-8": b'{"password": "' + SECRET.encode() + b'\xff"}',
    "deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a key twice": b'{"brokerid": 1, "brokerid": 2, "id": "a", "id": "b", "partitions": [], "partitions": []}',
    "beyond 64 bits": b'{"brokerid": 9223372036854775808, "id": "", "partitions": {}, "kraft_metadata_offset": 1}',
    "1 MiB of nothing": b"x" * LARGEST,
    "1 MiB in one string": b'{"brokerid": "' + SECRET.encode() + b"x" * (LARGEST - 100) + b'"}',
}
JSON_PATHS = ("/cluster/id", "/controller", "/migration", "/feature", "/brokers/ids/1", "/admin/reassign_partitions")


def ensemble_of(zookeeper: ZooKeeper, timeout: float = 10.0) -> Ensemble:
    return Ensemble(*parse_connect(f"{zookeeper.connect}/kafka", "test"), timeout=timeout)


async def read(ensemble: Ensemble) -> ZooKeeperReading | Failure:
    return await read_zookeeper(ensemble, lambda: datetime.now(UTC))


async def is_read(ensemble: Ensemble) -> bool:
    found = await read(ensemble)
    return isinstance(found, ZooKeeperReading) and isinstance(found.controller, ControllerClaim)


@contextmanager
def writing(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.connect)
    client.start()
    client.ensure_path("/kafka")
    client.chroot = "/kafka"
    try:
        yield client
    finally:
        client.stop()
        client.close()


def fill(client: KazooClient) -> None:
    for path, content in FILLED.items():
        put(client, path, json.dumps(content).encode())


def put(client: KazooClient, path: str, data: bytes) -> None:
    client.ensure_path(path)
    client.set(path, data)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("damaged")) as running:
        yield running


@pytest.fixture
def client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    """A client that writes to an intact cluster. All znodes that a test adds are deleted after it."""
    with writing(zookeeper) as writer:
        fill(writer)
        yield writer
        for path in ("/migration", "/feature", "/brokers", "/admin"):
            if writer.exists(path):
                writer.delete(path, recursive=True)


@pytest.mark.parametrize("name", DAMAGED)
async def test_a_damaged_znode_is_named_by_its_path_and_intact_znodes_are_read(
    zookeeper: ZooKeeper, client: KazooClient, name: str
) -> None:
    for path in JSON_PATHS:
        put(client, path, DAMAGED[name])
    found = await read(ensemble_of(zookeeper))
    assert isinstance(found, ZooKeeperReading)
    assert {one.location for one in found.failures} == {f"znode {path}" for path in JSON_PATHS}
    assert all(one.kind is FailureKind.REJECTED for one in found.failures)
    assert found.controller_epoch is not None
    messages = "\n".join(map(str, found.failures))
    assert len(messages) < 400 * len(JSON_PATHS)
    assert SECRET not in messages


def test_the_command_line_names_each_damaged_znode_in_readable_lines(zookeeper: ZooKeeper, client: KazooClient) -> None:
    for path, name in zip(JSON_PATHS, DAMAGED, strict=True):
        put(client, path, DAMAGED[name])
    for flags in (("-o", "json"), ()):
        done = run("describe", "--zookeeper", f"{zookeeper.connect}/kafka", *flags)
        text = done.stdout + done.stderr
        assert all(f"znode {path}" in " ".join(text.split()) for path in JSON_PATHS), text[:2000]
        assert "Traceback" not in text
        assert SECRET not in text
        assert len(text) < 8000  # a damaged znode may have a mebibyte


async def test_a_valid_znode_of_one_mebibyte_is_read_and_not_printed(zookeeper: ZooKeeper, client: KazooClient) -> None:
    padded = json.dumps({**PROGRESS, "padding": "x" * (LARGEST - 300)}).encode()
    put(client, "/migration", padded)
    found = await read(ensemble_of(zookeeper))
    assert isinstance(found, ZooKeeperReading)
    assert isinstance(found.migration, MigrationZnode)
    assert found.migration.offset == 5
    done = run("describe", "--zookeeper", f"{zookeeper.connect}/kafka")
    text = done.stdout + done.stderr
    assert "written back up to offset 5" in text
    assert "xxxx" not in text


async def test_an_expired_session_is_a_failure_that_names_the_path_and_the_next_reading_has_a_new_session(
    zookeeper: ZooKeeper, client: KazooClient
) -> None:
    ensemble = ensemble_of(zookeeper, timeout=5.0)
    async with Session(ensemble) as session:
        assert not isinstance(await session.get("/controller"), Failure)
        rival = KazooClient(f"{zookeeper.connect}/kafka", client_id=session._client.client_id)
        rival.start()  # it takes over the session, and ends it when it stops
        rival.stop()
        rival.close()
        found = await session.get("/controller")
    assert isinstance(found, Failure)
    assert found.kind in (FailureKind.DISCONNECTED, FailureKind.TIMED_OUT)
    assert found.location == "znode /controller"
    assert await is_read(ensemble)


async def test_an_ensemble_that_hangs_during_a_reading_is_a_failure_and_is_read_after_its_return(
    zookeeper: ZooKeeper, client: KazooClient
) -> None:
    (server,) = zookeeper.servers
    ensemble = ensemble_of(zookeeper, timeout=1.0)
    async with Session(ensemble) as session:
        server.freeze()
        try:
            wait_until("the server no longer answers", lambda: not server.asked("srvr"))
            found = await session.get("/controller")
            whole = await read(ensemble)
        finally:
            server.thaw()
    assert isinstance(found, Failure)
    assert (found.kind, found.location) == (FailureKind.TIMED_OUT, "znode /controller")
    assert "majority" in found.remedy
    assert isinstance(whole, Failure)
    assert whole.kind is FailureKind.TIMED_OUT
    assert whole.location == f"ZooKeeper {ensemble}"
    assert await is_read(replace(ensemble, timeout=10.0))


async def test_an_ensemble_that_was_unreachable_is_read_after_its_return(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path) as running:
        with writing(running) as client:
            fill(client)
        (server,) = running.servers
        ensemble = ensemble_of(running, timeout=1.0)
        assert await is_read(replace(ensemble, timeout=10.0))
        server.kill()
        found = await read(ensemble)
        assert isinstance(found, Failure)
        assert found.kind is FailureKind.UNREACHABLE
        assert found.location == f"ZooKeeper {ensemble}"
        assert found.remedy == "check host, port and that ZooKeeper runs"
        server.start()
        assert await is_read(replace(ensemble, timeout=10.0))
