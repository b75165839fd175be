"""Sending of the only transaction in ZooKeeper, which deletes znodes on the way back from a migration.

Called by `client.py`. The step, and what it deletes, is in `core/migration/delete_znodes.py`; here it becomes a
transaction of kazoo, in a session of its own, and its results become an `Outcome`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from kazoo.client import TransactionRequest
from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency
from msgspec import Struct

from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.delete_znodes import BAD_VERSION, EPOCH, NO_AUTH, NO_NODE, DeleteZnodes
from kafkafeatures.core.ports import Withheld
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.zookeeper.ensemble import Ensemble
from kafkafeatures.zookeeper.reader import CLUSTER_ID, cluster_znode
from kafkafeatures.zookeeper.session import Session

NOT_EMPTY = -111
"""Error code of ZooKeeper for a deletion of a znode that has children."""
_MEANS: Mapping[int, str] = {
    BAD_VERSION: "it was written meanwhile",
    NO_NODE: "it was deleted meanwhile",
    NOT_EMPTY: "there are znodes below it, which Kafka never creates",
}


class Operation(Struct, frozen=True):
    """An operation of the transaction.

    path: path of its znode.
    right: right that it needs, with the znode that has to grant it (for a deletion the parent), for people.
    add: adds it to the request.
    """

    path: str
    right: str
    add: Callable[[TransactionRequest], None]


def operations_of(step: DeleteZnodes, identity: int, parent: str = "/") -> tuple[Operation, ...]:
    """Operations of the transaction, in order: check the cluster, check or raise the epoch, then delete. A repeated
    transaction fails at the epoch, even if the znodes to delete have been created again.

    identity: version of `/cluster/id` as this session has read it with the id of the cluster.
    parent: path of the chroot, for messages.
    """
    epoch = step.epoch
    of_cluster = Operation(CLUSTER_ID, f"READ on {CLUSTER_ID}", lambda it: it.check(CLUSTER_ID, identity))
    if step.raise_to is None:
        of_epoch = Operation(EPOCH, f"READ on {EPOCH}", lambda it: it.check(EPOCH, epoch.version))
    else:
        value = str(step.raise_to).encode()
        of_epoch = Operation(EPOCH, f"WRITE on {EPOCH}", lambda it: it.set_data(EPOCH, value, epoch.version))

    def deletion(path: str, version: int) -> Operation:
        return Operation(path, f"DELETE on {parent}", lambda it: it.delete(path, version))

    return of_cluster, of_epoch, *(deletion(path, life.version) for path, life in step.deletes.items())


@asynccontextmanager
async def prepared(ensemble: Ensemble, step: DeleteZnodes) -> AsyncIterator[Deletion | NotSent]:
    """A session for one transaction; NotSent where no server can be reached, or the server is that of another cluster.
    That is checked again here, as another session has read the znodes, and the names of a connect string may lead to
    two ensembles.
    """
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(Session(ensemble))
        except KafkaError as error:
            yield NotSent(str(to_failure(error, f"ZooKeeper {ensemble}")))
            return
        identity = await cluster_znode(session, step.cluster_id)
        if isinstance(identity, Failure):
            yield NotSent(str(identity))
            return
        yield Deletion(session, operations_of(step, identity.version, ensemble.chroot or "/"))


class Deletion:
    """A transaction with its session. See `PreparedDeletion` of the port."""

    def __init__(self, session: Session, operations: tuple[Operation, ...]) -> None:
        self._session, self._operations = session, operations

    async def send(self, withheld: Withheld) -> Outcome:
        """Send the transaction, unless it is withheld."""
        results = await self._session.transact(self._fill, withheld)
        return results if isinstance(results, NotSent | OutcomeUnknown) else outcome(self._operations, results)

    def _fill(self, transaction: TransactionRequest) -> None:
        for operation in self._operations:
            operation.add(transaction)


def outcome(operations: tuple[Operation, ...], results: tuple[object, ...]) -> Outcome:
    """Outcome of the transaction. If it failed, the result of every operation is an error; that of the operation which
    failed by itself has the cause.
    """
    if len(results) != len(operations):
        return OutcomeUnknown(f"ZooKeeper answered {len(results)} of {len(operations)} operations")
    failed = [
        (operation, result)
        for operation, result in zip(operations, results, strict=True)
        if isinstance(result, KazooException)
    ]
    if not failed:
        return Applied()
    causes = [
        (operation, error)
        for operation, error in failed
        if not isinstance(error, RolledBackError | RuntimeInconsistency)
    ]
    operation, error = (causes or failed)[0]  # the others failed only because this one did
    code = int(getattr(error, "code", 0))
    if code == NO_AUTH:
        message = f"not authorized; grant {operation.right} to the user of the digest, or name one that has it"
    else:
        message = _MEANS.get(code, f"{type(error).__name__.removesuffix('Error')} ({code})")
    return Rejected(code, f"znode {operation.path}: {message}")
