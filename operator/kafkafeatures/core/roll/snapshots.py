"""Time from which the snapshot that a controller starts from is newer than any level which its new binary does not
support.

Pure. The last of the checks of `core/roll/checks.py`. It never says that a snapshot is there, which no request shows of
a follower: FetchSnapshot is the leader's, and DescribeQuorum knows no snapshots. It says from when on one must be
there.

What a node does (`KafkaRaftClient.updateListenersProgress`; share.version of 4.4 and metadata.version of 4.3,
downgraded before a restart with 4.1, on real nodes): it loads its own newest snapshot, and replays the metadata log
behind it. A controller ends at a level that its binary does not support, although a later record downgrades it: "Tried
to apply FeatureLevelRecord ..., but this controller only supports versions" (`FeatureControlManager.replay`). A broker
needs no wait: only the levels in the end count (`MetadataLoader` publishes once it has caught up). Up to 4.0, one that
finds an unknown metadata.version continues too, but writes no snapshot in that life ("metadata loading fault").

A controller writes a snapshot `metadata.log.max.snapshot.interval.ms` after it started, or after the one before
(`SnapshotGenerator`; seen to the second); earlier where the log grows fast, on which nothing is built here. A restart
begins that time anew. Not seen from outside, and left out: a disk that is full, and a process that lags by all of the
log that the leader keeps, which reads the leader's snapshot and begins anew as well.

What was before the operator read the log is not known. That holds back only a node whose new binary supports less than
what it runs, and for one interval.
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

DEFAULT = timedelta(hours=1)
"""Kafka's default of the interval, for a node that does not report its own, where only what is not known is waited for.
"""
LEAST_MARGIN = timedelta(seconds=30)
"""A tenth of the interval, and no less than this: for catching up, before its time begins, and for writing."""
REGISTERS_WITHIN = timedelta(minutes=1)
"""`initial.broker.registration.timeout.ms`: a broker that is not let in for so long ends."""
LONGEST = timedelta(days=365)
LOOK_AGAIN = 60.0
"""Seconds, at most: a node may be restarted meanwhile."""
RESTARTS_COUNT = timedelta(days=1)
"""After a level was given up, or an interval, where that is longer: a node that last started later is taken to have run
undisturbed for an interval before.
"""

Left = Mapping[tuple[str, int], datetime]


class PlannedAbsence(Struct, frozen=True):
    """A node, since when its process runs (None: not known), and what its new binary supports."""

    node: Node
    started_at: datetime | None
    supports: Mapping[str, VersionRange]


class PendingSnapshot(Struct, frozen=True):
    """A snapshot of a node. until: it is written by then; None: not known. replayed: what is replayed without it."""

    node: Node
    until: datetime | None
    replayed: str


def awaited(
    going: Iterable[PlannedAbsence], given_up: Left, since: datetime | None, current_time: datetime
) -> PendingSnapshot | None:
    """The snapshot that takes longest, if one has to be waited for.

    `given_up` is complete from `since` on; None: of all time. `current_time`: of the clock that the other times are of.
    """
    controllers = (controller for controller in going if Role.CONTROLLER in controller.node.roles)
    snapshots = [
        snapshot
        for controller in controllers
        if (snapshot := _of_one(controller, given_up, since, current_time)) is not None
    ]
    return max(snapshots, key=lambda one: (one.until is None, one.until or current_time), default=None)


def known_since(since: datetime, running: Iterable[PlannedAbsence]) -> datetime:
    """Earlier, where a node has been running longer whose binary supports no more than the new one: with a node that
    does not support it no level is finalized, and a node that finds one does not stay.
    """
    proofs = (
        process.started_at + REGISTERS_WITHIN
        for process in running
        if process.started_at
        and process.node.state is NodeState.LIVE
        and _supports(process.node)
        and not _goes_back(process)
    )
    return min((since, *proofs))


def snapshots_are_newer(question: RestartCheckInput) -> Refusal | None:
    """No controller starts from a snapshot behind which lies a level that its new binary does not support."""
    past, read_at = question.observation.past_levels, question.pods_read_at
    given_up_levels: Left = {}
    since: datetime | None = None
    if past is not None:
        given_up_levels, since, read_at = past.given_up_at, past.since, past.at
    pods = {id_: pod for id_, pod in question.fleet.pods.items() if not pod.terminating}
    needing = question.fleet.needing.keys() - question.stuck
    for name, supports in question.ranges_of_binaries.items():
        running = [PlannedAbsence(node, pods[id_].started_at, supports) for id_ in pods for node in question.nodes(id_)]
        going = [
            process for process in running if process.node.id in needing and pods[process.node.id].stateful_set == name
        ]
        if past is None:
            since = read_at - _known_for(question, name)
        snapshot = awaited(going, given_up_levels, since and known_since(since, running), read_at)
        if snapshot is None:
            continue
        title, replayed = snapshot.node.title, snapshot.replayed
        text = f"{title} needs a newer snapshot, or would replay what its new image cannot: {replayed}"
        if snapshot.until is None:
            remedy = f"set {SNAPSHOT_INTERVAL} on it above 0, and grant DescribeConfigs on the cluster"
            text = f"{text}; when it writes one is not known: {remedy}"
            return Stalled(Reason.ROLLOUT_HALTED, text, subject=snapshot.node.title, remedy=remedy)
        delay = min(max((snapshot.until - read_at).total_seconds(), 1.0), LOOK_AGAIN)
        return Wait(
            Reason.ROLLING_NODES,
            f"{text}; not before {_time(snapshot.until)}",
            delay=delay,
            is_dated=True,
            subject=snapshot.node.title,
            remedy=f"wait until then, or lower {SNAPSHOT_INTERVAL} on it",
        )
    return None


def _known_for(question: RestartCheckInput, stateful_set: str) -> timedelta:
    """Time for which this process has seen that its pods are rolled, and that what is finalized does not prevent it."""
    revisions = (
        question.revisions.get(target_of(owner)) for owner in question.fleet.sets.values() if owner.name == stateful_set
    )
    since = next((revision.since for revision in revisions if revision is not None), None)
    return question.remembered.known_for(since) if since is not None else timedelta()


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def interval_of(node: Node) -> timedelta | None:
    """After how long a node writes a snapshot; 0: never by time. None: it did not say."""
    setting = node.settings.get(SNAPSHOT_INTERVAL)
    try:
        return None if setting is None else timedelta(milliseconds=int(setting.value or ""))
    except (ValueError, OverflowError):
        return None


def _of_one(
    absence: PlannedAbsence, given_up: Left, since: datetime | None, current_time: datetime
) -> PendingSnapshot | None:
    interval, started = interval_of(absence.node), absence.started_at or current_time
    outside = [(at, key) for key, at in given_up.items() if key[1] not in absence.supports.get(key[0], NOT_SUPPORTED)]
    if outside:
        at, (feature, level) = max(outside)
        supported = absence.supports.get(feature, NOT_SUPPORTED)
        reason = f"{feature} {format_level(feature, level)} was finalized until {_time(at)}"
        reason += f", and its new image supports {supported}"
        restarts_count = RESTARTS_COUNT
    elif since is not None and _goes_back(absence):
        at, interval = since, interval or DEFAULT
        reason = f"levels that were finalized before {_time(at)} are not known"
        reason += ", and its new image supports less than what it runs"
        restarts_count = timedelta(0)
    else:
        return None
    if not interval:
        return PendingSnapshot(absence.node, None, reason)
    takes = _takes(interval)
    until = (started if at < started < at + max(restarts_count, takes) else at) + takes
    return PendingSnapshot(absence.node, until, reason) if until > current_time else None


def _takes(interval: timedelta) -> timedelta:
    lasts = min(interval, LONGEST)
    return lasts + max(lasts / 10, LEAST_MARGIN)


def _supports(node: Node) -> Mapping[str, VersionRange]:
    return node.answer.value.supported if isinstance(node.answer, Known) else {}


def _goes_back(absence: PlannedAbsence) -> bool:
    """Tell whether its new binary supports less than what it runs."""
    return any(
        supported.max > absence.supports.get(feature, NOT_SUPPORTED).max
        for feature, supported in _supports(absence.node).items()
    )
