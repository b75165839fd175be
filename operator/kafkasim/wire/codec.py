"""Decodes requests and encodes responses; the only module of the simulator that uses kio.

Called by `server` with one frame at a time. Responses are given as dicts; fields that a version does not have are left
out, so that `exchanges` can be written once for all versions, and can pass on all fields of the product's messages.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import typing
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from msgspec import Struct

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.kafka.wire.codec import entity
from kafkafeatures.kafka.wire.lengths import judge

API_VERSIONS = 18
UNSUPPORTED_VERSION = 35
UNREGISTER_BROKER, UNREGISTER_CONTROLLER = 64, 94
_HEAD = struct.Struct(">hhi")  # the fields of `Head`
_UNSUPPORTED = struct.Struct(">ihihhh")
_UNREGISTERED = struct.Struct(">ibihb")


class NotKafkaError(Exception):
    """Bytes that are no request: the connection is closed, as a node does."""


class Head(Struct, frozen=True):
    """The head that every request begins with."""

    api_key: int
    api_version: int
    correlation_id: int


def read_head(frame: bytes) -> Head:
    """Read the head of a request. Raises NotKafkaError if the frame is shorter than a head."""
    if len(frame) < _HEAD.size:
        raise NotKafkaError(f"a request of {len(frame)} bytes")
    return Head(*_HEAD.unpack_from(frame))


def read_request(head: Head, frame: bytes) -> Any:
    """The body of a request whose key and version are offered. Raises NotKafkaError when it cannot be read."""
    try:
        schema: Any = _request_schema(head.api_key, head.api_version)
        offset = judge(schema.__header_schema__, frame)
        judge(schema, frame, offset)
        return _reader(schema)(frame, offset)[0]
    except Exception as error:  # kio raises many types for bytes that do not fit
        raise NotKafkaError(f"api {head.api_key} version {head.api_version}: {error}") from error


def _request_schema(api_key: int, version: int) -> Any:
    """The class of kio for a request, or one of the product's own where kio has none."""
    if (api_key, version) == (API_VERSIONS, 5):
        return entity(api_key, version, "Request")
    # kio does not know 94, which is laid out as 64 is.
    return load_request_schema(UNREGISTER_BROKER if api_key == UNREGISTER_CONTROLLER else api_key, version)


def write_response(head: Head, body: Mapping[str, Any]) -> bytes:
    """A whole response frame, without its length."""
    if head.api_key == UNREGISTER_CONTROLLER:
        return _unregistered_controller(head, body)
    version = min(head.api_version, 4) if head.api_key == API_VERSIONS else head.api_version  # 5 has the layout of 4
    schema: Any = load_response_schema(head.api_key, version)
    out = io.BytesIO()
    header = schema.__header_schema__
    _writer(header)(out, header(correlation_id=head.correlation_id))
    _writer(schema)(out, _shape(schema)(body))
    return out.getvalue()


def _unregistered_controller(head: Head, body: Mapping[str, Any]) -> bytes:
    """UnregisterController, encoded by hand: kio has neither this response nor its code 136. The text has at
    most 126 bytes, so that its length fits into one byte.
    """
    text: bytes = body["error_message"].encode()
    return _UNREGISTERED.pack(head.correlation_id, 0, 0, body["error_code"], len(text) + 1) + text + b"\0"


def unsupported_api_versions(head: Head, offered: VersionRange) -> bytes:
    """The answer to an ApiVersions that is too new: a v0 body that offers nothing but ApiVersions itself (KIP-511)."""
    return _UNSUPPORTED.pack(head.correlation_id, UNSUPPORTED_VERSION, 1, API_VERSIONS, offered.min, offered.max)


@cache
def _reader(schema: Any) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reader(schema)


@cache
def _writer(schema: Any) -> Callable[[Any, Any], None]:
    return entity_writer(schema)


@cache
def _shape(schema: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Function that builds a message, or a part of it, from a dict. A missing field gets the default of the schema."""
    hints = typing.get_type_hints(schema)
    fields = [
        (field.name, _converter(hints[field.name], field.metadata.get("kafka_type")))
        for field in dataclasses.fields(schema)
    ]

    def build(data: Mapping[str, Any]) -> Any:
        given = {"throttle_time": 0, **data}
        return schema(**{name: convert(given[name]) for name, convert in fields if name in given})

    return build


def _converter(hint: Any, kafka_type: str | None) -> Callable[[Any], Any]:
    """Function that converts a value to the type of a field: a number to an error code or a time, a dict to a message.
    Other values stay as they are.
    """
    if kafka_type == "error_code":
        return ErrorCode
    if kafka_type == "timedelta_i32":
        return lambda ms: timedelta(milliseconds=ms)
    parts = [hint, *typing.get_args(hint)]
    for part in list(parts):
        parts += typing.get_args(part)
    nested: Any = next((part for part in parts if dataclasses.is_dataclass(part)), None)
    if nested is None:
        return lambda value: value
    build = _shape(nested)
    if dataclasses.is_dataclass(hint):
        return build
    if typing.get_origin(hint) is not tuple and nested in typing.get_args(hint):
        return lambda value: None if value is None else build(value)
    return lambda items: items if items is None else tuple(map(build, items))
