"""What a pass needs of the world: two ports, each with a real and a simulated side.

`KafkaPort` is a cluster, `Home` is where a resource lives (a file here; the API server for the operator). The loop
knows nothing else. Clock and sleep are injected beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kafkafeatures.core.observation import Observation
from kafkafeatures.core.steps import Outcome, UpdateFeature, Verdict
from kafkafeatures.core.survey import Failure
from kafkafeatures.core.wanted import Wanted


class Unreachable(Exception):
    """Not a single node of the cluster could be asked."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class KafkaPort(Protocol):
    """A cluster, to look at and to change."""

    async def look(self) -> Observation:
        """One fresh picture. Raises `Unreachable` when not a single node could be asked."""

    async def validate(self, changes: Sequence[UpdateFeature]) -> Verdict:
        """One validateOnly of all the changes together; nothing is changed. Never with kraft.version."""

    @property
    def goes_straight(self) -> bool:
        """Whether a change would go to the active controller itself now, and not through a broker."""

    async def update(self, change: UpdateFeature) -> Outcome:
        """Send one UpdateFeatures for one feature, at most once."""


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
