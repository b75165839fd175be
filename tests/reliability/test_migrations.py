"""Histories of migrations: the same seed gives the same history, and each rule detects a forged record."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from tests.reliability import migration_end_rules, migration_facts, migration_records, migration_rules
from tests.reliability.checker import violations
from tests.reliability.facts import APPROVE
from tests.reliability.migration_facts import RESTART, MigrationFacts, is_copied
from tests.reliability.migration_records import (
    Aimed,
    Deleted,
    Made,
    Mode,
    Over,
    Released,
    Seen,
    Strayed,
    Truth,
    Weighed,
)
from tests.reliability.migration_rules import no_broker_is_left_behind, no_topic_vanishes
from tests.reliability.migrations import FIRST, MIGRATIONS
from tests.reliability.records import Copies, History, Sent, Stored
from tests.reliability.simulation import simulate, trace_of
from tests.reliability.test_reliability import changed, in_each_version, simulated


def keeps_its_topics(history: History) -> bool:
    """Tell whether topics were made, and no consent allows that they are lost."""
    stored = (one.spec.get("consents") or () for one in history.records if isinstance(one, Stored))
    made = [one for one in history.records if isinstance(one, Made)]
    return bool(made) and not any("zk-rollback-lossy" in consents for consents in stored)


@cache
def history_with(kind: type[Any], desired: str, also: Callable[[History], bool] = lambda _: True) -> History:
    """The first history with restarts and a record of this kind, at whose end the document asks for `desired`."""
    for seed in range(FIRST, 6_000, MIGRATIONS):
        history = simulated(seed)
        ends = [one for one in history.records if isinstance(one, Aimed) and one.over]
        begun = any(MigrationFacts(history).steps(RESTART))
        happened = any(isinstance(one, kind) for one in history.records)
        if happened and begun and ends and ends[-1].desired == desired and also(history):
            return history
    raise AssertionError("there is no such history")


def finalized() -> History:
    """A history at whose end the migration is finalized: a controller without the flag has ended it (`Over`)."""
    return history_with(Over, "Finalized")


def finalized_with_topics() -> History:
    return history_with(Over, "Finalized", keeps_its_topics)


def returned() -> History:
    """A history at whose end the migration is rolled back: ZooKeeper is what counts again (`Released`)."""
    return history_with(Released, "RolledBack")


def test_the_same_seed_gives_the_same_migration() -> None:
    history = finalized()
    assert trace_of(simulate(history.seed)) == trace_of(history)


def test_the_rules_of_migrations_import_no_module_of_the_operator() -> None:
    for module in (migration_facts, migration_records, migration_rules, migration_end_rules):
        imported = [
            name.name if isinstance(node, ast.Import) else str(node.module)
            for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        ]
        assert not [name for name in imported if name.startswith(("kafka", "kraft"))]


@pytest.mark.parametrize("history", [finalized, returned])
def test_an_untouched_record_of_a_migration_breaks_no_promise(history: Callable[[], History]) -> None:
    facts = MigrationFacts(history())
    # Restarts, and readings of the cluster right before each of them: else the rules would have nothing to check.
    assert len({step.node for step in facts.steps(RESTART)}) >= 3
    assert all(step.looks for step in facts.steps(RESTART))
    assert violations(history()) == []


def of_truth(change: Callable[[Truth], Truth]) -> Callable[[Any], Any]:
    return lambda one: replace(one, truth=change(one.truth))


def with_brokers(mode: Mode, **fields: Any) -> Callable[[Any], Any]:
    return of_truth(lambda one: replace(one, brokers=dict.fromkeys(one.brokers, mode), **fields))


def out_of_sync(copies: Copies) -> Copies:
    return replace(copies, in_sync=copies.in_sync - {max(copies.replicas)}, needed=2)


def also_announced(one: dict[str, Any]) -> None:
    intents = one.get("status", {}).get("intents") or []
    intents += [each | {"nodeId": 99, "target": "broker 99"} for each in intents]


def not_approved(one: dict[str, Any]) -> None:
    one["metadata"].get("annotations", {}).pop(APPROVE, None)
    one["spec"].get("approval", {}).pop("planHash", None)


# Every partition with one replica less in sync than it needs; a soak that is longer than any history.
LESS = of_truth(lambda one: replace(one, copies={name: out_of_sync(each) for name, each in one.copies.items()}))
LONG = in_each_version(lambda one: one["spec"].get("migration", {}).update(holdDualWriteFor="9h"))
FORGED: dict[str, tuple[Callable[[], History], type[Any], Callable[[Any], Any]]] = {
    "held back": (returned, Stored, in_each_version(lambda one: one["spec"].update(suspend=True))),
    "next step": (returned, Seen, with_brokers(Mode.KRAFT, state=None)),
    "leader last": (finalized, Seen, with_brokers(Mode.PLAIN, state=2, claim=1)),
    "min.insync.replicas": (finalized, Seen, LESS),
    "majority": (finalized, Seen, of_truth(lambda one: replace(one, voters=frozenset({one.leader})))),
    "one at a time": (finalized, Stored, in_each_version(also_announced)),
    "equality": (finalized, Weighed, lambda one: replace(one, before=("/",), after=("/",))),
    "given back": (returned, Deleted, of_truth(lambda one: replace(one, controllers={3001: True}))),
    "another ensemble": (
        returned,
        Stored,
        in_each_version(lambda one: one["spec"]["cluster"]["zookeeper"].update(connect="zk1:2181/kafka2")),
    ),
    "unasked": (finalized, Seen, of_truth(lambda one: replace(one, controllers={**one.controllers, 3009: False}))),
    "effect log": (returned, Deleted, lambda one: replace(one, logged=False)),
    "epoch": (returned, Released, lambda one: replace(one, epoch=0)),
    "consent": (finalized, Stored, in_each_version(lambda one: one["spec"].update(consents=[]))),
    "approval": (finalized, Stored, in_each_version(not_approved)),
    "under-replicated": (finalized, Seen, LESS),
    "soak": (finalized, Stored, LONG),
    "stranded": (finalized, Over, with_brokers(Mode.FLAGGED)),
    "lost": (finalized_with_topics, Aimed, of_truth(lambda one: replace(one, topics=("another",)))),
    "phase": (returned, Seen, with_brokers(Mode.FLAGGED)),
    "settles": (finalized, Aimed, with_brokers(Mode.PLAIN)),
    "fresh": (finalized, Seen, lambda one: replace(one, process="another")),
}
"""By rule: a history, a type of its records, and a change of all of these that breaks the rule."""


@pytest.mark.parametrize("rule", FORGED)
def test_a_forged_record_of_a_migration_breaks_the_promise(rule: str) -> None:
    made, kind, change = FORGED[rule]
    assert rule in {one.rule for one in violations(changed(made(), kind, change))}


def test_a_transaction_in_the_ensemble_of_another_cluster_breaks_the_promise() -> None:
    history = returned()
    deleted = next(one for one in history.records if isinstance(one, Deleted))
    strayed = Strayed(deleted.at, deleted.process, deleted.uid, deleted.paths)
    found = violations(replace(history, records=[*history.records, strayed]))
    assert [one.rule for one in found] == ["another ensemble"]


def test_a_migration_that_ends_only_by_a_mistake_of_a_person_breaks_no_promise() -> None:
    """The operator asked for no restart of a controller, so a person ended the migration with a broker left behind."""
    history = finalized()
    over = next(one for one in history.records if isinstance(one, Over))
    stranded = replace(over, truth=replace(over.truth, brokers={1: Mode.FLAGGED}))
    assert not list(no_broker_is_left_behind(MigrationFacts(replace(history, records=[stranded]))))


def test_a_level_that_is_changed_during_a_migration_breaks_the_promise() -> None:
    history = finalized()
    place, seen = next(
        (place, one)
        for place, one in enumerate(history.records)
        if isinstance(one, Seen) and one.over and is_copied(one.truth)
    )
    sent = Sent(seen.at, seen.process, seen.uid, "a cluster", "metadata.version", 20, 21, 1)
    records = [*history.records[: place + 1], sent, *history.records[place + 1 :]]
    assert [one.rule for one in violations(replace(history, records=records))] == ["migration"]


@pytest.mark.parametrize(("made_after_the_comparison", "lost"), [(True, []), (False, ["['orders'] are gone"])])
def test_a_topic_of_the_time_of_the_last_comparison_may_vanish_only_if_it_was_made_after_it(
    made_after_the_comparison: bool, lost: list[str]
) -> None:
    history = returned()
    last = next(one for one in reversed(history.records) if isinstance(one, Aimed) and one.over)
    end = replace(last, at=30.0, truth=replace(last.truth, topics=("others",)))
    compared, made = Weighed(10.0, "operator-1", end.uid, (), ()), Made(10.0, "orders")
    begun = [compared, made] if made_after_the_comparison else [made, compared]
    facts = MigrationFacts(replace(history, records=[*begun, Released(18.0, 1, 1), end]))
    assert [one.text for one in no_topic_vanishes(facts)] == lost
