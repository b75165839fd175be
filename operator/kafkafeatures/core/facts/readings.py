"""Readings of a cluster before they are judged: the answers of its nodes, its metadata log, and its partitions.

Values only. Made by the Kafka adapter (`kafka/`) or by the simulator; `core/facts/observe.py` makes an `Observation` of
them. A request without an answer is a `Failure`, never a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.settings import Setting

if TYPE_CHECKING:  # asking works without the library that reads logs, and starts faster
    from kafkafeatures.core.facts.claims import ControllerClaim
    from kraftlog.image import Image
    from kraftlog.partitions import Partitions


DESCRIBE_QUORUM = 55
"""Key of DescribeQuorum, an API that a broker offers only in KRaft mode."""
METADATA = 3
"""Key of Metadata, an API that every broker offers, and no controller."""


class Role(StrEnum):
    """Role of a node; a combined node has both."""

    BROKER = "Broker"
    CONTROLLER = "Controller"


class FailureKind(StrEnum):
    """Causes of a missing answer. The adapter's exceptions map to these in one place (`kafka/base/errors.py`)."""

    UNREACHABLE = "Unreachable"  # no connection: no route, name unknown, or silent until the deadline
    NOT_LISTENING = "NotListening"  # the host refused the connection: no process listens at the port
    TIMED_OUT = "TimedOut"  # connected, but no answer within the deadline
    TLS = "Tls"  # the handshake failed: not TLS, unknown CA, wrong host name, expired, client certificate wanted
    AUTHENTICATION = "Authentication"  # SASL rejected the credentials
    AUTHORIZATION = "Authorization"  # an ACL is missing
    NOT_KAFKA = "NotKafka"  # the answer is not Kafka's protocol
    UNSUPPORTED = "Unsupported"  # the node is too old for the request, or has another role
    NO_LEADER = "NoLeader"  # no active controller is known
    DISCONNECTED = "Disconnected"  # the connection ended before the answer
    STALE = "Stale"  # what came may be outdated, as of a leader without a quorum, or two answers differ
    REJECTED = "Rejected"  # any other error code of the node
    WRONG_CLUSTER = "WrongCluster"  # it belongs to another cluster
    ANOTHER_NODE = "AnotherNode"  # what answers at its address is a node with another id
    OTHER_ROLE = "OtherRole"  # the process with its id no longer has the role that was asked
    CREDENTIALS = "Credentials"  # a Secret, or a key of it, is missing or unusable
    FORBIDDEN = "Forbidden"  # the operator's settings forbid the address
    TOO_LARGE = "TooLarge"  # it takes more memory than one cluster may use
    NOT_ASKED = "NotAsked"  # no address to ask is known, or nothing required the answer
    WAITING_FOR_BUDGET = "WaitingForBudget"  # other clusters fill the memory for partitions

    @property
    def is_of_the_asker(self) -> bool:
        """Tell whether the failure comes from this client (its rights, credentials, TLS, or the address that it used),
        and says nothing about the cluster.
        """
        return self in _OF_THE_ASKER

    @property
    def may_pass(self) -> bool:
        """Tell whether the failure may end by itself, as after a restart or an election. Any other needs a person."""
        return self in _MAY_PASS


_MAY_PASS = (
    FailureKind.UNREACHABLE, FailureKind.NOT_LISTENING, FailureKind.TIMED_OUT, FailureKind.NO_LEADER,
    FailureKind.DISCONNECTED, FailureKind.STALE, FailureKind.WAITING_FOR_BUDGET,
)  # fmt: skip

_OF_THE_ASKER = (
    FailureKind.AUTHORIZATION, FailureKind.AUTHENTICATION, FailureKind.TLS, FailureKind.NOT_KAFKA,
    FailureKind.CREDENTIALS, FailureKind.FORBIDDEN,
)  # fmt: skip

