"""The stage that unregisters one broker: what it wants, what prevents it, and what is left of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.api.status import PlannedStage, StepState, StepStatus
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Act, Decision, Done
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements, StageInput
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.stage import Conditions, Next, StageProposal, StageState, StageWork
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.releases import Undo
from kafkafeatures.core.facts.workloads import WorkloadsReading
from tests.contract.third_kind.step import UnregisterBroker, asked_for, registered_in

UNREGISTRATION = "Unregistration"
"""A stage is about one broker: a plan has as many of them as there are brokers."""
BROKERS_UNREGISTERED = Condition("BrokersUnregistered")  # which only the copy has


def work_of(step: UnregisterBroker, *, is_over: bool) -> StageWork:
    """The unregistration of one broker, which is still registered or not; a broker that starts registers itself."""
    status = StepStatus(
        id="", action=step.kind, detail=str(step), reversible=True, undo="Safe", consent=step.consent,
        state=(StepState.DONE if is_over else StepState.PENDING).value,
    )  # fmt: skip
    return StageWork(() if is_over else (str(step),), Undo.SAFE, (status,), counted=int(is_over))


class UnregistrationPart(StageProposal, frozen=True):
    """The brokers to unregister. registered: ids of registered brokers; None if they were not read."""

    kind: ClassVar[str] = UNREGISTRATION

    wanted: tuple[int, ...]
    registered: frozenset[int] | None

    @property
    def is_known(self) -> bool:
        """Tell whether the registrations were read."""
        return self.registered is not None

    @property
    def pending(self) -> tuple[int, ...]:
        """Brokers that are to be unregistered."""
        return tuple(one for one in self.wanted if one in (self.registered or ()))

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """A stage for each broker."""
        return tuple(
            PlannedStage(kind=UNREGISTRATION, start={f"broker.{one}": 1}, target={f"broker.{one}": 0})
            for one in self.pending
        )

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[StageWork, ...] | None:
        """What each stage comes to by now; None where they are not what there is to do."""
        own = [one for one in stages if one.kind == UNREGISTRATION]
        brokers = [int(name.removeprefix("broker.")) for one in own for name in one.target]
        left = self.registered is None or tuple(one for one in brokers if one in self.registered) == self.pending
        if not left or len(brokers) != len(own):
            return None
        there = frozenset(brokers) if self.registered is None else self.registered
        return tuple(work_of(UnregisterBroker(one), is_over=one not in there) for one in brokers)


class UnregistrationNow(StageState, frozen=True):
    """The state of the stage."""

    kind: ClassVar[str] = UNREGISTRATION

    facts: StageInput
    part: UnregistrationPart

    @property
    def is_due(self) -> bool:
        """Tell whether a broker has to be unregistered."""
        return bool(self.part.pending)

    @property
    def outlook(self) -> str:
        """The effects of the stage."""
        return "would " + (", ".join(str(UnregisterBroker(one)) for one in self.part.pending) or "do nothing")

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """All brokers that run, and all consents that were used."""
        return tuple(
            found
            for one in self.part.pending
            for found in (*_is_gone(self.facts.observation, one), *_has_consent(self.facts, UnregisterBroker(one)))
        )

    @property
    def needs_approval(self) -> bool:
        """Tell whether every plan needs an approval: this kind needs none by itself."""
        return self.facts.desired.policy is ApprovalPolicy.ALWAYS

    @property
    def next(self) -> Next:
        """The first of them."""
        if self.part.pending:
            return Act(UnregisterBroker(self.part.pending[0]))
        return Done(Reason.IN_SYNC, "no broker is to be unregistered")

    def conditions(self, decision: Decision) -> Conditions:
        """The condition that all these brokers are unregistered."""
        if self.part.pending:
            return {BROKERS_UNREGISTERED: ("False", Reason.IN_PROGRESS, self.outlook)}
        return {BROKERS_UNREGISTERED: ("True", Reason.ALL_CURRENT, "no broker is to be unregistered")}


def _is_gone(seen: Observation, broker: int) -> Iterator[Blocker]:
    for node in seen.nodes:
        if node.id == broker and node.state is not NodeState.GHOST:
            yield Blocker(BlockerKind.NODE_UNKNOWN, f"{node.title} runs", f"stop {node.title} first", nodes=(node,))


def _has_consent(facts: StageInput, step: UnregisterBroker) -> Iterator[Blocker]:
    if step.consent in facts.memory.spent:
        remedy = f"remove the consent {step.consent} and add it again"
        yield Blocker(BlockerKind.CONSENT, f"{step.target} registered again", remedy, reason=Reason.CONSENT_SPENT)


class Unregistrations:
    """The kind of stage that unregisters a broker."""

    kind: ClassVar[str] = UNREGISTRATION

    def is_withdrawn(
        self, stages: Sequence[PlannedStage], wanted: DesiredState, workloads: WorkloadsReading | Failure
    ) -> bool:
        """Tell whether no consent names a broker of these stages any more."""
        asked = {f"broker.{one}" for one in asked_for(wanted.consents)}
        return any(not stage.target.keys() <= asked for stage in stages)

    def demands(self, asked: ReadContext) -> ReadRequirements:
        """Require no reading beyond those that are always made."""
        return ReadRequirements()

    def propose(self, facts: StageInput, later: tuple[StageProposal, ...]) -> UnregistrationPart:
        """Propose a stage for each broker that a consent names."""
        return UnregistrationPart(asked_for(facts.desired.consents), registered_in(facts.observation))

    def judge(self, facts: StageInput, proposal: Proposal) -> UnregistrationNow | None:
        """The state of the stage by this observation."""
        part = next(one for one in proposal.parts if isinstance(one, UnregistrationPart))
        return UnregistrationNow(facts, part) if facts.ours else None
