"""Rules of the end of a history, when all disturbances are over: each is checked with small written histories."""

from __future__ import annotations

import pytest

from tests.reliability.end_rules import it_settles_and_rests
from tests.reliability.facts import Facts
from tests.reliability.records import Calmed, History, Looked, Moved, Record, Stored

UID, CLUSTER, FEATURE = "1", "A", "group.version"
READY = {"type": "Ready", "status": "False", "reason": "ConflictDetected"}


def moved(at: float, before: int, after: int, by: int | None = None) -> Moved:
    return Moved(at, CLUSTER, FEATURE, before, after, by)


def broken_rules(*moves: Record, unverified: int = 0) -> list[str]:
    """The rules that are broken at the end: the level is 0, the document asks for 1, and the status reports a conflict.
    `unverified`: changes of unknown outcome in the history of the status.
    """
    status = {"conditions": [READY], "history": [{"target": FEATURE, "result": "Unverified"}] * unverified}
    metadata = {"uid": UID, "generation": 1, "creationTimestamp": "2027-01-15T08:00:00Z"}
    stored = Stored(200.0, "MODIFIED", {"metadata": metadata, "spec": {}, "status": status}, "kafkafeatures.dev/1")
    look = Looked(199.0, "operator-1", UID, CLUSTER, {FEATURE: 0}, True, {})
    over = Calmed(300.0, True, {UID: {FEATURE: 1}}, {UID: CLUSTER})
    return [one.rule for one in it_settles_and_rests(Facts(History(0, [*moves, look, stored, over])))]


@pytest.mark.parametrize(
    ("moves", "rules"),
    [
        (
            [moved(10.0, 1, 0), moved(20.0, 0, 1, by=1), moved(30.0, 1, 0), moved(40.0, 0, 1, by=2), moved(50.0, 1, 0)],
            [],
        ),
        ([moved(10.0, 1, 0), moved(20.0, 0, 1, by=1), moved(30.0, 1, 0)], ["settles"]),
        ([moved(10.0, 0, 1), moved(20.0, 0, 1), moved(30.0, 0, 1)], ["settles"]),
        ([moved(10.0, 1, 0), moved(20.0, 0, 2), moved(30.0, 2, 1, by=1), moved(40.0, 1, 0)], []),
        ([moved(10.0, 2, 0), moved(20.0, 0, 2), moved(30.0, 2, 0)], ["settles"]),
    ],
    ids=[
        "changed back three times",
        "changed back twice",
        "changed to what is wanted",
        "changed twice before it was corrected",
        "never what is wanted",
    ],
)
def test_a_level_that_other_clients_change_back_is_not_corrected_after_the_second_reversal(
    moves: list[Record], rules: list[str]
) -> None:
    """A correction stops after two foreign reversals within an hour (`spec.drift.onDrift`), seen or overtaken."""
    assert broken_rules(*moves) == rules


@pytest.mark.parametrize(("unverified", "rules"), [(0, ["settles"]), (1, [])], ids=["none", "one"])
def test_a_correction_of_unknown_outcome_counts_as_a_reversal(unverified: int, rules: list[str]) -> None:
    assert broken_rules(moved(10.0, 1, 0), moved(30.0, 1, 0), unverified=unverified) == rules
