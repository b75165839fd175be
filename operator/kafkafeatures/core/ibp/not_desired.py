"""Name of the inter.broker.protocol.version in a plan, and its proposal where none is wanted. Pure, and light."""

from __future__ import annotations

from typing import ClassVar

from kafkafeatures.core.engine.stage import NoProposal

INTER_BROKER_PROTOCOL = "InterBrokerProtocol"
"""The kind of a stage that raises it."""


class NoIbp(NoProposal, frozen=True):
    """Nothing to do: none is wanted, or the cluster has none."""

    kind: ClassVar[str] = INTER_BROKER_PROTOCOL
