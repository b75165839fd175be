"""Make one `Observation` of a cluster from what its nodes answered and what was read of its metadata log.

Pure. The input is the readings of a port (`core/ports.py`), real or simulated.

The metadata log, where it was read, is the source of registrations, finalized levels and the migration state. Answers
of live processes are kept separately. If an answer differs from the log in the same fact, this fact is Unknown (except
kraft.version, see `_finalized`). Members of the cluster and their states are determined by `core/facts/membership.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.early_rights import is_before_the_copy, with_early_remedies, with_early_remedy
from kafkafeatures.core.facts.identity import log_of_another_quorum, with_own_answers
from kafkafeatures.core.facts.membership import FENCED_UNSEEN, Membership
from kafkafeatures.core.facts.observation import Known, MetadataMode, Node, Observation, Source, SourceKind, Unknown
from kafkafeatures.core.facts.past import LastRegistration, PastLevels, Returns
from kafkafeatures.core.facts.readings import (
    NOT_ASKED,
    BrokerList,
    ClusterProbe,
    ControllerList,
    Failure,
    FailureKind,
    LogReading,
    NodeAnswer,
    PartitionsReading,
    ProbedNode,
    QuorumAnswer,
    Role,
)
from kraftlog.image import MOST_ELAPSED_MS

if TYPE_CHECKING:  # no level needs the pods: `describe` and `apply` start faster
    from kafkafeatures.core.facts.workloads import WorkloadsReading
    from kafkafeatures.core.facts.znodes import ZooKeeperReading
    from kraftlog.image import Image

T = TypeVar("T")

_ELECTION = "an election may be under way; if this lasts for more than 2 minutes, see the logs of the controllers"
_LATEST_MS = 4_102_444_800_000  # the year 2100: the latest time that a fact can have


class ClusterUnreachable(Exception):
    """No node of the cluster answered."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def observe(
    probe: ClusterProbe,
    log: LogReading | Failure,
    partitions: PartitionsReading | Failure = NOT_ASKED,
    workloads: WorkloadsReading | Failure = NOT_ASKED,
    zookeeper: ZooKeeperReading | Failure = NOT_ASKED,
) -> Observation:
    """Make an observation. Raises `ClusterUnreachable` if no log was read and no node answered.

    zookeeper: it must have been read before the nodes and the metadata log. Steps are judged by the log, which must
        never be older than what was read beside it.
    """
    if isinstance(log, Failure) and not any(isinstance(node.answer, NodeAnswer) for node in probe.nodes):
        raise ClusterUnreachable(_why_unreachable(probe, log))
    if is_before_the_copy(probe, log, zookeeper):
        log, probe = with_early_remedy(log), with_early_remedies(probe)
    reading = log if isinstance(log, LogReading) else None
    probe = with_own_answers(probe, None if reading is None else reading.image)
    cluster_id = _proven_id(probe, log)
    zookeeper = _of_the_same_cluster(zookeeper, cluster_id)
    members = Membership(probe, reading, None if isinstance(zookeeper, Failure) else zookeeper)
    mode = _mode(probe, members)
    active = _active(probe, reading)
    nodes = members.nodes()
    gaps = list(probe.bootstrap_failures)
    if isinstance(log, Failure):
        if not (isinstance(mode, Known) and mode.value is MetadataMode.ZOOKEEPER):
            gaps.append(log)
        gaps += _gaps_of_asking(probe)
        if _may_not_know_controllers(probe):
            gaps = [gap for gap in gaps if gap.kind is not FailureKind.NOT_ASKED]  # they follow from the missing right
    gaps += _contradictions(nodes)
    return Observation(
        at=probe.at,
        cluster_id=_known(cluster_id, probe),
        mode=mode,
        source=_source(probe, reading),
        nodes=nodes,
        finalized=_finalized(members, active),
        active_controller=active,
        quorum=_known(probe.quorum, probe),
        registered_controllers=members.registered_controllers(),
        registered_brokers=members.registered_brokers(),
        zk_migration_state=Unknown(log)
        if isinstance(log, Failure)
        else members.from_log(log.image.zk_migration_state or 0),
        gaps=tuple(dict.fromkeys(gaps)),
        partitions=_partitions(probe, partitions),
        workloads=Unknown(workloads)
        if isinstance(workloads, Failure)
        else Known(workloads.with_requests(), SourceKind.KUBERNETES, "", workloads.at),
        zookeeper=Unknown(zookeeper)
        if isinstance(zookeeper, Failure)
        else Known(zookeeper, SourceKind.ZOOKEEPER, zookeeper.ensemble, zookeeper.at),
        past_levels=None if reading is None else _past_levels(reading),
        last_registration=None if reading is None else _last_registration(probe, reading),
        returns=None if reading is None else _returns(reading.image, _log_time(probe, reading)),
    )


