"""Label selectors: as a query to the API server, and compared with the labels of an object."""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.kube.workloads.selectors import as_query, selects

EVERY_KIND: dict[str, Any] = {
    "matchLabels": {"app": "kafka"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "zone", "operator": "NotIn", "values": ["x"]},
        {"key": "kept", "operator": "Exists"},
        {"key": "gone", "operator": "DoesNotExist"},
    ],
}


def test_every_requirement_of_a_selector_is_in_the_query() -> None:
    assert as_query(EVERY_KIND) == "app=kafka,tier in (a,b),zone notin (x),kept,!gone"


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {}}, {"matchExpressions": []}])
def test_an_empty_selector_is_refused_as_a_query(selector: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="every pod"):
        as_query(selector)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"app": "kafka", "tier": "a", "kept": ""}, True),
        ({"app": "kafka", "tier": "b", "zone": "y", "kept": "1"}, True),
        ({"app": "other", "tier": "a", "kept": ""}, False),
        ({"app": "kafka", "tier": "c", "kept": ""}, False),
        ({"app": "kafka", "kept": ""}, False),
        ({"app": "kafka", "tier": "a", "zone": "x", "kept": ""}, False),
        ({"app": "kafka", "tier": "a"}, False),
        ({"app": "kafka", "tier": "a", "kept": "", "gone": ""}, False),
    ],
    ids=[
        "all, without the label of NotIn", "all, with another value of NotIn", "another value", "a value not in In",
        "no label of In", "a value in NotIn", "no label of Exists", "the label of DoesNotExist",
    ],
)  # fmt: skip
def test_labels_have_to_meet_every_requirement(labels: dict[str, str], expected: bool) -> None:
    assert selects(EVERY_KIND, labels) is expected


def test_a_missing_selector_selects_nothing_and_an_empty_selector_everything() -> None:
    assert not selects(None, {"app": "kafka"})
    assert selects({}, {"app": "kafka"})


def test_an_unknown_operator_of_a_selector_is_an_error() -> None:
    newer = {"matchExpressions": [{"key": "cpu", "operator": "Gt", "values": ["1"]}]}
    with pytest.raises(ValueError, match="Gt"):
        as_query(newer)
    with pytest.raises(ValueError, match="Gt"):
        selects(newer, {"cpu": "2"})
