"""Permission to restart one certain node now: by the quorum, by its partitions, and by its PodDisruptionBudget.

Pure. Called by `core/roll/next_restart.py` for each candidate, once the checks that hold for every node
(`core/roll/checks.py`) allow another restart; and by `core/roll/roll.py` for restarts that a person was asked to make.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.spec import Availability
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Stalled, Wait, waits_on
from kafkafeatures.core.facts.observation import Known, NodeState, Unknown
from kafkafeatures.core.facts.quorum import why_not_restart
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.replication import Admission, Forbidding, InadmissibleReason, format_partitions
from kafkafeatures.core.roll.check_input import RestartCheckInput
from kafkafeatures.core.roll.lagging import cause_among
from kafkafeatures.core.roll.returned import counted_as_away, refused_by_unstable_nodes
from kafkafeatures.core.roll.small_quorums import is_only_voter, refused_by_small_quorum
from kafkafeatures.core.roll.voters import refused_by_voters
from kafkafeatures.core.roll.waits import REFUSED_POLL, why_not_running


def stuck_may_go(inputs: RestartCheckInput, id_: int) -> bool:
    """Tell whether a stuck node may be restarted: it is not live, and its pod cannot run (`inputs.stuck`), so that a
    restart may make nothing worse.

    A controller, also one that is a broker, may not while another controller is in flight and there is a quorum. If
    that does not forbid it, these may be restarted:

    - each node, if no partition has a leader;
    - a controller that is no broker, and a node with both roles if there is no quorum;
    - a broker that is in no ISR, or is alone in the ISR of a partition without a leader, if fewer than `maxParallel`
      other nodes are away: its data may be lost with the pod, and a person may be repairing it. Another stuck node is
      counted only once it was restarted; otherwise none of them could be the first.
    """
    node, is_controller = inputs.node(id_), inputs.is_controller(id_)
    no_quorum = inputs.observation.no_quorum is not None or isinstance(inputs.observation.quorum, Unknown)
    other_ids = inputs.flying - {id_}
    if is_controller and not no_quorum and any(inputs.is_controller(other_id) for other_id in other_ids):
        return False
    if inputs.observation.nothing_is_led:
        return True
    if is_controller and (no_quorum or node is None or Role.BROKER not in node.roles):
        return True
    if len(other_ids | ({*inputs.gone} - inputs.stuck)) >= inputs.cap:
        return False
    admission = _admission_of_stuck(inputs)
    return admission is not None and admission.allows(id_)


def _admission_of_stuck(inputs: RestartCheckInput) -> Admission | None:
    return inputs.admission(availability=Availability.RESPECT_MIN_ISR)


def refusal_of(inputs: RestartCheckInput, id_: int, used_consent: str = "") -> Wait | Stalled | None:
    """Refusal to restart this node now; None if it may be restarted. A combined node must satisfy the rules of
    controllers and those of brokers. `used_consent`: the consent that its restart has used already.
    """
    too_small = refused_by_small_quorum(inputs, id_, used_consent)
    if too_small is not None:
        return too_small
    why_not = refused_by_unstable_nodes(inputs, id_) or refused_by_voters(inputs, id_)
    if why_not is not None:
        return why_not
    unstable_ids, counts = counted_as_away(inputs, id_)
    if not is_only_voter(inputs, id_) and inputs.is_controller(id_) and isinstance(inputs.observation.quorum, Known):
        down = (inputs.flying | inputs.unavailable | unstable_ids) - {id_}
        reason = why_not_restart(id_, inputs.observation.quorum.value, down)
        if reason:
            text = f"{inputs.title(id_)} cannot be restarted now: {reason}{counts}"
            remedy = f"bring the other controllers back; {inputs.title(id_)} stays as it is until then"
            return Wait(Reason.WAITING_FOR_QUORUM, text, subject=inputs.title(id_), remedy=remedy)
    node = inputs.node(id_)
    is_broker = node is not None and Role.BROKER in node.roles
    if is_broker and id_ in inputs.unavailable:
        return refused_as_unavailable(inputs, id_)
    admission = inputs.admission(excluded=frozenset({id_}) & inputs.flying, beside=unstable_ids)
    if not is_broker or admission is None or admission.allows(id_):
        return refused_by_budget(inputs, id_)
    return forbidden_by(inputs, id_, admission.forbidding(id_))


def refused_as_unavailable(inputs: RestartCheckInput, id_: int) -> Wait:
    """Wait for a broker that is away, and either is not stuck, so that a restart would only begin its recovery anew, or
    is stuck and not admitted by its partitions.
    """
    admission = _admission_of_stuck(inputs)
    if id_ in inputs.stuck and admission is not None:
        return forbidden_by(inputs, id_, admission.forbidding(id_))
    pod, node = inputs.fleet.pods.get(id_), inputs.node(id_)
    if pod is not None and pod.waiting and (node is None or node.state is not NodeState.LIVE):
        reason = why_not_running(pod)
        text = (
            f"{inputs.title(id_)} is unavailable, and its pod {pod.name} does not run ({reason}): it may run again by"
        )
        remedy = "delete the pod if it does not: its next one is of the current revision"
        return Wait(Reason.ROLLING_NODES, f"{text} itself; {remedy}", subject=inputs.title(id_), remedy=remedy)
    if pod is not None and pod.waiting:
        text = f"{inputs.title(id_)} answers, but the container of its pod {pod.name} waits ({pod.waiting})"
        return Wait(
            Reason.ROLLING_NODES,
            f"{text}: one of the two is out of date",
            subject=inputs.title(id_),
            remedy=f"see `kubectl describe pod {pod.name}`",
        )
    text = f"{inputs.title(id_)} is unavailable, and its pod runs: it may recover its log for hours"
    look = f"; see `kubectl logs {pod.name}`, and delete the pod if it hangs" if pod is not None else ""
    remedy = look.removeprefix("; ") or f"see the log of {inputs.title(id_)}, and restart it if it hangs"
    return Wait(Reason.ROLLING_NODES, text + look, subject=inputs.title(id_), remedy=remedy)


_FORBIDS: Mapping[InadmissibleReason, tuple[str, str, str]] = {
    InadmissibleReason.AT_MIN_ISR: (
        "would be",
        "would be",
        "left with fewer in-sync replicas than min.insync.replicas",
    ),
    InadmissibleReason.REASSIGNING: ("is", "are", "being reassigned"),
    InadmissibleReason.UNDER_REPLICATED: ("is", "are", "under-replicated"),
    InadmissibleReason.REPLICA_IN_FLIGHT: ("has", "have", "a replica on a node that is in flight or unavailable"),
}
"""Reasons in words: verb for one partition, verb for several, and the rest of the sentence."""


def forbidden_by(inputs: RestartCheckInput, id_: int, forbidding: Forbidding | None) -> Wait:
    """Wait for partitions that forbid the restart, with the remedy."""
    partitions = "the reason is not known"
    if forbidding is not None:
        singular, plural, predicate = _FORBIDS[forbidding.reason]
        partition_names = format_partitions(forbidding.count, forbidding.names)
        partitions = f"{partition_names} {singular if forbidding.count == 1 else plural} {predicate}"
    away, (unstable_ids, counts) = inputs.titles(inputs.unavailable), counted_as_away(inputs, id_)
    unavailable = f"; unavailable: {away}" if away else ""
    message = f"{inputs.title(id_)} cannot be restarted now: {partitions}{unavailable}{counts}"
    remedy, nodes = f"bring {away} back" if away else "bring the other replicas back in sync", inputs.nodes(id_)
    cause = cause_among(inputs, forbidding.lagging) if forbidding is not None else None
    if cause is not None:
        message, nodes = f"{cause.text}; {message}", cause.nodes
        remedy = f"{remedy}; {cause.remedy}" if away else cause.remedy
    elif unstable_ids and not away:
        remedy = f"see the logs of {inputs.titles(unstable_ids)}, and repair them so that they stay up"
    blocker = Blocker(BlockerKind.PARTITION, message, remedy, nodes=nodes)
    return waits_on(blocker, Reason.ROLLING_NODES, message=message)


def refused_by_budget(inputs: RestartCheckInput, id_: int) -> Wait | None:
    """Wait for a PodDisruptionBudget that refuses the eviction now, or for another pod that must be ready first; else
    None. The API server decides at the eviction itself, but one that it is sure to refuse is not sent.
    """
    out_of_order = inputs.fleet.out_of_order.get(id_)
    if out_of_order:
        remedy = "bring the pods that the message names back"
        return Wait(Reason.ROLLING_NODES, out_of_order, subject=inputs.title(id_), remedy=remedy)
    why_not = inputs.fleet.withheld.get(id_)
    if not why_not:
        return None
    return Wait(
        Reason.WAITING_FOR_BUDGET,
        why_not,
        delay=REFUSED_POLL,
        subject=inputs.title(id_),
        remedy="bring back the pods that the PodDisruptionBudget counts as missing, or let it allow one to be away",
    )
