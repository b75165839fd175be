"""`kafkafeatures pipeline gate` and `report` on the tables that a run made of a generated fleet."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from featurelog.gate import Verdict
from kafkafeatures.api.values import replace
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkasim.fleet.fleet import write_fleet
from kafkasim.fleet.plan import SMALL, UNTIL_MS, Story, draw
from tests.kafkafeatures.cli.test_report_page import Page

SCALE = replace(SMALL, clusters=7, days=6, kept_days=4, partitions=3)
HOUR = 3600
NAMES = {plan.story: plan.name for plan in draw(SCALE, 1)}
EVIL = "..<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration for a fleet that was read an hour after its logs were copied. The folder of the stuck migration
    has a harmful name, and one more folder has no log.
    """
    folder = tmp_path_factory.mktemp("gate")
    write_fleet(folder / "fleet", SCALE)
    logs = folder / "fleet" / "logs"
    shutil.move(logs / NAMES[Story.STUCK_MIGRATION], logs / EVIL)
    (logs / "empty" / "1" / "__cluster_metadata-0").mkdir(parents=True)
    path = folder / "pipeline.yaml"
    path.write_text("inputs: [fleet/logs]\noutput: tables\ndocuments: fleet/documents\nspark: {enabled: false}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: UNTIL_MS / 1000 + HOUR)
        assert main(["pipeline", "run", "--config", str(path)]) == Exit.DONE
        yield path


def gate(capsys: pytest.CaptureFixture[str], config: Path, *words: str) -> tuple[int, Any]:
    """The exit code of the command, and the document that it prints."""
    code = main(["pipeline", "gate", "--config", str(config), *words])
    return code, json.loads(capsys.readouterr().out)


def test_blocked_clusters_end_with_exit_code_4_and_name_what_blocks_them(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = gate(capsys, config, "--release", "4.2")
    assert (code, document["kind"], document["verdict"]) == (Exit.BLOCKED, "Gate", "blocked")
    verdicts = {one["cluster"]: one["verdict"] for one in document["clusters"]}
    assert verdicts.keys() == ({*NAMES.values()} - {NAMES[Story.STUCK_MIGRATION]}) | {EVIL, "empty"}
    migrating = next(one for one in document["clusters"] if one["cluster"] == EVIL)
    assert [one["kind"] for one in migrating["blockers"]["others"]] == ["Migration"]


def test_a_ready_cluster_ends_with_exit_code_0_and_may_be_named_by_its_folder_or_its_id(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = NAMES[Story.CHANGED_BY_HAND]
    code, document = gate(capsys, config, "--release", "4.2", "--cluster", name)
    assert (code, document["verdict"], document["counts"]["ready"]) == (Exit.DONE, "ready", 1)
    (one,) = document["clusters"]
    assert one["coverage"]["voters"] == [101, 102, 103]
    code, by_id = gate(capsys, config, "--release", "4.2", "--cluster", one["clusterId"])
    assert (code, by_id["clusters"]) == (Exit.DONE, [one])


def test_a_folder_without_readable_files_makes_the_verdict_unknown(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = gate(capsys, config, "--release", "4.2", "--cluster", "empty")
    assert (code, document["verdict"]) == (Exit.UNREACHABLE, Verdict.UNKNOWN)
    assert document["clusters"][0]["unknownBecause"]


def test_verdicts_are_unknown_once_the_data_is_older_than_a_day(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: UNTIL_MS / 1000 + 25 * HOUR)
    code, document = gate(capsys, config, "--release", "4.2")
    assert (code, {one["verdict"] for one in document["clusters"]}) == (Exit.UNREACHABLE, {"unknown"})


def test_a_level_may_be_named_by_its_number_or_its_name(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [gate(capsys, config, "--feature", f"metadata.version={one}") for one in ("29", "4.2-IV1")]
    assert answers[0] == answers[1]
    assert answers[0][1]["target"] == {"kind": "feature", "name": "metadata.version=29"}


def test_the_text_output_has_a_line_for_each_cluster_and_one_for_the_fleet(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "gate", "--config", str(config), "--release", "4.2", "-o", "text"]) == Exit.BLOCKED
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == len(NAMES) + 1
    assert f"{NAMES[Story.CHANGED_BY_HAND]}: ready" in lines
    counts = [sum(f": {verdict}" in line for line in lines) for verdict in ("ready", "blocked", "unknown")]
    assert last == "release 4.2: blocked ({} ready, {} blocked, {} unknown)".format(*counts)
    assert counts[2] == 1, "the folder without a log"


WRONG = {
    ("--release", "9.9"): (Exit.USAGE, "unknown release '9.9'"),
    ("--feature", "group.version"): (Exit.USAGE, "expected NAME=LEVEL"),
    ("--feature", "group.version=x"): (Exit.USAGE, "expected NAME=LEVEL"),
    ("--feature", "=3"): (Exit.USAGE, "expected NAME=LEVEL"),
    (): (Exit.USAGE, "--release X or --feature NAME=LEVEL is required"),
    ("--release", "4.2", "--cluster", "nobody"): (Exit.UNREACHABLE, "have no cluster 'nobody'"),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_flags_of_the_gate_give_one_line_on_stderr(
    words: tuple[str, ...], config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = WRONG[words]
    assert main(["pipeline", "gate", "--config", str(config), *words]) == code
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert text in printed.err


def test_the_gate_is_unknown_before_the_first_run_of_the_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text("inputs: [logs]\noutput: tables\n")
    assert main(["pipeline", "gate", "--config", str(path), "--release", "4.2"]) == Exit.UNREACHABLE
    assert "pipeline run` makes them" in capsys.readouterr().err


def test_the_report_has_a_page_for_the_fleet_and_a_page_for_each_cluster_with_safe_names(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("pipeline", "report", "--config", str(config), "--release", "4.2", "--html", str(tmp_path / "pages"))
    assert main([*words]) == Exit.DONE
    assert "fleet.html" in capsys.readouterr().err
    pages = {path.name: path.read_text() for path in (tmp_path / "pages").iterdir()}
    fleet = Page(pages.pop("fleet.html"))
    assert {one["href"] for tag, one in fleet.tags if tag == "a"} == pages.keys()
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.") for name in pages)
    assert [name for name, text in pages.items() if "<img" in text] == []
    assert EVIL in fleet.text


def test_a_report_needs_a_folder_that_can_be_written(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    words = ["pipeline", "report", "--config", str(config), "--release", "4.2"]
    assert main(words) == Exit.USAGE
    assert main([*words, "--html", str(tmp_path / "file")]) == Exit.USAGE
    assert "choose another folder" in capsys.readouterr().err
