"""What is known of one API: an entry of the tables in `codec.py` and of the other modules named so."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from msgspec import Struct

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.kafka.wire.frame import MAX_FRAME
from kafkafeatures.kafka.wire.messages import NO_OPERATIONS, Request


class Api(Struct, frozen=True):
    """`encode`: from kio's schema module and our request to kio's; `decode`: from kio's answer and its version.

    `most_bytes`: of an answer. `module`: of the schemas that kio does not have, those from version `module_from` on.
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
    """Kio's texts are of classes of their own."""
    return None if message is None else str(message)


def operations(bits: int) -> int | None:
    """Authorized operations of an answer; None where it has none."""
    return None if bits == NO_OPERATIONS else int(bits)
