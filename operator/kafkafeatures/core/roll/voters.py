"""Check that every voter of the quorum is there: while one is missing, no other node is restarted, unless it is stuck.

Pure. Called by `core/roll/admission.py` and `core/roll/next_restart.py` for each node that may be next. With one of
three voters away, the next failure takes the quorum, and a node that restarts then, broker or controller, may find no
controller to register with. The rule of `core/facts/quorum.py`, that a majority remains, is weaker. This one can be
stricter because a restart is never urgent.

The exception is a migration that is half done and has to continue: the restart of a broker takes nothing from the
quorum, so for its brokers a majority is enough. `core/migration/led.py` has checked before that the missing voter had
`zookeeper.metadata.migration.enable` when it last registered.

A voter is missing if it does not answer while another controller does, if the leader does not report it as caught up,
if its pod stops or does not run, or if its container ended by itself moments ago. Where no controller answers at all,
as only brokers can be reached, the leader's report and the pods count.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Wait, waits_on
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Unknown
from kafkafeatures.core.facts.quorum import is_caught_up
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.facts.workloads import Pod
from kafkafeatures.core.roll.check_input import RestartCheckInput

CRASHES_WITHIN = timedelta(minutes=10)
"""Time after which a container no longer counts as crashing: kubelet, too, forgets earlier crashes then."""


def refused_by_voters(inputs: RestartCheckInput, id_: int | None = None) -> Wait | None:
    """Wait that keeps this node (None: any broker) from being restarted now; None if it may be. A voter that is the
    only one missing may be restarted itself. If several crash, each of them may, or they would wait for each other;
    `why_not_restart` makes sure that a majority remains.
    """
    missing = {voter: reason for voter, reason in _missing(inputs) if voter != id_}
    if not missing or all(_crashes(voter, inputs) for voter in (id_, *missing)):
        return None
    is_broker = id_ is None or not inputs.is_controller(id_)
    if is_broker and inputs.permit.is_half_done and _majority_stays(inputs, len(missing)):
        return None
    voter, reason = next(iter(missing.items()))
    remainder = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    message = f"no node is restarted while a voter is missing: {inputs.title(voter)} {reason}{remainder}"
    pod = inputs.fleet.pods.get(voter)
    delete = ", and delete the pod if it does not run again by itself" if pod is not None and pod.waiting else ""
    look = f"see `kubectl logs {pod.name}`{delete}; " if pod is not None else ""
    remedy = f"{look}bring {inputs.title(voter)} back, or remove it from the quorum if it no longer exists"
    nodes = tuple(node for missing_id in missing for node in inputs.nodes(missing_id))
    blocker = Blocker(BlockerKind.QUORUM, message, remedy, nodes=nodes)
    return waits_on(blocker, Reason.WAITING_FOR_QUORUM)


def _majority_stays(inputs: RestartCheckInput, missing: int) -> bool:
    """Tell whether more than half of the voters are there, without those in flight. `missing`: number of others that
    are missing.
    """
    quorum = inputs.observation.quorum
    voters = {voter.id for voter in quorum.value.voters} if isinstance(quorum, Known) else set[int]()
    away = missing + len(inputs.flying & voters)
    return 2 * (len(voters) - away) > len(voters)


def _missing(inputs: RestartCheckInput) -> Iterator[tuple[int, str]]:
    """Voters that are missing, and why; without those in flight, which the roll waits for anyway."""
    if isinstance(inputs.observation.quorum, Unknown):
        return
    quorum = inputs.observation.quorum.value
    ids = sorted(voter.id for voter in quorum.voters)
    some_answer = any(_answers(node) for id_ in ids for node in inputs.nodes(id_))
    for id_ in ids:
        if id_ in inputs.flying:
            continue
        node, pod = inputs.node(id_), inputs.fleet.pods.get(id_)
        reason = _reason_by_pod(pod, inputs) if pod is not None else ""
        if reason:
            yield id_, reason
        elif not is_caught_up(id_, quorum):
            is_there = node is not None and _answers(node)
            yield id_, "is behind the leader" if is_there else "does not fetch from the leader"
        elif node is not None and some_answer and not _answers(node) and not _is_unknown_address(node):
            yield id_, "does not answer"


def _crashes(id_: int | None, inputs: RestartCheckInput) -> bool:
    """Tell whether the container of this node ended by itself moments ago, and the node needs a restart: a new revision
    may be what it lacks.
    """
    pod = None if id_ is None or id_ not in inputs.fleet.needing else inputs.fleet.pods.get(id_)
    if pod is None or pod.terminating or pod.draining or not pod.restarts:
        return False
    return bool(pod.waiting) or _crashed_recently(pod.started_at, inputs.pods_read_at)


def _answers(node: Node) -> bool:
    return node.state in (NodeState.LIVE, NodeState.FENCED)


def _is_unknown_address(node: Node) -> bool:
    return isinstance(node.answer, Unknown) and node.answer.failure.kind is FailureKind.NOT_ASKED


def _reason_by_pod(pod: Pod, inputs: RestartCheckInput) -> str:
    """Reason to count a voter as missing, by its pod; empty if the pod shows none."""
    if pod.terminating or pod.draining:
        return f"is about to stop, with its pod {pod.name}"
    if pod.waiting:
        return f"is not there: its pod {pod.name} does not run: {pod.waiting}{pod.restarts_text}"
    if pod.restarts and _crashed_recently(pod.started_at, inputs.pods_read_at):
        return f"crashes: the container of its pod {pod.name} was{pod.restarts_text.removeprefix(',')}"
    return ""


def _crashed_recently(started_at: datetime | None, current_time: datetime) -> bool:
    return started_at is None or current_time - started_at < CRASHES_WITHIN
