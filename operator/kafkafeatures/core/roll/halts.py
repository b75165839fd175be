"""What halts a roll: a node that is not back in time, one that still needs its restart after it, one that crashes.

Pure. Asked by `core/roll/checks.py` before every restart, and for nodes that are stuck: a node whose next pod would be
what has failed already is not restarted to become the same. A halt ends when its node is back, or is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from kafkafeatures.api.status import Result
from kafkafeatures.core.engine.decisions import Stalled
from kafkafeatures.core.facts.node_sets import holds
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.workloads import StatefulSet
from kafkafeatures.core.roll.coming_back import Phase
from kafkafeatures.core.roll.crashes import STEADY_AFTER, Crash
from kafkafeatures.core.roll.pods import is_outdated, look_at
from kafkafeatures.core.roll.pods_without_node import never_registered, without_node_for_long
from kafkafeatures.core.roll.question import Refusal, RestartQuestion
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.core.roll.waits import stalled
from kafkafeatures.core.words import format_span


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
    may be what helps. A node that crashed on the image which the document went back to, and ran it before, does not
    count.
    """
    owner, rollout = question.fleet.sets[id_], question.remembered.status.rollout
    begun = rollout.started_at if rollout is not None and rollout.id == question.roll_id else None
    late = (one for one in without_node_for_long(question) if not one.is_outdated and not one.pod.terminating)
    unregistered = any(Halt(never_registered(question, one), one.owner, one.pod.revision).stops(owner) for one in late)
    since = None if begun is None else question.remembered.now - question.remembered.age_of(begun)
    return unregistered or any(
        halt.stops(owner) for halt in _halts(question) if since is None or halt.made_at is None or halt.made_at >= since
    )


def _halts(question: RestartQuestion) -> Iterator[Halt]:
    timeout = question.wanted.rollout.node_timeout
    # A log that is recovered takes as long as it takes; and where it cannot be read, the node may well be back.
    patient = (Phase.BACK, Phase.RECOVERING, Phase.REQUESTED, Phase.UNKNOWN)
    for one in question.in_flight:
        if question.is_late(one) and one.state.phase not in patient:
            text = f"is not back after {format_span(timeout)}: {one.state.detail}"
            why_not = _halted(question, one.step.node_id, text, _remedy(question, one.step))
            pod = question.pod_of(one.step.pod)
            # What hangs may be its old pod, which says nothing against the new image.
            found = pod.revision if pod is not None else one.step.after
            yield Halt(why_not, question.owner_of(one.step.pod), found)
    for id_, why in question.fleet.needing.items():
        if id_ not in question.flying and _restarted_before(question, id_):
            title = question.title(id_)
            remedy = (
                f"give {title} these settings, and restart it again"
                if question.permit is not None
                else question.driver.remedy_of_outdated(title)
            )
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
    """A crash halts the roll. Levels wait as well, since most crashes last."""
    counts = f"it counts until the container has run for {format_span(STEADY_AFTER)}"
    return stalled(
        str(crash),
        f"see `kubectl logs {crash.pod.name} --previous`; revert the image, or repair what it needs; {counts}, so if "
        "the image is not to blame, delete the pod",
        stops="no other node is restarted and no level is raised",
    )


def _remedy(question: RestartQuestion, step: RestartNode) -> str:
    """The remedy for a node that is not back. A pod that is gone cannot be inspected."""
    seen = question.seen.workloads
    pod = question.pod_of(step.pod)
    if step.pod and isinstance(seen, Known) and pod is None:
        return question.driver.remedy_of_missing(seen.value, step.pod, step.title)
    if pod is not None and pod.terminating:
        return question.while_stopping(pod)
    if question.is_left_behind(step):
        return f"{look_at(step.pod)}; delete the pod: its next one is of the current revision"
    repair = "repair the node, or revert the image"
    if step.pod and question.node(step.node_id) is None:  # as where no controller runs at all
        repair += "; then delete the pod: no node that answers knows this one, so the operator leaves it alone"
    return (f"{look_at(step.pod)}; " if step.pod else "") + repair


def _halted(question: RestartQuestion, id_: int, text: str, remedy: str) -> Stalled:
    return stalled(f"{question.title(id_)} {text}", remedy, question.nodes(id_))


def _restarted_before(question: RestartQuestion, id_: int) -> bool:
    """Whether the node was restarted in this roll, to this revision: to do it again would change nothing. For a roll
    that another release began, the history shows it, as far as it reaches. A request to restart the pod that it has now
    came later.
    """
    status = question.remembered.status
    pod, owner = question.fleet.pods.get(id_), question.fleet.sets.get(id_)
    if pod is not None and owner is not None and not is_outdated(pod, owner):
        return False
    if status.rollout is not None and status.rollout.id == question.roll_id and holds(status.rollout.nodes, id_):
        return True
    if question.permit is not None:
        return False  # the same node is restarted several times, and no other release began that
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
