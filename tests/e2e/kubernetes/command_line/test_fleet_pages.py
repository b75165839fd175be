"""The pages of a fleet in a real browser: every row, nothing on the console, links to the pages beside, readable."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkasim.fleet.plan import Story
from tests.e2e.rig.browser import A4, AS_PRINTED, evaluated, opened, shown
from tests.featurelog.fleet import AT_MS
from tests.kafkafeatures.cli.test_report_page import Page
from tests.kafkasim.fleets import history_with, written

PHONE, TABLET, DESKTOP = 375, 800, 1280

_USED = """
const tools = document.querySelector(".tools"), table = tools.nextElementSibling.querySelector("table");
const [searchField, verdictList, sortList] = tools.querySelectorAll("input, select");
const heads = [...table.tHead.rows[0].cells];
const column = name => heads.findIndex(head => head.innerText === name);
const CLUSTER = column("Cluster"), VERDICT = column("Verdict"), NODES_BEHIND = column("Nodes behind");
const REMARKS = column("Why, and what else");
const visibleRows = () => [...table.tBodies[0].rows].filter(row => row.checkVisibility());
const cells = at => visibleRows().map(row => row.cells[at].innerText);
const enter = (field, value, event) => { field.value = value; field.dispatchEvent(new Event(event)); };
const counts = () => tools.querySelector("output").value;
const clickHead = at => {
  heads[at].querySelector("button").click();
  return { cells: cells(at), order: heads[at].ariaSort };
};
const results = { clusters: cells(CLUSTER), sortListIsVisible: sortList.checkVisibility(),
  sortedBy: sortList.selectedOptions[0]?.text, counts: [counts()] };
results.firstClick = clickHead(NODES_BEHIND);
results.secondClick = clickHead(NODES_BEHIND);
enter(sortList, CLUSTER, "change");
results.sortedClusters = cells(CLUSTER);
enter(verdictList, "Ready", "change");
results.verdictsOfReady = cells(VERDICT);
enter(verdictList, "", "change");
enter(searchField, "FLAPPING", "input");
results.remarksWithFlapping = cells(REMARKS);
results.counts.push(counts());
return results;
"""
"""A reader's actions in the table of clusters: two clicks on a heading, then each field of `tools`. Returns the visible
cells after each.
"""


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
    made = Page((pages / links[0]).read_text())
    assert [one["href"] for tag, one in made.tags if tag == "a"] == ["fleet.html"]  # back to where a reader came from
    beside = opened(pages / links[0], tmp_path / "profile")
    assert beside.console == ()
    assert Page(beside.document).rows == made.rows


@pytest.mark.parametrize("width", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_clusters_are_sorted_and_filtered_in_the_page(pages: Path, tmp_path: Path, width: int) -> None:
    results = evaluated(pages / "fleet.html", tmp_path / "profile", _USED, width=width)
    assert len(results["clusters"]) == 12  # all of the small fleet
    assert results["sortedBy"] == "Verdict"
    assert results["sortListIsVisible"] is (width == PHONE)  # where there are no headings to click
    first_click, second_click = results["firstClick"], results["secondClick"]
    nodes_behind = [int(cell.split()[0]) for cell in first_click["cells"]]  # "2 of 9"
    assert nodes_behind == sorted(nodes_behind)
    assert [int(cell.split()[0]) for cell in second_click["cells"]] == sorted(nodes_behind, reverse=True)
    assert (first_click["order"], second_click["order"]) == ("ascending", "descending")
    assert results["sortedClusters"] == sorted(results["clusters"])
    assert results["verdictsOfReady"] == ["Ready", "Ready"]
    assert [remarks.splitlines()[-1] for remarks in results["remarksWithFlapping"]] == ["broker 6 is flapping"]
    assert results["counts"] == ["12 of 12", "1 of 12"]


def test_the_page_of_a_cluster_has_a_lane_for_each_node_and_one_card_for_equal_nodes(
    pages: Path, tmp_path: Path
) -> None:
    """Broker 6 was killed 24 times. Six equal brokers and three equal controllers prevent the upgrade: two cards."""
    (flapping,) = pages.glob(f"*-{history_with(Story.FLAPPING).plan.name}.html")
    lanes, blocking, ticks = evaluated(
        flapping,
        tmp_path / "profile",
        """const all = (what, of = document) => [...of.querySelectorAll(what)];
        const table = name => all("table").find(one => one.caption.innerText.startsWith(name));
        const rows = one => [...one.tBodies[0].rows].map(row => [row.cells[0].innerText, all(".down", row).length]);
        const drawn = table("Times that a node");
        return [rows(drawn), all(".card").length, all(".axis span", drawn).length];""",
    )
    ((name, marks),) = lanes
    assert name.split() == ["broker", "6", "24", "times,", "flapping"]
    assert (marks, blocking, ticks) == (24, 2, 3)


def readable(pages: Path) -> list[Path]:
    """The fleet's page, one with a timeline of restarts, and one with many changes of levels."""
    stories = (Story.FLAPPING, Story.CHANGED_BY_HAND)
    names = [f"*-{history_with(story).plan.name}.html" for story in stories]
    return [pages / "fleet.html", *(page for name in names for page in pages.glob(name))]


@pytest.mark.parametrize("width", [PHONE, TABLET, DESKTOP], ids=["phone", "tablet", "desktop"])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_every_text_of_the_pages_can_be_read(pages: Path, tmp_path: Path, is_dark: bool, width: int) -> None:
    """`texts`: each text with its contrast; WCAG asks for 4.5 to 1. `cut`: what the edge of the screen hides."""
    for page in readable(pages):
        found = shown(page, tmp_path / "profile", width=width, is_dark=is_dark)
        assert found.is_dark is is_dark
        assert len(found.texts) > 50
        assert [one for one in found.texts if one[1] < 4.5] == []
        assert found.cut == ()


def test_the_printed_page_cuts_no_column_and_omits_the_times_of_each_restart(pages: Path, tmp_path: Path) -> None:
    for page in readable(pages):
        assert shown(page, tmp_path / "profile", width=A4, is_printed=True).cut == ()
    script = f"""{AS_PRINTED}
        const all = what => [...document.querySelectorAll(what)];
        return [all(".scroll").map(one => getComputedStyle(one).overflowX), getComputedStyle(document.body).fontSize,
          all("details table").map(one => [one.caption.innerText, one.checkVisibility()])];"""
    scrolls, size, tables = evaluated(readable(pages)[1], tmp_path / "profile", script, width=A4)
    assert set(scrolls) == {"visible"}
    assert size == "12px"
    assert [seen for caption, seen in tables if caption.startswith("Each time")] == [False]
    assert [seen for caption, seen in tables if not caption.startswith("Each time")] == [True]


def test_times_and_levels_are_not_broken_and_evidence_has_no_blank_lines(pages: Path, tmp_path: Path) -> None:
    script = """const all = what => [...document.querySelectorAll(what)];
      all("details").forEach(one => { one.open = true; });
      return [all(".whole").map(one => one.getClientRects().length),
        all(".card details").map(one => one.innerText),
        all(".track span").map(one => one.getBoundingClientRect().width), all(".key").map(one => one.innerText)];"""
    pieces, evidence, marks, keys = evaluated(readable(pages)[1], tmp_path / "profile", script)
    assert len(pieces) > 20
    assert set(pieces) == {1}
    assert len(evidence) == 2  # one for each card
    assert not [one for one in evidence if "\n\n" in one.partition("\n")[2].lstrip("\n")]
    assert min(marks) >= 2  # pixels: even a short time away is visible
    assert keys == ["away, as far as the metadata log tells of it"]
