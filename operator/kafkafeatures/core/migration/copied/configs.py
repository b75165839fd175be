"""Readers of configs, quotas and SCRAM credentials in ZooKeeper: the znodes below `/config`, and the path there of each
such entry of the metadata log.

Pure. Called by `places.py` for znodes, and by `expected.py` and `comparison.py` for the log. Znodes are read as
`ZkConfigMigrationClient` of Kafka 3.9 reads them. Quotas and credentials of a user are in the same znode.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from kafkafeatures.core.migration.copied.entries import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    Credential,
    Entries,
    EntryKey,
    Kind,
    Value,
    config_value,
)
from kafkafeatures.core.migration.copied.findings import EXITS, ZnodeFinding, look_at, read
from kafkafeatures.core.migration.copied.names import DEFAULT, desanitized, sanitized
from kraftlog.clients import Entity
from kraftlog.digests import digest_of

CONFIGS = "/config"
OF_TOPICS, OF_BROKERS, OF_USERS, OF_CLIENTS, OF_IPS = (
    f"{CONFIGS}/{of}" for of in ("topics", "brokers", "users", "clients", "ips")
)
CLIENTS_OF_USER = "clients"
"""Child of a user's znode that has the quotas of this user together with a client id."""

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""SCRAM mechanisms, with their codes in the metadata log."""
USER, CLIENT, IP = "user", "client-id", "ip"
_TYPES = {OF_USERS: USER, OF_CLIENTS: CLIENT, OF_IPS: IP}

_LOST = "the copy would leave it out without an error"
"""Consequence for the copy if the content is no JSON."""
_NUMBER = re.compile(r"\s*[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)\s*", re.ASCII)
"""Text that `Double.parseDouble` of Java accepts, without its hexadecimal form."""
_SCRAM = frozenset({"salt", "stored_key", "server_key", "iterations"})


class _Config(Struct, frozen=True):
    config: Mapping[str, str] = field(default_factory=dict)


class _NoNumber(ValueError):
    """A quota that is no number. `key`: its name."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _NoCredential(ValueError):
    """A SCRAM credential that cannot be read. `mechanism`: its name."""

    def __init__(self, mechanism: str) -> None:
        super().__init__(mechanism)
        self.mechanism = mechanism


def config_path(resource_type: int, name: str) -> str:
    """Path of the configs of a topic or broker; an empty name is the default of all brokers."""
    return f"{OF_TOPICS if resource_type == TOPIC_RESOURCE else OF_BROKERS}/{name or DEFAULT}"


def quota_path(entity: Entity) -> str | None:
    """Path of the quotas of an entity; None for a kind of entity that ZooKeeper has no path for."""
    names = {kind: DEFAULT if name is None else sanitized(name) for kind, name in entity}
    match sorted(names):
        case ["user"]:
            return f"{OF_USERS}/{names[USER]}"
        case ["client-id"]:
            return f"{OF_CLIENTS}/{names[CLIENT]}"
        case ["client-id", "user"]:
            return f"{OF_USERS}/{names[USER]}/{CLIENTS_OF_USER}/{names[CLIENT]}"
        case ["ip"]:
            return f"{OF_IPS}/{names[IP]}"
        case _:
            return None


def read_configs(path: str, data: bytes) -> Entries | ZnodeFinding:
    """Configs of a topic or broker; a finding if Kafka could not copy them. Never raises."""
    _, _, of, name = path.split("/", 3)
    broker = f"{CONFIGS}/{of}" == OF_BROKERS
    kind, type_ = (Kind.BROKER_CONFIG, BROKER_RESOURCE) if broker else (Kind.TOPIC_CONFIG, TOPIC_RESOURCE)
    name = "" if name == DEFAULT else name
    if broker and name and not (name.isascii() and name.isdigit() and len(name) <= 10):
        return ZnodeFinding(
            path, f"{name!r} is not the id of a broker", "delete this znode if no broker needs it", EXITS
        )
    settings = _read(path, data)
    if isinstance(settings, ZnodeFinding):
        return settings
    return {config_key(kind, name, setting): config_value(type_, setting, value) for setting, value in settings.items()}


