"""The comparison with a metadata log, and the reading of many znodes: ZooKeeper is real, the log is made here."""

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


class Znodes:
    """Znodes below a chroot of their own, which the test writes as a controller would."""

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
        """Write up to which offset of the metadata log the controller has written znodes."""
        self.write("/migration", {**FILLED["/migration"], "kraft_metadata_offset": offset})


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("comparing")) as zookeeper:
        yield zookeeper


@pytest.fixture
def znodes(zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> Iterator[Znodes]:
    client = KazooClient(zookeeper.connect)
    client.start()
    try:
        znodes = Znodes(client, f"/{request.node.name.replace('[', '-').replace(']', '')}", zookeeper.connect)
        for path, content in FILLED.items():
            znodes.write(path, content)
        yield znodes
    finally:
        client.stop()
        client.close()


def image(value: str = "5", *, more: int = 0, state: int = MIGRATING) -> Image:
    """The image after five records, and after `more` records that change nothing."""
    replay = Replay(sections=Section)
    values = [
        frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": state}), topic(1, "t"), partition(1, 0, 1),
        config(2, "t", "retention.ms", value), no_op(), *[no_op()] * more,
    ]  # fmt: skip
    replay.append(log(values), below=1 << 40)
    return replay.image()


class Scripted:
    """A metadata log that gives one image after the other, and then always the last one."""

    def __init__(self, *images: Image | Failure) -> None:
        self._images = list(images)

    async def image(self) -> Image | Failure:
        return self._images.pop(0) if len(self._images) > 1 else self._images[0]

    def without_secrets(self, result: T) -> T:
        return result


async def compared(
    znodes: Znodes, *images: Image | Failure, waiting: Callable[[], None] = lambda: None, cluster: str = CLUSTER
) -> tuple[Equality, float]:
    """The result of a comparison, and how many seconds it waited. `waiting`: called in each pause."""
    passed = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal passed
        passed += seconds
        waiting()

    def asleep(seconds: float) -> Awaitable[None]:
        return sleep(seconds)

    environment = Environment(monotonic=lambda: passed, sleep=asleep)
    return await compare(znodes.ensemble, Scripted(*images), cluster, environment), passed


async def test_metadata_that_is_equal_at_first_is_compared_in_one_round(znodes: Znodes) -> None:
    assert await compared(znodes, image()) == (Equal(5), 0.0)


async def test_a_difference_is_reported_only_after_zookeeper_reached_the_offset_of_the_log(znodes: Znodes) -> None:
    def written() -> None:
        znodes.write(RETENTION, retention("6"))
        znodes.written_up_to(9)

    result, waited = await compared(znodes, image("6"), image("6", more=5), waiting=written)
    assert result == Equal(5)
    assert 0 < waited < CAUGHT_UP_WITHIN


async def test_a_difference_that_remains_is_named_after_three_rounds(znodes: Znodes) -> None:
    images = [image("6"), *(image("6", more=more) for more in (1, 2, 3))]
    result, _ = await compared(znodes, *images, waiting=lambda: znodes.written_up_to(1000))
    assert isinstance(result, Differs)
    assert (result.offset, [str(one) for one in result.differences]) == (
        7,
        ["topic config t retention.ms: 5 in ZooKeeper, 6 in the metadata log"],
    )


async def test_the_comparison_is_unknown_where_zookeeper_does_not_reach_the_offset_of_the_log(znodes: Znodes) -> None:
    result, waited = await compared(znodes, image("6"), image("6", more=5))
    assert isinstance(result, Unknown)
    assert (result.failure.kind, result.failure.location) == (FailureKind.STALE, "znode /migration")
    assert "up to offset 4 of the metadata log" in result.failure.message
    assert "had 9" in result.failure.message
    assert waited >= CAUGHT_UP_WITHIN


async def test_the_comparison_is_unknown_where_the_log_changes_a_znode_in_each_round(znodes: Znodes) -> None:
    znodes.written_up_to(1000)
    result, _ = await compared(znodes, *(image(str(number), more=number) for number in range(6, 10)))
    assert isinstance(result, Unknown)
    assert result.failure.message == f"1 znode changed while compared, in 3 rounds: {RETENTION}"


@pytest.mark.parametrize(
    ("state", "why"), [(FINALIZED, "no longer written to"), (2, "nothing was copied"), (0, "nothing")]
)
async def test_the_comparison_is_unknown_before_and_after_a_migration(znodes: Znodes, state: int, why: str) -> None:
    result, _ = await compared(znodes, image(state=state))
    assert isinstance(result, Unknown)
    assert why in result.failure.message


async def test_the_comparison_is_unknown_without_the_log_and_with_the_ensemble_of_another_cluster(
    znodes: Znodes,
) -> None:
    failure = Failure(FailureKind.NO_LEADER, "metadata log", "no leader")
    assert (await compared(znodes, failure))[0] == Unknown(failure)
    result, _ = await compared(znodes, image(), cluster="another")
    assert isinstance(result, Unknown)
    assert result.failure.kind is FailureKind.WRONG_CLUSTER
    znodes.write("/cluster/id", b"{")
    result, _ = await compared(znodes, image())
    assert isinstance(result, Unknown)
    assert result.failure.location == "znode /cluster/id"


async def test_the_comparison_is_unknown_and_names_a_znode_that_may_not_be_read(znodes: Znodes) -> None:
    acl = [make_digest_acl("kafka", "its-secret", all=True)]
    znodes.write("/config/users", b"")
    znodes.write("/config/users/alice", {"version": 1, "config": {}}, acl=acl)
    result, _ = await compared(znodes, image())
    assert isinstance(result, Unknown)
    assert (result.failure.kind, result.failure.location) == (FailureKind.AUTHORIZATION, "znode /config/users/alice")


async def test_a_dry_run_names_each_znode_that_the_copy_would_fail_at_or_lose(znodes: Znodes) -> None:
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
        "/config/topics/large": b"{" + b" " * 950_000,  # no JSON, and too large: two findings
    }  # fmt: skip
    for path, content in wrong.items():
        znodes.write(path, content)
    result = await dry_run(znodes.ensemble)
    assert isinstance(result, Survey)
    assert [one.path for one in result.findings] == [
        "/brokers/topics/old", "/brokers/topics/t/partitions/1/state", "/config/brokers/one", "/config/topics/large",
        "/config/topics/large", "/config/users/bob", "/config/users/bob/clients/c", "/kafka-acl/Other",
        "/kafka-acl/Topic/t",
    ]  # fmt: skip
    assert result.assigned == {1: "t-0", 7: "t-1"}


