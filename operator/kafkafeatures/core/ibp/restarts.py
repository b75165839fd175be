"""Brokers that the next roll must restart, and blockers if a restart did not have its effect.

Pure. Called by `core/ibp/state.py`. This module decides only which brokers are restarted; the rules of rolls
(`core/roll/`) decide when, and get these brokers as a `Permit`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.ibp.progress import IbpProgress, RollPurpose
from kafkafeatures.core.roll.permit import Permit
from kafkafeatures.core.roll.targets import roll_id

if TYPE_CHECKING:
    from kafkafeatures.core.roll.pods import Fleet

OUTDATED = "its pod is not of the update revision"
"""Reason to restart a broker whose version is right."""


def permit_for(progress: IbpProgress, *, reads_pods: bool, started: str = "", flies: bool = False) -> Permit:
    """Permit for the brokers that the next roll must restart.

    reads_pods: the driver of the document reads pods. If a pod is outdated, the permit is then for all known brokers,
        as an image may have been replaced by one with the same release; the roll restarts only outdated pods.
    started: id of the roll in the status; empty for none. While a broker is restarted, or its version is not known,
        only this roll restarts further brokers: the next one begins once every broker has reported that it is over.
    flies: a broker is being restarted.
    """
    needing, roll_title = {id_: progress.lines(id_) for id_ in progress.differing}, _title(progress, progress.roll)
    if reads_pods and _some_outdated(progress):
        needing = {id_: needing.get(id_, OUTDATED) for id_ in progress.known_brokers}
    unknown = frozenset(progress.unknown)
    if unknown or flies:
        current_title = next(
            (title for title in _titles(progress) if roll_id(progress.observation, (), title) == started), ""
        )
        if current_title != roll_title:
            # Some broker may still be busy with the roll before, so none is restarted for the next one, and the brokers
            # that need it do not count as done.
            needing, roll_title, unknown = {}, current_title or roll_title, unknown | progress.differing.keys()
    claim = progress.claim
    return Permit(
        purpose=roll_title,
        needing=needing,
        # the broker that is controller, as the partitions are read from it
        last=claim.node_id if claim is not None and not claim.is_kraft else None,
        unknown=unknown,
        is_first=len(progress.differing) == len(progress.known_brokers),
        has_quorum=False,
    )


def _titles(progress: IbpProgress) -> tuple[str, ...]:
    return tuple(_title(progress, roll) for roll in (*RollPurpose, None))


def _title(progress: IbpProgress, roll: RollPurpose | None) -> str:
    """Purpose of a roll as text, which identifies it; None: of a roll that only replaces outdated pods."""
    return f"{IBP} {progress.target}: {roll.name if roll is not None else 'pods'}"


def _some_outdated(progress: IbpProgress) -> bool:
    from kafkafeatures.core.roll.pods import is_outdated

    workloads = progress.observation.workloads
    return isinstance(workloads, Known) and any(
        is_outdated(pod, owner) for owner in workloads.value.stateful_sets for pod in owner.pods
    )


def wrongly_restarted(progress: IbpProgress, fleet: Fleet | None, flying: frozenset[int]) -> Iterator[Blocker]:
    """Blockers for brokers that were restarted with a new template and still need the same change, while other pods of
    their StatefulSet are outdated: no second broker is restarted with that template.
    """
    if fleet is None:
        return
    from kafkafeatures.core.roll.pods import is_outdated

    outdated = {fleet.sets[id_].name for id_, pod in fleet.pods.items() if is_outdated(pod, fleet.sets[id_])}
    for id_, broker in progress.differing.items():
        pod, owner = fleet.pods.get(id_), fleet.sets.get(id_)
        if pod is None or owner is None or id_ in flying or owner.name not in outdated or is_outdated(pod, owner):
            continue
        yield Blocker(
            BlockerKind.WORKLOAD,
            f"{broker.node.title} was restarted with the template of {owner.name}, and needs {progress.lines(id_)}",
            f"correct the template of {owner.name} in Git",
            nodes=(broker.node,),
            reason=Reason.ROLLOUT_HALTED,
        )
