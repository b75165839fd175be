"""One pass: observe, decide, commit, act. Level-triggered: nothing is remembered between passes but the status.

The intent is written before the act. An intent that still stands when a pass begins is a hint, never the truth: the
process may have died before, during or after the request. Its step is believed undone only after two readings under a
quorum that works (S18): a NOT_CONTROLLER, an EOF or a time-out were all seen to be applied later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kafkafeatures import __version__
from kafkafeatures.core.decide import (
    Act,
    Decision,
    Done,
    Held,
    Memory,
    Proposal,
    Stalled,
    Standing,
    Wait,
    approved_by,
    decide,
    propose,
    to_validate,
)
from kafkafeatures.core.observation import Known, MetadataMode, Observation, Unknown
from kafkafeatures.core.plan import consent_for
from kafkafeatures.core.report import stamp, status_of, status_of_unreachable, status_of_wrong_cluster
from kafkafeatures.core.steps import (
    Applied,
    NotSent,
    Outcome,
    OutcomeUnknown,
    Rejected,
    UpdateFeature,
    Verdict,
)
from kafkafeatures.core.survey import Failure, QuorumAnswer
from kafkafeatures.core.wanted import Mode, Wanted
from kafkafeatures.reconcile.ports import Home, KafkaPort, Resource

SETTLE_SECONDS = 1.0
"""Between the two readings that settle an unknown outcome: longer than a replica fetch (500 ms at most while idle)."""

MAX_HISTORY = 10
CONFLICT_WINDOW = timedelta(hours=1)
BROKER_KEEPS = timedelta(minutes=5)


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
    intent, fate = intent_of(resource), None
    ours = is_ours(resource, observation)
    if intent is not None and ours:  # another cluster tells nothing about what became of it
        observation, fate = await _fate(shell, resource, intent, observation)
    at = shell.now()
    # What became of the standing intent is part of what this pass decides on.
    before = dict(resource.status)
    before["spentConsents"] = [one for one in before.get("spentConsents", ()) if one in resource.wanted.consents]
    if fate is not None:
        _close_intent(before, fate, stamp(at))
    memory = memory_of(before, at)
    proposal = propose(resource.wanted, observation, memory)
    decision = decide(
        resource.wanted,
        observation,
        memory,
        proposal=proposal,
        standing=Standing(intent) if intent is not None and fate is None else None,
        verdict=await verdict_on(shell.kafka, resource.wanted, proposal, observation) if ours else None,
    )
    if ours:
        status = status_of(
            decision,
            observation,
            proposal,
            generation=resource.generation,
            previous=before,
            version=__version__,
            now=at,
            approved_by=approved_by(resource.wanted, proposal),
        )
    else:
        status = status_of_wrong_cluster(decision, generation=resource.generation, previous=resource.status, now=at)
    if isinstance(decision, Act):
        return await _act(shell, decision.step, proposal, status)
    await _commit(shell, resource, status)
    return Pass(decision, _requeue(decision), status)


def memory_of(status: Mapping[str, Any], now: datetime) -> Memory:
    """What the status holds that decisions need. Levels count as reached only while they are wanted as they were."""
    corrections: dict[str, int] = {}
    for entry in status.get("history", ()):
        if entry["result"] == CORRECTED and now - datetime.fromisoformat(entry["at"]) < CONFLICT_WINDOW:
            feature = entry["action"].split(" ")[0]
            corrections[feature] = corrections.get(feature, 0) + 1
    return Memory(
        cluster_id=status.get("clusterId", ""),
        change_count=status.get("changeCount", 0),
        spent=frozenset(status.get("spentConsents", ())),
        reached={
            one["name"]: one["desired"]
            for one in status.get("features", ())
            if one.get("state") in ("InSync", "Drifted") and "desired" in one
        },
        corrections=corrections,
        plan=status.get("plan"),
    )


async def _act(shell: Shell, step: UpdateFeature, proposal: Proposal, status: dict[str, Any]) -> Pass:
    status["intent"] = {
        "action": "CorrectDrift" if step in proposal.drifted else "UpdateFeature",
        "target": step.feature,
        "before": str(step.before),
        "after": str(step.after),
        "via": "Controller" if shell.kafka.goes_straight else "Broker",
        "at": stamp(shell.now()),
    }
    if consent_for(step):
        # Spent before it is used: a process that dies in between does not leave it for somebody's later revert.
        status["spentConsents"] = sorted({*status.get("spentConsents", ()), consent_for(step)})
    await shell.home.write_status(status)
    outcome = await shell.kafka.update(step)
    match outcome:
        case Applied():
            # The intent stays until the level was read back: the next pass closes it. That the controller said yes is
            # kept, so that a level somebody else took back meanwhile is never believed to have been left undone.
            status["intent"]["outcome"] = APPLIED
            await shell.home.write_status(status)
            return Pass(Act(step), 0.0, status, outcome)
        case OutcomeUnknown():
            return Pass(Act(step), SETTLE_SECONDS, status, outcome)
        case NotSent(why):
            _close_intent(status, f"not sent: {why}", stamp(shell.now()))
        case Rejected(code, message):
            _close_intent(status, f"refused ({code}): {message}", stamp(shell.now()))
    await shell.home.write_status(status)
    return Pass(Act(step), 1.0, status, outcome)


async def verdict_on(kafka: KafkaPort, wanted: Wanted, proposal: Proposal, observation: Observation) -> Verdict | None:
    """The server's own word on all changes at once. Who only observes, or is suspended, sends nothing at all."""
    changes = to_validate(proposal.changes)
    in_kraft = isinstance(observation.mode, Known) and observation.mode.value is MetadataMode.KRAFT
    if not changes or not in_kraft or wanted.suspend or wanted.mode is Mode.OBSERVE:
        return None
    return await kafka.validate(changes)


