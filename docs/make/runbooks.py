"""Makes the runbooks: a page for each reason that requires action, and for each alert. Called by `reference.py`.

The meaning of a reason is in `api/reasons.py`, and its remedy in `runbook_texts.py`. An alert without a reason has both
in `runbook_alerts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from docs.make.alerts import ALERTS, OF_REASON, RESOURCE
from docs.make.runbook_alerts import OF_ALERTS
from docs.make.runbook_marks import Page
from docs.make.runbook_texts import PAGES
from kafkafeatures.api.reasons import Reason

NOTE = "<!-- made by `make docs`; do not edit -->"
ACTED_ON = [reason for reason in Reason if reason.needs_action]
"""Reasons that have a page, since a person has to act."""
SECTIONS = {"Safe": "Impact", "Confirm": "Confirm", "Fix": "Fix"}


def page_of(reason: Reason) -> str:
    """The page of a reason."""
    conditions = f"condition{'s' if len(reason.conditions) > 1 else ''} {' and '.join(reason.conditions)}"
    head = f"Reason of the {conditions}. {reason.outcome.capitalize()}."
    return _written(reason, head, reason.meaning, PAGES[reason])


def page_of_alert(title: str) -> str:
    """The page of an alert that no reason of a status stands for."""
    alert_page = OF_ALERTS[title]
    return _written(title, f"{alert_page.outcome}.", alert_page.meaning, alert_page.page)


def _written(title: str, head: str, meaning: str, page: Page) -> str:
    """The content of a page, with the alerts that lead to it."""
    alerts = [f" Alert: `{alert.name}`." for alert in ALERTS if alert.runbook == f"{title}.md"]
    sections = [f"# {title}", NOTE, head + "".join(alerts), f"## Meaning\n\n{meaning[0].upper()}{meaning[1:]}."]
    sections += [f"## {heading}\n\n{page[name]}" for name, heading in SECTIONS.items()]
    return "\n\n".join(sections) + "\n"


def index() -> str:
    """The page with links to all pages: by reason, and by alert."""
    reasons = [(f"[{reason}]({reason}.md)", ", ".join(reason.conditions), reason.meaning) for reason in ACTED_ON]
    alerts = [(f"`{alert.name}`", _plain(alert.summary), _link(alert.runbook)) for alert in ALERTS]
    return f"""# Runbooks

{NOTE}

There is a page for each reason that requires action, and for each alert. To see the reason of each resource:

    kubectl get kff -A

On these pages, NAME and NS stand for the resource and its namespace, and OPERATOR-NS for the namespace of the operator.

| Reason | Condition | Meaning |
|---|---|---|
{_rows(reasons)}

## Alerts

| Alert | Summary | Page |
|---|---|---|
{_rows(alerts)}
"""


def _plain(summary: str) -> str:
    """The summary of an alert with words in place of its templates."""
    text = summary.replace(RESOURCE, "NS/NAME").replace("{{ $labels.namespace }}", "NS")
    return text.replace("{{ $labels.reason }}", "REASON")


def _link(page: str) -> str:
    return "the page of the reason" if page == OF_REASON else f"[{page[:-3]}]({page})"


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
