"""Readers of delegation tokens and of the next producer id in ZooKeeper.

Pure. Znodes are read as `DelegationTokenManagerZk` and `ProducerIdBlockZNode` of Kafka 3.9 read them.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from kafkafeatures.core.facts.znodes import Int, Long
from kafkafeatures.core.migration.copied.entries import Entries, EntryKey, Kind, NextId
from kafkafeatures.core.migration.copied.findings import EXITS, ZnodeFinding, read
from kafkafeatures.core.migration.copied.names import desanitized
from kraftlog.clients import Token

TOKENS = "/delegation_token/tokens"
PRODUCER_IDS = "/latest_producer_id_block"

_BY_CONTROLLER = -1
"""Broker id in a block of producer ids that a controller has written; see `NextId`."""
_LARGEST = 2**63
"""Producer ids are below this: Kafka reads them as long."""
_LOST = "the copy would leave it out without an error"
"""Consequence for the copy if the content is no JSON."""

Version = Annotated[int, Meta(ge=1, le=3)]


class _Token(Struct, frozen=True):
    version: Version
    owner: str
    renewers: tuple[str, ...]
    issued: Long = field(name="issueTimestamp")
    latest: Long = field(name="maxTimestamp")
    expires: Long = field(name="expiryTimestamp")
    id: str = field(name="tokenId")
    requester: str | None = field(name="tokenRequester", default=None)


class _Block(Struct, frozen=True):
    broker: Int
    start: str = field(name="block_start")
    end: str = field(name="block_end")


def token_path(id_: str) -> str:
    """Path of the znode of a token."""
    return f"{TOKENS}/{id_}"


def read_token(path: str, data: bytes) -> Entries | ZnodeFinding:
    """The token in a znode; a finding if Kafka could not copy it. Never raises."""
    return read(path, data, _token, _LOST) if data else {}


def token_key(id_: str) -> EntryKey:
    """Key of a token."""
    return EntryKey(Kind.TOKEN, id_)


def comparable(token: Token) -> Token:
    """The token in the form in which ZooKeeper and the metadata log can be compared: sorted renewers, and the owner as
    requester if there is none.
    """
    return Token(
        token.owner,
        token.requester or token.owner,
        tuple(sorted(token.renewers)),
        token.issued_ms,
        token.latest_ms,
        token.expires_ms,
    )


def read_producer_ids(path: str, data: bytes) -> Entries | ZnodeFinding:
    """The next producer id; none for an empty znode, as a broker creates it before any id is needed. A finding if Kafka
    could not copy it. Never raises.
    """
    return read(path, data, _next_id, EXITS) if data else {}


PRODUCER_ID = EntryKey(Kind.PRODUCER_ID, "")
"""Key of the next producer id."""


def _token(document: Any) -> Entries:
    fields = msgspec.convert(document, _Token)
    owner = _principal(fields.owner)
    if fields.version >= 3 and fields.requester is None:
        raise ValueError("Object missing required field `tokenRequester`")
    requester = _principal(fields.requester) if fields.version >= 3 and fields.requester is not None else owner
    renewers = tuple(map(_principal, fields.renewers))
    token = Token(owner, requester, renewers, fields.issued, fields.latest, fields.expires)
    return {token_key(fields.id): comparable(token)}


def _principal(text: str) -> str:
    name = desanitized(text)
    if ":" not in name:
        raise ValueError("a principal without a type")
    return name


def _next_id(document: Any) -> Entries:
    block = msgspec.convert(document, _Block)
    start, stop = _number(block.start), _number(block.end) + 1
    if not start <= stop < _LARGEST or stop - start > 2**31 - 1:  # Kafka reads the length of a block as int
        raise ValueError("a block of producer ids that ends before it begins, or has too many")
    return {PRODUCER_ID: NextId((start, stop) if block.broker == _BY_CONTROLLER else (stop,))}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < _LARGEST):
        raise ValueError("a producer id that is not a number of 64 bits")
    return int(text)
