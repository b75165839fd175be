"""Clients in an image: their rights, credentials, tokens, quotas and producer ids, without any secret."""

from __future__ import annotations

import pickle
from typing import Any
from uuid import UUID

import pytest

from kraftlog import Image, Replay, Section, TooLargeError
from kraftlog.clients import Right, Token
from kraftlog.image_builder import MAX_DECODED
from kraftlog.records import Decoded, encode, frame
from kraftlog.schema.others import (
    ACCESS_CONTROL,
    ACCESS_CONTROL_ENTRY,
    CLIENT_QUOTA,
    DELEGATION_TOKEN,
    PRODUCER_IDS,
    REMOVE_ACCESS_CONTROL_ENTRY,
    REMOVE_DELEGATION_TOKEN,
    REMOVE_USER_SCRAM_CREDENTIAL,
    USER_SCRAM_CREDENTIAL,
)
from tests.kraftlog.build import abort, begin, end, log, snapshot

SECRET = b"salt-of-alice-9f3c"
ENTRY = {"resourceType": 2, "resourceName": "t", "patternType": 3, "host": "*", "operation": 3, "permissionType": 3}
TIMES = {"issueTimestamp": 1, "maxTimestamp": 3, "expirationTimestamp": 2}


def right(number: int, principal: str = "User:alice") -> bytes:
    return frame(ACCESS_CONTROL_ENTRY, {"id": UUID(int=number), "principal": principal, **ENTRY})


def credential(name: str, mechanism: int = 1, iterations: int = 4096) -> bytes:
    secrets = {"salt": SECRET, "storedKey": SECRET, "serverKey": SECRET}
    return frame(USER_SCRAM_CREDENTIAL, {"name": name, "mechanism": mechanism, "iterations": iterations, **secrets})


def token(id_: str, owner: str = "User:alice") -> bytes:
    data = {"tokenId": id_, "owner": owner, "requester": "User:bob", "renewers": ("User:c",), **TIMES}
    return frame(DELEGATION_TOKEN, data)


def quota(value: float, *entity: tuple[str, str | None], remove: bool = False) -> bytes:
    of = tuple({"entityType": kind, "entityName": name} for kind, name in entity)
    return frame(CLIENT_QUOTA, {"entity": of, "key": "consumer_byte_rate", "value": value, "remove": remove})


def image_of(*values: bytes) -> Image:
    replay = Replay(sections=[Section.CLIENTS])
    replay.append(log(values), below=1 << 40)
    return replay.image()


def test_access_control_entries_are_added_and_removed_by_id() -> None:
    image = image_of(right(1), right(2, "User:bob"), frame(REMOVE_ACCESS_CONTROL_ENTRY, {"id": UUID(int=1)}))
    assert dict(image.clients.rights) == {UUID(int=2): Right("User:bob", "*", 3, 3, 2, "t", 3)}
    assert image.unreadable == 0


@pytest.mark.parametrize(
    "value",
    [
        frame(REMOVE_ACCESS_CONTROL_ENTRY, {"id": UUID(int=9)}),
        frame(ACCESS_CONTROL, {"principal": "User:alice", **ENTRY}),
    ],
    ids=["nothing to remove", "without an id"],
)
def test_a_contradicting_access_control_record_counts_as_unreadable(value: bytes) -> None:
    image = image_of(right(1), value)
    assert (len(image.clients.rights), image.unreadable) == (1, 1)


def test_credentials_are_read_in_both_layouts_by_user_and_mechanism_without_secrets() -> None:
    old: dict[str, Any] = {"salt": SECRET, "saltedPassword": SECRET, "iterations": 8192}
    infos = tuple({"mechanism": one, **old} for one in (1, 2))
    of_3_4 = encode(Decoded(USER_SCRAM_CREDENTIAL, 0, {"name": "bob", "credentialInfos": infos}, "3.0-3.4"))
    gone = frame(REMOVE_USER_SCRAM_CREDENTIAL, {"name": "bob", "mechanism": 1})
    image = image_of(credential("alice"), of_3_4, gone)
    assert dict(image.clients.credentials) == {("alice", 1): 4096, ("bob", 2): 8192}
    assert b"9f3c" not in pickle.dumps(image)


def test_delegation_tokens_are_added_renewed_and_removed() -> None:
    old = {"tokenId": "old", "owner": "User:alice", "renewers": (), **TIMES}
    of_3_5 = encode(Decoded(DELEGATION_TOKEN, 0, old, "3.0-3.5"))
    image = image_of(
        token("a"), token("b"), of_3_5, token("a", "User:dora"), frame(REMOVE_DELEGATION_TOKEN, {"tokenId": "b"})
    )
    assert dict(image.clients.tokens) == {
        "a": Token("User:dora", "User:bob", ("User:c",), 1, 3, 2),
        "old": Token("User:alice", None, (), 1, 3, 2),
    }


def test_quotas_are_keyed_by_entity_in_any_order_of_its_parts() -> None:
    client, user = ("client-id", "c"), ("user", None)
    image = image_of(quota(1.0, client, user), quota(2.0, user, client), quota(3.0, user), quota(4.0, client))
    key = "consumer_byte_rate"
    assert dict(image.clients.quotas) == {((client, user), key): 2.0, ((user,), key): 3.0, ((client,), key): 4.0}
    assert dict(image_of(quota(3.0, user), quota(0.0, user, remove=True)).clients.quotas) == {}


def test_the_next_producer_id_is_that_of_the_last_record() -> None:
    blocks = [frame(PRODUCER_IDS, {"brokerId": 1, "brokerEpoch": 5, "nextProducerId": at}) for at in (1000, 2000)]
    assert image_of(*blocks).clients.next_producer_id == 2000
    assert image_of(right(1)).clients.next_producer_id is None


def test_a_metadata_transaction_changes_clients_only_at_its_end() -> None:
    assert len(image_of(begin(), right(1)).clients.rights) == 0
    assert len(image_of(begin(), right(1), abort()).clients.rights) == 0
    assert len(image_of(begin(), right(1), end()).clients.rights) == 1


def test_an_image_of_clients_does_not_change_with_later_records() -> None:
    replay = Replay(sections=[Section.CLIENTS])
    replay.append(log([right(1)]), below=9)
    earlier = replay.image()
    replay.append(log([right(2)], start=1), below=9)
    assert (len(earlier.clients.rights), len(replay.image().clients.rights)) == (1, 2)


def test_a_batch_of_a_snapshot_may_have_more_acls_than_a_cluster_has_nodes() -> None:
    rights = [right(number) for number in range(MAX_DECODED + 1)]
    replay = Replay(sections=[Section.CLIENTS])
    replay.load_snapshot(snapshot(*rights), end_offset=9, epoch=1)
    assert len(replay.image().clients.rights) == MAX_DECODED + 1


@pytest.mark.parametrize(
    "make",
    [right, lambda n: credential(f"u{n}"), lambda n: token(f"t{n}"), lambda n: quota(1.0, ("user", f"u{n}"))],
    ids=["rights", "credentials", "tokens", "quotas"],
)
def test_the_memory_of_clients_is_bounded(make: Any) -> None:
    replay = Replay(sections=[Section.CLIENTS], limit=200_000)
    with pytest.raises(TooLargeError):
        replay.append(log(*([make(number)] for number in range(1000))), below=1 << 40)