def _proven_id(probe: ClusterProbe, log: LogReading | Failure) -> str | Failure:
    """The cluster id; a Failure if the controllers may be of another cluster than the brokers. That is possible only
    where the document names addresses of both (`named_apart`). Changes go to the controllers, so their own list or log
    has to show their cluster. If no controller answers, no change can be sent, and the brokers' answer is enough.
    """
    answers = any(node.role is Role.CONTROLLER and isinstance(node.answer, NodeAnswer) for node in probe.nodes)
    if isinstance(log, LogReading) and (contradiction := log_of_another_quorum(probe, log)) is not None:
        return contradiction
    if isinstance(log, LogReading) or isinstance(probe.controllers, ControllerList):
        return probe.cluster_id
    if not probe.named_apart or not answers:
        return probe.cluster_id
    if log.kind is FailureKind.WRONG_CLUSTER:
        return log
    return Failure(
        FailureKind.NOT_ASKED,
        "bootstrapControllers",
        f"their cluster id is unknown, and their metadata log was not read ({log.message})",
        log.remedy or "remove them, so that all requests go through the brokers",
    )


def _of_the_same_cluster(
    zookeeper: ZooKeeperReading | Failure, cluster_id: str | Failure
) -> ZooKeeperReading | Failure:
    """The reading of ZooKeeper; a Failure if it may be of another cluster than the nodes."""
    if isinstance(zookeeper, Failure):
        return zookeeper
    if isinstance(cluster_id, Failure):
        return cluster_id
    from kafkafeatures.core.facts.znodes import of_another_cluster

    return of_another_cluster(zookeeper.cluster_id, zookeeper.ensemble, cluster_id) or zookeeper


def _partitions(probe: ClusterProbe, reading: PartitionsReading | Failure) -> Known[PartitionsReading] | Unknown:
    if isinstance(reading, Failure):
        return Unknown(reading)
    from_log = reading.offset >= 0
    return Known(
        reading,
        SourceKind.METADATA_LOG if from_log else SourceKind.API_REQUESTS,
        f"offset {reading.offset}" if from_log else "",
        probe.at,
    )


def _known(part: T | Failure, probe: ClusterProbe) -> Known[T] | Unknown:
    """One answer of the probe as a fact."""
    return Unknown(part) if isinstance(part, Failure) else Known(part, SourceKind.API_REQUESTS, "", probe.at)


def _source(probe: ClusterProbe, log: LogReading | None) -> Source:
    if log is None:
        return Source(SourceKind.API_REQUESTS, at=probe.at)
    image = log.image
    return Source(SourceKind.METADATA_LOG, image.offset, image.epoch, log.at, image.features_offset)


def _past_levels(log: LogReading) -> PastLevels:
    former = log.image.former_levels
    since = None if former.since_ms < 0 else _moment(former.since_ms)  # below 0: complete from the log's first record
    times = {key: _moment(ms) for key, ms in former.dropped.items()}
    return PastLevels(times, since, _moment(log.image.timestamp_ms), former.since_offset, former.moves)


def _last_registration(probe: ClusterProbe, log: LogReading) -> LastRegistration | None:
    """The last registration of any broker; None if its time is not known, records could not be read, or a broker is
    registered in ZooKeeper mode.
    """
    image, now_ms = log.image, _log_time(probe, log)
    times = [image.registered.get(broker_id, -1) for broker_id in image.brokers]
    is_migrating = any(broker.is_migrating_zk_broker for broker in image.brokers.values())
    if not times or is_migrating or image.unreadable or min(*times, image.timestamp_ms) < 0 or now_ms is None:
        return None
    offset = max(broker.epoch for broker in image.brokers.values())
    return LastRegistration(offset, _when(image, max(times), now_ms), _moment(now_ms))


def _returns(image: Image, now_ms: int | None) -> Returns | None:
    """Last return of each node; None for a log without a time. `now_ms`: from `_log_time`; without it, the time of the
    last record is taken for the present.
    """
    if image.timestamp_ms < 0:
        return None
    read_ms = image.timestamp_ms if now_ms is None else now_ms
    times = {id_: _when(image, elapsed_ms, read_ms) for id_, elapsed_ms in image.returned.items()}
    since_offset = image.former_levels.since_offset
    marks = {id_: (since_offset, elapsed_ms) for id_, elapsed_ms in image.returned.items()}
    return Returns(times, _moment(read_ms), marks)


