"""A resource as one HTML page that needs nothing else: how it is, its plan, its roll node by node, its features.

Pure: of the status, the Events and the metadata log, and nothing is added to them. No script and nothing from
elsewhere, so it opens anywhere and can be attached to a ticket; light and dark as the reader's system has it, and no
fact by colour alone. Every text is escaped: notes and messages hold what brokers said. Called by `cli/kube/report.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import StatusCondition
from kafkafeatures.cli.cluster.blockers_text import blocks, is_about_ranges, messages, range_lines
from kafkafeatures.cli.document.steps_text import APPROVED, UNDO, until_of
from kafkafeatures.cli.kube.resource import KubeResource, level_of, range_of
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.html_parts import as_written, day_and_time, folded, remedy, table, text, whole_page
from kafkafeatures.cli.pages.migration import STYLE_OF_MIGRATIONS, migration
from kafkafeatures.cli.pages.roll import STYLE_OF_ROLLS, roll
from kafkafeatures.core.kinds import in_flight
from kafkafeatures.core.report.events import facts_of
from kraftlog.rolls import RollHistory

NOT_RECONCILED = StatusCondition(type="", status="", last_transition_time=Stamp(""), reason="", message="")

_STATES = {"InSync": "good", "Pending": "wait", "Blocked": "bad", "Drifted": "bad", "Unmanaged": "muted"}


def page(
    resource: KubeResource, events: Sequence[SeenEvent] | None, current_time: datetime, log: RollHistory | str
) -> str:
    """The whole document.

    `events`: the oldest first; None where they could not be read. `log`: what the metadata log tells of
    the roll, or why it was not read.
    """
    sections = (
        _head(resource, current_time),
        _blockers(resource),
        _plan(resource),
        migration(resource, events or (), current_time, log),
        roll(resource, events or (), current_time, log),
        _features(resource),
        _conditions(resource),
        _happened(resource, events),
    )
    return whole_page(f"{resource} - KafkaFeatures", sections, STYLE_OF_ROLLS + STYLE_OF_MIGRATIONS)


# --- sections ---


def _head(resource: KubeResource, current_time: datetime) -> str:
    status = resource.status
    ready = status.condition(Condition.READY) or NOT_RECONCILED
    look = {"True": ("Ready", "good"), "False": ("Not ready", "bad"), "Unknown": ("Unknown", "wait")}
    word, style = look.get(ready.status, ("Not reconciled yet", "wait"))
    if resource.says(Condition.RECONCILING):
        style = "wait"  # it resolves automatically
    is_old = ready is not NOT_RECONCILED and not resource.is_current(ready)
    old = f" (of generation {ready.observed_generation or '?'})" if is_old else ""
    facts = {
        "Cluster": status.cluster_id,
        "Metadata": status.metadata_version,
        "Mode": resource.mode,
        "Generation": resource.generation,
        "Operator": status.operator_version,
        "Report made": day_and_time(current_time),
    }
    described = " | ".join(f"{escape(name)}: {text(fact)}" for name, fact in facts.items() if fact)
    return (
        f"<h1>{text(resource)}</h1>\n"
        f'<p class="box"><strong class="{style}">{escape(word)}{ready.reason and f": {text(ready.reason)}"}</strong>'
        f"{text(old)}{ready.message and f'<br>{text(ready.message)}'}</p>\n"
        f'<p class="muted">{described}</p>'
    )


def _plan(resource: KubeResource) -> str:
    status = resource.status
    plan, back = status.plan, status.way_back
    if plan is None:
        is_known = status.condition(Condition.READY) is not None
        reason = "Nothing is to be changed." if is_known else "No plan yet: the operator has not reconciled it."
        return f"<h2>Plan</h2>\n<p>{reason}</p>"
    marks = (plan.hash, "irreversible" if plan.irreversible else "", APPROVED.get(plan.approved_by, ""))
    steps = (
        (
            "<br>".join(
                (text(step.detail or "?"), *(f'<span class="muted">{text(effect)}</span>' for effect in step.effects))
            ),
            text(step.state or "?"),
            text(step.way_back or UNDO.get(step.undo, step.undo and "can be undone")),
        )
        for step in plan.steps
    )
    way_back = f"\n<p>Way back, {text(until_of(back))}: {text(back.how)}</p>" if back else ""
    since = status.soak_started_at
    soak = f"\n<p>Soaking: every node healthy since {text(as_written(since))}</p>" if since else ""
    steps_of_it = table("Steps, in their order", ("Step", "State", "Undo"), list(steps))
    return f"<h2>Plan</h2>\n<p>{text(', '.join(filter(None, marks)))}</p>\n{steps_of_it}{soak}{way_back}"


def _features(resource: KubeResource) -> str:
    rows = [
        (
            text(feature.name or "?"),
            text(level_of(feature, feature.finalized, "?")),
            text(level_of(feature, feature.desired, "-")),
            text(range_of(feature, "?-?")),
            f'<span class="{_STATES.get(feature.state, "")}">{escape(feature.state or "?")}</span>',
        )
        for feature in resource.status.features
    ]
    head = ("Feature", "Finalized", "Desired", "Supported by all nodes", "State")
    return "<h2>Features</h2>\n" + table("Levels of the cluster", head, rows) if rows else ""


def _blockers(resource: KubeResource) -> str:
    """A row for equal nodes, with all that they lack and one remedy; and one for each other blocker."""
    rows, groups = [], blocks(resource.status.blockers)
    for block in groups:
        first, about_ranges = block[0], is_about_ranges(block[0])
        lines = range_lines(block) if about_ranges else [*messages(block)]
        remedies = dict.fromkeys(blocker.remedy for blocker in block if blocker.remedy)
        rows.append(
            (
                text(first.nodes or "the cluster") + f'<span class="at">{text(first.kind or "?")}</span>',
                text(first.inferred_release or "-"),
                "<br>".join(map(text, lines)),
                folded("Remedy", "<br>".join(map(remedy, remedies)), is_open=len(groups) == 1) if remedies else "-",
            )
        )
    head = ("Where", "Kafka (inferred)", "What prevents the change", "What to do")
    return "<h2>Blockers</h2>\n" + table("While there is one, nothing is sent", head, rows) if rows else ""


def _conditions(resource: KubeResource) -> str:
    conditions = resource.status.conditions
    facts = (
        (
            condition.type,
            condition.status,
            condition.reason,
            condition.message,
            as_written(condition.last_transition_time),
        )
        for condition in conditions
    )
    rows = [tuple(map(text, fact)) for fact in facts]
    head = ("Type", "Status", "Reason", "Message", "Since")
    html = table("As the operator wrote them", head, rows)
    return f"<h2>Conditions</h2>\n{folded('All conditions', html)}" if rows else ""


def _happened(resource: KubeResource, events: Sequence[SeenEvent] | None) -> str:
    rows = [(event.at, event.reason, event.note) for event in events or ()]
    rows += [
        (entry.at, entry.result, f"{entry.action or '?'} {entry.message}".strip()) for entry in resource.status.history
    ]
    rows += [
        (str(intent.unknown.get("at", "")), "not known yet", str(in_flight(intent)))
        for intent in resource.status.intents
        if not facts_of(intent).node  # else its restart is in the roll
    ]
    unread = "" if events is not None else "\n<p>The Events could not be read.</p>"
    head = ("When", "What", "Detail")
    cells = [(text(as_written(at)), text(name), text(detail)) for at, name, detail in sorted(rows)]
    html = table("Events and history, the oldest first", head, cells) if cells else "<p>No Event and no change yet.</p>"
    return f"<h2>What happened</h2>{unread}\n{html}"
