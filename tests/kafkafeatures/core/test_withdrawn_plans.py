"""A plan that is withdrawn while levels cannot be read: it is over with its approval, for every kind of stage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, PlannedStage, PlanStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState, Migration, Rollout
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.kinds import STAGES, without_withdrawn_plan
from tests.kafkafeatures.core.fleets import NEW, OLD, pod, stateful_set
from tests.kafkafeatures.worlds import NOW

PODS = Rollout("StatefulSet", brokers=("broker",))
BROKERS = {"broker": NEW}
LEVELS = PlannedStage(kind="Levels", start={"metadata.version": 21}, target={"metadata.version": 22})
ROLL = PlannedStage(kind="Roll", start={"broker": OLD}, target=BROKERS)
MIGRATION = PlannedStage(kind="Migration", start={"phase": "DualWrite"}, target={"phase": "Finalized"})
IBP = PlannedStage(
    kind="InterBrokerProtocol", start={"inter.broker.protocol.version": "3.8"},
    target={"inter.broker.protocol.version": "3.9"},
)  # fmt: skip
WANTED = DesiredState({"metadata.version": 22}, rollout=PODS, migration=Migration(Desired.FINALIZED), ibp="3.9")


def pods(revision: str = NEW) -> WorkloadsReading:
    """Build a StatefulSet whose pods are to have this revision."""
    return WorkloadsReading(NOW, (stateful_set(pod(1), update_revision=revision),))


def is_kept(stages: tuple[PlannedStage, ...], wanted: DesiredState, workloads: WorkloadsReading | Failure) -> bool:
    plan = PlanStatus(
        hash="sha256:0", created_at=Stamp("2026-01-02T03:04:05Z"), irreversible=False, summary="", stages=stages
    )
    before = replace(EMPTY, plan=plan, change_count=4)
    after = without_withdrawn_plan(before, wanted, workloads)
    assert after in (before, replace(before, plan=None, change_count=5))  # no later plan has its hash
    return after.plan is not None


@pytest.mark.parametrize("stage", [LEVELS, ROLL, MIGRATION, IBP], ids=lambda stage: stage.kind)
@pytest.mark.parametrize("workloads", [pods(), NOT_ASKED], ids=["pods", "no pods"])
def test_a_plan_that_the_document_still_asks_for_stays(
    stage: PlannedStage, workloads: WorkloadsReading | Failure
) -> None:
    assert is_kept((stage,), WANTED, workloads)
    assert is_kept((stage, LEVELS), WANTED, workloads)


@pytest.mark.parametrize(
    ("stage", "otherwise"),
    [
        (LEVELS, {"levels": {}}),
        (LEVELS, {"levels": {"metadata.version": 23}}),
        (ROLL, {"rollout": Rollout()}),
        (ROLL, {"rollout": Rollout("Manual")}),
        (ROLL, {"rollout": replace(PODS, brokers=("other",))}),
        (MIGRATION, {"migration": None}),
        (MIGRATION, {"migration": Migration(Desired.ROLLED_BACK, timedelta(0))}),
        (IBP, {"ibp": ""}),
        (IBP, {"ibp": "3.8"}),
    ],
    ids=[
        "no level", "another level", "no rollout", "driver Manual", "other StatefulSets", "no migration",
        "another phase", "no protocol version", "another protocol version",
    ],
)  # fmt: skip
def test_a_plan_is_over_once_the_document_asks_for_something_else(
    stage: PlannedStage, otherwise: dict[str, Any]
) -> None:
    """The plan is over as a whole, whichever of its stages the document no longer asks for."""
    assert not is_kept((stage,), replace(WANTED, **otherwise), NOT_ASKED)
    other_stages = tuple(other for other in (MIGRATION, ROLL) if other is not stage)
    assert not is_kept((*other_stages, stage), replace(WANTED, **otherwise), NOT_ASKED)


def test_a_plan_of_restarts_is_over_once_the_template_changes() -> None:
    assert not is_kept((ROLL,), WANTED, pods(OLD))
    assert is_kept((ROLL,), WANTED, WorkloadsReading(NOW, ()))  # of a StatefulSet that was not read nothing is known


def test_every_kind_of_stage_has_its_own_name() -> None:
    assert len({kind.kind for kind in STAGES}) == len(STAGES)
