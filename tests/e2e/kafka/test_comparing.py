"""Rounds of a comparison, and the reading of many znodes: a real ZooKeeper, with what a metadata log would say."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult
from kazoo.security import make_digest_acl

from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.migration.copied.entries import Kind
from kafkafeatures.core.migration.copied.survey import Survey, Surveyor
from kafkafeatures.core.migration.equality import Differs, Equal, Equality
from kafkafeatures.environment import Environment
from kafkafeatures.zookeeper.compare import CAUGHT_UP_WITHIN, compare
from kafkafeatures.zookeeper.copied import dry_run, read_copied
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from kafkafeatures.zookeeper.pipeline import MOST_BYTES, MOST_OUTSTANDING
from kafkafeatures.zookeeper.session import Session
from kraftlog import Image, Replay, Section
from kraftlog.records import frame
from kraftlog.schema import table
from tests.e2e.rig.zookeeper import ZooKeeper
from tests.kraftlog.build import log, no_op
from tests.kraftlog.partitions import partition, topic
from tests.kraftlog.test_configs import config

T = TypeVar("T")

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
ID = "AAAAAAAAAAAAAAAAAAAAAQ"
STATE = {"version": 1, "controller_epoch": 3, "leader": 1, "leader_epoch": 0, "isr": [1]}
RETENTION = "/config/topics/t"
MIGRATING, FINALIZED = 1, 3


def retention(value: str) -> dict[str, Any]:
    return {"version": 1, "config": {"retention.ms": value}}


FILLED: dict[str, Any] = {
    "/cluster/id": {"version": "1", "id": CLUSTER},
    "/migration": {
        "version": 0, "kraft_metadata_offset": 4, "kraft_controller_id": 3001, "kraft_metadata_epoch": 1,
        "kraft_controller_epoch": 1,
    },
    "/brokers/topics/t": {"version": 3, "topic_id": ID, "partitions": {"0": [1]}},
    "/brokers/topics/t/partitions/0/state": STATE,
    RETENTION: retention("5"),
}  # fmt: skip


class Kept:
    """Znodes below a chroot of its own. `write`: what a controller would write, and the offset up to which."""

    def __init__(self, client: KazooClient, chroot: str, connect: str) -> None:
        self._client, self._chroot = client, chroot
        self.ensemble = Ensemble(*parse_connect(connect + chroot, "test"), timeout=5.0)

    def write(self, path: str, content: object, **options: Any) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        if self._client.exists(self._chroot + path):
            self._client.set(self._chroot + path, data)
        else:
            self._client.create(self._chroot + path, data, makepath=True, **options)

    def written_up_to(self, offset: int) -> None:
        self.write("/migration", {**FILLED["/migration"], "kraft_metadata_offset": offset})


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("comparing")) as zookeeper:
        yield zookeeper


@pytest.fixture
def kept(zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> Iterator[Kept]:
    client = KazooClient(zookeeper.connect)
    client.start()
    try:
        kept = Kept(client, f"/{request.node.name.replace('[', '-').replace(']', '')}", zookeeper.connect)
        for path, content in FILLED.items():
            kept.write(path, content)
        yield kept
    finally:
        client.stop()
        client.close()


def image(value: str = "5", *, more: int = 0, state: int = MIGRATING) -> Image:
    """Five records, and so many more in which nothing changes."""
    replay = Replay(sections=Section)
    values = [
        frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": state}), topic(1, "t"), partition(1, 0, 1),
        config(2, "t", "retention.ms", value), no_op(), *[no_op()] * more,
    ]  # fmt: skip
    replay.append(log(values), below=1 << 40)
    return replay.image()


class Scripted:
    """A metadata log that says one thing after the other, and then the last."""

    def __init__(self, *images: Image | Failure) -> None:
        self._images = list(images)

    async def image(self) -> Image | Failure:
        return self._images.pop(0) if len(self._images) > 1 else self._images[0]

    def without_secrets(self, found: T) -> T:
        return found


async def compared(
    kept: Kept, *images: Image | Failure, waiting: Callable[[], None] = lambda: None, cluster: str = CLUSTER
) -> tuple[Equality, float]:
    """What came of it, and how many seconds were waited. `waiting`: done in each pause."""
    passed = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal passed
        passed += seconds
        waiting()

    def asleep(seconds: float) -> Awaitable[None]:
        return sleep(seconds)

    environment = Environment(monotonic=lambda: passed, sleep=asleep)
    return await compare(kept.ensemble, Scripted(*images), cluster, environment), passed


async def test_metadata_that_is_equal_at_first_is_compared_in_one_round(kept: Kept) -> None:
    assert await compared(kept, image()) == (Equal(5), 0.0)


async def test_a_difference_is_reported_only_after_zookeeper_reached_the_offset_of_the_log(kept: Kept) -> None:
    def written() -> None:
        kept.write(RETENTION, retention("6"))
        kept.written_up_to(9)

    found, waited = await compared(kept, image("6"), image("6", more=5), waiting=written)
    assert found == Equal(5)
    assert 0 < waited < CAUGHT_UP_WITHIN


async def test_a_difference_that_remains_is_named_after_three_rounds(kept: Kept) -> None:
    asked = [image("6"), *(image("6", more=more) for more in (1, 2, 3))]
    found, _ = await compared(kept, *asked, waiting=lambda: kept.written_up_to(1000))
    assert isinstance(found, Differs)
    assert (found.offset, [str(one) for one in found.differences]) == (
        7,
        ["topic config t retention.ms: 5 in ZooKeeper, 6 in the metadata log"],
    )


async def test_the_comparison_is_unknown_where_zookeeper_does_not_reach_the_offset_of_the_log(kept: Kept) -> None:
    found, waited = await compared(kept, image("6"), image("6", more=5))
    assert isinstance(found, Unknown)
    assert (found.failure.kind, found.failure.location) == (FailureKind.STALE, "znode /migration")
    assert "up to offset 4 of the metadata log" in found.failure.message
    assert "had 9" in found.failure.message
    assert waited >= CAUGHT_UP_WITHIN


async def test_the_comparison_is_unknown_where_the_log_changes_a_znode_in_each_round(kept: Kept) -> None:
    kept.written_up_to(1000)
    found, _ = await compared(kept, *(image(str(number), more=number) for number in range(6, 10)))
    assert isinstance(found, Unknown)
    assert found.failure.message == f"1 znode changed while compared, in 3 rounds: {RETENTION}"


@pytest.mark.parametrize(
    ("state", "why"), [(FINALIZED, "no longer written to"), (2, "nothing was copied"), (0, "nothing")]
)
async def test_the_comparison_is_unknown_before_and_after_a_migration(kept: Kept, state: int, why: str) -> None:
    found, _ = await compared(kept, image(state=state))
    assert isinstance(found, Unknown)
    assert why in found.failure.message


async def test_the_comparison_is_unknown_without_the_log_and_with_the_ensemble_of_another_cluster(kept: Kept) -> None:
    failure = Failure(FailureKind.NO_LEADER, "metadata log", "no leader")
    assert (await compared(kept, failure))[0] == Unknown(failure)
    found, _ = await compared(kept, image(), cluster="another")
    assert isinstance(found, Unknown)
    assert found.failure.kind is FailureKind.WRONG_CLUSTER
    kept.write("/cluster/id", b"{")
    found, _ = await compared(kept, image())
    assert isinstance(found, Unknown)
    assert found.failure.location == "znode /cluster/id"


async def test_the_comparison_is_unknown_and_names_a_znode_that_may_not_be_read(kept: Kept) -> None:
    acl = [make_digest_acl("kafka", "its-secret", all=True)]
    kept.write("/config/users", b"")
    kept.write("/config/users/alice", {"version": 1, "config": {}}, acl=acl)
    found, _ = await compared(kept, image())
    assert isinstance(found, Unknown)
    assert (found.failure.kind, found.failure.location) == (FailureKind.AUTHORIZATION, "znode /config/users/alice")


async def test_a_dry_run_names_each_znode_that_the_copy_would_fail_at_or_lose(kept: Kept) -> None:
    wrong = {
        "/brokers/topics/old": {"version": 2, "partitions": {"0": [1]}},
        "/brokers/topics/t": {"version": 3, "topic_id": ID, "partitions": {"0": [1], "1": [7]}},
        "/brokers/topics/gone": b"{",
        "/admin/delete_topics/gone": b"",
        "/config/users/bob": {"version": 1, "config": {"producer_byte_rate": "fast"}},
        "/config/users/bob/clients/c": {"version": 1, "config": {"producer_byte_rate": "faster"}},
        "/config/brokers/one": {"version": 1, "config": {}},
        "/kafka-acl/Topic/t": b"{",
        "/kafka-acl/Other/t": b"",
        "/config/topics/large": b"{" + b" " * 950_000,
    }  # fmt: skip
    for path, content in wrong.items():
        kept.write(path, content)
    found = await dry_run(kept.ensemble)
    assert isinstance(found, Survey)
    assert [one.path for one in found.findings] == [
        "/brokers/topics/old", "/brokers/topics/t/partitions/1/state", "/config/brokers/one", "/config/topics/large",
        "/config/topics/large", "/config/users/bob", "/config/users/bob/clients/c", "/kafka-acl/Other",
        "/kafka-acl/Topic/t",
    ]  # fmt: skip
    assert found.assigned == {1: "t-0", 7: "t-1"}


class Counting(Session):
    """Counts how many reads are outstanding."""

    outstanding = most = total = 0

    def request_znode(self, path: str) -> IAsyncResult:
        asked = super().request_znode(path)
        self.outstanding, self.total = self.outstanding + 1, self.total + 1
        self.most = max(self.most, self.outstanding)
        asked.rawlink(self._done)
        return asked

    def _done(self, _: object) -> None:
        self.outstanding -= 1


async def test_many_znodes_are_read_with_a_bounded_number_of_outstanding_requests(kept: Kept) -> None:
    partitions = {str(number): [1] for number in range(1500)}
    kept.write("/brokers/topics/wide", {"version": 3, "topic_id": ID[:-1] + "g", "partitions": partitions})
    surveyor = Surveyor()
    async with Counting(kept.ensemble) as session:
        assert await read_copied(session, surveyor) is None
    assert MOST_OUTSTANDING // 2 < session.most <= MOST_OUTSTANDING
    assert session.total >= len(partitions)
    assert surveyor.survey.counts[Kind.PARTITION] == 1 + len(partitions)


async def test_few_large_znodes_are_outstanding_at_once(kept: Kept) -> None:
    size = 700_000
    for number in range(80):
        kept.write(f"/config/topics/large-{number}", {"version": 1, "config": {"a": "x" * size}})
    surveyor = Surveyor()
    async with Counting(kept.ensemble) as session:
        assert await read_copied(session, surveyor) is None
    assert session.most * size < 2 * MOST_BYTES
    assert surveyor.survey.counts[Kind.TOPIC_CONFIG] == 81


async def test_an_ensemble_that_is_killed_while_it_is_read_is_a_failure(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path) as zookeeper:
        ensemble = Ensemble(*parse_connect(zookeeper.connect, "test"), timeout=1.0)
        async with Session(ensemble) as session:
            zookeeper.stop()
            found = await read_copied(session, Surveyor())
    assert isinstance(found, Failure)
    assert found.kind in (FailureKind.TIMED_OUT, FailureKind.UNREACHABLE, FailureKind.DISCONNECTED)
