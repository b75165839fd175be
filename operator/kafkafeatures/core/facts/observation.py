"""One observation of the cluster: every fact is Known, with its source and time, or Unknown, with its failure.

Pure. Made by `core/facts/observe.py` from the answers of the nodes and the metadata log; decisions and reports read it.
A fact that is Unknown never gets a default value here; properties such as `known_levels` say what they give instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct, field

from kafkafeatures.core.facts.levels import VersionRange, common
from kafkafeatures.core.facts.managed import ManagedLevel
from kafkafeatures.core.facts.past import LastRegistration, PastLevels, Returns
from kafkafeatures.core.facts.readings import (
    ANY_CLUSTER,
    CLIENTS_NOT_READ,
    NOT_ASKED,
    Failure,
    FailureKind,
    NodeAnswer,
    PartitionsReading,
    QuorumAnswer,
    Role,
)
from kafkafeatures.core.facts.settings import Setting
from kraftlog.image import ZkMigrationState

if TYPE_CHECKING:  # no level needs the pods: `describe` and `apply` start faster
    from kafkafeatures.core.clients.reading import ClientsReading
    from kafkafeatures.core.facts.workloads import InferredRelease, WorkloadsReading
    from kafkafeatures.core.facts.znodes import StoreComparison, ZooKeeperReading

T = TypeVar("T")

NOT_SUPPORTED = VersionRange(0, 0)  # of a node that does not list the feature: level 0 only


class SourceKind(StrEnum):
    """Source of a fact."""

    METADATA_LOG = "MetadataLog"
    API_REQUESTS = "ApiRequests"
    KUBERNETES = "Kubernetes"
    ZOOKEEPER = "ZooKeeper"
    PROMETHEUS = "Prometheus"
    CONFIG_MAP = "ConfigMap"


class Known(Struct, Generic[T], frozen=True):
    """A fact that was read. `origin`: the node or the log offset. `at`: when it was read."""

    value: T
    source: SourceKind
    origin: str
    at: datetime


class Unknown(Struct, frozen=True):
    """A fact that could not be read, with the failure."""

    failure: Failure


class MetadataMode(StrEnum):
    """System in which the cluster keeps its metadata."""

    ZOOKEEPER = "ZooKeeper"
    MIGRATING = "Migrating"
    KRAFT = "KRaft"


class NodeState(StrEnum):
    """State of a node in the cluster; `core/facts/membership.py` has the table."""

    LIVE = "Live"  # answers, and a broker is not fenced
    FENCED = "Fenced"  # fenced by the controller, but something shows that it runs
    UNREACHABLE = "Unreachable"  # the cluster counts on it, but it does not answer us
    GHOST = "Ghost"  # registered, and nothing shows that it runs: stopped or removed
    REFUSED = "Refused"  # keeps trying to join; the controller does not register it


REPLACED = (FailureKind.ANOTHER_NODE, FailureKind.OTHER_ROLE)
"""Kinds of failures of a registration whose process is gone, where something else runs in its place."""
NodeKey = tuple[int, tuple[Role, ...]]
"""Id and roles of a node, as in `Node.key`."""


PODS_UNKNOWN = "what the pods run is not known"
"""Clause about `Observation.workloads` that are unknown: they could not be read, or do not show it."""


def plain_host(host: str) -> str:
    """A host name for comparison: without the cluster domain after `.svc`, which Kubernetes objects do not show."""
    host = host.rstrip(".").lower()
    head, service, _ = host.partition(".svc.")
    return f"{head}.svc" if service else host


class Node(Struct, frozen=True):
    """A broker, a controller or both; without roles, an unknown process that fetches the metadata log. registered:
    supported ranges by its registrations in the metadata log, by role and feature; empty if the log was not read or has
    none. broker_epoch: if it is registered in ZooKeeper alone, the czxid, which is compared with no other epoch.
    """

    id: int
    roles: tuple[Role, ...]
    state: NodeState
    host: str
    port: int  # -1: no address is known
    answer: Known[NodeAnswer] | Unknown
    registered: Mapping[Role, Known[Mapping[str, VersionRange]]] = field(default_factory=dict)
    is_voter: bool = False
    migrating_from_zookeeper: bool = False
    registered_flag: bool | None = None  # zookeeper.metadata.migration.enable in its last registration as a controller
    broker_epoch: int = -1  # -1: not registered as a broker, or not known
    czxid: int = -1  # of its znode in `/brokers/ids`, in ZooKeeper mode; -1: none, or not read
    incarnation: str = ""  # of the process that registered last; empty where it is not known
    listeners: tuple[tuple[str, int], ...] = ()  # (host, port) of all registered listeners
    controller_listeners: tuple[tuple[str, int], ...] = ()  # those of its registration as a controller
    listener_names: frozenset[str] = frozenset()
    proved_at: str = ""  # IP address at which a process proved to be this node; empty: none did
    unproved: Failure | None = None  # why no process did, although it answers and was asked
    settings: Mapping[str, Setting] = field(default_factory=dict)  # by name, those that a stage requires
    log_dirs: frozenset[str] = frozenset()  # ids of its log directories, by its registration; empty: not known
    metadata_dir: str = ""  # id of the directory that its process fetches the metadata log into; empty: not known
    inferred: InferredRelease | None = None  # by its pod, of a controller that does not answer; no proof of any level

    @property
    def key(self) -> NodeKey:
        """Id and roles. The id alone is not unique: a ghost in another role may have the same."""
        return self.id, self.roles

    @property
    def replaced_by(self) -> Failure | None:
        """Failure that names what runs in its place: another node at its address, or its process in another role; else
        None.
        """
        failure = self.answer.failure if isinstance(self.answer, Unknown) else None
        return failure if failure is not None and failure.kind in REPLACED else None

    @property
    def identity_failure(self) -> Failure | None:
        """Failure due to which no process proved to be this node; None: one did, or the cause is not known."""
        if self.proved_at:
            return None
        return self.answer.failure if isinstance(self.answer, Unknown) else self.unproved

    @property
    def title(self) -> str:
        """Name of the node in messages: "broker 4", "controller 3001", "node 1" for a combined or an unknown one."""
        return f"{self.roles[0].value.lower() if len(self.roles) == 1 else 'node'} {self.id}"

    @property
    def runs_in_kraft_mode(self) -> bool | None:
        """Tell whether its process runs in KRaft mode; None where it does not answer."""
        return self.answer.value.runs_in_kraft_mode if isinstance(self.answer, Known) else None

    def range_of(self, feature: str) -> Known[VersionRange] | Unknown:
        """The supported range by the process itself, else by its registration, else Unknown. Unknown also if the two
        differ, as one of them is of an earlier process: a later reading shows which. `NOT_SUPPORTED` for a feature that
        the node lacks.
        """
        reported, recorded = self._reported(feature), self._recorded(feature)
        if reported is not None and recorded is not None and recorded != reported:
            return Unknown(
                Failure(
                    FailureKind.STALE,
                    f"{self.host}:{self.port}",
                    f"{self.title} reports {feature} {reported}, its registration has {recorded}",
                    self._remedy_of_difference(),
                )
            )
        if reported is not None and isinstance(self.answer, Known):
            return Known(reported, self.answer.source, self.answer.origin, self.answer.at)
        if recorded is not None:
            registered = next(iter(self.registered.values()))
            return Known(recorded, registered.source, registered.origin, registered.at)
        return Unknown(self._failure_of_range(feature))

    def _remedy_of_difference(self) -> str:
        """Remedy where process and registration differ. That is normal for a moment, until a new process registers."""
        remedy = f"it may be restarting; if this lasts for more than 2 minutes, see the log of {self.title}"
        if len(self.roles) < 2 or self.state is not NodeState.FENCED:
            return f"{remedy}, and restart it"
        return (
            f"{remedy}; if it is no longer a broker (process.roles), so that only its former registration is fenced: "
            f"kafkafeatures unregister --broker {self.id} {ANY_CLUSTER}"
        )

    def known_range_of(self, feature: str) -> VersionRange | None:
        """The supported range of a feature; None where `range_of` is Unknown."""
        reported, recorded = self._reported(feature), self._recorded(feature)
        if reported is None or recorded is None:
            return recorded if reported is None else reported
        return reported if reported == recorded else None

    def surely_holds(self, feature: str, level: int) -> bool:
        """Tell whether process and registrations all report one range, which contains the level. A fast first test for
        checks of every node: if it is False, `range_of` decides.
        """
        if not isinstance(self.answer, Known):
            return False
        reported = self.answer.value.supported.get(feature)
        if reported is None or not reported.min <= level <= reported.max:
            return False
        for fact in self.registered.values():  # noqa: SIM110 - a generator takes twice the time for a thousand nodes
            if fact.value.get(feature) != reported:
                return False
        return True

    def _reported(self, feature: str) -> VersionRange | None:
        """The range that the process reports; None where it does not answer, or its answer may lack the feature."""
        if isinstance(self.answer, Unknown) or self._reports_no_features:
            return None
        answer = self.answer.value
        # ApiVersions below v4 leaves out features with minimum 0 (KAFKA-17492).
        return answer.supported.get(feature, NOT_SUPPORTED if answer.complete else None)

    @property
    def _reports_no_features(self) -> bool:
        """Tell whether the process reports no features, as it runs in ZooKeeper mode, whatever its binary supports."""
        return self.runs_in_kraft_mode is False and isinstance(self.answer, Known) and not self.answer.value.supported

    def _recorded(self, feature: str) -> VersionRange | None:
        """The registered range. A combined node has two registrations: their common range, which the controller
        checks.
        """
        if not self.registered:
            return None
        ranges = [fact.value.get(feature, NOT_SUPPORTED) for fact in self.registered.values()]
        return ranges[0] if len(ranges) == 1 else common(ranges)

    def _failure_of_range(self, feature: str) -> Failure:
        if isinstance(self.answer, Unknown):
            return self.answer.failure
        if self._reports_no_features:
            text = f"{self.title} runs in ZooKeeper mode, in which a node does not tell which features it supports"
            return Failure(FailureKind.UNSUPPORTED, self.answer.origin, text)
        return Failure(
            FailureKind.UNSUPPORTED,
            self.answer.origin,
            f"{self.title} supports only old versions of ApiVersions and may hide {feature}",
        )


class Source(Struct, frozen=True):
    """Main source of an observation. offset, epoch: end of the metadata log; -1 for API requests. features_offset: no
    level was changed at or after this offset; -1: not known. files: path of a log that was read from disk, without
    asking any node; empty for a live cluster.
    """

    kind: SourceKind
    offset: int = -1
    epoch: int = -1
    at: datetime | None = None
    features_offset: int = -1
    files: str = ""


class Observation(Struct, frozen=True):
    """All facts of one reading of a cluster. A field with `NOT_ASKED` was not needed by any stage. gaps: failures of
    what could not be read. named_controllers: ids that each broker names as the controller, by the broker's id.
    former_controllers: by address, the failure that shows that no controller answers there; None: one still answers.
    managed: levels that another operator sets.
    """

    at: datetime
    cluster_id: Known[str] | Unknown
    mode: Known[MetadataMode] | Unknown
    source: Source
    nodes: tuple[Node, ...]  # controllers, then brokers, by id
    finalized: Known[Mapping[str, int]] | Unknown  # absent = level 0
    active_controller: Known[int] | Unknown
    quorum: Known[QuorumAnswer] | Unknown
    registered_controllers: Known[frozenset[int]] | Unknown
    registered_brokers: Known[frozenset[int]] | Unknown  # fenced ones too
    zk_migration_state: Known[int] | Unknown
    gaps: tuple[Failure, ...] = ()
    partitions: Known[PartitionsReading] | Unknown = Unknown(NOT_ASKED)
    workloads: Known[WorkloadsReading] | Unknown = Unknown(NOT_ASKED)
    zookeeper: Known[ZooKeeperReading] | Unknown = Unknown(NOT_ASKED)
    compared: Known[StoreComparison] | Unknown = Unknown(NOT_ASKED)  # ZooKeeper with the metadata log
    surveyed: Known[object] | Unknown = Unknown(NOT_ASKED)  # znodes, as `core/migration/copied/survey.py` has them
    clients: Known[ClientsReading] | Unknown = Unknown(CLIENTS_NOT_READ)  # API versions that clients use
    past_levels: PastLevels | None = None  # None: no metadata log was read
    last_registration: LastRegistration | None = None  # None: not known, or a broker is not in KRaft mode
    returns: Returns | None = None  # None: no metadata log was read
    named_controllers: Mapping[int, frozenset[int] | Failure] = field(default_factory=dict)
    former_controllers: Mapping[str, Failure | None] = field(default_factory=dict)
    managed: tuple[ManagedLevel, ...] = ()

    def level_of(self, feature: str) -> int | None:
        """The finalized level, 0 for none; None where the levels could not be read."""
        return self.finalized.value.get(feature, 0) if isinstance(self.finalized, Known) else None

    @property
    def known_levels(self) -> Mapping[str, int]:
        """The finalized levels; empty where they could not be read."""
        return self.finalized.value if isinstance(self.finalized, Known) else {}

    def node(self, id_: int) -> Node | None:
        """The node with this id; a ghost only where no other node has it."""
        matches = [node for node in self.nodes if node.id == id_]
        return next((node for node in matches if node.state is not NodeState.GHOST), matches[0] if matches else None)

    @property
    def in_zookeeper_mode(self) -> bool:
        """Tell whether the cluster certainly keeps its metadata in ZooKeeper."""
        return isinstance(self.mode, Known) and self.mode.value is MetadataMode.ZOOKEEPER

    @property
    def in_kraft_mode(self) -> bool:
        """Tell whether the cluster certainly keeps its metadata in KRaft alone: no migration is open."""
        return isinstance(self.mode, Known) and self.mode.value is MetadataMode.KRAFT

    @property
    def is_migrating(self) -> bool:
        """Tell whether a migration from ZooKeeper is certainly open."""
        return isinstance(self.mode, Known) and self.mode.value is MetadataMode.MIGRATING

    @property
    def has_left_zookeeper(self) -> bool:
        """Tell whether the metadata log shows that a migration is finalized, so that ZooKeeper is no longer needed."""
        state = self.zk_migration_state
        return isinstance(state, Known) and state.value == ZkMigrationState.POST_MIGRATION

    @property
    def no_quorum(self) -> Failure | None:
        """Failure if no active controller that a majority follows is known; else None."""
        if isinstance(self.active_controller, Unknown):
            return self.active_controller.failure
        if self.source.kind is SourceKind.METADATA_LOG:
            return None  # a log is read only with evidence of a majority
        if isinstance(self.quorum, Unknown):
            return self.quorum.failure
        if self.quorum.value.has_majority:
            return None
        leader = self.active_controller.value
        message = f"controller {leader} claims to be the leader, but is not followed by a majority of voters"
        return Failure(FailureKind.STALE, "DescribeQuorum", message)

    @property
    def nothing_is_led(self) -> bool:
        """Tell whether the metadata log shows every broker as fenced, so that no partition has a leader. False for
        combined nodes, whose state does not show it, and while a migration is open, when the log may lack brokers.
        """
        if not self.in_kraft_mode:
            return False
        fenced = (NodeState.FENCED, NodeState.GHOST, NodeState.REFUSED)
        from_log = self.source.kind is SourceKind.METADATA_LOG and isinstance(self.finalized, Known)
        brokers = (node for node in self.nodes if Role.BROKER in node.roles)
        return from_log and all(node.state in fenced and Role.CONTROLLER not in node.roles for node in brokers)

    @property
    def shows_levels(self) -> bool:
        """Tell whether the finalized levels are certain: a broker that is cut off from the quorum reports old ones."""
        return isinstance(self.finalized, Known) and (self.in_zookeeper_mode or self.no_quorum is None)

    def feature_names(self) -> tuple[str, ...]:
        """Every feature that is finalized or that some node supports; metadata.version first."""
        names = set(self.finalized.value) if isinstance(self.finalized, Known) else set()
        for node in self.nodes:
            if isinstance(node.answer, Known):
                names.update(node.answer.value.supported)
            for ranges in node.registered.values():
                names.update(ranges.value)
        return tuple(sorted(names, key=lambda name: (name != "metadata.version", name)))


def supported_by_all(observation: Observation, names: Iterable[str]) -> dict[str, VersionRange | None]:
    """Range that all nodes with a known range support (`common`), by feature; None where no range is known."""
    nodes = [node for node in observation.nodes if node.state is not NodeState.REFUSED]
    return {
        name: common([levels for node in nodes if (levels := node.known_range_of(name)) is not None]) for name in names
    }
