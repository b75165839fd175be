"""Nodes that a migration needs restarted next, and blockers for pod templates that were changed too early or are wrong.

Pure. Called by `core/migration/state.py`. This module decides only which nodes are restarted; the rules of rolls
(`core/roll/`) decide when, and get these nodes as a `Permit`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.observation import Known, Observation
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.checks import setting_blocker
from kafkafeatures.core.migration.edges import HALF_DONE
from kafkafeatures.core.migration.finalize import is_in_dual_write
from kafkafeatures.core.migration.positions import BrokerMode, Misplaced, Position
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.roll.permit import Permit
from kafkafeatures.core.roll.pods import Fleet, is_outdated


def permit_for(progress: MigrationProgress | Misplaced | Failure, unneeded: frozenset[int] = frozenset()) -> Permit:
    """Permit to restart the nodes whose settings are not yet those of the next position; for no node if that position
    is not known, or if the way to it restarts none: restarts in flight then end early.

    unneeded: ids of nodes that are not expected to come back, so that nobody waits for them on such a way.
    """
    if not isinstance(progress, MigrationProgress) or progress.way is None:
        return Permit("", {})
    if progress.way.restarts is None:
        return Permit("", {}, restarts=False, proven=frozenset(_proven(progress)), unneeded=unneeded)
    edge, claim = progress.way, progress.claim
    needing = {
        id_: "; ".join(map(str, demand.differs))
        for id_, demand in progress.differing.items()
        if not isinstance(demand.differs, Failure)
    }
    of_role = [demand for demand in progress.demands.nodes if demand.role is edge.restarts]
    return Permit(
        purpose=f"{edge.start[0]} -> {edge.end}",
        needing=needing,
        last=claim.node_id if claim is not None and not claim.is_kraft else None,
        unknown=frozenset(progress.differing.keys() - needing.keys()),
        is_first=all(demand.id in progress.differing for demand in of_role),
        has_quorum=edge.end is not Position.ZOOKEEPER,
        is_half_done=edge in HALF_DONE,
    )


def _proven(progress: MigrationProgress) -> Iterator[int]:
    """Ids of brokers that run in ZooKeeper mode by three witnesses: their answer, their settings and their znode."""
    for node in progress.observation.nodes:
        in_zookeeper = progress.facts.brokers.get(node.id) in (BrokerMode.PLAIN, BrokerMode.FLAGGED)
        if in_zookeeper and node.proved_at and node.czxid >= 0:
            yield node.id


def template_ahead(
    progress: MigrationProgress, observation: Observation, flying: frozenset[str], *, may_begin: bool
) -> Iterator[Blocker]:
    """Blockers for pod templates that were changed before their turn. With updateStrategy OnDelete any pod that is
    evicted starts with the new template. A broker would be ahead of the migration; a controller, which has no flag in
    the new template, would finalize it as soon as it leads the quorum.

    flying: names of pods that are being restarted on request.
    may_begin: the nodes of the next way may be restarted, so their template may be new.
    """
    if not isinstance(observation.workloads, Known) or progress.position in (Position.ZOOKEEPER, Position.FINALIZED):
        return  # before and after a migration, templates are no concern of it
    role = progress.way.restarts if progress.way is not None and may_begin else None
    # A pod whose controller has lost its flag has its own remedy, and may be older than a template that was reverted.
    unasked = {
        node.proved_at
        for node in progress.observation.nodes
        if is_in_dual_write(progress) and node.id in progress.facts.unflagged
    } - {""}
    for owner in observation.workloads.value.stateful_sets:
        if role is not None and owner.role == f"{role.value.lower()}s":
            continue
        ahead = [
            pod.name
            for pod in owner.pods
            if is_outdated(pod, owner) and pod.name not in flying and unasked.isdisjoint(pod.ips)
        ]
        if ahead:
            yield Blocker(
                BlockerKind.WORKLOAD,
                f"the template of StatefulSet {owner.name} was changed before the migration asked for it: "
                f"{', '.join(ahead[:3])}{' and more' if len(ahead) > 3 else ''} would start with it",
                f"revert the template of {owner.name} in Git",
                reason=Reason.TEMPLATE_AHEAD,
            )


def wrongly_restarted(progress: MigrationProgress, fleet: Fleet | None, flying: frozenset[int]) -> Iterator[Blocker]:
    """Blockers for nodes that were restarted with the new template and still lack a setting, so that no second node is
    restarted with it. Yields nothing while no node may be restarted, such as on the way back before Git has changed
    anything.
    """
    if fleet is None or not fleet.needing or progress.way is None or progress.way.restarts is None:
        return
    outdated = {fleet.sets[id_].name for id_, pod in fleet.pods.items() if is_outdated(pod, fleet.sets[id_])}
    for id_, demand in progress.differing.items():
        pod, owner = fleet.pods.get(id_), fleet.sets.get(id_)
        if pod is None or owner is None or id_ in flying or isinstance(demand.differs, Failure):
            continue
        if owner.name in outdated and not is_outdated(pod, owner):
            yield setting_blocker(progress, demand)
