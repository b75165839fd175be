"""Where a resource lives: a file, or the API server. The cluster is the other port (`core/ports.py`).

The loop knows nothing else. Clock and sleep are injected beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kafkafeatures.core.wanted import Wanted


@dataclass(frozen=True, slots=True)
class Resource:
    """What a home holds: what is wanted, names resolved, and the status of before."""

    name: str
    generation: int
    wanted: Wanted
    status: Mapping[str, Any]


class Home(Protocol):
    """Where one resource lives."""

    async def read(self) -> Resource:
        """The resource as it is now."""

    async def write_status(self, status: Mapping[str, Any]) -> None:
        """Replace the whole status, durably before it returns."""
