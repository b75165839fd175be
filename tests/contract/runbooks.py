"""The runbooks: a page for each reason that requires action, and for each alert. `make docs` writes them.

What a reason means stands in `api/explained.py`, what to do about it in `runbook_texts.py`; both of an alert without a
reason in `runbook_alerts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafkafeatures.api.explained import EXPLAINED
from kafkafeatures.api.reasons import Reason
from tests.contract.alerts import ALERTS, OF_REASON, RESOURCE
from tests.contract.runbook_alerts import OF_ALERTS
from tests.contract.runbook_marks import Page
from tests.contract.runbook_texts import PAGES

NOTE = "<!-- made by `make docs`; do not edit -->"
ACTED_ON = [reason for reason, info in EXPLAINED.items() if info.needs_action]
SECTIONS = {"Safe": "What is safe", "Confirm": "Confirm", "Fix": "Fix"}


def page_of(reason: Reason) -> str:
    """One page; the head is what `api/explained.py` says."""
    info = EXPLAINED[reason]
    head = f"Reason of {' and '.join(info.conditions)}. {info.outcome.capitalize()}."
    return _written(reason, head, info.meaning, PAGES[reason])


def page_of_alert(title: str) -> str:
    """The page of an alert that no reason of a status stands for."""
    one = OF_ALERTS[title]
    return _written(title, f"No reason of a condition. {one.outcome}.", one.meaning, one.page)


def _written(title: str, head: str, meaning: str, page: Page) -> str:
    alerts = [f" Alert: `{one.name}`." for one in ALERTS if one.runbook == f"{title}.md"]
    sections = [f"# {title}", NOTE, head + "".join(alerts), f"## Meaning\n\n{meaning[0].upper()}{meaning[1:]}."]
    sections += [f"## {heading}\n\n{page[name]}" for name, heading in SECTIONS.items()]
    return "\n\n".join(sections) + "\n"


def index() -> str:
    """All pages, and which alert leads where."""
    reasons = [(f"[{one}]({one}.md)", ", ".join(EXPLAINED[one].conditions), EXPLAINED[one].meaning) for one in ACTED_ON]
    alerts = [(f"`{one.name}`", _plain(one.summary), _link(one.runbook)) for one in ALERTS]
    return f"""# Runbooks

{NOTE}

A page for each reason that requires action. To see the reasons of all resources:

    kubectl get kff -A

On these pages, NAME and NS stand for the resource and its namespace, OPERATOR-NS for that of the operator.

| Reason | Of | Meaning |
|---|---|---|
{_rows(reasons)}

## Alerts

| Alert | Says | Page |
|---|---|---|
{_rows(alerts)}
"""


def _plain(summary: str) -> str:
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"\1", summary.replace(RESOURCE, "a resource"))


def _link(page: str) -> str:
    return "that of its reason" if page == OF_REASON else f"[{page[:-3]}]({page})"


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
