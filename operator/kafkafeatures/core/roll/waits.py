"""Waits and halts of a roll: their texts, and how soon the next reconciliation follows.

Pure. Called by the checks of a roll and by `core/roll/next_restart.py`.
"""

from __future__ import annotations

from kafkafeatures.api.names import RESTART_POD_UID
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Stalled, Wait, unreadable
from kafkafeatures.core.facts.observation import Known, Node, Unknown
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.facts.workloads import Pod
from kafkafeatures.core.roll.asked import may_be_pending
from kafkafeatures.core.roll.check_input import Refusal, RestartCheckInput, Restarting
from kafkafeatures.core.roll.coming_back import ReturnPhase
from kafkafeatures.core.roll.drivers import asking_driver
from kafkafeatures.core.roll.pods import PodObstacle, look_at
from kafkafeatures.core.words import format_span

POLL = 1.0
"""Seconds until the next reconciliation while a node is in flight."""
NODES_A_SECOND = 200.0
"""Nodes for each second of that time: a large cluster takes longer to read, and is read less often."""
REFUSED_POLL = 5.0
"""Seconds until the next reconciliation where a user has to act first."""
WITHDRAWN_POLL = 15.0
"""Seconds until the next reconciliation while a withdrawn request may still be carried out, which takes minutes."""
AGE_DIVISOR = 10.0
"""The next reconciliation follows after the time since a person was asked for a restart, divided by this, but never
before `POLL` or after `REFUSED_POLL`. It is early at first, as a script restarts the node within seconds.
"""


def unconfirmed(inputs: RestartCheckInput, obstacle: PodObstacle, meanwhile: str = "") -> Wait:
    """Wait for a node whose pod is not confirmed: since when, and what to do about it. `meanwhile`: message about what
    the other nodes wait for.
    """
    since = f" since {inputs.unconfirmed[obstacle.node.id]}" if obstacle.node is not None else ""
    text = f"{obstacle.text}{since}; {obstacle.remedy}" + (f"; of the others: {meanwhile}" if meanwhile else "")
    subject = obstacle.node.title if obstacle.node is not None else obstacle.subject
    return Wait(obstacle.reason, text, subject=subject, remedy=obstacle.remedy)


def stalled(
    text: str, remedy: str, nodes: tuple[Node, ...] = (), *, subject: str, stops: str = "no other node is restarted"
) -> Stalled:
    """Halt of the roll. `subject`: the node or pod that causes it. `stops`: what is not done until a user acts."""
    blocker = Blocker(BlockerKind.WORKLOAD, f"{stops}: {text}", remedy, nodes=nodes)
    return Stalled(Reason.ROLLOUT_HALTED, str(blocker), (blocker,), subject=subject, remedy=remedy)


def unread(fact: Unknown, subject: str) -> Refusal:
    """Refusal because something could not be read: a halt where a right is missing, else a wait. `subject`: a clause
    such as PODS_UNKNOWN.
    """
    failure = fact.failure
    if failure.kind in (FailureKind.AUTHORIZATION, FailureKind.FORBIDDEN):
        return Stalled(Reason.NOT_AUTHORIZED, f"{subject}: {failure}", subject=failure.subject, remedy=failure.action)
    if failure.kind is FailureKind.WAITING_FOR_BUDGET:
        return unreadable(subject, failure, reason=Reason.WAITING_FOR_BUDGET, delay=REFUSED_POLL)
    return unreadable(subject, failure)


def why_not_running(pod: Pod) -> str:
    """Reasons why its container does not run, and why it ended before."""
    return ", ".join(dict.fromkeys(reason for reason in (pod.waiting, pod.ended_for) if reason))


def waiting(inputs: RestartCheckInput) -> Wait:
    """A wait for the nodes in flight, which names the first that is not back."""
    if (withdrawn := _withdrawn(inputs)) is not None:
        return withdrawn
    late = [restart for restart in inputs.in_flight if not restart.is_back] or list(inputs.in_flight)
    first, remaining = late[0], len(inputs.in_flight) - 1
    stable = ""
    if first.is_back:
        stable = f"; waiting until it has been stable for {format_span(inputs.desired.rollout.stable_for)}"
    elif inputs.is_left_behind(first.step):
        stable = f"; delete pod {first.step.pod} if it does not come back: its next one is of the current revision"
    elif first.step.pod and first.state.phase is ReturnPhase.RECOVERING and inputs.is_late(first):
        stable = f"; {look_at(first.step.pod)}: a log may take hours to recover, and if it hangs, delete the pod"
    text = f"{first.state.detail}{stable}" + (f" (and {remaining} more in flight)" if remaining else "")
    poll = POLL
    if first.is_asked_of_a_person:
        poll = _poll_of(inputs, first)
    return Wait(
        Reason.ROLLING_NODES,
        text,
        delay=max(poll, len(inputs.observation.nodes) / NODES_A_SECOND),
        is_dated=first.is_back,  # the message has the time that it lasts
        subject=first.step.title,
        remedy=_remedy_of(first),
    )


def _withdrawn(inputs: RestartCheckInput) -> Wait | None:
    """A wait after a request that is withdrawn, as the other operator may have begun just before. None if none is, or
    if other nodes are in flight.
    """
    (first, *others) = inputs.in_flight
    driver = asking_driver(first.step.by)
    if others or driver is None or not first.step.is_not_wanted(inputs.observation):
        return None
    is_pending, within = may_be_pending(first.sent_step, inputs.observation), format_span(driver.request_lifetime)
    text = f"the request to restart pod {first.step.pod} ({first.step.title}) is {'being ' * is_pending}withdrawn"
    return Wait(
        driver.reason,
        f"{text}; {driver.asked} may still carry it out within {within} if it has begun",
        delay=POLL if is_pending else WITHDRAWN_POLL,
        subject=f"pod {first.step.pod}",
        remedy=f"wait {within}",
    )


def asked(inputs: RestartCheckInput, restart: Restarting) -> Wait:
    """A wait for the other operator that was asked to restart a pod, and has not begun."""
    driver, pod = inputs.driver, restart.step.pod
    text = f"{driver.asked} was asked to restart pod {pod} ({restart.step.title}), and has not begun yet"
    workloads = inputs.observation.workloads
    namespace = f"-n {workloads.value.namespace} " if isinstance(workloads, Known) else ""
    command = f"kubectl annotate {namespace}pod {pod} {RESTART_POD_UID}-"
    remedy = f"wait; if it stays so, see the log of {driver.asked}; to withdraw the request: {command}"
    return Wait(driver.reason, text, delay=_poll_of(inputs, restart), subject=f"pod {pod}", remedy=remedy)


def _poll_of(inputs: RestartCheckInput, restart: Restarting) -> float:
    """Seconds until the next reconciliation while somebody else has to begin."""
    seconds = inputs.remembered.age_of(restart.sent_step.at).total_seconds()
    return min(max(seconds / AGE_DIVISOR, POLL), REFUSED_POLL)


def _remedy_of(first: Restarting) -> str:
    if first.is_back:
        return f"wait; if {first.step.title} ends again and again, see its log"
    if first.is_asked_of_a_person:
        return f"restart {first.step.title}"
    return look_at(first.step.pod) if first.step.pod else f"see the log of {first.step.title}, and repair it"
