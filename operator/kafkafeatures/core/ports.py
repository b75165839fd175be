"""What a reconciliation needs of a Kafka cluster, as a protocol: raw readings, and two requests.

The real side is `kafka/cluster.py`, the simulated one `kafkasim/ports.py`. A port judges nothing: `core/observe.py`
makes the observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkafeatures.core.observation import Observation
    from kafkafeatures.core.readings import Failure
    from kafkafeatures.core.steps import Outcome, UpdateFeature, Verdict


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
    def sends_to_active_controller(self) -> bool:
        """Whether a change would go to the active controller itself now, and not through a broker."""

    async def update(self, change: UpdateFeature) -> Outcome:
        """Send one UpdateFeatures for one feature, at most once."""
