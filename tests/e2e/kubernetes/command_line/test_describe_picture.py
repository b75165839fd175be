"""The picture and the page that `describe` draws, in a real browser, in light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafeatures.cli.cluster.page import cluster_page
from tests.e2e.rig.browser import opened, shown
from tests.examples import PICTURE, ROOT
from tests.kafkafeatures.cli.test_cluster_page import BLOCKED, FLAGS


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "describe.html"
    path.write_text(cluster_page(BLOCKED, FLAGS))
    return path


def test_a_browser_opens_the_picture_and_the_page_without_a_console_message(page: Path, tmp_path: Path) -> None:
    for document in (ROOT / PICTURE, page):
        seen = opened(document, tmp_path / "profile")
        assert seen.console == ()
        assert "metadata.version" in seen.document


@pytest.mark.parametrize("width", [375, 800, 1100])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_every_text_of_the_page_can_be_read(page: Path, tmp_path: Path, is_dark: bool, width: int) -> None:
    """`texts`: each text with its contrast; WCAG asks for 4.5 to 1. `cut`: what the edge of the screen hides."""
    found = shown(page, tmp_path / "profile", width=width, is_dark=is_dark)
    assert found.is_dark is is_dark
    assert len(found.texts) > 30  # the table was drawn
    assert [one for one in found.texts if one[1] < 4.5] == []
    assert found.cut == ()
