"""The kind of stage that changes finalized levels: the next change, and what prevents it.

Pure. Called in every reconciliation through `core/kinds.py`. The algorithm:

 1. List the changes that lead to the desired levels, in the order in which Kafka accepts them: `levels_to_move`,
    `changes_between`.
 2. Report levels that were changed outside since they were reached, or correct them, as the document says:
    `drift_of`.
 3. Run all checks, so that every blocker is known at once; a check that lacks a reading blocks: `blockers`, `CHAIN`.
 4. Have the active controller judge the changes by a dry run, all at once but kraft.version: `to_validate`, `DryRun`.
 5. Require a consent for each downgrade and for a dynamic quorum, and an approval for changes that the document does
    not name by their level: `what_is_lost_has_a_consent`, `needs_approval`.
 6. Wait before an irreversible change until every node has been healthy for `finalizeAfter`: `soak_of`, `soaking`.
 7. Wait while a broker may deliver the last request for the feature once more: `_wait_for_second_delivery`.
 8. Write the intent of one change, then send the change: `UpdateFeature`. Nothing else is sent until it is settled.
 9. Settle it by later readings, never by the response alone, which may be lost: `ChangeInFlight.settle`.
10. Once no change remains, verify the levels on every live node: `read_back`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import PlannedStage, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, grouped
from kafkafeatures.core.engine.decisions import Act, Decision, Stalled, Wait, blocked, first_of
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements, StageInput
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.settling import BROKER_KEEPS
from kafkafeatures.core.engine.stage import Conditions, Next, StageMemory, StageProposal, StageState, SummaryRank
from kafkafeatures.core.engine.steps import DryRun, DryRunRejected, DryRunUnavailable, Step
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.releases import Undo
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, QUORUM_SERVERS, QUORUM_VOTERS
from kafkafeatures.core.levels.behind import halted_by, with_nodes_behind
from kafkafeatures.core.levels.changes import changes_between, to_validate
from kafkafeatures.core.levels.check_input import LevelCheckInput, unknown_features_in
from kafkafeatures.core.levels.checks import blockers
from kafkafeatures.core.levels.drift import drift_of
from kafkafeatures.core.levels.dynamic_quorum import makes_dynamic
from kafkafeatures.core.levels.min_insync import writes_min_insync
from kafkafeatures.core.levels.prerequisites import settings_of
from kafkafeatures.core.levels.proposal import LEVELS, LevelsProposal, levels_to_move
from kafkafeatures.core.levels.read_back import read_back
from kafkafeatures.core.levels.report import drift_detected, features_finalized, with_levels
from kafkafeatures.core.levels.soak import LOOK_AGAIN, Soak, soak_of, with_soak
from kafkafeatures.core.levels.update_feature import UpdateFeature

if TYPE_CHECKING:
    from kafkafeatures.core.facts.workloads import WorkloadsReading


class LevelsState(StageState, frozen=True):
    """State of the levels.

    facts: the readings of this reconciliation, and the document.
    part: the proposal about levels.
    soak: the soak that an irreversible change waits for; None for none.
    verdict: answer of the active controller to a dry run of exactly the changes in `dry_run`; None while there is none.
    """

    kind: ClassVar[str] = LEVELS

    facts: StageInput
    part: LevelsProposal
    soak: Soak | None = None
    verdict: DryRun | None = None

    @cached_property
    def unknown_features(self) -> tuple[tuple[str, int], ...]:
        """Desired features that no node knows, with their levels."""
        return unknown_features_in(self.facts.desired.levels, self.facts.observation)

    @cached_property
    def is_due(self) -> bool:
        """Tell whether a level has to be changed, or cannot be read."""
        observation = self.facts.observation
        # In ZooKeeper mode no level can be finalized, so a desired one is never in sync, not even level 0.
        readable = not self.part.desired if observation.in_zookeeper_mode else isinstance(observation.finalized, Known)
        return bool(self.part.changes or self.unknown_features or not readable)

    @property
    def summary_rank(self) -> SummaryRank:
        """Lowest rank if the document names no level: other stages have more to say."""
        return SummaryRank.WANTED if self.part.desired else SummaryRank.NOTHING_WANTED

    @property
    def outlook(self) -> str:
        """Message about what would be changed, and what prevents it."""
        would = "would change " + (", ".join(map(str, self.part.changes)) or "nothing")
        groups = grouped(self.blockers)
        if groups:
            return f"{would}; blocked: {first_of(groups[0], groups)}"
        return f"{would}; {self.soak}" if self.soak is not None and not self.soak.is_over else would

    @cached_property
    def blockers(self) -> tuple[Blocker, ...]:
        """All blockers of the changes; empty without changes."""
        if not self.is_due:
            return ()
        facts, desired = self.facts, self.facts.desired
        return blockers(
            LevelCheckInput(
                facts.observation, self.part.changes, self.verdict, desired.consents, facts.memory.spent,
                self.unknown_features, desired.cluster_flags,
            )
        )  # fmt: skip

    @property
    def drift(self) -> Decision | None:
        return drift_of(self.part, self.facts.desired.on_drift, self.facts.memory, self.blockers)

    @property
    def blocked(self) -> Wait | Stalled | None:
        """Decision for the blockers, or else for a dry run that was not accepted; None if neither prevents the
        changes.
        """
        if self.blockers:
            facts = self.facts
            wait, timeout = blocked(self.blockers), facts.desired.rollout.node_timeout
            return halted_by(wait, self.blockers, facts.remembered, facts.age_of, timeout) if facts.ours else wait
        return self._rejected() if self.is_due else None

    def _rejected(self) -> Wait | Stalled | None:
        """Decision for a dry run that was rejected, or could not be made; None if it was accepted, or none is made."""
        verdict = self.verdict
        if isinstance(verdict, DryRunRejected):
            return Stalled(
                Reason.CONTROLLER_REJECTED,
                f"dry run (validateOnly) rejected by the active controller: {verdict.message}",
                subject="active controller",
                remedy="change the levels of the document, or what the active controller names",
            )
        if not self.dry_run:
            return None  # kraft.version alone is judged when it is sent
        if isinstance(verdict, DryRunUnavailable) or verdict is None:
            reason = verdict.reason if verdict else "not run yet"
            if verdict and verdict.rights:
                return Stalled(
                    Reason.NOT_AUTHORIZED, reason, subject="dry run", remedy="grant this principal ALTER on the cluster"
                )
            return Wait(
                Reason.PREFLIGHT,
                f"dry run (validateOnly) unavailable: {reason}",
                subject="dry run",
                remedy="make the active controller reachable: bootstrapControllers, network, TLS",
            )
        return None

    def with_verdict(self, verdict: DryRun) -> LevelsState:
        return replace(self, verdict=verdict)

    @property
    def dry_run(self) -> tuple[UpdateFeature, ...]:
        """Changes for the dry run by the active controller."""
        return to_validate(self.part.changes)

    @property
    def soaking(self) -> Wait | None:
        soak = self.soak
        if soak is None or soak.is_over or not self.part.changes or self.part.changes[0] not in soak.changes:
            return None
        return Wait(
            Reason.SOAKING,
            str(soak),
            delay=min(LOOK_AGAIN, soak.remaining.total_seconds()),
            steady=True,
            is_dated=True,
            subject="spec.features.finalizeAfter",
            remedy="wait until it is over, or shorten spec.features.finalizeAfter",
        )

    @property
    def unverified(self) -> tuple[str, ...]:
        return self.part.unverified

    @property
    def needs_approval(self) -> bool:
        """Tell whether the changes need an approval.

        A change that is not safe to undo is approved by its exact level in the document. A level that the operator
        computed, or a correction of drift, is not approved that way. To correct drift by an irreversible change needs a
        new approval under every policy. Levels that no person wrote approve neither an irreversible change nor one that
        needs a consent.
        """
        desired, part = self.facts.desired, self.part
        if makes_dynamic(part.changes) and desired.policy is not ApprovalPolicy.NEVER:
            return True  # the level and the consent do not approve the addresses that are frozen
        if not desired.approves_by_name and any(
            change.undo is Undo.IMPOSSIBLE or change.consent for change in part.changes
        ):
            return True
        if desired.policy is ApprovalPolicy.ALWAYS:
            return True
        if desired.policy is ApprovalPolicy.NEVER:
            return any(change.undo is Undo.IMPOSSIBLE for change in part.changes if change in part.drifted)
        return any(
            change.undo is not Undo.SAFE and (change.feature not in desired.levels or change in part.drifted)
            for change in part.changes
        )

    @cached_property
    def next(self) -> Next:
        """The next change; where none remains, the result of reading the levels back."""
        if not self.part.changes:
            return read_back(self.part.desired, self.facts.observation, self.part.held_back)
        change = self.part.changes[0]
        return self._wait_for_second_delivery(change) or Act(change)

    def _wait_for_second_delivery(self, change: UpdateFeature) -> Wait | None:
        """Wait while a broker may deliver the feature's last request once more, which would undo this change; else
        None.
        """
        remaining = BROKER_KEEPS - self.facts.memory.passed_on.get(change.feature, BROKER_KEEPS)
        if remaining <= timedelta(0):
            return None
        return Wait(
            Reason.VERIFYING,
            f"a broker forwarded the last change of {change.feature}, and may do so again for 5 minutes; {change} is "
            "sent after that; changes that can be sent to the active controller itself need no such wait",
            delay=min(remaining.total_seconds(), LOOK_AGAIN),
            subject=change.feature,
            remedy="wait for 5 minutes, or give access to the controllers in spec.cluster",
        )

    @property
    def stage_memory(self) -> Mapping[str, StageMemory]:
        """The soak, for the next reading."""
        return {LEVELS: self.soak} if self.soak is not None else {}

    def corrects_drift(self, step: Step) -> bool:
        return step in self.part.drifted

    def remembered(self, status: Status) -> Status:
        """The status with the soak, and with the nodes that are too old."""
        if not self.facts.ours:
            return status
        status = with_nodes_behind(status, self.blockers, self.facts.stamp)
        return with_soak(status, self.soak, is_changing=self.facts.is_changing)

    def reported(self, decision: Decision, status: Status, previous: Status) -> Status:
        """The status with every feature and its state."""
        return with_levels(status, decision, self.facts.observation, self.part, previous)

    def conditions(self, decision: Decision) -> Conditions:
        """Conditions FeaturesFinalized and DriftDetected."""
        return {
            Condition.FEATURES_FINALIZED: features_finalized(decision, self.part, self.facts.observation),
            Condition.DRIFT_DETECTED: drift_detected(self.part),
        }


class Levels:
    """Kind of stage that changes finalized levels."""

    kind: ClassVar[str] = LEVELS

    def is_withdrawn(
        self, stages: Sequence[PlannedStage], desired: DesiredState, workloads: WorkloadsReading | Failure
    ) -> bool:
        """Tell whether the document now asks for other levels than these stages."""
        targets = {feature: level for stage in stages for feature, level in stage.target.items()}
        desired_levels = desired.desired({})
        return any(desired_levels.get(feature) != level for feature, level in targets.items())

    def demands(self, read_context: ReadContext) -> ReadRequirements:
        """Settings to be read: settings that a raise would change unnoticed, settings that it requires, and, if the
        document names a kraft.version above 0, the settings of nodes that name the voters.

        Before the levels are read, those of the last status are used, so that nodes need not be read a second time.
        """
        of_status = {feature.name: feature.finalized or 0 for feature in read_context.status.features}
        finalized = of_status if read_context.observation is None else read_context.observation.known_levels
        changes = changes_between(read_context.desired.desired(finalized), finalized)
        settings = settings_of(changes)
        if writes_min_insync(changes):
            settings |= {MIN_INSYNC_REPLICAS}
        if read_context.desired.levels.get(KRAFT_VERSION, 0) > 0:
            settings |= {QUORUM_VOTERS, QUORUM_SERVERS}
        return ReadRequirements(settings=settings)

    def propose(self, facts: StageInput, later: tuple[StageProposal, ...]) -> LevelsProposal:
        """Changes from the finalized to the desired levels."""
        return levels_to_move(facts.desired, facts.observation, facts.memory)

    def judge(self, facts: StageInput, proposal: Proposal) -> LevelsState:
        """State of the levels, with the soak that an irreversible change waits for."""
        part = levels_in(proposal)
        return LevelsState(facts, part, soak_of(facts, part.changes))


def levels_in(proposal: Proposal) -> LevelsProposal:
    """The proposal about levels."""
    return next(part for part in proposal.parts if isinstance(part, LevelsProposal))
