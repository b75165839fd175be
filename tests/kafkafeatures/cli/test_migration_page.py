"""The page of a migration: the mode of each broker over time, with its record, and the way back to ZooKeeper."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafkafeatures.api.status import EMPTY, BrokersByMode, EqualityStatus, MigrationStatus, Status, WayBack
from kafkafeatures.api.values import replace
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.migration import MAX_NODES, STYLE_OF_MIGRATIONS
from kafkafeatures.cli.pages.resource import page
from kafkafeatures.cli.shell.html_parts import time_in_log
from kafkafeatures.core.engine.event_records import EventFacts
from kraftlog.modes import MigrationHistory, ModeChange, StateChange
from kraftlog.rolls import RollHistory
from kraftlog.strips import Moment
from tests.kafkafeatures import statuses
from tests.kafkafeatures.cli.test_report_page import NOT_READ, Page
from tests.kafkafeatures.cli.test_roll_page import MS, of_log
from tests.kafkafeatures.statuses import resource
from tests.kraftlog.golden import KRAFT, MIGRATION

HEAD = "Migration from ZooKeeper"
IN_DUAL_WRITE = Status(
    migration=MigrationStatus(
        phase="DualWrite", position="DualWrite", brokers=BrokersByMode(kraft=3), lag_records=7, restarts_left=0,
        equality=EqualityStatus(state="Equal", differences=0),
    ),
    way_back=WayBack(how="to ZooKeeper mode: set spec.migration.desired to RolledBack"),
)  # fmt: skip


def shown(log: RollHistory | str, status: Status = EMPTY, events: tuple[SeenEvent, ...] = ()) -> tuple[Page, str]:
    """The page, and its HTML. `log`: its history, or the reason why it was not read."""
    known = log if isinstance(log, RollHistory) else of_log(KRAFT.read_bytes())
    text = page(resource(status.as_json() or statuses.in_sync()), events, time_in_log(known.end.at_ms), log)
    return Page(text), text


def made(*states: StateChange, modes: tuple[ModeChange, ...] = (), known_from: Moment | None = None) -> RollHistory:
    return RollHistory(
        known_from, Moment(MS + 60_000, 99), (), (), 0, 0, 0, 4, True, 0, MigrationHistory(modes, states)
    )


def of_a_real_log() -> RollHistory:
    """Three brokers and three controllers that were migrated and finalized."""
    return of_log(MIGRATION.read_bytes())


def at(seconds: int) -> Moment:
    return Moment(MS + seconds * 1000, seconds)


def test_real_brokers_have_a_row_with_each_mode_and_the_records_that_prove_it() -> None:
    found, text = shown(of_a_real_log())
    rows = [[row[0], row[1], row[3]] for row in found.rows_under("Each change")]
    assert rows[1:] == [
        ["the cluster", "the quorum waits for the brokers", "offset 4"],
        ["the cluster", "changes are written to both", "offset 409"],
        ["the cluster", "finalized", "offset 837"],
        ["broker 1", "in ZooKeeper mode with the flag", "offset 240"],
        ["broker 2", "in ZooKeeper mode with the flag", "offset 376"],
        ["broker 3", "in ZooKeeper mode with the flag", "offset 390"],
        ["broker 1", "in KRaft mode", "offset 579"],
        ["broker 2", "in KRaft mode", "offset 637"],
        ["broker 3", "in KRaft mode", "offset 694"],
    ]
    drawn = [(row[0], row[2]) for row in found.rows_under("Modes of 3 brokers")[1:]]
    assert drawn == [
        ("the cluster", "finalized: behind the point of no return"),
        *((f"broker {id_}", "KRaft mode") for id_ in (1, 2, 3)),
    ]
    tracks = re.findall(r'<div class="track">(.*?)</div>', text)[:4]
    styles = [re.findall(r'class="(\w+)"', one) for one in tracks]
    assert styles == [["waits", "both", "finalized"], *[["zookeeper", "flagged", "kraft"]] * 3]


def test_the_log_of_a_migration_proves_that_the_point_of_no_return_was_passed() -> None:
    found, _ = shown(of_a_real_log(), IN_DUAL_WRITE)  # a status that is older than the log
    assert "The point of no return was passed" in found.text
    assert "offset 837. The cluster cannot go back to ZooKeeper." in found.text
    assert "was not passed" not in found.text


def test_in_dual_write_the_page_has_lag_equality_and_the_way_back() -> None:
    found, _ = shown(made(StateChange(2, at(0)), StateChange(1, at(30))), IN_DUAL_WRITE)
    assert "The point of no return was not passed" in found.text
    assert "to ZooKeeper mode: set spec.migration.desired to RolledBack" in found.text
    assert "ZooKeeper is 7 records behind the metadata log" in found.text
    assert "ZooKeeper and the metadata log held the same" in found.text


@pytest.mark.parametrize(("phase", "message"), [("Finalizing", "is being passed"), ("Finalized", "was passed")])
def test_the_page_takes_the_point_of_no_return_from_the_status_without_the_log(phase: str, message: str) -> None:
    found, _ = shown(NOT_READ, Status(migration=MigrationStatus(phase=phase)))
    assert f"The point of no return {message}" in found.text


def test_the_way_back_is_shown_as_long_as_it_is_open_while_finalizing() -> None:
    status = IN_DUAL_WRITE.migration or MigrationStatus()
    found, _ = shown(NOT_READ, replace(IN_DUAL_WRITE, migration=replace(status, phase="Finalizing")))
    assert "The point of no return was not passed" in found.text
    assert "Way back" in found.text


def test_an_unknown_way_back_is_reported_as_unknown() -> None:
    found, _ = shown(NOT_READ, Status(migration=MigrationStatus(phase="DualWrite")))
    assert "No way back is known" in found.text


def test_the_page_takes_phases_from_events_without_the_log_and_says_what_is_missing() -> None:
    events = (
        SeenEvent(
            at="2026-01-02T03:00:00Z", reason="MigrationPhaseChanged", note="",
            facts=EventFacts(before="Migrating", after="DualWrite"),
        ),
        SeenEvent(at="2026-01-02T03:01:00Z", reason="MigrationPhaseChanged", note="of an older release"),
    )  # fmt: skip
    found, _ = shown(NOT_READ, IN_DUAL_WRITE, events)
    assert found.rows_under("Phases, when the operator saw them")[1:] == [
        ["2026-01-02 03:00:00 UTC", "Migrating", "DualWrite"]
    ]
    assert "The modes of each broker over time are not shown" in found.text
    assert NOT_READ.replace("`", "") in found.text


def test_the_page_of_a_cluster_that_never_used_zookeeper_has_no_migration() -> None:
    for log in (of_log(KRAFT.read_bytes()), NOT_READ, made(StateChange(0, at(0)))):
        assert HEAD not in shown(log)[0].text


def test_a_mode_read_from_a_snapshot_is_dated_by_the_snapshot() -> None:
    modes = (ModeChange(1, in_kraft=True, at=at(5)),)
    found, _ = shown(made(StateChange(1, at(5)), modes=modes, known_from=at(5)))
    rows = found.rows_under("Each change")[1:]
    assert [row[2] for row in rows] == ["by 2026-01-02 03:04:10 UTC"] * 2


def test_an_unregistered_broker_is_no_longer_drawn_and_an_unknown_state_is_shown_as_a_number() -> None:
    modes = (ModeChange(1, in_kraft=False, at=at(1)), ModeChange(1, in_kraft=None, at=at(9)))
    found, text = shown(made(StateChange(2, at(0)), StateChange(9, at(4)), modes=modes))
    rows = [row[:2] for row in found.rows_under("Each change")[1:]]
    assert rows[1] == ["the cluster", "state 9"]
    assert rows[3] == ["broker 1", "unregistered"]
    (_, width), *_ = re.findall(r'class="flagged" style="left:([\d.]+)%;width:([\d.]+)%', text)
    assert float(width) < 14  # percent of a minute: from the first second to the ninth


def test_brokers_above_the_maximum_of_the_chart_are_counted() -> None:
    modes = tuple(ModeChange(id_, in_kraft=True, at=at(1)) for id_ in range(MAX_NODES + 5))
    found, _ = shown(made(StateChange(1, at(0)), modes=modes))
    caption = next(words for _, words in found.captions if words.startswith("Modes of"))
    assert caption.endswith("5 more are in the table")
    assert len(found.rows_under("Modes of")) == MAX_NODES + 2


def test_texts_of_a_status_are_escaped_on_the_migration_page() -> None:
    evil: Any = "<script>alert(1)</script>"
    status = Status(migration=MigrationStatus(phase=evil, kept_migration_node=evil), way_back=WayBack(how=evil))
    _, text = shown(evil, status)
    assert "<script" not in text


def test_each_mode_and_phase_of_the_chart_has_its_own_pattern_or_height() -> None:
    """Without colours, all rules differ: the page can be read by people who do not see colours."""
    rules = re.findall(r"\.(zookeeper|flagged|kraft|waits|both|finalized) \{ (.*?) \}", STYLE_OF_MIGRATIONS)
    drawn = {name: re.sub(r"var\(--\w+\)", "colour", rule) for name, rule in rules}
    assert len(drawn) == len(set(drawn.values())) == 6
