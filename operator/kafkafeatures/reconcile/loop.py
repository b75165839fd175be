"""One pass: observe, decide, commit, act. Level-triggered: nothing is remembered between passes but the status.

The intent is written before the act. An intent that still stands when a pass begins is a hint, never the truth: the
process may have died before, during or after the request. Its step is believed undone only after two readings under a
quorum that works (S18): a NOT_CONTROLLER, an EOF or a time-out were all seen to be applied later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafkafeatures import __version__
from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.core.decide import Act, Decision, Done, Stalled, Standing, Wait, decide, pending
from kafkafeatures.core.observation import Known, MetadataMode, Observation, Unknown
from kafkafeatures.core.report import stamp, status_of, status_of_unreachable
from kafkafeatures.core.steps import (
    Applied,
    NotSent,
    Outcome,
    OutcomeUnknown,
    Rejected,
    UpdateFeature,
    Verdict,
)
from kafkafeatures.core.survey import Failure
from kafkafeatures.reconcile.ports import Home, KafkaPort, Resource

SETTLE_SECONDS = 1.0
"""Between the two readings that settle an unknown outcome: longer than a replica fetch (500 ms at most while idle)."""

MAX_HISTORY = 10


class Unreachable(Exception):
    """Not a single node of the cluster could be asked."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass came to. `requeue_after` in seconds; 0 for at once, None for: nothing more to do by itself."""

    decision: Decision | Failure
    requeue_after: float | None
    status: dict[str, Any]
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Shell:
    """The injected world of a pass."""

    home: Home
    kafka: KafkaPort
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]


async def one_pass(shell: Shell) -> Pass:
    """Look once, decide, and carry out at most one effect."""
    resource = await shell.home.read()
    try:
        observation = await shell.kafka.look()
    except Unreachable as error:
        status = status_of_unreachable(
            error.failure, generation=resource.generation, previous=resource.status, now=shell.now()
        )
        await _commit(shell, resource, status)
        return Pass(error.failure, 2.0, status)
    intent, fate = _intent(resource), None
    if intent is not None:
        observation, fate = await _fate(shell, intent, observation)
    decision = decide(
        resource.desired,
        observation,
        pinned_cluster_id=resource.cluster_id or resource.status.get("clusterId", ""),
        standing=Standing(intent) if intent is not None and fate is None else None,
        verdict=await _verdict(shell, resource, observation),
    )
    status = _status(shell, resource, observation, decision)
    if fate is not None:
        _close_intent(status, fate, stamp(shell.now()))
    if isinstance(decision, Act):
        return await _act(shell, decision, status)
    await _commit(shell, resource, status)
    return Pass(decision, _requeue(decision), status)


async def _act(shell: Shell, decision: Act, status: dict[str, Any]) -> Pass:
    step = decision.step
    status["intent"] = {
        "action": "UpdateFeature",
        "target": step.feature,
        "before": str(step.before),
        "after": str(step.after),
        "at": stamp(shell.now()),
    }
    await shell.home.write_status(status)
    outcome = await shell.kafka.update(step)
    match outcome:
        case Applied():
            # The intent stays until the level was read back: the next pass closes it.
            return Pass(decision, 0.0, status, outcome)
        case OutcomeUnknown():
            return Pass(decision, SETTLE_SECONDS, status, outcome)
        case NotSent(why):
            _close_intent(status, f"not sent: {why}", stamp(shell.now()))
        case Rejected(code, message):
            _close_intent(status, f"refused ({code}): {message}", stamp(shell.now()))
    await shell.home.write_status(status)
    return Pass(decision, 1.0, status, outcome)


async def _verdict(shell: Shell, resource: Resource, observation: Observation) -> Verdict | None:
    """The server's own word on all pending changes at once, where it can be asked without doing harm."""
    changes = [change for change in pending(resource.desired, observation) if change.feature != KRAFT_VERSION]
    in_kraft = isinstance(observation.mode, Known) and observation.mode.value is MetadataMode.KRAFT
    if not changes or not in_kraft or any(change.after < change.before for change in changes):
        return None
    return await shell.kafka.validate(changes)


def _intent(resource: Resource) -> UpdateFeature | None:
    intent = resource.status.get("intent")
    return UpdateFeature(intent["target"], int(intent["before"]), int(intent["after"])) if intent else None


READ_BACK, NOT_APPLIED, OVERTAKEN = "read back", "not applied", "overtaken by another change"


async def _fate(shell: Shell, step: UpdateFeature, observation: Observation) -> tuple[Observation, str | None]:
    """What became of a step whose intent stands; None while that is open. The newest observation comes back too."""
    level = _level(observation, step)
    if level != step.before:
        return observation, READ_BACK if level == step.after else None if level is None else OVERTAKEN
    await shell.sleep(SETTLE_SECONDS)
    try:
        again = await shell.kafka.look()
    except Unreachable:
        return observation, None
    if _level(again, step) != step.before:
        return again, READ_BACK if _level(again, step) == step.after else None
    return again, NOT_APPLIED if _quorum_worked_between(observation, again) else None


def _quorum_worked_between(first: Observation, second: Observation) -> bool:
    """The same leader, in the same epoch, has committed records since: what it had not appended by then is gone."""
    if isinstance(first.quorum, Unknown) or isinstance(second.quorum, Unknown):
        return False
    before, after = first.quorum.value, second.quorum.value
    return before.leader_epoch == after.leader_epoch and after.high_watermark > before.high_watermark


def _level(observation: Observation, step: UpdateFeature) -> int | None:
    return observation.finalized.value.get(step.feature, 0) if isinstance(observation.finalized, Known) else None


def _status(shell: Shell, resource: Resource, observation: Observation, decision: Decision) -> dict[str, Any]:
    return status_of(
        decision,
        observation,
        resource.desired,
        generation=resource.generation,
        previous=resource.status,
        version=__version__,
        now=shell.now(),
    )


def _close_intent(status: dict[str, Any], result: str, at: str) -> None:
    intent = status.pop("intent", None)
    if intent is None:
        return
    action = f"{intent['target']} {intent['before']} -> {intent['after']}"
    history = [*status.get("history", ()), {"at": at, "action": action, "result": result}]
    status["history"] = history[-MAX_HISTORY:]
    if result == READ_BACK:
        status["changeCount"] = status.get("changeCount", 0) + 1


async def _commit(shell: Shell, resource: Resource, status: dict[str, Any]) -> None:
    """Write only what changed: a quiet resource causes no write at all."""
    if status != resource.status:
        await shell.home.write_status(status)


def _requeue(decision: Decision) -> float | None:
    match decision:
        case Wait(after=after):
            return after
        case Act():
            return 0.0
        case Done() | Stalled():
            return None
