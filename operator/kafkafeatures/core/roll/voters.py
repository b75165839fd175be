"""Check that every voter of the quorum is there: while one is missing, no other node is stopped, but for brokers that a
migration moves.

Pure. Called by `core/roll/admission.py` of each node that may be next. With one of three voters away the next failure
takes the quorum, and what begins a restart then, of a broker too, may find no controller to register with.
`core/facts/quorum.py` says that a majority stays without a controller; this asks for more, as nothing has to be
restarted now. A migration half way has to continue: a broker that is restarted takes nothing from the quorum, so for
brokers on its way a majority suffices. Whether the missing one had the flag `core/migration/led.py` has asked before.

A voter is missing that does not answer while another controller does, that the leader does not call caught up, whose
pod stops or does not run, or whose container ended by itself moments ago. Where no controller answers, only brokers can
be reached, and the leader vouches for its followers.
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
"""Kubelet's own measure: a container that has run for so long is started again at once when it ends."""


def voters_allow(question: RestartCheckInput, id_: int | None = None) -> Wait | None:
    """Wait that keeps this node (None: one that is no voter) from being stopped now. A voter that is missing may
    itself; of several that crash each may, or they would wait for each other: a majority without it is asked for
    elsewhere.
    """
    missing = {voter: reason for voter, reason in _missing(question) if voter != id_}
    if not missing or all(_crashes(voter, question) for voter in (id_, *missing)):
        return None
    is_broker = id_ is None or not question.is_controller(id_)
    if is_broker and question.permit.is_half_done and _majority_stays(question, len(missing)):
        return None
    voter, reason = next(iter(missing.items()))
    remainder = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    message = f"no node is restarted while a voter is missing: {question.title(voter)} {reason}{remainder}"
    pod = question.fleet.pods.get(voter)
    delete = ", and delete the pod if it does not run again by itself" if pod is not None and pod.waiting else ""
    look = f"see `kubectl logs {pod.name}`{delete}; " if pod is not None else ""
    remedy = f"{look}bring {question.title(voter)} back, or remove it from the quorum if it no longer exists"
    nodes = tuple(node for missing_id in missing for node in question.nodes(missing_id))
    blocker = Blocker(BlockerKind.QUORUM, message, remedy, nodes=nodes)
    return waits_on(blocker, Reason.WAITING_FOR_QUORUM)


def _majority_stays(question: RestartCheckInput, missing: int) -> bool:
    """Tell whether more than half of the voters are there, those that are restarted not counted."""
    quorum = question.observation.quorum
    voters = {voter.id for voter in quorum.value.voters} if isinstance(quorum, Known) else set[int]()
    away = missing + len(question.flying & voters)
    return 2 * (len(voters) - away) > len(voters)


def _missing(question: RestartCheckInput) -> Iterator[tuple[int, str]]:
    """Voters that are missing, and why. Those that are being restarted are not meant: they are waited for anyway."""
    if isinstance(question.observation.quorum, Unknown):
        return
    quorum = question.observation.quorum.value
    ids = sorted(voter.id for voter in quorum.voters)
    some_answer = any(_answers(node) for id_ in ids for node in question.nodes(id_))
    for id_ in ids:
        if id_ in question.flying:
            continue
        node, pod = question.node(id_), question.fleet.pods.get(id_)
        reason = _of_pod(pod, question) if pod is not None else ""
        if reason:
            yield id_, reason
        elif not is_caught_up(id_, quorum):
            is_there = node is not None and _answers(node)
            yield id_, "is behind the leader" if is_there else "does not fetch from the leader"
        elif node is not None and some_answer and not _answers(node) and not _is_unknown_address(node):
            yield id_, "does not answer"


def _crashes(id_: int | None, question: RestartCheckInput) -> bool:
    """Tell whether it was started again by itself, and has not run for long since, if it runs at all. It needs a
    restart, so it is of a revision that is being left.
    """
    pod = None if id_ is None or id_ not in question.fleet.needing else question.fleet.pods.get(id_)
    if pod is None or pod.terminating or pod.draining or not pod.restarts:
        return False
    return bool(pod.waiting) or _within(pod.started_at, question.pods_read_at)


def _answers(node: Node) -> bool:
    return node.state in (NodeState.LIVE, NodeState.FENCED)


def _is_unknown_address(node: Node) -> bool:
    return isinstance(node.answer, Unknown) and node.answer.failure.kind is FailureKind.NOT_ASKED


def _of_pod(pod: Pod, question: RestartCheckInput) -> str:
    if pod.terminating or pod.draining:
        return f"is about to stop, with its pod {pod.name}"
    if pod.waiting:
        return f"is not there: its pod {pod.name} does not run: {pod.waiting}{pod.restarts_text}"
    if pod.restarts and _within(pod.started_at, question.pods_read_at):
        return f"crashes: the container of its pod {pod.name} was{pod.restarts_text.removeprefix(',')}"
    return ""


def _within(started_at: datetime | None, current_time: datetime) -> bool:
    return started_at is None or current_time - started_at < CRASHES_WITHIN
