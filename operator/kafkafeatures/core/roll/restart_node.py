"""The step that restarts a node: its request, its texts, its intent in the status, and how one that was sent ends.

Pure. Decided by `core/roll/stage.py`, sent by `reconcile/act.py`, registered in `core/kinds.py`. How far the node has
come back is judged in `core/roll/coming_back.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from kafkafeatures.api.names import SINGLE_REPLICA_TOPICS
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, read_number, read_stamp, read_text, stamp
from kafkafeatures.api.status import HistoryEntry, Intent, Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.event_records import EventFacts, EventRecord, note_of
from kafkafeatures.core.engine.settling import AgeOf, ObservationPair, OpenOutcome
from kafkafeatures.core.engine.steps import InFlight, Rejection, Step, sent_as
from kafkafeatures.core.facts.node_sets import with_node
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.roll.coming_back import AwayNode, ReturnPhase
from kafkafeatures.core.roll.targets import targets_of_restart

RESTARTING, REQUESTED, RESTARTED = "RestartingNode", "RestartRequested", "NodeRestarted"
"""Reasons of Events about a restart: it begins; a person is asked to make it; its node is back."""

ROUNDED = timedelta(seconds=2)
"""Largest error of an age: a stamp has whole seconds, and is made a moment before its age is computed."""


class RestartNode(AwayNode, frozen=True):
    """Restart of one node: the operator has its pod replaced, or, where `pod` is empty, a person is asked to do it.

    One restart ends one life of a pod: an eviction names the uid, so that to send it twice does nothing more.

    consent: the entry of `spec.consents` that it uses up.
    """

    kind: ClassVar[str] = "RestartNode"
    recorded_as: ClassVar[str] = "RestartNode"
    counts: ClassVar[bool] = False  # it adds nothing to the change count: a plan stays valid while nodes are restarted
    is_followed: ClassVar[bool] = True
    is_read_in_zookeeper: ClassVar[bool] = False
    settled_by: ClassVar[str] = "the node is back"
    reason: ClassVar[Reason] = Reason.ROLLING_NODES
    consents_of_plan: ClassVar[frozenset[str]] = frozenset({SINGLE_REPLICA_TOPICS})
    goes_at_any_time: ClassVar[bool] = False  # `RollState` makes the exception: where no partition has a leader

    consent: str = ""

    def __str__(self) -> str:
        return f"{self.title} ({self.pod})" if self.pod else self.title

    @property
    def target(self) -> str:
        """Object that is acted on: the pod, else the node."""
        return self.pod or self.title

    @property
    def request(self) -> str:
        """Request that leaves the process, in words."""
        return f"{self._asked_for.capitalize()} of {self}" if self.pod else f"RestartRequested: {self}"

    @property
    def _asked_for(self) -> str:
        return self.by or "eviction"

    @property
    def in_progress(self) -> str:
        """Message while the restart is carried out."""
        return f"restarting {self}" if self.pod else f"restart {self.title}"

    @property
    def revision(self) -> str:
        """The revision of the next pod."""
        return self.next_revision

    @property
    def is_decided_again(self) -> bool:
        """Tell whether the restart is decided once more, on a new reading, right before it is sent: not where a person
        is asked, who chooses the time anyway.
        """
        return bool(self.pod)

    def is_asked_for_by(self, earlier: Step) -> bool:
        """Tell whether an earlier intent asks for this very restart, of the same life of the pod."""
        return earlier == self

    def begin(self, at: Stamp, via: Via, observation: Observation, *, corrects_drift: bool = False) -> RestartInFlight:
        """Return the restart in flight that is remembered."""
        return RestartInFlight(self, at, via)

    def rejection(self, code: int, message: str) -> Rejection:
        """Meaning of a rejected request, by its HTTP status `code`: 403 and 400 need action; any other means that the
        API server does not allow it now (429), such as an eviction because of a PodDisruptionBudget.
        """
        reason = _REJECTED.get(code)
        text = f"the {self._asked_for} of pod {self.pod} was rejected: {message}"
        remedy = "let the PodDisruptionBudget allow one pod to be away, or bring back those that are"
        if self.by:
            remedy = "wait: the API server has too much to do"
        if reason is not None:
            remedy = "grant the operator the right, or change what refuses it: an admission webhook, a policy"
        return Rejection(reason or Reason.WAITING_FOR_BUDGET, text, remedy, needs_action=reason is not None)

    def to_intent(self) -> Mapping[str, Any]:
        """Fields of the intent in the status that only this kind of step has; `read` reverses it. Empty ones are left
        out, as a status must have room for 64 restarts.
        """
        texts = {
            "before": self.earlier_support,
            "after": self.next_revision,
            "podUid": self.pod_uid,
            "incarnation": self.incarnation,
        }
        texts |= {"consent": self.consent, "by": self.by}
        return {
            "target": self.target,
            "title": self.title,
            "nodeId": self.node_id,
            **{name: text for name, text in texts.items() if text},
            **({"brokerEpochBefore": self.broker_epoch} if self.broker_epoch >= 0 else {}),
            **({"czxidBefore": self.czxid} if self.czxid >= 0 else {}),
            **({"outOfSync": self.out_of_sync} if self.out_of_sync else {}),
            **({"lagging": " ".join(sorted(self.lagging))} if self.lagging else {}),
        }

    @classmethod
    def read(cls, intent: Intent) -> RestartInFlight:
        """Read an intent of the status. Raises ValueError where it is damaged."""
        fields = intent.unknown
        target, title = read_text(fields.get("target")), read_text(fields.get("title"))
        step = cls(
            node_id=read_number(fields.get("nodeId")),
            title=title,
            pod="" if target == title else target,
            pod_uid=read_text(fields.get("podUid", "")),
            earlier_support=read_text(fields.get("before", "")),
            next_revision=read_text(fields.get("after", "")),
            broker_epoch=read_number(fields.get("brokerEpochBefore", -1)),
            czxid=read_number(fields.get("czxidBefore", -1)),
            incarnation=read_text(fields.get("incarnation", "")),
            out_of_sync=read_number(fields.get("outOfSync", 0)),
            lagging=frozenset(read_text(fields.get("lagging", "")).split()),
            consent=read_text(fields.get("consent", "")),
            by=read_text(fields.get("by", "")),
        )
        return RestartInFlight(
            step,
            **sent_as(intent),
            stable_since=read_stamp(fields["stableSince"]) if "stableSince" in fields else None,
            unwanted_since=read_stamp(fields["unwantedSince"]) if "unwantedSince" in fields else None,
            stopping_since=_after(fields["at"], fields["stoppedAfter"]) if "stoppedAfter" in fields else None,
        )

    @classmethod
    def is_irreversible(cls, ended: HistoryEntry) -> bool:
        """False: a node can be restarted again."""
        return False

    @classmethod
    def event_of(cls, ended: HistoryEntry, facts: EventFacts | None) -> EventRecord | None:
        """The Event of a node that is back, or whose restart by a person is no longer requested; None for other ends.

        `facts`: None if only the history in the status is left.
        """
        note = note_of(ended.action, ended.message)
        if facts is None:  # with a pod, the action names the node and the pod, which alone is the target
            node, pod = (ended.target, "") if ended.action == ended.target else ("", ended.target)
            facts = EventFacts(kind=cls.kind, node=node, pod=pod)
        if ended.result == Result.APPLIED:
            return EventRecord(RESTARTED, "Restart", note, facts=facts)
        if ended.result == Result.NOT_APPLIED and not facts.pod:
            return EventRecord("RestartWithdrawn", "Restart", f"do not restart {note}", warning=True, facts=facts)
        return None


_REJECTED: Mapping[int, Reason] = {403: Reason.NOT_AUTHORIZED, 400: Reason.ROLLOUT_HALTED}
"""Reasons of the rejections that need action, by HTTP status."""


class RestartInFlight(InFlight, frozen=True):
    """A restart that is not over.

    stable_since: when the node was first observed to be back; None: it is not back.
    unwanted_since: when the request was no longer repeated, or gone from the pod, or withdrawn; None: it is wanted, or
        the old pod is gone.
    stopping_since: when the node was first observed to stop, or later on its way back; None: it still runs as before.
    """

    step: RestartNode
    stable_since: Stamp | None = None
    unwanted_since: Stamp | None = None
    stopping_since: Stamp | None = None

    def follow_up(self) -> Mapping[str, Any]:
        """The times above as fields of the intent. `stopping_since` is written as seconds after the intent, which is
        short: a status must have room for 64 restarts.
        """
        moments: dict[str, Any] = {"stableSince": self.stable_since} if self.stable_since is not None else {}
        if self.unwanted_since is not None:
            moments["unwantedSince"] = self.unwanted_since
        if self.stopping_since is not None:
            delay = datetime.fromisoformat(self.stopping_since) - datetime.fromisoformat(self.at)
            moments["stoppedAfter"] = max(0, int(delay.total_seconds()))
        return moments

    @property
    def seen_since(self) -> tuple[Stamp, ...]:
        """Since when its node is back, as a tuple of one; empty if it is not."""
        return (self.stable_since,) if self.stable_since is not None else ()

    def followed(self, pair: ObservationPair) -> RestartInFlight:
        """This restart with its three times brought up to date by the later reading."""
        phase = self.step.state_in(pair.later, pair.replication).phase
        may_be_unsent = phase is ReturnPhase.REQUESTED or self.step.is_not_wanted(pair.later)
        # A phase that is not known does not show that the node has begun to stop, and takes no earlier time back; nor
        # does it show that the request is on the pod again.
        is_known = phase is not ReturnPhase.UNKNOWN
        stopping = self.stopping_since or pair.at if is_known else self.stopping_since
        updated = replace(
            self,
            stable_since=_counted_from(self.stable_since, pair) if phase is ReturnPhase.BACK else None,
            unwanted_since=self.unwanted_since if may_be_unsent or (self.step.by and not is_known) else None,
            stopping_since=None if phase is ReturnPhase.REQUESTED else stopping,
        )
        return self.remembering(updated)

    def with_request(self, at: Stamp, *, repeats: bool) -> RestartInFlight:
        """This restart after a reconciliation that repeats its request or leaves it on the pod (`repeats`), or not."""
        return self.remembering(replace(self, unwanted_since=None if repeats else self.unwanted_since or at))

    def settle(self, pair: ObservationPair) -> Result | OpenOutcome:
        """Return the outcome by the later reading: the restart is over once its node has been back for `stableFor`.
        Times count from when this process first read them, so that neither a clock that was set nor a time in which no
        operator ran can end a wait early. For a request that is made on the pod, such as by an annotation, that time
        counts too: the pod was without it.
        """
        observation = pair.later
        if self.stable_since is not None and pair.known_for(self.stable_since) >= pair.stable_for:
            return Result.SUPERSEDED if self.step.is_for_another_image(observation) else Result.APPLIED
        if self.step.is_overtaken(observation):
            return Result.SUPERSEDED
        age_of = pair.age_of if self.step.by else pair.known_for
        unwanted = self.unwanted_since is not None and age_of(self.unwanted_since) > pair.request_lifetime(self.step.by)
        is_known = self.step.state_in(observation, pair.replication).phase is not ReturnPhase.UNKNOWN
        return Result.NOT_APPLIED if unwanted and is_known else OpenOutcome()

    def closing(self, status: Status, result: Result, age_of: AgeOf) -> Status:
        """The status in which the roll and the targets of this restart count its node as restarted, and the roll has
        the new average of seconds per node. A roll that began after this restart, as on the next way of a migration,
        does not count the node: it still has to be restarted for that roll.
        """
        rollout = status.rollout
        if result is not Result.APPLIED or rollout is None:
            return status
        seconds, earlier_restarts = int(age_of(self.stopping_since or self.at).total_seconds()), rollout.restarted
        average = (rollout.node_seconds * earlier_restarts + seconds) // (earlier_restarts + 1)
        began_in_roll = rollout.started_at is None or self.at >= rollout.started_at
        nodes = with_node(rollout.nodes, self.step.node_id) if began_in_roll else rollout.nodes
        targets = targets_of_restart(self.step)
        revisions = tuple(
            replace(revision, nodes=with_node(revision.nodes, self.step.node_id))
            if (revision.name, revision.revision) in targets
            else revision
            for revision in rollout.revisions
        )
        rollout = replace(
            rollout, restarted=earlier_restarts + 1, node_seconds=average, nodes=nodes, revisions=revisions
        )
        return replace(status, rollout=rollout)

    @property
    def facts(self) -> EventFacts:
        """The facts that its Events carry: the node, its pod, and since when it is back."""
        step = self.step
        return EventFacts(
            kind=step.kind, node=step.title, node_id=step.node_id, pod=step.pod, after=step.next_revision,
            begun_at=self.at, in_sync_at=self.stable_since,
        )  # fmt: skip

    def announced(self) -> EventRecord | None:
        """The Event of a node that will be away for a while, or that a person has to restart."""
        title, pod = self.step.title, self.step.pod
        if not pod:
            return EventRecord(REQUESTED, "Restart", f"restart {title}", facts=self.facts)
        action = "Restart" if self.step.by else "Evict"
        note = f"restarting {title}: pod {pod} is {self.step.how_restarted}"
        return EventRecord(RESTARTING, action, note, facts=self.facts)

    def progress(self, ago: Callable[[str], str]) -> str:
        """Progress in words: whether its node is back, and for how long."""
        stable = self.stable_since
        outcome = f"back and in sync for {ago(stable)}" if stable is not None else "not back yet"
        return f"restart of {self.step}, begun {ago(self.at)} ago; {outcome}"


def _counted_from(since: Stamp | None, pair: ObservationPair) -> Stamp:
    """The stamp from which this process counts: `since`, if this process has run since then, else the present time, so
    that the status shows what is really counted.
    """
    if since is None or pair.age_of(since) - pair.known_for(since) > ROUNDED:
        return pair.at
    return since


def _after(at: Stamp, seconds: Any) -> Stamp:
    """The stamp `seconds` after `at`. Raises ValueError if no date can have it."""
    try:
        return stamp(datetime.fromisoformat(at) + timedelta(seconds=read_number(seconds)))
    except OverflowError:
        raise ValueError("a moment that no clock ever shows") from None
