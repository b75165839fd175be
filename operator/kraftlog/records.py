"""Decodes and encodes the values of records: the frame (type and version), and the body by the schema table.

A value becomes `Decoded`; or `Raw`, if its type or version is unknown; or `Unreadable`, if it contradicts its layout.
None of them is an exception: the caller decides. `encode` writes all three: a decoded record in Kafka's form, with the
shortest varints, the others byte for byte. Bytes after a body make it unreadable, as in Kafka
(`AbstractApiMessageSerde.java`).
"""

from __future__ import annotations

import base64
import enum
import math
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftlog.errors import MalformedError
from kraftlog.schema import BY_KEY, NAMES, RecordType
from kraftlog.varints import read_unsigned, unsigned

if TYPE_CHECKING:
    from kraftlog.decoders.parts import Readers

FRAME_VERSION = 1  # 0 was the 2.8 preview, which Kafka itself refuses
MAX_RECORD = 256 * 1024
"""Bytes of the largest record that readers with limited memory decode. Most records have some hundred bytes, and a text
at most 32 KiB. Decoded values may take a hundred times as much memory, for example a list of empty items.
"""

_CONTROL_KEY = struct.Struct(">hh")  # version 0, type
_VERSION = struct.Struct(">h")
_INT16_MAX = 0x7FFF
_FRAME = bytes([FRAME_VERSION])
_SHORTEST = 3  # bytes of a frame


class RawReason(enum.Enum):
    """Reasons why a record was kept as bytes."""

    TYPE = "the table has no such type"
    VERSION = "the table does not have this version of the type"
    FRAME = "the frame has another version than 1"


class Decoded(NamedTuple):
    """A decoded record. `data` has Kafka's field names. `layout` is empty unless the version has an older layout, and
    the record is in it.
    """

    type: RecordType
    version: int
    data: Mapping[str, Any]
    layout: str = ""


