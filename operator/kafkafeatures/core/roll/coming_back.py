"""A restarted node: how it was before it was stopped, and how far it has come back.

Pure. Called by `core/roll/roll.py` for every restart in flight, by `core/roll/restart_node.py`, which has the step, and
by `core/roll/next_restart.py`, which notes how the node was.

Readiness of a pod proves nothing. A broker is back when a new process of it is registered, not fenced, and in the ISR
of every partition it hosts that it was in sync with before; a controller when the leader says that it has caught up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.facts.observation import PODS_UNKNOWN, Known, Node, NodeState, Observation, Unknown, plain_host
from kafkafeatures.core.facts.quorum import is_caught_up
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.core.words import counted

if TYPE_CHECKING:  # no level needs the pods: `describe` and `apply` start faster
    from kafkafeatures.core.facts.workloads import Pod, StatefulSet

if TYPE_CHECKING:  # it judges partitions by numpy, which nothing else needs
    from kafkafeatures.core.facts.replication import Replication

MOST_LAGGING = 12
"""Most partitions that are remembered as out of sync before a restart. A broker that was out of sync with more is back
once it is in sync with all.
"""
NAMED = 3
"""Most partitions that a message names."""
OLD_SESSION = (
    " (if its log ends with NodeExists, its last process was killed: start it again once zookeeper.session.timeout.ms, "
    "18 s by default, is over)"
)
"""Hint for a broker in ZooKeeper mode that is not registered: it cannot register while its last session lasts."""


class ReturnPhase(Enum):
    """Progress of a restart."""

    UNKNOWN = "not known"  # the pods, the quorum or the partitions could not be read
    REQUESTED = "requested"  # the old pod is still there, and was not asked to stop
    STOPPING = "stopping"
    STARTING = "starting"  # it has no new process yet that is registered and answers
    RECOVERING = "recovering its log, or catching up with the metadata"  # fenced, and it runs
    CATCHING_UP = "catching up"  # not fenced, but a replica is not in sync yet, or a voter is behind the leader
    BACK = "back"  # in sync, as far as it was before


class RestartState(Struct, frozen=True):
    """How far a restart has come. `detail`: the phase of this node in words, for messages."""

    phase: ReturnPhase
    detail: str


class AwayNode(Struct, frozen=True):
    """One node, as it was before it was stopped. A status must have room for 64 of these.

    node_id, title: its id, and its name for people.
    pod: name of its pod; empty if a person restarts the node.
    pod_uid: uid of its old pod.
    earlier_support: range of metadata.version that the node supported, if a person restarts it (`supported_now`).
    next_revision: the revision of its next pod; if a person restarts the node, its targets (`core/roll/targets.py`).
    broker_epoch: epoch of its registration; -1: not known.
    incarnation: id of its process; empty if there is an epoch, which is enough.
    out_of_sync: number of partitions it hosts that it was not in sync with.
    lagging: marks of these partitions; empty if there were too many to keep.
    by: what restarts its pod, such as "annotation"; empty for an eviction.
    czxid: id of the transaction that created its znode in /brokers/ids, if it ran in ZooKeeper mode; -1: not known.
        No epoch is kept then, as the two count different things.
    """

    node_id: int
    title: str
    pod: str = ""
    pod_uid: str = ""
    earlier_support: str = ""
    next_revision: str = ""
    broker_epoch: int = -1
    incarnation: str = ""
    out_of_sync: int = 0
    lagging: frozenset[str] = frozenset()
    by: str = ""
    czxid: int = -1

    @property
    def how_restarted(self) -> str:
        """Participle for messages about its pod, as in: pod broker-1 is evicted."""
        return f"restarted by {self.by}" if self.by else "evicted"

    def is_pending_in(self, observation: Observation) -> bool:
        """Tell whether its request is still on the old pod, from which another operator reads it."""
        pod, _ = self._pod_in(observation)
        return pod is not None and pod.uid == self.pod_uid and pod.restart_pending and not pod.terminating

    def is_withdrawable_in(self, observation: Observation) -> bool:
        """Tell whether its request is still on the old pod, and nobody else has made one there."""
        pod, _ = self._pod_in(observation)
        return pod is not None and self.is_pending_in(observation) and not pod.request_is_of_another

    def is_unread_in(self, observation: Observation) -> bool:
        """Tell whether the document no longer names a driver that reads pods, so that this reading does not show its
        pod.
        """
        workloads = observation.workloads
        return bool(self.pod) and isinstance(workloads, Unknown) and workloads.failure.kind is FailureKind.NOT_ASKED

    def _pod_in(self, observation: Observation) -> tuple[Pod | None, str]:
        """Present pod of the node, and the update revision of its StatefulSet; None and empty if they are not known."""
        if self.pod and isinstance(observation.workloads, Known):
            for stateful_set in observation.workloads.value.stateful_sets:
                for pod in stateful_set.pods:
                    if pod.name == self.pod:
                        return pod, stateful_set.update_revision if stateful_set.observed else ""
        return None, ""

    def is_for_another_image(self, observation: Observation) -> bool:
        """Tell whether the template was changed after this restart was decided. The node then needs another restart,
        which does not mean that this one has failed.
        """
        pod, update_revision = self._pod_in(observation)
        return pod is not None and update_revision not in ("", self.next_revision, pod.revision)

    def is_not_wanted(self, observation: Observation) -> bool:
        """Tell whether the old pod still runs and the restart is out of date: the template was reverted or changed
        again, another node must go first, the document no longer names a driver, or a person has withdrawn the request.
        The next restart is then decided anew.
        """
        if self.is_unread_in(observation):
            node = observation.node(self.node_id)
            return node is not None and node.state is NodeState.LIVE and self._is_the_old_process(node)
        pod, update_revision = self._pod_in(observation)
        if pod is None or pod.uid != self.pod_uid or pod.terminating:
            return False
        return (
            update_revision not in ("", self.next_revision)
            or not self._is_to_restart(pod, observation)
            or self._is_anothers_turn(observation)
        )

    def _is_to_restart(self, pod: Pod, observation: Observation) -> bool:
        owner = observation.workloads.value.owner(pod.name) if isinstance(observation.workloads, Known) else None
        return owner is not None and owner.is_to_restart(pod)

    def _is_anothers_turn(self, observation: Observation) -> bool:
        """Tell whether another controller's pod, which needs a restart, must go first: the node is a broker, or leads
        the quorum.
        """
        node = observation.node(self.node_id)
        if node is None or isinstance(observation.workloads, Unknown):
            return False
        leads = isinstance(observation.quorum, Known) and observation.quorum.value.leader_id == self.node_id
        if Role.CONTROLLER in node.roles and not leads:
            return False
        controllers = (controller for controller in observation.nodes if Role.CONTROLLER in controller.roles)
        hosts = {
            plain_host(host)
            for controller in controllers
            for host, _ in ((controller.host, controller.port), *controller.listeners)
        }
        return any(
            not pod.stays_at(stateful_set.update_revision)
            and pod.name != self.pod
            and _runs_controller(stateful_set, pod, hosts)
            for stateful_set in observation.workloads.value.stateful_sets
            if stateful_set.observed
            for pod in stateful_set.pods
        )

    def is_overtaken(self, observation: Observation) -> bool:
        """Tell whether waiting for the node is pointless: its new pod does not run and the template has changed since,
        or the node was unregistered.
        """
        if observation.node(self.node_id) is None:
            return is_unregistered(observation, self.node_id)
        pod, update_revision = self._pod_in(observation)
        if pod is None or pod.uid == self.pod_uid or pod.terminating or not pod.waiting:
            return False
        return update_revision not in ("", pod.revision)

    def state_in(self, observation: Observation, replication: Replication | None) -> RestartState:
        """Return how far the restart has come. `replication`: the partitions of the cluster; None if they are not
        known.
        """
        if self.pod:
            state = self._state_by_pod(observation)
            if state is not None:
                return state
        node = observation.node(self.node_id)
        if node is None and isinstance(observation.registered_brokers, Known):
            old = OLD_SESSION if self.czxid >= 0 else ""
            return RestartState(
                ReturnPhase.STARTING,
                f"{self.title} is not registered: start it{old}; if it runs, see its log, and if that shows no reason, "
                "restart it",
            )
        if node is None or node.state in (NodeState.GHOST, NodeState.UNREACHABLE, NodeState.REFUSED):
            return RestartState(ReturnPhase.STARTING, f"{self.title} does not answer yet")
        answers = isinstance(node.answer, Known)
        if self._is_the_old_process(node):
            if self.pod:
                return RestartState(ReturnPhase.STARTING, f"{self.title} has not registered again yet")
            if node.state is NodeState.FENCED and not answers:
                return RestartState(ReturnPhase.STARTING, f"{self.title} does not answer yet")
            return RestartState(
                ReturnPhase.REQUESTED, f"restart {self.title} with the newer Kafka; it was not restarted yet"
            )
        if node.state is NodeState.FENCED:
            how = "fenced: it recovers its log, or catches up"
            silent = "fenced, and does not answer: it recovers its log, or was stopped"
            return RestartState(ReturnPhase.RECOVERING, f"{self.title} is {how if answers else silent}")
        return self._state_by_replicas(node, observation, replication)

    def is_a_new_process(self, observation: Observation) -> bool:
        """Tell whether a new process of the node certainly runs, whatever its partitions are by now."""
        is_read = isinstance(observation.workloads, Known) or self.is_unread_in(observation) or not self.pod
        # No partitions are given here, so a broker that is a new process and not fenced is UNKNOWN.
        return is_read and self.state_in(observation, None).phase in (ReturnPhase.UNKNOWN, ReturnPhase.BACK)

    def _state_by_pod(self, observation: Observation) -> RestartState | None:
        """State that the pod alone proves, if it shows that the node cannot be back; else None."""
        if self.is_unread_in(observation):
            return None  # only Kafka's answers are left
        if isinstance(observation.workloads, Unknown):
            return RestartState(ReturnPhase.UNKNOWN, f"{PODS_UNKNOWN}: {observation.workloads.failure}")
        pod = observation.workloads.value.pod(self.pod)
        if pod is None:
            return RestartState(ReturnPhase.STARTING, f"pod {self.pod} was not created again yet")
        if pod.terminating:
            return RestartState(ReturnPhase.STOPPING, f"pod {self.pod} is stopping")
        if pod.uid == self.pod_uid:
            return RestartState(ReturnPhase.REQUESTED, f"pod {self.pod} was not {self.how_restarted} yet")
        if pod.waiting:
            return RestartState(ReturnPhase.STARTING, _not_running(pod))
        return None

    def _is_the_old_process(self, node: Node) -> bool:
        """Tell whether the old process still runs, by the best identity that is known from both times: the znode of a
        broker in ZooKeeper mode, the epoch, or the incarnation. A process never changes between ZooKeeper and KRaft
        mode. Without the metadata log neither epoch nor incarnation is known: then a new pod proves a new process, and
        where a person restarts the node, other supported levels do.
        """
        in_kraft = node.runs_in_kraft_mode
        if self.czxid >= 0 and (in_kraft or node.czxid >= 0):
            return not in_kraft and node.czxid == self.czxid
        if (self.broker_epoch >= 0 or self.incarnation) and self.czxid < 0 <= node.czxid and in_kraft is False:
            return False
        if self.broker_epoch >= 0 and node.broker_epoch >= 0:
            return node.broker_epoch == self.broker_epoch
        if self.incarnation and node.incarnation:
            return node.incarnation == self.incarnation
        return not self.pod and self.earlier_support == supported_now(node)

    def _state_by_replicas(self, node: Node, observation: Observation, replication: Replication | None) -> RestartState:
        """State of a new process that is not fenced: whether its metadata and its replicas have caught up."""
        if Role.CONTROLLER in node.roles:
            if isinstance(observation.quorum, Unknown):
                return RestartState(ReturnPhase.UNKNOWN, f"the quorum is not known: {observation.quorum.failure}")
            if node.is_voter and not is_caught_up(node.id, observation.quorum.value):
                return RestartState(ReturnPhase.CATCHING_UP, f"{self.title} is behind the leader of the quorum")
        if Role.BROKER not in node.roles:
            return RestartState(ReturnPhase.BACK, f"{self.title} has caught up")
        if replication is None:
            reason = f": {observation.partitions.failure}" if isinstance(observation.partitions, Unknown) else ""
            return RestartState(ReturnPhase.UNKNOWN, f"the partitions are not known{reason}")
        count, names = self._not_back(node.id, replication)
        if count:
            some = f"{counted(count, 'partition')} yet ({', '.join(names[:NAMED])})"
            note = (
                "; it is not known which of them were out of sync before"
                if self.out_of_sync and not self.lagging
                else ""
            )
            return RestartState(ReturnPhase.CATCHING_UP, f"{self.title} is not in sync with {some}{note}")
        return RestartState(ReturnPhase.BACK, f"{self.title} is in sync")

    def has_left_isr_in(self, replication: Replication) -> bool:
        """Tell whether the node has left the ISR of a partition that it was in sync with, as a broker does when it
        stops.
        """
        return self._not_back(self.node_id, replication)[0] > 0

    def _not_back(self, id_: int, replication: Replication) -> tuple[int, tuple[str, ...]]:
        """Number and names of the partitions that the node was in sync with before its restart, and is not now. If it
        is not known which it was in sync with, every partition out of sync counts.
        """
        count, names = replication.out_of_sync(id_, MOST_LAGGING)
        if count > len(self.lagging):  # some are new; at most MOST_LAGGING names were read, so which ones is not known
            return count, names
        names = tuple(name for name in names if mark_of(name) not in self.lagging)
        return len(names), names


def is_unregistered(observation: Observation, id_: int) -> bool:
    """Tell whether certainly no node of this id is registered; False outside of KRaft mode. In ZooKeeper mode a missing
    broker may just be stopped: `/brokers/ids` lists only brokers that run, and the quorum of a migration only those
    that have `zookeeper.metadata.migration.enable`.
    """
    is_read = isinstance(observation.registered_brokers, Known) and isinstance(
        observation.registered_controllers, Known
    )
    return observation.in_kraft_mode and is_read and observation.node(id_) is None


def mark_of(partition: str) -> str:
    """Short mark by which a partition such as "orders-3" is remembered: a status must have room for 64 restarts."""
    return hashlib.sha256(partition.encode()).hexdigest()[:8]


def supported_now(node: Node) -> str:
    """Range of metadata.version that a node supports, as text; empty if not known. Every release of Kafka changes it,
    so a new range proves a new binary.
    """
    return str(node.known_range_of(METADATA_VERSION) or "")


def _runs_controller(owner: StatefulSet, pod: Pod, hosts: Set[str]) -> bool:
    """Tell whether the pod runs a controller. `hosts`: hosts of controllers, as a combined node may be in a StatefulSet
    that is listed as one of brokers.
    """
    return owner.role == "controllers" or not hosts.isdisjoint(map(plain_host, pod.host_names))


def _not_running(pod: Pod) -> str:
    return f"pod {pod.name} does not run: {pod.waiting}{pod.restarts_text}"
