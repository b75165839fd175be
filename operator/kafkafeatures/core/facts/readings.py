"""Readings of a cluster, before it is judged: the answers of its nodes, and its metadata log.

Filled by the Kafka adapter (or by the simulator, in process), read by `core/facts/observe.py`, which makes the
`Observation` of it. A question that got no answer is a `Failure`, never a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.settings import Setting

if TYPE_CHECKING:  # asking works without the library that reads logs, and starts faster
    from kafkafeatures.core.facts.claims import ControllerClaim
    from kraftlog.image import Image
    from kraftlog.partitions import Partitions


DESCRIBE_QUORUM = 55
"""An API that a broker offers only in KRaft mode."""
METADATA = 3
"""An API that every broker offers, and no controller."""


class Role(StrEnum):
    """A combined node has both."""

    BROKER = "Broker"
    CONTROLLER = "Controller"


class FailureKind(StrEnum):
    """Causes of a missing answer. The adapter's exceptions map to these in one place (`kafka/base/errors.py`)."""

    UNREACHABLE = "Unreachable"  # no connection: no route, name unknown, or silent until the deadline
    NOT_LISTENING = "NotListening"  # the host refused the connection: no process listens at the port
    TIMED_OUT = "TimedOut"  # connected, but no answer within the deadline
    TLS = "Tls"  # the handshake failed: not TLS, unknown CA, wrong host name, expired, client certificate wanted
    AUTHENTICATION = "Authentication"  # SASL said no
    AUTHORIZATION = "Authorization"  # an ACL is missing
    NOT_KAFKA = "NotKafka"  # bytes that are no Kafka protocol
    UNSUPPORTED = "Unsupported"  # the node is too old for the question, or has another role
    NO_LEADER = "NoLeader"  # no active controller is known
    DISCONNECTED = "Disconnected"  # the connection ended before the answer
    STALE = "Stale"  # an answer came, but its high watermark does not move: a leader without a quorum
    REJECTED = "Rejected"  # any other error code of the node
    WRONG_CLUSTER = "WrongCluster"  # it belongs to another cluster
    ANOTHER_NODE = "AnotherNode"  # what answers at its address is a node with another id
    OTHER_ROLE = "OtherRole"  # the process with its id no longer has the role that was asked
    CREDENTIALS = "Credentials"  # a Secret, or a key of it, is missing or unusable
    FORBIDDEN = "Forbidden"  # the operator's settings forbid the address
    TOO_LARGE = "TooLarge"  # it takes more memory than a cluster may
    NOT_ASKED = "NotAsked"  # no address to ask is known
    WAITING_FOR_BUDGET = "WaitingForBudget"  # other clusters hold as many partitions in memory as may be

    @property
    def is_of_the_asker(self) -> bool:
        """Tell whether it says something about how was asked (rights, credentials, TLS), and nothing about the
        cluster.
        """
        return self in _OF_THE_ASKER

    @property
    def may_pass(self) -> bool:
        """Tell whether it may resolve automatically: a node that restarts, an election. Anything else requires
        action.
        """
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
"""Remedy where the one that got no answer knows nothing better."""

NO_CONNECTION = (FailureKind.UNREACHABLE, FailureKind.NOT_LISTENING)
NO_ANSWER = (*NO_CONNECTION, FailureKind.TIMED_OUT, FailureKind.DISCONNECTED)
"""Causes of a missing answer of a node that does not run. One that refuses to answer runs."""


class Failure(Struct, frozen=True):
    """One line for people: what, where, and what to do (`remedy`, may be empty)."""

    kind: FailureKind
    location: str  # host:port, or what was asked
    message: str
    remedy: str = ""

    @property
    def subject(self) -> str:
        """Address or request that got no answer."""
        return self.location or "the cluster"

    @property
    def action(self) -> str:
        """The remedy, or what its kind has for one; never empty."""
        return self.remedy or _REMEDIES[self.kind]

    def __str__(self) -> str:
        text = f"{self.location}: {self.message}" if self.location else self.message
        return f"{text}; {self.remedy}" if self.remedy else text


class Host(Struct, frozen=True):
    """A node as another node names it."""

    id: int
    host: str
    port: int
    is_fenced: bool = False  # DescribeCluster v2 only


class NodeAnswer(Struct, frozen=True):
    """Answer of a live process about itself (ApiVersions). Not in `supported`: not supported."""

    supported: Mapping[str, VersionRange]
    finalized: Mapping[str, int]
    finalized_epoch: int  # -1 unknown; for display, never compared
    apis: Mapping[int, VersionRange]  # API key -> versions
    zk_migration_ready: bool = False
    complete: bool = True  # False: an ApiVersions below v4, features with minimum 0 may be missing

    @property
    def runs_in_kraft_mode(self) -> bool:
        """Tell whether the process does: only such a one answers DescribeQuorum, or forwards it."""
        return DESCRIBE_QUORUM in self.apis


