"""One pass: observe, decide, commit, act. Level-triggered: nothing is remembered between passes but the status, and
how old the moments in it are.

The intent is written before the act; what becomes of it is told by `reconcile/settle.py` at the next pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from kafkafeatures import __version__
from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.decide import Act, Decision, Done, Held, Stalled, Wait, approved_by, owned_by
from kafkafeatures.core.observation import Known, Observation
from kafkafeatures.core.plan import consent_for
from kafkafeatures.core.ports import KafkaPort, Unreachable
from kafkafeatures.core.readings import Failure
from kafkafeatures.core.report import stamp, status_of, status_of_unreachable, status_of_wrong_cluster
from kafkafeatures.core.steps import Applied, NotSent, Outcome, OutcomeUnknown, Rejected, UpdateFeature
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.consider import Considered, RivalOf, consider, nobody
from kafkafeatures.reconcile.ports import Home, Resource
from kafkafeatures.reconcile.settle import APPLIED, SETTLE_SECONDS, Sleep, close_intent


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
    sleep: Sleep
    rival_of: RivalOf = nobody
    before_act: Callable[[Considered], None] = lambda _: None
    ages: Ages = field(default_factory=Ages)
    """Of the stamps in the status; the same one for all passes of a process."""

    def age_of(self, moment: str) -> timedelta:
        """How long ago a stamp of the status was."""
        return self.ages.of(moment, self.now())


async def one_pass(shell: Shell) -> Pass:
    """Look once, decide, and carry out at most one effect. What `before_act` raises ends the pass, nothing done."""
    resource = await shell.home.read()
    try:
        observation = await shell.kafka.look()
    except Unreachable as error:
        status = status_of_unreachable(
            error.failure, generation=resource.generation, previous=resource.status, now=shell.now()
        )
        await _commit(shell, resource, status)
        return Pass(error.failure, 2.0, status)
    found = await consider(
        resource,
        observation,
        shell.kafka,
        now=shell.now,
        ages=shell.ages,
        sleep=shell.sleep,
        rival_of=shell.rival_of,
    )
    status = _status(shell, resource, found)
    if isinstance(found.decision, Act):
        shell.before_act(found)
        return await _act(shell, resource, found.decision.step, found, status)
    await _commit(shell, resource, status)
    return Pass(found.decision, _requeue(found.decision), status)


def _status(shell: Shell, resource: Resource, found: Considered) -> dict[str, Any]:
    if not found.ours:
        return status_of_wrong_cluster(
            found.decision, generation=resource.generation, previous=resource.status, now=shell.now()
        )
    return status_of(
        found.decision,
        found.observation,
        found.proposal,
        generation=resource.generation,
        previous=found.before,
        version=__version__,
        now=shell.now(),
        approved_by=approved_by(found.wanted, found.proposal),
    )


async def _act(
    shell: Shell, resource: Resource, step: UpdateFeature, found: Considered, status: dict[str, Any]
) -> Pass:
    status["intent"] = {
        "action": "CorrectDrift" if step in found.proposal.drifted else "UpdateFeature",
        "target": step.feature,
        "before": str(step.before),
        "after": str(step.after),
        "via": "Controller" if shell.kafka.sends_to_active_controller else "Broker",
        **_offset(found.observation),
        "at": stamp(shell.now()),
    }
    shell.ages.begins(status["intent"]["at"])
    if consent_for(step):
        # Spent before it is used: a process that dies in between does not leave it for somebody's later revert.
        status["spentConsents"] = sorted({*status.get("spentConsents", ()), consent_for(step)})
    await shell.home.write_status(status)
    owned = _owned_meanwhile(shell, found)
    if owned is not None:
        close_intent(status, f"not sent: {owned.message}", stamp(shell.now()), shell.age_of)
        status = _status(shell, resource, replace(found, before=status, decision=owned))
        await shell.home.write_status(status)
        return Pass(owned, _requeue(owned), status)
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
            close_intent(status, f"not sent: {why}", stamp(shell.now()), shell.age_of)
            await shell.home.write_status(status)
            return Pass(Act(step), 1.0, status, outcome)
        case Rejected(code, message):
            # Only what was not validated before comes to this: kraft.version, or a cluster that changed in between.
            close_intent(status, f"refused ({code}): {message}", stamp(shell.now()), shell.age_of)
            refused = Stalled(Reason.CONTROLLER_REJECTED, f"the active controller rejected {step}: {message}")
            found = replace(found, before=status, decision=refused)
            status = _status(shell, resource, found)
            await shell.home.write_status(status)
            return Pass(refused, 2.0, status, outcome)


def _owned_meanwhile(shell: Shell, found: Considered) -> Wait | Stalled | None:
    """Asked again at the last moment: an older resource may have met this cluster since the decision."""
    cluster_id = found.observation.cluster_id
    return owned_by(shell.rival_of(cluster_id.value)) if isinstance(cluster_id, Known) else None


def _offset(observation: Observation) -> dict[str, int]:
    """The end of the metadata log that the decision rests on, where it was read."""
    return {"offset": observation.source.offset} if observation.source.offset >= 0 else {}


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