def intent_of(resource: Resource) -> UpdateFeature | None:
    """The step of an intent that still stands in the status."""
    intent = resource.status.get("intent")
    return UpdateFeature.of_intent(intent) if intent else None


READ_BACK, NOT_APPLIED, OVERTAKEN = "read back", "not applied", "overtaken by another change"
APPLIED = "Applied"
CORRECTED = "corrected, after somebody else had moved it"


def is_ours(resource: Resource, observation: Observation) -> bool:
    """Whether this is the cluster the resource is for, as far as that is known."""
    pinned = resource.wanted.cluster_id or resource.status.get("clusterId", "")
    return isinstance(observation.cluster_id, Known) and observation.cluster_id.value == (
        pinned or observation.cluster_id.value
    )


async def _fate(
    shell: Shell, resource: Resource, step: UpdateFeature, observation: Observation
) -> tuple[Observation, str | None]:
    """What became of a step whose intent stands; None while that is open. The newest observation comes back too."""
    level = _level(observation, step)
    if level != step.before:
        return observation, READ_BACK if level == step.after else None if level is None else OVERTAKEN
    await shell.sleep(SETTLE_SECONDS)
    try:
        again = await shell.kafka.look()
    except Unreachable:
        return observation, None
    if not is_ours(resource, again):
        return observation, None
    if _level(again, step) != step.before:
        return again, READ_BACK if _level(again, step) == step.after else None
    intent = resource.status["intent"]
    if not _quorum_worked_between(observation, again) or _may_be_kept(intent, shell.now()):
        return again, None
    # Two readings also where it said yes: what a controller answers may lag what it has just written.
    return again, OVERTAKEN if intent.get("outcome") == APPLIED else NOT_APPLIED


def _may_be_kept(intent: Mapping[str, Any], now: datetime) -> bool:
    """A broker that passed it on may keep it while no controller is active, and deliver it minutes later (seen)."""
    return intent.get("via") == "Broker" and now - datetime.fromisoformat(intent["at"]) < BROKER_KEEPS


def _quorum_worked_between(first: Observation, second: Observation) -> bool:
    """The same leader, in the same epoch, has worked since: what it had not appended by then is gone."""
    if isinstance(first.quorum, Unknown) or isinstance(second.quorum, Unknown):
        return False
    before, after = first.quorum.value, second.quorum.value
    if before.leader_epoch != after.leader_epoch:
        return False
    return after.high_watermark > before.high_watermark or _majority_fetched_since(before, after)


def _majority_fetched_since(before: QuorumAnswer, after: QuorumAnswer) -> bool:
    """The same where NoOps are switched off: nothing is uncommitted, and a majority fetched after the first look."""
    then = next((v.last_fetch_timestamp for v in before.voters if v.id == before.leader_id), -1)
    leader = next((v for v in after.voters if v.id == after.leader_id), None)
    if then < 0 or leader is None or leader.log_end_offset != after.high_watermark:
        return False
    since = sum(v.id == after.leader_id or v.last_fetch_timestamp > then for v in after.voters)
    return since > len(after.voters) // 2


def _level(observation: Observation, step: UpdateFeature) -> int | None:
    return observation.finalized.value.get(step.feature, 0) if isinstance(observation.finalized, Known) else None


def _close_intent(status: dict[str, Any], result: str, at: str) -> None:
    intent = status.pop("intent", None)
    if intent is None:
        return
    step = UpdateFeature.of_intent(intent)
    if result in (READ_BACK, OVERTAKEN):
        status["changeCount"] = status.get("changeCount", 0) + 1
        result = CORRECTED if intent["action"] == "CorrectDrift" else result
    elif consent_for(step):  # nothing was lowered, so nothing was used up
        status["spentConsents"] = [one for one in status.get("spentConsents", ()) if one != consent_for(step)]
    history = [*status.get("history", ()), {"at": at, "action": str(step), "result": result}]
    status["history"] = history[-MAX_HISTORY:]


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
        case Done() | Held() | Stalled():
            return None
