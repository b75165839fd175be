"""What people read: a decision and an observation made into a status, and the shapes every document shares.

Pure. The status holds facts that were read, never what is intended (S17 of the invariants): `finalized` is what some
node or the log said. Called by `reconcile/loop.py` and by the commands that print documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kafkafeatures.api.names import API_VERSION, METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.core.blockers import Blocker, grouped, title_and_address, verb
from kafkafeatures.core.bounds import bounded
from kafkafeatures.core.checks import unknown_features_in
from kafkafeatures.core.cluster_document import Json, feature_shape, node_shape, not_read, or_none, source_shape
from kafkafeatures.core.conditions import Said, conditions_of, still_said
from kafkafeatures.core.decide import Act, Decision, Done, Held, Proposal, Stalled, Wait
from kafkafeatures.core.observation import Known, Node, Observation, Unknown
from kafkafeatures.core.plan import Plan, undo_of
from kafkafeatures.core.readings import Failure, FailureKind, Role
from kafkafeatures.core.releases import Undo, format_level, level_name
from kafkafeatures.core.steps import Accepted, Refused, Unavailable, UpdateFeature, Verdict
from kafkafeatures.core.words import cut

MAX_BLOCKERS = 20
MAX_FEATURES = 64
MAX_FEATURE_NAME = 64  # as long as a document may write it; a broker says what it likes
MAX_WORDS = 512  # bytes of a blocker's message, and of its remedy


def blocker_shape(blocker: Blocker) -> Json:
    """One blocker as in `status.blockers`. `nodeId` where it is about one node; of several, the message names them."""
    shape: Json = {"kind": blocker.kind.value}
    if blocker.node is not None:
        shape["nodeId"] = blocker.node.id
    if blocker.nodes:
        shape["roles"] = [role.value for role in blocker.nodes[0].roles]
    if blocker.feature:
        shape["feature"] = blocker.feature
    if blocker.supported is not None:
        shape["supportedMin"], shape["supportedMax"] = blocker.supported.min, blocker.supported.max
    if blocker.wanted >= 0:
        shape["wanted"] = blocker.wanted
    shape["message"] = cut(blocker.message, MAX_WORDS)
    if blocker.remedy:
        shape["remedy"] = cut(blocker.remedy, MAX_WORDS)
    return shape


def plan_document(
    decision: Decision,
    observation: Observation,
    proposal: Proposal,
    verdict: Verdict | None,
    *,
    name: str,
    generation: int,
) -> Json:
    """The document of `plan -o json` (contract, section 4)."""
    blocked = () if isinstance(decision, Act) else decision.blockers
    names = {one["name"]: one for one in feature_states(observation, proposal, blocked)}
    for one in names.values():
        for key in ("finalized", "desired"):
            if key in one and level_name(one["name"], one[key]):
                one[f"{key}Name"] = level_name(one["name"], one[key])
    document: Json = {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "resource": name,
        "generation": generation,
        "clusterId": or_none(observation.cluster_id),
        "verdict": plan_verdict(decision, observation, proposal),
        "hash": proposal.plan.hash if proposal.changes else "",
        "irreversible": bool(proposal.changes) and proposal.plan.irreversible,
        "metadataMode": or_none(observation.mode),
        "source": source_shape(observation),
        "reason": (Reason.UPDATING_FEATURES if isinstance(decision, Act) else decision.reason).value,
        "message": str(decision.step) if isinstance(decision, Act) else decision.message,
        "features": list(names.values()),
        "nodes": [node_shape(node) for node in observation.nodes],
        "steps": [
            step_shape(n, step, done=n <= proposal.plan.done)
            for n, step in enumerate(proposal.plan.steps if proposal.changes else (), start=1)
        ],
        "blockers": [blocker_shape(blocker) for blocker in blocked],
        "notRead": not_read(observation),
    }
    if verdict is not None:
        document["serverVerdict"] = verdict_shape(verdict)
    return document


def plan_verdict(decision: Decision, observation: Observation, proposal: Proposal) -> str:
    """InSync, Changes, ApprovalRequired, Blocked or Unknown."""
    if isinstance(observation.finalized, Unknown) or isinstance(observation.cluster_id, Unknown):
        return "Unknown"
    if isinstance(decision, Held) and decision.reason is Reason.APPROVAL_REQUIRED:
        return "ApprovalRequired"
    if isinstance(decision, Act) or (decision.reason is Reason.NOT_AUTHORIZED and not decision.blockers):
        return "Changes"  # who plans need not be allowed to apply: the server's verdict is then unavailable
    if decision.blockers or isinstance(decision, Stalled | Held):
        return "Blocked"
    if not proposal.changes:
        return "InSync"
    return "Unknown" if isinstance(decision, Wait) else "Changes"


def verdict_shape(verdict: Verdict) -> Json:
    """The server's own word, as in plan documents."""
    match verdict:
        case Accepted():
            return {"state": "Accepted"}
        case Refused(code, message):
            return {"state": "Refused", "code": code, "message": message}
        case Unavailable(why):
            return {"state": "Unavailable", "message": why}


