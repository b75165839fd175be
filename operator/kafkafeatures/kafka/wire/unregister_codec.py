"""UnregisterBroker and UnregisterController: our messages, and their translation to and from kio's.

Sent by `kafka/requests/unregister.py`. `codec.py` imports `APIS` when it first needs an API that is not in its own
table.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.kafka.wire.api import Api, plain
from kafkafeatures.kafka.wire.frame import MAX_SHORT_FRAME
from kafkafeatures.kafka.wire.messages import Request


class UnregisterBrokerRequest(Request["UnregisterResponse"], frozen=True):
    """A request to unregister a broker, by its id alone."""

    api_key: ClassVar[int] = 64
    node_id: int = -1


class UnregisterControllerRequest(Request["UnregisterResponse"], frozen=True):
    """A request to unregister a controller; it needs Kafka 4.4 and a finalized metadata.version of 33 (KIP-1312)."""

    api_key: ClassVar[int] = 94
    node_id: int = -1


class UnregisterResponse(Struct, frozen=True):
    """The answer to UnregisterBroker and to UnregisterController."""

    error_code: int
    error_message: str | None


def _read_unregister(body: Any, version: int) -> UnregisterResponse:
    return UnregisterResponse(int(body.error_code), plain(body.error_message))


APIS: dict[int, Api] = {
    api.request.api_key: api
    for api in (
        Api(
            UnregisterBrokerRequest,
            VersionRange(0, 0),
            lambda schema, message: schema.UnregisterBrokerRequest(broker_id=message.node_id),
            _read_unregister,
            MAX_SHORT_FRAME,
        ),
        Api(
            UnregisterControllerRequest,
            VersionRange(0, 0),
            lambda schema, message: schema.UnregisterControllerRequest(controller_id=message.node_id),
            _read_unregister,
            MAX_SHORT_FRAME,
            module="kafkafeatures.kafka.wire.unregister_controller",
        ),
    )
}
"""By API key."""
