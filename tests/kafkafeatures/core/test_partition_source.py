"""The source of partitions during a migration: the current controller, in ZooKeeper or KRaft mode, or a failure."""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.partition_source import (
    Holder,
    PartitionSource,
    partition_source,
    same_claim,
    while_claimed,
)
from kafkafeatures.core.facts.readings import (
    NOT_ASKED,
    ClusterProbe,
    Failure,
    FailureKind,
    LogReading,
    PartitionsReading,
    Role,
)
from kafkafeatures.core.facts.znodes import Read
from kraftlog.image import ZkMigrationState as S
from kraftlog.partitions import MinInsyncReplicas, Partitions
from tests.kafkafeatures.ensembles import claimed, elected
from tests.kafkafeatures.worlds import NOW, answer, asked, image, probe

NO_LOG = Failure(FailureKind.AUTHORIZATION, "metadata log", "reading it needs CLUSTER_ACTION", "grant it")
UNREADABLE = Failure(FailureKind.TIMED_OUT, "znode /controller", "no answer within 5 s")
LEADER = claimed(3003, epoch=3)
KRAFT, PLAIN = 1, 2


def log(state: int | None) -> LogReading:
    """Build a log of controller 3003, which leads at epoch 3."""
    return LogReading(image(zk_migration_state=state), 410, 3003, 3, NOW)


def nodes(*brokers: int, flagged: bool = False) -> ClusterProbe:
    """Build brokers 1, 2, ... in these modes, and a controller with or without the flag. A broker in KRaft mode offers
    DescribeQuorum (55), one in ZooKeeper mode does not.
    """
    answers = [answer(keys=(3, 18, 55) if mode == KRAFT else (3, 18)) for mode in brokers]
    controller = replace(answer(keys=(1, 18, 55)), zk_migration_ready=flagged)
    return probe(
        asked(3003, controller, Role.CONTROLLER),
        *(asked(number, node_answer, Role.BROKER) for number, node_answer in enumerate(answers, start=1)),
    )