class ProbedNode(Struct, frozen=True):
    """`id` None: a bootstrap address that could not be matched to a node. `role`: of the listener that was asked.

    `proved_at`: the IP address at which the process said of itself that it has this id; empty where it was not asked.
    `settings`: by name, those that were demanded and that it gave.
    """

    id: int | None
    role: Role
    host: str
    port: int
    answer: NodeAnswer | Failure
    at: datetime
    proved_at: str = ""
    settings: Mapping[str, Setting] = field(default_factory=dict)


class ReplicaProgress(Struct, frozen=True):
    """A voter or an observer as the leader sees it. Times in ms since the epoch, -1 unknown. `directory`: the id of the
    one that holds its metadata log (KIP-853); empty where the leader does not say.
    """

    id: int
    log_end_offset: int
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1
    directory: str = ""


MAJORITY_WITHIN_MS = 2_000
"""`controller.quorum.fetch.timeout.ms`: a voter fetches every 500 ms at least; one that did not for so long begins an
election, where it can."""

_NEVER = 1 << 63  # above every time stamp


def majority_of(voters: int) -> int:
    """Number of voters that are a majority of so many: more than half."""
    return voters // 2 + 1


class QuorumAnswer(Struct, frozen=True):
    """DescribeQuorum, believed only when it came through without any error code."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]

    @property
    def clock(self) -> int:
        """The leader's own time stamp, by which all others are measured (KIP-836); -1 where it has none."""
        return next((voter.last_fetch_timestamp for voter in self.voters if voter.id == self.leader_id), -1)

    @property
    def recent_since(self) -> int:
        """The time stamp from which on a fetch counts as recent; where the leader names no time, no fetch does."""
        return max(0, self.clock - MAJORITY_WITHIN_MS) if self.clock >= 0 else _NEVER

    @property
    def has_majority(self) -> bool:
        """Tell whether a majority of the voters, the leader among them, fetched recently.

        A leader that was cut off still answers; the time stamps of the others show it then.
        """
        return self.fetched_by_majority(self.recent_since)

    def fetched_by_majority(self, since: int) -> bool:
        """Tell whether a majority of the voters fetched from this time stamp on; the leader has its own log at any
        time.
        """
        fetched = sum(voter.id == self.leader_id or voter.last_fetch_timestamp >= since for voter in self.voters)
        return fetched >= majority_of(len(self.voters))


class BrokerList(Struct, frozen=True):
    """DescribeCluster of a broker. `lists_fenced` False: fenced brokers (so ghosts too) cannot be seen this way."""

    brokers: tuple[Host, ...]
    lists_fenced: bool


class ControllerList(Struct, frozen=True):
    """DescribeCluster (endpoint type 2) of a controller. `active` None: no active controller at the moment."""

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
    bootstrap_failures: tuple[Failure, ...] = field(default=())  # addresses that gave nothing, while another did
    named_apart: bool = False  # addresses of brokers and of controllers were given: one cluster's, or of two by mistake

    @property
    def may_have_a_log(self) -> bool:
        """Tell whether a node answers that may lead to the metadata log: not where only brokers in ZooKeeper
        mode do.
        """
        answers = [(node.role, node.answer) for node in self.nodes if isinstance(node.answer, NodeAnswer)]
        return any(role is Role.CONTROLLER or answer.runs_in_kraft_mode for role, answer in answers)


class LogReading(Struct, frozen=True):
    """An image of everything committed, with evidence of a majority behind it. `at`: when the last reply came."""

    image: Image
    high_watermark: int
    leader_id: int
    leader_epoch: int
    at: datetime


Mark = tuple[int, int]
"""A return of a node, as one process reads the log: where the reading began, and how much time had passed by then."""

Moves = tuple[tuple[int, int], ...]
"""The moves of a feature in the order of the metadata log: the offset behind each, and the level since then."""


class EarlierMoves(Struct, frozen=True):
    """Moves that the metadata log shows between a position and the beginning of the reading.

    `restored`: it never had that position. `moves`: by feature; empty also where the log does not go back so far.
    """

    moves: Mapping[str, Moves] = field(default_factory=dict)
    restored: bool = False


class PartitionsReading(Struct, frozen=True):
    """Every partition of the cluster: of the metadata log, or asked for and known to be complete.

    default_min_insync_replicas: the highest that a broker applies to a topic which sets none. offset: of the log that
    they are of; -1 where they were asked for. claim: `/controller` of ZooKeeper, where they count only if it is still
    the same (`core/facts/partition_source.py`).
    """

    partitions: Partitions
    default_min_insync_replicas: int
    offset: int = -1
    claim: ControllerClaim | None = None


NOT_ASKED = Failure(FailureKind.NOT_ASKED, "partitions", "nothing needed them")


class Readings(NamedTuple):
    """Readings of a cluster, made in one go. `log`: why, where the metadata log could not be read."""

    probe: ClusterProbe
    log: LogReading | Failure
    partitions: PartitionsReading | Failure = NOT_ASKED
