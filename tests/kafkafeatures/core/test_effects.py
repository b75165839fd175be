"""The effects of a level change that a plan lists: features that are turned on or off, and records written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.names import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.binaries import releases_that_hold, supported_by
from kafkafeatures.core.facts.releases import METADATA_VERSIONS, releases
from kafkafeatures.core.levels.effects import ROWS, SHOWN, effects_of
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.levels.way_back import way_back_of

MAX_LENGTH, MAX_LINES = 512, 16  # limits of the CRD
FEATURES = sorted({row.feature for row in ROWS})


def test_every_level_that_a_release_supports_has_one_row() -> None:
    shipped = {
        (feature, level)
        for release in releases()
        for feature, supported in (supported_by(release) or {}).items()
        for level in range(max(supported.min, 1), supported.max + 1)
    }
    assert {(row.feature, row.level) for row in ROWS} == shipped | {
        (METADATA_VERSION, row) for row in METADATA_VERSIONS
    }
    assert len(ROWS) == len({(row.feature, row.level) for row in ROWS})
    assert all(releases_that_hold({row.feature: row.level}) for row in ROWS)


def test_only_records_that_real_controllers_wrote_are_listed_as_effects() -> None:
    """`tests/e2e/kafka/test_effects_of_levels.py` reads their logs."""
    assert [(row.feature, row.level) for row in ROWS if row.writes] == [
        (KRAFT_VERSION, 1), (ELIGIBLE_LEADER_REPLICAS, 1),
    ]  # fmt: skip


def test_the_effects_of_a_raise_list_what_each_level_turns_on_without_levels_that_do_nothing() -> None:
    lines = effects_of(UpdateFeature(METADATA_VERSION, 21, 27))
    assert [line.split(" turns on: ")[0] for line in lines] == [
        "level 23 (4.0-IV1)",
        "level 25 (4.0-IV3)",
        "level 27 (4.1-IV1)",
    ]
    assert lines[0].endswith("partition records can hold eligible leader replicas (KIP-966)")


def test_the_effects_of_a_raise_name_the_records_written_and_of_a_downgrade_those_that_stay() -> None:
    raised = UpdateFeature(ELIGIBLE_LEADER_REPLICAS, 0, 1)
    assert any("writes: min.insync.replicas for all brokers" in line for line in effects_of(raised))
    assert way_back_of(raised).endswith("the min.insync.replicas that was written for all brokers stays")
    lowered = effects_of(UpdateFeature(ELIGIBLE_LEADER_REPLICAS, 1, 0))
    assert [line.split(":")[0] for line in lowered] == ["turns off", "then"]


def test_the_effects_of_a_level_that_turns_nothing_on_say_so() -> None:
    assert effects_of(UpdateFeature(METADATA_VERSION, 27, 28)) == ("turns on nothing by itself",)


@pytest.mark.parametrize("change", [UpdateFeature("vendor.version", 0, 3), UpdateFeature(METADATA_VERSION, 33, 40)])
def test_an_unknown_level_has_unknown_effects(change: UpdateFeature) -> None:
    assert effects_of(change) == (f"what level {change.to_level} does is not known",)


def test_the_effects_of_many_levels_are_shortened_to_the_command_that_lists_all() -> None:
    lines = effects_of(UpdateFeature(METADATA_VERSION, 7, 33))
    # 18 of the 26 levels turn something on: the last 8 lines (`SHOWN`) are shown.
    assert (len(lines), lines[0]) == (SHOWN + 1, "10 more levels: kafkafeatures describe --explain-levels")
    assert lines[-1].startswith("level 33 (4.4-IV2)")


@given(
    st.sampled_from([*FEATURES, "vendor.version"]),
    st.integers(0, 40),
    st.sampled_from([0, 1, 2, 7, 29, 33, 40, 32767]),
)
def test_the_effects_of_any_change_are_few_short_lines(feature: str, before: int, after: int) -> None:
    lines = effects_of(UpdateFeature(feature, before, after))
    assert len(lines) <= MAX_LINES
    assert all(0 < len(line) <= MAX_LENGTH and line.isprintable() for line in lines)
    assert lines or after <= before  # a raise always says something
