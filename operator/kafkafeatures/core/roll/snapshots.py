"""Check that a controller's own snapshot is newer than every level which its new binary does not support.

Pure. The last of the checks of `core/roll/checks.py`. Why it is needed: a starting node loads its own newest snapshot
and replays the metadata log from there (`KafkaRaftClient.updateListenersProgress`). If the log still has a record with
a level that its binary does not support, a controller ends, although a later record downgrades that level: "Tried to
apply FeatureLevelRecord ..., but this controller only supports versions" (`FeatureControlManager.replay`). Tried on
real nodes: share.version of 4.4 and metadata.version of 4.3, downgraded before a restart with 4.1. A broker does not
end, as only the levels at the end of the log count for it (`MetadataLoader` publishes once it has caught up). Up to
4.0, a broker that reads an unknown metadata.version continues too, but writes no snapshot until its next restart
("metadata loading fault").

No request shows which snapshots a follower has: FetchSnapshot is the leader's, and DescribeQuorum has none. So this
module computes from when on a newer one must exist. A controller writes a snapshot
`metadata.log.max.snapshot.interval.ms` after it started, or after its previous snapshot (`SnapshotGenerator`; measured
to the second). It writes one earlier where the log grows fast, which is not relied on. A restart begins that time anew.
Two cases cannot be observed and are ignored: a full disk, and a process so far behind that it reads the leader's
snapshot, which begins the time anew as well.

Levels that were finalized before the operator first read the log are not known. That delays only the restart of a node
whose new binary supports less than its present one, by one interval at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import NOT_SUPPORTED, Known, Node, NodeState
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.facts.settings import SNAPSHOT_INTERVAL
from kafkafeatures.core.roll.check_input import Refusal, RestartCheckInput
from kafkafeatures.core.roll.targets import target_of

DEFAULT_INTERVAL = timedelta(hours=1)
"""Kafka's default of the interval between two snapshots, for a node that does not report its own. It is used only where
earlier levels are not known; after a level that is known, the interval must be known too.
"""
LEAST_MARGIN = timedelta(seconds=30)
"""Smallest margin beyond the interval, else a tenth of it: for catching up before the time begins, and for writing."""
REGISTERS_WITHIN = timedelta(minutes=1)
"""`initial.broker.registration.timeout.ms`: a broker that cannot register for so long ends."""
LONGEST_INTERVAL = timedelta(days=365)
"""Largest interval that is counted with: a larger one could make a time that no `datetime` holds."""
MAX_DELAY = 60.0
"""Most seconds until the next reconciliation: the node may restart by itself meanwhile, which begins its interval anew.
"""
RESTARTS_COUNT_FOR = timedelta(days=1)
"""Time after a level was given up (or one interval, if that is longer) in which a start of the node delays its
snapshot. A node that started later than that is taken to have written one before.
"""

GivenUp = Mapping[tuple[str, int], datetime]
"""Levels that are no longer finalized, by feature and level, with the time at which each was given up."""


class PlannedAbsence(Struct, frozen=True):
    """A node, its present process, and what its new binary supports.

    started_at: start of its present process; None: not known.
    supports: levels that its new binary supports, by feature.
    """

    node: Node
    started_at: datetime | None
    supports: Mapping[str, VersionRange]


class PendingSnapshot(Struct, frozen=True):
    """A snapshot that a node has yet to write.

    until: time at which it is certainly written; None: not known.
    replayed: levels that the node would replay without it, in words.
    """

    node: Node
    until: datetime | None
    replayed: str


def awaited(
    to_restart: Iterable[PlannedAbsence], given_up: GivenUp, since: datetime | None, current_time: datetime
) -> PendingSnapshot | None:
    """The awaited snapshot that takes longest; None if none has to be waited for.

    to_restart: nodes that need a restart.
    since: time from which `given_up` is complete; None: it has everything since the cluster began.
    current_time: present time by the clock of the other times.
    """
    controllers = (controller for controller in to_restart if Role.CONTROLLER in controller.node.roles)
    snapshots = [
        snapshot
        for controller in controllers
        if (snapshot := _pending_snapshot(controller, given_up, since, current_time)) is not None
    ]
    return max(snapshots, key=lambda snapshot: (snapshot.until is None, snapshot.until or current_time), default=None)


def known_since(since: datetime, running: Iterable[PlannedAbsence]) -> datetime:
    """Time from which on the new binary is known to support every level that was finalized: `since`, or earlier if a
    running node proves it. Its binary supports no more than the new one, and it has been registered for longer: Kafka
    finalizes no level that a registered node does not support, and a node that lacks a finalized level cannot register.
    """
    proofs = (
        process.started_at + REGISTERS_WITHIN
        for process in running
        if process.started_at
        and process.node.state is NodeState.LIVE
        and _supports(process.node)
        and not _supports_less(process)
    )
    return min((since, *proofs))


def snapshots_are_newer(inputs: RestartCheckInput) -> Refusal | None:
    """No controller would replay a level that its new binary does not support."""
    past, read_at = inputs.observation.past_levels, inputs.pods_read_at
    given_up_levels: GivenUp = {}
    since: datetime | None = None
    if past is not None:
        given_up_levels, since, read_at = past.given_up_at, past.since, past.at
    pods = {id_: pod for id_, pod in inputs.fleet.pods.items() if not pod.terminating}
    needing = inputs.fleet.needing.keys() - inputs.stuck
    for name, supports in inputs.binaries.ranges.items():
        running = [PlannedAbsence(node, pods[id_].started_at, supports) for id_ in pods for node in inputs.nodes(id_)]
        to_restart = [
            process for process in running if process.node.id in needing and pods[process.node.id].stateful_set == name
        ]
        if past is None:
            since = read_at - _known_for(inputs, name)
        snapshot = awaited(to_restart, given_up_levels, since and known_since(since, running), read_at)
        if snapshot is None:
            continue
        title, replayed = snapshot.node.title, snapshot.replayed
        text = f"{title} needs a newer snapshot, or would replay what its new image cannot: {replayed}"
        if snapshot.until is None:
            remedy = f"set {SNAPSHOT_INTERVAL} on it above 0, and grant DescribeConfigs on the cluster"
            text = f"{text}; when it writes one is not known: {remedy}"
            return Stalled(Reason.ROLLOUT_HALTED, text, subject=snapshot.node.title, remedy=remedy)
        delay = min(max((snapshot.until - read_at).total_seconds(), 1.0), MAX_DELAY)
        return Wait(
            Reason.ROLLING_NODES,
            f"{text}; not before {_time(snapshot.until)}",
            delay=delay,
            is_dated=True,
            subject=snapshot.node.title,
            remedy=f"wait until then, or lower {SNAPSHOT_INTERVAL} on it",
        )
    return None


def _known_for(inputs: RestartCheckInput, stateful_set: str) -> timedelta:
    """Time for which nodes of this StatefulSet could be restarted to its present revision (`RevisionStatus.since`), as
    far as this process has counted it: no finalized level has forbidden it for so long.
    """
    revisions = (
        inputs.revisions.get(target_of(owner)) for owner in inputs.fleet.sets.values() if owner.name == stateful_set
    )
    since = next((revision.since for revision in revisions if revision is not None), None)
    return inputs.remembered.known_for(since) if since is not None else timedelta()


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def interval_of(node: Node) -> timedelta | None:
    """Interval after which a node writes a snapshot; 0: not after any time; None: the node did not report it."""
    setting = node.settings.get(SNAPSHOT_INTERVAL)
    try:
        return None if setting is None else timedelta(milliseconds=int(setting.value or ""))
    except (ValueError, OverflowError):
        return None


def _pending_snapshot(
    absence: PlannedAbsence, given_up: GivenUp, since: datetime | None, current_time: datetime
) -> PendingSnapshot | None:
    """The snapshot that this controller has yet to write; None if it has to write none before its restart."""
    interval, started = interval_of(absence.node), absence.started_at or current_time
    unsupported = [
        (at, key) for key, at in given_up.items() if key[1] not in absence.supports.get(key[0], NOT_SUPPORTED)
    ]
    if unsupported:
        at, (feature, level) = max(unsupported)  # the level that was given up last
        supported = absence.supports.get(feature, NOT_SUPPORTED)
        reason = f"{feature} {format_level(feature, level)} was finalized until {_time(at)}"
        reason += f", and its new image supports {supported}"
        restarts_count_for = RESTARTS_COUNT_FOR
    elif since is not None and _supports_less(absence):
        at, interval = since, interval or DEFAULT_INTERVAL
        reason = f"levels that were finalized before {_time(at)} are not known"
        reason += ", and its new image supports less than what it runs"
        restarts_count_for = timedelta(0)
    else:
        return None
    if not interval:
        return PendingSnapshot(absence.node, None, reason)
    duration = _with_margin(interval)
    # The interval began when the level was given up, or with a later start of the process, if that start still counts.
    until = (started if at < started < at + max(restarts_count_for, duration) else at) + duration
    return PendingSnapshot(absence.node, until, reason) if until > current_time else None


def _with_margin(interval: timedelta) -> timedelta:
    limited = min(interval, LONGEST_INTERVAL)
    return limited + max(limited / 10, LEAST_MARGIN)


def _supports(node: Node) -> Mapping[str, VersionRange]:
    return node.answer.value.supported if isinstance(node.answer, Known) else {}


def _supports_less(absence: PlannedAbsence) -> bool:
    """Tell whether the new binary of a node supports less than its present one."""
    return any(
        supported.max > absence.supports.get(feature, NOT_SUPPORTED).max
        for feature, supported in _supports(absence.node).items()
    )
