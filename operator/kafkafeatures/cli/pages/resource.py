"""A resource as one HTML page that needs nothing else: how it is, its plan, its roll node by node, its features.

Pure: of the status, the Events and the metadata log, and nothing is added to them. No script and nothing from
elsewhere, so it opens anywhere and can be attached to a ticket; light and dark as the reader's system has it, and no
fact by colour alone. Every text is escaped: notes and messages hold what brokers said. Called by `cli/kube/report.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from kafkafeatures.api.reasons import Condition
from kafkafeatures.cli.document.steps_text import APPROVED, UNDO
from kafkafeatures.cli.kube.resource import KubeResource, intent_text
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.html_parts import day_and_time, table, text, whole_page
from kafkafeatures.cli.pages.roll import STYLE_OF_ROLLS, roll
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.roll.restart_node import RestartNode
from kraftlog.rolls import RollHistory

Shape = Mapping[str, Any]

_STATES = {"InSync": "good", "Pending": "wait", "Blocked": "bad", "Drifted": "bad", "Unmanaged": "muted"}


def page(resource: KubeResource, events: Sequence[SeenEvent] | None, now: datetime, log: RollHistory | str) -> str:
    """The whole document.

    `events`: the oldest first; None where they could not be read. `log`: what the metadata log tells of
    the roll, or why it was not read.
    """
    sections = (
        _head(resource, now),
        _plan(resource),
        roll(resource, events or (), now, log),
        _features(resource),
        _blockers(resource),
        _conditions(resource),
        _happened(resource, events),
    )
    return whole_page(f"{resource} - KafkaFeatures", sections, STYLE_OF_ROLLS)


# --- sections ---


def _head(resource: KubeResource, now: datetime) -> str:
    ready, status = resource.condition(Condition.READY), resource.status
    look = {"True": ("Ready", "good"), "False": ("Not ready", "bad"), "Unknown": ("Unknown", "wait")}
    word, style = look.get(str(ready.get("status")), ("Not reconciled yet", "wait"))
    if resource.says(Condition.RECONCILING):
        style = "wait"  # it resolves automatically
    old = "" if not ready or resource.is_current(ready) else f" (of generation {ready.get('observedGeneration', '?')})"
    facts = {
        "Cluster": status.get("clusterId"),
        "Metadata": status.get("metadataVersion"),
        "Mode": resource.spec.get("mode", "Apply"),
        "Generation": resource.generation,
        "Operator": status.get("operatorVersion"),
        "Report made": day_and_time(now),
    }
    told = " | ".join(f"{escape(name)}: {escape(str(fact))}" for name, fact in facts.items() if fact)
    return (
        f"<h1>{escape(str(resource))}</h1>\n"
        f'<p class="box"><strong class="{style}">{escape(word)}: {escape(str(ready.get("reason", "-")))}</strong>'
        f"{escape(old)}<br>{escape(str(ready.get('message', '')))}</p>\n"
        f'<p class="muted">{told}</p>'
    )


def _plan(resource: KubeResource) -> str:
    plan, back = resource.plan, resource.status.get("wayBack") or {}
    if not plan:
        return "<h2>Plan</h2>\n<p>Nothing is to be changed.</p>"
    approved = APPROVED.get(str(plan.get("approvedBy", "")), "")
    marks = (resource.plan_hash, "irreversible" if plan.get("irreversible") else "", approved)
    steps = (
        (step.get("detail", "?"), step.get("state", "?"), UNDO.get(str(step.get("undo")), "can be undone"))
        for step in plan.get("steps") or ()
    )
    until = f"until {back['until']}" if back.get("until") else "until the plan is carried out"
    way = f"\n<p>Way back, {escape(until)}: {escape(str(back.get('how', '')))}</p>" if back else ""
    since = resource.status.get("soakStartedAt")
    soak = f"\n<p>Soaking: every node healthy since {escape(str(since))}</p>" if since else ""
    steps_of_it = table("Steps, in their order", ("Step", "State", "Undo"), [tuple(map(text, one)) for one in steps])
    return f"<h2>Plan</h2>\n<p>{escape(', '.join(filter(None, marks)))}</p>\n{steps_of_it}{soak}{way}"


def _features(resource: KubeResource) -> str:
    rows = []
    for one in resource.status.get("features") or ():
        state = str(one.get("state", "?"))
        name = str(one.get("name", "?"))
        supported = f"{one.get('supportedMin', '?')}-{one.get('supportedMax', '?')}"
        rows.append(
            (
                text(name),
                text(_level(name, one.get("finalized"), "?")),
                text(_level(name, one.get("desired"), "-")),
                text(supported),
                f'<span class="{_STATES.get(state, "")}">{escape(state)}</span>',
            )
        )
    head = ("Feature", "Finalized", "Desired", "Supported by all nodes", "State")
    return "<h2>Features</h2>\n" + table("Levels of the cluster", head, rows) if rows else ""


def _blockers(resource: KubeResource) -> str:
    rows = [
        (text(one.get("kind", "?")), text(one.get("message", "")), text(one.get("remedy", "")))
        for one in resource.status.get("blockers") or ()
    ]
    head = ("Kind", "What prevents the change", "What to do")
    return "<h2>Blockers</h2>\n" + table("While there is one, nothing is sent", head, rows) if rows else ""


def _conditions(resource: KubeResource) -> str:
    rows = [
        tuple(text(one.get(name, "")) for name in ("type", "status", "reason", "message", "lastTransitionTime"))
        for one in resource.conditions
    ]
    head = ("Type", "Status", "Reason", "Message", "Since")
    return "<h2>Conditions</h2>\n" + table("As the operator wrote them", head, rows) if rows else ""


def _happened(resource: KubeResource, events: Sequence[SeenEvent] | None) -> str:
    rows = [(one.at, one.reason, one.note) for one in events or ()]
    rows += [
        (
            str(one.get("at", "")),
            str(one.get("result", "")),
            f"{one.get('action', '?')} {one.get('message', '')}".strip(),
        )
        for one in resource.status.get("history") or ()
    ]
    rows += [
        (str(one.get("at", "")), "not known yet", intent_text(one))
        for one in resource.status.get("intents") or ()
        if one.get("kind") != RestartNode.kind
    ]
    unread = "" if events is not None else "\n<p>The Events could not be read.</p>"
    head = ("When", "What", "Detail")
    told = table("Events and history, the oldest first", head, [tuple(map(text, row)) for row in sorted(rows)])
    return f"<h2>What happened</h2>{unread}\n{told}"


def _level(feature: str, level: object, absent: str) -> str:
    return format_level(feature, level) if isinstance(level, int) else absent
