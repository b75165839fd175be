"""The part of `log state` about clients (quotas, ACLs, SCRAM users, tokens) and topics: names and counts. An image has
no secrets, so none is shown. Called by `cli/log/state.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkafeatures.api.records import Json
from kafkafeatures.core.words import first_of, format_time
from kraftlog import Image

if TYPE_CHECKING:
    from kraftlog.clients import Entity, Right


_MAX_NAMES = 5
"""Most names in a line for people."""

# Names of the codes in records, as in Kafka's enums. A code without a name here is shown as a number.
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_RESOURCES = {1: "Any", 2: "Topic", 3: "Group", 4: "Cluster", 5: "TransactionalId", 6: "DelegationToken", 7: "User"}
_PATTERNS = {3: "Literal", 4: "Prefixed"}
_PERMISSIONS = {2: "Deny", 3: "Allow"}
_OPERATIONS = {
    2: "All", 3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: "Alter", 8: "Describe", 9: "ClusterAction",
    10: "DescribeConfigs", 11: "AlterConfigs", 12: "IdempotentWrite", 13: "CreateTokens", 14: "DescribeTokens",
    15: "TwoPhaseCommit",
}  # fmt: skip


def clients_shape(image: Image) -> Json:
    """The clients as JSON, each kind with its names. topics: null if the image was made without them."""
    clients = image.clients
    partitioned = image.partitioned
    topics = None
    if partitioned is not None:
        topics = {
            "count": len(partitioned.topics),
            "partitions": sum(len(chunk.partition) for chunk in partitioned.chunks),
        }
    return {
        "topics": topics,
        "rights": sorted(
            (_right(right) for right in clients.rights.values()), key=lambda shape: [*map(str, shape.values())]
        ),
        "credentials": [
            {"user": user, "mechanism": _MECHANISMS.get(code, str(code)), "iterations": iterations}
            for (user, code), iterations in sorted(clients.credentials.items())
        ],
        "delegationTokens": [
            {"id": id_, "owner": token.owner, "requester": token.requester, "expires": format_time(token.expires_ms)}
            for id_, token in sorted(clients.tokens.items())
        ],
        "quotas": [
            {"entity": dict(entity), "key": key, "value": _number(value)}
            for (entity, key), value in sorted(clients.quotas.items(), key=lambda item: str(item[0]))
        ],
        "nextProducerId": clients.next_producer_id,
    }


def client_lines(image: Image) -> Iterator[str]:
    """The clients as text, a line for each kind."""
    clients, partitioned = image.clients, image.partitioned
    if partitioned is not None and partitioned.topics:
        partitions = sum(len(chunk.partition) for chunk in partitioned.chunks)
        yield f"Topics: {len(partitioned.topics)}, with {_count(partitions, 'partition', 'partitions')}"
    if clients.rights:
        principals = sorted({right.principal for right in clients.rights.values()})
        yield f"Rights: {_count(len(clients.rights), 'ACL entry', 'ACL entries')} of {first_of(principals, _MAX_NAMES)}"
    if clients.credentials:
        users = [f"{user} ({_MECHANISMS.get(code, code)})" for user, code in sorted(clients.credentials)]
        yield f"SCRAM credentials: {first_of(users, _MAX_NAMES)}"
    if clients.tokens:
        owners = sorted({token.owner for token in clients.tokens.values()})
        yield f"Delegation tokens: {len(clients.tokens)}, of {first_of(owners, _MAX_NAMES)}"
    if clients.quotas:
        entities = sorted({_entity(entity) for entity, _ in clients.quotas})
        yield f"Quotas: {len(clients.quotas)}, for {first_of(entities, _MAX_NAMES)}"
    if clients.next_producer_id is not None:
        yield f"Next producer id: {clients.next_producer_id}"


def _right(right: Right) -> Json:
    return {
        "principal": right.principal,
        "permission": _PERMISSIONS.get(right.permission_type, str(right.permission_type)),
        "operation": _OPERATIONS.get(right.operation, str(right.operation)),
        "resource": {
            "type": _RESOURCES.get(right.resource_type, str(right.resource_type)),
            "name": right.resource_name,
            "pattern": _PATTERNS.get(right.pattern_type, str(right.pattern_type)),
        },
        "host": right.host,
    }


def _entity(entity: Entity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


def _number(value: float) -> float | str:
    """The number, or a text for infinity and NaN, which JSON does not have."""
    return value if value - value == 0 else str(value)  # infinity - infinity is NaN


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"