def _log_time(probe: ClusterProbe, log: LogReading) -> int | None:
    """Present time in ms by the clock that stamps the metadata log: the clock of its leader, from its answer to
    DescribeQuorum, as the log may have got no record for hours (`metadata.max.idle.interval.ms`). None if that answer
    is missing, or of another leader.
    """
    quorum = probe.quorum
    if isinstance(quorum, Failure) or quorum.clock < 0:
        return None
    leads = (quorum.leader_id, quorum.leader_epoch) == (log.leader_id, log.leader_epoch)
    return max(quorum.clock, log.image.timestamp_ms) if leads else None


def _when(image: Image, elapsed_ms: int, now_ms: int) -> datetime:
    """Latest time at which a record of the log can have been appended.

    elapsed_ms: time that had certainly passed in the log up to that record (see `Image.elapsed_ms`); it is right even
        if a clock was set.
    now_ms: present time by the clock that stamps the log. Of the time since the last record, at most `MOST_ELAPSED_MS`
        counts, as between two batches.
    """
    since_end = min(now_ms - image.timestamp_ms, MOST_ELAPSED_MS)
    return _moment(now_ms - since_end - (image.elapsed_ms - elapsed_ms))


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(min(max(ms, 0), _LATEST_MS) / 1000, UTC)  # a record may hold any number


def _active(probe: ClusterProbe, log: LogReading | None) -> Known[int] | Unknown:
    """The active controller; Unknown if DescribeQuorum and the metadata log name different ones."""
    if isinstance(probe.quorum, QuorumAnswer):
        leader = probe.quorum.leader_id
        if log is not None and log.leader_id != leader:
            message = f"the metadata log comes from {log.leader_id}, DescribeQuorum names {leader}"
            return Unknown(Failure(FailureKind.STALE, "", message, _ELECTION))
        return Known(leader, SourceKind.API_REQUESTS, "DescribeQuorum", probe.at)
    if log is not None:
        return Known(log.leader_id, SourceKind.METADATA_LOG, "Fetch", log.at)
    return Unknown(probe.quorum)


def _mode(probe: ClusterProbe, members: Membership) -> Known[MetadataMode] | Unknown:
    """Metadata mode: by the log if it was read. Else migrating, if a broker does not offer DescribeQuorum (key 55), so
    that it is in ZooKeeper mode, and a controller answers or the leader of a KRaft quorum claims `/controller`; or if a
    node reports ZkMigrationReady. Else ZooKeeper, if no broker offers DescribeQuorum. Else KRaft.
    """
    if members.image is not None:
        return _mode_of_log(members, members.image.is_migrating)
    answers = [(node.role, node.answer) for node in probe.nodes if isinstance(node.answer, NodeAnswer)]
    brokers = [answer for role, answer in answers if role is Role.BROKER]
    without_quorum = [not answer.runs_in_kraft_mode for answer in brokers]
    if any(without_quorum) and any(role is Role.CONTROLLER for role, _ in answers):
        mode, source = MetadataMode.MIGRATING, "ApiVersions of brokers"
    elif any(answer.zk_migration_ready for _, answer in answers):
        mode, source = MetadataMode.MIGRATING, "ZkMigrationReady"
    elif any(without_quorum) and members.is_claimed:
        mode, source = MetadataMode.MIGRATING, "znode /controller"
    elif brokers and all(without_quorum):
        mode, source = MetadataMode.ZOOKEEPER, "ApiVersions of brokers"
    elif answers:
        mode, source = MetadataMode.KRAFT, "ApiVersions"
    else:
        return Unknown(Failure(FailureKind.UNREACHABLE, "", "no node answered"))
    return Known(mode, SourceKind.API_REQUESTS, source, probe.at)


def _mode_of_log(members: Membership, is_migrating: bool | None) -> Known[MetadataMode] | Unknown:
    if is_migrating is None:
        text = "the metadata log has a state of the migration from ZooKeeper that this version does not know"
        return Unknown(Failure(FailureKind.UNSUPPORTED, "", text, "use a newer version of KafkaFeatures"))
    if is_migrating:
        return members.from_log(MetadataMode.MIGRATING)
    brokers = members.brokers_in_zookeeper_mode()
    if not brokers:
        return members.from_log(MetadataMode.KRAFT)
    # A quorum whose log has no state of a migration yet, beside brokers in ZooKeeper mode: a migration is prepared.
    if not (members.image and members.image.zk_migration_state):
        return Known(MetadataMode.MIGRATING, SourceKind.API_REQUESTS, "ApiVersions of brokers", members.probe.at)
    text = f"the migration was finalized while brokers were in ZooKeeper mode: {', '.join(map(str, brokers))}"
    remedy = (
        "restart each of them in KRaft mode, or unregister it if it no longer exists; the migration cannot be rolled "
        "back"
    )
    return Unknown(Failure(FailureKind.UNSUPPORTED, "", text, remedy))


