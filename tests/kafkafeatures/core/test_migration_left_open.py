"""A migration that no document asks for any more, and how a cluster is where one has ended."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Wait
from kafkafeatures.core.facts.observation import MetadataMode, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.migration.positions import Position
from tests.kafkafeatures.core.migrations import Look, cluster, looks, said, status_after, wanting, without_quorum
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.worlds import NOW, known

P, D = Position, Desired


NONE_WANTED = replace(wanting(D.DUAL_WRITE), migration=None)


@pytest.mark.parametrize("levels", [{}, {"metadata.version": 21}])
@pytest.mark.parametrize("position", [P.PRE_MIGRATION, P.COPIED, P.DUAL_WRITE])
def test_a_migration_that_is_no_longer_asked_for_is_open_and_the_cluster_not_in_sync(
    position: Position, levels: dict[str, int]
) -> None:
    """That holds where nothing else is to be done, and where a document never asked for one."""
    found = looks(replace(NONE_WANTED, levels=levels), cluster(position))
    assert isinstance(found.decision, Wait)
    assert found.decision.reason is Reason.MIGRATING
    assert "a migration from ZooKeeper is in progress, and spec.migration is not set" in said(found)
    assert "set spec.migration.desired to the phase" in said(found)
    assert found.proposal.plan.stages == ()
    ready = next(one for one in status_after(found).conditions if one.type == "Ready")
    assert (ready.status, ready.reason) == ("False", "Migrating")


def test_a_way_back_that_is_no_longer_asked_for_is_remembered_where_the_cluster_does_not_show_it() -> None:
    """With its quorum stopped a cluster looks like one in ZooKeeper mode, and has no controller."""
    seen = without_quorum(replace(cluster(P.COPIED), mode=known(MetadataMode.ZOOKEEPER)))
    before = status_after(Look(wanting(D.ROLLED_BACK), seen))
    assert before.migration is not None
    assert before.migration.phase == "RollingBack"
    for _ in range(2):
        found = Look(NONE_WANTED, seen, status=before)
        assert isinstance(found.decision, Wait)
        assert "last seen at RollingBack, and spec.migration is not set" in said(found)
        before = status_after(found, before)
        assert before.migration is not None
        assert (before.migration.phase, before.migration.since) == ("RollingBack", None)
    again = status_after(Look(wanting(D.ROLLED_BACK), seen, status=before), before)
    assert again.migration is not None
    assert again.migration.since == stamp(NOW)  # what happened meanwhile was not watched


def test_what_is_over_needs_no_document_that_asks_for_it() -> None:
    seen = cluster(P.FINALIZED)
    before = status_after(Look(wanting(D.FINALIZED), seen))
    found = Look(NONE_WANTED, seen, status=before)
    assert not any(stage.kind == "Migration" for stage in found.stages)
    assert isinstance(found.decision, Done)
    assert status_after(found, before).migration is None


def test_a_cluster_that_was_finalized_without_some_brokers_is_not_in_sync() -> None:
    why = Failure(FailureKind.UNSUPPORTED, "", "finalized while brokers were in ZooKeeper mode: 2", "restart it")
    found = Look(NONE_WANTED, replace(cluster(P.FINALIZED), mode=Unknown(why)))
    assert isinstance(found.decision, Wait)
    assert "finalized while brokers were in ZooKeeper mode: 2; restart it" in said(found)


def test_at_its_goal_it_is_said_that_the_migration_is_there() -> None:
    found = looks(wanting(D.DUAL_WRITE), cluster(P.DUAL_WRITE)).decision
    assert found == Done(Reason.IN_SYNC, "the migration is at DualWrite")


def test_while_brokers_elect_a_controller_nothing_contradicts() -> None:
    """Right after the transaction of a way back."""
    released = without_quorum(cluster(P.COPIED, offset=-1))
    found = replace(released, zookeeper=known(znodes(controller=None, migration=None), SourceKind.ZOOKEEPER))
    decision = Look(wanting(D.ROLLED_BACK), found).decision
    assert isinstance(decision, Wait)
    assert decision.message == "the phase is not known yet: no broker is controller: /controller is absent"
    assert [one.remedy for one in decision.blockers] == ["wait a minute, and look again"]
