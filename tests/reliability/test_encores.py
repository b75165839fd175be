"""Encores, which are further acts at the end of a history: they change no earlier record and break no promise.

Then the rules that encores need, each checked with small written histories.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from kafkafeatures.core.facts.observation import Known, Source, SourceKind
from kafkafeatures.core.levels.accounted import why_restored
from tests.amounts import some
from tests.reliability import simulation
from tests.reliability.checker import violations
from tests.reliability.encores import ENCORES, drawn
from tests.reliability.facts import Facts
from tests.reliability.hands import Hands
from tests.reliability.level_rules import (
    a_consent_of_before_needs_an_approval,
    levels_are_moved_in_order,
    others_end_a_plan,
    others_use_up_a_consent,
)
from tests.reliability.log_rules import ACCEPT, nothing_is_done_on_a_restored_log
from tests.reliability.records import (
    Approved,
    Asked,
    Calmed,
    History,
    Looked,
    Moved,
    Record,
    Restored,
    Sent,
    Stopped,
    Stored,
)
from tests.reliability.roll_encores import ROLL_ENCORES
from tests.reliability.simulation import simulate

HEALTHY, ROLLING = 5, 31
"""Seeds of a history of levels, and of one of rolls, whose clusters are healthy at the end."""


def history_with(encore: Callable[[Hands], Awaitable[None]] | None, seed: int) -> History:
    """The history of this seed, with this encore or without any."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "encore_of", lambda scene: encore)
        return simulate(seed)


@cache
def without(seed: int) -> History:
    return history_with(None, seed)


@pytest.mark.parametrize("encore", dict.fromkeys(ENCORES), ids=lambda one: one.__name__)
def test_an_encore_changes_no_earlier_record_of_its_history_and_breaks_no_promise(
    encore: Callable[[Hands], Awaitable[None]],
) -> None:
    history, plain = history_with(encore, HEALTHY), without(HEALTHY)
    at = next(float(act.split()[0]) for act in history.acts if "encore" in act)
    before = [one for one in history.records if one.at < at]
    assert before == plain.records[: len(before)]
    assert any(isinstance(one, Stored | Sent) and one.at > at for one in history.records)
    assert violations(history) == []


@pytest.mark.parametrize("encore", some(dict.fromkeys(ROLL_ENCORES)), ids=lambda one: one.__name__)
def test_an_encore_of_a_roll_breaks_no_promise(encore: Callable[[Hands], Awaitable[None]]) -> None:
    history = history_with(encore, ROLLING)
    assert violations(history) == []
    at = next(float(act.split()[0]) for act in history.acts if "encore" in act)
    calm = next(one.at for one in history.records if isinstance(one, Calmed))
    begun = [one for one in history.records if isinstance(one, Asked | Stopped) and at < one.at < calm]
    assert begun


def test_every_encore_is_played_in_some_history() -> None:
    assert {drawn(seed) for seed in range(1_000)} == {*ENCORES, *ROLL_ENCORES, None}


def test_the_simulated_person_reads_the_position_to_accept_from_the_message_of_the_status() -> None:
    """The expression of the simulation fits the message that the operator writes."""
    from tests.reliability.hands import _ASKED

    source = Source(SourceKind.METADATA_LOG, 7, 3)
    seen: Any = type("Seen", (), {"source": source, "cluster_id": Known("A", SourceKind.API_REQUESTS, "", None)})  # type: ignore[arg-type]
    missing: Any = type("Position", (), {"offset": 9})
    match = _ASKED.search(why_restored(seen, missing, is_spent=True))
    assert match is not None
    assert match[1] == "A@3"


# --- the rules, each checked with small written histories ---

UID, OPERATOR, PERSON = "1", "kafkafeatures.dev/ops/operator", "kubectl-edit"
POSITION = {"offset": 100, "epoch": 2}