def _finalized(members: Membership, active: Known[int] | Unknown) -> Known[Mapping[str, int]] | Unknown:
    """The finalized levels: those of the log, compared with the active controller's answer; without a log, its answer.

    kraft.version has a record of its own kind (KRaftVersionRecord), and for it the answer wins: Kafka 3.9 and 4.0 may
    report another level than their quorum uses (KAFKA-18979), and users compare this tool with Kafka's.
    """
    reported = None
    for node in members.probed.get(active.value, ()) if isinstance(active, Known) else ():
        if isinstance(node.answer, NodeAnswer) and node.answer.finalized_epoch >= 0:
            reported = Known(node.answer.finalized, SourceKind.API_REQUESTS, f"{node.host}:{node.port}", node.at)
    if members.image is None:
        return reported or _finalized_by_all(members)
    levels = dict(members.image.features)
    kraft = members.image.kraft_version
    if reported is not None:
        kraft = reported.value.get(KRAFT_VERSION, 0)
        if differing := [
            f"{name} {levels.get(name, 0)} in the log, {reported.value.get(name, 0)} on the controller"
            for name in sorted((levels.keys() | reported.value.keys()) - {KRAFT_VERSION})
            if levels.get(name, 0) != reported.value.get(name, 0)
        ]:
            remedy = "a change may be under way; if this lasts for more than 2 minutes, see the log of the controller"
            return Unknown(Failure(FailureKind.STALE, reported.origin, ", ".join(differing), remedy))
    if kraft:
        levels[KRAFT_VERSION] = kraft
    return members.from_log(MappingProxyType(levels))


def _finalized_by_all(members: Membership) -> Known[Mapping[str, int]] | Unknown:
    """The finalized levels without an active controller: those of the live nodes, if all report the same."""
    answers = [node.answer for nodes in members.probed.values() for node in nodes]
    levels = [answer.finalized for answer in answers if isinstance(answer, NodeAnswer) and answer.finalized_epoch >= 0]
    if not levels:
        return Unknown(Failure(FailureKind.NO_LEADER, "", "no node reported finalized levels"))
    if any(finalized != levels[0] for finalized in levels):
        return Unknown(Failure(FailureKind.STALE, "", "the nodes disagree, and the active controller was not asked"))
    return Known(levels[0], SourceKind.API_REQUESTS, f"{len(levels)} nodes, all the same", members.probe.at)


def _gaps_of_asking(probe: ClusterProbe) -> list[Failure]:
    """Failures of API requests whose answers are needed only if the log was not read."""
    gaps = [part for part in (probe.brokers, probe.controllers, probe.quorum) if isinstance(part, Failure)]
    gaps += [_unidentified(node) for node in probe.nodes if node.id is None]
    if isinstance(probe.brokers, BrokerList) and not probe.brokers.lists_fenced:
        gaps.append(FENCED_UNSEEN)
    return gaps


def _may_not_know_controllers(probe: ClusterProbe) -> bool:
    """Tell whether no controller is known because this user may not ask the brokers for them."""
    is_refused = isinstance(probe.quorum, Failure) and probe.quorum.kind is FailureKind.AUTHORIZATION
    return is_refused and not any(node.role is Role.CONTROLLER for node in probe.nodes)


def _unidentified(node: ProbedNode) -> Failure:
    """Failure for a bootstrap controller that no list names: its id is unknown, as ApiVersions does not contain it."""
    if isinstance(node.answer, Failure):
        return node.answer
    supported = node.answer.supported.get(METADATA_VERSION)
    return Failure(
        FailureKind.NOT_ASKED,
        f"{node.host}:{node.port}",
        f"a {node.role.value.lower()} that supports metadata.version {supported}, but its node id is not known",
        "grant the access that the other lines name",
    )


def _contradictions(nodes: Iterable[Node]) -> list[Failure]:
    """Failures for nodes whose process and registration report different ranges, one for each node: they explain the
    `?` that tables of nodes show for such a range.
    """
    failures = []
    for node in nodes:
        if isinstance(node.answer, Unknown):
            continue
        supported = node.answer.value.supported
        if all(ranges.value == supported for ranges in node.registered.values()):
            continue  # the usual case, also of a thousand nodes
        ranges_of = (node.range_of(name) for name in supported)
        stale = (
            reading.failure
            for reading in ranges_of
            if isinstance(reading, Unknown) and reading.failure.kind is FailureKind.STALE
        )
        if (failure := next(stale, None)) is not None:
            failures.append(failure)
    return failures


def _why_unreachable(probe: ClusterProbe, log: Failure) -> Failure:
    """The failure that says most: the first one of requests to the bootstrap addresses, else that of the log."""
    for part in (probe.brokers, probe.controllers, probe.cluster_id):
        if isinstance(part, Failure) and part.kind is not FailureKind.NOT_ASKED:
            return part
    return log
