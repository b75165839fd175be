"""An entry of the tables of APIs in `codec.py` and the other `*_codec.py` modules."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from msgspec import Struct

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.kafka.wire.frame import MAX_FRAME
from kafkafeatures.kafka.wire.messages import NO_OPERATIONS, Request


class Api(Struct, frozen=True):
    """How one API is translated. `versions`: those that we speak. `encode`: (kio's schema module, our request) to kio's
    request. `decode`: (kio's response, its version) to our response. `most_bytes`: limit for a response. `module`:
    replaces kio's schemas from version `module_from` on, for versions that kio does not have.
    """

    request: type[Request[Any]]
    versions: VersionRange
    encode: Callable[[ModuleType, Any], Any]
    decode: Callable[[Any, int], Any]
    most_bytes: int = MAX_FRAME
    module: str = ""
    module_from: int = 0

    @property
    def name(self) -> str:
        """Kafka's name of the API."""
        return self.request.__name__.removesuffix("Request")


def plain(message: str | None) -> str | None:
    """The text as a plain `str`: kio has string classes of its own."""
    return None if message is None else str(message)


def operations(bits: int) -> int | None:
    """Authorized operations of a response, one bit for each code of `AclOperation`; None if the response has none."""
    return None if bits == NO_OPERATIONS else int(bits)
