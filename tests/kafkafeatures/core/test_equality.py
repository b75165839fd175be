"""The comparison of the metadata log with znodes: equal entries, differences, and their messages."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.migration.copied import comparison as comparisons
from kafkafeatures.core.migration.copied.comparison import Comparison
from kafkafeatures.core.migration.copied.entries import Kind
from kafkafeatures.core.migration.copied.expected import Expected
from kafkafeatures.core.migration.copied.names import sanitized
from kafkafeatures.core.migration.copied.places import is_possible_path, read_entries
from kafkafeatures.core.migration.copied.topics import Topic, read_state, read_topic, topic_name, topic_path
from kafkafeatures.core.migration.equality import NAMED, Differs, EntryDifference, Equal
from kafkafeatures.core.report.equality_document import equality_document, equality_lines
from kraftlog import Image, Replay, Section
from kraftlog.records import frame
from kraftlog.schema.others import CLIENT_QUOTA, DELEGATION_TOKEN, PRODUCER_IDS
from tests.kraftlog.build import log
from tests.kraftlog.partitions import change, partition, topic
from tests.kraftlog.test_clients import right
from tests.kraftlog.test_configs import config, credential

TOPIC, BROKER = 2, 4


def image_of(*values: bytes) -> Image:
    replay = Replay(sections=Section)
    replay.append(log(values), below=1 << 40)
    image = replay.image()
    assert image.unreadable == 0
    return image


def quota(value: float, **entity: str | None) -> bytes:
    parts = tuple({"entityType": kind.replace("_", "-"), "entityName": name} for kind, name in entity.items())
    return frame(CLIENT_QUOTA, {"entity": parts, "key": "producer_byte_rate", "value": value, "remove": False})


TOKEN = {
    "tokenId": "t1", "owner": "User:alice", "requester": "User:alice", "renewers": ("User:z", "User:b"),
    "issueTimestamp": 1, "maxTimestamp": 3, "expirationTimestamp": 2,
}  # fmt: skip

RECORDS = (
    topic(1, "orders"),
    partition(1, 0, 1, 2, 3, isr=(1, 3), leader=3, leaderEpoch=7, addingReplicas=(3,), removingReplicas=(1,)),
    partition(1, 1, 2, 3),
    config(TOPIC, "orders", "retention.ms", "5"),
    config(BROKER, "", "log.retention.ms", "6"),
    config(BROKER, "1", "ssl.key.password", "clear-9f3c"),
    config(BROKER, "1", "of.a.plugin", "clear-9f3c"),
    config(32, "group", "consumer.session.timeout.ms", "1"),
    credential(name="alice@x"),
    quota(1024.0, user="alice@x"),
    quota(1.5, user=None, client_id="c"),
    quota(2.0, client_id=None),
    quota(3.0, ip="10.0.0.1"),
    right(1),
    right(2),
    frame(DELEGATION_TOKEN, TOKEN),
    frame(PRODUCER_IDS, {"brokerId": 1, "brokerEpoch": 5, "nextProducerId": 2000}),
)


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


SCRAM = f"salt={encoded(b'salt-9f3c')},stored_key={encoded(b'stored')},server_key={encoded(b'server')},iterations=4096"
ACL = {"principal": "User:alice", "host": "*", "permissionType": "Allow", "operation": "Read"}
ID = base64.urlsafe_b64encode(UUID(int=1).bytes).decode().rstrip("=")


def state(leader: int, epoch: int, *isr: int) -> Any:
    return {"version": 1, "controller_epoch": 3, "leader": leader, "leader_epoch": epoch, "isr": isr}


ZNODES: Mapping[str, Any] = {
    "/brokers/topics/orders": {
        "version": 3, "topic_id": ID, "partitions": {"0": [1, 2, 3], "1": [2, 3]}, "adding_replicas": {"0": [3]},
        "removing_replicas": {"0": [1]},
    },
    "/brokers/topics/orders/partitions/0/state": state(3, 7, 3, 1),
    "/brokers/topics/orders/partitions/1/state": state(2, 0, 2, 3),
    "/config/topics/orders": {"version": 1, "config": {"retention.ms": "5"}},
    "/config/topics/empty": {"version": 1, "config": {}},
    "/config/brokers/<default>": {"version": 1, "config": {"log.retention.ms": "6"}},
    "/config/brokers/1": {"version": 1, "config": {"ssl.key.password": "encoded", "of.a.plugin": "clear-9f3c"}},
    "/config/users/alice%40x": {"version": 1, "config": {"SCRAM-SHA-256": SCRAM, "producer_byte_rate": "1024"}},
    "/config/users/<default>": b"",
    "/config/users/<default>/clients/c": {"version": 1, "config": {"producer_byte_rate": "1.5"}},
    "/config/clients/<default>": {"version": 1, "config": {"producer_byte_rate": "2"}},
    "/config/ips/10.0.0.1": {"version": 1, "config": {"producer_byte_rate": "3"}},
    "/kafka-acl-extended/prefixed/Topic/t": b"",
    "/kafka-acl/Topic/t": {"version": 1, "acls": [ACL, ACL]},
    "/delegation_token/tokens/t1": {
        "version": 3, "owner": "User%3Aalice", "tokenRequester": "User%3Aalice", "renewers": ["User%3Ab", "User%3Az"],
        "issueTimestamp": 1, "maxTimestamp": 3, "expiryTimestamp": 2, "tokenId": "t1",
    },
    "/latest_producer_id_block": {"version": 1, "broker": -1, "block_start": "2000", "block_end": "2999"},
}  # fmt: skip


def compared(znodes: Mapping[str, Any], image: Image, only: frozenset[str] | None = None) -> Comparison:
    """Make one comparison, with znodes parsed as `zookeeper/copied.py` parses them."""
    comparison = Comparison(Expected(image), only)
    raw = {
        path: content if isinstance(content, bytes) else json.dumps(content).encode()
        for path, content in znodes.items()
    }
    for path in sorted(raw) if only is None else only:
        name = topic_name(path)
        if name is None:
            comparison.entries(path, read_entries(path, raw.get(path)))
        elif "/" not in name:
            of_topic = read_topic(name, raw[path]) if path in raw else None
            comparison.topic(name, of_topic)
            if isinstance(of_topic, Topic):
                for number in of_topic.partitions:
                    data = raw.get(f"{path}/partitions/{number}/state")
                    comparison.partition(of_topic, number, read_state(name, number, data))
    comparison.finish()
    return comparison


def differing(znodes: Mapping[str, Any], *records: bytes) -> list[str]:
    return [str(difference) for difference in compared(znodes, image_of(*(records or RECORDS))).differences()]


def changed(path: str, change: Callable[[Any], Any]) -> Mapping[str, Any]:
    return {**ZNODES, path: change(json.loads(json.dumps(ZNODES[path])))}


def without(path: str) -> Mapping[str, Any]:
    return {other: content for other, content in ZNODES.items() if other != path}


def set_to(*keys: str, value: Any) -> Callable[[Any], Any]:
    def change(document: Any) -> Any:
        inner = document
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        return document

    return change


def test_metadata_that_kafka_copied_has_no_difference() -> None:
    assert differing(ZNODES) == []
    block = {"broker": 1, "block_start": "1000", "block_end": "1999"}
    assert differing({**ZNODES, "/latest_producer_id_block": block}) == []


def test_an_unclean_leader_is_recovering_in_zookeeper_and_in_the_log() -> None:
    """The znode of a partition with a clean leader has no `leader_recovery_state`."""
    of_partition: dict[str, Any] = {
        "isr": (1, 3),
        "leader": 3,
        "leaderEpoch": 7,
        "addingReplicas": (3,),
        "removingReplicas": (1,),
    }
    unclean = partition(1, 0, 1, 2, 3, leaderRecoveryState=1, **of_partition)
    records = tuple(unclean if record is RECORDS[1] else record for record in RECORDS)
    assert differing(changed(STATE_0, set_to("leader_recovery_state", value=1)), *records) == []
    assert differing(changed(STATE_0, set_to("leader_recovery_state", value=0))) == []
    (difference,) = differing(ZNODES, *records)
    assert difference.endswith("leader 3 at epoch 7, recovering in the metadata log")
    recovered = differing(ZNODES, *records, change(1, 0, leaderRecoveryState=0))
    assert recovered == []


PARTITION = "partition orders-0: replicas 1,2,3, adding 3, removing 1, in sync 1,3, leader 3 at epoch 7"
STATE_0 = "/brokers/topics/orders/partitions/0/state"
TOPIC_PATH = "/brokers/topics/orders"


@pytest.mark.parametrize(
    ("znodes", "words"),
    [
        (changed(STATE_0, set_to("isr", value=[1, 2, 3])), "in sync 1,2,3, leader 3 at epoch 7 in ZooKeeper"),
        (changed(STATE_0, set_to("leader", value=1)), "leader 1 at epoch 7 in ZooKeeper"),
        (changed(STATE_0, set_to("leader_epoch", value=6)), "leader 3 at epoch 6 in ZooKeeper"),
        (changed(STATE_0, set_to("leader_recovery_state", value=1)), "epoch 7, recovering in ZooKeeper"),
        (changed(TOPIC_PATH, set_to("partitions", "0", value=[2, 1, 3])), "replicas 2,1,3"),
        (changed(TOPIC_PATH, set_to("adding_replicas", value={})), "replicas 1,2,3, removing 1"),
        (without(STATE_0), "partition orders-0: the znode is absent: the partition has no state"),
        (changed(STATE_0, lambda _: b"{"), "partition orders-0: the znode cannot be read: "),
        (changed(TOPIC_PATH, set_to("topic_id", value="A" * 22)), f"topic orders: {'A' * 22} in ZooKeeper, {ID} in"),
        (changed(TOPIC_PATH, lambda _: b"[]"), "topic orders: the znode cannot be read: Expected `object`"),
        (
            changed("/config/topics/orders", set_to("config", "retention.ms", value="9")),
            "topic config orders retention.ms: 9 in ZooKeeper, 5 in the metadata log",
        ),
        (
            changed("/config/topics/orders", set_to("config", "segment.ms", value="1")),
            "topic config orders segment.ms: 1 in ZooKeeper, absent in the metadata log",
        ),
        (
            without("/config/brokers/<default>"),
            "broker config default of all brokers log.retention.ms: absent in ZooKeeper, 6 in the metadata log",
        ),
        (
            changed("/config/brokers/1", set_to("config", value={"of.a.plugin": "clear-9f3c"})),
            "broker config 1 ssl.key.password: absent in ZooKeeper, (set) in the metadata log",
        ),
        (
            changed("/config/brokers/1", set_to("config", "of.a.plugin", value="other")),
            "broker config 1 of.a.plugin: not the same, and secret",
        ),
        (
            changed("/config/users/alice%40x", set_to("config", "SCRAM-SHA-256", value=SCRAM.replace("c3R", "c3S"))),
            "SCRAM credential alice@x SCRAM-SHA-256: not the same, and secret",
        ),
        (
            changed("/config/users/alice%40x", set_to("config", "SCRAM-SHA-256", value=SCRAM.replace("4096", "8192"))),
            "SCRAM credential alice@x SCRAM-SHA-256: 8192 iterations in ZooKeeper, 4096 iterations in the metadata log",
        ),
        (
            changed("/config/clients/<default>", set_to("config", "producer_byte_rate", value="2.5")),
            "quota default client-id producer_byte_rate: 2.5 in ZooKeeper, 2 in the metadata log",
        ),
        (without("/config/ips/10.0.0.1"), "quota ip 10.0.0.1 producer_byte_rate: absent in ZooKeeper, 3 in the"),
        (
            changed("/kafka-acl/Topic/t", set_to("acls", value=[{**ACL, "permissionType": "Deny"}])),
            "ACL Deny User:alice Read from * on Topic t: granted in ZooKeeper, absent in the metadata log",
        ),
        (changed("/kafka-acl/Topic/t", lambda _: b"{"), "ACL /kafka-acl/Topic/t: the znode cannot be read"),
        (
            changed("/delegation_token/tokens/t1", set_to("expiryTimestamp", value=9)),
            "delegation token t1: owner User:alice, requester User:alice, renewers User:b, User:z, expires at 9 ms",
        ),
        (
            changed("/latest_producer_id_block", set_to("block_start", value="2500")),
            "producer id: 2500 or 3000 in ZooKeeper, 2000 in the metadata log",
        ),
        (without("/latest_producer_id_block"), "producer id: absent in ZooKeeper, 2000 in the metadata log"),
    ],
    ids=lambda case: case[:40] if isinstance(case, str) else "",
)  # fmt: skip
def test_each_difference_is_named_with_both_values_and_without_secrets(znodes: Mapping[str, Any], words: str) -> None:
    differences = differing(znodes)
    assert differences
    assert any(words in difference for difference in differences), differences
    assert "9f3c" not in str(differences)


def test_a_topic_that_only_one_store_has_is_one_difference() -> None:
    only_here = {path: content for path, content in ZNODES.items() if not path.startswith(TOPIC_PATH)}
    assert differing(only_here) == [f"topic orders: absent in ZooKeeper, {ID} in the metadata log"]
    other = {f"{TOPIC_PATH}2": ZNODES[TOPIC_PATH], f"{TOPIC_PATH}2/partitions/0/state": ZNODES[STATE_0]}
    assert differing({**ZNODES, **other}) == [f"topic orders2: {ID} in ZooKeeper, absent in the metadata log"]


def test_configs_of_a_topic_that_does_not_exist_are_a_difference_only_in_the_metadata_log() -> None:
    assert differing({**ZNODES, "/config/topics/gone": {"version": 1, "config": {"retention.ms": "1"}}}) == []
    (difference,) = differing(ZNODES, *RECORDS, config(TOPIC, "gone", "retention.ms", "1"))
    assert difference == "topic config gone retention.ms: absent in ZooKeeper, 1 in the metadata log"


def test_a_partition_that_only_one_store_has_is_a_difference() -> None:
    fewer = changed(TOPIC_PATH, set_to("partitions", value={"0": [1, 2, 3]}))
    assert differing(fewer) == [
        "partition orders-1: absent in ZooKeeper, replicas 2,3, in sync 2,3, leader 2 at epoch 0 in the metadata log"
    ]
    more = changed(TOPIC_PATH, set_to("partitions", "2", value=[1]))
    assert differing({**more, STATE_0.replace("/0/", "/2/"): state(1, 0, 1)}) == [
        "partition orders-2: replicas 1, in sync 1, leader 1 at epoch 0 in ZooKeeper, absent in the metadata log"
    ]


def test_a_quota_that_zookeeper_cannot_hold_is_a_difference_in_each_comparison() -> None:
    image = image_of(*RECORDS, quota(1.0, user="u", ip="1"))
    first = compared(ZNODES, image)
    assert [difference.name for difference in first.differences()] == ["ip 1, user u producer_byte_rate"]
    second = compared(ZNODES, image, first.paths_of(first.differing))
    assert second.differences() == first.differences()
    assert not is_possible_path("")  # the path of a quota that has no znode


def test_a_user_name_in_the_encoding_of_an_older_kafka_is_equal_and_is_read_again_at_its_own_path() -> None:
    path = "/config/users/a+b"
    content = {"version": 1, "config": {"producer_byte_rate": "1"}}
    assert differing({**ZNODES, path: content}, *RECORDS, quota(1.0, user="a b")) == []
    comparison = compared({**ZNODES, path: content}, image_of(*RECORDS, quota(2.0, user="a b")))
    assert comparison.paths_of(comparison.differing) == {path}
    second = compared({path: content}, image_of(*RECORDS, quota(1.0, user="a b")), frozenset({path}))
    assert second.differing == {}


@pytest.mark.parametrize(
    ("path", "can"),
    [("/kafka-acl/Topic/a", True), ("/kafka-acl/Topic/", False), ("/a/../b", False), ("/a/\0", False), ("", False)],
)
def test_paths_that_are_invalid_in_zookeeper_are_not_read(path: str, can: bool) -> None:
    assert is_possible_path(path) is can


def test_an_entry_that_the_log_changed_during_the_comparison_is_no_certain_difference() -> None:
    path, image = "/config/topics/orders", image_of(*RECORDS)
    content = {"version": 1, "config": {"retention.ms": "9"}}
    comparison = compared({**changed(STATE_0, set_to("leader", value=1)), path: content}, image)
    later = image_of(*RECORDS, config(TOPIC, "orders", "retention.ms", "9"))
    moved = comparison.moved_in(Expected(later))
    assert moved == {path}
    assert [difference.kind for difference in comparison.differences(excluded=moved)] == [Kind.PARTITION]
    assert comparison.moved_in(Expected(image)) == frozenset()
    partition_moved = image_of(*RECORDS, partition(1, 0, 1, 2, 3, leader=2, leaderEpoch=8))
    assert comparison.moved_in(Expected(partition_moved)) == {topic_path("orders")}


def test_differences_are_kept_up_to_a_limit_and_counted_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "MOST_KEPT", 3)
    comparison = compared({}, image_of(*RECORDS))
    assert (len(comparison.differences()), comparison.omitted > 3) == (3, True)
    assert len(comparison.differing) > 3  # all are read again


CHARACTERS = st.characters(codec="utf-8")
NAMES, VALUES = st.text(CHARACTERS, min_size=1, max_size=8), st.text(CHARACTERS, max_size=8)


@given(
    st.dictionaries(NAMES, st.floats(0, 1e9, allow_nan=False), max_size=4),
    st.dictionaries(st.sampled_from(("retention.ms", "segment.ms", "of.a.plugin")), VALUES, max_size=3),
    st.data(),
)
def test_any_copied_quotas_and_configs_are_equal_and_any_changed_one_is_a_difference(
    quotas: dict[str, float], configs: dict[str, str], data: st.DataObject
) -> None:
    image = image_of(
        topic(1, "t"),
        *(quota(value, user=name) for name, value in quotas.items()),
        *(config(TOPIC, "t", name, value) for name, value in configs.items()),
    )
    znodes: dict[str, Any] = {
        f"/config/users/{sanitized(name)}": {"config": {"producer_byte_rate": repr(value)}}
        for name, value in quotas.items()
    }
    znodes["/config/topics/t"] = {"config": configs}
    znodes[topic_path("t")] = {"topic_id": ID, "partitions": {}}
    assert compared(znodes, image).differences() == ()
    lost = data.draw(st.sampled_from([path for path, content in znodes.items() if content != {"config": {}}]))
    left = {path: content for path, content in znodes.items() if path != lost}
    assert {difference.path for difference in compared(left, image).differences()} == {lost}


# --- how differences are shown ---

ONE = EntryDifference(Kind.QUOTA, "user bob producer_byte_rate", "/config/users/bob", "1", "2")


def test_a_comparison_is_one_line_with_counts_and_twenty_differences_in_the_status() -> None:
    topics = [EntryDifference(Kind.TOPIC, f"t{at:03}", f"/brokers/topics/t{at}", "x", "absent") for at in range(30)]
    verdict = Differs(7, (*topics, ONE), omitted=4)
    assert str(verdict) == "ZooKeeper and the metadata log differ: 30 topics, 1 quota and 4 more"
    assert (len(verdict.examples), verdict.total) == (NAMED, 35)
    first, *_, more, last = equality_lines(verdict)
    assert (first, more) == (f"{verdict}.", "and 4 more")
    assert last.startswith("What to do: restart the active controller")
    assert list(equality_lines(Equal(5))) == ["ZooKeeper and the metadata log say the same, up to offset 5."]


def test_the_equality_document_is_equal_different_or_unknown() -> None:
    assert equality_document(Equal(5)) == {
        "equal": True, "offset": 5, "counts": {}, "differences": [], "more": 0, "notRead": [],
    }  # fmt: skip
    document = equality_document(Differs(5, (ONE,)))
    assert (document["equal"], document["counts"]) == (False, {"quota": 1})
    assert document["differences"] == [
        {
            "kind": "quota", "name": "user bob producer_byte_rate", "znode": "/config/users/bob", "inZooKeeper": "1",
            "inLog": "2",
        }
    ]  # fmt: skip
    unknown = equality_document(Unknown(Failure(FailureKind.STALE, "znode /migration", "it stands still", "look")))
    assert (unknown["equal"], unknown["offset"]) == (None, None)
    assert unknown["notRead"] == [{"what": "znode /migration", "why": "it stands still", "remedy": "look"}]


def test_terminal_control_characters_in_a_difference_are_not_shown() -> None:
    assert "\x1b" not in str(EntryDifference(Kind.TOPIC, "a\x1b[2J", "/brokers/topics/a", "\x1b", "\n"))
