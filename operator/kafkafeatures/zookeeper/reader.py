"""Reading of the znodes that a migration depends on, in one session.

The formats are those of `core/facts/znodes.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TypeVar, cast

from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import Read, RegisteredBroker, Znode, ZooKeeperReading, parsed
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.zookeeper.ensemble import Ensemble
from kafkafeatures.zookeeper.session import Session

T = TypeVar("T")

CLUSTER_ID = "/cluster/id"
SYNCED = ("/controller", "/controller_epoch", "/migration")
"""Znodes that decide the phase of a migration. They are synced before they are read, as a server may be behind the
leader of the ensemble.
"""


async def read_zookeeper(ensemble: Ensemble, clock: Callable[[], datetime]) -> ZooKeeperReading | Failure:
    """Read the znodes that a migration depends on, in one session. A Failure if no server can be reached; a znode that
    cannot be read is a Failure within the reading.
    """
    try:
        async with Session(ensemble) as session:
            return await _all(session, str(ensemble), clock())
    except KafkaError as error:
        return to_failure(error, f"ZooKeeper {ensemble}")


async def read_controller(ensemble: Ensemble) -> Read[ControllerClaim]:
    """The current `/controller`, read in a session of its own; None: it is absent."""
    try:
        async with Session(ensemble) as session:
            return await _read(session, "/controller", znodes.controller)
    except KafkaError as error:
        return to_failure(error, f"ZooKeeper {ensemble}")


async def cluster_znode(session: Session, cluster_id: str) -> Znode | Failure:
    """`/cluster/id`, read in this session; a Failure if it has another id, or cannot be read."""
    znode = await session.get(CLUSTER_ID)
    other = znodes.of_another_cluster(parsed(znode, znodes.cluster_id), session.ensemble, cluster_id)
    return other or cast("Znode", znode)


async def _all(session: Session, ensemble: str, at: datetime) -> ZooKeeperReading | Failure:
    single_znodes = asyncio.gather(
        _read(session, CLUSTER_ID, znodes.cluster_id),
        _read(session, "/controller", znodes.controller),
        _read(session, "/controller_epoch", znodes.controller_epoch),
        _read(session, "/migration", znodes.migration),
        _read(session, "/feature", znodes.feature),
    )
    lists = asyncio.gather(
        _brokers(session),
        session.children("/admin/delete_topics"),
        _read(session, "/admin/reassign_partitions", znodes.reassigns),
    )
    cluster_id, controller, epoch, migration, feature = await single_znodes
    brokers, deletions, reassigning = await lists
    if brokers is None and cluster_id is None and controller is None:
        return Failure(
            FailureKind.UNSUPPORTED,
            f"ZooKeeper {ensemble}",
            "no Kafka cluster is kept below this path",
            "give the chroot that the brokers' zookeeper.connect ends with",
        )
    return ZooKeeperReading(
        at, ensemble, cluster_id, controller, epoch, migration, feature, brokers or {}, deletions or (),
        reassigning or False,
    )  # fmt: skip


async def _read(session: Session, path: str, shape: Callable[[Znode], T]) -> Read[T]:
    """The content of a znode, decoded by `shape`; None if it is absent."""
    failure = await session.synced(path) if path in SYNCED else None
    return failure or parsed(await session.get(path), shape)


async def _brokers(session: Session) -> Mapping[int, RegisteredBroker | Failure] | Failure | None:
    """The registered brokers by id, without those that went away during the reading. None: no broker has ever
    registered.
    """
    children = await session.children("/brokers/ids")
    if children is None or isinstance(children, Failure):
        return children
    ids = znodes.broker_ids(children)
    if isinstance(ids, Failure):
        return ids
    brokers = await asyncio.gather(*(_read(session, f"/brokers/ids/{id_}", partial(znodes.broker, id_)) for id_ in ids))
    return {id_: broker for id_, broker in zip(ids, brokers, strict=True) if broker is not None}
