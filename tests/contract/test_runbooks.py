"""A page for every reason that requires action, and no page for anything else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.make.reference import PAGES
from docs.make.runbook_alerts import OF_ALERTS
from docs.make.runbook_marks import Page
from docs.make.runbook_texts import PAGES as TEXTS
from docs.make.runbooks import ACTED_ON, SECTIONS
from kafkafeatures.api.reasons import Condition, Reason

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "runbooks"
WRITTEN = sorted(path.name for path in FOLDER.glob("*.md"))


def test_every_reason_that_requires_action_has_a_page() -> None:
    assert [reason for reason in ACTED_ON if reason not in TEXTS] == [], "write it: docs/make/runbook_texts.py"
    assert all(reason.needs_action for reason in Reason if Condition.STALLED in reason.conditions)


def test_no_page_is_left_over() -> None:
    made = [Path(name).name for name in PAGES if name.startswith("docs/runbooks/")]
    assert sorted(made) == WRITTEN


@pytest.mark.parametrize("page", [*TEXTS.values(), *(one.page for one in OF_ALERTS.values())], ids=[*TEXTS, *OF_ALERTS])
def test_a_page_says_what_is_safe_how_to_confirm_and_how_to_mend(page: Page) -> None:
    assert list(page) == list(SECTIONS)
    assert all(page.values())
    assert "<" not in re.sub(r"</dev/null", "", "".join(page.values())), "a mark was not filled in"


@pytest.mark.parametrize("name", WRITTEN)
def test_a_link_leads_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (FOLDER / name).read_text()):
        assert (FOLDER / target).is_file(), target
