"""The lines about a migration that `status`, `plan` and the page of a report print."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import BrokersByMode, EqualityStatus, MigrationStatus, RolloutStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.report.migration_lines import equality_line, forecast, migration_lines

COMPARED_AT = Stamp("2026-01-02T03:04:05Z")
HALF_WAY = MigrationStatus(
    phase="Migrating", position="Copied", since=COMPARED_AT, brokers=BrokersByMode(flagged=2, kraft=1), lag_records=1,
    equality=EqualityStatus(at=COMPARED_AT, state="Equal", differences=0), restarts_left=2,
)  # fmt: skip


def test_the_lines_of_a_migration_show_phase_modes_lag_comparison_and_restarts() -> None:
    assert [*migration_lines(HALF_WAY)] == [
        "phase Migrating (Copied), since 2026-01-02T03:04:05Z",
        "brokers: 0 in ZooKeeper mode, 2 with the flag, 1 in KRaft mode",
        "ZooKeeper is 1 record behind the metadata log",
        "ZooKeeper and the metadata log held the same metadata at 2026-01-02T03:04:05Z",
        "2 restarts of nodes left; how long each takes is not known yet",
    ]


def test_the_lines_of_a_migration_leave_out_unknown_values_or_call_them_unknown() -> None:
    assert [*migration_lines(MigrationStatus(phase="None", position="ZooKeeper"))] == [
        "phase None (ZooKeeper)", "how many restarts are left is not known",
    ]  # fmt: skip


def test_the_lines_of_a_migration_show_the_content_of_the_deleted_znode() -> None:
    assert '/migration was {"version":0}' in [*migration_lines(replace(HALF_WAY, kept_migration_node='{"version":0}'))]


@dataclass(frozen=True)
class RestartsLeft:
    """A forecast. `seconds_before`, `seconds_in_roll`: average duration of a restart in earlier rolls and in the
    present one; 0: none is known.
    """

    restarts: int | None
    seconds_before: int
    seconds_in_roll: int
    says: str


@pytest.mark.parametrize(
    "left",
    [
        RestartsLeft(None, seconds_before=40, seconds_in_roll=0, says="how many restarts are left is not known"),
        RestartsLeft(0, seconds_before=40, seconds_in_roll=0, says="no restart of a node is left"),
        RestartsLeft(
            1,
            seconds_before=40,
            seconds_in_roll=0,
            says="1 restart of nodes left, about 40 s of restarts: each has taken 40 s on average",
        ),
        RestartsLeft(
            6,
            seconds_before=40,
            seconds_in_roll=0,
            says="6 restarts of nodes left, about 4 min of restarts: each has taken 40 s on average",
        ),
        RestartsLeft(
            6,
            seconds_before=40,
            seconds_in_roll=90,
            says="6 restarts of nodes left, about 9 min of restarts: each has taken 90 s on average",
        ),
    ],
    ids=lambda left: left.says,
)
def test_the_forecast_is_the_number_of_restarts_times_the_duration_of_one(left: RestartsLeft) -> None:
    half_way = replace(HALF_WAY, restarts_left=left.restarts, node_seconds=left.seconds_before)
    assert forecast(half_way, RolloutStatus(node_seconds=left.seconds_in_roll)) == left.says


@pytest.mark.parametrize(
    ("state", "differences", "says"),
    [
        ("Differs", 7, "ZooKeeper and the metadata log differ: 7 differences at 2026-01-02T03:04:05Z"),
        (
            "Unknown",
            None,
            "it is not known whether ZooKeeper and the metadata log hold the same metadata; last compared at "
            "2026-01-02T03:04:05Z",
        ),
        (
            "Unknown",
            7,
            "it is not known whether ZooKeeper and the metadata log hold the same metadata; when last compared at "
            "2026-01-02T03:04:05Z, 7 differences",
        ),
        (
            "Unknown",
            0,
            "it is not known whether ZooKeeper and the metadata log hold the same metadata; when last compared at "
            "2026-01-02T03:04:05Z, they held the same",
        ),
        ("", None, "it is not known whether ZooKeeper and the metadata log hold the same metadata; last compared at "
                   "2026-01-02T03:04:05Z"),
    ],
    ids=["differ", "never known", "unknown, differed before", "unknown, equal before", "state of another release"],
)  # fmt: skip
def test_the_comparison_line_says_the_same_metadata_only_where_the_stores_were_equal(
    state: str, differences: int | None, says: str
) -> None:
    assert equality_line(EqualityStatus(at=COMPARED_AT, state=state, differences=differences)) == says
