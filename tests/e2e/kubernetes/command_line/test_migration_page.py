"""The page of a migration in a real browser, of the metadata log of real nodes: every row, and every text readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.rig.browser import opened, shown
from tests.kafkafeatures.cli.test_migration_page import IN_DUAL_WRITE, of_a_real_log
from tests.kafkafeatures.cli.test_migration_page import shown as made
from tests.kafkafeatures.cli.test_report_page import NOT_READ, Page

PHONE, TABLET, DESKTOP = 375, 800, 1280


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """The page with the metadata log, and that without it, from Events alone."""
    folder = tmp_path_factory.mktemp("pages")
    texts = {"log": made(of_a_real_log(), IN_DUAL_WRITE)[1], "events": made(NOT_READ, IN_DUAL_WRITE)[1]}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return tuple(folder / f"{name}.html" for name in texts)


def test_the_pages_open_in_a_browser_with_every_row(pages: tuple[Path, ...], tmp_path: Path) -> None:
    for page in pages:
        seen = opened(page, tmp_path / "profile")
        assert seen.console == ()
        assert Page(seen.document).rows == Page(page.read_text()).rows


@pytest.mark.parametrize("width", [PHONE, TABLET, DESKTOP], ids=["phone", "tablet", "desktop"])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(pages: tuple[Path, ...], tmp_path: Path, is_dark: bool, width: int) -> None:
    """`texts`: each text with its contrast; WCAG asks for 4.5 to 1. `cut`: what the edge of the screen hides."""
    for page in pages:
        found = shown(page, tmp_path / "profile", width=width, is_dark=is_dark)
        assert found.is_dark is is_dark
        assert any(text == "Migration from ZooKeeper" for text, _ in found.texts)
        assert [one for one in found.texts if one[1] < 4.5] == []
        assert found.cut == ()
