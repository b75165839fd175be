"""Observations in which every node supports every level, and the decision of a document about them: for tests of plans,
approval and drift.
"""

from __future__ import annotations

from typing import Any

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import PlanStatus
from kafkafeatures.core.engine.decisions import Act, Decision
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.plan import Plan
from kafkafeatures.core.engine.steps import DryRunAccepted
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.levels.update_feature import UpdateFeature
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import NOW, answer, node, observation

EVERY = {
    "metadata.version": (7, 30),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "kraft.version": (0, 1),
}
NAMED = DesiredState({"metadata.version": 30})
SHARE = {"share.version": 1}


def world(**levels: int) -> Observation:
    """Build an observation in which every node supports every level; `levels` have underscores instead of dots."""
    finalized = {"metadata.version": 25, **{name.replace("_", "."): level for name, level in levels.items()}}
    finalized = {name: level for name, level in finalized.items() if level}
    nodes = [node(i, said=answer(EVERY, finalized), written=EVERY) for i in (3001, 3002, 1, 2)]
    return observation(*nodes, levels=finalized)


def deciding(
    wanted: DesiredState, observation: Observation | None = None, memory: Memory | None = None, verdict: Any = None
) -> Decision:
    return decide(wanted, observation or world(), memory or Memory(), verdict=verdict or DryRunAccepted())


def change(text: str) -> UpdateFeature:
    feature, levels = text.split(" ")
    before, after = levels.split("->")
    return UpdateFeature(feature, int(before), int(after))


def kinds(decision: Decision) -> set[BlockerKind]:
    assert not isinstance(decision, Act)
    return {blocker.kind for blocker in decision.blockers}


def standing(plan: Plan) -> PlanStatus:
    """Return the plan as the status has it."""
    return PlanStatus(
        hash=plan.hash, created_at=stamp(NOW), irreversible=plan.irreversible, summary="", stages=plan.stages
    )
