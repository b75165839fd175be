"""Name of this kind of stage in a plan, and its proposal if the document names no inter.broker.protocol.version.

Pure. Called by `core/ibp/stage.py`; it imports nothing that judges such a stage, as nearly no document wants one.
"""

from __future__ import annotations

from typing import ClassVar

from kafkafeatures.core.engine.stage import NoProposal

INTER_BROKER_PROTOCOL = "InterBrokerProtocol"
"""Name of the kind, as in `status.plan.stages`."""


class NoIbp(NoProposal, frozen=True):
    """Proposal to do nothing: no version is wanted, or the cluster is in KRaft mode and has none."""

    kind: ClassVar[str] = INTER_BROKER_PROTOCOL
