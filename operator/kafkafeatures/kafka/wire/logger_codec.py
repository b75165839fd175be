"""IncrementalAlterConfigs for a logger of a broker (KIP-412): our messages, and their translation to and from kio's.

Sent by `kafka/requests/request_log_level.py`. `codec.py` imports `APIS` when it first needs an API that is not in its
own table.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from msgspec import Struct

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.kafka.wire.api import Api, plain
from kafkafeatures.kafka.wire.frame import MAX_SHORT_FRAME
from kafkafeatures.kafka.wire.messages import Request

LOGGER_RESOURCE = 8
"""BROKER_LOGGER of `ConfigResource.Type`; its name is the id of the broker."""
_SET = 0
"""SET of `AlterConfigOp.OpType`."""


class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"], frozen=True):
    """Sets the level of one logger of a broker, until it is set again or the broker restarts."""

    api_key: ClassVar[int] = 44
    broker_id: int = -1
    logger: str = ""
    level: str = ""


class IncrementalAlterConfigsResponse(Struct, frozen=True):
    """The answer for the broker that was named."""

    error_code: int
    error_message: str | None


def _encode(schema: ModuleType, message: IncrementalAlterConfigsRequest) -> Any:
    level = schema.AlterableConfig(name=message.logger, config_operation=_SET, value=message.level)
    resource = schema.AlterConfigsResource(
        resource_type=LOGGER_RESOURCE, resource_name=str(message.broker_id), configs=(level,)
    )
    return schema.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def _decode(body: Any, version: int) -> IncrementalAlterConfigsResponse:
    if len(body.responses) != 1:
        raise ValueError("not one answer for one broker")
    (answer,) = body.responses
    return IncrementalAlterConfigsResponse(int(answer.error_code), plain(answer.error_message))


APIS: dict[int, Api] = {
    IncrementalAlterConfigsRequest.api_key: Api(
        IncrementalAlterConfigsRequest, VersionRange(0, 1), _encode, _decode, MAX_SHORT_FRAME
    )
}
"""By API key."""
