"""What became of a step whose intent still stands in the status, and what that closes.

An intent is a hint, never the truth: the process may have died before, during or after the request. Its step is
believed undone only after two readings under a quorum that works (S18): a NOT_CONTROLLER, an EOF or a time-out were all
seen to be applied later. And a level that reads as before may have been moved and moved back: only the metadata log
can say that it was not, so a consent comes back only where the log was read. Called by `reconcile/consider.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from kafkafeatures.core.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.plan import consent_for
from kafkafeatures.core.ports import KafkaPort, Unreachable
from kafkafeatures.core.readings import QuorumAnswer
from kafkafeatures.core.steps import UpdateFeature
from kafkafeatures.core.words import cut
from kafkafeatures.reconcile.ages import AgeOf
from kafkafeatures.reconcile.ports import Resource

SETTLE_SECONDS = 1.0
"""Between the two readings that settle an unknown outcome: longer than a replica fetch (500 ms at most while idle)."""

BROKER_KEEPS = timedelta(minutes=5)
CONFLICT_WINDOW = timedelta(hours=1)
MAX_HISTORY = 10
MAX_RESULT = 512
"""Bytes of a result: with a refusal come the server's own words, up to 32 KB of them."""

READ_BACK, NOT_APPLIED, OVERTAKEN = "read back", "not applied", "overtaken by another change"
UNPROVEN = "not there; whether it was moved and moved back cannot be told without the metadata log"
APPLIED = "Applied"
CORRECTED = "corrected, after somebody else had moved it"
_DONE = (READ_BACK, CORRECTED)

Sleep = Callable[[float], Awaitable[None]]


def intent_of(resource: Resource) -> UpdateFeature | None:
    """The step of an intent that still stands in the status."""
    intent = resource.status.get("intent")
    return UpdateFeature.of_intent(intent) if intent else None


def is_ours(resource: Resource, observation: Observation) -> bool:
    """Whether this is the cluster the status tells of, and the one that the document names, as far as there is either.

    The status comes first: a document that names another cluster does not make its history that cluster's.
    """
    if isinstance(observation.cluster_id, Unknown):
        return False
    bound = {resource.status.get("clusterId"), resource.wanted.cluster_id} - {None, ""}
    return bound <= {observation.cluster_id.value}


async def fate_of(
    step: UpdateFeature,
    resource: Resource,
    observation: Observation,
    kafka: KafkaPort,
    *,
    age_of: AgeOf,
    sleep: Sleep,
) -> tuple[Observation, str | None]:
    """What became of the step; None while that is open. The newest observation comes back too."""
    level = _level(observation, step)
    if level != step.before:
        return observation, READ_BACK if level == step.after else None if level is None else OVERTAKEN
    await sleep(SETTLE_SECONDS)
    try:
        again = await kafka.look()
    except Unreachable:
        return observation, None
    if not is_ours(resource, again):
        return observation, None
    if _level(again, step) != step.before:
        return again, READ_BACK if _level(again, step) == step.after else None
    intent = resource.status["intent"]
    if not _quorum_worked_between(observation, again) or _may_be_kept(intent, age_of):
        return again, None
    # Two readings also where it said yes: what a controller answers may lag what it has just written.
    if intent.get("outcome") == APPLIED:
        return again, OVERTAKEN
    return again, NOT_APPLIED if _nothing_moved_since(intent, again) else UNPROVEN


def close_intent(status: dict[str, Any], result: str, at: str, age_of: AgeOf) -> None:
    """Write into `status` how its intent ended, with what that means for consents and for plans approved before."""
    intent = status.pop("intent", None)
    if intent is None:
        return
    step = UpdateFeature.of_intent(intent)
    if result == OVERTAKEN and intent.get("outcome") == APPLIED:
        _had_reached(status, step)
    if result in (READ_BACK, OVERTAKEN, UNPROVEN):
        status["changeCount"] = status.get("changeCount", 0) + 1
        if result != UNPROVEN and intent["action"] == "CorrectDrift":
            result = CORRECTED
    elif consent_for(step):  # nothing was lowered, so nothing was used up
        status["spentConsents"] = [one for one in status.get("spentConsents", ()) if one != consent_for(step)]
    entry = {"at": at, "action": str(step), "result": cut(result, MAX_RESULT)}
    history = list(status.get("history", ()))
    if result in _DONE or not history or {**history[-1], "at": at} != entry:  # what fails again and again is told once
        history.append(entry)
    status["history"] = _newest(history, age_of)


def _had_reached(status: dict[str, Any], step: UpdateFeature) -> None:
    """The controller said yes, and somebody took it back before it was read: drift, and not a step to send again."""
    status["features"] = [
        {**one, "desired": step.after, "state": "Drifted"} if one["name"] == step.feature else one
        for one in status.get("features", ())
    ]


def counts_as_correction(entry: Mapping[str, Any], age_of: AgeOf) -> bool:
    """Whether it counts against another correction."""
    return entry["result"] == CORRECTED and age_of(entry["at"]) < CONFLICT_WINDOW


def _newest(history: list[Mapping[str, Any]], age_of: AgeOf) -> list[Mapping[str, Any]]:
    """As many as are kept. Corrections that still count go last: a fight is not forgotten over failures."""
    surplus, kept = len(history) - MAX_HISTORY, []
    for entry in history:
        if surplus > 0 and not counts_as_correction(entry, age_of):
            surplus -= 1
        else:
            kept.append(entry)
    return kept[-MAX_HISTORY:]


def _nothing_moved_since(intent: Mapping[str, Any], observation: Observation) -> bool:
    """Whether the log shows that no level at all was moved after the picture the intent rested on."""
    source = observation.source
    return source.kind is SourceKind.METADATA_LOG and 0 <= source.features_offset <= intent.get("offset", -1)


def _may_be_kept(intent: Mapping[str, Any], age_of: AgeOf) -> bool:
    """A broker that passed it on may keep it while no controller is active, and deliver it minutes later (seen)."""
    return intent.get("via") == "Broker" and age_of(intent["at"]) < BROKER_KEEPS


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
