"""Sets of node ids as the status writes them: short ranges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.core.facts.node_sets import holds, with_node, without_node


@given(st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_a_node_set_holds_the_nodes_that_were_added_and_no_other_node(ids: set[int], other: int) -> None:
    text = ""
    for id_ in ids:
        text = with_node(text, id_)
    assert all(holds(text, id_) for id_ in ids)
    assert holds(text, other) is (other in ids)


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_a_set_of_node_ids_as_text_holds_the_added_ids_without_the_removed_ones(
    ids: set[int], removed: set[int]
) -> None:
    text = ""
    for id_ in ids:
        text = with_node(text, id_)
    for id_ in removed:
        text = without_node(text, id_)
    assert {id_ for id_ in range(61) if holds(text, id_)} == ids - removed


def test_consecutive_ids_of_a_node_set_are_one_range_and_invalid_parts_are_ignored() -> None:
    assert with_node("1-2, 7", 3) == "1-3, 7"
    assert with_node("x, 5-, 9-4, 2", 11) == "2, 11"
    assert without_node("1-3, 7", 2) == "1, 3, 7"
    assert without_node("0-2000000000", 5) == "0-4, 6-2000000000"
    assert not holds("x, -3, 5-", 3)
    assert holds("0-2000000000", 77)
