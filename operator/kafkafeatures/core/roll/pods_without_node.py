"""Check that every pod of a StatefulSet runs a registered node: otherwise the roll waits, and halts after
`nodeTimeout`.

Pure. One of the checks of `core/roll/checks.py`; `core/roll/halts.py` uses it for stuck nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.roll.check_input import Refusal, RestartCheckInput
from kafkafeatures.core.roll.pods import PodWithoutNode, look_at
from kafkafeatures.core.roll.waits import stalled, waiting
from kafkafeatures.core.words import format_span


def every_pod_runs_a_node(inputs: RestartCheckInput) -> Refusal | None:
    """Every pod runs a registered node. A new pod of a StatefulSet that was scaled up has no partitions, but it may be
    the first to fail on the new image; and if it cannot be scheduled, it takes the resources of the next pod that is
    evicted.
    """
    if not inputs.fleet.without_node:
        return None
    late = next(without_node_for_long(inputs), None)
    if late is not None:
        return never_registered(inputs, late)
    if inputs.in_flight:
        return waiting(inputs)
    first = inputs.fleet.without_node[0]
    pod = first.pod.name
    return Wait(
        Reason.ROLLING_NODES,
        _unregistered_since(first, "yet"),
        subject=f"pod {pod}",
        remedy=f"{look_at(pod)}; repair it, or scale {first.owner.name} back",
    )


def without_node_for_long(inputs: RestartCheckInput) -> Iterator[PodWithoutNode]:
    """Pods whose node should have registered by now, or that should have stopped."""
    timeout, read_at = inputs.desired.rollout.node_timeout, inputs.pods_read_at
    for nodeless in inputs.fleet.without_node:
        created_at = nodeless.pod.created_at
        if (
            inputs.hangs(nodeless.pod)
            if nodeless.pod.terminating
            else created_at is not None and read_at - created_at > timeout
        ):
            yield nodeless


def never_registered(inputs: RestartCheckInput, late: PodWithoutNode) -> Stalled:
    """Halt of the roll for a pod whose node never registered, with its remedy."""
    text = _unregistered_since(late, f"after {format_span(inputs.desired.rollout.node_timeout)}")
    if late.pod.terminating:
        return stalled(text, inputs.remedy_while_stopping(late.pod), subject=f"pod {late.pod.name}")
    anew = ", delete it to have it of the current revision" if late.is_outdated else ""
    remedy = f"{look_at(late.pod.name)}; repair it{anew}, or scale {late.owner.name} back"
    return stalled(text, remedy, subject=f"pod {late.pod.name}")


def _unregistered_since(pod: PodWithoutNode, since: str) -> str:
    reason = "it is stopping" if pod.pod.terminating else pod.pod.waiting
    text = f"pod {pod.pod.name} of {pod.owner.kind} {pod.owner.name} runs no registered node {since}"
    return text + (f" ({reason})" if reason else "")
