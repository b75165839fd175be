"""Reader of ACLs in ZooKeeper: `/kafka-acl/<type>/<name>`, and those of prefixes below `/kafka-acl-extended/prefixed`.

Pure. Called by `places.py` and `zookeeper/copied.py` for znodes, and by `expected.py` for paths and keys of ACLs in the
metadata log. Znodes are read as `AclAuthorizer.loadAllAcls` and `AclEntry` of Kafka 3.9 read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from kafkafeatures.core.migration.copied.entries import Entries, EntryKey, Flag, Kind
from kafkafeatures.core.migration.copied.findings import ZnodeFinding, read

LITERAL, PREFIXED = 3, 4
ROOTS = {"/kafka-acl": LITERAL, "/kafka-acl-extended/prefixed": PREFIXED}
"""Paths below which ACLs are, each with the code of their pattern type."""

RESOURCES = {"Topic": 2, "Group": 3, "Cluster": 4, "TransactionalId": 5, "DelegationToken": 6, "User": 7}
OPERATIONS = {
    "All": 2, "Read": 3, "Write": 4, "Create": 5, "Delete": 6, "Alter": 7, "Describe": 8, "ClusterAction": 9,
    "DescribeConfigs": 10, "AlterConfigs": 11, "IdempotentWrite": 12, "CreateTokens": 13, "DescribeTokens": 14,
}  # fmt: skip
PERMISSIONS = {"Deny": 2, "Allow": 3}
"""Types of resources, operations and permissions, by their names in ZooKeeper, with their codes in the metadata log."""

_LOST = "the copy would leave its ACLs out, also DENY, without an error"
"""Consequence for the copy if the content is no JSON."""


class _Right(Struct, frozen=True):
    principal: str
    host: str
    operation: str
    permission: str = msgspec.field(name="permissionType")


class _Acl(Struct, frozen=True):
    version: int
    acls: tuple[_Right, ...]


def acl_path(pattern: int, resource_type: int, name: str) -> str | None:
    """Path of the ACLs of a resource; None for a type of resource or pattern that ZooKeeper has no path for."""
    root, type_ = _named(ROOTS, pattern), _named(RESOURCES, resource_type)
    return f"{root}/{type_}/{name}" if root and type_ else None


def read_acl(path: str, data: bytes) -> Entries | ZnodeFinding:
    """ACLs of one resource; a finding if Kafka could not copy them. Never raises, whatever the data is. `path`: below
    one of `ROOTS`, and of a type in `RESOURCES`; for other types see `not_copied`.
    """
    root = next(prefix for prefix in ROOTS if path.startswith(f"{prefix}/"))
    type_, _, name = path.removeprefix(f"{root}/").partition("/")
    return read(path, data, partial(_entries, ROOTS[root], RESOURCES[type_], name), _LOST) if data else {}


def right_key(
    permission: int, principal: str, operation: int, host: str, *, resource: int, name: str, pattern: int
) -> EntryKey:
    """Key of one ACL. The key is the whole ACL; the value is always `Flag.GRANTED`."""
    does = f"{_named(PERMISSIONS, permission) or permission} {principal} {_named(OPERATIONS, operation) or operation}"
    on = f"{_named(RESOURCES, resource) or resource} {name}"
    return EntryKey(Kind.RIGHT, f"{does} from {host} on {on}" + (" (prefix)" if pattern == PREFIXED else ""))


def not_copied(path: str) -> ZnodeFinding:
    """Finding for ACLs of a type of resource that Kafka does not know."""
    return ZnodeFinding(path, "ACLs below it are not copied: unknown type of resource", "delete it, or set them again")


def _entries(pattern: int, resource: int, name: str, document: Any) -> Entries:
    fields = msgspec.convert(document, _Acl)
    if fields.version != 1:
        raise ValueError(f"expected version 1, found {fields.version}")
    keys = []
    for acl in fields.acls:
        if ":" not in acl.principal:
            raise ValueError("a principal without a type")
        permission, operation = _code(PERMISSIONS, acl.permission), _code(OPERATIONS, acl.operation)
        keys.append(
            right_key(permission, acl.principal, operation, acl.host, resource=resource, name=name, pattern=pattern)
        )
    return dict.fromkeys(keys, Flag.GRANTED)


def _code(codes: Mapping[str, int], name: str) -> int:
    """Code of an operation or permission, by its name as Kafka writes it, or in capital letters, as older releases did.
    Raises ValueError for any other name.
    """
    code = codes.get(name) or {spelling.upper(): code for spelling, code in codes.items()}.get(name.upper())
    if code is None:
        raise ValueError(f"unknown operation or permission {name[:40]!r}")
    return code


def _named(codes: Mapping[str, int], code: int) -> str | None:
    return next((name for name, code_of_name in codes.items() if code_of_name == code), None)
