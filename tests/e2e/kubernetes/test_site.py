"""The pages of docs as a web site: a dead link fails its build, a browser shows it so that it can be read and used with
a keyboard, and it loads no files of others.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.rig.browser import COLOURS, MEASURE, opened
from tests.e2e.rig.browser_session import browser_tab

ROOT = Path(__file__).resolve().parents[3]
WITH_WIDE_TABLES = [f"reference/{name}.html" for name in ("fields", "impossible-records", "migration")]
OF_EACH_KIND = ["index.html", "how-to/connect.html", "runbooks/Blocked.html"]
RINGS = """
const unvisited = () => [...document.querySelectorAll("a[href], button")]
  .filter(one => !one.dataset.visited && one.tabIndex >= 0)
  .filter(one => one.checkVisibility({ checkOpacity: true, visibilityProperty: true })).map(one => one.innerText);
const focused = () => {
  const element = document.activeElement;
  if (element === document.body) return null;
  element.dataset.visited = "yes";
  const shown = element.tagName === "INPUT" ? element.nextElementSibling : element, style = getComputedStyle(shown);
  const below = behind(parseFloat(style.outlineOffset) < 0 ? shown : shown.parentElement);
  const has = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  return { text: element.innerText, classes: element.className, ring: has ? contrast(style.outlineColor, below) : 0 };
};
"""
"""Functions: texts of links and buttons that had no focus yet; what has it, and the contrast of its ring."""


def build(target: Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-f", str(folder / "mkdocs.yml"), "-d", str(target)],
        capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build(target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_the_site_has_every_page_of_the_docs_and_loads_no_file_of_another_site(site: Path) -> None:
    pages = {one.relative_to(ROOT / "docs").with_suffix("") for one in (ROOT / "docs").rglob("*.md")}
    made = {one.relative_to(site).with_suffix("") for one in site.rglob("*.html")}
    assert {Path("index" if one.name == "README" else one.name) for one in pages} <= {Path(one.name) for one in made}
    assert {"changelog", "security", "contributing"} <= {one.name for one in made}
    loaded = [
        (one.name, tag)
        for one in site.rglob("*.html")
        for tag in re.findall(r"<(?:link|script|img|iframe)\b[^>]*>", one.read_text())
        if re.search(r"(?:src|href)=\"?(?:https?:)?//", tag) and 'rel="canonical"' not in tag
    ]
    assert loaded == []


@pytest.mark.parametrize("page", ["index.html", "how-to/migrate-to-kraft.html", "runbooks/index.html"])
def test_a_browser_shows_the_site_without_a_console_message(site: Path, tmp_path: Path, page: str) -> None:
    found = opened(site / page, tmp_path / "profile")
    assert "md-content" in found.document
    # The search loads its index by a script, which a browser refuses for files.
    assert [line for line in found.console if "file://" not in line] == []


async def test_no_table_has_to_be_scrolled_on_any_screen(site: Path, tmp_path: Path) -> None:
    async with browser_tab(tmp_path / "profile") as tab:
        for page, width in itertools.product(WITH_WIDE_TABLES, (375, 820, 960, 1221)):
            await tab.show(site / page, width=width)
            scrolled: list[str] = (await tab.evaluate(MEASURE))["cut"]
            assert [text for text in scrolled if "\t" in text or text == "the page"] == [], (page, width)


async def test_each_text_has_a_contrast_of_4_5_by_day_and_by_night(site: Path, tmp_path: Path) -> None:
    async with browser_tab(tmp_path / "profile") as tab:
        for page, is_dark in itertools.product(OF_EACH_KIND, (False, True)):
            await tab.show(site / page, is_dark=is_dark)
            measured = await tab.evaluate(MEASURE)
            assert (measured["is_dark"], len(measured["texts"]) > 50) == (is_dark, True)
            assert [(text, contrast) for text, contrast in measured["texts"] if contrast < 4.5] == [], (page, is_dark)


async def test_the_tab_key_leads_to_all_links_and_out_again_and_each_has_a_ring(site: Path, tmp_path: Path) -> None:
    async with browser_tab(tmp_path / "profile") as tab:
        for is_dark in (False, True):
            await tab.show(site / "how-to/connect.html", is_dark=is_dark)
            links = await tab.evaluate(f"{RINGS} return unvisited();")
            await tab.press_tab()
            stops = []
            while (stop := await tab.evaluate(f"{COLOURS} {RINGS} return focused();")) is not None:
                stops.append(stop)
                assert len(stops) < 1_000, "the focus goes round"
                await tab.press_tab()
            assert await tab.evaluate(f"{RINGS} return unvisited();") == []
            assert len(stops) >= len(links) > 50
            assert [stop for stop in stops if stop["ring"] < 3] == []


def test_a_dead_link_fails_the_build_of_the_site(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Here\n\n[gone](gone.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\nstrict: true\n")
    done = build(tmp_path / "site", tmp_path)
    assert done.returncode != 0
    assert "gone.md" in done.stdout + done.stderr


def test_the_site_shows_the_syntax_of_consents(site: Path) -> None:
    assert "&lt;feature&gt;:&lt;from&gt;-&gt;&lt;to&gt;: downgrade" in (site / "reference/fields.html").read_text()


def test_a_long_identifier_in_a_table_can_break_behind_its_dots(site: Path) -> None:
    fields = (site / "reference/fields.html").read_text()
    assert '<code class="name">spec.<wbr>cluster.<wbr>controllerListener.<wbr>tls' in fields


def test_each_cell_of_a_table_names_its_column(site: Path) -> None:
    assert '<td data-column="Meaning">' in (site / "reference/fields.html").read_text()
    assert 'data-column="releaseVersion: &quot;4.3&quot;"' in (site / "explanation/compared.html").read_text()
