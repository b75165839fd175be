"""A node that is stopped and started anew: what is remembered of it, and how far it has come back.

Pure. Readiness of a pod is never a sign: a broker is back when a new process of it is registered, not fenced, and in
the ISR of every partition it hosts that it was in sync with before; a controller when the leader says that it has
caught up. Sent by `reconcile/act.py`, decided by `core/roll/stage.py`, registered in `core/kinds.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Set
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION, SINGLE_REPLICA_TOPICS
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, read_number, read_stamp, read_text, stamp
from kafkafeatures.api.status import HistoryEntry, Intent, Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.event_records import EventFacts, EventRecord, note_of
from kafkafeatures.core.engine.settling import AgeOf, Looks, Open
from kafkafeatures.core.engine.steps import InFlight, Rejection, Step, sent_as
from kafkafeatures.core.facts.node_sets import with_node
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, Unknown, plain_host
from kafkafeatures.core.facts.quorum import is_caught_up
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.core.words import counted

if TYPE_CHECKING:  # no level needs the pods: `describe` and `apply` start faster
    from kafkafeatures.core.facts.workloads import Pod, StatefulSet

if TYPE_CHECKING:  # it judges partitions by numpy, which nobody else needs
    from kafkafeatures.core.facts.replication import Replication

WITHDRAWN_AFTER = timedelta(minutes=1)
"""Longer than an eviction can be on its way. It is asked for again as long as it is wanted, so counted from then on."""


MOST_LAGGING = 12
"""Partitions that are remembered as out of sync before a restart. A broker that had more to catch up with is back once
it is in sync with all.
"""
NAMED = 3


class Phase(Enum):
    """How far a restart has come."""

    UNKNOWN = "not known"
    REQUESTED = "requested"  # the pod of before is still there, and nobody has told it to stop
    STOPPING = "stopping"
    STARTING = "starting"
    RECOVERING = "recovering its log, or catching up with the metadata"  # fenced, and it runs
    CATCHING_UP = "catching up"
    BACK = "back"


class RestartState(Struct, frozen=True):
    """`detail`: what people are told of it."""

    phase: Phase
    detail: str


class RestartNode(Struct, frozen=True):
    """Have one node stopped and started anew: its pod is evicted, or a person is asked to do it (`pod` is empty then).

    after: the revision of its next pod. before: what the node supported, where a person restarts it. broker_epoch: of
    its registration before, -1 where that was not known; incarnation: the same, and empty where the epoch says enough,
    as 64 of these have to fit into a status. out_of_sync: how many partitions it hosts that it was not in sync with
    before; lagging: which, by their marks, none where there were too many to keep. consent: the entry of
    `spec.consents` that it uses up. One restart is one life of a pod: to evict the same uid again does nothing more.
    """

    kind: ClassVar[str] = "RestartNode"
    recorded_as: ClassVar[str] = "RestartNode"
    counts: ClassVar[bool] = False  # a plan that stands outlives the restarts that it waits for
    is_followed: ClassVar[bool] = True
    settled_by: ClassVar[str] = "the node is back"
    consents_of_plan: ClassVar[frozenset[str]] = frozenset({SINGLE_REPLICA_TOPICS})

    node_id: int
    title: str
    pod: str = ""
    pod_uid: str = ""
    before: str = ""
    after: str = ""
    broker_epoch: int = -1
    incarnation: str = ""
    out_of_sync: int = 0
    lagging: frozenset[str] = frozenset()
    consent: str = ""

    def __str__(self) -> str:
        return f"{self.title} ({self.pod})" if self.pod else self.title

    @property
    def target(self) -> str:
        """What is acted on."""
        return self.pod or self.title

    @property
    def request(self) -> str:
        """What leaves the process."""
        return f"Eviction of {self}" if self.pod else f"RestartRequested {self}"

    @property
    def in_progress(self) -> tuple[Reason, str]:
        """What is said while it is carried out."""
        return Reason.ROLLING_NODES, f"restarting {self}" if self.pod else f"restart {self.title}"

    @property
    def revision(self) -> str:
        """Of its next pod."""
        return self.after

    @property
    def is_decided_again(self) -> bool:
        """Whether a pod is evicted: a person who is asked decides himself when."""
        return bool(self.pod)

    def is_asked_for_by(self, earlier: Step) -> bool:
        """One restart is one life of a pod: it is the same one, however often it is asked for."""
        return earlier == self

    def begun(self, at: Stamp, via: Via, seen: Observation, *, corrects_drift: bool = False) -> RestartInFlight:
        """What is remembered of it."""
        return RestartInFlight(self, at, via)

    def rejection(self, code: int, message: str) -> Rejection:
        """By HTTP status; any other one is a PodDisruptionBudget that does not allow it now."""
        reason = _REJECTED.get(code)
        said = f"the eviction of pod {self.pod} was rejected: {message}"
        return Rejection(reason or Reason.WAITING_FOR_BUDGET, said, needs_action=reason is not None)

    def to_intent(self) -> Mapping[str, Any]:
        """The fields of its intent that are its own."""
        texts = {"before": self.before, "after": self.after, "podUid": self.pod_uid, "incarnation": self.incarnation}
        texts["consent"] = self.consent
        return {
            "target": self.target,
            "title": self.title,
            "nodeId": self.node_id,
            **{name: text for name, text in texts.items() if text},
            **({"brokerEpochBefore": self.broker_epoch} if self.broker_epoch >= 0 else {}),
            **({"outOfSync": self.out_of_sync} if self.out_of_sync else {}),
            **({"lagging": " ".join(sorted(self.lagging))} if self.lagging else {}),
        }

    @classmethod
    def read(cls, intent: Intent) -> RestartInFlight:
        """Raises ValueError where the intent is damaged."""
        fields = intent.unknown
        target, title = read_text(fields.get("target")), read_text(fields.get("title"))
        step = cls(
            node_id=read_number(fields.get("nodeId")),
            title=title,
            pod="" if target == title else target,
            pod_uid=read_text(fields.get("podUid", "")),
            before=read_text(fields.get("before", "")),
            after=read_text(fields.get("after", "")),
            broker_epoch=read_number(fields.get("brokerEpochBefore", -1)),
            incarnation=read_text(fields.get("incarnation", "")),
            out_of_sync=read_number(fields.get("outOfSync", 0)),
            lagging=frozenset(read_text(fields.get("lagging", "")).split()),
            consent=read_text(fields.get("consent", "")),
        )
        return RestartInFlight(
            step,
            **sent_as(intent),
            stable_since=read_stamp(fields["stableSince"]) if "stableSince" in fields else None,
            unwanted_since=read_stamp(fields["unwantedSince"]) if "unwantedSince" in fields else None,
            stopping_since=_after(fields["at"], fields["stoppedAfter"]) if "stoppedAfter" in fields else None,
        )

    @classmethod
    def event_of(cls, ended: HistoryEntry, facts: EventFacts | None) -> EventRecord | None:
        """A node that is back; and what a person must not restart any more, who was asked to."""
        is_by_hand = ended.action == ended.target  # else it names the pod beside its node
        note = note_of(ended.action, ended.message)
        if facts is None:
            node, pod = (ended.target, "") if is_by_hand else ("", ended.target)
            facts = EventFacts(kind=cls.kind, node=node, pod=pod)
        if ended.result == Result.APPLIED:
            return EventRecord("NodeRestarted", "Restart", note, facts=facts)
        if ended.result == Result.NOT_APPLIED and is_by_hand:
            return EventRecord("RestartWithdrawn", "Restart", f"do not restart {note}", warning=True, facts=facts)
        return None

    def _pod_in(self, seen: Observation) -> tuple[Pod | None, str]:
        """Its pod by now, and the revision that its StatefulSet asks for; empty where that is not known."""
        if self.pod and isinstance(seen.workloads, Known):
            for one in seen.workloads.value.stateful_sets:
                for pod in one.pods:
                    if pod.name == self.pod:
                        return pod, one.update_revision if one.observed else ""
        return None, ""

    def is_for_another_image(self, seen: Observation) -> bool:
        """The image was changed meanwhile: that the node needs a restart again does not mean that this one was vain."""
        pod, wanted = self._pod_in(seen)
        return pod is not None and wanted not in ("", self.after, pod.revision)

    def is_not_wanted(self, seen: Observation) -> bool:
        """The pod of before still runs, and its StatefulSet asks for it, or for another new one, by now, or it became
        another node's turn; or nobody evicts pods any more. Whose turn it is, is decided anew.
        """
        if self.pod and isinstance(seen.workloads, Unknown) and seen.workloads.why.kind is FailureKind.NOT_ASKED:
            node = seen.node(self.node_id)
            return node is not None and node.state is NodeState.LIVE and self._is_the_old_process(node)
        pod, wanted = self._pod_in(seen)
        if pod is None or pod.uid != self.pod_uid or pod.terminating:
            return False
        return wanted not in ("", self.after) or pod.revision == wanted or self._is_anothers_turn(seen)

    def _is_anothers_turn(self, seen: Observation) -> bool:
        """It is a broker, or leads the quorum by now, and another controller's pod is not of its update revision."""
        node = seen.node(self.node_id)
        if node is None or isinstance(seen.workloads, Unknown):
            return False
        leads = isinstance(seen.quorum, Known) and seen.quorum.value.leader_id == self.node_id
        if Role.CONTROLLER in node.roles and not leads:
            return False
        voting = (one for one in seen.nodes if Role.CONTROLLER in one.roles)
        hosts = {plain_host(host) for one in voting for host, _ in ((one.host, one.port), *one.listeners)}
        return any(
            pod.revision != one.update_revision and pod.name != self.pod and _runs_controller(one, pod, hosts)
            for one in seen.workloads.value.stateful_sets
            if one.observed
            for pod in one.pods
        )

    def is_overtaken(self, seen: Observation) -> bool:
        """The new pod does not run, and is not wanted any more as it is; or the node was unregistered meanwhile."""
        if seen.node(self.node_id) is None:
            return isinstance(seen.registered_brokers, Known) and isinstance(seen.registered_controllers, Known)
        pod, wanted = self._pod_in(seen)
        if pod is None or pod.uid == self.pod_uid or pod.terminating or not pod.waiting:
            return False
        return wanted not in ("", pod.revision)

    def state_in(self, seen: Observation, replication: Replication | None) -> RestartState:
        """How far it has come. `replication`: its partitions, as far as they are known."""
        if self.pod:
            found = self._of_pod(seen)
            if found is not None:
                return found
        node = seen.node(self.node_id)
        if node is None or node.state in (NodeState.GHOST, NodeState.UNREACHABLE, NodeState.REFUSED):
            return RestartState(Phase.STARTING, f"{self.title} does not answer yet")
        if self._is_the_old_process(node):
            if self.pod:
                return RestartState(Phase.STARTING, f"{self.title} has not registered again yet")
            return RestartState(Phase.REQUESTED, f"restart {self.title} with the newer Kafka; it was not restarted yet")
        if node.state is NodeState.FENCED:
            return RestartState(Phase.RECOVERING, f"{self.title} is fenced: it recovers its log, or catches up")
        return self._replicas(node, seen, replication)

    def _of_pod(self, seen: Observation) -> RestartState | None:
        """What the pod says, where it says that the node cannot be back."""
        if isinstance(seen.workloads, Unknown) and seen.workloads.why.kind is FailureKind.NOT_ASKED:
            return None  # the document names no driver any more: what Kafka says must do
        if isinstance(seen.workloads, Unknown):
            return RestartState(Phase.UNKNOWN, f"the pods could not be read: {seen.workloads.why}")
        pod = seen.workloads.value.pod(self.pod)
        if pod is None:
            return RestartState(Phase.STARTING, f"pod {self.pod} was not created again yet")
        if pod.terminating:
            return RestartState(Phase.STOPPING, f"pod {self.pod} is stopping")
        if pod.uid == self.pod_uid:
            return RestartState(Phase.REQUESTED, f"pod {self.pod} was not evicted yet")
        if pod.waiting:
            return RestartState(Phase.STARTING, _told_waiting(pod))
        return None

    def _is_the_old_process(self, node: Node) -> bool:
        """Without the metadata log neither epoch nor incarnation is known. Then a new pod is the sign of a new process,
        and of a node that a person restarts, that it supports something else than before.
        """
        if self.broker_epoch >= 0 and node.broker_epoch >= 0:
            return node.broker_epoch == self.broker_epoch
        if self.incarnation and node.incarnation:
            return node.incarnation == self.incarnation
        return not self.pod and self.before == supported_now(node)

    def _replicas(self, node: Node, seen: Observation, replication: Replication | None) -> RestartState:
        if Role.CONTROLLER in node.roles:
            if isinstance(seen.quorum, Unknown):
                return RestartState(Phase.UNKNOWN, f"the quorum is not known: {seen.quorum.why}")
            if node.is_voter and not is_caught_up(node.id, seen.quorum.value):
                return RestartState(Phase.CATCHING_UP, f"{self.title} is behind the leader of the quorum")
        if Role.BROKER not in node.roles:
            return RestartState(Phase.BACK, f"{self.title} has caught up")
        if replication is None:
            why = f": {seen.partitions.why}" if isinstance(seen.partitions, Unknown) else ""
            return RestartState(Phase.UNKNOWN, f"the partitions are not known{why}")
        count, names = self._not_back(node.id, replication)
        if count:
            some = f"{counted(count, 'partition')} yet ({', '.join(names[:NAMED])})"
            kept = (
                "; which it was not in sync with before was not kept" if self.out_of_sync and not self.lagging else ""
            )
            return RestartState(Phase.CATCHING_UP, f"{self.title} is not in sync with {some}{kept}")
        return RestartState(Phase.BACK, f"{self.title} is in sync")

    def leaves_in(self, replication: Replication) -> bool:
        """Whether it has left the ISR of a partition that it was in sync with before, as a broker does that stops."""
        return self._not_back(self.node_id, replication)[0] > 0

    def _not_back(self, id_: int, replication: Replication) -> tuple[int, tuple[str, ...]]:
        """Partitions that it is not in sync with and was before. Where it is not known which those were, all count."""
        count, names = replication.out_of_sync(id_, MOST_LAGGING)
        if count > len(self.lagging):  # so some are new
            return count, names
        names = tuple(one for one in names if mark_of(one) not in self.lagging)
        return len(names), names


