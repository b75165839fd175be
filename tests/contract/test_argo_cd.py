"""The scripts that Argo CD runs, in a real Lua 5.1 without its libraries, on statuses as the operator writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime, lua_type

from kafkafeatures.api.names import APPROVE, PAUSE
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.core.engine.desired_state import DesiredState, Mode, OnDrift
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRun, DryRunAccepted, DryRunRejected
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.report.status import (
    status_of_failed_reconciliation,
    status_of_invalid,
    status_of_pending,
    status_of_unreachable,
)
from tests.kafkafeatures.deciding import decide, propose, status_of
from tests.kafkafeatures.worlds import NOW, OLD, SILENT, answer, node, observation

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
HEALTH = (HOW_TO / "argo-cd-health.lua").read_text()
ACTIONS = yaml.safe_load((HOW_TO / "argo-cd-actions.yaml").read_text())
SCRIPTS = {action["name"]: action["action.lua"] for action in ACTIONS["definitions"]}

# The names that Argo CD leaves to a script: the basic functions and `table`.
KEPT = ("_G", "_VERSION", "assert", "error", "ipairs", "next", "pairs", "pcall", "select", "table", "tonumber",
        "tostring", "type", "unpack")  # fmt: skip


def run(script: str, resource: Mapping[str, Any]) -> Any:
    lua = LuaRuntime(register_eval=False, register_builtins=False)
    names = lua.globals()
    for name in list(names):
        if name not in KEPT:
            names[name] = None
    names["obj"] = lua.table_from(json.loads(json.dumps(resource)), recursive=True)
    return plain(lua.execute(script))


def plain(value: Any) -> Any:
    if lua_type(value) != "table":
        return value
    return {key: plain(inner) for key, inner in value.items()}


def resource(status: Status | None, *, generation: int = 3, **more: Any) -> dict[str, Any]:
    metadata = {"name": "orders", "generation": generation, "annotations": more.pop("annotations", None)}
    document: dict[str, Any] = {"metadata": metadata, "spec": more}
    return document if status is None else {**document, "status": status.as_json()}


NOTHING, YES = Memory(), DryRunAccepted()


def status_after(
    wanted: DesiredState, seen: Observation | None = None, memory: Memory = NOTHING, verdict: DryRun = YES
) -> Status:
    seen = seen or observation()
    decision = decide(wanted, seen, memory, verdict=verdict)
    proposal = propose(wanted, seen, memory)
    return status_of(decision, seen, proposal, generation=3, previous=EMPTY, version="0.1.0", now=NOW)


def unreachable(kind: FailureKind) -> Status:
    return status_of_unreachable(Failure(kind, "h:1", "no"), generation=3, previous=EMPTY, at=NOW)


UP = {"metadata.version": 27}
GHOST = observation(node(3001), node(1), node(3, state=NodeState.GHOST, said=SILENT, written=OLD))
BEHIND = observation(node(3001), node(1), node(2, said=answer(OLD), written=OLD))
MOVED = observation(levels={"metadata.version": 21, "group.version": 1})
REACHED = Memory(reached={"metadata.version": 21, "group.version": 0})
WANTED = {"metadata.version": 21, "group.version": 0}

CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "new": (resource(None), "Progressing", "waiting for the operator"),
    "pending": (resource(status_of_pending(generation=3, at=NOW)), "Progressing", "Pending"),
    "in sync": (resource(status_after(DesiredState({"metadata.version": 21}))), "Healthy", "InSync"),
    "of an older generation": (
        resource(status_after(DesiredState({"metadata.version": 21})), generation=4), "Progressing", "waiting",
    ),
    "observed": (resource(status_after(DesiredState(UP, mode=Mode.OBSERVE))), "Healthy", "would change"),
    "observed, with drift": (
        resource(status_after(DesiredState(WANTED, mode=Mode.OBSERVE), MOVED, REACHED)), "Healthy", "LevelAhead",
    ),
    "acting": (resource(status_after(DesiredState(UP))), "Progressing", "UpdatingFeatures"),
    "waiting for a node": (resource(status_after(DesiredState(UP), BEHIND)), "Progressing", "WaitingForNodes"),
    "a reconciliation that failed": (
        resource(status_of_failed_reconciliation("a bug", generation=3, previous=EMPTY, at=NOW)),
        "Progressing", "InternalError",
    ),
    "stalled by a ghost": (resource(status_after(DesiredState(UP), GHOST)), "Degraded", "GhostRegistration"),
    "refused by the controller": (
        resource(status_after(DesiredState(UP), verdict=DryRunRejected(95, "no"))), "Degraded", "ControllerRejected",
    ),
    "reverted in Git": (resource(status_after(DesiredState({"metadata.version": 20}))), "Degraded", "ConsentRequired"),
    "invalid": (
        resource(status_of_invalid(Reason.INVALID_SPEC, "no", generation=3, previous=EMPTY, at=NOW)),
        "Degraded", "InvalidSpec",
    ),
    "waiting for approval": (resource(status_after(DesiredState({}, UP))), "Suspended", "PlanPending"),
    "suspended": (resource(status_after(DesiredState(UP, suspend=True)), suspend=True), "Suspended", "paused"),
    "paused a moment ago": (
        resource(status_after(DesiredState(UP)), annotations={PAUSE: "true"}), "Suspended", "paused",
    ),
    "paused, and stalled": (resource(status_after(DesiredState(UP), GHOST), suspend=True), "Suspended", "paused"),
    "resumed a moment ago": (
        resource(status_after(DesiredState(UP, suspend=True)), annotations={PAUSE: "false"}), "Progressing", "resumed",
    ),
    "drifted": (resource(status_after(DesiredState(WANTED), MOVED, REACHED)), "Degraded", "Drifted"),
    "drift that is being corrected": (
        resource(status_after(DesiredState(UP, on_drift=OnDrift.CORRECT), observation(), Memory(reached=UP))),
        "Suspended", "PlanPending",
    ),
    "away": (resource(unreachable(FailureKind.UNREACHABLE)), "Progressing", "Unreachable"),
    "silent": (resource(unreachable(FailureKind.TIMED_OUT)), "Progressing", "Unreachable"),
    "a wrong password": (resource(unreachable(FailureKind.AUTHENTICATION)), "Degraded", "AuthenticationFailed"),
    "a Secret that is not there": (resource(unreachable(FailureKind.CREDENTIALS)), "Degraded", "CredentialsInvalid"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_health_script_gives_each_status_its_health(name: str) -> None:
    seen, status, message = CASES[name]
    health = run(HEALTH, seen)
    assert health["status"] == status, health
    assert message in health["message"]


def test_a_resource_whose_failure_requires_action_is_degraded() -> None:
    for kind in FailureKind:
        status = unreachable(kind)
        needs_action = Reason(status.reason(Condition.REACHABLE)).needs_action
        assert run(HEALTH, resource(status))["status"] == ("Degraded" if needs_action else "Progressing"), kind


# --- actions ---

WAITS = resource(status_after(DesiredState({}, UP)))


def test_every_action_that_is_offered_is_defined() -> None:
    assert set(run(ACTIONS["discovery.lua"], WAITS)) == set(SCRIPTS)


@pytest.mark.parametrize(
    ("seen", "enabled"),
    [
        (resource(None), {"pause"}),
        (WAITS, {"approve", "pause"}),
        (resource(status_after(DesiredState(UP)), annotations={PAUSE: "true"}), {"resume"}),
    ],
)
def test_only_actions_with_an_effect_on_the_resource_are_enabled(seen: dict[str, Any], enabled: set[str]) -> None:
    offered = run(ACTIONS["discovery.lua"], seen)
    assert {name for name, one in offered.items() if not one["disabled"]} == enabled


def test_approve_names_exactly_the_plan_that_is_shown() -> None:
    written = run(SCRIPTS["approve"], WAITS)
    assert written["metadata"]["annotations"] == {APPROVE: WAITS["status"]["plan"]["hash"]}


def test_resume_reverts_pause_and_both_keep_other_annotations() -> None:
    paused = run(SCRIPTS["pause"], resource(None, annotations={"team": "orders"}))
    assert paused["metadata"]["annotations"] == {"team": "orders", PAUSE: "true"}
    assert run(HEALTH, paused)["status"] == "Suspended"
    resumed = run(SCRIPTS["resume"], paused)
    assert resumed["metadata"]["annotations"] == {"team": "orders", PAUSE: "false"}
    assert run(HEALTH, resumed)["status"] == "Progressing"


def test_the_page_sets_both_files_under_the_keys_of_the_kind() -> None:
    page = (HOW_TO / "argo-cd.md").read_text()
    for what, name in (("health", "argo-cd-health.lua"), ("actions", "argo-cd-actions.yaml")):
        assert f"--from-file=resource.customizations.{what}.kafkafeatures.dev_KafkaFeatures={name}" in page
