"""The kind of stage that raises the inter.broker.protocol.version of a cluster in ZooKeeper mode.

Pure. Called by `core/kinds.py`. `core/ibp/state.py`, which judges the stage, is imported only where a document names a
version, as nearly no document does, and a command would start more slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from kafkafeatures.api.status import PlannedStage
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements, StageInput
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.stage import StageProposal, StageState
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.ibp import INTER_BROKER_PROTOCOL

if TYPE_CHECKING:
    from kafkafeatures.core.facts.workloads import WorkloadsReading


class InterBrokerProtocols:
    """The kind of stage that raises the inter.broker.protocol.version."""

    kind: ClassVar[str] = INTER_BROKER_PROTOCOL

    def is_withdrawn(
        self, stages: Sequence[PlannedStage], desired: DesiredState, workloads: WorkloadsReading | Failure
    ) -> bool:
        """Tell whether the document names another version by now, or none."""
        if not desired.ibp:
            return True
        from kafkafeatures.core.ibp.state import target_of

        return any(stage.target != {IBP: str(target_of(desired))} for stage in stages)

    def demands(self, read_context: ReadContext) -> ReadRequirements:
        """Readings for the next roll; none if no version is wanted."""
        if not read_context.desired.ibp:
            return ReadRequirements()
        from kafkafeatures.core.ibp.state import demands_of

        return demands_of(read_context)

    def propose(self, facts: StageInput, later: tuple[StageProposal, ...]) -> StageProposal | None:
        """Rolls from the versions that brokers use to the version that the document names; None if it names none, or
        the cluster is in KRaft mode.
        """
        if not facts.desired.ibp or facts.observation.in_kraft_mode:
            return None
        from kafkafeatures.core.ibp.state import proposed

        return proposed(facts)

    def judge(self, facts: StageInput, proposal: Proposal) -> StageState | None:
        """State of the stage; None if no version is wanted."""
        if not facts.desired.ibp:
            return None
        from kafkafeatures.core.ibp.proposal import IbpProposal
        from kafkafeatures.core.ibp.state import ibp_now

        return ibp_now(facts, next((part for part in proposal.parts if isinstance(part, IbpProposal)), None))
