"""Redaction: secrets of any record are never shown, and everything else is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraftlog.records import Decoded, decode, decode_control, frame, to_json
from kraftlog.redaction import REDACTED, SECRET_FIELDS, redacted
from kraftlog.schema import CONTROL_TYPES, METADATA_TYPES, Array, Scalar, Struct, table
from kraftlog.schema.others import OTHER_TYPES
from kraftlog.schema.types import UNKNOWN_TAGS
from tests.kraftlog.test_golden_logs import CONTROL_NAMES, WRITTEN

TOPIC, BROKER = 2, 4


def config(kind: int, name: str, value: str | None) -> Decoded:
    data = {"resourceType": kind, "resourceName": "1", "name": name, "value": value}
    decoded = decode(frame(table.CONFIG, data))
    assert isinstance(decoded, Decoded)
    return decoded


def of_bytes(struct: Struct) -> Iterator[str]:
    """Names of the fields of type bytes, also in nested structs."""
    for field in struct.fields:
        inner = field.type.of if isinstance(field.type, Array) else field.type
        if isinstance(inner, Struct):
            yield from of_bytes(inner)
        elif inner is Scalar.BYTES:
            yield field.name


def secrets(value: Any) -> Iterator[bytes]:
    """The secrets in decoded data: values of secret fields, and unknown tags."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name in SECRET_FIELDS:
                yield each
            yield from (content for _, content in each) if name == UNKNOWN_TAGS else secrets(each)
    elif isinstance(value, tuple):
        for each in value:
            yield from secrets(each)


def test_every_field_of_type_bytes_is_a_secret() -> None:
    names = {
        name
        for kind in (*METADATA_TYPES, *OTHER_TYPES, *CONTROL_TYPES)
        for layout in kind.layouts
        for name in of_bytes(layout.fields)
    }
    assert names == SECRET_FIELDS


def test_redaction_removes_secrets_of_records_written_by_kafka_and_nothing_else() -> None:
    credentials = 0
    for _, kind, _, _, hexadecimal in WRITTEN:
        value = bytes.fromhex(hexadecimal)
        decoded = decode_control(CONTROL_NAMES[kind], value) if kind in CONTROL_NAMES else decode(value)
        assert isinstance(decoded, Decoded)
        if kind in CONTROL_NAMES or kind == "ConfigRecord":
            continue
        # Shorter ones may be in other fields by chance.
        hidden, shown = [secret for secret in secrets(decoded.data) if len(secret) > 3], redacted(decoded)
        credentials += kind == "UserScramCredentialRecord" and bool(hidden)
        assert not any(repr(secret) in repr(shown) for secret in hidden)
        assert (shown is decoded) == (not list(secrets(decoded.data)))
        earlier, later = to_json(decoded.data), to_json(shown.data)
        assert earlier.keys() == later.keys()
        if kind != "UserScramCredentialRecord":
            assert earlier == later
    assert credentials > 20


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (BROKER, "sasl.jaas.config"),
        (BROKER, "listener.name.internal.scram-sha-512.sasl.jaas.config"),
        (BROKER, "listener.name.internal.ssl.keystore.password"),
        (BROKER, "ssl.truststore.certificates"),
        (BROKER, "delegation.token.secret.key"),
        (BROKER, "password.encoder.secret"),
        (BROKER, "authorizer.of.somebody.ldap.bind"),
        (BROKER, "listener.name.log.retention.ms.x"),
        (TOPIC, "ssl.key.password"),
        (99, "retention.ms"),
    ],
)
def test_a_config_that_is_a_password_or_unknown_to_kafka_is_redacted(kind: int, name: str) -> None:
    shown = redacted(config(kind, name, "pass-9f3c"))
    assert shown.data == {"resourceType": kind, "resourceName": "1", "name": name, "value": REDACTED}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TOPIC, "retention.ms"),
        (TOPIC, "min.insync.replicas"),
        (BROKER, "log.cleaner.threads"),
        (BROKER, "listener.name.internal.ssl.keystore.location"),
        (BROKER, "listener.name.internal.oauthbearer.sasl.login.class"),
        (16, "interval.ms"),
        (32, "consumer.session.timeout.ms"),
    ],
)
def test_a_config_that_kafka_defines_as_another_type_is_shown(kind: int, name: str) -> None:
    decoded = config(kind, name, "17")
    assert redacted(decoded) is decoded


def test_a_removed_config_is_shown_without_a_value() -> None:
    decoded = config(BROKER, "sasl.jaas.config", None)
    assert redacted(decoded) is decoded