@dataclass(frozen=True, slots=True)
class Raw:
    """A record kept as bytes. `key` and `version` are -1 if the frame version is unknown, because the rest cannot be
    read then.
    """

    key: int
    version: int
    value: bytes
    reason: RawReason
    control: bool = False
    control_key: bytes = b""

    @property
    def name(self) -> str | None:
        """Kafka's name of the type, if a release has it."""
        return None if self.control else NAMES.get(self.key)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that contradicts its layout; `detail` never quotes its content."""

    key: int
    version: int
    value: bytes
    detail: str
    control_key: bytes = b""


def key_of(value: bytes | None) -> int:
    """The api key of a data record, without decoding its body; -1 if the frame cannot be read."""
    if not value or value[0] != FRAME_VERSION:
        return -1
    try:
        key, position = read_unsigned(value, 1)
        version, _ = read_unsigned(value, position)
    except MalformedError:
        return -1
    return key if max(key, version) <= _INT16_MAX else -1


def decode(value: bytes | None) -> Decoded | Raw | Unreadable:
    """The value of a data record: frame version, api key and version as unsigned varints, then the body."""
    if value is None:
        return Unreadable(-1, -1, b"", "a record without a value")
    key = version = -1
    try:
        # nearly all frames: one byte for each number
        if value[:1] == _FRAME and value[1:3].isascii() and len(value) > _SHORTEST:
            key, version, position = value[1], value[2], _SHORTEST
        else:
            frame, position = read_unsigned(value, 0)
            if frame != FRAME_VERSION:
                return Raw(-1, -1, value, RawReason.FRAME)
            key, position = read_unsigned(value, position)
            version, position = read_unsigned(value, position)
        if key > _INT16_MAX or version > _INT16_MAX:
            return Unreadable(-1, -1, value, "a key or version beyond 16 bits")
        decoders = readers_of(False, key)
        if decoders is None:
            return Raw(key, version, value, RawReason.TYPE)
        kind, readers = decoders
        if version > kind.last_version:
            return Raw(key, version, value, RawReason.VERSION)
        data, layout = _body(readers, version, value, position)
        return Decoded(kind, version, data, layout)
    except MalformedError as error:
        return Unreadable(key, version, value, str(error))


def decode_control(key: bytes | None, value: bytes | None) -> Decoded | Raw | Unreadable:
    """Decode a record of a control batch. Its key contains the type, and its value a body that begins with the version
    (`ControlRecordType.java`).
    """
    if key is None or value is None or len(key) < _CONTROL_KEY.size or len(value) < _VERSION.size:
        return Unreadable(-1, -1, value or b"", "a control record without type or version", key or b"")
    key_version, number = _CONTROL_KEY.unpack_from(key)
    (version,) = _VERSION.unpack_from(value)
    decoders = readers_of(True, number)
    if decoders is None or key_version < 0:
        return Raw(number, version, value, RawReason.TYPE, control=True, control_key=key)
    kind, readers = decoders
    if not 0 <= version <= kind.last_version:
        return Raw(number, version, value, RawReason.VERSION, control=True, control_key=key)
    try:
        data, layout = _body(readers, version, value, 0)
    except MalformedError as error:
        return Unreadable(number, version, value, str(error), key)
    return Decoded(kind, version, data, layout)


@lru_cache(maxsize=256)  # more than there are types; a log may hold any number of others
def readers_of(control: bool, key: int) -> tuple[RecordType, Readers] | None:
    """The type and its decoders, which are compiled here; None for a key that no release has."""
    kind = type_of(control, key)
    if kind is None:
        return None
    from kraftlog.decoders.compiled import readers  # many who import this module decode no record

    return kind, readers(kind)


def type_of(control: bool, key: int) -> RecordType | None:
    """The type with this key, if a release has it."""
    record_type = BY_KEY.get((control, key))
    if record_type is None and not control and key in NAMES:
        from kraftlog.schema.others import OTHER_TYPES

        return next(kind for kind in OTHER_TYPES if kind.key == key)
    return record_type


def _body(readers: Readers, version: int, value: bytes, position: int) -> tuple[dict[str, Any], str]:
    """Decode by the first layout that fits all bytes. If none fits, raises the error of the current layout."""
    first: MalformedError | None = None
    for reader, layout in readers[version]:
        try:
            data, end = reader(value, position)
            if end == len(value):
                return data, layout
            first = first or MalformedError(f"{len(value) - end} bytes behind the body")
        except MalformedError as error:
            first = first or error
        except (IndexError, struct.error):
            first = first or MalformedError(f"the body is cut: {len(value) - position} bytes")
        except UnicodeDecodeError:
            first = first or MalformedError("a text is not UTF-8")
    raise first or MalformedError("no layout")


def encode(record: Decoded | Raw | Unreadable) -> bytes:
    """The bytes of a value: of a decoded record as Kafka writes it, of a raw or unreadable one as they were read.

    Raises ValueError, which names the field, for data that does not fit the type.
    """
    if not isinstance(record, Decoded):
        return record.value
    from kraftlog.schema.writer import writer  # most who read write nothing

    layout = next(layout for layout in record.type.layouts if layout.name == record.layout)
    body = writer(layout, record.version)(dict(record.data))
    if record.type.control:
        return body
    return unsigned(FRAME_VERSION) + unsigned(record.type.key) + unsigned(record.version) + body


def frame(kind: RecordType, data: Mapping[str, Any], version: int = 0) -> bytes:
    """The value of a new metadata record."""
    return encode(Decoded(kind, version, data))


def control(kind: RecordType, data: Mapping[str, Any], version: int = 0) -> tuple[bytes, bytes]:
    """Key and value of a new control record; its version field is filled in here."""
    return _CONTROL_KEY.pack(0, kind.key), encode(Decoded(kind, version, {"version": version, **data}))


def kafka_uuid(value: uuid.UUID) -> str:
    """The text Kafka writes for a uuid: URL-safe base64 of its bytes without padding (`Uuid.java`)."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_kafka_uuid(text: str) -> uuid.UUID:
    """The uuid that `kafka_uuid` writes as this text. Raises ValueError for any other text."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def to_json(value: Any) -> Any:
    """Decoded data as Kafka's dump tool prints it: uuids and bytes as text, unknown tags left out."""
    if isinstance(value, Mapping):
        return {name: to_json(each) for name, each in value.items() if not name.startswith("_")}
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    if isinstance(value, uuid.UUID):
        return kafka_uuid(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):  # JSON has no number for it
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value
