"""Protocols by which a reconciliation reaches a Kafka cluster: raw readings, and the few requests that change it.

The real sides are `kafka/cluster.py`, `kube/workloads/` and `zookeeper/client.py`, the simulated ones are in
`kafkasim/ports.py`. A port judges nothing: `core/facts/observe.py` makes the observation of what it read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from kafkafeatures.core.facts.readings import NOT_ASKED

if TYPE_CHECKING:
    from kafkafeatures.api.status import Via
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
"""Called right before the first byte of a request leaves: why it must not; None where it may."""


class PreparedUpdate(Protocol):
    """One change, and the connection it goes over: authenticated, and nothing of the change was sent."""

    @property
    def via(self) -> Via:
        """Receiver of the request: the active controller, or a broker that passes it on."""

    async def send(self, withheld: Withheld) -> Outcome:
        """Send one UpdateFeatures for one feature, at most once, on this connection.

        NotSent also where the node says by now that the feature is not at the level that the change starts from.
        """


class KafkaPort(Protocol):
    """A cluster, to read and to change."""

    async def read(
        self,
        *,
        partitions: bool = False,
        settings: frozenset[str] = frozenset(),
        claim: Read[ControllerClaim] = NOT_ASKED,
    ) -> Readings:
        """Ask every node and follow the metadata log, both at once. What could not be read is a `Failure` in it.

        `settings`: names of settings that each node is asked for besides, which proves too who it is.
        `partitions`: every partition too, after everything else; it takes memory, and without, what was kept of them is
        given up. `claim`: `/controller` in ZooKeeper, read before, which decides what has the partitions. Those that
        rest on it say so, and count only if it is the same afterwards (`core/facts/partition_source.py`).
        """

    async def look_again(self, *, claim: Read[ControllerClaim] = NOT_ASKED) -> Readings:
        """Readings that a restart is decided on, as they are now: the quorum, the end of the metadata log, and
        partitions, last.

        Nodes are not asked again: what they said is that of the last `read`, which was with partitions.
        """

    async def named_controllers(self) -> Mapping[int, frozenset[int] | Failure]:
        """Nodes that each broker of the last reading takes for the controller: all that it named when it was asked
        several times, -1 for none. One that follows a controller of the quorum names any broker, by chance.
        """

    async def former_controllers(self, addresses: frozenset[str]) -> Mapping[str, Failure | None]:
        """Reason why no controller answers at each of these addresses (host:port) now; None where one does. All are
        tried, whatever the document names.
        """

    async def moves_since(self, offset: int, epoch: int) -> EarlierMoves | Failure:
        """The moves of levels from this position of the metadata log up to its last reading, and whether the log ever
        had that position.
        """

    async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        """One validateOnly of all the changes together; nothing is changed. Never with kraft.version.

        `directly`: asked of the active controller itself, where it is known, and of no broker.
        """

    def prepared(self, change: UpdateFeature) -> AbstractAsyncContextManager[PreparedUpdate | NotSent]:
        """Connect to where the change is to be sent, so that what takes long is over before its intent is written.

        NotSent, and why, where there is no such connection, or the node says that the level is another one.
        """


class WorkloadPort(Protocol):
    """The pods that a cluster runs in."""

    async def read(self) -> WorkloadsReading | Failure:
        """Every StatefulSet of the document with its pods, and the budgets that cover them, as they are now."""

    async def restart(self, step: RestartNode, withheld: Withheld) -> Outcome:
        """Ask once for the restart of exactly this life of a pod, by name and uid.

        Applied also where that pod is gone. Rejected with code 429: it is not allowed now, such as by a
        PodDisruptionBudget.
        """


class PreparedDeletion(Protocol):
    """One transaction, and the session that it goes over: nothing of it was sent."""

    async def send(self, withheld: Withheld) -> Outcome:
        """Send it, at most once, on the connection that is there, and never on a later one."""


class ZooKeeperPort(Protocol):
    """The ensemble that a cluster keeps its metadata in, or kept it in."""

    async def read(self) -> ZooKeeperReading | Failure:
        """Reading that a migration depends on, made in one session. What alone could not be read is a `Failure`
        in it.
        """

    async def controller(self) -> Read[ControllerClaim]:
        """`/controller` alone, as it is now."""

    async def compare(self, cluster_id: str) -> StoreComparison | Failure:
        """All that Kafka copied there with the metadata log of this cluster; a Failure where that cannot be known."""

    async def survey(self, within: float) -> Survey | Failure:
        """All znodes that Kafka copies, as it would read them: read anew, or at most `within` seconds ago."""

    def prepared(self, step: DeleteZnodes) -> AbstractAsyncContextManager[PreparedDeletion | NotSent]:
        """Begin the session that the transaction is sent in, before its intent is written. NotSent, and why, where no
        server can be asked.
        """
