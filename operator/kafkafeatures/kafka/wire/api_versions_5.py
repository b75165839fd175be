"""ApiVersions (18) version 5 as kio would have it: KIP-1242, Kafka 4.4 (`ApiVersionsRequest.json`).

Imported by `codec.py` and the simulator's, when it is first used. kio 0.6.5 has the API up to version 4, whose answer
has the same layout. It goes when kio has version 5. kio reads annotations as they stand, so none of them may be text.
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
    """The request with whom it is meant for: both a cluster and a node, or neither (null and -1)."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(5)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(18)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    client_software_name: str = field(metadata={"kafka_type": "string"})
    client_software_version: str = field(metadata={"kafka_type": "string"})
    cluster_id: str | None = field(metadata={"kafka_type": "string"})
    node_id: i32 = field(metadata={"kafka_type": "int32"})
