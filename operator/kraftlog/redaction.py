"""Removes secrets from decoded records, before they are shown or stored.

It decides which values are secret: of a SCRAM credential everything that helps to guess the password; of a config the
value, unless Kafka defines the config with a type other than password (`KafkaConfigSchema.isSensitive`; an undefined
config may be the password of a plugin). Delegation tokens have no secret in a log: nodes derive the HMAC from the id.
Only decoded records can be redacted. Bytes of other records must not be shown, since they may hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from kraftlog.records import Decoded
from kraftlog.schema import Array, RecordType, Scalar, Struct, table
from kraftlog.schema.types import UNKNOWN_TAGS

REDACTED = "(redacted)"
"""What Kafka itself writes into its logs (`RecordRedactor`)."""
SECRET_FIELDS = frozenset({"salt", "storedKey", "serverKey", "saltedPassword"})
_FLAT = frozenset(
    kind.key
    for kind in table.METADATA_TYPES
    if kind is not table.CONFIG
    and all(
        isinstance(each.type.of if isinstance(each.type, Array) else each.type, Scalar)
        for layout in kind.layouts
        for each in layout.fields.fields
    )
)
"""Api keys of types whose fields are scalars, or arrays of these. Only structs, and values of configs, have secrets."""
# Prefix of a config for one listener, and of some also for one SASL mechanism: it is not a part of the name that Kafka
# defines.
_LISTENER = re.compile(r"listener\.name\.[^.]+\.(?:[a-z0-9-]+\.(?=sasl\.|ssl\.|connections\.))?")


def redacted(record: Decoded) -> Decoded:
    """The record without its secrets; the same object if it has none."""
    if record.type.control:
        return record
    if record.type.key == table.CONFIG.key:
        data = record.data
        if data["value"] is None or is_shown(data["resourceType"], data["name"]):
            return record
        return record._replace(data={**data, "value": REDACTED})
    if is_open(record):
        return record
    clean = _without(record.data)
    return record if clean is record.data else record._replace(data=clean)


def is_open(record: Decoded) -> bool:
    """True if nothing in the record is secret, decided by its type and the names of its fields alone."""
    kind = record.type
    return kind.key in _FLAT and not kind.control and UNKNOWN_TAGS not in record.data


@cache
def has_secrets(kind: RecordType) -> bool:
    """True if a record of this type may hold a secret in a field of the tables."""
    return kind is table.CONFIG or any(_is_secret(layout.fields) for layout in kind.layouts)


def _is_secret(struct: Struct) -> bool:
    for each in struct.fields:
        inner = each.type.of if isinstance(each.type, Array) else each.type
        if each.name in SECRET_FIELDS or (isinstance(inner, Struct) and _is_secret(inner)):
            return True
    return False


def is_shown(resource_type: int, name: str) -> bool:
    """True if the value of this config may be shown."""
    from kraftlog.shown_configs import SHOWN  # hundreds of names, needed only where configs are shown

    names = SHOWN.get(resource_type, frozenset())
    return name in names or _LISTENER.sub("", name, count=1) in names


def _without(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping without secrets; the same object if it has none. Unknown tags may hold secrets."""
    changed: dict[str, Any] = {}
    for name, value in data.items():
        if name in SECRET_FIELDS:
            changed[name] = REDACTED
        elif name == UNKNOWN_TAGS:
            changed[name] = tuple((tag, REDACTED) for tag, _ in value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Mapping):
            items = tuple(map(_without, value))
            if any(clean is not original for clean, original in zip(items, value, strict=True)):
                changed[name] = items
        elif isinstance(value, Mapping) and (inner := _without(value)) is not value:
            changed[name] = inner
    return {**data, **changed} if changed else data
