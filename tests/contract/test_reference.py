"""The reference is made of the code, and complete."""

from __future__ import annotations

import pytest

from docs.make.reference import PAGES, ROOT
from kafkafeatures.api.reasons import BlockerKind, Reason


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_generated_from_the_code(name: str) -> None:
    assert (ROOT / name).read_text() == PAGES[name](), "run: make docs"


def test_the_row_of_a_reason_has_conditions_and_a_meaning() -> None:
    assert [reason for reason in Reason if not (reason.conditions and reason.meaning)] == []


def test_a_kind_of_blocker_has_a_reason_that_requires_action_or_resolves_automatically() -> None:
    assert [kind for kind in BlockerKind if not kind.reason.outcome] == []
