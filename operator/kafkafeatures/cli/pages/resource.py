"""HTML page about a resource, for `report`: its state, plan, roll node by node, features and Events.

Pure: it shows the status, the Events and the metadata log. The page is one file without scripts, so it can be attached
to a ticket. It is light or dark like the reader's system, and no fact is shown by colour alone. Called by
`cli/kube/report.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import StatusCondition
from kafkafeatures.cli.cluster.blockers_text import blocks, is_about_ranges, messages, range_lines
from kafkafeatures.cli.document.steps_text import APPROVED, UNDO, until_of
from kafkafeatures.cli.kube.resource import KubeResource, level_of, range_of
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.migration import STYLE_OF_MIGRATIONS, migration
from kafkafeatures.cli.pages.roll import STYLE_OF_ROLLS, roll
from kafkafeatures.cli.shell.html_parts import (
    BREAK,
    Html,
    as_written,
    day_and_time,
    folded,
    lines,
    remedy,
    small,
    table,
    text,
    whole_page,
)
from kafkafeatures.core.kinds import in_flight
from kafkafeatures.core.report.events import facts_of
from kraftlog.rolls import RollHistory

STYLE = STYLE_OF_ROLLS + STYLE_OF_MIGRATIONS
NOT_RECONCILED = StatusCondition(type="", status="", last_transition_time=Stamp(""), reason="", message="")
"""Stands for the condition Ready where the status does not have it yet."""

_WORDS = {"True": "Ready", "False": "Not ready", "Unknown": "Unknown"}
"""Words by the status of the condition Ready."""
# CSS class by the state of a feature
_STATES = {"InSync": "good", "Pending": "wait", "Blocked": "bad", "Drifted": "bad", "Unmanaged": "muted"}


def page(
    resource: KubeResource, events: Sequence[SeenEvent] | None, current_time: datetime, log: RollHistory | str
) -> str:
    """The whole page of a report. Arguments: see `sections`."""
    return whole_page(f"{resource} - KafkaFeatures", sections(resource, events, current_time, log), STYLE)


def sections(
    resource: KubeResource, events: Sequence[SeenEvent] | None, current_time: datetime, log: RollHistory | str
) -> tuple[Html, ...]:
    """The sections of the page, in their order.

    `events`: the oldest first; None if they could not be read. `log`: the restarts by the metadata log, or the reason
    why it was not read.
    """
    return (
        _head(resource, current_time),
        _blockers(resource),
        _plan(resource),
        migration(resource, events or (), log),
        roll(resource, events or (), current_time, log),
        _features(resource),
        _conditions(resource),
        _events_and_history(resource, events),
    )


def style_of(resource: KubeResource) -> str:
    """CSS class of a resource's state: "bad" only if it is not ready for another reason than that it is at work, or
    waits for its owner.
    """
    ready = resource.status.condition(Condition.READY) or NOT_RECONCILED
    passes = any(map(resource.true_condition, (Condition.RECONCILING, Condition.APPROVAL_REQUIRED)))
    waits = passes or ready.reason == Reason.SUSPENDED
    return {"True": "good", "False": "wait" if waits else "bad"}.get(ready.status, "wait")


def waits_for_approval(resource: KubeResource) -> bool:
    """True if the plan needs an approval that it does not have yet."""
    return resource.true_condition(Condition.APPROVAL_REQUIRED) is not None and not resource.is_approved


# --- sections ---


def _head(resource: KubeResource, current_time: datetime) -> Html:
    status = resource.status
    ready = status.condition(Condition.READY) or NOT_RECONCILED
    word, style = _WORDS.get(ready.status, "Not reconciled yet"), style_of(resource)
    is_old = ready is not NOT_RECONCILED and not resource.is_current(ready)
    generation = f" (of generation {ready.observed_generation or '?'})" if is_old else ""
    facts = {
        "Cluster": status.cluster_id,
        "Metadata": status.metadata_version,
        "Mode": resource.mode,
        "Generation": resource.generation,
        "Operator": status.operator_version,
        "Report made": day_and_time(current_time),
    }
    described = Html(" | ").join(Html("{}: {}").format(name, text(fact)) for name, fact in facts.items() if fact)
    reason, message = ready.reason and f": {ready.reason}", ready.message and BREAK + text(ready.message)
    return Html('<h1>{}</h1>\n<p class="box"><strong class="{}">{}{}</strong>{}{}</p>\n<p class="muted">{}</p>').format(
        text(resource), style, word, text(reason), text(generation), message, described
    )


def _plan(resource: KubeResource) -> Html:
    status = resource.status
    plan, back = status.plan, status.way_back
    if plan is None:
        is_known = status.condition(Condition.READY) is not None
        reason = "Nothing is to be changed." if is_known else "No plan yet: the operator has not reconciled it."
        return Html("<h2>Plan</h2>\n<p>{}</p>").format(reason)
    marks = (plan.hash, "irreversible" if plan.irreversible else "", APPROVED.get(plan.approved_by, ""))
    muted = Html('<span class="muted">{}</span>')
    steps = [
        (
            lines((step.detail or "?", *(muted.format(text(effect)) for effect in step.effects))),
            step.state or "?",
            step.way_back or UNDO.get(step.undo, step.undo and "can be undone"),
        )
        for step in plan.steps
    ]
    way_back = Html("\n<p>Way back, {}: {}</p>").format(text(until_of(back)), text(back.how)) if back else ""
    since = status.soak_started_at
    soak = Html("\n<p>Soaking: every node healthy since {}</p>").format(text(as_written(since))) if since else ""
    steps_table = table("Steps, in their order", ("Step", "State", "Undo"), steps)
    marked = text(", ".join(filter(None, marks)))
    return Html("<h2>Plan</h2>\n<p>{}</p>\n{}{}{}").format(marked, steps_table, soak, way_back)


def _features(resource: KubeResource) -> Html:
    rows = [
        (
            feature.name or "?",
            level_of(feature, feature.finalized, "?"),
            level_of(feature, feature.desired, "-"),
            range_of(feature, "?-?"),
            Html('<span class="{}">{}</span>').format(_STATES.get(feature.state, ""), feature.state or "?"),
        )
        for feature in resource.status.features
    ]
    head = ("Feature", "Finalized", "Desired", "Supported by all nodes", "State")
    return Html("<h2>Features</h2>\n") + table("Levels of the cluster", head, rows) if rows else Html()


def _blockers(resource: KubeResource) -> Html:
    """A row for each group of nodes with equal blockers, and one for each other blocker, with remedies."""
    rows, groups = [], blocks(resource.status.blockers)
    for block in groups:
        first, about_ranges = block[0], is_about_ranges(block[0])
        remedies = dict.fromkeys(blocker.remedy for blocker in block if blocker.remedy)
        rows.append(
            (
                text(first.nodes or "the cluster") + small(first.kind or "?"),
                first.inferred_release or "-",
                lines(range_lines(block) if about_ranges else messages(block)),
                folded("Remedy", lines(map(remedy, remedies)), is_open=len(groups) == 1) if remedies else "-",
            )
        )
    head = ("Where", "Kafka (inferred)", "What prevents the change", "What to do")
    return Html("<h2>Blockers</h2>\n") + table("While there is one, nothing is sent", head, rows) if rows else Html()


def _conditions(resource: KubeResource) -> Html:
    rows = [
        (
            condition.type,
            condition.status,
            condition.reason,
            condition.message,
            as_written(condition.last_transition_time),
        )
        for condition in resource.status.conditions
    ]
    html = table("As the operator wrote them", ("Type", "Status", "Reason", "Message", "Since"), rows)
    return Html("<h2>Conditions</h2>\n") + folded("All conditions", html) if rows else Html()


def _events_and_history(resource: KubeResource, events: Sequence[SeenEvent] | None) -> Html:
    rows = [(event.at, event.reason, event.note) for event in events or ()]
    rows += [
        (entry.at, entry.result, f"{entry.action or '?'} {entry.message}".strip()) for entry in resource.status.history
    ]
    rows += [
        (str(intent.unknown.get("at", "")), "not known yet", str(in_flight(intent)))
        for intent in resource.status.intents
        if not facts_of(intent).node  # restarts of nodes are in the section about the roll
    ]
    unread = Html() if events is not None else Html("\n<p>The Events could not be read.</p>")
    cells = [(as_written(at), name, detail) for at, name, detail in sorted(rows)]
    happened = table("Events and history, the oldest first", ("When", "What", "Detail"), cells)
    html = happened if cells else Html("<p>No Event and no change yet.</p>")
    return Html("<h2>What happened</h2>{}\n{}").format(unread, html)
