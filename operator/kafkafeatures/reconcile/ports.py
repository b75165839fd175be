"""Protocol of the store of a resource, which is a file or the API server (`file_store.py`, `kubernetes_store.py`).

A reconciliation reaches the outside world only through its store and the ports of `core/ports.py`.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from kafkafeatures.api.status import Status
from kafkafeatures.core.engine.desired_state import DesiredState


class Resource(Struct, frozen=True):
    """A resource as read from its store.

    name: namespace and name, for people.
    generation: number of the document's version, as in its metadata.
    desired: what the document asks for, names resolved.
    status: the previous status, without `invalid_fields`.
    invalid_fields: names of fields of the status that cannot be read.
    """

    name: str
    generation: int
    desired: DesiredState
    status: Status
    invalid_fields: tuple[str, ...] = ()


class KeptStatus(Protocol):
    """A stored status: its readable part, and the names of its invalid fields."""

    @property
    def status(self) -> Status: ...

    @property
    def invalid_fields(self) -> tuple[str, ...]: ...


def needs_write(previous: KeptStatus, status: Status) -> bool:
    """Tell whether the status differs from the stored one. A stored status with invalid fields is always replaced."""
    return status != previous.status or bool(previous.invalid_fields)


class NotReadable(Exception):
    """The resource could not be read again, or no longer exists. The message is for people."""


class ResourceStore(Protocol):
    """Store of one resource: a file, or the API server."""

    async def read(self) -> Resource:
        """The resource, for a reconciliation."""

    async def read_again(self) -> Resource:
        """The resource at this moment, read anew from its store. Raises NotReadable."""

    async def write_status(self, status: Status) -> None:
        """Replace the whole status; it is durable on return."""