class Counting(Session):
    """A session that counts how many reads are outstanding, at most and in total."""

    outstanding = most = total = 0

    def request_znode(self, path: str) -> IAsyncResult:
        result = super().request_znode(path)
        self.outstanding, self.total = self.outstanding + 1, self.total + 1
        self.most = max(self.most, self.outstanding)
        result.rawlink(self._done)
        return result

    def _done(self, _: object) -> None:
        self.outstanding -= 1


async def test_many_znodes_are_read_with_a_bounded_number_of_outstanding_requests(znodes: Znodes) -> None:
    partitions = {str(number): [1] for number in range(1500)}
    znodes.write("/brokers/topics/wide", {"version": 3, "topic_id": ID[:-1] + "g", "partitions": partitions})
    surveyor = Surveyor()
    async with Counting(znodes.ensemble) as session:
        assert await read_copied(session, surveyor) is None
    assert MOST_OUTSTANDING // 2 < session.most <= MOST_OUTSTANDING
    assert session.total >= len(partitions)
    assert surveyor.survey.counts[Kind.PARTITION] == 1 + len(partitions)


async def test_few_large_znodes_are_outstanding_at_once(znodes: Znodes) -> None:
    size = 700_000
    for number in range(80):
        znodes.write(f"/config/topics/large-{number}", {"version": 1, "config": {"a": "x" * size}})
    surveyor = Surveyor()
    async with Counting(znodes.ensemble) as session:
        assert await read_copied(session, surveyor) is None
    assert session.most * size < 2 * MOST_BYTES
    assert surveyor.survey.counts[Kind.TOPIC_CONFIG] == 81


async def test_an_ensemble_that_is_killed_while_it_is_read_is_a_failure(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path) as zookeeper:
        ensemble = Ensemble(*parse_connect(zookeeper.connect, "test"), timeout=1.0)
        async with Session(ensemble) as session:
            zookeeper.stop()
            result = await read_copied(session, Surveyor())
    assert isinstance(result, Failure)
    assert result.kind in (FailureKind.TIMED_OUT, FailureKind.UNREACHABLE, FailureKind.DISCONNECTED)
