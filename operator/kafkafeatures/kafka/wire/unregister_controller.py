"""Schema of UnregisterController (94) version 0, in the form of kio's schemas: KIP-1312, Kafka 4.4
(`UnregisterController*.json`).

Named in `unregister_codec.py`; `codec.py` imports it when it is first used. kio 0.6.5 has neither this API nor error
codes from 134 on, and the API answers with one of them (CONTROLLER_ID_NOT_REGISTERED, 136). So the error code is a
plain number here. Remove this module once kio has both. kio evaluates annotations as objects, so `from __future__
import annotations` must not be used here.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterControllerRequest:
    """A request to unregister a controller, by its id alone."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(94)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    controller_id: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterControllerResponse:
    """The answer of UnregisterController, which has the layout of UnregisterBroker's."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(94)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: i16 = field(metadata={"kafka_type": "int16"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
