"""Schema of ApiVersions (18) version 5, in the form of kio's schemas: KIP-1242, Kafka 4.4 (`ApiVersionsRequest.json`).

Imported by `codec.py` and the simulator's codec, when it is first used. kio 0.6.5 has the API up to version 4, whose
response has the same layout. Remove this module once kio has version 5. kio evaluates annotations as objects, so `from
__future__ import annotations` must not be used here.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32

__all__ = ["ApiVersionsRequest", "ApiVersionsResponse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """The request with the node that it is meant for: both a cluster id and a node id, or neither (null and -1)."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(5)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(18)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    client_software_name: str = field(metadata={"kafka_type": "string"})
    client_software_version: str = field(metadata={"kafka_type": "string"})
    cluster_id: str | None = field(metadata={"kafka_type": "string"})
    node_id: i32 = field(metadata={"kafka_type": "int32"})