def stored(at: float, by: str = OPERATOR, **parts: Any) -> Stored:
    spec = {"cluster": {}, "consents": parts.pop("consents", []), "features": {"levels": parts.pop("levels", [])}}
    metadata = {"uid": UID, "generation": 1, "annotations": parts.pop("annotations", {})}
    status = {"operator": {"instance": "o"}, "observedGeneration": 1, "clusterId": "A", **parts}
    return Stored(at, "MODIFIED", {"metadata": metadata, "spec": spec, "status": status}, by)


def looked(at: float, levels: Mapping[str, int] | None = None, *, end: int = 120, epoch: int = 2) -> Looked:
    return Looked(at, "o", UID, "A", levels or {}, True, {}, end=end, epoch=epoch)


def intent(feature: str, before: int, after: int) -> list[dict[str, Any]]:
    return [{"kind": "UpdateFeature", "target": feature, "before": str(before), "after": str(after), "at": "now"}]


def sent(at: float, feature: str, before: int, after: int) -> Sent:
    return Sent(at, "o", UID, "A", feature, before, after, 1)


def broken_rules(rule: Callable[[Facts], Any], *records: Record) -> list[str]:
    return [one.rule for one in rule(Facts(History(0, list(records))))]


WANTED = [{"name": name, "level": level} for name, level in (("metadata.version", 29), ("transaction.version", 1))]


@pytest.mark.parametrize(
    ("feature", "before", "after", "broken"),
    [("metadata.version", 25, 29, ["order of levels"]), ("transaction.version", 2, 1, [])],
    ids=["metadata.version first", "its dependent first"],
)
def test_a_downgrade_of_metadata_version_before_its_dependents_breaks_the_promise(
    feature: str, before: int, after: int, broken: list[str]
) -> None:
    records: list[Record] = [
        stored(0.0, levels=WANTED),
        looked(10.0, {"metadata.version": 25, "transaction.version": 2}),
        stored(11.0, levels=WANTED, intents=intent(feature, before, after)),
        sent(12.0, feature, before, after),
    ]
    assert broken_rules(levels_are_moved_in_order, *records) == broken


@pytest.mark.parametrize(
    ("agreed", "broken"),
    [(None, ["order of levels"]), ({"transaction.version": 1}, [])],
    ids=["nodes do not agree", "all nodes report the lower level"],
)
def test_the_order_of_levels_is_judged_by_all_nodes_where_the_active_controller_does_not_answer(
    agreed: dict[str, int] | None, broken: list[str]
) -> None:
    look = looked(10.0, {"metadata.version": 25, "transaction.version": 2})
    records: list[Record] = [
        stored(0.0, levels=WANTED),
        replace(look, log=False, agreed=agreed),
        stored(11.0, levels=WANTED, intents=intent("metadata.version", 25, 29)),
        sent(12.0, "metadata.version", 25, 29),
    ]
    assert broken_rules(levels_are_moved_in_order, *records) == broken


CONSENT = ["transaction.version:2->1"]
DOWN = intent("transaction.version", 2, 1)


@pytest.mark.parametrize(
    ("given_first", "broken"),
    [(CONSENT, ["first contact"]), ([], [])],
    ids=["the consent was always there", "the consent was removed and added again"],
)
def test_a_downgrade_with_a_consent_older_than_the_status_breaks_the_promise(
    given_first: list[str], broken: list[str]
) -> None:
    records: list[Record] = [
        stored(0.0, consents=CONSENT, clusterId=""),
        stored(1.0, consents=given_first),
        stored(2.0, PERSON, consents=CONSENT),
        stored(3.0, consents=CONSENT, intents=DOWN),
        sent(4.0, "transaction.version", 2, 1),
    ]
    assert broken_rules(a_consent_of_before_needs_an_approval, *records) == broken


@pytest.mark.parametrize(
    ("by", "broken"), [(None, ["consent"]), (7, [])], ids=["changed by another client", "changed by our request 7"]
)
def test_a_consent_is_used_by_the_change_of_any_client(by: int | None, broken: list[str]) -> None:
    records: list[Record] = [
        stored(0.0, consents=CONSENT, logPosition=POSITION),
        Moved(1.0, "A", "transaction.version", 2, 1, by),
        Moved(2.0, "A", "transaction.version", 1, 2, by),
        looked(10.0),
        stored(11.0, consents=CONSENT, logPosition=POSITION, intents=DOWN),
        sent(12.0, "transaction.version", 2, 1),
    ]
    assert broken_rules(others_use_up_a_consent, *records) == broken


