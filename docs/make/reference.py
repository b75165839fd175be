"""Writes all files that are made from the code: `make docs` runs it. A test fails while a file has other content.

These are the reference, the runbooks, the chart's copies of the CRD and of the alerts, and the output of commands and
the picture in README and docs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from docs.make import (
    checks_page,
    commands_page,
    fields_page,
    kraftlog_page,
    levels_page,
    migration_page,
    pipeline_tables_page,
    roll_picture,
    runbooks,
)
from docs.make.alerts import alerts
from docs.make.runbook_alerts import OF_ALERTS
from docs.make.runbook_texts import PAGES as RUNBOOKS
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.cli.shell.commands import COMMANDS
from kafkafeatures.cli.shell.exit_codes import MEANINGS
from tests import examples

ROOT = Path(__file__).resolve().parents[2]
NOTE = "<!-- made by `make docs`; do not edit -->\n"


def reasons() -> str:
    """The page of reasons: a table for each set of conditions, sorted by name; those that require action link to their
    runbooks.
    """
    order = list(Condition)
    sets = sorted({reason.conditions for reason in Reason}, key=lambda conditions: [*map(order.index, conditions)])
    lines = ["# Reasons", "", NOTE]
    for conditions in sets:
        rows = sorted((reason for reason in Reason if reason.conditions == conditions), key=lambda reason: reason.value)
        lines += [f"## {', '.join(conditions)}", "", "| Reason | Meaning | Outcome |", "|---|---|---|"]
        lines += [f"| {_linked(reason)} | {reason.meaning} | {reason.outcome or '-'} |" for reason in rows]
        lines.append("")
    return "\n".join(lines)


def _linked(reason: Reason) -> str:
    """The name of a reason, as a link to its runbook if it has one."""
    name = f"`{reason.value}`"
    return f"[{name}](../runbooks/{reason.value}.md)" if reason.needs_action else name


def commands() -> str:
    """The page of commands and exit codes."""
    rows = [f"| [`kafkafeatures {name}`](commands/{name}.md) | {line} |" for name, (_, line) in COMMANDS.items()]
    codes = [f"| {int(code)} | {text} |" for code, text in MEANINGS.items()]
    head = [
        "# Commands",
        "",
        NOTE,
        "`kafkafeatures COMMAND --help` shows examples and flags, and so does the page of each command.",
        "",
        "| Command | Does |",
        "|---|---|",
    ]
    return "\n".join([*head, *rows, "", "## Exit codes", "", "| Code | Meaning |", "|---|---|", *codes, ""])


def crd() -> str:
    """The CRD, for a copy in the chart: a chart can read only its own files."""
    return (ROOT / "crds" / "kafkafeatures.yaml").read_text()


CHART = "charts/kafka-features-operator"
# by path from the root: function that makes the content of the file
PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/reasons.md": reasons,
    "docs/reference/impossible-records.md": partial(checks_page.page, NOTE),
    "docs/reference/commands.md": commands,
    **{f"{commands_page.FOLDER}/{name}.md": partial(commands_page.page_of, name, NOTE) for name in COMMANDS},
    "docs/reference/levels.md": partial(levels_page.page, NOTE),
    "docs/reference/fields.md": partial(fields_page.page, NOTE),
    "docs/reference/kraftlog.md": partial(kraftlog_page.page, NOTE),
    "docs/reference/migration.md": partial(migration_page.page, NOTE),
    "docs/reference/pipeline-tables.md": partial(pipeline_tables_page.page, NOTE),
    "docs/runbooks/README.md": runbooks.index,
    **{f"docs/runbooks/{title}.md": partial(runbooks.page_of_alert, title) for title in OF_ALERTS},
    **{f"docs/runbooks/{reason}.md": partial(runbooks.page_of, reason) for reason in RUNBOOKS},
    "docs/roll.svg": roll_picture.picture,
    f"{CHART}/files/crd.yaml": crd,
    f"{CHART}/files/alerts.yaml": alerts,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(page())
    (ROOT / examples.PICTURE).write_text(examples.simulated_picture())
    for name in examples.PAGES:
        (ROOT / name).write_text(examples.as_simulated((ROOT / name).read_text()))
