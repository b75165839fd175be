"""Pods that are to be restarted: what a plan says of a roll, and what is left of it.

Pure. By StatefulSets and their update revisions: a node more, or one that is done, leaves a plan standing; another
image is another plan. A pod whose restart a person requests, and whose template would not have it restarted, stands for
itself: an approval is for this life of it, and for no other pod. Made by `core/roll/stage.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from kafkafeatures.api.status import ExcusedTopics, PlannedStage, StepState, StepStatus
from kafkafeatures.core.engine.costs import excused_in
from kafkafeatures.core.engine.stage import StageProposal
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.facts.releases import Undo, format_level
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.restart_node import RestartNode

if TYPE_CHECKING:
    from kafkafeatures.core.roll.targets import ExcusedPartitions

if TYPE_CHECKING:  # no level needs the pods: `apply` starts faster
    from kafkafeatures.core.facts.workloads import StatefulSet, WorkloadsReading

ROLL = "Roll"
"""The kind of a stage that restarts pods."""
ONE_POD = "pod/"
"""Begins the name of a pod that is restarted on request, in `from` and `to` of a stage. No StatefulSet has such a name.
"""


class PodsOfSet(Struct, frozen=True):
    """A StatefulSet that is rolled. `old_revisions`: the revisions of its pods that are not at `new_revision`;
    `remaining`: how many.

    Or one pod that is restarted on request: `name` begins with `ONE_POD`, and `new_revision` is that it has another
    uid.
    """

    name: str
    old_revisions: str
    new_revision: str
    remaining: int

    def __str__(self) -> str:
        if self.name.startswith(ONE_POD):
            return f"restart pod {self.name.removeprefix(ONE_POD)}, as requested"
        return f"restart the pods of {self.name} with revision {self.new_revision}"

    @property
    def way_back(self) -> str:
        """Way back from the end of the roll; empty where no pod has another revision."""
        if not self.old_revisions:
            return ""
        return (
            f"way back to revision {self.old_revisions}: restore that pod template before a level is raised; "
            "nothing is lost"
        )


Pods = Mapping[str, PodsOfSet]
"""The pods to restart: by StatefulSet, also where all are at the update revision, and those that a person requests."""


def pods_of(reading: WorkloadsReading) -> Pods | None:
    """None while a StatefulSet is not there, or its own controller has not seen its newest template: which revision
    that is, is open.
    """
    if reading.missing or not all(
        stateful_set.observed and stateful_set.update_revision for stateful_set in reading.stateful_sets
    ):
        return None
    sets = [*map(_pods_of, reading.stateful_sets), *chain.from_iterable(map(_on_request, reading.stateful_sets))]
    return {pods_of_set.name: pods_of_set for pods_of_set in sets}


def pods_in(observation: Observation) -> Pods | None:
    """The pods of each StatefulSet; empty where no driver reads them, None where they could not be read."""
    if isinstance(observation.workloads, Known):
        return pods_of(observation.workloads.value)
    return {} if observation.workloads.failure.kind is FailureKind.NOT_ASKED else None


def nodes_to_restart(observation: Observation, changes: tuple[UpdateFeature, ...]) -> Mapping[int, str]:
    """Nodes that a person has to restart with a newer Kafka, and why: those that do not support a desired level."""
    return {
        node.id: f"it supports {change.feature} {node.known_range_of(change.feature)}; level "
        f"{format_level(change.feature, change.to_level)} is required"
        for node in observation.nodes
        for change in lacking(node, changes)
    }


def lacking(node: Node, changes: tuple[UpdateFeature, ...]) -> tuple[UpdateFeature, ...]:
    """The changes whose level the node does not support, as far as that is known. A ghost cannot be restarted."""
    if not node.roles or node.state is NodeState.GHOST:
        return ()
    ranges = ((change, node.known_range_of(change.feature)) for change in changes)
    return tuple(change for change, supported in ranges if supported is not None and change.to_level not in supported)


def _pods_of(stateful_set: StatefulSet) -> PodsOfSet:
    older = [pod.revision for pod in stateful_set.pods if pod.revision != stateful_set.update_revision]
    return PodsOfSet(stateful_set.name, ", ".join(sorted(set(older))), stateful_set.update_revision, len(older))


def _on_request(stateful_set: StatefulSet) -> Iterator[PodsOfSet]:
    for pod in stateful_set.pods:
        if pod.restart_requested and pod.revision == stateful_set.update_revision:
            yield PodsOfSet(f"{ONE_POD}{pod.name}", "", f"not {pod.uid}", 1)


def revisions_in(target: Mapping[str, int | str]) -> Mapping[str, int | str]:
    """The revisions of StatefulSets that a stage leads to, without the pods that it restarts on request."""
    return {name: revision for name, revision in target.items() if not name.startswith(ONE_POD)}


class RollWork(Struct, frozen=True):
    """`pods`: all that the stage restarts, with how many are left; of one that has not begun, at least one each."""

    pods: tuple[PodsOfSet, ...]

    @property
    def is_over(self) -> bool:
        """Tell whether every pod is at its revision, as far as that is known."""
        return not any(pod.remaining for pod in self.pods)

    @property
    def counted(self) -> int:
        """A restart is no change that an approval of another plan could be for."""
        return 0

    @property
    def remaining(self) -> Sequence[str]:
        """Remaining restarts, for people."""
        return tuple(str(pod) for pod in self.pods if pod.remaining)

    @property
    def is_irreversible(self) -> bool:
        """Pods can be restarted with the revision of before."""
        return False

    @property
    def is_safe_to_undo(self) -> bool:
        """Pods can be restarted with the revision of before."""
        return True

    def steps(self) -> Iterator[StepStatus]:
        """One for each StatefulSet, however many pods it has."""
        for pods in self.pods:
            yield StepStatus(
                id="",
                action=RestartNode.kind,
                detail=str(pods),
                reversible=True,
                undo=Undo.SAFE.value,
                way_back=pods.way_back,
                state=(StepState.PENDING if pods.remaining else StepState.DONE).value,
            )


class RollProposal(StageProposal, frozen=True):
    """Pods to restart; `pods` is None where they could not be read.

    excused: what this roll may make unavailable, by a consent, with what only the operator needs of it; planned: as the
    plan says it. later: rolls that are to follow once this one is over. is_left: another stage decides on restarts, and
    says what they make unavailable.
    """

    kind: ClassVar[str] = ROLL

    pods: Pods | None
    excused: ExcusedPartitions | None = None
    planned: ExcusedTopics | None = None
    later: tuple[PlannedStage, ...] = ()
    is_left: bool = False

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """The stages of a roll: from which revisions to which."""
        remaining = [pods_of_set for pods_of_set in (self.pods or {}).values() if pods_of_set.remaining]
        if not remaining:
            return self.later
        stage = PlannedStage(
            kind=ROLL,
            start={pods_of_set.name: pods_of_set.old_revisions for pods_of_set in remaining},
            target={pods_of_set.name: pods_of_set.new_revision for pods_of_set in remaining},
            excused=self.planned,
        )
        return (stage, *self.later)

    @property
    def costs(self) -> ExcusedTopics | None:
        """Topics that its restarts make unavailable, by a consent."""
        return self.planned

    @property
    def is_known(self) -> bool:
        """Tell whether the pods were read."""
        return self.pods is not None

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[RollWork, ...] | None:
        """Work of each roll of a plan by now; None where the rolls are not what there is to do."""
        rolls = [stage for stage in stages if stage.kind == ROLL]
        if any(roll.start.keys() != roll.target.keys() or roll.unknown for roll in rolls):
            return None
        if not self.is_left and excused_in(stages) != self.planned:
            return None
        if self.pods is None:
            return tuple(RollWork(pods_rolled_by(roll, None)) for roll in rolls)
        if not rolls:
            return None if self.stages else ()
        targets = [roll.target for roll in rolls]
        following = [stage.target for stage in self.later]
        position = next(
            (
                number
                for number in reversed(range(len(rolls)))
                if targets[number + 1 :] == following and self._is_rolled_to(targets[number])
            ),
            None,
        )
        if position is None:
            return None
        return tuple(
            RollWork(pods_rolled_by(roll, self.pods, is_begun=number == position, over=number < position))
            for number, roll in enumerate(rolls)
        )

    def _is_rolled_to(self, target: Mapping[str, int | str]) -> bool:
        """Tell whether the target is what there is to roll now: the same revisions, whatever is done of it. A pod that
        was restarted on request is no longer there.
        """
        pods = (self.pods or {}).values()
        target_revisions = {pod.name: pod.new_revision for pod in pods}
        remaining_revisions = {pod.name: pod.new_revision for pod in pods if pod.remaining}
        return (
            revisions_in(target).items() <= target_revisions.items() and remaining_revisions.items() <= target.items()
        )


def pods_rolled_by(
    stage: PlannedStage, pods: Pods | None, *, is_begun: bool = True, over: bool = False
) -> tuple[PodsOfSet, ...]:
    """Pods that a stage rolls, with how many are left now; none where that is not known. In the order of the pods that
    were read: the API server sorts what a status says by name.
    """
    current_pods = pods or {}
    ordered = dict.fromkeys((*(name for name in current_pods if name in stage.target), *sorted(stage.target)))

    def left(name: str) -> int:
        if not is_begun:
            return 0 if over else 1
        return current_pods[name].remaining if name in current_pods else 0

    return tuple(
        PodsOfSet(name, str(stage.start.get(name, "")), str(stage.target[name]), left(name)) for name in ordered
    )
