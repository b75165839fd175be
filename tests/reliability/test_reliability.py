"""One seed gives the same history each time, and the checker detects each error that a test puts into a record."""

from __future__ import annotations

import ast
import asyncio
import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from tests.amounts import some
from tests.reliability import (
    checker,
    end_rules,
    facts,
    last_rules,
    level_rules,
    log_rules,
    node_rules,
    records,
    roll_rules,
)
from tests.reliability import violations as violations_module
from tests.reliability.calibration import DEFECTS, defective, source_of, tried
from tests.reliability.checker import violations
from tests.reliability.defect import Defect
from tests.reliability.pods import CONTROLLERS, RecordedPods
from tests.reliability.records import Asked, Copies, History, Looked, Nodes, Sent, Stopped, Stored, Whole
from tests.reliability.scene import ROLLS
from tests.reliability.simulation import Simulation, simulate, trace_of
from tests.reliability.virtual import DeadlockError, run

simulated = cache(simulate)
"""The history of a seed, simulated once in this process. No test changes it: `changed` copies what it changes."""


def test_a_day_of_virtual_time_passes_at_once_and_in_order() -> None:
    seen: list[tuple[float, str]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((asyncio.get_running_loop().time(), name))

    async def both() -> None:
        await asyncio.gather(sleeper("late", 86_400.0), sleeper("soon", 1.0))

    run(both())
    assert seen == [(1.0, "soon"), (86_400.0, "late")]


def test_a_virtual_clock_reports_a_deadlock() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError):
        run(forever())


def test_the_same_seed_gives_the_same_history() -> None:
    assert trace_of(simulate(3)) == trace_of(simulated(3))
    assert trace_of(simulated(3)) != trace_of(simulated(4))