# --- status ---


def status_of(
    decision: Decision,
    observation: Observation,
    proposal: Proposal,
    *,
    generation: int,
    previous: Mapping[str, Any],
    version: str,
    now: datetime,
    approved_by: str = "",
) -> Json:
    """The whole status after a pass. What a pass does not decide (intent, history, pinned id) is kept from before."""
    kept = ("clusterId", "changeCount", "spentConsents", "intent", "history")
    status: Json = {key: previous[key] for key in kept if previous.get(key)}
    status["observedGeneration"] = generation
    status["operatorVersion"] = version
    status["source"] = observation.source.kind.value
    if isinstance(observation.mode, Known):
        status["metadataMode"] = observation.mode.value.value
    if isinstance(observation.cluster_id, Known):
        status.setdefault("clusterId", observation.cluster_id.value)
    desired, blocked = proposal.desired, () if isinstance(decision, Act) else decision.blockers
    unread = isinstance(observation.finalized, Unknown)
    status["features"] = feature_states(observation, proposal, blocked)
    there_are = len({*observation.feature_names(), *desired})
    if unread and previous.get("features"):
        status["features"] = previous["features"]  # what was reached stays reached while the levels are not known
        there_are = len(status["features"])
    _metadata_version(status, observation, desired)
    there = sum(
        one.get("finalized") == desired.get(one["name"], -1) and one.get("state") == "InSync"
        for one in status["features"]
    )
    status["progress"] = f"{there}/{len(desired)} levels" if desired else ""
    if unread and "plan" in previous:
        status["plan"] = previous["plan"]
    elif proposal.changes:
        status["plan"] = _plan(proposal.plan, previous.get("plan"), approved_by, now)
    if blocked:
        groups = grouped(blocked)
        status["blockers"] = [blocker_shape(blocker) for blocker in groups[:MAX_BLOCKERS]]
        status["blockersTotal"] = len(groups)
    status["conditions"] = conditions_of(
        {
            Condition.READY: _ready(decision),
            Condition.RECONCILING: _reconciling(decision),
            Condition.STALLED: ("True", decision.reason, decision.message) if isinstance(decision, Stalled) else None,
            Condition.REACHABLE: _reachable(observation),
            Condition.FEATURES_FINALIZED: _finalized(decision, proposal, observation),
            Condition.APPROVAL_REQUIRED: _approval(decision),
            Condition.DRIFT_DETECTED: _drift(proposal),
        },
        generation=generation,
        previous=previous.get("conditions", ()),
        at=stamp(now),
    )
    return bounded(status, there_are)


def _plan(plan: Plan, before: Mapping[str, Any] | None, approved_by: str, now: datetime) -> Json:
    same = before is not None and before.get("hash") == plan.hash
    made: Json = {"hash": plan.hash, "createdAt": before["createdAt"] if before and same else stamp(now)}
    if approved_by:
        made["approvedBy"] = approved_by
    made["irreversible"] = plan.irreversible
    made["summary"] = ", ".join(map(str, plan.pending))
    made["steps"] = [step_shape(n, step, done=n <= plan.done) for n, step in enumerate(plan.steps, start=1)]
    return made


def step_shape(number: int, step: UpdateFeature, *, done: bool = False) -> Json:
    """One step as in `status.plan` and in plan documents. `plan_of` reads `detail` back."""
    undo = undo_of(step)
    return {
        "id": str(number),
        "action": "UpdateFeature",
        "detail": str(step),
        "reversible": undo is Undo.SAFE,
        "undo": undo.value,
        "state": "Done" if done else "Pending",
    }