_REMEDIES = {
    FailureKind.UNREACHABLE: "check its address, the network and the network policies",
    FailureKind.NOT_LISTENING: "start it, or correct its address",
    FailureKind.TIMED_OUT: "see its log, its load, and the network on the way to it",
    FailureKind.TLS: "check the certificates of both sides, and spec.cluster.tls",
    FailureKind.AUTHENTICATION: "check the credentials, and the SASL mechanism of the listener",
    FailureKind.AUTHORIZATION: "grant this principal the right that the message names",
    FailureKind.NOT_KAFKA: "correct the address: it must be that of a Kafka listener",
    FailureKind.UNSUPPORTED: "upgrade it, or ask a newer node",
    FailureKind.NO_LEADER: "bring the controllers back: a majority of them elects the active controller",
    FailureKind.DISCONNECTED: "see its log for the reason why it closed the connection",
    FailureKind.STALE: "bring back the controllers that the active controller does not hear from",
    FailureKind.REJECTED: "see its log of this time",
    FailureKind.WRONG_CLUSTER: "correct the addresses: they must all be those of one cluster",
    FailureKind.ANOTHER_NODE: "give each node an address of its own, and unregister the one that is gone",
    FailureKind.OTHER_ROLE: "unregister it in the role that it no longer has",
    FailureKind.CREDENTIALS: "correct the Secret that spec.cluster names",
    FailureKind.FORBIDDEN: "use another address, or change the settings of the operator that forbid it",
    FailureKind.TOO_LARGE: "give this process more memory, and raise its limit for one cluster",
    FailureKind.NOT_ASKED: "look again; if it lasts, name the nodes in bootstrapServers and bootstrapControllers",
    FailureKind.WAITING_FOR_BUDGET: "wait until other clusters were read, or give the operator more memory",
}
"""Remedies for failures that have none of their own."""

NO_CONNECTION = (FailureKind.UNREACHABLE, FailureKind.NOT_LISTENING)
NO_ANSWER = (*NO_CONNECTION, FailureKind.TIMED_OUT, FailureKind.DISCONNECTED)
"""Kinds of failures that suggest that the node does not run. A node that refuses to answer runs."""


ANY_CLUSTER = "--bootstrap-server HOST:PORT"
"""Flags of our commands for a cluster whose addresses are not known."""


class Failure(Struct, frozen=True):
    """A missing answer, in words for people: location, cause, and what to do.

    remedy: empty if the remedy of its kind is enough (`action`).
    """

    kind: FailureKind
    location: str  # host:port, or the name of the request
    message: str
    remedy: str = ""

    @property
    def subject(self) -> str:
        """The location, or "the cluster"; never empty."""
        return self.location or "the cluster"

    @property
    def action(self) -> str:
        """The remedy, or that of its kind; never empty."""
        return self.remedy or _REMEDIES[self.kind]

    def with_flags(self, flags: str) -> Failure:
        """Put these flags of the cluster into the command of the remedy."""
        return replace(self, remedy=self.remedy.replace(ANY_CLUSTER, flags))

    def __str__(self) -> str:
        text = f"{self.location}: {self.message}" if self.location else self.message
        return f"{text}; {self.remedy}" if self.remedy else text


class Host(Struct, frozen=True):
    """A node in a list that another node returned."""

    id: int
    host: str
    port: int
    is_fenced: bool = False  # DescribeCluster v2 only


class NodeAnswer(Struct, frozen=True):
    """Answer of a live process about itself (ApiVersions). A feature that `supported` lacks is not supported, unless
    the answer is not `complete`.

    zk_migration_ready: field ZkMigrationReady, which is true for a controller with the setting
        `zookeeper.metadata.migration.enable`.
    """

    supported: Mapping[str, VersionRange]
    finalized: Mapping[str, int]
    finalized_epoch: int  # -1: `finalized` is not known
    apis: Mapping[int, VersionRange]  # API key -> versions
    zk_migration_ready: bool = False
    complete: bool = True  # False: an ApiVersions below v4, features with minimum 0 may be missing

    @property
    def runs_in_kraft_mode(self) -> bool:
        """Tell whether the process runs in KRaft mode: only then it answers or forwards DescribeQuorum."""
        return DESCRIBE_QUORUM in self.apis


class ProbedNode(Struct, frozen=True):
    """A node that was asked.

    id: None for a bootstrap address that could not be matched to a node.
    role: role of the listener that was asked.
    proved_at: IP address at which the process confirmed this id; empty where it did not.
    unproved: why it did not, although it was asked.
    settings: settings that were requested and returned, by name.
    """

    id: int | None
    role: Role
    host: str
    port: int
    answer: NodeAnswer | Failure
    at: datetime
    proved_at: str = ""
    unproved: Failure | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)


class ReplicaProgress(Struct, frozen=True):
    """A voter or an observer as the leader reports it. Times in ms since 1970 by the leader's clock; -1: unknown.

    directory: id of the directory of its metadata log (KIP-853); empty where the leader does not report it.
    """

    id: int
    log_end_offset: int
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1
    directory: str = ""


MAJORITY_WITHIN_MS = 2_000
"""Age of its last fetch, in ms, up to which a voter follows the leader: `controller.quorum.fetch.timeout.ms`. A voter
fetches at least every 500 ms; one whose fetches fail for this long begins an election, if it can.
"""

_NEVER = 1 << 63  # above every time stamp


def majority_of(voters: int) -> int:
    """Size of a majority of so many voters: more than half."""
    return voters // 2 + 1


