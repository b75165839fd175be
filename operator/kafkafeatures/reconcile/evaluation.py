"""Result of `reconcile/evaluate.py`: the decision, what it rests on, and the status that reports it. Nothing was sent
yet; `reconcile/act.py` and the commands `plan` and `apply` continue from here.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from math import inf

from msgspec import Struct

from kafkafeatures import __version__
from kafkafeatures.api.records import keeping_unknown
from kafkafeatures.api.status import ApprovedBy, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.approval import approved_by
from kafkafeatures.core.engine.decisions import Decision
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.stage import StageState
from kafkafeatures.core.engine.steps import DryRun
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.levels.accounted import position_of, sent_by
from kafkafeatures.core.report.status import status_of, status_of_wrong_cluster
from kafkafeatures.reconcile.ports import Resource


class Unread(Struct, frozen=True):
    """Result if no node of the cluster answered. `status`: the status that reports the failure."""

    resource: Resource
    failure: Failure
    status: Status


class Evaluation(Struct, frozen=True, dict=True):
    """A reconciliation up to its decision.

    remembered: the previous status, with settled steps closed.
    stages: state of each stage.
    verdict: the server's answer to the dry run; None where there was nothing to ask.
    ours: False where another cluster answers, or one whose id is not known, or if the metadata log is not the one that
        the status describes.
    read_at: time before anything was read, in seconds of `ReconcileContext.monotonic`.
    is_accounted: `remembered` accounts for all changes of levels in the metadata log. Of no meaning unless `ours`.
    """

    resource: Resource
    observation: Observation
    remembered: Status
    proposal: Proposal
    stages: tuple[StageState, ...]
    decision: Decision
    verdict: DryRun | None
    ours: bool
    current_time: datetime
    read_at: float = -inf
    is_accounted: bool = False

    @property
    def desired(self) -> DesiredState:
        """What the document asks for."""
        return self.resource.desired

    @property
    def approved_by(self) -> ApprovedBy | None:
        """Way in which the plan was approved; None while it is not, or needs no approval."""
        waits = any(stage.waits_for_approval(self.desired) for stage in self.stages)
        return approved_by(self.desired, self.proposal.plan, waits=waits)

    @cached_property
    def status(self) -> Status:
        """The status that reports the evaluation."""
        if not self.ours:
            previous = replace(self.resource.status, spent_consents=self.remembered.spent_consents)
            return status_of_wrong_cluster(
                self.decision, generation=self.resource.generation, previous=previous, at=self.current_time
            )
        status = status_of(
            self.decision,
            self.observation,
            self.proposal.plan,
            self.stages,
            generation=self.resource.generation,
            previous=self.remembered,
            version=__version__,
            now=self.current_time,
            approved_by=self.approved_by,
            clients=self.desired.clients,
        )
        position = position_of(self.observation) if self.is_accounted and not sent_by(status) else None
        if position is None or (status == self.resource.status and status.log_position is not None):
            return status  # the log grows all the time, so its end alone is no reason to write the status
        # Fields that another release has added to the position stay.
        return keeping_unknown(replace(status, log_position=position), status)
