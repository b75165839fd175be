"""A plan of a migration covers the migration alone: levels in the document do not change it."""

from __future__ import annotations

from kafkafeatures.api.spec import Desired
from kafkafeatures.api.values import replace
from kafkafeatures.core.migration.positions import Position
from tests.kafkafeatures.core.migrations import Look, cluster, wanting, without_quorum

P, D = Position, Desired


def kinds(look: Look) -> list[str]:
    return [stage.kind for stage in look.proposal.plan.stages]


def test_a_plan_that_was_approved_stands_where_no_controller_runs() -> None:
    """Without a controller the levels cannot be read. If the plan changed, the rollback would wait for a new approval
    in a cluster without a controller.
    """
    wanted = replace(wanting(D.ROLLED_BACK), levels={"metadata.version": 20})
    copied = Look(wanted, cluster(P.COPIED))
    stopped = Look(wanted, without_quorum(cluster(P.COPIED)))
    assert kinds(copied) == kinds(stopped) == ["Migration"]
    assert stopped.proposal.plan.hash == copied.proposal.plan.hash


def test_levels_are_planned_once_the_migration_has_reached_its_target() -> None:
    wanted = replace(wanting(D.DUAL_WRITE), levels={"metadata.version": 20})
    assert kinds(Look(wanted, cluster(P.COPIED))) == ["Migration"]
    assert kinds(Look(wanted, cluster(P.DUAL_WRITE))) == ["Levels"]