def status_of_wrong_cluster(decision: Decision, *, generation: int, previous: Mapping[str, Any], now: datetime) -> Json:
    """Another cluster answers, or one that cannot be told: nothing of it is written down, the conditions say so."""
    stalled = ("True", decision.reason, decision.message) if isinstance(decision, Stalled) else None
    return _facts_of_before(
        {
            Condition.READY: _ready(decision),
            Condition.RECONCILING: _reconciling(decision),
            Condition.STALLED: stalled,
            Condition.REACHABLE: ("True", Reason.PARTIALLY_CONNECTED, _ready(decision)[2]),
            Condition.FEATURES_FINALIZED: ("Unknown", Reason.UNKNOWN, "the cluster could not be read"),
            **({} if stalled else still_said(previous, generation)),
        },
        generation=generation,
        previous=previous,
        now=now,
    )


def status_of_unreachable(failure: Failure, *, generation: int, previous: Mapping[str, Any], now: datetime) -> Json:
    """Nothing could be read: the facts of before stay, the conditions say so (contract section 2, row 2)."""
    message = str(failure)
    reason = _UNREACHABLE.get(failure.kind, Reason.BOOTSTRAP_UNREACHABLE)
    return _facts_of_before(
        {
            Condition.READY: ("Unknown", Reason.UNREACHABLE, message),
            Condition.REACHABLE: ("False", reason, message),
            Condition.FEATURES_FINALIZED: ("Unknown", Reason.UNKNOWN, "the cluster could not be read"),
            **still_said(previous, generation),
        },
        generation=generation,
        previous=previous,
        now=now,
    )


def status_of_pending(*, generation: int, now: datetime) -> Json:
    """The first word about a resource, before its cluster was asked."""
    said = {Condition.READY: ("Unknown", Reason.PENDING, "not reconciled yet")}
    return _facts_of_before(said, generation=generation, previous={}, now=now)


def status_of_invalid(
    reason: Reason, message: str, *, generation: int, previous: Mapping[str, Any], now: datetime
) -> Json:
    """The resource cannot be understood, so its cluster was not asked: what was read before stays."""
    said = {
        Condition.READY: ("False", reason, message),
        Condition.STALLED: ("True", reason, message),
        **still_said(previous, generation),
    }
    return _facts_of_before(said, generation=generation, previous=previous, now=now)


def status_of_failed_pass(message: str, *, generation: int, previous: Mapping[str, Any], now: datetime) -> Json:
    """The pass itself failed: a bug of ours, said where people look. It is tried again."""
    said = {
        Condition.READY: ("False", Reason.INTERNAL_ERROR, message),
        Condition.RECONCILING: ("True", Reason.INTERNAL_ERROR, message),
        **still_said(previous, generation),
    }
    return _facts_of_before(said, generation=generation, previous=previous, now=now)


def _facts_of_before(
    said: Mapping[Condition, Said], *, generation: int, previous: Mapping[str, Any], now: datetime
) -> Json:
    conditions = conditions_of(said, generation=generation, previous=previous.get("conditions", ()), at=stamp(now))
    status = {**previous, "observedGeneration": generation, "conditions": conditions}
    return bounded(status, len(previous.get("features", ())))


_UNREACHABLE: Mapping[FailureKind, Reason] = {
    FailureKind.TLS: Reason.TLS_FAILED,
    FailureKind.AUTHENTICATION: Reason.AUTHENTICATION_FAILED,
    FailureKind.CREDENTIALS: Reason.CREDENTIALS_INVALID,
    FailureKind.FORBIDDEN: Reason.ADDRESS_REFUSED,
}


def feature_states(observation: Observation, proposal: Proposal, blocked: tuple[Blocker, ...]) -> list[Json]:
    """Every feature with what is wanted of it, and how far that is. Of very many, those that are wanted."""
    in_the_way = {blocker.feature for blocker in blocked}
    in_zookeeper = any(blocker.kind is BlockerKind.ZOOKEEPER_MODE for blocker in blocked)
    drifted = {change.feature for change in proposal.drifted}
    features = []
    names = dict.fromkeys((*observation.feature_names(), *proposal.desired))
    shown = sorted(
        (name for name in names if len(name) <= MAX_FEATURE_NAME), key=lambda name: name not in proposal.desired
    )
    for name in sorted(shown[:MAX_FEATURES], key=[*names].index):
        shape = {key: value for key, value in feature_shape(observation, name).items() if key in _FEATURE_FIELDS}
        if name in proposal.desired:
            shape["desired"] = proposal.desired[name]
            shape["state"] = (
                "Blocked"
                if in_zookeeper
                else "InSync"
                if shape.get("finalized") == shape["desired"]
                else "Drifted"
                if name in drifted
                else "Blocked"
                if name in in_the_way
                else "Pending"
            )
        else:
            shape["state"] = "Unmanaged"
        features.append(shape)
    return features


