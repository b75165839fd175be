"""The partitions of a reading: from the metadata log if it has them, else by requests to brokers.

Called by `cluster.py` for readings that need partitions. `core/facts/partition_source.py` decides what they are read
from; two sources are never mixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.partition_source import Holder, partition_source
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, FailureKind, LogReading, PartitionsReading, Role
from kafkafeatures.kafka.base.memory_budget import Share
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.partitions.asked import ask_for_partitions
from kafkafeatures.kafka.partitions.elected import ask_elected
from kafkafeatures.kafka.probe.broker_defaults import BrokerDefaults
from kafkafeatures.kafka.wire.secrets import Secrets
from kraftlog import Image
from kraftlog.partitions import Partitions

if TYPE_CHECKING:
    from kafkafeatures.core.facts.claims import ControllerClaim
    from kafkafeatures.core.facts.znodes import Read

_FINAL = (FailureKind.WRONG_CLUSTER, FailureKind.TOO_LARGE)
"""Failures of the log after which brokers are not asked either: the result would be no better."""


class PartitionReader:
    """Reads the partitions of one cluster. `not_held`: the reason why the log had to be read without partitions."""

    def __init__(self, pool: Pool, share: Share) -> None:
        self._pool, self._share = pool, share
        self._defaults = BrokerDefaults(pool)
        self._cleaned: tuple[Partitions, Partitions] | None = None  # names of topics: (as read, without secrets)
        self.not_held: Failure | None = None

    async def prepare(self, probe: ClusterProbe, log: LogReading) -> None:
        """Ask brokers for `min.insync.replicas` in advance; the answers are kept until they restart."""
        if log.image.partitioned is not None:  # else they are asked with the partitions
            await self._default(probe, log)

    async def read(
        self, probe: ClusterProbe, log: LogReading | Failure, claim: Read[ControllerClaim]
    ) -> PartitionsReading | Failure:
        """The partitions of this reading. `claim`: `/controller` in ZooKeeper, read before."""
        if isinstance(log, Failure) and log.kind in _FINAL:
            return log
        source = partition_source(probe, log, claim)
        if isinstance(source, Failure):
            return source
        if source.holder is Holder.ELECTED and source.claim is not None:
            return await ask_elected(self._pool, probe, source.claim, self._defaults, self._share.keep)
        if isinstance(log, Failure):
            return await ask_for_partitions(self._pool, probe, self._defaults, self._share.keep)
        if log.image.partitioned is None:
            return self.not_held or Failure(
                FailureKind.NOT_ASKED, "partitions", "the metadata log was read without them"
            )
        highest = await self._default(probe, log)
        if isinstance(highest, Failure):
            return highest
        return PartitionsReading(log.image.partitions, highest, log.image.offset, source.claim)

    async def _default(self, probe: ClusterProbe, log: LogReading) -> int | Failure:
        """The `min.insync.replicas` of topics that set none."""
        brokers = {
            node.id: Address(node.host, node.port)
            for node in probe.nodes
            if node.role is Role.BROKER and node.id is not None
        }
        return await self._defaults.by_log(log.image, brokers)

    def without_secrets(self, image: Image, secrets: Secrets) -> Image:
        """The image without our own passwords and tokens. Names of topics are searched again only if they changed."""
        bare, partitioned = secrets.removed_from(replace(image, partitioned=None)), image.partitioned
        if partitioned is None:
            return bare
        names = replace(partitioned, chunks=())
        if self._cleaned is None or self._cleaned[0] != names:
            self._cleaned = names, secrets.removed_from(names)
        return replace(bare, partitioned=replace(self._cleaned[1], chunks=partitioned.chunks))
