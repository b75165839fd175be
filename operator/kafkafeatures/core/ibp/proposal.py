"""The inter.broker.protocol.version in a plan: from which to which, and what is left of the way.

Pure. One stage, whatever is restarted on the way: a plan that was approved stands while nodes are restarted, and not
once the document names another version. Made by `core/ibp/stage.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from msgspec import Struct

from kafkafeatures.api.status import ExcusedTopics, PlannedStage, PlanStatus, StepState, StepStatus
from kafkafeatures.core.engine.costs import excused_in
from kafkafeatures.core.engine.stage import StageProposal
from kafkafeatures.core.facts.releases import Undo
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.ibp.not_desired import INTER_BROKER_PROTOCOL
from kafkafeatures.core.ibp.progress import IbpProgress, RollPurpose
from kafkafeatures.core.ibp.versions import Version


def shown_in(plan: PlanStatus | None, target: Version) -> ExcusedTopics | None:
    """The topics that a plan shows which leads to this version, or only restarts pods."""
    stages = plan.stages if plan is not None else ()
    elsewhere = any(stage.kind == INTER_BROKER_PROTOCOL and stage.target != {IBP: str(target)} for stage in stages)
    return None if elsewhere else excused_in(stages)


_WAY_BACK = {
    RollPurpose.PIN: "way back: restart the brokers without it; nothing is lost",
    RollPurpose.KAFKA: "way back: restart the brokers with the Kafka of before; nothing is lost",
    RollPurpose.RAISE: "no way back: Kafka has none once brokers use the new version",
}


class IbpWork(Struct, frozen=True):
    """One stage of a plan.

    start, target: versions.
    rolls: rolls that are left, in order; None: not known.
    """

    start: str
    target: str
    rolls: tuple[RollPurpose, ...] | None

    @property
    def is_over(self) -> bool:
        """Tell whether every broker uses the target."""
        return self.rolls == ()

    @property
    def counted(self) -> int:
        """Nothing of it is a change that an approval of another plan could be for: brokers read it from their files."""
        return 0

    @property
    def remaining(self) -> Sequence[str]:
        """Summary of what is left of it, for people."""
        if self.is_over:
            return ()
        if self.start == self.target:
            return (f"{IBP}: set {self.target} on every broker",)
        return (f"{IBP} {self.start} -> {self.target}",)

    @property
    def is_irreversible(self) -> bool:
        """Once brokers speak the new version Kafka knows no way back to an older one."""
        return self.rolls is None or RollPurpose.RAISE in self.rolls

    @property
    def is_safe_to_undo(self) -> bool:
        """Another Kafka, with the version of before, can be exchanged again."""
        return not self.is_irreversible

    def steps(self) -> Iterator[StepStatus]:
        """One for each roll that is left."""
        for roll in self.rolls or ():
            last = roll is RollPurpose.RAISE
            yield StepStatus(
                id="",
                action=INTER_BROKER_PROTOCOL,
                detail=self._detail(roll),
                reversible=not last,
                undo=(Undo.IMPOSSIBLE if last else Undo.SAFE).value,
                way_back=_WAY_BACK[roll],
                state=StepState.PENDING.value,
            )

    def _detail(self, roll: RollPurpose) -> str:
        if roll is RollPurpose.KAFKA:
            return f"restart each broker with a Kafka that knows {self.target}, and {IBP} as it is"
        if roll is RollPurpose.PIN:
            return f"restart each broker that has no {IBP} with the one that it uses now"
        return f"restart each broker with {IBP}={self.target}"


class IbpProposal(StageProposal, frozen=True):
    """Proposal to restart brokers.

    progress: versions that the brokers use, and the next roll.
    is_readable: the cluster is in ZooKeeper mode, and no migration is open.
    excused: topics that all restarts of the plan may make unavailable, by a consent.
    """

    kind: ClassVar[str] = INTER_BROKER_PROTOCOL

    progress: IbpProgress
    is_readable: bool
    excused: ExcusedTopics | None = None

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """One, unless every broker uses the target, or a higher one."""
        brokers = self.progress.known_brokers.values()
        if not self.is_known or not self._rolls or not brokers:
            return ()
        lowest = min(broker.uses for broker in brokers)
        target = {IBP: str(self.progress.target)}
        return (PlannedStage(kind=self.kind, start={IBP: str(lowest)}, target=target, excused=self.excused),)

    @property
    def costs(self) -> ExcusedTopics | None:
        """Topics that the restarts make unavailable: where only pods are restarted, the stage of those says it."""
        return self.excused

    @property
    def is_known(self) -> bool:
        """Tell whether every broker said what it uses."""
        return self.is_readable and bool(self.progress.known_brokers) and not self.progress.unknown

    @property
    def goes_first(self) -> bool:
        """Before any level."""
        return True

    @property
    def _rolls(self) -> tuple[RollPurpose, ...]:
        """All that is left: a broker may have to be restarted in each of them."""
        brokers, target = self.progress.known_brokers.values(), self.progress.target
        is_needed = {
            RollPurpose.PIN: any(not broker.is_set for broker in brokers),
            RollPurpose.KAFKA: any(broker.knows < target for broker in brokers),
            RollPurpose.RAISE: any(broker.uses < target for broker in brokers),
        }
        return tuple(roll for roll in RollPurpose if is_needed[roll])

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[IbpWork, ...] | None:
        """Work that is left; None where the plan leads to another version than the document does now."""
        own_stages = [stage for stage in stages if stage.kind == self.kind]
        if stages and excused_in(stages) != self.excused:
            return None
        if not own_stages:
            return None if self.stages else ()
        if len(own_stages) > 1 or own_stages[0].target != {IBP: str(self.progress.target)} or own_stages[0].unknown:
            return None
        start = str(own_stages[0].start.get(IBP, ""))
        return (IbpWork(start, str(self.progress.target), self._rolls if self.is_known else None),)
