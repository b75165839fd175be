"""The pages of a fleet in a real browser: every row, nothing on the console, links to the pages beside, readable."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkasim.fleet.plan import Story
from tests.e2e.rig.browser import opened, shown
from tests.featurelog.fleet import AT_MS
from tests.kafkafeatures.cli.test_report_page import Page
from tests.kafkasim.fleets import history_with, written

PHONE, DESKTOP = 390, 1280


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of the small fleet."""
    folder = tmp_path_factory.mktemp("fleet")
    config = folder / "pipeline.yaml"
    fleet = f"inputs: [{written()}/logs]\ndocuments: {written()}/documents\n"
    config.write_text(f"{fleet}output: tables\nspark: {{enabled: false}}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: AT_MS / 1000)
        assert main(["pipeline", "run", "--config", str(config)]) == Exit.DONE
        words = ["--config", str(config), "--release", "4.2", "--html", str(folder / "pages")]
        assert main(["pipeline", "report", *words]) == Exit.DONE
    return folder / "pages"


def test_the_pages_of_a_fleet_open_in_a_browser_with_every_row(pages: Path, tmp_path: Path) -> None:
    seen = opened(pages / "fleet.html", tmp_path / "profile")
    assert seen.console == ()
    made = Page(seen.document)
    assert made.rows == Page((pages / "fleet.html").read_text()).rows
    links = sorted(str(one["href"]) for tag, one in made.tags if tag == "a" and one["href"])
    assert {*links} | {"fleet.html"} == {path.name for path in pages.iterdir()}
    beside = opened(pages / links[0], tmp_path / "profile")
    assert beside.console == ()
    assert Page(beside.document).rows == Page((pages / links[0]).read_text()).rows


@pytest.mark.parametrize("width", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_every_text_of_both_pages_can_be_read(pages: Path, tmp_path: Path, is_dark: bool, width: int) -> None:
    """4.5 to 1 is what WCAG asks of text; and nothing is hidden behind the edge of a screen."""
    (flapping,) = pages.glob(f"*-{history_with(Story.FLAPPING).plan.name}.html")  # with a timeline of restarts
    for page in (pages / "fleet.html", flapping):
        found = shown(page, tmp_path / "profile", width=width, is_dark=is_dark)
        assert found.is_dark is is_dark
        assert len(found.texts) > 50
        assert [one for one in found.texts if one[1] < 4.5] == []
        assert found.cut == ()
