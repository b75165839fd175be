"""The reference is made of the code, and complete."""

from __future__ import annotations

import pytest

from docs.make.reference import PAGES, ROOT
from kafkafeatures.api.explained import EXPLAINED
from kafkafeatures.api.reasons import Reason


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (ROOT / name).read_text() == PAGES[name](), "run: make docs"


def test_every_reason_is_explained() -> None:
    assert set(EXPLAINED) == set(Reason)
