"""The position of a cluster between ZooKeeper and KRaft, derived from evidence of real nodes of Kafka 3.9.1."""

from __future__ import annotations

from itertools import product

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.migration.contradictions import position_of
from kafkafeatures.core.migration.positions import (
    ROWS,
    BrokerMode,
    ClaimKind,
    MigrationEvidence,
    Misplaced,
    Position,
    facts_of,
)
from kraftlog.image import ZkMigrationState as S
from tests.kafkafeatures.core.migrations import cluster
from tests.kafkafeatures.ensembles import claimed, elected

PLAIN, FLAGGED, KRAFT = BrokerMode.PLAIN, BrokerMode.FLAGGED, BrokerMode.KRAFT


def brokers(*modes: BrokerMode | None) -> dict[int, BrokerMode | None]:
    return dict(enumerate(modes, start=1))


def flags_of(*values: bool | None) -> dict[int, bool | None]:
    return dict(enumerate(values, start=3001))


ALL, NO = flags_of(True, True, True), flags_of(False, False, False)
"""All three controllers have the flag, or none."""

# By position: state in the log, kind of node in /controller, offset in /migration, modes of brokers, controllers'
# flags.
EVIDENCE = {
    "ZooKeeper": MigrationEvidence(None, ClaimKind.BROKER, -1, brokers(PLAIN, PLAIN, PLAIN)),
    "PreMigration": MigrationEvidence(S.PRE_MIGRATION, ClaimKind.BROKER, -1, brokers(PLAIN, PLAIN, PLAIN), ALL),
    "Flagging": MigrationEvidence(S.PRE_MIGRATION, ClaimKind.BROKER, -1, brokers(FLAGGED, PLAIN, PLAIN), ALL),
    "Copying": MigrationEvidence(S.PRE_MIGRATION, ClaimKind.LEADER, -1, brokers(FLAGGED, FLAGGED, FLAGGED), ALL),
    "Copied": MigrationEvidence(S.MIGRATION, ClaimKind.LEADER, 409, brokers(KRAFT, FLAGGED, FLAGGED), ALL),
    "DualWrite": MigrationEvidence(S.MIGRATION, ClaimKind.LEADER, 500, brokers(KRAFT, KRAFT, KRAFT), ALL),
    "Finalizing": MigrationEvidence(
        S.POST_MIGRATION, ClaimKind.KRAFT, 837, brokers(KRAFT, KRAFT, KRAFT), flags_of(True, False, False)
    ),
    "Finalized": MigrationEvidence(S.POST_MIGRATION, ClaimKind.KRAFT, 837, brokers(KRAFT, KRAFT, KRAFT), NO),
    "NoController": MigrationEvidence(None, ClaimKind.KRAFT, 837, brokers(FLAGGED, FLAGGED, FLAGGED)),
    "Released": MigrationEvidence(None, ClaimKind.BROKER, -1, brokers(FLAGGED, FLAGGED, FLAGGED)),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_each_position_is_derived_from_log_znodes_and_nodes_together(name: str) -> None:
    assert position_of(EVIDENCE[name]) == Position(name)


def test_every_position_has_a_row_and_evidence_from_real_nodes() -> None:
    assert {Position(name) for name in EVIDENCE} == {row.position for row in ROWS} == set(Position)


KEPT_DISKS = MigrationEvidence(S.MIGRATION, ClaimKind.BROKER, -1, brokers(FLAGGED, FLAGGED, FLAGGED), ALL)
STALE = MigrationEvidence(S.PRE_MIGRATION, ClaimKind.LEADER, 409, brokers(FLAGGED, FLAGGED, FLAGGED), ALL)
TOO_EARLY = MigrationEvidence(S.POST_MIGRATION, ClaimKind.KRAFT, 837, brokers(FLAGGED, KRAFT, KRAFT), NO)
CLASH = MigrationEvidence(S.PRE_MIGRATION, ClaimKind.BROKER, -1, brokers(PLAIN, PLAIN), {1: False, 3002: True})
CLASH_OF_A_SILENT_BROKER = MigrationEvidence(S.PRE_MIGRATION, ClaimKind.BROKER, -1, brokers(KRAFT), {1: True})
CLASH_WITHOUT_FLAG = MigrationEvidence(S.NONE, ClaimKind.BROKER, -1, brokers(PLAIN, PLAIN), {2: False})
LONE_CLAIM = MigrationEvidence(None, ClaimKind.KRAFT, -1, brokers(PLAIN, PLAIN, None))
LONE_CLAIM_BESIDE_A_QUORUM = MigrationEvidence(S.PRE_MIGRATION, ClaimKind.KRAFT, -1, brokers(PLAIN, PLAIN), ALL)
NEW_CLUSTER = MigrationEvidence(S.NONE, ClaimKind.BROKER, -1, brokers(PLAIN, PLAIN, PLAIN), ALL)


@pytest.mark.parametrize(
    ("evidence", "says", "remedy"),
    [
        (KEPT_DISKS, "still have the disks of an earlier attempt", "wipe"),
        (STALE, "delete every topic", "stop the controllers now"),
        (TOO_EARLY, "finalized while brokers were in ZooKeeper mode: 1", "cannot be rolled back"),
        (NEW_CLUSTER, "once started without it", "format"),
        (CLASH, "controllers have ids of brokers: 1", "ids that no broker has, in node.id"),
        (CLASH_OF_A_SILENT_BROKER, "controllers have ids of brokers: 1", "wipe"),
        (CLASH_WITHOUT_FLAG, "controllers have ids of brokers: 2", "format"),
        (LONE_CLAIM, "/controller names a controller of a KRaft quorum", "delete /controller"),
        (LONE_CLAIM_BESIDE_A_QUORUM, "/controller names a controller of a KRaft quorum", "bootstrapControllers"),
    ],
    ids=[
        "controllers kept their disks", "stale /migration", "finalized too early", "new cluster", "ids clash",
        "id of a silent broker", "ids clash, no flag", "claim of an unknown quorum", "claim of another quorum",
    ],
)  # fmt: skip
def test_a_state_that_kafka_does_not_leave_by_itself_is_a_contradiction_with_a_remedy(
    evidence: MigrationEvidence, says: str, remedy: str
) -> None:
    position = position_of(evidence)
    assert isinstance(position, Misplaced)
    assert says in position.message
    assert remedy in position.remedy


def test_the_position_is_no_controller_where_a_claim_and_a_copy_or_a_flag_are_left_of_a_quorum() -> None:
    assert position_of(MigrationEvidence(None, ClaimKind.KRAFT, 409, brokers(PLAIN, PLAIN))) == Position.NO_CONTROLLER
    assert position_of(MigrationEvidence(None, ClaimKind.KRAFT, -1, brokers(PLAIN, FLAGGED))) == Position.NO_CONTROLLER


def test_a_silent_broker_makes_the_phase_unknown_only_where_its_mode_could_decide_it() -> None:
    flagging = MigrationEvidence(S.PRE_MIGRATION, ClaimKind.BROKER, -1, brokers(FLAGGED, None, PLAIN), ALL)
    assert position_of(flagging) == Position.FLAGGING
    either = MigrationEvidence(S.MIGRATION, ClaimKind.LEADER, 409, brokers(KRAFT, KRAFT, None), ALL)
    derived = position_of(either)
    assert isinstance(derived, Misplaced)
    assert derived.message.endswith("these nodes do not answer: 3")
    assert derived.remedy == "bring each of them back"
    for last, position in ((KRAFT, Position.DUAL_WRITE), (FLAGGED, Position.COPIED)):
        assert position_of(replace(either, registered={3: last})) == position


@pytest.mark.parametrize(
    "flagged",
    [flags_of(True, True, None), flags_of(True, False, True), flags_of(False, False, False)],
    ids=["one is silent", "one lacks the flag", "all lack the flag"],
)
def test_controllers_without_the_flag_do_not_end_dual_write_while_the_log_says_migration(
    flagged: dict[int, bool | None],
) -> None:
    assert (
        position_of(MigrationEvidence(S.MIGRATION, ClaimKind.LEADER, 500, brokers(KRAFT, KRAFT), flagged))
        is Position.DUAL_WRITE
    )


MODES = [brokers(*modes) for size in (1, 2) for modes in product(BrokerMode, repeat=size)]
FLAGS = [flags_of(*values) for values in ((True, True), (True, False), (False, False))]


def test_any_evidence_fits_at_most_one_position() -> None:
    positions = set()
    for state, claim, offset, modes, flagged in product((*S, None), ClaimKind, (-1, 0, 7), MODES, FLAGS):
        facts = MigrationEvidence(state, claim, offset, modes, flagged)
        fitting = {row.position for row in ROWS if row.fits(facts)}
        assert len(fitting) <= 1, facts
        position = position_of(facts)
        assert isinstance(position, Misplaced) or fitting == {position}
        if isinstance(position, Misplaced):
            assert position.message
            assert position.subject
            assert position.remedy
            assert "{" not in f"{position.message}{position.subject}"
        positions |= fitting
    assert positions == set(Position)


@pytest.mark.parametrize(
    ("claim", "named"),
    [
        (claimed(3003, epoch=3), ClaimKind.LEADER),
        (claimed(3003, epoch=2), ClaimKind.KRAFT),
        (claimed(3001, epoch=3), ClaimKind.KRAFT),
        (elected(1), ClaimKind.BROKER),
        (None, ClaimKind.NONE),
    ],
    ids=["leader and epoch", "older epoch", "another controller", "a broker", "absent"],
)
def test_the_controller_znode_names_the_leader_only_if_both_id_and_epoch_match(
    claim: ControllerClaim | None, named: ClaimKind
) -> None:
    """A leader that was just elected has not claimed /controller yet; it still names the former one."""
    observation = cluster(Position.COPIED)
    assert isinstance(observation.zookeeper, Known)
    evidence = facts_of(observation, replace(observation.zookeeper.value, controller=claim))
    assert isinstance(evidence, MigrationEvidence)
    assert evidence.claim is named
