"""The transaction that deletes znodes: its operations, and the outcome by their results; tests/e2e has ZooKeeper."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionMovedError,
)
from kazoo.protocol.serialization import CheckVersion, Delete, SetData

from kafkafeatures.core.engine.steps import Applied, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.core.facts.znodes import ControllerEpoch
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes, ZnodeLife
from kafkafeatures.zookeeper.deletion import operations_of, outcome

EPOCH = ControllerEpoch(5, version=7)
PROGRESS, CLAIM = ZnodeLife(40, version=9), ZnodeLife(70, version=0)  # of /migration and /controller
WHOLE = DeleteZnodes("id", EPOCH, PROGRESS, CLAIM)
RAISED = DeleteZnodes("id", EPOCH, PROGRESS, CLAIM, raise_to=12)


@pytest.mark.parametrize(
    ("step", "first", "deleted"),
    [
        (WHOLE, CheckVersion("/kafka/controller_epoch", 7), ("/kafka/controller", "/kafka/migration")),
        (RAISED, SetData("/kafka/controller_epoch", b"12", 7), ("/kafka/controller", "/kafka/migration")),
        (DeleteZnodes("id", EPOCH, PROGRESS), CheckVersion("/kafka/controller_epoch", 7), ("/kafka/migration",)),
        (DeleteZnodes("id", EPOCH, None, CLAIM), CheckVersion("/kafka/controller_epoch", 7), ("/kafka/controller",)),
    ],
    ids=["both znodes", "both, and a higher epoch", "only the migration znode", "only the claim"],
)
def test_a_deletion_of_znodes_checks_the_versions_that_were_read(
    step: DeleteZnodes, first: object, deleted: tuple[str, ...]
) -> None:
    request = KazooClient("zk:2181/kafka").transaction()
    for operation in operations_of(step, 3):  # the version of /cluster/id
        operation.add(request)
    versions = {"/kafka/controller": 0, "/kafka/migration": 9}
    assert request.operations == [
        CheckVersion("/kafka/cluster/id", 3),
        first,
        *(Delete(path, versions[path]) for path in deleted),
    ]


ROLLED, AFTER = RolledBackError(), RuntimeInconsistency()


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ((True, True, True, True), Applied()),
        ((NoNodeError(), AFTER, AFTER, AFTER), Rejected(-101, "znode /cluster/id: it was deleted meanwhile")),
        (
            (ROLLED, BadVersionError(), AFTER, AFTER),
            Rejected(-103, "znode /controller_epoch: it was written meanwhile"),
        ),
        ((ROLLED, ROLLED, NoNodeError(), AFTER), Rejected(-101, "znode /controller: it was deleted meanwhile")),
        ((ROLLED, ROLLED, ROLLED, BadVersionError()), Rejected(-103, "znode /migration: it was written meanwhile")),
        ((SessionMovedError(), AFTER, AFTER, AFTER), Rejected(-118, "znode /cluster/id: SessionMoved (-118)")),
        ((AFTER, AFTER, AFTER, AFTER), Rejected(-2, "znode /cluster/id: RuntimeInconsistency (-2)")),
        ((True, True), OutcomeUnknown("ZooKeeper answered 2 of 4 operations")),
        ((), OutcomeUnknown("ZooKeeper answered 0 of 4 operations")),
    ],
    ids=[
        "all done", "the cluster id is gone", "the epoch was written", "the claim is gone", "the migration was written",
        "the session moved", "no operation is named", "two results", "no results",
    ],
)  # fmt: skip
def test_the_outcome_of_a_failed_transaction_names_the_operation_that_failed(
    results: tuple[object, ...], expected: Outcome
) -> None:
    assert outcome(operations_of(WHOLE, 0), results) == expected


@pytest.mark.parametrize(
    ("step", "results", "right"),
    [
        (WHOLE, (ROLLED, NoAuthError(), AFTER, AFTER), "READ on /controller_epoch"),
        (RAISED, (ROLLED, NoAuthError(), AFTER, AFTER), "WRITE on /controller_epoch"),
        (RAISED, (ROLLED, ROLLED, NoAuthError(), AFTER), "DELETE on /kafka"),
    ],
    ids=["check of the epoch", "write of the epoch", "deletion of a znode below the chroot /kafka"],
)
def test_a_deletion_without_a_right_names_the_right_to_grant(
    step: DeleteZnodes, results: tuple[object, ...], right: str
) -> None:
    rejection = outcome(operations_of(step, 0, "/kafka"), results)
    assert isinstance(rejection, Rejected)
    assert f"not authorized; grant {right} to the user of the digest" in rejection.message
