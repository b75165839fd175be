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
    # A stalled resource does not go on by itself.
    assert all(reason.needs_action for reason in Reason if Condition.STALLED in reason.conditions)


def test_every_runbook_belongs_to_a_reason() -> None:
    made = [Path(name).name for name in PAGES if name.startswith("docs/runbooks/")]
    assert sorted(made) == WRITTEN


@pytest.mark.parametrize("page", [*TEXTS.values(), *(one.page for one in OF_ALERTS.values())], ids=[*TEXTS, *OF_ALERTS])
def test_a_runbook_has_all_sections_and_no_open_placeholder(page: Page) -> None:
    assert list(page) == list(SECTIONS)
    assert all(page.values())
    assert "<" not in re.sub(r"</dev/null", "", "".join(page.values())), "a mark was not filled in"


@pytest.mark.parametrize("name", WRITTEN)
def test_each_link_of_a_runbook_leads_to_an_existing_page(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (FOLDER / name).read_text()):
        assert (FOLDER / target).is_file(), target