_REJECTED: Mapping[int, Reason] = {403: Reason.NOT_AUTHORIZED, 400: Reason.ROLLOUT_HALTED}


class RestartInFlight(InFlight, frozen=True):
    """A restart that is not over. `stopping_since`: when its node was first seen to have been asked to stop;
    `stable_since`: to be back. `unwanted_since`: from when on the restart was not asked for any more.
    """

    step: RestartNode
    stable_since: Stamp | None = None
    unwanted_since: Stamp | None = None
    stopping_since: Stamp | None = None

    def follow_up(self) -> Mapping[str, Any]:
        """The moments that there are. When a node stopped is said in seconds: 64 of these have to fit into a status."""
        found: dict[str, Any] = {"stableSince": self.stable_since} if self.stable_since is not None else {}
        if self.unwanted_since is not None:
            found["unwantedSince"] = self.unwanted_since
        if self.stopping_since is not None:
            took = datetime.fromisoformat(self.stopping_since) - datetime.fromisoformat(self.at)
            found["stoppedAfter"] = max(0, int(took.total_seconds()))
        return found

    def followed(self, looks: Looks) -> RestartInFlight:
        """Since when its node is back, or the restart not asked for any more: as long as that is so."""
        phase = self.step.state_in(looks.after, looks.replication).phase
        stands = phase is Phase.REQUESTED or self.step.is_not_wanted(looks.after)
        stopping = self.stopping_since if phase is Phase.UNKNOWN else self.stopping_since or looks.at
        now = replace(
            self,
            stable_since=(self.stable_since or looks.at) if phase is Phase.BACK else None,
            unwanted_since=self.unwanted_since if stands else None,
            stopping_since=None if phase is Phase.REQUESTED else stopping,
        )
        return self.remembering(now)

    def asked(self, at: Stamp, *, again: bool) -> RestartInFlight:
        """Whether its eviction is asked for `again`, or since when it has not been."""
        return self.remembering(replace(self, unwanted_since=None if again else self.unwanted_since or at))

    def settle(self, looks: Looks) -> Result | Open:
        """What became of it by what was seen last: over once the node has been back for as long as it must be."""
        seen = looks.after
        if self.stable_since is not None and looks.age_of(self.stable_since) >= looks.stable_for:
            return Result.SUPERSEDED if self.step.is_for_another_image(seen) else Result.APPLIED
        if self.step.is_overtaken(seen):
            return Result.SUPERSEDED
        unwanted = self.unwanted_since is not None and looks.age_of(self.unwanted_since) > WITHDRAWN_AFTER
        return Result.NOT_APPLIED if unwanted else Open()

    def closing(self, status: Status, result: Result, age_of: AgeOf) -> Status:
        """The roll that it belongs to has one node more that was restarted, and another average."""
        rollout = status.rollout
        if result is not Result.APPLIED or rollout is None:
            return status
        seconds, others = int(age_of(self.stopping_since or self.at).total_seconds()), rollout.restarted
        average = (rollout.node_seconds * others + seconds) // (others + 1)
        nodes = with_node(rollout.nodes, self.step.node_id)
        return replace(status, rollout=replace(rollout, restarted=others + 1, node_seconds=average, nodes=nodes))

    @property
    def facts(self) -> EventFacts:
        """Which node, in which pod, and since when it is back."""
        step = self.step
        return EventFacts(
            kind=step.kind, node=step.title, node_id=step.node_id, pod=step.pod, after=step.after,
            begun_at=self.at, in_sync_at=self.stable_since,
        )  # fmt: skip

    def announced(self) -> EventRecord | None:
        """Its node will be away for a while, or a person has to act."""
        title, pod = self.step.title, self.step.pod
        if not pod:
            return EventRecord("RestartRequested", "Restart", f"restart {title}", facts=self.facts)
        return EventRecord("RestartingNode", "Evict", f"restarting {title}: pod {pod} is evicted", facts=self.facts)

    def progress(self, ago: Callable[[str], str]) -> str:
        """Whether its node is back, and for how long."""
        stable = self.stable_since
        outcome = f"back and in sync for {ago(stable)}" if stable is not None else "not back yet"
        return f"restart of {self.step}, begun {ago(self.at)} ago; {outcome}"


def _after(at: Stamp, seconds: Any) -> Stamp:
    try:
        return stamp(datetime.fromisoformat(at) + timedelta(seconds=read_number(seconds)))
    except OverflowError:
        raise ValueError("a moment that no clock ever shows") from None


def mark_of(partition: str) -> str:
    """What is remembered of "orders-3": short, as a status has room for 64 restarts."""
    return hashlib.sha256(partition.encode()).hexdigest()[:8]


def supported_now(node: Node) -> str:
    """The range of metadata.version, which every release of Kafka widens; empty where it is not known."""
    return str(node.known_range_of(METADATA_VERSION) or "")


def _runs_controller(owner: StatefulSet, pod: Pod, hosts: Set[str]) -> bool:
    """`hosts`: of controllers. A combined node may be in a StatefulSet that is listed as one of brokers."""
    return owner.role == "controllers" or not hosts.isdisjoint(map(plain_host, pod.host_names))


def _told_waiting(pod: Pod) -> str:
    return f"pod {pod.name} does not run: {pod.waiting}{pod.told_restarts}"
