"""What README shows is what its commands print."""

from __future__ import annotations

import pytest

from tests.examples import BLOCK, PAGES, ROOT, SCENES, as_simulated


@pytest.mark.parametrize("name", PAGES)
def test_the_output_in_a_page_is_what_its_commands_print(name: str) -> None:
    page = (ROOT / name).read_text()
    assert {found["scene"] for found in BLOCK.finditer(page)} == set(SCENES)
    assert as_simulated(page) == page, "run: make docs"


def test_an_output_that_its_input_cannot_give_is_found_out() -> None:
    page = (ROOT / "README.md").read_text()
    wrong = page.replace("share.version 0 -> 1: Applied", "group.version 0 -> 1: Applied")
    assert wrong != page
    assert as_simulated(wrong) == page
