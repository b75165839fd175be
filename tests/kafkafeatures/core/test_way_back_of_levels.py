"""The way back of a level change, and the metadata that it would lose, in a line with each step of a plan."""

from __future__ import annotations

import pytest

from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.releases import METADATA_VERSIONS, Undo, floor_of
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.levels.way_back import way_back_of
from tests.kafkafeatures.deciding import plan_of, propose
from tests.kafkafeatures.worlds import observation


@pytest.mark.parametrize(
    ("feature", "before", "after", "text"),
    [
        (
            "metadata.version", 25, 29,
            "way back to 25 (4.0-IV3), down to 23 (4.0-IV1): downgrade; nothing is lost",
        ),
        ("metadata.version", 23, 29, "way back to 23 (4.0-IV1): downgrade; nothing is lost"),
        ("metadata.version", 25, 30, "no way back: Kafka refuses to downgrade below 30 (4.3-IV0)"),
        ("metadata.version", 21, 27, "way back only to 23 (4.0-IV1): Kafka refuses to downgrade further"),
        ("metadata.version", 25, 99, "no way back is known: 99 is not a level that this version knows"),
        ("metadata.version", 29, 25, "way back to 29 (4.2-IV1): raise it again; nothing is lost"),
        ("kraft.version", 0, 1, "no way back: a dynamic quorum stays dynamic"),
        ("share.version", 0, 1, "way back to 0: downgrade; members of share groups are refused"),
        ("metadata.version", 25, 22, ""),  # Kafka refuses the downgrade
        ("kraft.version", 1, 0, ""),
        ("share.version", 1, 0, "way back to 1: raise it again; what the downgrade removed stays lost"),
    ],
)  # fmt: skip
def test_the_way_back_of_a_change_has_the_level_and_what_would_be_lost(
    feature: str, before: int, after: int, text: str
) -> None:
    change = UpdateFeature(feature, before, after)
    assert way_back_of(change) == text
    (work,) = plan_of((change,), {feature: before}, uid="", cluster_id="", change_count=0).work
    assert [step.way_back for step in work.steps] == [text]


@pytest.mark.parametrize("after", sorted(METADATA_VERSIONS))
def test_a_change_has_a_way_back_exactly_where_kafka_allows_the_downgrade(after: int) -> None:
    for before in range(floor_of(after) or 1, after):
        assert UpdateFeature("metadata.version", before, after).undo is Undo.SAFE
        assert way_back_of(UpdateFeature("metadata.version", before, after)).startswith(f"way back to {before} (")
    for before in range(1, floor_of(after) or 1):
        assert UpdateFeature("metadata.version", before, after).undo is Undo.IMPOSSIBLE
        assert "Kafka refuses" in way_back_of(UpdateFeature("metadata.version", before, after))


def test_a_change_of_a_feature_that_no_node_supports_has_no_way_back() -> None:
    """A misspelt name in a document, for example: "metadata.versoin"."""
    proposal = propose(DesiredState(levels={"metadata.versoin": 5, "metadata.version": 1}), observation())
    steps = {
        step.detail: (step.undo, step.reversible, step.way_back) for work in proposal.plan.work for step in work.steps
    }
    assert steps["metadata.versoin 0 -> 5"] == ("", False, "")
    assert all(undo for detail, (undo, _, _) in steps.items() if "versoin" not in detail)
    assert len(steps) > 1
