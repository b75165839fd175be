"""A migration that no document asks for any more, and the cluster after a migration has ended."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import MigrationStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Done, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Mode
from kafkafeatures.core.facts.observation import MetadataMode, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.migration.not_desired import kept_of
from kafkafeatures.core.migration.positions import Position
from tests.kafkafeatures.core.migrations import (
    SEEN_VOTERS,
    Look,
    cluster,
    compared,
    looks,
    message_of,
    released,
    status_after,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.worlds import NOW, SILENT, known

P, D = Position, Desired


NONE_WANTED = replace(wanting(D.DUAL_WRITE), migration=None)


@pytest.mark.parametrize("levels", [{}, {"metadata.version": 21}], ids=["no level wanted", "finalized level wanted"])
@pytest.mark.parametrize("position", [P.PRE_MIGRATION, P.COPIED, P.DUAL_WRITE])
def test_a_cluster_with_an_open_migration_that_the_document_no_longer_asks_for_is_not_in_sync(
    position: Position, levels: dict[str, int]
) -> None:
    """Nothing else is to be done: the level in the document is the finalized one."""
    look = looks(replace(NONE_WANTED, levels=levels), cluster(position))
    assert isinstance(look.decision, Wait)
    assert look.decision.reason is Reason.MIGRATING
    assert "a migration from ZooKeeper is in progress, and spec.migration is not set" in message_of(look)
    assert "set spec.migration.desired to the phase" in message_of(look)
    assert look.proposal.plan.stages == ()
    ready = next(condition for condition in status_after(look).conditions if condition.type == "Ready")
    assert (ready.status, ready.reason) == ("False", "Migrating")


def test_the_status_remembers_a_rollback_that_the_document_no_longer_asks_for_and_the_cluster_does_not_show() -> None:
    """With its quorum stopped a cluster looks like one in ZooKeeper mode, and has no controller."""
    observation = without_quorum(replace(cluster(P.COPIED), mode=known(MetadataMode.ZOOKEEPER)))
    before = status_after(Look(wanting(D.ROLLED_BACK), observation))
    assert before.migration is not None
    assert before.migration.phase == "RollingBack"
    for _ in range(2):
        look = Look(NONE_WANTED, observation, status=before)
        assert isinstance(look.decision, Wait)
        assert "last seen at RollingBack, and spec.migration is not set" in message_of(look)
        before = status_after(look, before)
        assert before.migration is not None
        assert (before.migration.phase, before.migration.since) == ("RollingBack", None)
    resumed = status_after(Look(wanting(D.ROLLED_BACK), observation, status=before), before)
    assert resumed.migration is not None
    assert resumed.migration.since == stamp(NOW)  # the migration was not observed meanwhile


def test_a_finalized_migration_leaves_the_status_once_no_document_wants_it() -> None:
    observation = cluster(P.FINALIZED)
    before = status_after(Look(wanting(D.FINALIZED), observation))
    look = Look(NONE_WANTED, observation, status=before)
    assert not any(stage.kind == "Migration" for stage in look.stages)
    assert isinstance(look.decision, Done)
    assert status_after(look, before).migration is None


def test_a_cluster_that_was_finalized_without_some_brokers_is_not_in_sync() -> None:
    failure = Failure(FailureKind.UNSUPPORTED, "", "finalized while brokers were in ZooKeeper mode: 2", "restart it")
    look = Look(NONE_WANTED, replace(cluster(P.FINALIZED), mode=Unknown(failure)))
    assert isinstance(look.decision, Wait)
    assert "finalized while brokers were in ZooKeeper mode: 2; restart it" in message_of(look)


def test_the_message_names_the_phase_of_a_migration_at_its_target() -> None:
    decision = looks(wanting(D.DUAL_WRITE), cluster(P.DUAL_WRITE)).decision
    assert decision == Done(Reason.IN_SYNC, "the migration is at DualWrite")


def test_the_migration_waits_without_a_contradiction_while_brokers_elect_a_controller() -> None:
    """A rollback has just deleted /controller and /migration."""
    released = without_quorum(cluster(P.COPIED, offset=-1))
    observation = replace(released, zookeeper=known(znodes(controller=None, migration=None), SourceKind.ZOOKEEPER))
    decision = Look(wanting(D.ROLLED_BACK), observation).decision
    assert isinstance(decision, Wait)
    assert decision.message == "the phase is not known yet: no broker is controller: /controller is absent"
    (blocker,) = decision.blockers
    assert blocker.remedy == f"wait a minute, and look again; if it is the same then: {decision.remedy}"


# --- the last comparison of the stores, which proves that a rollback loses nothing ---


AT_NO_CONTROLLER = without_quorum(replace(cluster(P.COPIED), mode=known(MetadataMode.ZOOKEEPER)))
PROOF = compared()
UNLED = "while no controller leads, no partition gets a new leader"
"""Part of a message."""
SLIPS: dict[str, tuple[DesiredState, Observation]] = {
    "spec.migration is removed": (NONE_WANTED, AT_NO_CONTROLLER),
    "it is removed, and nothing shows a migration": (NONE_WANTED, replace(AT_NO_CONTROLLER, mode=Unknown(SILENT))),
    "another phase is asked for": (wanting(D.DUAL_WRITE), AT_NO_CONTROLLER),
    "ZooKeeper is not read": (wanting(D.ROLLED_BACK), replace(AT_NO_CONTROLLER, zookeeper=Unknown(SILENT))),
    "it is suspended": (replace(wanting(D.ROLLED_BACK), suspend=True), AT_NO_CONTROLLER),
    "it is only observed": (replace(wanting(D.ROLLED_BACK), mode=Mode.OBSERVE), AT_NO_CONTROLLER),
}
"""Reconciliations in the middle of a rollback that do not continue it: the document and the observation of each."""


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("slip", SLIPS)
def test_the_status_keeps_the_last_comparison_while_the_rollback_is_removed_suspended_or_unread(
    slip: str, times: int
) -> None:
    before = status_after(Look(wanting(D.ROLLED_BACK), AT_NO_CONTROLLER, status=PROOF), PROOF)
    assert before.migration is not None
    status = before
    for _ in range(times):
        status = status_after(Look(*SLIPS[slip], status=status), status)
    assert status.migration is not None
    assert status.migration.equality == before.migration.equality
    assert status.migration.voters == before.migration.voters
    first = Look(wanting(D.ROLLED_BACK), AT_NO_CONTROLLER, status=status)
    assert released(Look(wanting(D.ROLLED_BACK), AT_NO_CONTROLLER, status=status, before=first, seconds=5.0)).deletes


def test_an_observation_without_a_quorum_keeps_the_proof_of_equality_and_the_voters() -> None:
    """No stage of a migration runs then, which would report them."""
    before = status_after(Look(wanting(D.ROLLED_BACK), AT_NO_CONTROLLER, status=PROOF), PROOF)
    remembered = kept_of(before.migration, AT_NO_CONTROLLER)
    assert before.migration is not None
    assert remembered is not None
    assert (remembered.equality, remembered.voters) == (before.migration.equality, before.migration.voters)
    assert kept_of(before.migration, cluster(P.FINALIZED)) is None


def test_a_process_keeps_the_last_comparison_through_a_reconciliation_without_spec_migration() -> None:
    """The comparison is only in the memory of the process: the status could not be written."""
    first = Look(wanting(D.ROLLED_BACK), cluster(P.COPIED))
    slip = Look(
        NONE_WANTED, AT_NO_CONTROLLER, status=Status(migration=MigrationStatus(phase="RollingBack")), before=first
    )
    resumed = Look(wanting(D.ROLLED_BACK), AT_NO_CONTROLLER, status=SEEN_VOTERS, before=slip)
    assert released(Look(resumed.wanted, resumed.observation, status=SEEN_VOTERS, before=resumed, seconds=5.0)).deletes


@pytest.mark.parametrize("slip", SLIPS)
def test_the_message_of_a_held_rollback_without_controllers_says_that_no_partition_gets_a_leader(slip: str) -> None:
    status = status_after(Look(wanting(D.ROLLED_BACK), AT_NO_CONTROLLER, status=PROOF), PROOF)
    look = Look(*SLIPS[slip], status=status)
    assert UNLED in look.decision.message
    wanted, _ = SLIPS[slip]
    assert UNLED not in Look(wanted, cluster(P.COPIED)).decision.message  # with controllers


@pytest.mark.parametrize("lacks", ["an approval", "proof"])
def test_a_rollback_that_waits_for_a_person_says_that_no_partition_gets_a_leader(lacks: str) -> None:
    wanted = replace(wanting(D.ROLLED_BACK), policy=ApprovalPolicy.ALWAYS)
    look = Look(wanted, AT_NO_CONTROLLER, status=PROOF if lacks == "an approval" else Status())
    look = Look(wanted, AT_NO_CONTROLLER, status=look.facts.remembered, before=look, seconds=5.0)
    assert not isinstance(look.decision, Act)
    assert UNLED in look.decision.message
