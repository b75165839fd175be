"""The change of inter.broker.protocol.version as a stage of a plan: from which version to which, and the rolls that
remain.

Pure. Made by `core/ibp/state.py`. The change is one stage, whichever brokers are restarted on the way. So an approved
plan stays valid while brokers are restarted, and becomes invalid once the document names another version.
"""

from __future__ import annotations

from typing import ClassVar

from kafkafeatures.api.status import ExcusedTopics, PlannedStage, PlanStatus, StepState, StepStatus
from kafkafeatures.core.engine.costs import excused_in
from kafkafeatures.core.engine.stage import StageProposal, StageWork
from kafkafeatures.core.facts.releases import Undo
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.ibp import INTER_BROKER_PROTOCOL
from kafkafeatures.core.ibp.progress import IbpProgress, RollPurpose
from kafkafeatures.core.ibp.versions import Version


def shown_in(plan: PlanStatus | None, target: Version) -> ExcusedTopics | None:
    """Topics that a plan shows as unavailable during restarts, if it leads to this version or only restarts pods; else
    None.
    """
    stages = plan.stages if plan is not None else ()
    elsewhere = any(stage.kind == INTER_BROKER_PROTOCOL and stage.target != {IBP: str(target)} for stage in stages)
    return None if elsewhere else excused_in(stages)


_WAY_BACK = {
    RollPurpose.PIN: "way back: restart the brokers without it; nothing is lost",
    RollPurpose.KAFKA: "way back: restart the brokers with the Kafka of before; nothing is lost",
    RollPurpose.RAISE: "no way back: Kafka has none once brokers use the new version",
}


class IbpProposal(StageProposal, frozen=True):
    """Proposal to restart brokers.

    progress: versions that the brokers use, and the next roll.
    in_zookeeper_mode: False: the cluster is in KRaft mode or in a migration, or its mode is not known. Then the version
        has no meaning, so the stage proposes nothing.
    excused: topics that all restarts of the plan may make unavailable, by a consent.
    """

    kind: ClassVar[str] = INTER_BROKER_PROTOCOL

    progress: IbpProgress
    in_zookeeper_mode: bool
    excused: ExcusedTopics | None = None

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """One stage; none if nothing is left to do, or if the versions are not known."""
        brokers = self.progress.known_brokers.values()
        if not self.is_known or not self._rolls or not brokers:
            return ()
        lowest = min(broker.uses for broker in brokers)
        target = {IBP: str(self.progress.target)}
        return (PlannedStage(kind=self.kind, start={IBP: str(lowest)}, target=target, excused=self.excused),)

    @property
    def costs(self) -> ExcusedTopics | None:
        """Topics that the restarts make unavailable, for a plan in which no stage names them yet."""
        return self.excused

    @property
    def is_known(self) -> bool:
        """Tell whether the cluster is in ZooKeeper mode and every broker reported its version."""
        return self.in_zookeeper_mode and bool(self.progress.known_brokers) and not self.progress.unknown

    @property
    def goes_first(self) -> bool:
        """Always True: the version comes before any level."""
        return True

    @property
    def _rolls(self) -> tuple[RollPurpose, ...]:
        """Purposes of all rolls that remain; a broker may have to be restarted in each of them."""
        brokers, target = self.progress.known_brokers.values(), self.progress.target
        is_needed = {
            RollPurpose.PIN: any(not broker.is_set for broker in brokers),
            RollPurpose.KAFKA: any(broker.knows < target for broker in brokers),
            RollPurpose.RAISE: any(broker.uses < target for broker in brokers),
        }
        return tuple(roll for roll in RollPurpose if is_needed[roll])

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[StageWork, ...] | None:
        """Remaining work; None if the plan leads to another version than that of the document now, or if other topics
        become unavailable than it shows.
        """
        own_stages = [stage for stage in stages if stage.kind == self.kind]
        if stages and excused_in(stages) != self.excused:
            return None
        if not own_stages:
            return None if self.stages else ()
        if len(own_stages) > 1 or own_stages[0].target != {IBP: str(self.progress.target)} or own_stages[0].unknown:
            return None
        if not self.is_known:  # the version may still have to be raised
            return (StageWork(self._remaining(own_stages[0]), Undo.IMPOSSIBLE, ()),)
        rolls = self._rolls
        return (
            StageWork(
                self._remaining(own_stages[0]) if rolls else (),
                Undo.IMPOSSIBLE if RollPurpose.RAISE in rolls else Undo.SAFE,
                tuple(map(self._step, rolls)),
            ),
        )

    def _remaining(self, stage: PlannedStage) -> tuple[str, ...]:
        """Summary of what remains, for people."""
        start, target = str(stage.start.get(IBP, "")), str(self.progress.target)
        return (f"{IBP}: set {target} on every broker" if start == target else f"{IBP} {start} -> {target}",)

    def _step(self, roll: RollPurpose) -> StepStatus:
        """A roll that remains, as a step of a plan. Kafka has no way back to an older version."""
        raises_version = roll is RollPurpose.RAISE
        return StepStatus(
            id="",
            action=INTER_BROKER_PROTOCOL,
            detail=self._detail(roll),
            reversible=not raises_version,
            undo=(Undo.IMPOSSIBLE if raises_version else Undo.SAFE).value,
            way_back=_WAY_BACK[roll],
            state=StepState.PENDING.value,
        )

    def _detail(self, roll: RollPurpose) -> str:
        target = self.progress.target
        if roll is RollPurpose.KAFKA:
            return f"restart each broker with a Kafka that knows {target}, and {IBP} as it is"
        if roll is RollPurpose.PIN:
            return f"restart each broker that has no {IBP} with the one that it uses now"
        return f"restart each broker with {IBP}={target}"
