"""Restarts in a plan: the pods to restart, and how many of them remain.

Pure. A plan names StatefulSets and their update revisions, so it stays valid if a node is added or restarted; another
image makes another plan. A pod whose restart a person requests, although it has the update revision already, is named
by itself with its uid, so that an approval covers the restart of this very pod only. Made by `core/roll/stage.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from kafkafeatures.api.status import ExcusedTopics, PlannedStage, StepState, StepStatus
from kafkafeatures.core.engine.costs import excused_in
from kafkafeatures.core.engine.stage import StageProposal, StageWork
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
"""Prefix of the name of a pod that is restarted on request, in `from` and `to` of a stage. No StatefulSet has such a
name.
"""


class PodsOfSet(Struct, frozen=True):
    """Pods of a StatefulSet that are rolled, or one pod that is restarted on request.

    name: name of the StatefulSet; of one pod, `ONE_POD` and its name.
    old_revisions: revisions of the pods that are not at `new_revision`, joined by ", ".
    new_revision: update revision; of one pod, "not" and its present uid.
    remaining: number of pods that are still to be restarted.
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
"""The pods to restart, by `PodsOfSet.name`. A StatefulSet is listed even if all its pods are at the update revision;
not a set whose outdated pods another operator restarts.
"""


def pods_of(reading: WorkloadsReading) -> Pods | None:
    """Pods to restart; None while a StatefulSet does not exist, or its own controller has not processed its newest
    template: the update revision is not known then.
    """
    if reading.missing or not all(
        stateful_set.observed and stateful_set.update_revision for stateful_set in reading.stateful_sets
    ):
        return None
    rolled = (stateful_set for stateful_set in reading.stateful_sets if stateful_set.restarts_outdated)
    entries = [*map(_pods_of, rolled), *chain.from_iterable(map(_on_request, reading.stateful_sets))]
    return {entry.name: entry for entry in entries}


def pods_in(observation: Observation) -> Pods | None:
    """Pods to restart, as observed; empty where no driver reads pods, None where they could not be read."""
    if isinstance(observation.workloads, Known):
        return pods_of(observation.workloads.value)
    return {} if observation.workloads.failure.kind is FailureKind.NOT_ASKED else None


def nodes_to_restart(observation: Observation, changes: tuple[UpdateFeature, ...]) -> Mapping[int, str]:
    """Nodes that a person has to restart with a newer Kafka, as they do not support a desired level; by id, with the
    reason.
    """
    return {
        node.id: f"it supports {change.feature} {node.known_range_of(change.feature)}; level "
        f"{format_level(change.feature, change.to_level)} is required"
        for node in observation.nodes
        for change in lacking(node, changes)
    }


def lacking(node: Node, changes: tuple[UpdateFeature, ...]) -> tuple[UpdateFeature, ...]:
    """Changes whose level the node does not support, as far as that is known; none for a ghost, which cannot be
    restarted.
    """
    if not node.roles or node.state is NodeState.GHOST:
        return ()
    ranges = ((change, node.known_range_of(change.feature)) for change in changes)
    return tuple(change for change, supported in ranges if supported is not None and change.to_level not in supported)


def _pods_of(stateful_set: StatefulSet) -> PodsOfSet:
    """Pods of this set that do not have its update revision."""
    older = [pod.revision for pod in stateful_set.pods if pod.revision != stateful_set.update_revision]
    return PodsOfSet(stateful_set.name, ", ".join(sorted(set(older))), stateful_set.update_revision, len(older))


def _on_request(stateful_set: StatefulSet) -> Iterator[PodsOfSet]:
    """Each pod of this set whose restart a person requests although it has the update revision."""
    for pod in stateful_set.pods:
        if pod.restart_requested and pod.revision == stateful_set.update_revision:
            yield PodsOfSet(f"{ONE_POD}{pod.name}", "", f"not {pod.uid}", 1)


def revisions_in(target: Mapping[str, int | str]) -> Mapping[str, int | str]:
    """The revisions of StatefulSets that a stage leads to, without the pods that it restarts on request."""
    return {name: revision for name, revision in target.items() if not name.startswith(ONE_POD)}


def _work(all_pods: tuple[PodsOfSet, ...]) -> StageWork:
    """Work of a roll that restarts these pods, done or not: one step for each StatefulSet, however many pods it has."""
    steps = (
        StepStatus(
            id="",
            action=RestartNode.kind,
            detail=str(pods),
            reversible=True,
            undo=Undo.SAFE.value,
            way_back=pods.way_back,
            state=(StepState.PENDING if pods.remaining else StepState.DONE).value,
        )
        for pods in all_pods
    )
    return StageWork(tuple(str(pods) for pods in all_pods if pods.remaining), Undo.SAFE, tuple(steps))


class RollProposal(StageProposal, frozen=True):
    """Proposal to restart pods.

    pods: pods to restart; None: they could not be read.
    excused: topics that this roll may make unavailable, by a consent, and the targets that the consent is for.
    planned: the same topics, as the plan shows them.
    later: rolls that follow once this one is over.
    is_left_to_others: the stage of a migration or of the inter.broker.protocol.version decides on restarts, and its own
        entry in the plan shows the topics that become unavailable.
    """

    kind: ClassVar[str] = ROLL

    pods: Pods | None
    excused: ExcusedPartitions | None = None
    planned: ExcusedTopics | None = None
    later: tuple[PlannedStage, ...] = ()
    is_left_to_others: bool = False

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """The roll, from the present revisions to the update revisions, if any pod remains; then the later rolls."""
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
        return self.planned

    @property
    def is_known(self) -> bool:
        """Tell whether the pods were read."""
        return self.pods is not None

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[StageWork, ...] | None:
        """Remaining work of each roll of a plan; None if these rolls are not what has to be done now."""
        rolls = [stage for stage in stages if stage.kind == ROLL]
        if any(roll.start.keys() != roll.target.keys() or roll.unknown for roll in rolls):
            return None
        if not self.is_left_to_others and excused_in(stages) != self.planned:
            return None
        if self.pods is None:
            return tuple(_work(pods_rolled_by(roll, None)) for roll in rolls)
        if not rolls:
            return None if self.stages else ()
        # Find the roll in progress: its target is the present one, and after it the plan has exactly the rolls of
        # `later`. Rolls before it are over, those after it have not begun.
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
            _work(pods_rolled_by(roll, self.pods, is_begun=number == position, over=number < position))
            for number, roll in enumerate(rolls)
        )

    def _is_rolled_to(self, target: Mapping[str, int | str]) -> bool:
        """Tell whether this target is the present one: the same revisions, however many pods have reached them. The
        target may also name pods whose requested restart is done, which are no longer listed.
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
    """Pods that a stage rolls, with the number that remains. In the order in which the pods were read, not that of
    `stage.target`, as the API server sorts the names in a status.

    pods: pods as they are now; None if not known: then none remains.
    is_begun: it is the turn of this stage, so its remaining pods are counted. Otherwise only `over` counts: if True, no
        pod of the stage remains; if False, all do, and each entry counts as one.
    """
    current_pods = pods or {}
    ordered = dict.fromkeys((*(name for name in current_pods if name in stage.target), *sorted(stage.target)))

    def remaining(name: str) -> int:
        if not is_begun:
            return 0 if over else 1
        return current_pods[name].remaining if name in current_pods else 0

    return tuple(
        PodsOfSet(name, str(stage.start.get(name, "")), str(stage.target[name]), remaining(name)) for name in ordered
    )