SOURCES: dict[str, tuple[ClusterProbe, LogReading | Failure, Read[ControllerClaim], PartitionSource]] = {
    "KRaft, and ZooKeeper is not asked": (nodes(KRAFT), log(None), NOT_ASKED, PartitionSource(Holder.LOG)),
    "KRaft from the beginning": (nodes(KRAFT), log(S.NONE), NOT_ASKED, PartitionSource(Holder.LOG)),
    "finalized, and ZooKeeper is gone": (nodes(KRAFT), log(S.POST_MIGRATION), UNREADABLE, PartitionSource(Holder.LOG)),
    "finalized, the last claim is still there": (
        nodes(KRAFT), log(S.POST_MIGRATION), claimed(3001, epoch=2), PartitionSource(Holder.LOG),
    ),
    "dual write": (nodes(KRAFT, PLAIN), log(S.MIGRATION), LEADER, PartitionSource(Holder.LOG, LEADER)),
    "ZooKeeper": (nodes(PLAIN), NO_LOG, elected(), PartitionSource(Holder.ELECTED, elected())),
    "PreMigration": (
        nodes(PLAIN, flagged=True), log(S.PRE_MIGRATION), elected(), PartitionSource(Holder.ELECTED, elected()),
    ),
    "controllers of an earlier attempt": (
        nodes(PLAIN, flagged=True), log(S.MIGRATION), elected(), PartitionSource(Holder.ELECTED, elected()),
    ),
    "controllers that were started without the flag": (
        nodes(PLAIN), log(S.NONE), elected(), PartitionSource(Holder.ELECTED, elected()),
    ),
    "KRaft without its log": (nodes(KRAFT), NO_LOG, NOT_ASKED, PartitionSource(Holder.FOLLOWERS)),
    "KRaft without its log and without ZooKeeper": (
        nodes(KRAFT), NO_LOG, UNREADABLE, PartitionSource(Holder.FOLLOWERS),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_partitions_are_read_from_the_current_controller_or_from_brokers_that_follow_it(name: str) -> None:
    cluster_probe, read, claim, source = SOURCES[name]
    assert partition_source(cluster_probe, read, claim) == source


UNKNOWN: dict[str, tuple[ClusterProbe, LogReading | Failure, Read[ControllerClaim], FailureKind, str]] = {
    "PreMigration, and ZooKeeper was not asked": (
        nodes(PLAIN), log(S.PRE_MIGRATION), NOT_ASKED, FailureKind.NOT_ASKED, "ZooKeeper, which alone shows",
    ),
    "PreMigration, and it cannot be asked": (
        nodes(PLAIN), log(S.PRE_MIGRATION), UNREADABLE, FailureKind.TIMED_OUT, "no answer within 5 s",
    ),
    "no broker is elected": (
        nodes(PLAIN), log(S.PRE_MIGRATION), None, FailureKind.NO_LEADER, "no controller is elected",
    ),
    "the copy is under way": (
        nodes(PLAIN), log(S.PRE_MIGRATION), LEADER, FailureKind.STALE, "being copied from ZooKeeper",
    ),
    "dual write, and ZooKeeper was not asked": (
        nodes(KRAFT), log(S.MIGRATION), NOT_ASKED, FailureKind.NOT_ASKED, "ZooKeeper, which alone shows",
    ),
    "the leader has not claimed it yet": (
        nodes(KRAFT), log(S.MIGRATION), claimed(3001, epoch=2), FailureKind.STALE,
        "names controller 3001 at epoch 2, and 3003 leads the quorum at epoch 3",
    ),
    "the leader claimed it in an earlier term": (
        nodes(KRAFT), log(S.MIGRATION), claimed(3003, epoch=1), FailureKind.STALE, "3003 at epoch 1",
    ),
    "dual write, and the claim was deleted": (
        nodes(KRAFT), log(S.MIGRATION), None, FailureKind.NO_LEADER, "no controller is elected",
    ),
    "a broker was elected beside brokers in KRaft mode": (
        nodes(PLAIN, KRAFT), log(S.MIGRATION), elected(1), FailureKind.STALE,
        "/controller names broker 1, and broker 2 runs in KRaft mode",
    ),
    "the same without the log": (nodes(PLAIN, KRAFT), NO_LOG, elected(1), FailureKind.STALE, "runs in KRaft mode"),
    "ZooKeeper mode, and ZooKeeper was not asked": (
        nodes(PLAIN), NO_LOG, NOT_ASKED, FailureKind.NOT_ASKED, "ZooKeeper, which alone shows",
    ),
    "a migration is open, and its log cannot be read": (
        nodes(KRAFT, flagged=True), NO_LOG, LEADER, FailureKind.AUTHORIZATION, "it was not read: reading it needs",
    ),
    "the quorum is gone and its claim stands": (
        nodes(PLAIN), NO_LOG, LEADER, FailureKind.AUTHORIZATION, "it was not read",
    ),
    "a state of a later release": (nodes(KRAFT), log(9), LEADER, FailureKind.UNSUPPORTED, "a state that is not known"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_the_source_of_partitions_is_a_failure_with_its_reason_where_no_controller_is_certain(name: str) -> None:
    cluster_probe, read, claim, kind, words = UNKNOWN[name]
    source = partition_source(cluster_probe, read, claim)
    assert isinstance(source, Failure)
    assert source.kind is kind
    assert words in source.message


def test_a_missing_partition_source_is_reported_with_its_remedy() -> None:
    not_named = partition_source(nodes(PLAIN), NO_LOG, NOT_ASKED)
    assert isinstance(not_named, Failure)
    assert not_named.remedy == "name the ensemble in cluster.zookeeper of the document"
    no_right = partition_source(nodes(KRAFT, flagged=True), NO_LOG, LEADER)
    assert isinstance(no_right, Failure)
    assert no_right.remedy == "grant it"


# --- /controller, read once more after the partitions ---


def reading(claim: ControllerClaim | None) -> PartitionsReading:
    return PartitionsReading(Partitions({}, (), MinInsyncReplicas({}, {}, None)), 1, claim=claim)


BEFORE: dict[str, ControllerClaim] = {"a broker": elected(1, czxid=90), "the leader": claimed(3003, epoch=3, czxid=70)}
AFTER: dict[str, dict[str, Any]] = {
    "the broker was elected anew": {"czxid": 91},
    "another one was elected": {"node_id": 2, "czxid": 92},
    "a later term": {"kraft_epoch": 4, "czxid": 93},
}


@pytest.mark.parametrize("before", BEFORE)
def test_partitions_count_only_if_the_claim_is_the_same_afterwards(before: str) -> None:
    partitions = reading(BEFORE[before])
    assert while_claimed(partitions, BEFORE[before]) is partitions
    for changes in AFTER.values():
        moved = while_claimed(partitions, replace(BEFORE[before], **changes))
        assert isinstance(moved, Failure)
        assert moved.message == "the controller changed while they were read"
    for after in (None, UNREADABLE, NOT_ASKED):
        assert isinstance(while_claimed(partitions, after), Failure)


def test_partitions_that_were_read_without_a_claim_do_not_depend_on_a_later_claim() -> None:
    partitions = reading(None)
    for later in (None, elected(), LEADER, UNREADABLE, NOT_ASKED):
        assert while_claimed(partitions, later) is partitions


def test_partitions_that_could_not_be_read_keep_their_failure_whatever_the_claim_is_afterwards() -> None:
    for later in (None, elected(), UNREADABLE):
        assert while_claimed(NO_LOG, later) is NO_LOG


def test_a_controller_znode_that_was_created_again_is_another_claim_even_with_the_same_content() -> None:
    assert same_claim(elected(1, czxid=90), elected(1, czxid=90))
    assert not same_claim(elected(1, czxid=90), elected(1, czxid=95))
