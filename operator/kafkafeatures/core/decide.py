"""The one decision of a pass: what is wanted, what is seen, hence what to do now.

Pure: `decide` gets values and returns a value with a reason. Called by `reconcile/loop.py`.

The order (contract section 2): wrong cluster; what was sent and not yet settled; nothing to do; everything in the way;
the server's verdict; one step. Levels are sent one by one, metadata.version before what may depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.checks import Blocker, Question, blockers
from kafkafeatures.core.observation import Known, Node, NodeState, Observation, Unknown
from kafkafeatures.core.releases import told
from kafkafeatures.core.steps import Refused, Step, Unavailable, UpdateFeature, Verdict


@dataclass(frozen=True, slots=True)
class Act:
    """Carry out this step, then look again."""

    step: Step


@dataclass(frozen=True, slots=True)
class Wait:
    """Time will tell; look again after `after` seconds."""

    reason: Reason
    message: str
    after: float
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True)
class Stalled:
    """A human must act."""

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """Every desired level was read on the active controller and on every living node."""

    reason: Reason
    message: str


Decision = Act | Wait | Stalled | Done


@dataclass(frozen=True, slots=True)
class Standing:
    """An intent of the status whose outcome is open: the level reads as before, and may still change."""

    step: Step


def pending(desired: Mapping[str, int], observation: Observation) -> tuple[UpdateFeature, ...]:
    """The changes still to be made, in the order they are sent; none where the finalized levels are not known."""
    if isinstance(observation.finalized, Unknown):
        return ()
    levels = observation.finalized.value
    changes = [
        UpdateFeature(feature, levels.get(feature, 0), level)
        for feature, level in desired.items()
        if levels.get(feature, 0) != level
    ]
    # A feature may depend on a level of metadata.version (KIP-1022), so that one goes first when levels are raised.
    return tuple(sorted(changes, key=lambda change: (change.feature != METADATA_VERSION, change.feature)))


def decide(
    desired: Mapping[str, int],
    observation: Observation,
    *,
    pinned_cluster_id: str,
    standing: Standing | None,
    verdict: Verdict | None,
) -> Decision:
    """Decide one pass. `pinned_cluster_id` empty: none yet. `verdict`: of exactly `pending(...)`, None if unasked."""
    wrong = _wrong_cluster(observation, pinned_cluster_id)
    if wrong is not None:
        return wrong
    changes = pending(desired, observation)
    if standing is not None:
        return Wait(
            Reason.VERIFYING,
            f"the outcome of {standing.step} is not known; nothing else is sent before it was read twice",
            after=1.0,
        )
    if not changes and isinstance(observation.finalized, Known):
        return _read_back(desired, observation)
    found = blockers(Question(observation, changes, verdict))
    if found:
        return _blocked(found, changes, observation)
    if isinstance(verdict, Refused):
        return Stalled(Reason.CONTROLLER_REJECTED, f"the active controller refuses it: {verdict.message}")
    if isinstance(verdict, Unavailable) or verdict is None:
        why = verdict.why if verdict else "not asked yet"
        if verdict and verdict.rights:
            return Stalled(Reason.INSUFFICIENT_RIGHTS, why)
        return Wait(Reason.PREFLIGHT, f"no verdict of the active controller: {why}", after=2.0)
    return Act(changes[0])


def _wrong_cluster(observation: Observation, pinned: str) -> Decision | None:
    if isinstance(observation.cluster_id, Unknown):
        return Wait(Reason.PREFLIGHT, f"the cluster id could not be read: {observation.cluster_id.why}", after=2.0)
    if pinned and observation.cluster_id.value != pinned:
        return Stalled(
            Reason.CLUSTER_ID_MISMATCH,
            f"this is cluster {observation.cluster_id.value}, expected was {pinned}; check the bootstrap addresses",
        )
    return None


def _read_back(desired: Mapping[str, int], observation: Observation) -> Decision:
    behind = [
        (node, feature)
        for node in observation.nodes
        if node.state is NodeState.LIVE
        for feature, level in desired.items()
        if _seen_on(node, feature) not in (level, None)
    ]
    if behind:
        node, feature = behind[0]
        return Wait(
            Reason.VERIFYING,
            f"{node.title} still reads {feature} {_seen_on(node, feature)}"
            + (f", and {len(behind) - 1} more readings are behind" if len(behind) > 1 else ""),
            after=0.1,
        )
    if not desired:
        return Done(Reason.IN_SYNC, "no level is wanted; the cluster is left as it is")
    told_levels = ", ".join(f"{feature} {told(feature, level)}" for feature, level in desired.items())
    return Done(Reason.IN_SYNC, f"finalized and read on every living node: {told_levels}")


def _seen_on(node: Node, feature: str) -> int | None:
    """None where the node did not answer: a node that is down does not make a cluster unready."""
    return node.answer.value.finalized.get(feature, 0) if isinstance(node.answer, Known) else None


# What a blocker means for the pass: a human must act (a reason of Stalled), or time may cure it.
_HUMAN: Mapping[BlockerKind, Reason] = {
    BlockerKind.ZOOKEEPER_MODE: Reason.ZOOKEEPER_MODE,
    BlockerKind.LOWERING: Reason.CONSENT_REQUIRED,
    BlockerKind.CONSENT: Reason.CONSENT_REQUIRED,
    BlockerKind.UNKNOWN_FEATURE: Reason.UNKNOWN_FEATURE,
    BlockerKind.GHOST_REGISTRATION: Reason.GHOST_REGISTRATION,
    BlockerKind.REFUSED_NODE: Reason.NODE_REFUSED,
    BlockerKind.DEPENDENCY: Reason.DEPENDENCY_MISSING,
    BlockerKind.RIGHTS: Reason.INSUFFICIENT_RIGHTS,
}
_TIME: Mapping[BlockerKind, Reason] = {
    BlockerKind.MIGRATION: Reason.MIGRATING,
    BlockerKind.QUORUM: Reason.WAITING_FOR_QUORUM,
    BlockerKind.NODE_RANGE: Reason.WAITING_FOR_NODES,
    BlockerKind.NODE_UNKNOWN: Reason.WAITING_FOR_NODES,
}


def _blocked(found: tuple[Blocker, ...], changes: tuple[UpdateFeature, ...], observation: Observation) -> Decision:
    human = [blocker for blocker in found if blocker.kind in _HUMAN]
    if human:
        return Stalled(_HUMAN[human[0].kind], _first_of(human[0], found), found)
    for change in changes:
        if _nobody_supports(change, observation):
            message = f"no node supports {change.feature} {told(change.feature, change.after)}"
            return Stalled(Reason.UNSUPPORTED_LEVEL, message, found)
    return Wait(_TIME[found[0].kind], _first_of(found[0], found), after=2.0, blockers=found)


def _nobody_supports(change: UpdateFeature, observation: Observation) -> bool:
    ranges = [node.range_of(change.feature) for node in observation.nodes]
    return bool(ranges) and all(isinstance(one, Known) and change.after not in one.value for one in ranges)


def _first_of(first: Blocker, found: tuple[Blocker, ...]) -> str:
    more = len(found) - 1
    return first.message + (f" (and {more} more)" if more else "")
