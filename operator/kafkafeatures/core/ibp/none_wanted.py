"""What the inter.broker.protocol.version in a plan is called, and what there is of it where none is wanted. Pure, and
light.
"""

from __future__ import annotations

from typing import ClassVar

from kafkafeatures.api.status import Stage
from kafkafeatures.core.engine.stage import Part, Work

INTER_BROKER_PROTOCOL = "InterBrokerProtocol"
"""The kind of a stage that raises it."""


class NoIbp(Part, frozen=True):
    """Nothing to do: none is wanted, or the cluster has none."""

    kind: ClassVar[str] = INTER_BROKER_PROTOCOL

    @property
    def stages(self) -> tuple[Stage, ...]:
        """There are none."""
        return ()

    @property
    def is_known(self) -> bool:
        """There is nothing to be known."""
        return True

    @property
    def unverified(self) -> tuple[str, ...]:
        """No consent is needed."""
        return ()

    def work_of(self, stages: tuple[Stage, ...]) -> tuple[Work, ...] | None:
        """None where a plan raises one that is no longer wanted."""
        return None if any(stage.kind == INTER_BROKER_PROTOCOL for stage in stages) else ()
