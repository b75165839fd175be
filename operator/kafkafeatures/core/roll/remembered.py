"""Memory that restarts are judged by: the disks that each node had, and since when this process knows each node to be
up.

Pure. Called by `core/roll/stage.py`, and by the stages of migrations and of the inter.broker.protocol.version, which
restart nodes too. The disks are also in the status, as far as it has room for them. If both the status and this process
have lost them, the disks that are read next count as the earlier ones. How long a node has been up is never taken from
a status, which would prove nothing.
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
    """Memory and clocks that the next restart is judged by, besides what was read of the cluster.

    in_flight: steps that are not over, restarts among them.
    status: the status that the reconciliation began with, without the steps that have ended.
    current_time: the time of this reconciliation.
    age_of: age of a stamp of the status, by the clock.
    known_for: the part of that age for which this process has known the stamp; setting a clock cannot lengthen it.
    disks: the directories that each node had earlier in this roll.
    up_for: for how long this process knows each node to be up.
    """

    in_flight: tuple[InFlight, ...]
    status: Status
    current_time: datetime
    age_of: AgeOf
    known_for: AgeOf
    disks: Disks = MappingProxyType({})
    up_for: Mapping[int, timedelta] = MappingProxyType({})


class UpSince(Struct, frozen=True):
    """Last return of a node (its registration or unfencing), as this process read it.

    mark: identity of the return in the metadata log.
    at: monotonic time in seconds at which this process first read it.
    """

    mark: Mark
    at: float


class RollMemory(Struct, frozen=True):
    """Memory of restarts in this process: a status may be lost, and has no room for each node of a large cluster.

    cluster: id of the cluster.
    disks: the directories that each node had earlier.
    up: last return of each node.
    """

    cluster: str
    disks: Disks
    up: Mapping[int, UpSince]

    def interrupted(self, reason: str) -> RollMemory:
        """The memory as it is, whatever the reason: an unreadable cluster changes no disk, and a node that comes back
        gets another mark.
        """
        return self


def remembered_of(facts: StageInput) -> RollContext:
    """Memory and clocks that the next restart is judged by."""
    up_for = {id_: timedelta(seconds=facts.monotonic - up_since.at) for id_, up_since in _up(facts).items()}
    return RollContext(
        facts.in_flight, facts.remembered, facts.current_time, facts.age_of, facts.known_for,
        disks_before(facts), up_for
    )  # fmt: skip


def kept_of_roll(facts: StageInput, disks: Disks | None, *, is_over: bool) -> Mapping[str, StageMemory]:
    """Memory that the process keeps after this reconciliation; empty where the id of the cluster is not known.

    disks: the earlier directories, updated by this reconciliation; None if no node is restarted.
    is_over: the roll is certainly over, so the earlier directories are dropped: the next roll begins with those that it
        reads.
    """
    if not isinstance(facts.observation.cluster_id, Known):
        return {}
    earlier_disks = {} if is_over else disks_before(facts) if disks is None else disks
    return {ROLL: RollMemory(facts.observation.cluster_id.value, earlier_disks, _up(facts))}


def disks_before(facts: StageInput) -> Disks:
    """Directories that nodes had earlier in the roll in progress: from the status, and for other nodes from this
    process.
    """
    cache, rollout = _before(facts), facts.remembered.rollout
    lines = rollout.disks if rollout is not None and rollout.is_in_progress else ()
    return {**(cache.disks if cache is not None else {}), **read_disks(lines)}


def _before(facts: StageInput) -> RollMemory | None:
    """Memory of the last reconciliation; None if there is none, or it is of another cluster."""
    cache, cluster = facts.stage_memory.get(ROLL), facts.observation.cluster_id
    is_of_it = isinstance(cache, RollMemory) and isinstance(cluster, Known) and cache.cluster == cluster.value
    return cache if isinstance(cache, RollMemory) and is_of_it else None


def _up(facts: StageInput) -> Mapping[int, UpSince]:
    """Last return of each node, and since when this process knows it. A node that left and came back has another mark,
    even if nothing was read meanwhile. A reconciliation that cannot read the log keeps what was known.
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