def config_key(kind: Kind, name: str, config: str) -> EntryKey:
    """Key of one config of a topic or broker; an empty `name` is the default of all brokers."""
    return EntryKey(kind, f"{name or 'default of all brokers'} {config}")


def read_client(path: str, data: bytes) -> Entries | ZnodeFinding:
    """Quotas, and SCRAM credentials of a user, from a znode below users, clients or ips; a finding if Kafka could not
    copy them. Never raises.
    """
    settings = _read(path, data)
    if isinstance(settings, ZnodeFinding):
        return settings
    try:
        return _of_client(path, settings)
    except _NoNumber as error:
        return ZnodeFinding(
            path,
            f"has a quota that is not a number: {error.key}",
            "remove it: kafka-configs.sh --alter --delete-config",
            EXITS,
        )
    except _NoCredential as error:
        return ZnodeFinding(
            path,
            f"has a credential for {error.mechanism} that cannot be read",
            "set the password of this user again: kafka-configs.sh --alter --add-config",
            EXITS,
        )
    except ValueError as error:
        return ZnodeFinding(path, f"cannot be read: {error}", look_at(path), EXITS)


def _of_client(path: str, config: Mapping[str, str]) -> Entries:
    entity = _entity(path)
    entries: dict[EntryKey, Value] = {}
    for name, value in config.items():
        if name in MECHANISMS and len(entity) == 1:  # like Kafka, also for entities that are no users
            user = DEFAULT if entity[0][1] is None else entity[0][1]
            entries[credential_key(user, MECHANISMS[name])] = _credential(name, value)
        elif _NUMBER.fullmatch(value):
            entries[quota_key(entity, name)] = float(value.strip().rstrip("fFdD"))
        else:
            raise _NoNumber(name)
    return entries


def _entity(path: str) -> Entity:
    """Entity that a znode is for, by its path. Raises ValueError if its name cannot be decoded."""
    _, _, of, *names = path.split("/")
    kinds = [_TYPES[f"{CONFIGS}/{of}"], CLIENT]
    parts = zip(kinds, names[::2], strict=False)
    return tuple(sorted((kind, None if name == DEFAULT else desanitized(name)) for kind, name in parts))


def usual_path(path: str) -> str:
    """Path to which Kafka 3.9 writes the entries of this znode. It differs from `path` only if an older release, which
    encoded names in another way, has written the znode.
    """
    if not path.startswith((f"{OF_USERS}/", f"{OF_CLIENTS}/", f"{OF_IPS}/")):
        return path
    try:
        return quota_path(_entity(path)) or path
    except ValueError:
        return path


def quota_key(entity: Entity, quota: str) -> EntryKey:
    """Key of one quota of an entity."""
    whose = ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in sorted(entity))
    return EntryKey(Kind.QUOTA, f"{whose} {quota}")


def credential_key(user: str, mechanism: int) -> EntryKey:
    """Key of one SCRAM credential."""
    names = {code: name for name, code in MECHANISMS.items()}
    return EntryKey(Kind.CREDENTIAL, f"{user} {names.get(mechanism, mechanism)}")


def _credential(mechanism: str, text: str) -> Credential:
    parts = [part.partition("=") for part in text.split(",")]
    values = {name: value for name, _, value in parts}
    if values.keys() != _SCRAM or any(not sign for _, sign, _ in parts):
        raise _NoCredential(mechanism)
    number = values["iterations"]
    if not (number.isascii() and number.isdigit() and len(number) <= 10):
        raise _NoCredential(mechanism)
    try:
        secrets = [base64.b64decode(values[name], validate=True) for name in ("salt", "stored_key", "server_key")]
    except ValueError:
        raise _NoCredential(mechanism) from None
    return Credential(int(number), digest_of(*secrets))


def _read(path: str, data: bytes) -> Mapping[str, str] | ZnodeFinding:
    """Configs in a znode; none if it is empty, as for a user who has quotas only together with client ids."""
    return read(path, data, _config, _LOST) if data else {}


def _config(document: Any) -> Mapping[str, str]:
    return msgspec.convert(document, _Config).config
