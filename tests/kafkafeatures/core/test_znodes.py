"""The znodes `/controller`, `/migration`, `/brokers/ids` and `/feature` as Kafka 3.9 writes them, and with any other
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import FeatureZnodeStatus, Znode, parsed


def znode(data: object, *, ephemeral: bool = False, path: str = "/x") -> Znode:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return Znode(path, raw, version=3, czxid=34, is_ephemeral=ephemeral)


def test_the_controller_znode_names_a_broker_or_the_leader_of_a_kraft_quorum() -> None:
    elected = {"version": 2, "brokerid": 1, "timestamp": "1795485991012", "kraftControllerEpoch": -1}
    claim = znodes.controller(znode(elected, ephemeral=True))
    assert (claim.node_id, claim.is_kraft, claim.is_ephemeral, claim.czxid) == (1, False, True, 34)
    claimed = {"version": 2, "brokerid": 3003, "timestamp": "1795485991012", "kraftControllerEpoch": 3}
    claim = znodes.controller(znode(claimed))
    assert (claim.node_id, claim.is_kraft, claim.kraft_epoch) == (3003, True, 3)
    assert not znodes.controller(znode({"version": 1, "brokerid": 0, "timestamp": "1"})).is_kraft  # before Kafka 3.4


def test_a_migration_znode_without_a_copy_has_the_offset_minus_one() -> None:
    begun = {
        "version": 0, "kraft_metadata_offset": -1, "kraft_controller_id": -1, "kraft_metadata_epoch": -1,
        "kraft_controller_epoch": -1,
    }  # fmt: skip
    assert znodes.migration(znode(begun)).offset == -1
    copied = {**begun, "kraft_metadata_offset": 409, "kraft_controller_id": 3003, "kraft_controller_epoch": 3}
    progress = znodes.migration(znode(copied))
    assert (progress.offset, progress.controller_id, progress.controller_epoch, progress.version) == (409, 3003, 3, 3)
    assert json.loads(progress.text) == copied
    written = znodes.migration(replace(znode(copied), mtime=1_795_485_991_012)).written_at
    assert written.isoformat(timespec="milliseconds") == "2026-11-24T02:06:31.012+00:00"
    for damaged in (-1, 2**63 - 1):
        unread = parsed(replace(znode(copied), mtime=damaged), znodes.migration)
        assert isinstance(unread, Failure)
        assert str(damaged) in str(unread)


def test_broker_znodes_are_read_in_versions_4_and_5() -> None:
    four = {
        "version": 4, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "1", "endpoints": ["PLAINTEXT://h:9092"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}, "rack": "r",
    }  # fmt: skip
    registration = znodes.broker(2, znode(four))
    assert (registration.id, registration.epoch, registration.endpoints) == (2, 34, ("PLAINTEXT://h:9092",))
    five = {**four, "version": 5, "features": {"f": {"min_version": 1, "max_version": 3}}}
    assert znodes.broker(2, znode(five)) == registration


# --- /feature: FeatureZNodeTest.scala, Kafka 3.9 ---

LEVELS = {"feature1": 2, "feature2": 4}
V1 = {
    "feature1": {"min_version_level": 1, "max_version_level": 2},
    "feature2": {"min_version_level": 2, "max_version_level": 4},
}


@pytest.mark.parametrize(("version", "features"), [(1, V1), (2, LEVELS)])
def test_finalized_features_are_read_in_both_versions(version: int, features: Any) -> None:
    finalized = znodes.feature(znode({"version": version, "status": 1, "features": features}))
    assert (finalized.status, finalized.levels) == (FeatureZnodeStatus.ENABLED, LEVELS)


@pytest.mark.parametrize(
    "document",
    [
        {"version": 0, "status": 1, "features": LEVELS},
        {"version": 2, "status": 2, "features": LEVELS},
        {"version": 2, "status": 1},
        {"version": 1, "status": 1, "features": {"f": {"min_version_level": 0, "max_version_level": 2}}},
        {"version": 1, "status": 1, "features": {"f": {"min_version_level": 3, "max_version_level": 2}}},
        {"version": 1, "status": 1, "features": {"f": {"max_version_level": 2}}},
        {"version": 1, "status": 1, "features": LEVELS},
        {"version": 2, "status": 1, "features": V1},
        {"version": 2, "status": 1, "features": {"f": 1 << 40}},
    ],
    ids=[
        "version 0", "unknown status", "no features", "level 0", "minimum above maximum", "no minimum",
        "version 1 with levels of version 2", "version 2 with levels of version 1", "beyond 16 bits",
    ],
)  # fmt: skip
def test_finalized_features_that_kafka_would_not_read_are_a_failure(document: Any) -> None:
    assert isinstance(parsed(znode(document), znodes.feature), Failure)


# --- any bytes ---

READERS: dict[str, Callable[[Znode], Any]] = {
    "/cluster/id": znodes.cluster_id, "/controller": znodes.controller, "/controller_epoch": znodes.controller_epoch,
    "/migration": znodes.migration, "/feature": znodes.feature, "/admin/reassign_partitions": znodes.reassigns,
}  # fmt: skip
WRONG = {
    "nothing": b"",
    "null": b"null",
    "no JSON": b"{",
    "no UTF-8": b'{"brokerid": "\xff"}',
    "too deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "another type": b'{"brokerid": "1", "id": 1, "partitions": 3}',
    "beyond 64 bits": b'{"brokerid": 9223372036854775808, "id": "", "partitions": {}}',
    "a key twice": b'{"brokerid": 1, "brokerid": 2, "id": "a", "id": "b", "partitions": [], "partitions": []}',
    "a list": b"[1]",
    "not a number": b"0x1",
    "a sign": b"-1",
}


@pytest.mark.parametrize("path", READERS)
@pytest.mark.parametrize("name", WRONG)
def test_damaged_bytes_are_a_failure_that_names_the_path(path: str, name: str) -> None:
    failure = parsed(znode(WRONG[name], path=path), READERS[path])
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.location) == (FailureKind.REJECTED, f"znode {path}")
    assert failure.remedy.endswith(f"get {path}")
    assert len(str(failure)) < 400


@given(st.binary(max_size=200), st.sampled_from(sorted(READERS)))
def test_parsing_any_bytes_of_a_znode_raises_no_exception(data: bytes, path: str) -> None:
    parsed(znode(data, path=path), READERS[path])


def test_an_absent_znode_is_parsed_to_none_and_a_failure_stays_a_failure() -> None:
    failure = Failure(FailureKind.AUTHORIZATION, "znode /controller", "not authorized to read it")
    assert parsed(None, znodes.controller) is None
    assert parsed(failure, znodes.controller) is failure


def test_a_child_of_broker_ids_that_is_no_number_is_a_failure() -> None:
    assert znodes.broker_ids(("3", "1", "12")) == (1, 3, 12)
    assert isinstance(znodes.broker_ids(("1", "../x")), Failure)