class QuorumAnswer(Struct, frozen=True):
    """Answer to DescribeQuorum, used only where it has no error code."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]

    @property
    def clock(self) -> int:
        """The leader's own time stamp, against which all others are measured (KIP-836); -1 where it has none."""
        return next((voter.last_fetch_timestamp for voter in self.voters if voter.id == self.leader_id), -1)

    @property
    def recent_since(self) -> int:
        """Time stamp from which on a fetch is recent; without a time stamp of the leader, no fetch is recent."""
        return max(0, self.clock - MAJORITY_WITHIN_MS) if self.clock >= 0 else _NEVER

    @property
    def has_majority(self) -> bool:
        """Tell whether a majority of the voters, including the leader, fetched recently. A leader that was cut off
        still answers, but the time stamps of the other voters show it.
        """
        return self.fetched_by_majority(self.recent_since)

    def fetched_by_majority(self, since: int) -> bool:
        """Tell whether a majority of the voters fetched at or after this time stamp. The leader always counts."""
        fetched = sum(voter.id == self.leader_id or voter.last_fetch_timestamp >= since for voter in self.voters)
        return fetched >= majority_of(len(self.voters))


class BrokerList(Struct, frozen=True):
    """Answer of a broker to DescribeCluster. `lists_fenced`: False up to Kafka 3.9, whose list lacks fenced brokers,
    and so ghosts too.
    """

    brokers: tuple[Host, ...]
    lists_fenced: bool


class ControllerList(Struct, frozen=True):
    """Answer of a controller to DescribeCluster (endpoint type 2). `active`: None where no controller is active."""

    controllers: tuple[Host, ...]
    active: int | None


class ClusterProbe(Struct, frozen=True):
    """Answers of the nodes, all asked at the same time."""

    at: datetime
    cluster_id: str | Failure
    brokers: BrokerList | Failure
    controllers: ControllerList | Failure
    quorum: QuorumAnswer | Failure
    nodes: tuple[ProbedNode, ...]
    bootstrap_failures: tuple[Failure, ...] = field(default=())  # for addresses without an answer, while others answer
    named_apart: bool = False  # the document has addresses of brokers and of controllers, which may be of two clusters

    @property
    def may_have_a_log(self) -> bool:
        """Tell whether the cluster may have a metadata log: a controller, or a broker in KRaft mode, answers."""
        answers = [(node.role, node.answer) for node in self.nodes if isinstance(node.answer, NodeAnswer)]
        return any(role is Role.CONTROLLER or answer.runs_in_kraft_mode for role, answer in answers)


class LogReading(Struct, frozen=True):
    """The metadata log. From a live cluster, it was read up to its high watermark while a majority of the voters
    followed the leader; `core/facts/observe_files.py` says what differs for a log in files.

    image: content of the log. at: time of the last answer.
    """

    image: Image
    high_watermark: int
    leader_id: int
    leader_epoch: int
    at: datetime


Mark = tuple[int, int]
"""Identity of a return of a node, valid in one process: first offset of the reading, and the log's elapsed time in
milliseconds at the return.
"""

Moves = tuple[tuple[int, int], ...]
"""Changes of a feature's level, in the order of the log: the offset after each change, and the new level."""


class EarlierMoves(Struct, frozen=True):
    """Changes of levels before the first offset of a reading, from an earlier offset on.

    moves: changes by feature; also empty where the log does not go back that far.
    restored: the log never had the earlier offset, such as after a restore from a backup.
    """

    moves: Mapping[str, Moves] = field(default_factory=dict)
    restored: bool = False


class PartitionsReading(Struct, frozen=True):
    """Every partition of the cluster: from the metadata log, or from complete answers.

    default_min_insync_replicas: value for topics that set none; the highest one, if brokers have different ones.
    offset: end of the log; -1 if the partitions come from answers.
    claim: `/controller` in ZooKeeper, if the partitions count only as long as it stays the same
        (`core/facts/partition_source.py`); else None.
    """

    partitions: Partitions
    default_min_insync_replicas: int
    offset: int = -1
    claim: ControllerClaim | None = None


NOT_ASKED = Failure(FailureKind.NOT_ASKED, "partitions", "nothing needed them")
"""Failure of readings that no stage required: of partitions, and as a default for other readings."""
CLIENTS_NOT_READ = Failure(
    FailureKind.NOT_ASKED, "clients", "evidence about clients is read by the operator alone",
    "use `kafkafeatures clients check` where there is no operator",
)  # fmt: skip


class Readings(NamedTuple):
    """Everything that the Kafka port read for one reconciliation."""

    probe: ClusterProbe
    log: LogReading | Failure
    partitions: PartitionsReading | Failure = NOT_ASKED
