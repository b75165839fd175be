"""What is remembered of each target that nodes are rolled to, in `status.rollout.revisions`.

Pure. Called by `core/roll/roll.py`. The facts about one target are: how many nodes are left, which nodes were restarted
for it, since when nodes may be restarted for it, whether all pods once ran it, and which consents were given for it.
These facts stay as they are when another StatefulSet changes, and while the StatefulSets cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafkafeatures.api.status import RevisionStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.node_sets import holds, without_node
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.roll.targets import Target, present_targets

if TYPE_CHECKING:
    from kafkafeatures.core.facts.workloads import StatefulSet
    from kafkafeatures.core.roll.check_input import RestartCheckInput

MOST_EARLIER = 2
"""Earlier revisions of one StatefulSet that are remembered, the latest ones."""


def revisions_after(inputs: RestartCheckInput) -> tuple[RevisionStatus, ...]:
    """Statuses to remember after this reconciliation: of each present target, and of earlier ones.

    The time since when nodes may be restarted is added by `core/roll/report.py`.
    """
    remaining, present = inputs.remaining_targets, present_targets(inputs.observation)
    entries = dict(inputs.revisions)
    for target in _reached_before(inputs, present):
        entries[target] = replace(entries.get(target) or _new_status(target), reached=True)
    for target in remaining:
        entries.setdefault(target, _new_status(target))
    updated = (
        _updated_status(inputs, entry, remaining.get(target, 0), present.get(target))
        for target, entry in entries.items()
    )
    return tuple(_limited([entry for entry in updated if entry is not None]))


def _new_status(target: Target) -> RevisionStatus:
    """The status of a target of which nothing is remembered yet."""
    return RevisionStatus(name=target.name, revision=target.revision)


def _updated_status(
    inputs: RestartCheckInput, entry: RevisionStatus, remaining: int, owner: StatefulSet | None
) -> RevisionStatus | None:
    """Status of a target after this reconciliation; None where nothing has to be remembered.

    remaining: number of pods or nodes that have not reached it.
    owner: StatefulSet whose present target it is; None if it is an earlier one, or of nodes that a person restarts.
    """
    target, workloads = Target(entry.name, entry.revision), inputs.observation.workloads
    is_excused = remaining > 0 and inputs.excused is not None and target in inputs.excused.targets
    nodes = _without_reached(inputs, target, entry.nodes)
    if not target.name:  # a level or a way of a migration; one that is over says nothing about the next one
        is_over = not remaining and inputs.are_outdated_nodes_known
        return None if is_over else replace(entry, left=remaining or entry.left, excused=is_excused, nodes=nodes)
    if owner is not None:
        is_there = len(owner.pods) >= owner.replicas and not any(pod.terminating for pod in owner.pods)
        reached = entry.reached or (not remaining and is_there)
        client_breaks = entry.client_breaks if remaining else ()
        return replace(
            entry, left=remaining, reached=reached, excused=is_excused, client_breaks=client_breaks, nodes=nodes
        )
    if isinstance(workloads, Unknown):
        return entry
    if target.name in {
        *workloads.value.missing,
        *(stateful_set.name for stateful_set in workloads.value.stateful_sets if not stateful_set.observed),
    }:
        return replace(entry, since=None)  # a level may be finalized meanwhile, so the time begins anew
    is_named = any(stateful_set.name == target.name for stateful_set in workloads.value.stateful_sets)
    return replace(entry, left=0, since=None, excused=False, client_breaks=()) if is_named else None


def _without_reached(inputs: RestartCheckInput, target: Target, nodes: str) -> str:
    """Return the nodes that were restarted for this target, without those that certainly have reached it. A node that
    stays in this set and needs the same restart again was restarted in vain (`core/roll/halts.py`).
    """
    if not nodes:
        return ""
    for id_ in inputs.ids_that_reached(target):
        if holds(nodes, id_):
            nodes = without_node(nodes, id_)
    return nodes


def _reached_before(inputs: RestartCheckInput, present: Mapping[Target, StatefulSet]) -> Iterator[Target]:
    """Targets that all pods had reached by the previous status, before the present template came."""
    names = {target.name for target in present}
    for workload in inputs.remembered.status.workloads:
        target = Target(workload.name, workload.update_revision)
        if (
            workload.name in names
            and target not in present
            and workload.update_revision
            and workload.updated == workload.total > 0
        ):
            yield target


def _limited(revisions: list[RevisionStatus]) -> Iterator[RevisionStatus]:
    """Targets that some pod has still to reach, and the latest earlier ones of each StatefulSet: a status has room for
    few.
    """
    earlier: dict[str, list[RevisionStatus]] = {}
    for entry in revisions:
        if not entry.left:
            earlier.setdefault(entry.name, []).append(entry)
    for entry in revisions:
        if entry.left or any(entry is latest for latest in earlier[entry.name][-MOST_EARLIER:]):
            yield entry
