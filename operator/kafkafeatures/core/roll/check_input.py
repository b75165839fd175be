"""Input of the checks of a roll: everything that decides whether one more node may be restarted.

Made by `core/roll/roll.py` in every reconciliation of a resource whose nodes are restarted, and passed as `inputs` to
the checks of this package. It decides nothing: it combines what was read, remembered and asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property

from msgspec import Struct

from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.membership import by_id
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.replication import Admission, Replication
from kafkafeatures.core.facts.workloads import Pod, StatefulSet
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll import planner
from kafkafeatures.core.roll.coming_back import RestartState, ReturnPhase
from kafkafeatures.core.roll.crashes import Crash, crashes
from kafkafeatures.core.roll.disks import NodeDisks
from kafkafeatures.core.roll.drivers import Driver, driver_of
from kafkafeatures.core.roll.excuses import not_covered
from kafkafeatures.core.roll.new_binaries import NewBinaries
from kafkafeatures.core.roll.permit import NO_PERMIT, Permit
from kafkafeatures.core.roll.pods import Fleet, cannot_run, hangs, remedy_while_stopping
from kafkafeatures.core.roll.proposal import lacking
from kafkafeatures.core.roll.remembered import RollContext
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.core.roll.targets import (
    ExcusedPartitions,
    Revisions,
    Target,
    known_revisions,
    left_in,
    roll_id,
    target_of,
    targets_of_levels,
)

Refusal = Wait | Stalled


class Restarting(Struct, frozen=True):
    """A restart in flight. step: the restart, with the node as it was before. sent_step: what is remembered of it since
    it was decided. state: how far it has come, by this observation.
    """

    step: RestartNode
    sent_step: RestartInFlight
    state: RestartState

    @property
    def is_back(self) -> bool:
        """Tell whether its node is back, and only has to stay so for a while."""
        return self.state.phase is ReturnPhase.BACK

    @property
    def may_be_unsent(self) -> bool:
        """Tell whether its old pod still runs, so that the eviction may not have been sent."""
        return bool(self.step.pod) and self.state.phase is ReturnPhase.REQUESTED

    @property
    def is_asked_of_a_person(self) -> bool:
        """Tell whether a person still has to restart it by hand."""
        return not self.step.pod and self.state.phase is ReturnPhase.REQUESTED


class RestartCheckInput(Struct, frozen=True, dict=True):
    """Everything that the checks look at to decide whether one more node may be restarted now."""

    desired: DesiredState
    observation: Observation
    fleet: Fleet  # nodes in their pods, and which of them need a restart
    in_flight: tuple[Restarting, ...]
    changes: tuple[UpdateFeature, ...]  # levels that are still to be changed
    remembered: RollContext
    replication: Replication | None  # all partitions; None where they could not be read
    excused: ExcusedPartitions | None = None  # topics that this roll may make unavailable, by a consent
    permit: Permit = NO_PERMIT  # of a migration, or of a change of the inter.broker.protocol.version
    disks: NodeDisks = NodeDisks()

    def without(self, restart: Restarting) -> RestartCheckInput:
        """Input of the checks as if this restart were not in flight."""
        return replace(self, in_flight=tuple(other for other in self.in_flight if other is not restart))

    @property
    def driver(self) -> Driver:
        """Driver that restarts the nodes."""
        return driver_of(self.desired.rollout)

    def admission(
        self,
        *,
        excluded: frozenset[int] = frozenset(),
        beside: frozenset[int] = frozenset(),
        availability: Availability | None = None,
    ) -> Admission | None:
        """Judgement of which brokers may be restarted while others are away: those in flight or unavailable, and
        `beside`, but not `excluded`. None if the partitions are not known. `availability`: rule, if not the document's.
        """
        if self.replication is None:
            return None
        down = (self.flying | self.unavailable | beside) - excluded
        chosen = availability or self.desired.rollout.availability
        return self.replication.judge(down, chosen, excused=self.is_excused)

    @cached_property
    def is_excused(self) -> bool:
        """Tell whether the consent covers every partition that no restart of its broker can keep available."""
        return self.excused is not None and self.replication is not None and not self.not_excused

    @cached_property
    def not_excused(self) -> Mapping[str, int]:
        """Number of partitions that are unavailable in any restart of their brokers and that no consent covers, by
        topic.
        """
        return not_covered(self.excused.topics if self.excused is not None else None, self.never_available)

    @cached_property
    def never_available(self) -> Mapping[str, int]:
        """Number of partitions that are unavailable in any restart of their brokers, by topic; empty if not known."""
        return self.replication.never_available() if self.replication is not None else {}

    def is_covered(self, id_: int) -> bool:
        """Tell whether the consent covers the targets of this node, or none is needed. Nodes that it does not cover
        wait until the targets that it covers are reached.
        """
        if self.excused is None or self.excused.is_for_all or not self.may_host_partitions(id_):
            return True
        return not self.never_available or self.excused.targets.issuperset(self.targets_of(id_))

    def may_host_partitions(self, id_: int) -> bool:
        """Tell whether the node is a broker; also True for an unknown node."""
        node = self.node(id_)
        return node is None or Role.BROKER in node.roles

    @cached_property
    def unconfirmed(self) -> Mapping[int, Stamp]:
        """Nodes whose pod is not certain, and since when; first those that every restart waits for."""
        rollout = self.remembered.status.rollout
        earlier_stamps = {entry.node_id: entry.since for entry in rollout.unconfirmed} if rollout is not None else {}
        waits = sorted(self.fleet.waits, key=lambda wait: wait.is_alone)
        nodes = (wait.node.id for wait in waits if wait.node is not None)
        return {id_: earlier_stamps.get(id_) or stamp(self.remembered.current_time) for id_ in nodes}

    @cached_property
    def flying(self) -> frozenset[int]:
        """Nodes in flight."""
        return frozenset(restart.step.node_id for restart in self.in_flight)

    @cached_property
    def unavailable(self) -> frozenset[int]:
        """Nodes that are away for any reason but a restart by the operator."""
        away = (node.id for node in self.observation.nodes if node.roles and node.state is not NodeState.LIVE)
        return frozenset((*away, *self.fleet.unavailable)) - self.flying

    @property
    def pods_read_at(self) -> datetime:
        """Time by which ages of pods count: when they were read, by a clock that is not ahead of the API server's."""
        return (
            self.observation.workloads.value.at
            if isinstance(self.observation.workloads, Known)
            else self.remembered.current_time
        )

    @cached_property
    def stuck(self) -> frozenset[int]:
        """Nodes whose pod cannot run and needs a restart, those in flight too. A live node is never stuck: what
        Kubernetes says of its container may be out of date, and other nodes rely on the data of this one.
        """
        if isinstance(self.observation.workloads, Unknown):
            return frozenset()
        live, read_at = {node.id for node in self.observation.nodes if node.state is NodeState.LIVE}, self.pods_read_at
        pods = {id_: self.fleet.pods[id_] for id_ in self.fleet.needing.keys() - live if id_ in self.fleet.pods}
        return frozenset(id_ for id_, pod in pods.items() if cannot_run(pod, read_at) and not pod.terminating)

    @cached_property
    def crashes(self) -> tuple[Crash, ...]:
        """Pods that crash on the revision that is rolled out."""
        return tuple(crashes(self.observation.workloads.value)) if isinstance(self.observation.workloads, Known) else ()

    @cached_property
    def binaries(self) -> NewBinaries:
        """Levels that the images of this roll support."""
        live = {id_: node for id_, node in self._by_id.items() if node.state is NodeState.LIVE}
        return NewBinaries(self.fleet, {id_: node for id_, node in live.items() if id_ not in self.flying})

    @cached_property
    def cap(self) -> int:
        """Number of brokers that may be away at once."""
        brokers = sum(Role.BROKER in node.roles for node in self.observation.nodes)
        document_cap = planner.cap(self.desired.rollout.max_parallel, brokers)
        permit_cap = 1 if self.permit.is_first else document_cap
        return min(document_cap, self.driver.most or document_cap, permit_cap)

    @cached_property
    def gone(self) -> tuple[int, ...]:
        """Brokers that are away for any reason but a restart by the operator. Not counted: a combined node, a live
        broker of which only the pod is uncertain, and a ghost that hosts no partition.
        """
        serving = (id_ for id_ in self.unconfirmed for node in self.nodes(id_) if node.state is NodeState.LIVE)
        away = self.unavailable - {*serving} - self._ghosts
        return tuple(sorted(id_ for id_ in away if not self.is_controller(id_)))

    @property
    def _ghosts(self) -> frozenset[int]:
        if self.replication is None:
            return frozenset()
        ghosts = {node.id for node in self.observation.nodes if node.state is NodeState.GHOST}
        with_pods = {*self.fleet.pods, *self.unconfirmed}  # they may come back, so they count as away
        return frozenset(ghosts - self.replication.brokers() - with_pods)

    @property
    def is_full(self) -> bool:
        """Tell whether as many brokers are away as may be, for any reason."""
        return len(self.flying) + len(self.gone) >= self.cap

    @cached_property
    def revisions(self) -> Revisions:
        """Progress towards each target of restarts, from the status."""
        return known_revisions(self.remembered.status.rollout, self.observation, self.changes, self.permit.purpose)

    @cached_property
    def remaining_targets(self) -> Mapping[Target, int]:
        """Number of pods or nodes that have not reached their target yet, by target, including those in flight."""
        ids = self.fleet.needing if not self.driver.reads_pods else ()
        by_hand = {self.title(id_): self.targets_of(id_) for id_ in ids}
        return left_in(self.observation, tuple(restart.step for restart in self.in_flight), by_hand)

    @property
    def continues(self) -> bool:
        """Tell whether the roll in the status continues: one of its unfinished targets is still a target of nodes that
        need a restart, or if there are none, of nodes in flight.
        """
        rollout = self.remembered.status.rollout
        if rollout is None or not rollout.is_in_progress:
            return False
        unfinished_targets = {target for target, revision in self.revisions.items() if revision.left}
        unfinished_targets.add(Target("", ""))  # of a request to a person by an earlier release of the operator
        to_go = {target for id_ in self.fleet.needing.keys() - self.flying for target in self.targets_of(id_)}
        return not unfinished_targets.isdisjoint(to_go or self.remaining_targets)

    @property
    def continues_without_new_target(self) -> bool:
        """Tell whether the roll in the status continues without any new target."""
        entries = self.revisions
        return self.continues and all(target in entries and entries[target].left for target in self.remaining_targets)

    @cached_property
    def roll_id(self) -> str:
        """Name of the roll in reports, the same until it is over. No decision depends on it."""
        rollout = self.remembered.status.rollout
        if rollout is not None and self.continues:
            return rollout.id
        return roll_id(self.observation, self.changes, self.permit.purpose)

    def targets_of(self, id_: int) -> tuple[Target, ...]:
        """Targets of a restart of this node: the update revision of its StatefulSet; where a person restarts it,
        levels, or the purpose of the permit.
        """
        owner, node = self.fleet.sets.get(id_), self.node(id_)
        if owner is not None:
            return (target_of(owner),)
        if self.permit.is_granted:
            return (Target("", self.permit.purpose),)
        return targets_of_levels(lacking(node, self.changes)) if node is not None else ()

    def ids_that_reached(self, target: Target) -> Iterator[int]:
        """Ids of nodes that have certainly reached this target."""
        if target.name:
            pods = self.fleet.pods.items()
            yield from (id_ for id_, pod in pods if (pod.stateful_set, pod.revision) == target)
        elif self.permit.is_granted:
            ids = (node.id for node in self.observation.nodes if target.revision == self.permit.purpose)
            yield from filter(self.permit.is_over_for, ids)
        else:
            changes = [change for change in self.changes if targets_of_levels((change,)) == (target,)]
            nodes = (
                node
                for change in changes
                for node in self.observation.nodes
                if node.surely_holds(change.feature, change.to_level)
            )
            yield from (node.id for node in nodes)

    @property
    def are_outdated_nodes_known(self) -> bool:
        """Tell whether it is known which nodes a person has to restart."""
        return not self.permit.unknown if self.permit.is_granted else isinstance(self.observation.finalized, Known)

    @cached_property
    def _by_id(self) -> Mapping[int, Node]:
        """Nodes by id, indexed once: they are looked up again and again for each of up to a thousand nodes."""
        return by_id(self.observation.nodes)

    def node(self, id_: int) -> Node | None:
        """Node of that id; None if there is none."""
        return self._by_id.get(id_)

    def is_controller(self, id_: int) -> bool:
        """Tell whether the node is a controller; True for a combined node as well."""
        node = self.node(id_)
        if node is not None:
            return Role.CONTROLLER in node.roles
        owner = self.fleet.sets.get(id_)
        return owner is not None and owner.role == "controllers"

    def pod_of(self, name: str) -> Pod | None:
        """The pod of that name."""
        return self.observation.workloads.value.pod(name) if isinstance(self.observation.workloads, Known) else None

    def owner_of(self, pod: str) -> StatefulSet | None:
        """The StatefulSet of the pod of that name."""
        return self.observation.workloads.value.owner(pod) if isinstance(self.observation.workloads, Known) else None

    def is_left_behind(self, step: RestartNode) -> bool:
        """Tell whether the template was changed after the new pod of this restart was created."""
        owner, pod = self.owner_of(step.pod), self.pod_of(step.pod)
        if owner is None or pod is None or pod.uid == step.pod_uid or pod.terminating:
            return False
        return owner.update_revision not in ("", step.next_revision, pod.revision)

    def is_late(self, restart: Restarting) -> bool:
        """Tell whether its node should be back by now (`nodeTimeout`). The time counts from when the node began to
        stop, not from the request: an eviction may be refused for a day.
        """
        since = restart.sent_step.stopping_since
        return since is not None and self.remembered.age_of(since) > self.desired.rollout.node_timeout

    def hangs(self, pod: Pod) -> bool:
        """Tell whether the pod is still stopping, long after it should have stopped."""
        return hangs(pod, self.pods_read_at, self.desired.rollout.node_timeout)

    def remedy_while_stopping(self, pod: Pod) -> str:
        """Remedy for a pod that is stopping."""
        namespace = self.observation.workloads.value.namespace if isinstance(self.observation.workloads, Known) else ""
        return remedy_while_stopping(pod, namespace, self.pods_read_at, self.desired.rollout.node_timeout)

    def nodes(self, id_: int) -> tuple[Node, ...]:
        """The node of that id, as a tuple of one; empty if there is none."""
        return tuple(node for node in (self.node(id_),) if node is not None)

    def titles(self, ids: Iterable[int]) -> str:
        """Titles of the first three nodes, for people."""
        names = [self.title(id_) for id_ in sorted(ids)]
        return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")

    def title(self, id_: int) -> str:
        """The name of a node in messages."""
        node = self.node(id_)
        return node.title if node is not None else f"node {id_}"
