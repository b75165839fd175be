"""Number of rounds that a roll takes, what limits how many nodes are restarted at once, and what would change that.

Pure. Called by `core/roll/roll.py`; worked out when a roll begins or gets another target, and kept in the status.
"""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.replication import format_partitions
from kafkafeatures.core.roll import planner
from kafkafeatures.core.roll.advice import advice_on_moves
from kafkafeatures.core.roll.check_input import RestartCheckInput
from kafkafeatures.core.words import cut

MOST_NOTES, MAX_NOTE = 8, 512
"""Most notes in a status, and the length of one in characters."""


class RollLimits(Struct, frozen=True):
    """Length of a roll and what limits it.

    rounds: number of rounds one after the other, each of one node or of several that restart together; 0: not known.
    notes: what limits how many nodes are restarted at once.
    """

    rounds: int = 0
    notes: tuple[str, ...] = ()


def limits_of(inputs: RestartCheckInput, needing: frozenset[int]) -> RollLimits:
    """Limits of the roll: those in the status if the same roll continues, as later fewer nodes are left to judge by."""
    rollout = inputs.remembered.status.rollout
    if rollout is not None and inputs.continues_without_new_target and rollout.rounds:
        return RollLimits(rollout.rounds, rollout.notes)
    notes, rounds = list(inputs.fleet.notes), 0
    if inputs.binaries.has_unknown:
        notes.append(
            "the template does not show what the new image supports: the first node of each such image is "
            "restarted alone"
        )
    brokers = frozenset(id_ for id_ in needing if not inputs.is_controller(id_))
    max_parallel, most = inputs.desired.rollout.max_parallel, planner.MOST_IN_FLIGHT
    share_of_brokers = max_parallel.number * sum(Role.BROKER in node.roles for node in inputs.observation.nodes) // 100
    if (share_of_brokers if max_parallel.percent else max_parallel.number) > most and len(brokers) > most:
        notes.insert(
            0,
            f"at most {most} nodes at a time: rollout.maxParallel is {max_parallel}, which is above the operator's "
            "limit",
        )
    if inputs.replication is not None:
        cap, availability = inputs.cap, inputs.desired.rollout.availability
        rounds_of_brokers = planner.planned_rounds(inputs.replication, brokers, most=cap, availability=availability)
        rounds = rounds_of_brokers + len(needing - brokers)  # controllers restart one after the other
        if len(brokers) > 1:
            notes.append(f"{len(brokers)} brokers in about {rounds_of_brokers} rounds of {cap} at most")
            advice = advice_on_moves(inputs.replication, brokers, most=cap, availability=availability)
            if advice is not None:
                moved = format_partitions(advice.partitions, advice.names)
                notes.append(
                    f"move {moved} to other racks to restart them in {advice.rounds_after} rounds instead of "
                    f"{advice.rounds}"
                )
    return RollLimits(rounds, tuple(cut(note, MAX_NOTE) for note in notes[:MOST_NOTES]))
