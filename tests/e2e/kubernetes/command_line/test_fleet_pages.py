"""The pages of a fleet in a real browser: every row, nothing on the console, and the links go to the pages beside."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kafkafeatures.cli.exit_codes import Exit
from kafkafeatures.cli.main import main
from tests.e2e.rig.browser import opened
from tests.featurelog.fleet import AT_MS
from tests.kafkafeatures.cli.test_report_page import Page
from tests.kafkasim.fleets import written


def test_the_pages_of_a_fleet_open_in_a_browser_with_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, pages = tmp_path / "pipeline.yaml", tmp_path / "pages"
    fleet = f"inputs: [{written()}/logs]\ndocuments: {written()}/documents\n"
    config.write_text(f"{fleet}output: tables\nspark: {{enabled: false}}\n")
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: AT_MS / 1000)
        assert main(["pipeline", "run", "--config", str(config)]) == Exit.DONE
        words = ["--config", str(config), "--release", "4.2", "--html", str(pages)]
        assert main(["pipeline", "report", *words]) == Exit.DONE
    seen = opened(pages / "fleet.html", tmp_path / "profile")
    assert seen.console == ()
    made = Page(seen.document)
    assert made.rows == Page((pages / "fleet.html").read_text()).rows
    links = sorted(str(one["href"]) for tag, one in made.tags if tag == "a" and one["href"])
    assert {*links} | {"fleet.html"} == {path.name for path in pages.iterdir()}
    beside = opened(pages / links[0], tmp_path / "profile")
    assert beside.console == ()
    assert Page(beside.document).rows == Page((pages / links[0]).read_text()).rows