def test_the_checker_imports_no_module_of_the_operator() -> None:
    for module in (
        checker.__file__,
        end_rules.__file__,
        facts.__file__,
        last_rules.__file__,
        level_rules.__file__,
        log_rules.__file__,
        node_rules.__file__,
        records.__file__,
        roll_rules.__file__,
        violations_module.__file__,
    ):
        imported = {
            name.name if isinstance(node, ast.Import) else node.module
            for node in ast.walk(ast.parse(Path(module).read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        }
        assert not [name for name in imported if name and name.startswith(("kafka", "kraft"))]


def acting() -> History:
    """A history in which something was sent, with more consents and approvals than needed."""
    return simulated(ACTING)


ACTING = 2  # a seed


def changed(history: History, kind: type[Any], change: Callable[[Any], Any]) -> History:
    """The history with every record of this kind changed."""
    return replace(history, records=[change(one) if isinstance(one, kind) else one for one in history.records])


def in_each_version(change: Callable[[dict[str, Any]], object]) -> Callable[[Stored], Stored]:
    def changed(stored: Stored) -> Stored:
        made = copy.deepcopy(dict(stored.object))
        change(made)
        return replace(stored, object=made)

    return changed


def test_an_untouched_record_breaks_no_promise() -> None:
    history = acting()
    assert any(isinstance(one, Sent) for one in history.records)
    assert violations(history) == []


FORGED: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "intent before act": (Stored, in_each_version(lambda one: one.get("status", {}).pop("intents", None))),
    "effect log": (Sent, lambda one: replace(one, logged=False)),
    "held back": (Stored, in_each_version(lambda one: one["spec"].update(suspend=True))),
    "asked for": (Stored, in_each_version(lambda one: one["spec"].update(features={}))),
    "right cluster": (Sent, lambda one: replace(one, cluster_id="another")),
    "one cluster": (Looked, lambda one: replace(one, cluster_id="another")),
    "preflight": (Looked, lambda one: replace(one, ranges={})),
    "ready": (Looked, lambda one: replace(one, quorum=False)),
    "approval": (Stored, in_each_version(lambda one: one["spec"].update(approval={"policy": "Always"}))),
    "generation": (Stored, in_each_version(lambda one: one["metadata"].update(generation=0))),
    "settles": (Looked, lambda one: replace(one, levels={})),
    "migration": (Looked, lambda one: replace(one, migrating=True)),
}
"""By rule: a type of records, and a change of all of these that breaks the rule. So in the tables below."""


@pytest.mark.parametrize("rule", FORGED)
def test_a_forged_record_breaks_the_promise(rule: str) -> None:
    kind, change = FORGED[rule]
    broken = {one.rule for one in violations(changed(acting(), kind, change))}
    assert rule in broken


def of_rolls(is_one: Callable[[RecordedPods], bool], least: int, *, raised: bool = False) -> History:
    """The first history with such pods in which the operator restarted, or asked a person to restart, at least so many
    nodes. `raised`: it also raised a level.
    """

    async def pods_of(seed: int) -> RecordedPods:
        (cluster,) = Simulation(seed).clusters.values()
        assert isinstance(cluster.pods, RecordedPods)
        return cluster.pods

    for seed in range(ROLLS - 1, 3_000, ROLLS):
        if is_one(run(pods_of(seed))):
            history = simulated(seed)
            goes_up = any(isinstance(one, Sent) and one.after > one.before for one in history.records)
            if len(restarted(history)) >= least and (goes_up or not raised):
                return history
    raise AssertionError("there is no such history")


def restarted(history: History) -> set[int]:
    """Nodes that the operator evicted, or asked a person to restart."""
    intents = (
        each
        for one in history.records
        if isinstance(one, Stored)
        for each in (one.object.get("status") or {}).get("intents", ())
        if each["kind"] == "RestartNode"
    )
    return {one["nodeId"] for one in intents}


@cache
def rolling() -> History:
    """A history in which nodes were restarted."""
    return of_rolls(lambda pods: not pods.by_hand and not is_combined(pods), 6, raised=True)


def is_combined(pods: RecordedPods) -> bool:
    """Tell whether the controllers of the history are brokers as well."""
    return pods.sets[CONTROLLERS].plan.role == "brokers"


def of_nodes(change: Callable[[Nodes], Nodes]) -> Callable[[Looked], Looked]:
    return lambda one: one if one.nodes is None else replace(one, nodes=change(one.nodes))


def out_of_sync(nodes: Nodes) -> Nodes:
    """The record with one replica less in sync, of each partition."""
    return replace(nodes, copies={name: _with(one, min(one.replicas)) for name, one in nodes.copies.items()})


def _with(copies: Copies, out: int) -> Copies:
    return replace(copies, in_sync=copies.in_sync - {out})


def all_needed(nodes: Nodes) -> Nodes:
    return replace(nodes, copies={name: replace(one, needed=len(one.in_sync)) for name, one in nodes.copies.items()})


def everybody_behind(nodes: Nodes) -> Nodes:
    return replace(nodes, behind=frozenset(nodes.templates))


def of_another_roll(one: dict[str, Any]) -> None:
    """Give each version of the status a consent that was used for another roll."""
    one["spec"]["consents"] = ["single-replica-topics"]
    rollout = one.get("status", {}).get("rollout") or {}
    rollout.update(id=one["metadata"]["resourceVersion"], excused={"topics": 1, "names": ["orders"]})


def also_announced(one: dict[str, Any]) -> None:
    """The restart of another node, whose pod was never stopped."""
    intents = one.get("status", {}).get("intents") or []
    intents += [each | {"nodeId": 99, "podUid": "another"} for each in intents if each["kind"] == "RestartNode"][:1]


# A window that is never open.
NEVER = [{"schedule": "*/2 * * * *", "duration": "0m"}]

FORGED_ROLLS: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "intent before restart": (Stored, in_each_version(lambda one: one.get("status", {}).pop("intents", None))),
    "effect log": (Asked, lambda one: replace(one, logged=False)),
    "held back": (Stored, in_each_version(lambda one: one["spec"].update(suspend=True))),
    "windows": (Stored, in_each_version(lambda one: one["spec"].setdefault("rollout", {}).update(windows=NEVER))),
    "min.insync.replicas": (Looked, of_nodes(all_needed)),
    "under-replicated": (Looked, of_nodes(out_of_sync)),
    "consent": (Stored, in_each_version(of_another_roll)),
    "once": (Stopped, lambda one: replace(one, runs=one.next)),
    "in flight": (Whole, lambda one: replace(one, node=-1)),
    "order": (Looked, of_nodes(everybody_behind)),
    "leader last": (Looked, of_nodes(everybody_behind)),
    "majority": (Looked, of_nodes(lambda one: replace(one, voters={each: each == one.leader for each in one.voters}))),
    "replay": (Looked, of_nodes(lambda one: replace(one, ends=dict.fromkeys(one.templates, "share.version 2")))),
    "levels last": (Looked, of_nodes(everybody_behind)),
    "rolled": (Looked, of_nodes(everybody_behind)),
    "migration": (Looked, lambda one: replace(one, migrating=True)),
    "left alone": (Looked, of_nodes(lambda one: replace(one, fenced=one.brokers - {max(one.brokers)}))),
    "reassignment": (Looked, of_nodes(lambda one: replace(one, moving=frozenset({"orders-0"})))),
    "budget": (Looked, of_nodes(lambda one: replace(one, refused=one.brokers))),
    "one at a time": (Stored, in_each_version(also_announced)),
}


