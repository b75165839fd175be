"""Rules of the checker: each is checked with a small written history that it allows, and one that it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.reliability.checker import (
    a_status_tells_of_one_cluster,
    never_on_a_wrong_cluster,
    ready_means_read,
    what_became_of_an_effect_is_reported_as_it_was,
    what_is_open_stays_alone,
)
from tests.reliability.facts import APPROVE, Facts
from tests.reliability.last_rules import nothing_leaves_that_was_withdrawn, what_is_late_does_not_leave
from tests.reliability.records import History, Left, Looked, Moved, Record, Sent, Stored
from tests.reliability.violations import Violation

UID, OPERATOR, PERSON = "1", "kafkafeatures.dev/ops/operator", "kubectl-edit"
INTENT = {"kind": "UpdateFeature", "target": "group.version", "before": "0", "after": "1", "at": "now"}


def stored(
    at: float,
    by: str,
    status: dict[str, Any],
    *,
    cluster_id: str = "",
    annotations: dict[str, str] | None = None,
) -> Stored:
    metadata = {"uid": UID, "generation": 1, "annotations": annotations or {}}
    spec = {"cluster": {"clusterId": cluster_id} if cluster_id else {}}
    return Stored(at, "MODIFIED", {"metadata": metadata, "spec": spec, "status": status}, by)


def sent(at: float, cluster_id: str = "A") -> Sent:
    return Sent(at, "operator-1", UID, cluster_id, "group.version", 0, 1, 1)


def looked(at: float, cluster_id: str) -> Looked:
    return Looked(at, "operator-1", UID, cluster_id, {}, True, {})


def violations_of(rule: Callable[[Facts], Iterator[Violation]], *records: Record) -> list[Violation]:
    return list(rule(Facts(History(0, list(records)))))


def approved_for_a_while(until: float) -> list[Record]:
    """The intent is written at 1 s. An approval that no plan needs is written at 2 s, and removed at `until`."""
    begun = {"operator": {"instance": "operator-1"}, "intents": [INTENT]}
    return [
        stored(0.0, OPERATOR, {"operator": {"instance": "operator-1"}}),
        stored(1.0, OPERATOR, begun),
        stored(2.0, PERSON, begun, annotations={APPROVE: "sha256:1"}),
        stored(until, PERSON, begun),
    ]


@pytest.mark.parametrize("until", [3.0, 7.0])
def test_a_document_that_was_changed_and_changed_back_is_not_withdrawn(until: float) -> None:
    assert violations_of(nothing_leaves_that_was_withdrawn, *approved_for_a_while(until), sent(8.0)) == []


def test_a_step_after_a_lasting_change_of_the_document_breaks_the_promise() -> None:
    *still, _ = approved_for_a_while(3.0)
    assert [one.at for one in violations_of(nothing_leaves_that_was_withdrawn, *still, sent(8.0))] == [8.0]


def bound_to(cluster_id: str) -> dict[str, Any]:
    """A status with this cluster id, and with the level of that cluster."""
    levels = [{"name": "metadata.version", "finalized": {"A": 21, "B": 25, "": 21}[cluster_id]}]
    return {"clusterId": cluster_id, "operator": {"instance": "operator-1"}, "features": levels}


def moved_on(name: str) -> list[Record]:
    """A person removes the cluster id A from a status. The document names the cluster `name`; then B is read."""
    return [
        stored(0.0, OPERATOR, bound_to("A")),
        stored(1.0, PERSON, bound_to("")),
        stored(2.0, PERSON, bound_to(""), cluster_id=name),
        looked(3.0, "B"),
        stored(4.0, OPERATOR, bound_to("B"), cluster_id=name),
    ]


RULES = (a_status_tells_of_one_cluster, never_on_a_wrong_cluster)


def test_a_document_may_name_another_cluster_where_the_status_has_no_cluster() -> None:
    assert [one for rule in RULES for one in violations_of(rule, *moved_on("B"), sent(5.0, "B"))] == []


@pytest.mark.parametrize("name", ["", "A"])
def test_a_step_in_another_cluster_that_the_document_does_not_name_breaks_every_rule(name: str) -> None:
    for rule in RULES:
        assert violations_of(rule, *moved_on(name), sent(5.0, "B")), rule.__name__


def test_a_status_with_a_cluster_that_changes_to_the_cluster_of_the_document_breaks_the_promise() -> None:
    records: list[Record] = [stored(0.0, OPERATOR, bound_to("A")), stored(1.0, PERSON, bound_to("A"), cluster_id="B")]
    after: list[Record] = [looked(2.0, "B"), stored(3.0, OPERATOR, bound_to("B"), cluster_id="B")]
    assert violations_of(a_status_tells_of_one_cluster, *records, *after)


@pytest.mark.parametrize(
    ("by_clock", "broken"), [(9.0, []), (12.0, ["late"])], ids=["within ten seconds by its clock", "after ten seconds"]
)
def test_a_late_request_is_judged_by_the_clock_of_its_process(by_clock: float, broken: list[str]) -> None:
    records: list[Record] = [
        stored(0.0, OPERATOR, {"operator": {"instance": "operator-1"}}),
        stored(1.0, OPERATOR, {"operator": {"instance": "operator-1"}, "intents": [INTENT]}),
        sent(1.1),
        Left(15.0, 1, by_clock),
    ]
    assert [one.rule for one in violations_of(what_is_late_does_not_leave, *records)] == broken


@pytest.mark.parametrize(
    ("other", "reads", "broken"),
    [
        pytest.param("share.version", 1, [], id="another feature"),
        pytest.param("share.version", 0, ["one at a time"], id="another feature, before the first outcome is known"),
        pytest.param("group.version", 1, ["one at a time"], id="the same feature"),
    ],
)
def test_a_request_that_a_broker_forwards_twice_blocks_only_its_feature(
    other: str, reads: int, broken: list[str]
) -> None:
    """The request of 1 s takes effect at 2 s, and once more at 6 s. Between, another change of `other` is sent."""
    records: list[Record] = [
        sent(1.0),
        Moved(2.0, "A", "group.version", 0, 1, 1),
        replace(looked(3.0, "A"), levels={"group.version": reads}),
        Moved(4.0, "A", "group.version", 1, 0, None),
        replace(sent(5.0), feature=other, number=2),
        Moved(6.0, "A", "group.version", 0, 1, 1),
    ]
    assert [one.rule for one in violations_of(what_is_open_stays_alone, *records)] == broken


@pytest.mark.parametrize(
    ("process", "by", "broken"),
    [
        pytest.param("operator-1", OPERATOR, ["one at a time"], id="the process that sent it, which remembers it"),
        pytest.param("operator-2", OPERATOR, [], id="another process"),
        pytest.param("operator-1", PERSON, [], id="a person removed the intent"),
    ],
)
def test_a_change_whose_intent_an_older_schema_dropped_blocks_only_the_process_that_sent_it(
    process: str, by: str, broken: list[str]
) -> None:
    outdated = {"conditions": [{"type": "Stalled", "reason": "SchemaOutdated"}]}
    records: list[Record] = [
        stored(1.0, OPERATOR, {"intents": [INTENT]}),
        sent(1.1),
        stored(2.0, by, {}),
        stored(2.1, OPERATOR, outdated),
        replace(sent(5.0), process=process, feature="share.version", number=2),
        Moved(6.0, "A", "group.version", 0, 1, 1),
    ]
    assert [one.rule for one in violations_of(what_is_open_stays_alone, *records)] == broken


@pytest.mark.parametrize(
    ("agreed", "broken"),
    [(None, ["ready"]), ({"group.version": 1}, []), ({}, ["ready"])],
    ids=["nodes do not agree", "all nodes report the level", "no node reports the level"],
)
def test_ready_is_judged_by_all_nodes_where_the_active_controller_does_not_answer(
    agreed: dict[str, int] | None, broken: list[str]
) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "InSync", "observedGeneration": 1}
    version = stored(2.0, OPERATOR, {**bound_to("A"), "conditions": [ready]})
    version.object["spec"]["features"] = {"levels": [{"name": "group.version", "level": 1}]}
    records: list[Record] = [replace(looked(1.0, "A"), log=False, agreed=agreed), version]
    assert [one.rule for one in violations_of(ready_means_read, *records)] == broken


@pytest.mark.parametrize(
    ("settled", "following", "broken"),
    [("Unverified", "NotSent", []), ("NotSent", "Unverified", ["outcome"])],
    ids=["the change of the next plan was not sent", "the change that was applied is said not to be sent"],
)
def test_an_outcome_is_that_of_the_plan_of_its_change(settled: str, following: str, broken: list[str]) -> None:
    """One write settles a change that was applied, and tells of the same change of the next plan."""
    action, operator = "group.version 0 -> 1", {"instance": "operator-1"}
    history = [
        {"action": action, "result": settled, "planHash": "sha256:1"},
        {"action": action, "result": following, "planHash": "sha256:2"},
    ]
    records: list[Record] = [
        stored(0.0, OPERATOR, {"operator": operator}),
        stored(1.0, OPERATOR, {"operator": operator, "intents": [INTENT], "plan": {"hash": "sha256:1"}}),
        sent(1.1),
        Moved(2.0, "A", "group.version", 0, 1, 1),
        Moved(3.0, "A", "group.version", 1, 0, None),
        looked(4.0, "A"),
        stored(5.0, OPERATOR, {"operator": operator, "plan": {"hash": "sha256:2"}, "history": history}),
    ]
    assert [one.rule for one in violations_of(what_became_of_an_effect_is_reported_as_it_was, *records)] == broken
