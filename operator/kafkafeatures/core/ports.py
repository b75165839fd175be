"""Protocols (ports) by which a reconciliation reaches a Kafka cluster, its pods and its ZooKeeper: readings, and the
few requests that change something.

Implemented by `kafka/cluster.py`, `kube/workloads/`, `zookeeper/client.py` and `prometheus/`, and by the simulator in
`kafkasim/ports.py`. A port judges nothing: `core/facts/observe.py` makes an observation of its readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkafeatures.core.facts.readings import NOT_ASKED

if TYPE_CHECKING:
    from kafkafeatures.api.status import Via
    from kafkafeatures.core.clients.coverage import EvidenceWindow
    from kafkafeatures.core.clients.evidence import CounterKey, Scrape
    from kafkafeatures.core.engine.steps import DryRun, NotSent, Outcome
    from kafkafeatures.core.facts.claims import ControllerClaim
    from kafkafeatures.core.facts.readings import EarlierMoves, Failure, Readings
    from kafkafeatures.core.facts.workloads import WorkloadsReading
    from kafkafeatures.core.facts.znodes import Read, StoreComparison, ZooKeeperReading
    from kafkafeatures.core.levels.update_feature import UpdateFeature
    from kafkafeatures.core.migration.copied.survey import Survey
    from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
    from kafkafeatures.core.roll.restart_node import RestartNode


Withheld = Callable[[], str | None]
"""Function that is called right before the first byte of a request is sent. It returns the reason why the request must
not be sent; None where it may.
"""


class PreparedUpdate(Protocol):
    """One change with its authenticated connection; nothing of the change was sent yet."""

    @property
    def via(self) -> Via:
        """Receiver of the request: the active controller, or a broker that forwards it."""

    async def send(self, withheld: Withheld) -> Outcome:
        """Send one UpdateFeatures for one feature, at most once, on this connection. Returns NotSent where it was
        withheld, and where the node now reports another level than the one that the change starts from.
        """


class KafkaPort(Protocol):
    """A Kafka cluster, to be read and changed."""

    async def read(
        self,
        *,
        partitions: bool = False,
        settings: frozenset[str] = frozenset(),
        claim: Read[ControllerClaim] = NOT_ASKED,
    ) -> Readings:
        """Read every node and follow the metadata log, concurrently. What could not be read is a `Failure`.

        partitions: read every partition too, last. It takes memory; without it, partitions of earlier readings are
            dropped.
        settings: names of settings to be read of each node, which also proves the node's identity.
        claim: `/controller` in ZooKeeper, read before, which decides which source has the partitions. They count only
            if it is the same afterwards (`core/facts/partition_source.py`).
        """

    async def look_again(self, *, claim: Read[ControllerClaim] = NOT_ASKED) -> Readings:
        """Readings by which a restart is confirmed right before it is sent: the quorum, the end of the metadata log,
        and last the partitions.

        Nodes are not read again: their answers are those of the last `read`, which must have been with partitions.
        """

    async def named_controllers(self) -> Mapping[int, frozenset[int] | Failure]:
        """Ids of the nodes that each broker named as controller when it was asked several times, by broker; -1 for
        none. A broker that follows the KRaft quorum names brokers at random.
        """

    async def former_controllers(self, addresses: frozenset[str]) -> Mapping[str, Failure | None]:
        """Failure that shows that no controller answers, by address (host:port); None where one answers. All addresses
        are tried, whatever the document names.
        """

    async def moves_since(self, offset: int, epoch: int) -> EarlierMoves | Failure:
        """Changes of levels from this position of the metadata log to its last reading, and whether the log ever had
        this position.
        """

    async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        """Dry run (validateOnly) of all changes in one request, never with kraft.version; nothing is changed.
        `directly`: only at the active controller itself if its address is known, since a broker may forward to an
        earlier one; where no address is known, through a broker.
        """

    def prepared(self, change: UpdateFeature) -> AbstractAsyncContextManager[PreparedUpdate | NotSent]:
        """Connect to the receiver of the change, so that the slow part is over before the intent is written. NotSent,
        with the reason, where there is no connection, or the node reports another level.
        """


class WorkloadPort(Protocol):
    """The pods that a cluster runs in."""

    async def read(self) -> WorkloadsReading | Failure:
        """Every StatefulSet of the document with its pods, and the PodDisruptionBudgets for them, at this moment."""

    async def restart(self, step: RestartNode, withheld: Withheld) -> Outcome:
        """Request once the restart of exactly this pod, by name and uid. The outcome is Applied also if that pod is
        gone, and Rejected with code 429 if it is not allowed now, such as by a PodDisruptionBudget.
        """


class PreparedDeletion(Protocol):
    """One transaction with its session; nothing of it was sent yet."""

    async def send(self, withheld: Withheld) -> Outcome:
        """Send the transaction, at most once, and only on the connection that exists already."""


class ZooKeeperPort(Protocol):
    """The ensemble in which a cluster keeps or kept its metadata."""

    async def read(self) -> ZooKeeperReading | Failure:
        """Znodes on which a migration depends, read in one session. Single znodes that could not be read are a
        `Failure`.
        """

    async def controller(self) -> Read[ControllerClaim]:
        """`/controller` alone, at this moment."""

    async def compare(self, cluster_id: str) -> StoreComparison | Failure:
        """Comparison of all znodes that Kafka copies with this cluster's metadata log; Failure where it cannot
        be made.
        """

    async def survey(self, within: float) -> Survey | Failure:
        """All znodes that a migration copies, as Kafka would read them; read at most `within` seconds ago."""

    def prepared(self, step: DeleteZnodes) -> AbstractAsyncContextManager[PreparedDeletion | NotSent]:
        """Begin the session of the transaction before its intent is written. NotSent, with the reason, where no server
        answers.
        """


class EvidenceAnswer(NamedTuple):
    """Result of one reading of evidence. `peer`: IP address and port that answered; None without a connection."""

    scrapes: Sequence[Scrape] | Failure
    peer: tuple[str, int] | None = None


class EvidenceSource(Protocol):
    """A source of evidence about clients. Called in a thread; it returns within a minute or two."""

    def read(self, window: EvidenceWindow, matters: Callable[[CounterKey], bool]) -> EvidenceAnswer:
        """Scrapes of all brokers in this window. `matters`: True for counters of which it has to be known when they
        grew. The texts of a Failure are never the server's.
        """