@pytest.mark.parametrize(
    ("moved", "broken"),
    [("group.version", ["approval"]), ("share.version", [])],
    ids=["a level of the plan", "another level"],
)
def test_an_approval_ends_where_another_client_changes_a_level_of_the_plan(moved: str, broken: list[str]) -> None:
    plan = {"hash": "sha256:1", "approvedBy": "Annotation"}
    records: list[Record] = [
        stored(0.0, logPosition=POSITION, plan=plan),
        Approved(1.0, UID, "sha256:1", ("group.version 0 -> 1", "transaction.version 0 -> 1")),
        Moved(2.0, "A", moved, 0, 1, None),
        looked(10.0),
        stored(11.0, logPosition=POSITION, plan=plan, intents=intent("transaction.version", 0, 1)),
        sent(12.0, "transaction.version", 0, 1),
    ]
    assert broken_rules(others_end_a_plan, *records) == broken


@pytest.mark.parametrize(
    ("at", "before", "broken"),
    [
        pytest.param(1.5, 0, ["approval"], id="before the step was decided"),
        pytest.param(2.5, 0, [], id="between the decision and the request"),
        pytest.param(2.5, 2, ["approval"], id="a change from another level"),
        pytest.param(4.5, 0, [], id="while the outcome of the step is not known"),
        pytest.param(7.5, 0, ["approval"], id="after the outcome of the step is known"),
    ],
)
def test_a_step_that_another_client_takes_is_attributed_to_that_client(
    at: float, before: int, broken: list[str]
) -> None:
    plan, group = {"hash": "sha256:1", "approvedBy": "Annotation"}, intent("group.version", 0, 1)
    records: list[Record] = [
        stored(0.0, logPosition=POSITION, plan=plan),
        Approved(1.0, UID, "sha256:1", ("group.version 0 -> 1", "transaction.version 0 -> 1")),
        looked(2.0),
        stored(3.0, logPosition=POSITION, plan=plan, intents=group),
        sent(4.0, "group.version", 0, 1),
        looked(6.0, {"group.version": 1}),
        stored(7.0, logPosition=POSITION, plan=plan),
        looked(12.0),
        stored(13.0, logPosition=POSITION, plan=plan, intents=intent("transaction.version", 0, 1)),
        sent(14.0, "transaction.version", 0, 1),
        Moved(at, "A", "group.version", before, 1, None),
    ]
    assert broken_rules(others_end_a_plan, *sorted(records, key=lambda one: one.at)) == broken


@pytest.mark.parametrize(
    ("end", "epoch", "accepted", "broken"),
    [
        pytest.param(90, 3, "", ["restored log"], id="it ends before the position of the status"),
        pytest.param(150, 1, "", ["restored log"], id="it has an older epoch"),
        pytest.param(150, 3, "", ["restored log"], id="it went on from before the position, in a newer epoch"),
        pytest.param(150, 2, "", [], id="it has the same epoch and a later end, so nothing shows the restore"),
        pytest.param(90, 3, "A@3", [], id="a person accepted it"),
        pytest.param(90, 3, "yes", ["restored log"], id="the annotation accepts no position"),
    ],
)
def test_a_step_that_is_sent_on_a_restored_log_breaks_the_promise(
    end: int, epoch: int, accepted: str, broken: list[str]
) -> None:
    given = {ACCEPT: accepted} if accepted else {}
    records: list[Record] = [
        stored(0.0, logPosition=POSITION),
        Restored(1.0, "A", 80),
        looked(2.0, end=end, epoch=epoch),
        stored(3.0, PERSON, logPosition=POSITION, annotations=given),
        sent(4.0, "group.version", 0, 1),
    ]
    assert broken_rules(nothing_is_done_on_a_restored_log, *records) == broken
