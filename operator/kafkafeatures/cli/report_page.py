"""A resource as one HTML page that needs nothing else: how it is, its plan, its roll node by node, its features.

Pure: of the status and the Events, and nothing is added to them. No script and nothing from elsewhere, so it opens
anywhere and can be attached to a ticket; light and dark as the reader's system has it, and no fact by colour alone.
Every text is escaped: notes and messages hold what brokers said. Called by `cli/report.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape
from typing import Any

from kafkafeatures.api.reasons import Condition
from kafkafeatures.cli.kube_resource import KubeResource, intent_text
from kafkafeatures.cli.steps_text import APPROVED, UNDO
from kafkafeatures.core.releases import format_level
from kafkafeatures.core.restarts import RestartNode

Shape = Mapping[str, Any]

_BEGUN = re.compile(r"^(?:restarting )(?P<title>.+): pod (?P<pod>\S+) is evicted$|^restart (?P<by_hand>.+)$")
_ENDED = re.compile(r"^(?P<title>.+?)(?: \((?P<pod>\S+)\))?(?::.*)?$")
_STYLE = """
:root { color-scheme: light dark; --text: #1a1a1a; --muted: #555; --page: #fff; --line: #ccc; --box: #f4f4f4;
  --good: #0a5d24; --bad: #a11212; --wait: #7a4b00; --bar: #2b62a8; }
@media (prefers-color-scheme: dark) { :root { --text: #eee; --muted: #b5b5b5; --page: #161616; --line: #444;
  --box: #222; --good: #7fd89a; --bad: #ff9c9c; --wait: #f2c573; --bar: #7fb0ee; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; color: var(--muted); margin-top: .8rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: break-word; }
.good { color: var(--good); } .bad { color: var(--bad); } .wait { color: var(--wait); } .muted { color: var(--muted); }
.box { background: var(--box); padding: .8rem 1rem; border-radius: .4rem; }
.track { background: var(--box); width: 100%; min-width: 8rem; height: 1rem; position: relative; }
.bar { background: var(--bar); height: 1rem; position: absolute; min-width: 2px; }
.scroll { overflow-x: auto; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STATES = {"InSync": "good", "Pending": "wait", "Blocked": "bad", "Drifted": "bad", "Unmanaged": "muted"}


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart of a node. `back`: when it was seen to be in sync again; `ended`: when it had stayed so."""

    node: str
    pod: str
    began: datetime | None
    back: datetime | None = None
    ended: datetime | None = None


def page(resource: KubeResource, events: Sequence[Shape] | None, now: datetime) -> str:
    """The whole document. `events`: as in a report, the oldest first; None where they could not be read."""
    sections = (
        _head(resource, now),
        _plan(resource),
        _roll(resource, restarts_of(resource.status, events or ()), now),
        _features(resource),
        _blockers(resource),
        _conditions(resource),
        _happened(resource, events),
    )
    title = escape(f"{resource} - KafkaFeatures")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n'
        + "\n".join(filter(None, sections))
        + "\n</main>\n</body>\n</html>\n"
    )


def restarts_of(status: Shape, events: Iterable[Shape]) -> tuple[Restart, ...]:
    """Of the rolls that Events still tell of, in the order in which they began; those in flight from the status."""
    found: list[Restart] = []
    for event in events:
        note, at = str(event.get("note", "")), _moment(event.get("at"))
        if event.get("reason") in ("RestartingNode", "RestartRequested"):
            begun = _BEGUN.match(note)
            if begun:
                found.append(Restart(begun["title"] or begun["by_hand"], begun["pod"] or "", at))
        elif event.get("reason") == "NodeRestarted":
            _end(found, note, at)
    for intent in status.get("intents") or ():
        if intent.get("kind") == RestartNode.kind:
            _in_flight(found, intent)
    return tuple(found)


def _end(found: list[Restart], note: str, at: datetime | None) -> None:
    ended = _ENDED.match(note)
    node, pod = (ended["title"], ended["pod"] or "") if ended else (note, "")
    for index, one in reversed(list(enumerate(found))):
        if one.node == node and one.ended is None:
            found[index] = replace(one, ended=at)
            return
    found.append(Restart(node, pod, None, ended=at))  # how it began is forgotten by now


def _in_flight(found: list[Restart], intent: Shape) -> None:
    """The status has its moments to the point; of an Event it is known when it was told."""
    node, pod = str(intent.get("title", "?")), str(intent.get("target", ""))
    now = Restart(node, "" if pod == node else pod, _moment(intent.get("at")), _moment(intent.get("stableSince")))
    for index, one in reversed(list(enumerate(found))):
        if one.node == node and one.ended is None:
            found[index] = now
            return
    found.append(now)


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
        "Report made": _shown(now),
    }
    shown = " | ".join(f"{escape(name)}: {escape(str(fact))}" for name, fact in facts.items() if fact)
    return (
        f"<h1>{escape(str(resource))}</h1>\n"
        f'<p class="box"><strong class="{style}">{escape(word)}: {escape(str(ready.get("reason", "-")))}</strong>'
        f"{escape(old)}<br>{escape(str(ready.get('message', '')))}</p>\n"
        f'<p class="muted">{shown}</p>'
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
    table = _table("Steps, in their order", ("Step", "State", "Undo"), [tuple(map(_text, one)) for one in steps])
    return f"<h2>Plan</h2>\n<p>{escape(', '.join(filter(None, marks)))}</p>\n{table}{soak}{way}"


def _roll(resource: KubeResource, restarts: tuple[Restart, ...], now: datetime) -> str:
    rollout, workloads = resource.status.get("rollout") or {}, resource.status.get("workloads") or ()
    if not (rollout or workloads or restarts):
        return ""
    parts = ["<h2>Roll</h2>"]
    if rollout:
        done, total = rollout.get("done", 0), rollout.get("total", 0)
        waits = f"; {rollout['waitingFor']}" if rollout.get("waitingFor") else ""
        parts.append(f"<p>{escape(f'{done} of {total} nodes are current{waits}')}</p>")
    if workloads:
        rows = [
            tuple(_text(one.get(name, "?")) for name in ("name", "updateRevision", "updated", "total"))
            for one in workloads
        ]
        parts.append(_table("StatefulSets", ("Name", "Update revision", "Pods at it", "All pods"), rows))
    if restarts:
        parts.append(_timeline(restarts, now))
    return "\n".join(parts)


def _timeline(restarts: tuple[Restart, ...], now: datetime) -> str:
    moments = [one for each in restarts for one in (each.began, each.back, each.ended) if one is not None]
    first, last = min(moments, default=now), max([*moments, *([now] if any(not one.ended for one in restarts) else ())])
    whole = max((last - first).total_seconds(), 1.0)
    rows = []
    for one in restarts:
        end = one.ended or now
        began = one.began or one.ended or now
        left = 100 * (began - first).total_seconds() / whole
        width = max(100 * (end - began).total_seconds() / whole, 0.0)
        bar = f'<div class="track"><div class="bar" style="left:{left:.2f}%;width:{width:.2f}%"></div></div>'
        took = f"{(end - one.began).total_seconds():.0f} s" if one.began else "?"
        rows.append(
            (
                _text(one.node),
                _text(one.pod or "by hand"),
                _text(_shown(one.began)),
                _text(_shown(one.ended) if one.ended else "in sync, to stay so" if one.back else "in flight"),
                _text(took),
                bar,
            )
        )
    caption = f"Restarts from {_shown(first)} to {_shown(last)}, as far as Events tell of them"
    return _table(caption, ("Node", "Pod", "Began", "Back and stable", "Took", "When"), rows)


def _features(resource: KubeResource) -> str:
    rows = []
    for one in resource.status.get("features") or ():
        state = str(one.get("state", "?"))
        name = str(one.get("name", "?"))
        supported = f"{one.get('supportedMin', '?')}-{one.get('supportedMax', '?')}"
        rows.append(
            (
                _text(name),
                _text(_level(name, one.get("finalized"), "?")),
                _text(_level(name, one.get("desired"), "-")),
                _text(supported),
                f'<span class="{_STATES.get(state, "")}">{escape(state)}</span>',
            )
        )
    head = ("Feature", "Finalized", "Desired", "Supported by all nodes", "State")
    return "<h2>Features</h2>\n" + _table("Levels of the cluster", head, rows) if rows else ""


def _blockers(resource: KubeResource) -> str:
    rows = [
        (_text(one.get("kind", "?")), _text(one.get("message", "")), _text(one.get("remedy", "")))
        for one in resource.status.get("blockers") or ()
    ]
    head = ("Kind", "What prevents the change", "What to do")
    return "<h2>Blockers</h2>\n" + _table("While there is one, nothing is sent", head, rows) if rows else ""


def _conditions(resource: KubeResource) -> str:
    rows = [
        tuple(_text(one.get(name, "")) for name in ("type", "status", "reason", "message", "lastTransitionTime"))
        for one in resource.conditions
    ]
    head = ("Type", "Status", "Reason", "Message", "Since")
    return "<h2>Conditions</h2>\n" + _table("As the operator wrote them", head, rows) if rows else ""


def _happened(resource: KubeResource, events: Sequence[Shape] | None) -> str:
    rows = [(str(one.get("at", "")), str(one.get("reason", "")), str(one.get("note", ""))) for one in events or ()]
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
    table = _table("Events and history, the oldest first", head, [tuple(map(_text, row)) for row in sorted(rows)])
    return f"<h2>What happened</h2>{unread}\n{table}"


# --- parts ---


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """`rows`: of HTML."""
    heads = "".join(f'<th scope="col">{escape(one)}</th>' for one in head)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{one}</td>" for one in row[1:])}</tr>\n' for row in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>"
    )


def _text(value: object) -> str:
    return escape(str(value))


def _level(feature: str, level: object, absent: str) -> str:
    return format_level(feature, level) if isinstance(level, int) else absent


def _moment(text: object) -> datetime | None:
    """None for what is none, or has no time zone."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _shown(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z") if moment is not None else "?"
