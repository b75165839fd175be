"""The part of an image about clients: ACLs, credentials, tokens, quotas, the next producer id (`Section.CLIENTS`).

`ClientState` is the mutable state that `rules` write to, `Clients` an immutable view of it. No secret is kept: of a
SCRAM credential only user, mechanism and iterations; records of delegation tokens have no secret. The state counts its
memory ("weight"), as `state` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from sys import getsizeof
from typing import Any
from uuid import UUID

from kraftlog.errors import ContradictionError
from kraftlog.maps import VersionedMap

Data = Mapping[str, Any]
Entity = tuple[tuple[str, str | None], ...]
"""Subject of a quota: (type, name) for each type; a name of None is the default of that type."""

# Bytes of Python objects without their texts, as measured (CPython 3.11, 64 bits), and a little more.
_RIGHT, _CREDENTIAL, _TOKEN, _QUOTA, _TEXT = 700, 300, 600, 500, 100


@dataclass(frozen=True, slots=True)
class Right:
    """One entry of an ACL, by Kafka's codes (`ResourceType`, `PatternType`, `AclOperation`, `AclPermissionType`)."""

    principal: str
    host: str
    operation: int
    permission_type: int
    resource_type: int
    resource_name: str
    pattern_type: int


@dataclass(frozen=True, slots=True)
class Token:
    """A delegation token. requester: None if Kafka 3.5 or older wrote the record. latest_ms: end of its maximum
    lifetime. Times are in ms since 1970.
    """

    owner: str
    requester: str | None
    renewers: tuple[str, ...]
    issued_ms: int
    latest_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Clients:
    """Immutable view. rights: by id of the ACL entry. credentials: iterations by (user, mechanism); 1 is SCRAM-SHA-256,
    2 is SHA-512. tokens: by id. quotas: values by (entity, key). next_producer_id: the first id of the next block for a
    broker; None if no record has it.
    """

    rights: Mapping[UUID, Right]
    credentials: Mapping[tuple[str, int], int]
    tokens: Mapping[str, Token]
    quotas: Mapping[tuple[Entity, str], float]
    next_producer_id: int | None


class ClientState:
    """Mutable state of the section, to which records are applied."""

    __slots__ = ("credentials", "next_producer_id", "quotas", "rights", "tokens")

    def __init__(self) -> None:
        self.rights: VersionedMap[UUID, Right] = VersionedMap(_weight_of_right)
        self.credentials: VersionedMap[tuple[str, int], int] = VersionedMap(
            lambda key, _: _CREDENTIAL + getsizeof(key[0])
        )
        self.tokens: VersionedMap[str, Token] = VersionedMap(_weight_of_token)
        self.quotas: VersionedMap[tuple[Entity, str], float] = VersionedMap(_weight_of_quota)
        self.next_producer_id: int | None = None

    @property
    def weight(self) -> int:
        """Bytes of memory, roughly."""
        return self.rights.weight + self.credentials.weight + self.tokens.weight + self.quotas.weight

    def view(self) -> Clients:
        """An immutable view of the current state; later changes have no effect on it."""
        maps = self.rights.view(), self.credentials.view(), self.tokens.view(), self.quotas.view()
        return Clients(*maps, self.next_producer_id)

    def grant(self, data: Data) -> None:
        """Apply ACCESS_CONTROL_ENTRY_RECORD."""
        grantee = data["principal"], data["host"], data["operation"], data["permissionType"]
        self.rights.put(data["id"], Right(*grantee, data["resourceType"], data["resourceName"], data["patternType"]))

    def grant_without_id(self, data: Data) -> None:
        """Raise ContradictionError for ACCESS_CONTROL_RECORD, which Kafka 3.0 to 3.4 define but never write."""
        raise ContradictionError(f"an entry without an id, for {data['principal']}")

    def revoke(self, data: Data) -> None:
        """Apply REMOVE_ACCESS_CONTROL_ENTRY_RECORD. Raises ContradictionError for a missing entry, at which Kafka
        throws (`AclsDelta`).
        """
        if self.rights.get(data["id"]) is None:
            raise ContradictionError(f"no entry has the id {data['id']}")
        self.rights.drop(data["id"])

    def scram(self, data: Data) -> None:
        """Apply USER_SCRAM_CREDENTIAL_RECORD, also in the layout of Kafka 3.0 to 3.4, which has several credentials."""
        for credential in data.get("credentialInfos", (data,)):
            self.credentials.put((data["name"], credential["mechanism"]), credential["iterations"])

    def remove_scram(self, data: Data) -> None:
        """Apply REMOVE_USER_SCRAM_CREDENTIAL_RECORD."""
        self.credentials.drop((data["name"], data["mechanism"]))

    def token(self, data: Data) -> None:
        """Apply DELEGATION_TOKEN_RECORD, new or renewed."""
        times = data["issueTimestamp"], data["maxTimestamp"], data["expirationTimestamp"]
        self.tokens.put(data["tokenId"], Token(data["owner"], data.get("requester"), tuple(data["renewers"]), *times))

    def remove_token(self, data: Data) -> None:
        """Apply REMOVE_DELEGATION_TOKEN_RECORD."""
        self.tokens.drop(data["tokenId"])

    def quota(self, data: Data) -> None:
        """Apply CLIENT_QUOTA_RECORD."""
        entity = tuple(sorted(((part["entityType"], part["entityName"]) for part in data["entity"]), key=itemgetter(0)))
        if data["remove"]:
            self.quotas.drop((entity, data["key"]))
        else:
            self.quotas.put((entity, data["key"]), data["value"])

    def producer_ids(self, data: Data) -> None:
        """Apply PRODUCER_IDS_RECORD: a broker got a block of producer ids."""
        self.next_producer_id = data["nextProducerId"]


def _weight_of_right(_: UUID, right: Right) -> int:
    return _RIGHT + getsizeof(right.principal) + getsizeof(right.host) + getsizeof(right.resource_name)


def _weight_of_token(id_: str, token: Token) -> int:
    texts = id_, token.owner, token.requester or "", *token.renewers
    return _TOKEN + sum(map(getsizeof, texts))


def _weight_of_quota(key: tuple[Entity, str], _: float) -> int:
    entity, name = key
    return _QUOTA + getsizeof(name) + sum(_TEXT + getsizeof(kind) + getsizeof(of or "") for kind, of in entity)