def test_an_untouched_record_of_a_roll_breaks_no_promise() -> None:
    history = rolling()
    assert sum(isinstance(one, Stopped) for one in history.records) > 5
    assert violations(history) == []


@pytest.mark.parametrize("rule", FORGED_ROLLS)
def test_a_forged_record_of_a_roll_breaks_the_promise(rule: str) -> None:
    kind, change = FORGED_ROLLS[rule]
    history = rolling()
    broken = {one.rule for one in violations(changed(history, kind, change))}
    assert rule in broken


def asked_for_twice(one: dict[str, Any]) -> None:
    intents = one.get("status", {}).get("intents") or []
    intents += [each | {"nodeId": each["nodeId"] + 1} for each in intents if each["kind"] == "RestartNode"]


FORGED_BY_HAND: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "by hand": (Stored, in_each_version(asked_for_twice)),
    "min.insync.replicas": (Looked, of_nodes(all_needed)),
    "majority": FORGED_ROLLS["majority"],
}


@cache
def by_hand() -> History:
    """A history in which a person was asked to restart nodes."""
    return of_rolls(lambda pods: pods.by_hand, 4)


def test_an_untouched_record_of_a_roll_by_hand_breaks_no_promise() -> None:
    assert len(restarted(by_hand())) > 3
    assert not any(isinstance(one, Asked) for one in by_hand().records)
    assert violations(by_hand()) == []


@pytest.mark.parametrize("rule", FORGED_BY_HAND)
def test_a_forged_record_of_a_roll_by_hand_breaks_the_promise(rule: str) -> None:
    kind, change = FORGED_BY_HAND[rule]
    assert rule in {one.rule for one in violations(changed(by_hand(), kind, change))}


def test_a_history_of_a_roll_restarts_combined_nodes() -> None:
    records = of_rolls(lambda pods: is_combined(pods) and not pods.by_hand, 5).records
    nodes = next(one.nodes for one in records if isinstance(one, Looked))
    assert nodes is not None
    assert nodes.voters.keys() <= nodes.brokers
    assert {one.node for one in records if isinstance(one, Asked)} & nodes.voters.keys()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_the_code_with_a_defect_compiles(defect: Defect) -> None:
    """docs/explanation/how-we-test.md tells how many histories find each defect."""
    for module in defect.by_module:
        compile(defective(defect, module, source_of(module)), module, "exec")


@pytest.mark.parametrize("name", some(["act-first", "two-operators", "younger-acts"]))
def test_the_checker_detects_a_defect_that_is_put_back(name: str) -> None:
    """The first 40 histories are enough for these three defects; `make soak` tries all of them."""
    (defect,) = (one for one in DEFECTS if one.name == name)
    assert tried(defect, 40)