def _metadata_version(status: Json, observation: Observation, desired: Mapping[str, int]) -> None:
    if isinstance(observation.finalized, Known) and METADATA_VERSION in observation.finalized.value:
        level = observation.finalized.value[METADATA_VERSION]
        status["metadataVersion"] = level_name(METADATA_VERSION, level) or str(level)
    if METADATA_VERSION in desired:
        level = desired[METADATA_VERSION]
        status["targetMetadataVersion"] = level_name(METADATA_VERSION, level) or str(level)


_FEATURE_FIELDS = {"name", "finalized", "supportedMin", "supportedMax"}


def _ready(decision: Decision) -> tuple[str, Reason, str]:
    match decision:
        case Done(reason, message):
            return "True", reason, message
        case Act(step):
            return "False", Reason.UPDATING_FEATURES, str(step)
        case Wait(reason, message):
            return "False", reason, message
        case Stalled(reason, message) | Held(reason, message):
            return "False", reason, message


def _approval(decision: Decision) -> Said:
    if isinstance(decision, Held) and decision.condition and decision.condition[0] is Condition.APPROVAL_REQUIRED:
        return "True", decision.condition[1], decision.message
    return None


def _drift(proposal: Proposal) -> Said:
    if not proposal.drifted:
        return None
    moved = ", ".join(
        f"{one.feature} was changed outside KafkaFeatures from {format_level(one.feature, one.after)} to "
        f"{format_level(one.feature, one.before)}"
        for one in proposal.drifted
    )
    return "True", proposal.drift_reason, moved


def _reconciling(decision: Decision) -> Said:
    match decision:
        case Act(step):
            return "True", Reason.UPDATING_FEATURES, str(step)
        case Wait(reason, message):
            return "True", reason, message
        case _:
            return None


def _reachable(observation: Observation) -> Said:
    """A node that is down is said here, also where it stands in nobody's way. Without times: they change."""
    silent: dict[tuple[Role, ...], list[Node]] = {}
    for node in observation.nodes:
        if isinstance(node.answer, Unknown) and node.answer.why.kind is not FailureKind.NOT_ASKED:
            silent.setdefault(node.roles, []).append(node)
    missing = [*map(str, observation.gaps), *(_silent(tuple(nodes)) for nodes in silent.values())]
    if missing:
        return "True", Reason.PARTIALLY_CONNECTED, "; ".join(missing)
    return "True", Reason.CONNECTED, f"{len(observation.nodes)} nodes seen"


def _silent(nodes: tuple[Node, ...]) -> str:
    return f"{title_and_address(nodes)} {verb(nodes, 'does', 'do')} not answer"


def _finalized(decision: Decision, proposal: Proposal, observation: Observation) -> Said:
    if isinstance(observation.finalized, Unknown):
        return "Unknown", Reason.UNKNOWN, str(observation.finalized.why)
    if not proposal.desired:
        return "True", Reason.NOTHING_DESIRED, "the document names no level"
    unknown_features = unknown_features_in(proposal.desired, observation)
    if not isinstance(decision, Act) and not proposal.changes and decision.blockers:
        if isinstance(decision, Wait):
            return "Unknown", Reason.UNKNOWN, decision.message  # nobody leads, so nobody can confirm them
        return "False", Reason.BLOCKED, "see blockers"
    if not proposal.changes and not unknown_features:  # whatever else the pass came to: of the levels, this was read
        levels = ", ".join(f"{feature} {format_level(feature, level)}" for feature, level in proposal.desired.items())
        return "True", Reason.ALL_AT_TARGET, decision.message if isinstance(decision, Done) else f"finalized: {levels}"
    if not isinstance(decision, Act) and decision.blockers:
        return "False", Reason.BLOCKED, "see blockers"
    unknown = (f"no node supports {feature}" for feature, _ in unknown_features)
    return "False", Reason.BEHIND_TARGET, ", ".join((*map(str, proposal.changes), *unknown))


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC, whole seconds, as Kubernetes writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
