"""May one more node be restarted now? Ordered chains of small pure checks; the first that refuses is told.

Called by `core/roll/stage.py`, in every reconciliation of a resource whose nodes are restarted. A check that cannot
tell refuses: silence never starts anything. P1 to P5 and S1 to S4 of the rules for safe rolls are each one check, or
the admission of a broker (`core/facts/replication.py`) and of a controller (`core/facts/quorum.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from kafkafeatures.api.names import SINGLE_REPLICA_TOPICS
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.status import Result
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.costs import topics_and_partitions
from kafkafeatures.core.engine.decisions import PARTITIONS_ARE_NOT_NEEDED, Stalled, Wait
from kafkafeatures.core.facts.node_sets import holds
from kafkafeatures.core.facts.observation import NOT_SUPPORTED, Known, Node, Unknown
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.core.facts.releases import Undo, format_level
from kafkafeatures.core.facts.replication import NAMED, format_partitions
from kafkafeatures.core.facts.workloads import Pod, StatefulSet
from kafkafeatures.core.levels.changes import undo_of
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.coming_back import Phase
from kafkafeatures.core.roll.crashes import STEADY_AFTER, Crash
from kafkafeatures.core.roll.drivers import Reach
from kafkafeatures.core.roll.excuses import MOST_MARKS
from kafkafeatures.core.roll.migrations import no_migration_is_open
from kafkafeatures.core.roll.pods import Awaited, PodWithoutNode
from kafkafeatures.core.roll.question import Refusal, RestartQuestion
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.core.roll.snapshots import snapshots_are_newer
from kafkafeatures.core.words import counted, format_span

POLL = 1.0
"""Seconds until it is looked again while a node is in flight, or waits to go."""
NODES_A_SECOND = 200.0
"""Of a large cluster a look takes longer, and is taken less often."""
REFUSED_POLL = 5.0
"""The same where somebody else has to do something first."""


Check = Callable[[RestartQuestion], Refusal | None]


# --- of any node ---


def driver_allows(question: RestartQuestion) -> Refusal | None:
    """It restarts single nodes, and what it restarts is as a roll needs it."""
    driver, found = question.driver, question.fleet.blockers
    if driver.reach is not Reach.ONE_NODE:
        text = f"driver {driver.name} restarts {driver.reach.value}, and a roll restarts one node after the other"
        return Stalled(Reason.ROLLOUT_HALTED, f"{text}; choose another driver in spec.workload.driver")
    if found:
        return Stalled(found[0].reason or Reason.ROLLOUT_HALTED, str(found[0]), found)
    return None


def binary_holds_levels(question: RestartQuestion) -> Refusal | None:
    """Never a node into a binary that cannot hold a finalized level: it could not register again."""
    blockers = tuple(_levels_in_danger(question))
    if not blockers:
        return None
    first = blockers[0]
    return Stalled(first.reason or Reason.NODES_BEHIND, str(first), blockers)


def _levels_in_danger(question: RestartQuestion) -> Iterator[Blocker]:
    if not question.fleet.needing or isinstance(question.seen.finalized, Unknown):
        return
    for name, ranges in question.ranges_of_binaries.items():
        for feature, level in sorted(question.seen.finalized.value.items()):
            held = ranges.get(feature, NOT_SUPPORTED)
            if level in held or not level:
                continue
            downgrade = UpdateFeature(feature, level, held.max)
            is_too_low = level < held.min
            impossible = not is_too_low and undo_of(UpdateFeature(feature, held.max, level)) is Undo.IMPOSSIBLE
            remedy = f"downgrade {feature} to {held.max} first, with the consent {downgrade.consent}"
            if is_too_low:
                remedy = f"raise {feature} to {format_level(feature, held.min)} or higher first"
            elif impossible:
                remedy = (
                    f"Kafka refuses to downgrade {feature}; use an image that supports {format_level(feature, level)}"
                )
            yield Blocker(
                BlockerKind.NODE_RANGE,
                f"the new image of {name} supports {feature} {held}, finalized is {format_level(feature, level)}: "
                "its nodes could not register again",
                remedy,
                feature=feature,
                wanted=level,
                supported=held,
                reason=Reason.DOWNGRADE_REFUSED if impossible else Reason.NODES_BEHIND,
            )


def levels_go_first(question: RestartQuestion) -> bool:
    """Whether what keeps the new binary from holding a level is about to be downgraded anyway."""
    after = {change.feature: change.after for change in question.changes}
    blocked = tuple(_levels_in_danger(question))
    return bool(blocked) and all(one.supported and after.get(one.feature) in one.supported for one in blocked)


# --- of one more ---


class Halt(NamedTuple):
    """What stops a roll, and what it stops: `revision` of `owner`, where that is known; else everything.

    `made_at`: when the pod was made that crashes on it, where that was not by this roll.
    """

    why: Stalled
    owner: StatefulSet | None
    revision: str
    made_at: datetime | None = None

    def stops(self, owner: StatefulSet) -> bool:
        """Whether the pods of this StatefulSet would become what has failed: the same revision, or image."""
        if self.owner is None:
            return True
        is_the_same = owner.name == self.owner.name or owner.image == self.owner.image
        return is_the_same and self.revision == self.owner.update_revision


def nothing_is_halted(question: RestartQuestion) -> Refusal | None:
    """A node that did not come back in time stops the roll, until it does or is replaced; so does one that crashes."""
    return next((halt.why for halt in _halts(question)), None)


def is_halted_for(question: RestartQuestion, id_: int) -> bool:
    """Whether its next pod would be what has failed already. Nothing else is asked of one that is stuck: another image
    may be what helps. What crashed on the image that somebody went back to, and had it before, does not count.
    """
    owner, rollout = question.fleet.sets[id_], question.remembered.status.rollout
    begun = rollout.started_at if rollout is not None and rollout.id == question.roll_id else None
    late = (one for one in _without_node_for_long(question) if not one.is_outdated)
    unregistered = any(Halt(_unregistered(question, one), one.owner, one.pod.revision).stops(owner) for one in late)
    since = None if begun is None else question.remembered.now - question.remembered.age_of(begun)
    return unregistered or any(
        halt.stops(owner) for halt in _halts(question) if since is None or halt.made_at is None or halt.made_at >= since
    )


def _halts(question: RestartQuestion) -> Iterator[Halt]:
    timeout = question.wanted.rollout.node_timeout
    # A log that is recovered takes as long as it takes; and where it cannot be read, the node may well be back.
    patient = (Phase.BACK, Phase.RECOVERING, Phase.REQUESTED, Phase.UNKNOWN)
    for one in question.in_flight:
        since = one.sent.stopping_since  # not its intent: an eviction may be refused for a day before it is carried out
        late = since is not None and question.remembered.age_of(since) > timeout
        if late and one.state.phase not in patient:
            text = f"is not back after {format_span(timeout)}: {one.state.detail}"
            why_not = _halted(question, one.step.node_id, text, _remedy(question, one.step))
            pod = question.pod_of(one.step.pod)
            found = pod.revision if pod is not None and pod.uid != one.step.pod_uid else one.step.after
            yield Halt(why_not, question.owner_of(one.step.pod), found)
    for id_, why in question.fleet.needing.items():
        if id_ not in question.flying and _restarted_before(question, id_):
            remedy = question.driver.remedy_of_outdated(question.title(id_))
            why_not = _halted(question, id_, f"was restarted in this roll, and still needs it: {why}", remedy)
            owner = question.fleet.sets.get(id_)
            yield Halt(why_not, owner, owner.update_revision if owner is not None else "")
    for crash in question.crashes:
        made_at = None if _is_of_this_roll(question, crash) else crash.pod.created_at
        yield Halt(_crashed(crash), crash.owner, crash.pod.revision, made_at)


def _is_of_this_roll(question: RestartQuestion, crash: Crash) -> bool:
    """Whether this roll has restarted its node: then it crashes on what is rolled out, whatever two clocks say."""
    rollout = question.remembered.status.rollout
    done = rollout.nodes if rollout is not None and rollout.id == question.roll_id else ""
    ids = (id_ for id_, pod in question.fleet.pods.items() if pod.uid == crash.pod.uid)
    return any(id_ in question.flying or holds(done, id_) for id_ in ids)


def _crashed(crash: Crash) -> Stalled:
    """It holds up levels as well: most of them are there to stay."""
    counts = f"it counts until the container has run for {format_span(STEADY_AFTER)}"
    return _stalled(
        str(crash),
        f"see `kubectl logs {crash.pod.name} --previous`; revert the image, or repair what it needs; {counts}, so if "
        "the image is not to blame, delete the pod",
        stops="no other node is restarted and no level is raised",
    )


def _remedy(question: RestartQuestion, step: RestartNode) -> str:
    """For a node that is not back. There is nothing to look at of a pod that is gone."""
    seen = question.seen.workloads
    if step.pod and isinstance(seen, Known) and seen.value.pod(step.pod) is None:
        return question.driver.remedy_of_missing(seen.value, step.pod, step.title)
    if _is_left_behind(question, step):
        return f"{_look(step.pod)}; delete the pod: its next one is of the current revision"
    repair = "repair the node, or revert the image"
    if step.pod and question.node(step.node_id) is None:  # as where no controller runs at all
        repair += "; then delete the pod: no node that answers knows this one, so the operator leaves it alone"
    return (f"{_look(step.pod)}; " if step.pod else "") + repair


def _is_left_behind(question: RestartQuestion, step: RestartNode) -> bool:
    """Whether the template was changed since its new pod was made."""
    asks, has = question.owner_of(step.pod), question.pod_of(step.pod)
    if asks is None or has is None or has.uid == step.pod_uid or has.terminating:
        return False
    return asks.update_revision not in ("", step.after, has.revision)


def _look(pod: str) -> str:
    return f"see `kubectl logs {pod}` and `kubectl describe pod {pod}`"


def _halted(question: RestartQuestion, id_: int, text: str, remedy: str) -> Stalled:
    return _stalled(f"{question.title(id_)} {text}", remedy, question.nodes(id_))


def _stalled(
    text: str, remedy: str, nodes: tuple[Node, ...] = (), *, stops: str = "no other node is restarted"
) -> Stalled:
    blocker = Blocker(BlockerKind.WORKLOAD, f"{stops}: {text}", remedy, nodes=nodes)
    return Stalled(Reason.ROLLOUT_HALTED, str(blocker), (blocker,))


def _restarted_before(question: RestartQuestion, id_: int) -> bool:
    """For the same roll, and to the same revision: to do it again would change nothing. Of a roll that another release
    began, the history tells, as far as it goes.
    """
    status = question.remembered.status
    if status.rollout is not None and status.rollout.id == question.roll_id and holds(status.rollout.nodes, id_):
        return True
    pod, owner = question.fleet.pods.get(id_), question.fleet.sets.get(id_)
    target = pod.name if pod is not None else question.title(id_)
    after = owner.update_revision if owner is not None else ""
    if status.rollout is None or status.rollout.id != question.roll_id or not status.rollout.started_at:
        return False
    ours = (entry for entry in reversed(status.history) if (entry.kind, entry.target) == (RestartNode.kind, target))
    last = next(ours, None)  # an image may have been taken back and set again since those before it
    return (
        last is not None
        and (last.after, last.result) == (after, Result.APPLIED)
        and last.at >= status.rollout.started_at
    )


def pods_are_known(question: RestartQuestion) -> Refusal | None:
    """Which pod is which node, and of which revision: one that is not known yet may have to go first."""
    unknown = [one for one in question.fleet.waits if not one.is_alone]
    if not unknown:
        return None
    return waiting(question) if question.in_flight else unconfirmed(question, unknown[0])


def unconfirmed(question: RestartQuestion, one: Awaited, meanwhile: str = "") -> Wait:
    """What is waited for, since when, and what to do about it. `meanwhile`: what the others wait for."""
    since = f" since {question.unconfirmed[one.node.id]}" if one.node is not None else ""
    text = f"{one.text}{since}; {one.remedy}" + (f"; of the others: {meanwhile}" if meanwhile else "")
    return Wait(Reason.ROLLING_NODES, text, after=2.0)


def every_pod_runs_a_node(question: RestartQuestion) -> Refusal | None:
    """Of a StatefulSet that was scaled up. A pod without a registered node has no partitions, but it may be the first
    that fails on the new image; and one that has found no place takes that of the next pod that is evicted.
    """
    if not question.fleet.without_node:
        return None
    late = next(_without_node_for_long(question), None)
    if late is not None:
        return _unregistered(question, late)
    told = _told_without_node(question.fleet.without_node[0], "yet")
    return waiting(question) if question.in_flight else Wait(Reason.ROLLING_NODES, told, after=2.0)


def _without_node_for_long(question: RestartQuestion) -> Iterator[PodWithoutNode]:
    timeout, now = question.wanted.rollout.node_timeout, question.remembered.now
    for one in question.fleet.without_node:
        if one.pod.created_at is not None and now - one.pod.created_at > timeout and not one.pod.terminating:
            yield one


def _unregistered(question: RestartQuestion, late: PodWithoutNode) -> Stalled:
    told = _told_without_node(late, f"after {format_span(question.wanted.rollout.node_timeout)}")
    anew = ", delete it to have it of the current revision" if late.is_outdated else ""
    return _stalled(told, f"{_look(late.pod.name)}; repair it{anew}, or scale {late.owner.name} back")


def _told_without_node(found: PodWithoutNode, since: str) -> str:
    why = "it is stopping" if found.pod.terminating else found.pod.waiting
    told = f"pod {found.pod.name} of StatefulSet {found.owner.name} runs no registered node {since}"
    return told + (f" ({why})" if why else "")


def quorum_is_known(question: RestartQuestion) -> Refusal | None:
    """Without an active controller nothing that was read of the cluster is current."""
    why = question.seen.no_quorum
    if why is not None:
        return Wait(Reason.WAITING_FOR_QUORUM, f"no active controller is known: {why}", after=2.0)
    if isinstance(question.seen.quorum, Unknown):
        return Wait(Reason.WAITING_FOR_QUORUM, f"the quorum is not known: {question.seen.quorum.why}", after=2.0)
    if isinstance(question.seen.finalized, Unknown):
        return Wait(Reason.PREFLIGHT, f"the finalized levels are not known: {question.seen.finalized.why}", after=2.0)
    return None


def partitions_are_known(question: RestartQuestion) -> Refusal | None:
    """All of them, from the log or by asking; what an ACL may hide is not known."""
    if isinstance(question.seen.partitions, Known):
        return None
    if question.seen.partitions.why.kind is FailureKind.NOT_ASKED:
        return PARTITIONS_ARE_NOT_NEEDED
    return unread(question.seen.partitions, "the partitions could not be read")


def unread(fact: Unknown, what: str) -> Refusal:
    """What it means that something could not be read."""
    text = f"{what}: {fact.why}"
    if fact.why.kind in (FailureKind.AUTHORIZATION, FailureKind.FORBIDDEN):
        return Stalled(Reason.NOT_AUTHORIZED, text)
    if fact.why.kind is FailureKind.WAITING_FOR_BUDGET:
        return Wait(Reason.WAITING_FOR_BUDGET, text, after=REFUSED_POLL)
    return Wait(Reason.PREFLIGHT, text, after=2.0)


def promises_can_be_kept(question: RestartQuestion) -> Refusal | None:
    """Partitions that are unavailable whenever their node restarts need a consent."""
    nodes = [node for id_ in question.fleet.needing for node in question.nodes(id_)]
    hosts = any(Role.BROKER in node.roles for node in nodes) or not nodes
    never = question.not_excused if hosts else {}
    if not never:
        return None
    count, names = sum(never.values()), sorted(never)
    message = (
        f"{counted(count, 'partition')} cannot stay available while a broker restarts: "
        f"min.insync.replicas requires every replica (topics: {', '.join(names[:NAMED])}"
        f"{f' and {len(names) - NAMED} more' if len(names) > NAMED else ''})"
    )
    anew = f"remove the consent {SINGLE_REPLICA_TOPICS}, apply that, then add it again"
    given, reason = SINGLE_REPLICA_TOPICS in question.wanted.consents, Reason.CONSENT_SPENT
    if question.excused is not None:
        was = "which are no longer the same" if question.excused.topics > MOST_MARKS else "which these are not"
        message += f"; the consent was given for {topics_and_partitions(question.excused)}, {was}"
        remedy, reason = f"add replicas, or {anew}", Reason.CONSENT_REQUIRED
    elif given:
        remedy = f"the consent was used by an earlier roll: {anew}"
    else:
        remedy, reason = f"add replicas, or add {SINGLE_REPLICA_TOPICS} to consents", Reason.CONSENT_REQUIRED
    blocker = Blocker(BlockerKind.PARTITION, message, remedy)
    return Stalled(reason, str(blocker), (blocker,))


def nothing_is_reassigned(question: RestartQuestion) -> Refusal | None:
    """Who moves partitions and who restarts nodes take the same slack."""
    count, names = question.replication.reassigning() if question.replication else (0, ())
    if not count:
        return None
    text = (
        f"a reassignment is in progress: {format_partitions(count, names)}; no node is restarted until it is complete"
    )
    return Wait(Reason.ROLLING_NODES, text, after=2.0)


def nothing_is_unavailable(question: RestartQuestion) -> Refusal | None:
    """No partition is below min.insync.replicas already, or without a leader, for whatever reason; those that a consent
    excuses may lack one replica.
    """
    if question.replication is None:
        return None
    low = question.replication.under_min_isr(excused=question.is_excused)
    offline = question.replication.offline(excused=question.is_excused)
    for (count, names), one, several in (
        (low, "is below min.insync.replicas", "are below min.insync.replicas"),
        (offline, "has no leader", "have no leader"),
    ):
        if count:
            found = f"{format_partitions(count, names)} {one if count == 1 else several}"
            back = f"; bring {question.titles(question.gone)} back" if question.gone else ""
            text = f"{found}; no node is restarted until that has passed{back}{_looks(question)}"
            return Wait(Reason.ROLLING_NODES, text, after=2.0)
    return None


def cap_is_kept(question: RestartQuestion) -> Refusal | None:
    """As many at once as the document allows, everything that is away for another reason counted."""
    if not question.is_full:
        return None
    if question.in_flight:
        return waiting(question)
    are = "is" if len(question.gone) == 1 else "are"
    gone = question.titles(question.gone)
    text = f"{gone} {are} unavailable; bring {gone} back: until then no node is restarted"
    return Wait(Reason.ROLLING_NODES, text + _looks(question), after=2.0)


def _looks(question: RestartQuestion) -> str:
    """What can be done about the first brokers that are away."""
    return "".join(f"; {look}" for id_ in question.gone[:NAMED] if (look := _look_of_unavailable(question, id_)))


def _look_of_unavailable(question: RestartQuestion, id_: int) -> str:
    """What can be done about it; empty where its pod is not known, or stops."""
    pod = question.fleet.pods.get(id_)
    if pod is None or pod.terminating:
        return ""
    if pod.waiting:
        return f"pod {pod.name} does not run ({told_waiting(pod)}): delete it if it does not run again by itself"
    return f"see `kubectl logs {pod.name}`, and delete the pod if it hangs"


def told_waiting(pod: Pod) -> str:
    """Why its container does not run, and why it ended before."""
    return ", ".join(dict.fromkeys(one for one in (pod.waiting, pod.ended_for) if one))


def budget_allows(question: RestartQuestion, id_: int) -> Wait | None:
    """A PodDisruptionBudget has the last word at the eviction; it is not asked for what it refuses now. Nor is a pod
    evicted that Kubernetes would not create again.
    """
    out_of_order = question.fleet.out_of_order.get(id_)
    if out_of_order:
        return Wait(Reason.ROLLING_NODES, out_of_order, after=2.0)
    why_not = question.fleet.kept.get(id_)
    return Wait(Reason.WAITING_FOR_BUDGET, why_not, after=REFUSED_POLL) if why_not else None


def waiting(question: RestartQuestion) -> Wait:
    """For the nodes in flight. The first of them that is not back is named."""
    late = [one for one in question.in_flight if not one.is_back] or list(question.in_flight)
    first, more = late[0], len(question.in_flight) - 1
    stable = f", and must stay so for {format_span(question.wanted.rollout.stable_for)}" if first.is_back else ""
    if not first.is_back and _is_left_behind(question, first.step):
        stable = f"; delete pod {first.step.pod} if it does not come back: its next one is of the current revision"
    text = f"{first.state.detail}{stable}" + (f" (and {more} more in flight)" if more else "")
    poll = REFUSED_POLL if first.is_asked_of_a_person else POLL
    return Wait(Reason.ROLLING_NODES, text, after=max(poll, len(question.seen.nodes) / NODES_A_SECOND))


FOR_ANY_NODE: tuple[Check, ...] = (no_migration_is_open, driver_allows, binary_holds_levels)
"""Also of a node that is stuck: its pod cannot run."""

OF_PODS: tuple[Check, ...] = (nothing_is_halted, pods_are_known, every_pod_runs_a_node)
"""Also where no node needs a restart any more."""

OF_THE_CLUSTER: tuple[Check, ...] = (
    quorum_is_known,
    partitions_are_known,
    promises_can_be_kept,
    nothing_is_reassigned,
    nothing_is_unavailable,
)

FOR_ONE_DECIDED: tuple[Check, ...] = (nothing_is_halted, *OF_THE_CLUSTER, snapshots_are_newer)
"""Of a restart that was decided, and may not have been sent."""

FOR_ONE_MORE: tuple[Check, ...] = (*OF_PODS, *OF_THE_CLUSTER, cap_is_kept, snapshots_are_newer)
"""Of any other node. Read from top to bottom."""


def refusal(chain: tuple[Check, ...], question: RestartQuestion) -> Refusal | None:
    """The first that there is."""
    return next((found for check in chain if (found := check(question)) is not None), None)
