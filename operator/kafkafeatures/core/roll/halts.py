"""Halts of a roll: a node that lost its disk, is not back in time, still needs its restart, or crashes.

Pure. Called by `core/roll/checks.py` before every restart, and by `core/roll/next_restart.py` for nodes that are stuck:
such a node is not restarted if its next pod would be like one that has failed. A halt ends when its node is back, or is
replaced. Each kind of halt is one function of `HALTS`, which yields a `Halt` for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain

from msgspec import Struct

from kafkafeatures.core.engine.consents import ConsentState, state_of
from kafkafeatures.core.engine.decisions import Stalled
from kafkafeatures.core.facts.node_sets import holds
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.workloads import StatefulSet
from kafkafeatures.core.roll.check_input import Refusal, RestartCheckInput
from kafkafeatures.core.roll.coming_back import ReturnPhase
from kafkafeatures.core.roll.crashes import STEADY_AFTER, Crash
from kafkafeatures.core.roll.disks import consent_to_disk
from kafkafeatures.core.roll.lagging import remedy_at_leader
from kafkafeatures.core.roll.pods import is_outdated, look_at, look_at_end
from kafkafeatures.core.roll.pods_without_node import never_registered, without_node_for_long
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.core.roll.targets import target_of
from kafkafeatures.core.roll.waits import stalled
from kafkafeatures.core.words import format_span


class Halt(Struct, frozen=True):
    """Failure that stops a roll.

    cause: the message, with the node and the remedy.
    owner: StatefulSet of the node that has failed; None: not known, so no node may be restarted.
    revision: the revision that has failed.
    since: when the crashing pod was made; None if the halt is no crash.
    """

    cause: Stalled
    owner: StatefulSet | None
    revision: str
    since: datetime | None = None

    def stops(self, inputs: RestartCheckInput, id_: int) -> bool:
        """Tell whether the next pod of this node would be like the one that has failed: of the same revision, or image.

        The exception is a template that was reverted to a revision which all pods once ran: a crash on it that is older
        than the node's present pod does not stop the restart, so that a node which is stuck on a newer revision gets
        the working one back. Both pods are dated by the API server's clock.
        """
        if self.owner is None:
            return True
        owner, pod = inputs.fleet.sets[id_], inputs.fleet.pods[id_]
        is_the_same = owner.name == self.owner.name or owner.image == self.owner.image
        if not is_the_same or self.revision != self.owner.update_revision:
            return False
        revision = inputs.revisions.get(target_of(owner))
        if revision is None or not revision.reached or self.since is None or pod.created_at is None:
            return True
        return self.since > pod.created_at


def nothing_is_halted(inputs: RestartCheckInput) -> Refusal | None:
    """No node has failed in this roll, unless it is back or was replaced since."""
    return next((halt.cause for halt in _halts(inputs)), None)


def is_halted_for(inputs: RestartCheckInput, id_: int) -> bool:
    """Tell whether the next pod of a stuck node would be like one that has failed already, or has not registered its
    node in time. Other halts do not stop its restart: another image may be the cure.
    """
    late = (
        nodeless
        for nodeless in without_node_for_long(inputs)
        if not nodeless.is_outdated and not nodeless.pod.terminating
    )
    unregistered = (
        Halt(never_registered(inputs, nodeless), nodeless.owner, nodeless.pod.revision) for nodeless in late
    )
    return any(halt.stops(inputs, id_) for halt in chain(unregistered, _halts(inputs)))


def back_on_new_disk(inputs: RestartCheckInput) -> Iterator[Halt]:
    """Halts by nodes that came back without their disks, whatever stopped them: the next node may lose its disk the
    same way. There is none on a way of a migration that restarts no node.
    """
    if not inputs.permit.restarts:
        return
    for node in inputs.disks.lost:
        consent = consent_to_disk(inputs.disks.earlier[node.id], node)
        spent = state_of(consent, inputs.desired.consents, inputs.remembered.status.spent_consents)
        accept = f"add {consent} to consents"
        if spent is ConsentState.SPENT:
            accept = f"remove the consent {consent}, apply the document, then add it again"
        pod, owner = inputs.fleet.pods.get(node.id), inputs.fleet.sets.get(node.id)
        look = f"see the volumes of pod {pod.name}" if pod is not None else f"see log.dirs of {node.title}"
        text = f"{node.title} came back on a new disk: none of its directories was there before"
        remedy = (
            f"{look}: if its old disk was to stay, mount it again, and restart {node.title}; if the disk was meant "
            f"to be new, {accept}"
        )
        cause = stalled(text, remedy, (node,), subject=node.title)
        yield Halt(cause, owner, pod.revision if pod is not None else "")


def not_back_in_time(inputs: RestartCheckInput) -> Iterator[Halt]:
    """Halts by nodes that were restarted, and should be back by now."""
    timeout = inputs.desired.rollout.node_timeout
    # The recovery of a log may take hours; and where the phase is not known, the node may be back already.
    patient = (ReturnPhase.BACK, ReturnPhase.RECOVERING, ReturnPhase.REQUESTED, ReturnPhase.UNKNOWN)
    for restart in inputs.in_flight:
        if inputs.is_late(restart) and restart.state.phase not in patient:
            text = f"is not back after {format_span(timeout)}: {restart.state.detail}"
            remedy = _remedy(inputs, restart.step)
            if restart.state.phase is ReturnPhase.CATCHING_UP:
                remedy += remedy_at_leader(inputs, restart.step.node_id)
            cause = _halted(inputs, restart.step.node_id, text, remedy)
            pod = inputs.pod_of(restart.step.pod)
            # The old pod may be the one that hangs, which says nothing against the new image.
            failed_revision = pod.revision if pod is not None else restart.step.next_revision
            yield Halt(cause, inputs.owner_of(restart.step.pod), failed_revision)


def restarted_in_vain(inputs: RestartCheckInput) -> Iterator[Halt]:
    """Halts by nodes that were restarted in this roll and still need the same restart."""
    for id_, reason in inputs.fleet.needing.items():
        if id_ not in inputs.flying and _was_restarted_for_it(inputs, id_):
            title = inputs.title(id_)
            remedy = (
                f"give {title} these settings, and restart it again"
                if inputs.permit.is_granted
                else inputs.driver.remedy_of_outdated(title)
            )
            cause = _halted(inputs, id_, f"was restarted in this roll, and still needs it: {reason}", remedy)
            owner = inputs.fleet.sets.get(id_)
            yield Halt(cause, owner, owner.update_revision if owner is not None else "")


def crashed_on_new_revision(inputs: RestartCheckInput) -> Iterator[Halt]:
    """Halts by nodes that crash on the revision that is rolled out."""
    for crash in inputs.crashes:
        yield Halt(_crashed(crash), crash.owner, crash.pod.revision, crash.pod.created_at)


HALTS: tuple[Callable[[RestartCheckInput], Iterator[Halt]], ...] = (
    back_on_new_disk,
    not_back_in_time,
    restarted_in_vain,
    crashed_on_new_revision,
)
"""Kinds of halts, in the order in which they are looked for; the first halt is reported."""


def _halts(inputs: RestartCheckInput) -> Iterator[Halt]:
    return chain.from_iterable(halts(inputs) for halts in HALTS)


def _crashed(crash: Crash) -> Stalled:
    """Halt for a crash. Levels wait as well, since most crashes last."""
    counts = f"it counts until the container has run for {format_span(STEADY_AFTER)}"
    return stalled(
        str(crash),
        f"{look_at_end(crash.pod)}; revert the image, or repair what it needs; {counts}, so if "
        "the image is not to blame, delete the pod",
        subject=f"pod {crash.pod.name}",
        stops="no other node is restarted and no level is raised",
    )


def _remedy(inputs: RestartCheckInput, step: RestartNode) -> str:
    """Remedy for a node that is not back. A pod that is gone cannot be inspected."""
    workloads = inputs.observation.workloads
    pod = inputs.pod_of(step.pod)
    if step.pod and isinstance(workloads, Known) and pod is None:
        return inputs.driver.remedy_of_missing(workloads.value, step.pod, step.title)
    if pod is not None and pod.terminating:
        return inputs.remedy_while_stopping(pod)
    if inputs.is_left_behind(step):
        return f"{look_at(step.pod)}; delete the pod: its next one is of the current revision"
    repair = "repair the node, or revert the image"
    if step.pod and inputs.node(step.node_id) is None:  # as where no controller runs at all
        repair += "; then delete the pod: no node that answers knows this one, so the operator leaves it alone"
    return (f"{look_at(step.pod)}; " if step.pod else "") + repair


def _halted(inputs: RestartCheckInput, id_: int, text: str, remedy: str) -> Stalled:
    return stalled(f"{inputs.title(id_)} {text}", remedy, inputs.nodes(id_), subject=inputs.title(id_))


def _was_restarted_for_it(inputs: RestartCheckInput, id_: int) -> bool:
    """Tell whether the node was already restarted for what it still needs, so that another restart would change
    nothing. False if a person requests the restart of its present pod, as that request came later.
    """
    pod, owner = inputs.fleet.pods.get(id_), inputs.fleet.sets.get(id_)
    if pod is not None and owner is not None and not is_outdated(pod, owner):
        return False
    revisions = (inputs.revisions.get(target) for target in inputs.targets_of(id_))
    return any(revision is not None and holds(revision.nodes, id_) for revision in revisions)
