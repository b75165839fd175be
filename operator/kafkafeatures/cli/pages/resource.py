"""HTML page about a resource, for `report`: its state, plan, roll node by node, features and Events.

Pure: it shows the status, the Events and the metadata log. The page is one file without scripts, so it can be attached
to a ticket. It is light or dark like the reader's system, and no fact is shown by colour alone. Called by
`cli/kube/report.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kafkafeatures.api.reasons import Condition, PlanVerdict, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import StatusCondition
from kafkafeatures.cli.cluster.blocker_cards import blocker_cards
from kafkafeatures.cli.document.steps_html import VERDICTS, steps_table, style_of_verdict, way_back_line
from kafkafeatures.cli.document.steps_text import APPROVED
from kafkafeatures.cli.kube.resource import KubeResource, level_of, range_of
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.clients import clients
from kafkafeatures.cli.pages.migration import STYLE_OF_MIGRATIONS, migration
from kafkafeatures.cli.pages.roll import STYLE_OF_ROLLS, roll
from kafkafeatures.cli.shell.html_parts import (
    Html,
    as_written,
    box,
    day_and_time,
    folded,
    table,
    text,
    to_copy,
    whole_page,
)
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.kinds import in_flight
from kafkafeatures.core.report.events import facts_of
from kraftlog.rolls import RollHistory

STYLE = STYLE_OF_ROLLS + STYLE_OF_MIGRATIONS
NOT_RECONCILED = StatusCondition(type="", status="", last_transition_time=Stamp(""), reason="", message="")
"""Stands for the condition Ready where the status does not have it yet."""
NOT_YET = "The operator has not reconciled it yet; check that it runs and watches this namespace."

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
    resource: KubeResource,
    events: Sequence[SeenEvent] | None,
    current_time: datetime,
    log: RollHistory | str,
    flags: str = "",
) -> tuple[Html, ...]:
    """The sections of the page, in their order.

    `events`: the oldest first; None if they could not be read. `log`: the restarts by the metadata log, or the reason
    why it was not read. `flags`: those that a command needs besides the name, to reach the same API server.
    """
    rollout, plan = resource.status.rollout, _plan(resource, flags)
    nodes = migration(resource, events or (), log), roll(resource, events or (), current_time, log)
    is_rolling = rollout is not None and rollout.done < rollout.total  # then people watch the nodes
    return (
        _head(resource, current_time),
        _blockers(resource),
        *((*nodes, plan) if is_rolling else (plan, *nodes)),
        clients(resource),
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


def plan_page(resource: KubeResource, verdict: PlanVerdict, current_time: datetime) -> str:
    """The page of the plan alone, for `plan NAME -o html`."""
    ready = resource.status.condition(Condition.READY)
    shown = (
        Html("<h1>Plan of {}</h1>").format(text(resource)),
        box(style_of_verdict(verdict), VERDICTS[verdict], f"{ready.reason}: {ready.message}" if ready else NOT_YET),
        _facts(resource, current_time),
        _blockers(resource),
        _plan(resource),
        _features(resource),
    )
    return whole_page(f"Plan of {resource} - KafkaFeatures", shown, STYLE)


# --- sections ---


def _head(resource: KubeResource, current_time: datetime) -> Html:
    ready = resource.status.condition(Condition.READY) or NOT_RECONCILED
    is_old = ready is not NOT_RECONCILED and not resource.is_current(ready)
    generation = f" (of generation {ready.observed_generation or '?'})" if is_old else ""
    reason = f": {ready.reason}" if ready.reason else ""
    bar = box(
        style_of(resource),
        f"{_WORDS.get(ready.status, 'Not reconciled yet')}{reason}{generation}",
        *filter(None, [ready.message]),
    )
    return Html("<h1>{}</h1>\n{}\n{}").format(text(resource), bar, _facts(resource, current_time))


def _facts(resource: KubeResource, current_time: datetime) -> Html:
    """The line with what the page is about, and when it was made."""
    status = resource.status
    facts = {
        "Cluster": status.cluster_id,
        "Metadata": status.metadata_version,
        "Mode": resource.mode,
        "Generation": resource.generation,
        "Operator": status.operator_version,
        "Report made": day_and_time(current_time),
    }
    described = Html(" | ").join(Html("{}: {}").format(name, text(fact)) for name, fact in facts.items() if fact)
    return Html('<p class="muted">{}</p>').format(described)


def _plan(resource: KubeResource, flags: str = "") -> Html:
    status = resource.status
    plan = status.plan
    if plan is None:
        is_known = status.condition(Condition.READY) is not None
        reason = "Nothing is to be changed." if is_known else "No plan yet: the operator has not reconciled it."
        return Html("<h2>Plan</h2>\n<p>{}</p>").format(reason)
    marks = (plan.hash[:HASH_SHOWN], "irreversible" if plan.irreversible else "", APPROVED.get(plan.approved_by, ""))
    since = status.soak_started_at
    parts = (
        Html("<h2>Plan</h2>\n<p>{}</p>").format(text(", ".join(filter(None, marks)))),
        _to_approve(resource, flags),
        steps_table(plan.steps),
        Html("<p>Soaking: every node healthy since {}</p>").format(text(as_written(since))) if since else "",
        way_back_line(status.way_back),
    )
    return Html("\n").join(filter(None, parts))


def _to_approve(resource: KubeResource, flags: str) -> Html:
    """The command that approves the current plan, if that waits for approval."""
    if resource.true_condition(Condition.APPROVAL_REQUIRED) is None or resource.is_approved:
        return Html()
    command = f"kafkafeatures approve {resource.flags} --plan {resource.plan_hash[:HASH_SHOWN]} {flags}"
    return to_copy("To approve this plan, and no other", command.strip())


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
    status = resource.status
    cards = blocker_cards(status.blockers)
    omitted = status.blockers_total - len(status.blockers)
    more = Html("\n<p>and {} more</p>").format(omitted) if omitted > 0 else Html()
    heading = Html("<h2>Blockers</h2>\n<p>While there is one, nothing is sent.</p>\n{}{}")
    return heading.format(cards, more) if cards else Html()


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
