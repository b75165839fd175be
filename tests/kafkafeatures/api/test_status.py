"""A status that another release or a person wrote: valid fields are read, invalid ones are named, and unknown fields
are written back.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.status import Status, read_status
from tests.kafkafeatures import statuses

AT = "2026-01-01T00:00:00Z"
STATUS: dict[str, Any] = {
    "clusterId": "c",
    "changeCount": 3,
    "spentConsents": ["group.version:1->0"],
    "history": [{"at": AT, "action": "group.version 1 -> 0", "result": "Applied"}],
    "conditions": [{"type": "Ready", "status": "True", "reason": "InSync", "message": "", "lastTransitionTime": AT}],
    "features": [{"name": "group.version", "desired": 0, "state": "InSync"}, {"name": "kraft.version"}],
    "intents": [{"kind": "UpdateFeature", "target": "f", "before": "0", "after": "1", "at": AT, "offset": 9}],
    "plan": {
        "hash": "sha256:0",
        "createdAt": AT,
        "irreversible": False,
        "summary": "",
        "stages": [{"kind": "Levels", "from": {"f": 0}, "to": {"f": 1}}],
    },
    "progress": "1/1 levels",
}


def invalid(status: dict[str, Any]) -> tuple[str, ...]:
    return read_status(status)[1]


def test_statuses_as_the_operator_writes_them_are_valid() -> None:
    assert invalid(STATUS) == ()
    assert invalid({}) == ()
    kinds = (
        statuses.in_sync, statuses.acting, statuses.waiting_for_approval, statuses.stalled,
        statuses.suspended, statuses.observed,
    )  # fmt: skip
    for made in kinds:
        assert invalid(made()) == ()
        assert invalid(statuses.unreachable(made())) == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("intents", ["UpdateFeature"]),
        ("intents", {"kind": "UpdateFeature"}),
        ("plan", {**STATUS["plan"], "stages": [{"kind": "Levels", "from": {"f": 0.5}, "to": {}}]}),
        ("plan", {"hash": "sha256:0", "steps": []}),
        ("history", [{"at": AT, "action": "f 0 -> 1"}]),
        ("history", [{"at": "2026-01-01T00:00:00", "action": "a", "result": "b"}]),
        ("conditions", [{"type": "Ready"}]),
        ("spentConsents", [{"group.version": "1->0"}]),
        ("changeCount", "3"),
        ("changeCount", True),
        ("features", {"name": "f"}),
    ],
    ids=[
        "an intent is text", "intents are no list", "a level is no integer", "a plan without required fields",
        "an entry without a result", "a time without a zone", "a condition without a status", "a consent is no text",
        "a number is text", "a number is a bool", "features are no list",
    ],
)  # fmt: skip
def test_an_invalid_field_of_a_status_is_named_without_the_valid_ones(field: str, value: Any) -> None:
    assert invalid({**STATUS, field: value}) == (field,)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["at", "action", "steps", "x"]), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(STATUS)), JSON))
def test_validation_of_an_arbitrary_status_never_raises(status: dict[str, Any]) -> None:
    assert set(invalid(status)) <= set(status)


NEWER: dict[str, Any] = {
    **STATUS,
    "migration": {"id": "1"},
    "conditions": [{**STATUS["conditions"][0], "severity": "Info"}],
    "intents": [*STATUS["intents"], {"kind": "RestartNode", "nodeId": 3, "podUid": "u"}],
}


def test_unknown_fields_of_another_release_are_written_back_unchanged() -> None:
    assert read_status(NEWER)[0].as_json() == NEWER


@given(st.dictionaries(st.sampled_from(sorted(STATUS)), JSON))
def test_a_status_is_equal_after_it_was_written_and_read_again(status: dict[str, Any]) -> None:
    read, _ = read_status({**STATUS, **status})
    assert read_status(read.as_json()) == (read, ())


def test_a_missing_field_of_a_status_has_its_default() -> None:
    assert read_status({}) == (Status(), ())
    assert Status().as_json() == {}
