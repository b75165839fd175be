"""Znodes that Kafka copies into the metadata log: as Kafka 3.9 writes them, and with bytes of any client."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.migration.copied.configs import quota_path, read_client, read_configs, usual_path
from kafkafeatures.core.migration.copied.entries import (
    Credential,
    Entries,
    EntryKey,
    Flag,
    Kind,
    NextId,
    Placed,
    are_the_same,
    shown,
)
from kafkafeatures.core.migration.copied.findings import NEAR_LIMIT, ZnodeFinding, too_large
from kafkafeatures.core.migration.copied.names import desanitized, sanitized
from kafkafeatures.core.migration.copied.rights import acl_path, read_acl
from kafkafeatures.core.migration.copied.survey import MOST_FINDINGS, Surveyor, copy_findings
from kafkafeatures.core.migration.copied.tokens_and_producer_ids import PRODUCER_ID, read_producer_ids, read_token
from kafkafeatures.core.migration.copied.topics import Assignment, State, Topic, placed, read_state, read_topic
from kraftlog.clients import Token
from kraftlog.digests import Digest, digest_of

ID = "4L6g3nShT-eMCtK--X86sw"


def raw(document: object) -> bytes:
    return json.dumps(document).encode()


def entries_of(parsed: Entries | ZnodeFinding) -> Entries:
    assert not isinstance(parsed, ZnodeFinding), parsed
    return parsed


def topic_of(**changed: Any) -> Any:
    return {
        "version": 3, "topic_id": ID, "partitions": {"0": [1, 2, 3], "1": [2, 3, 1]},
        "adding_replicas": {"0": [3]}, "removing_replicas": {"0": [1]}, **changed,
    }  # fmt: skip


STATE = {"controller_epoch": 7, "leader": 1, "version": 1, "leader_epoch": 4, "isr": [3, 1]}


# --- topics ---


def test_a_topic_znode_has_the_id_the_replicas_and_the_reassignments() -> None:
    parsed = read_topic("orders", raw(topic_of()))
    assert isinstance(parsed, Topic)
    assert parsed.partitions == {0: Assignment((1, 2, 3), (3,), (1,)), 1: Assignment((2, 3, 1), (), ())}
    assert parsed.id == ID


def test_a_partition_is_placed_by_its_topic_znode_and_its_state_znode() -> None:
    parsed = read_state("orders", 0, raw(STATE))
    assert isinstance(parsed, State)
    assert parsed.controller_epoch == 7
    partition = placed(Assignment((1, 2, 3), (3,), (1,)), parsed)
    assert partition == Placed((1, 2, 3), (3,), (1,), leader=1, in_sync=(1, 3), leader_epoch=4)
    assert str(partition) == "replicas 1,2,3, adding 3, removing 1, in sync 1,3, leader 1 at epoch 4"
    unclean = read_state("orders", 0, raw({**STATE, "leader_recovery_state": 1}))
    assert isinstance(unclean, State)
    assert placed(Assignment((1, 2, 3), (3,), (1,)), unclean) == replace(partition, recovers=True)


def test_a_topic_without_an_id_is_a_finding_as_the_controller_would_exit() -> None:
    parsed = read_topic("old", raw({"version": 1, "partitions": {"0": [1]}}))
    assert isinstance(parsed, ZnodeFinding)
    assert parsed.path == "/brokers/topics/old"
    assert parsed.message == "has no id of the topic; the controller would exit during the copy"
    assert "inter.broker.protocol.version to 2.8" in parsed.remedy


def test_a_partition_without_a_state_znode_is_a_finding_as_all_replicas_would_count_as_in_sync() -> None:
    parsed = read_state("orders", 5, None)
    assert isinstance(parsed, ZnodeFinding)
    assert parsed.path == "/brokers/topics/orders/partitions/5/state"
    assert "all replicas in sync" in parsed.message


@pytest.mark.parametrize(
    "document",
    [
        topic_of(topic_id="short"),
        topic_of(topic_id="not*base64*at*all*4444"),
        topic_of(topic_id=7),
        topic_of(partitions={"-1": [1]}),
        topic_of(partitions={"99999999999": [1]}),
        topic_of(partitions={"0": []}),
        topic_of(partitions={"0": [9223372036854775808]}),
        topic_of(partitions={"0": ["1"]}),
        {"version": 3, "topic_id": ID},
    ],
    ids=["too short an id", "an id that is not base64", "an id that is a number", "a negative partition",
         "partition beyond 32 bits", "no replicas", "a replica beyond 64 bits", "a replica as text", "no partitions"],
)  # fmt: skip
def test_a_topic_that_kafka_cannot_read_is_a_finding_as_the_controller_would_exit(document: Any) -> None:
    parsed = read_topic("t", raw(document))
    assert isinstance(parsed, ZnodeFinding)
    assert parsed.message.endswith("the controller would exit during the copy")


# --- configs, quotas, credentials ---


def test_configs_of_topics_and_brokers_are_read_without_their_secrets() -> None:
    of_topic = read_configs("/config/topics/t", raw({"version": 1, "config": {"retention.ms": "5"}}))
    assert of_topic == {EntryKey(Kind.TOPIC_CONFIG, "t retention.ms"): "5"}
    secrets = {
        "listener.name.x.ssl.keystore.password": "encoded-9f3c",
        "plugin.password": "s-9f3c",
        "num.io.threads": "3",
    }
    parsed = read_configs("/config/brokers/<default>", raw({"version": 1, "config": secrets}))
    assert isinstance(parsed, dict)
    assert {key.name: value for key, value in parsed.items()} == {
        "default of all brokers listener.name.x.ssl.keystore.password": Flag.SET,
        "default of all brokers plugin.password": digest_of("s-9f3c"),
        "default of all brokers num.io.threads": "3",
    }
    assert "9f3c" not in str(parsed)
    assert "9f3c" not in "".join(map(shown, parsed.values()))


def test_configs_of_an_invalid_broker_id_are_a_finding_as_the_controller_would_exit() -> None:
    parsed = read_configs("/config/brokers/one", raw({"version": 1, "config": {}}))
    assert isinstance(parsed, ZnodeFinding)
    assert "'one' is not the id of a broker" in parsed.message


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


SCRAM = f"salt={encoded(b'salt-9f3c')},stored_key={encoded(b'stored')},server_key={encoded(b'server')},iterations=4096"


def test_quotas_and_scram_credentials_of_a_user_are_read_from_one_znode() -> None:
    config = {"SCRAM-SHA-256": SCRAM, "producer_byte_rate": "1024", "request_percentage": "12.5"}
    parsed = read_client("/config/users/alice%40x", raw({"version": 1, "config": config}))
    assert parsed == {
        EntryKey(Kind.CREDENTIAL, "alice@x SCRAM-SHA-256"): Credential(
            4096, digest_of(b"salt-9f3c", b"stored", b"server")
        ),
        EntryKey(Kind.QUOTA, "user alice@x producer_byte_rate"): 1024.0,
        EntryKey(Kind.QUOTA, "user alice@x request_percentage"): 12.5,
    }
    assert encoded(b"salt-9f3c") not in str(parsed)


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        ("/config/users/<default>", "default user"),
        ("/config/clients/app%201", "client-id app 1"),
        ("/config/users/bob/clients/<default>", "default client-id, user bob"),
        ("/config/ips/10.0.0.1", "ip 10.0.0.1"),
    ],
)
def test_the_entity_of_a_quota_is_read_from_its_path(path: str, whose: str) -> None:
    parsed = read_client(path, raw({"version": 1, "config": {"consumer_byte_rate": " 7E2 "}}))
    assert parsed == {EntryKey(Kind.QUOTA, f"{whose} consumer_byte_rate"): 700.0}


def test_a_user_with_quotas_only_for_client_ids_has_an_empty_znode() -> None:
    assert read_client("/config/users/alice", b"") == {}


@pytest.mark.parametrize("value", ["", "many", "1_000", "0x10", "1 2", "1e"])
def test_a_quota_that_is_no_number_is_a_finding_as_the_controller_would_exit(value: str) -> None:
    parsed = read_client("/config/clients/app", raw({"config": {"producer_byte_rate": value}}))
    assert isinstance(parsed, ZnodeFinding)
    expected = "has a quota that is not a number: producer_byte_rate; the controller would exit during the copy"
    assert parsed.message == expected


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1.5f", "2d", ".5", "5."])
def test_a_quota_in_any_number_format_of_java_is_read(value: str) -> None:
    assert isinstance(read_client("/config/clients/app", raw({"config": {"producer_byte_rate": value}})), dict)


@pytest.mark.parametrize(
    "value",
    [
        "9f3c",
        SCRAM.replace("4096", "x"),
        SCRAM.replace("salt=", "salt=*"),
        SCRAM + ",more=1",
        SCRAM.replace(",stored", ",s"),
    ],
    ids=["no fields", "iterations are no number", "salt is not base64", "an unknown field", "a field is missing"],
)
def test_a_scram_credential_that_kafka_cannot_read_is_a_finding_of_the_user_without_the_secret(value: str) -> None:
    parsed = read_client("/config/users/alice", raw({"config": {"SCRAM-SHA-512": value}}))
    assert isinstance(parsed, ZnodeFinding)
    assert parsed.path == "/config/users/alice"
    assert "SCRAM-SHA-512" in parsed.message
    assert "9f3c" not in str(parsed)
    assert encoded(b"stored") not in str(parsed)


def test_a_user_name_with_an_invalid_percent_code_is_a_finding_as_the_controller_would_exit() -> None:
    parsed = read_client("/config/users/50%", raw({"config": {"producer_byte_rate": "1"}}))
    assert isinstance(parsed, ZnodeFinding)
    assert "percent sign" in parsed.message


@given(st.text(min_size=1))
def test_a_user_name_is_decoded_from_its_encoded_path(name: str) -> None:
    path = sanitized(name)
    assert path.isascii()
    assert "/" not in path
    assert desanitized(path) == name.encode(errors="surrogatepass").decode(errors="replace")


def test_user_names_are_encoded_as_kafka_encodes_them() -> None:  # SanitizerTest.java
    assert sanitized("CN=Some characters !@#$%&*()_-+=';:,/~") == (
        "CN%3DSome%20characters%20%21%40%23%24%25%26%2A%28%29_-%2B%3D%27%3B%3A%2C%2F%7E"
    )
    assert usual_path("/config/clients/a+b") == "/config/clients/a%20b"
    assert usual_path("/config/clients/<default>") == "/config/clients/<default>"
    assert quota_path((("client-id", "c"), ("user", None))) == "/config/users/<default>/clients/c"
    assert quota_path((("ip", "1"), ("user", "u"))) is None


# --- ACLs, tokens, producer ids ---

DENY = {"principal": "User:bob", "host": "*", "permissionType": "Deny", "operation": "Read"}


def test_acls_are_read_by_the_resource_in_their_path() -> None:
    acls = raw({"version": 1, "acls": [DENY, {**DENY, "permissionType": "ALLOW", "operation": "ClusterAction"}]})
    assert read_acl("/kafka-acl/Topic/orders", acls) == {
        EntryKey(Kind.RIGHT, "Deny User:bob Read from * on Topic orders"): Flag.GRANTED,
        EntryKey(Kind.RIGHT, "Allow User:bob ClusterAction from * on Topic orders"): Flag.GRANTED,
    }
    (key,) = entries_of(read_acl("/kafka-acl-extended/prefixed/Group/g-", raw({"version": 1, "acls": [DENY]})))
    assert key == EntryKey(Kind.RIGHT, "Deny User:bob Read from * on Group g- (prefix)")
    assert acl_path(4, 3, "g-") == "/kafka-acl-extended/prefixed/Group/g-"
    assert acl_path(4, 0, "g-") is None
    assert read_acl("/kafka-acl/Cluster/kafka-cluster", b"") == {}


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "acls": [{**DENY, "operation": "Fly"}]},
        {"version": 1, "acls": [{**DENY, "permissionType": "Maybe"}]},
        {"version": 1, "acls": [{**DENY, "principal": "bob"}]},
        {"version": 1, "acls": [{"principal": "User:bob", "host": "*", "operation": "Read"}]},
        {"version": 2, "acls": [DENY]},
    ],
    ids=["unknown operation", "unknown permission", "a principal without a type", "no permission", "unknown version"],
)
def test_acls_that_kafka_cannot_read_are_a_finding(document: Any) -> None:
    assert isinstance(read_acl("/kafka-acl/Topic/t", raw(document)), ZnodeFinding)


def test_acls_that_are_no_json_are_a_finding_as_kafka_would_silently_drop_them() -> None:
    parsed = read_acl("/kafka-acl/Topic/t", b"{")
    assert isinstance(parsed, ZnodeFinding)
    assert "leave its ACLs out, also DENY" in parsed.message


def token_of(**changed: Any) -> Any:
    return {
        "version": 3, "owner": "User%3Aalice", "tokenRequester": "User%3Abob", "renewers": ["User%3Az", "User%3Ac"],
        "issueTimestamp": 1, "maxTimestamp": 3, "expiryTimestamp": 2, "tokenId": "t1", **changed,
    }  # fmt: skip


def test_a_delegation_token_is_read_in_each_version() -> None:
    path = "/delegation_token/tokens/t1"
    parsed = read_token(path, raw(token_of()))
    assert parsed == {EntryKey(Kind.TOKEN, "t1"): Token("User:alice", "User:bob", ("User:c", "User:z"), 1, 3, 2)}
    tokens_of_version_1 = read_token(path, raw(token_of(version=1)))
    assert isinstance(tokens_of_version_1, dict)
    assert [token.requester for token in tokens_of_version_1.values()] == ["User:alice"]
    for wrong in (token_of(version=4), token_of(owner="alice"), token_of(maxTimestamp=2**63), token_of(owner="%")):
        assert isinstance(read_token(path, raw(wrong)), ZnodeFinding)


def test_the_next_producer_id_follows_the_block_of_a_broker_and_may_start_that_of_a_controller() -> None:
    block = {"version": 1, "broker": 2, "block_start": "1000", "block_end": "1999"}
    path = "/latest_producer_id_block"
    assert read_producer_ids(path, raw(block)) == {PRODUCER_ID: NextId((2000,))}
    by_controller = read_producer_ids(path, raw({**block, "broker": -1}))
    assert isinstance(by_controller, dict)
    (written,) = by_controller.values()  # a controller may have written the block that it hands out next
    assert [are_the_same(written, NextId((at,))) for at in (1000, 1999, 2000)] == [True, False, True]
    for wrong in ("9223372036854775807", "9223372036854775808", "-1", "x", "998", "9999999999"):
        assert isinstance(read_producer_ids(path, raw({**block, "block_end": wrong})), ZnodeFinding)


def test_a_cluster_without_a_producer_id_block_has_no_producer_ids_to_copy() -> None:
    assert read_producer_ids("/latest_producer_id_block", b"") == {}


# --- any bytes ---

READERS: dict[str, Callable[[bytes], Any]] = {
    "topic": lambda data: read_topic("t", data),
    "state": lambda data: read_state("t", 0, data),
    "topic config": lambda data: read_configs("/config/topics/t", data),
    "user": lambda data: read_client("/config/users/u", data),
    "ACL": lambda data: read_acl("/kafka-acl/Topic/t", data),
    "token": lambda data: read_token("/delegation_token/tokens/t", data),
    "producer id": lambda data: read_producer_ids("/latest_producer_id_block", data),
}
WRONG = {
    "null": b"null",
    "no JSON": b"{",
    "no UTF-8": b'{"config": {"a": "\xff"}}',
    "too deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a mebibyte": b'{"config": {"a": "' + b"x" * 2**20,
    "a key twice": b'{"version": 1, "version": 1, "config": {}, "acls": [], "partitions": {}}',
    "a list": b"[1]",
    "another type": raw({"config": {"a": 1}, "partitions": [], "isr": 1, "acls": 1, "owner": 1, "broker": "1"}),
    "beyond 64 bits": raw(
        {"config": {"a": 2**63}, "partitions": {"0": [2**63]}, "version": 2**63, "leader": 2**63, "broker": 2**63}
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", WRONG)
def test_damaged_bytes_are_a_finding_with_path_and_remedy(reader: str, name: str) -> None:
    parsed = READERS[reader](WRONG[name])
    assert isinstance(parsed, ZnodeFinding)
    assert parsed.path.startswith("/")
    assert parsed.remedy
    assert len(str(parsed)) < 500


@given(
    st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(raw),
    st.sampled_from(sorted(READERS)),
)
def test_parsing_any_bytes_of_a_copied_znode_raises_no_exception(data: bytes, reader: str) -> None:
    READERS[reader](data)


def test_a_znode_of_nearly_one_mebibyte_is_a_finding() -> None:
    assert too_large("/brokers/topics/t", NEAR_LIMIT - 1) is None
    finding = too_large("/brokers/topics/t", NEAR_LIMIT)
    assert finding is not None
    assert "jute.maxbuffer" in finding.remedy


def test_secrets_are_compared_by_digest_and_never_shown() -> None:
    digest, same, other = digest_of("a", b"b"), digest_of(b"a", "b"), digest_of("ab")
    assert are_the_same(digest, same)
    assert not are_the_same(digest, other)
    assert isinstance(digest, Digest)
    assert repr(digest) == shown(digest) == "(secret)"
    assert are_the_same(float("nan"), float("nan"))


# --- the dry run ---


def test_a_survey_of_znodes_has_the_epoch_assigned_brokers_counts_and_all_findings() -> None:
    surveyor = Surveyor()
    topic = read_topic("orders", raw(topic_of(adding_replicas={"0": [9]})))
    assert isinstance(topic, Topic)
    surveyor.topic("orders", topic)
    surveyor.partition(topic, 0, read_state("orders", 0, raw(STATE)))
    surveyor.partition(topic, 1, read_state("orders", 1, None))
    surveyor.topic("old", read_topic("old", raw({"partitions": {}})))
    surveyor.entries("/config/brokers/1", read_configs("/config/brokers/1", raw({"config": {"ssl.key.password": "x"}})))
    surveyor.entries("/delegation_token/tokens/t1", read_token("/delegation_token/tokens/t1", raw(token_of())))
    survey = surveyor.survey
    assigned = {1: "orders-0", 2: "orders-0", 3: "orders-0", 9: "orders-0"}
    assert (survey.controller_epoch, survey.assigned) == (7, assigned)
    assert survey.counts == {Kind.TOPIC: 1, Kind.PARTITION: 2, Kind.BROKER_CONFIG: 1, Kind.TOKEN: 1}
    assert [bad.path for bad in survey.findings] == ["/brokers/topics/old", "/brokers/topics/orders/partitions/1/state"]
    assert copy_findings(survey) == survey.findings


def test_a_survey_keeps_a_bounded_number_of_findings() -> None:
    surveyor = Surveyor()
    for number in range(MOST_FINDINGS + 5):
        surveyor.topic("t", read_topic(f"t{number}", b"{"))
    survey = surveyor.survey
    assert (len(survey.findings), survey.omitted) == (MOST_FINDINGS, 5)
    assert "5 more znodes" in copy_findings(survey)[-1].message
