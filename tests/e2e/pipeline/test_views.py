"""The SQL views on Spark, over the tables of a generated fleet: their rows are what happened in the fleet."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from featurelog.gate import Target
from featurelog.views import VIEWS
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkasim.fleet.history import History
from kafkasim.fleet.plan import Story
from kraftlog.schema import table
from tests.e2e.pipeline import sparks
from tests.e2e.pipeline.page import program
from tests.e2e.pipeline.views import ON_THE_PAGE
from tests.featurelog.fleet import AT_MS, gate
from tests.kafkasim.fleets import histories, history_with, written

RELEASE = "4.2"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of a run."""
    folder = tmp_path_factory.mktemp("views")
    fleet = f"inputs: [{written()}/logs]\ndocuments: {written()}/documents\n"
    (folder / "pipeline.yaml").write_text(f"{fleet}output: tables\nspark: {{enabled: false}}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: AT_MS / 1000)
        assert main(["pipeline", "run", "--config", str(folder / "pipeline.yaml")]) == Exit.DONE
    return folder


@pytest.fixture(scope="module", params=["", *sparks.OLDER])
def answers(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """The rows of the views in one version of Spark, over these tables and over none; the versions are those of
    `test_source`.
    """
    interpreter = sparks.python(request.param)
    values = (str(folder / "tables"), str(folder / "none"), RELEASE)
    done = sparks.script("tests.e2e.pipeline.views", *values, interpreter=interpreter, cwd=folder)
    found: dict[str, Any] = sparks.said(done)
    assert found["version"].startswith(request.param)
    return found


def test_every_view_exists_and_is_empty_without_tables(answers: dict[str, Any]) -> None:
    assert answers["empty"] == {name: [] for name in VIEWS}


def test_the_view_fleet_blockers_has_the_blockers_of_the_command_gate(answers: dict[str, Any]) -> None:
    found = answers["views"]["fleet_blockers"]
    expected = gate(Target("release", RELEASE)).clusters
    nodes = {
        (one.name.cluster, node["role"], node["node_id"], node["feature"], node["offset"])
        for one in expected
        for node in (one.row or {})["blocking_nodes"]
    }
    by_kind = {kind: [row for row in found if row["kind"] == kind] for kind in ("node", "loss", "other", "unknown")}
    assert {
        (row["cluster"], row["role"], row["node_id"], row["feature"], row["evidence_offset"]) for row in by_kind["node"]
    } == nodes
    assert [(row["cluster"], row["reason"]) for row in by_kind["other"]] == [
        (history_with(Story.STUCK_MIGRATION).plan.name, "Migration")
    ]
    ready = {one.name.cluster for one in expected if one.verdict == "ready"}
    assert ready
    assert {row["cluster"] for row in found} == histories().keys() - ready


def test_the_view_ghosts_has_the_three_ghosts_of_the_fleet(answers: dict[str, Any]) -> None:
    plans = [history.plan for history in histories().values() if history.plan.ghost is not None]
    assert len(plans) == 3
    assert {(row["cluster"], row["role"], row["node_id"]) for row in answers["views"]["ghosts"]} == {
        (plan.name, "controller" if plan.story is Story.GHOST_CONTROLLER else "broker", plan.ghost) for plan in plans
    }


def test_the_query_of_a_view_on_the_page_about_the_pipeline_prints_what_it_shows(answers: dict[str, Any]) -> None:
    assert answers["page"] == program(ON_THE_PAGE)[1]


def test_the_view_drift_has_the_level_that_was_changed_by_hand(answers: dict[str, Any]) -> None:
    (row,) = answers["drift"]
    assert (row["cluster"], row["feature"], row["level"], row["desired_level"]) == (
        history_with(Story.CHANGED_BY_HAND).plan.name, "share.version", 0, 1,
    )  # fmt: skip


def test_the_view_stuck_migrations_has_the_migration_that_waits_for_its_last_broker(answers: dict[str, Any]) -> None:
    (row,) = answers["views"]["stuck_migrations"]
    plan = history_with(Story.STUCK_MIGRATION).plan
    assert (row["cluster"], row["state_name"], row["zk_brokers_remaining"]) == (
        plan.name,
        "MIGRATION",
        [plan.brokers[-1]],
    )


def test_the_view_what_finalized_when_attributes_changes_of_the_operator_and_leaves_others_unattributed(
    answers: dict[str, Any],
) -> None:
    found = [row for row in answers["views"]["what_finalized_when"] if row["finalized_at"] is not None]
    by_hand = history_with(Story.CHANGED_BY_HAND).plan.name
    assert ("share.version", 0, "Unattributed") in {
        (row["feature"], row["level"], row["attribution"]) for row in found if row["cluster"] == by_hand
    }
    for row in found:
        changes = histories()[row["cluster"]].changes
        (change,) = (
            one
            for one in changes
            if (one.feature, one.after, one.before) == (row["feature"], row["level"], row["previous_level"])
        )
        assert (row["attribution"] != "Unattributed") is change.by_operator


def test_the_view_roll_durations_has_the_time_of_each_roll(answers: dict[str, Any]) -> None:
    found = answers["views"]["roll_durations"]
    restarted = {name: roll for name in histories() if (roll := roll_of(histories()[name])) is not None}
    assert restarted
    for name, (began, brokers) in restarted.items():
        (roll,) = (row for row in found if row["cluster"] == name and row["nodes"] >= brokers)
        assert str(roll["started"]) <= began
        assert roll["ended"] is not None
    # The flapping broker was away 24 times; a few of them may be one roll.
    assert len([row for row in found if row["cluster"] == history_with(Story.FLAPPING).plan.name]) >= 20


def roll_of(history: History) -> tuple[str, int] | None:
    """The roll without an upgrade in a history: the time at which its first broker registered again, and how many did.
    None if there is no such roll.
    """
    if history.plan.restarted is None:
        return None
    since = history.began_ms + history.plan.restarted * 86_400_000
    again = [one for one in history.written if one.write.type is table.REGISTER_BROKER and one.at_ms >= since]
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(again[0].at_ms / 1000))
    return moment, len(again)
