"""Statuses as the operator writes them, made by its own core of small worlds: for the commands that read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.api.status import read_status
from kafkafeatures.api.values import replace
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.core.engine.desired_state import DesiredState, Mode
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRunAccepted
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.levels.soak import soak_of, with_soak
from kafkafeatures.core.report.status import status_of_unreachable
from tests.kafkafeatures.deciding import changes_in, decide, facts_of, propose, status_of
from tests.kafkafeatures.worlds import NOW, OLD, SILENT, node, observation

UP = {"metadata.version": 27, "group.version": 1}
UID = "0c6b1a8e-0000-4000-8000-000000000001"


def status(
    wanted: DesiredState,
    seen: Observation | None = None,
    *,
    generation: int = 1,
    previous: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The status after one reconciliation."""
    seen = seen or observation()
    before, _ = read_status(previous or {})
    proposal = propose(wanted, seen, Memory())
    soak = soak_of(replace(facts_of(wanted, seen, now=NOW), remembered=before), changes_in(proposal))
    decision, before = decide(wanted, seen, verdict=DryRunAccepted(), soak=soak), with_soak(before, soak)
    made = status_of(decision, seen, proposal, generation=generation, previous=before, version="0.1.0", now=NOW)
    return made.as_json()


def in_sync(generation: int = 1) -> dict[str, Any]:
    return status(DesiredState({"metadata.version": 21}), generation=generation)


def acting(generation: int = 1) -> dict[str, Any]:
    return status(DesiredState(UP), generation=generation)


def waiting_for_approval(generation: int = 1) -> dict[str, Any]:
    return status(DesiredState({}, UP, uid=UID), generation=generation)


def soaking(generation: int = 1) -> dict[str, Any]:
    return status(DesiredState({}, UP, uid=UID, finalize_after=timedelta(hours=24)), generation=generation)


def stalled(generation: int = 1) -> dict[str, Any]:
    ghost = node(3003, state=NodeState.GHOST, said=SILENT, written=OLD, voter=False)
    return status(DesiredState(UP), observation(node(3001), node(1), ghost), generation=generation)


def suspended(generation: int = 1) -> dict[str, Any]:
    return status(DesiredState(UP, suspend=True), generation=generation)


def observed(generation: int = 1) -> dict[str, Any]:
    return status(DesiredState(UP, mode=Mode.OBSERVE), generation=generation)


def unreachable(previous: Mapping[str, Any], generation: int = 1) -> dict[str, Any]:
    before, _ = read_status(previous)
    return status_of_unreachable(SILENT, generation=generation, previous=before, at=NOW).as_json()


def resource(status: Mapping[str, Any] | None = None, *, generation: int = 1, **more: Any) -> KubeResource:
    """The object `kafka/orders`; `more`: spec, annotations, or other metadata."""
    metadata = {"name": "orders", "namespace": "kafka", "uid": UID, "generation": generation, "resourceVersion": "7"}
    spec = more.pop("spec", {"cluster": {"bootstrapServers": "h:1"}, "mode": "Apply"})
    found = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {**metadata, **more}, "spec": spec}
    return KubeResource(found if status is None else {**found, "status": status})
