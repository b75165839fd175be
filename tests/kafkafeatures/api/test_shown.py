"""A status as it is shown to people: valid fields as the operator reads them, damaged ones left
out, and no exception.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.shown import shown
from kafkafeatures.api.status import EMPTY, Status, read_status
from tests.kafkafeatures import statuses

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WHOLE = {
    "approval": statuses.waiting_for_approval(),
    "soaking": statuses.soaking(),
    "stalled": statuses.stalled(),
    "unreachable": statuses.unreachable(statuses.acting()),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_valid_status_is_shown_as_the_operator_reads_it(kind: str) -> None:
    assert shown(Status, WHOLE[kind]) == read_status(WHOLE[kind])[0]


@given(st.data())
def test_a_damaged_status_is_displayed_and_a_valid_one_is_displayed_as_the_operator_reads_it(
    data: st.DataObject,
) -> None:
    raw: dict[str, Any] = json.loads(json.dumps(data.draw(st.sampled_from(list(WHOLE.values())))))
    for _ in range(data.draw(st.integers(1, 4))):
        _damage(raw, data)
    displayed, (read, invalid) = shown(Status, raw), read_status(raw)
    if not invalid:
        assert displayed == read


def _damage(raw: dict[str, Any], data: st.DataObject) -> None:
    """Replace one value in the status, at any depth."""
    inside: Any = raw
    while True:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(inside[key], dict | list) and data.draw(st.booleans()):
            inside = inside[key]
            continue
        inside[key] = data.draw(JSON)
        return


@given(JSON)
def test_a_value_of_any_shape_is_shown_with_no_field_that_it_does_not_have(raw: Any) -> None:
    assert shown(Status, raw).as_json().keys() <= (raw.keys() if isinstance(raw, dict) else set())
    assert shown(Status, None) == EMPTY


def test_invalid_fields_of_a_status_are_left_out_and_valid_ones_shown() -> None:
    status = shown(Status, {"plan": {"steps": [{"detail": "x"}, {}, 3]}, "changeCount": "many", "blockers": "none"})
    assert status.plan is not None
    assert [(step.id, step.detail) for step in status.plan.steps] == [("", "x"), ("", "")]
    assert (status.change_count, status.blockers) == (0, ())
    ready = shown(Status, {"conditions": [{"type": "Ready", "lastTransitionTime": "long ago"}]}).conditions[0]
    assert (ready.type, ready.last_transition_time, ready.message) == ("Ready", "long ago", "")
