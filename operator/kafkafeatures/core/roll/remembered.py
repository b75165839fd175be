"""Memory of nodes from earlier looks, and what one process keeps of it: which disks they had, and since when it knows
each of them to be up. In one place, whatever stage restarts nodes.

Pure. Called by `core/roll/stage.py`, and by the stages of migrations and of the inter.broker.protocol.version, whose
restarts are made there too. A status has the disks as well, as far as it has room for them; where both are lost, the
disks that are read next count as those of before. No status says since when a node is up: it would be no proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from kafkafeatures.api.status import Status
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.engine.settling import AgeOf
from kafkafeatures.core.engine.stage import StageMemory
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.readings import Mark
from kafkafeatures.core.roll.disks import Disks, read_disks
from kafkafeatures.core.roll.proposal import ROLL


class RollContext(NamedTuple):
    """`in_flight`: restarts whose end was not seen. `status`: of before. With the time, and how to tell ages by it;
    `known_for`: for what must not come too early, whatever a clock says. `disks`: those that nodes had before.
    `up_for`: for how long this process knows each node to be up.
    """

    in_flight: tuple[InFlight, ...]
    status: Status
    current_time: datetime
    age_of: AgeOf
    known_for: AgeOf
    disks: Disks = MappingProxyType({})
    up_for: Mapping[int, timedelta] = MappingProxyType({})


class UpSince(Struct, frozen=True):
    """Time when this process met a return of a node, in seconds. mark: of that return, by the metadata log."""

    mark: Mark
    at: float


class RollMemory(Struct, frozen=True):
    """Memory of restarts in this process: a status may be lost, and has no room for each node of a large cluster."""

    cluster: str
    disks: Disks
    up: Mapping[int, UpSince]

    def interrupted(self, reason: str) -> RollMemory:
        """A cluster that cannot be read changes no disk, and what returns to it meanwhile has another mark."""
        return self


def remembered_of(facts: StageInput) -> RollContext:
    """Memory that the next restart is judged by, beside what was read."""
    up_for = {id_: timedelta(seconds=facts.monotonic - up_since.at) for id_, up_since in _up(facts).items()}
    return RollContext(
        facts.in_flight, facts.remembered, facts.current_time, facts.age_of, facts.known_for,
        disks_before(facts), up_for
    )  # fmt: skip


def kept_of_roll(facts: StageInput, disks: Disks | None, *, is_over: bool) -> Mapping[str, StageMemory]:
    """Memory of this look that the process keeps. `disks`: those of before by now, None where no node is restarted;
    `is_over`: that is certain, and what nodes have by then is what the next roll begins with.
    """
    if not isinstance(facts.observation.cluster_id, Known):
        return {}
    earlier_disks = {} if is_over else disks_before(facts) if disks is None else disks
    return {ROLL: RollMemory(facts.observation.cluster_id.value, earlier_disks, _up(facts))}


def disks_before(facts: StageInput) -> Disks:
    """Directories that nodes had earlier in the roll that is on: as the status has them, else as this process has."""
    cache, rollout = _before(facts), facts.remembered.rollout
    lines = rollout.disks if rollout is not None and rollout.is_in_progress else ()
    return {**(cache.disks if cache is not None else {}), **read_disks(lines)}


def _before(facts: StageInput) -> RollMemory | None:
    cache, cluster = facts.stage_memory.get(ROLL), facts.observation.cluster_id
    is_of_it = isinstance(cache, RollMemory) and isinstance(cluster, Known) and cache.cluster == cluster.value
    return cache if isinstance(cache, RollMemory) and is_of_it else None


def _up(facts: StageInput) -> Mapping[int, UpSince]:
    """Since when this process knows of the last return of each node. One that has left and come again has another mark,
    also where no look was taken meanwhile; a look that cannot read the log shows nothing new.
    """
    cache = _before(facts)
    earlier_ups = cache.up if cache is not None else {}
    if facts.observation.returns is None:
        return earlier_ups
    return {
        id_: earlier_ups[id_]
        if id_ in earlier_ups and earlier_ups[id_].mark == mark
        else UpSince(mark, facts.monotonic)
        for id_, mark in facts.observation.returns.marks.items()
    }
