"""Where a resource lives: a file, or the API server. The cluster is the other port (`core/ports.py`).

A reconciliation knows nothing else of the world; clock and sleep are injected beside them.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from kafkafeatures.api.status import Status
from kafkafeatures.core.engine.desired_state import DesiredState


class Resource(Struct, frozen=True):
    """The content of a store: what is wanted, names resolved, and the status of before.

    `invalid_fields`: of the status, those that cannot be understood; they are left out of it.
    """

    name: str
    generation: int
    desired: DesiredState
    status: Status
    invalid_fields: tuple[str, ...] = ()


class KeptStatus(Protocol):
    """A status as it is kept: what can be understood of it, and the names of the fields that cannot."""

    @property
    def status(self) -> Status: ...

    @property
    def invalid_fields(self) -> tuple[str, ...]: ...


def needs_write(previous: KeptStatus, status: Status) -> bool:
    """Tell whether the status says something else than what is kept; one that is damaged is written anew."""
    return status != previous.status or bool(previous.invalid_fields)


class NotReadable(Exception):
    """The resource could not be read again, or is no longer there. With a line for people."""


class ResourceStore(Protocol):
    """The place where one resource lives: a file, or the API server."""

    async def read(self) -> Resource:
        """The resource, for a reconciliation."""

    async def read_again(self) -> Resource:
        """The resource as it is at this moment, asked for once more where it lives. Raises NotReadable."""

    async def write_status(self, status: Status) -> None:
        """Replace the whole status, durably before it returns."""
