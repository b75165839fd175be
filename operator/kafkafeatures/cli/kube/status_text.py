"""The status of a resource as people read it at night: how it is, since when, what is planned, what stops it.

Draws what the status holds and adds nothing: facts of an older generation, or of a cluster that cannot be read any
more, are marked as such. Where the features do not fit the terminal each has lines of its own. Used by `status`; parts
of it by `plan NAME` and `approve`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kafkafeatures.api.names import PAUSE
from kafkafeatures.api.reasons import Condition, PlanVerdict
from kafkafeatures.api.status import Result
from kafkafeatures.cli.document.steps_text import APPROVED, COLOURS, draw_blockers, draw_steps, draw_way_back
from kafkafeatures.cli.kube.resource import KubeResource, intent_text
from kafkafeatures.cli.shell.output import natural_width
from kafkafeatures.core.engine.plan import HASH_SHOWN, undo_of
from kafkafeatures.core.engine.steps import UpdateFeature
from kafkafeatures.core.facts.releases import Undo, format_level
from kafkafeatures.core.roll.restart_node import RestartNode

NOBODY_LOOKED = "not reconciled yet; check that the operator is running and watches this namespace"
HISTORY_SHOWN = 5
"""Of the newest. Irreversible changes are shown however many came after them."""
WORTH_SAYING = timedelta(seconds=90)
"""By how much Ready has to be older than its reason for both ages to be said."""

_CHANGE = re.compile(r"([a-z][a-z0-9._]*) ([0-9]{1,5}) -> ([0-9]{1,5})$")
_NOT_MADE = (Result.NOT_APPLIED, Result.REJECTED, Result.NOT_SENT)

_READY = {"True": ("ready", "bold green"), "False": ("not ready", "bold red"), "Unknown": ("unknown", "bold yellow")}
_STATES = {"InSync": "green", "Pending": "yellow", "Blocked": "red", "Drifted": "red", "Unmanaged": "dim"}
_AGES = ((90, 1, "s"), (90 * 60, 60, "m"), (36 * 3600, 3600, "h"), (float("inf"), 86400, "d"))


def draw_status(console: Console, resource: KubeResource, now: datetime) -> None:
    """Print all of it."""
    draw_headline(console, resource, now)
    draw_features(console, resource)
    if resource.plan:
        _title(console, "Plan")
        console.print(_plan_line(resource, now), overflow="fold")
        draw_steps(console, resource.plan.get("steps") or ())
        _soak(console, resource, now)
        draw_how_to_approve(console, resource)
    draw_blockers_of(console, resource)
    _roll(console, resource)
    _in_progress(console, resource, now)
    _conditions(console, resource, now)
    _history(console, resource)


def draw_plan_of(console: Console, resource: KubeResource, verdict: PlanVerdict, now: datetime) -> None:
    """What `plan NAME` shows of it."""
    for caution in cautions(resource, now):
        console.print(Text(caution, "yellow"), overflow="fold")
    draw_features(console, resource)
    if resource.plan:
        _title(console, "Steps")
        draw_steps(console, resource.plan.get("steps") or ())
    draw_blockers_of(console, resource)
    console.print()
    line = Text.assemble(("Plan: ", "bold"), (verdict, f"bold {COLOURS[verdict]}"))
    if resource.plan:
        line.append("  ").append_text(_plan_line(resource, now))
    console.print(line, overflow="fold")
    ready = resource.condition(Condition.READY)
    console.print(Text(f"{ready['reason']}: {ready['message']}" if ready else NOBODY_LOOKED), overflow="fold")
    _soak(console, resource, now)
    draw_how_to_approve(console, resource)


def draw_headline(console: Console, resource: KubeResource, now: datetime) -> None:
    """How it is and since when; which cluster; and whatever makes the rest less true than it looks."""
    ready = resource.condition(Condition.READY)
    word, style = _READY.get(ready.get("status", ""), ("not reconciled", "bold yellow"))
    line = Text.assemble((str(resource), "bold"), "  ", (word, style))
    if ready:
        line.append(f": {ready['reason']}", style).append(f", for {_ages_of(resource, word, now)}")
    console.print(line, overflow="fold")
    console.print(Text(ready["message"] if ready else NOBODY_LOOKED), overflow="fold")
    facts = (
        f"Cluster {resource.status['clusterId']}" if resource.status.get("clusterId") else "cluster unknown",
        resource.status.get("metadataMode", ""),
        f"mode {resource.spec.get('mode', 'Apply')}",
        f"generation {resource.generation}",
        f"operator {resource.status['operatorVersion']}" if resource.status.get("operatorVersion") else "",
    )
    console.print(Text("  ".join(filter(None, facts))), overflow="fold")
    for caution in cautions(resource, now):
        console.print(Text(caution, "yellow"), overflow="fold")


def cautions(resource: KubeResource, now: datetime) -> Iterator[str]:
    """What has to be known before the rest is believed."""
    ready, levels = resource.condition(Condition.READY), resource.condition(Condition.FEATURES_FINALIZED)
    if resource.metadata.get("deletionTimestamp"):
        yield f"Being deleted for {age(resource.metadata['deletionTimestamp'], now)}."
    if ready and not resource.is_current(ready):
        yield (
            f"Generation {resource.generation} is not reconciled yet; the status is of "
            f"generation {ready.get('observedGeneration', '?')}."
        )
    if levels.get("status") == "Unknown":
        since = age(levels["lastTransitionTime"], now)
        yield f"The cluster could not be read for {since}; levels and plan are from the last successful read."
    if resource.paused:
        yield f"Suspended by the annotation {PAUSE}; to resume: kafkafeatures resume {resource.flags}"
    if resource.suspended_in_document:
        yield "Suspended by spec.suspend in the document; set it to false there to resume."


def draw_features(console: Console, resource: KubeResource) -> None:
    """Every feature: where it is, where it shall be, what all nodes support, how far that is."""
    features = resource.status.get("features") or ()
    if not features:
        return
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("FEATURE", "FINALIZED", "DESIRED", "SUPPORTED", "STATE"):
        table.add_column(column, no_wrap=True)
    for one in features:
        table.add_row(one["name"], _level(one, "finalized", "?"), _level(one, "desired", "-"), _range(one), _state(one))
    if natural_width(console, table) <= console.width:
        console.print(table)
        return
    for one in features:
        console.print(Text.assemble((one["name"], "bold"), "  ", _state(one)), overflow="fold")
        wanted = (
            f" -> {_level(one, 'desired', '-')}"
            if one.get("desired", one.get("finalized")) != one.get("finalized")
            else ""
        )
        line = Text(f"{_level(one, 'finalized', '?')}{wanted}; all nodes support {_range(one)}")
        console.print(Padding(line, (0, 0, 0, 2), expand=False))


def draw_how_to_approve(console: Console, resource: KubeResource) -> None:
    """The command line, where the plan waits for it."""
    if resource.says(Condition.APPROVAL_REQUIRED) and not resource.is_approved:
        line = f"To approve: kafkafeatures approve {resource.flags} --plan {resource.plan_hash[:HASH_SHOWN]}"
        console.print(Text(line), soft_wrap=True)  # to be copied: never broken in two


def draw_blockers_of(console: Console, resource: KubeResource) -> None:
    """Blockers with their remedies."""
    blockers: Sequence[Mapping[str, Any]] = resource.status.get("blockers") or ()
    if not blockers:
        return
    _title(console, "Blockers")
    draw_blockers(console, blockers)
    more = resource.status.get("blockersTotal", 0) - len(blockers)
    if more > 0:
        console.print(Text(f"  and {more} more"))


def age(moment: str, now: datetime) -> str:
    """How long ago, in one unit. A clock that is behind the API server's makes it 0."""
    seconds = max((now - datetime.fromisoformat(moment)).total_seconds(), 0.0)
    unit, letter = next((unit, letter) for below, unit, letter in _AGES if seconds < below)
    return f"{int(seconds // unit)}{letter}"


# --- parts ---


def _ages_of(resource: KubeResource, word: str, now: datetime) -> str:
    """Of the reason of Ready; and of Ready itself, where it has been so for longer, for other reasons."""
    ready = resource.condition(Condition.READY)
    since = max(_reason_since(resource, ready), ready["lastTransitionTime"], key=datetime.fromisoformat)
    longer = datetime.fromisoformat(since) - datetime.fromisoformat(ready["lastTransitionTime"])
    whole = f" ({word} for {age(ready['lastTransitionTime'], now)})" if longer >= WORTH_SAYING else ""
    return age(since, now) + whole


def _reason_since(resource: KubeResource, ready: Mapping[str, Any]) -> str:
    """As the status says; of an older release's as the condition says that came with the reason, such as Stalled."""
    told = resource.status.get("readyReason") or {}
    if told.get("reason") == ready["reason"] and told.get("since"):
        return str(told["since"])
    others = (one for one in resource.conditions if one["reason"] == ready["reason"] and one["status"] == "True")
    return str(next((one["lastTransitionTime"] for one in others), ready["lastTransitionTime"]))


def _plan_line(resource: KubeResource, now: datetime) -> Text:
    plan = resource.plan
    line = Text(f"{resource.plan_hash[:HASH_SHOWN]}")
    if plan.get("irreversible"):
        line.append("  irreversible", "yellow")
    if plan.get("approvedBy"):
        line.append(f"  {APPROVED.get(plan['approvedBy'], 'approved')}")
    elif resource.is_approved:
        line.append("  approved; not reconciled yet")
    elif resource.condition(Condition.APPROVAL_REQUIRED):
        line.append("  waiting for approval", "yellow")
    if plan.get("createdAt"):
        line.append(f"  created {age(plan['createdAt'], now)} ago")
    return line


def _soak(console: Console, resource: KubeResource, now: datetime) -> None:
    """Since when all nodes have been healthy with what the plan needs, and the way back."""
    since = resource.status.get("soakStartedAt")
    if since:
        console.print(Text(f"Soaking for {age(since, now)}: every node healthy since {since}"), overflow="fold")
    draw_way_back(console, resource.status.get("wayBack") or {})


def _in_progress(console: Console, resource: KubeResource, now: datetime) -> None:
    intents: Sequence[Mapping[str, Any]] = resource.status.get("intents") or ()
    if intents:
        _title(console, "In progress")
    for intent in intents:
        since = f" {age(intent['at'], now)} ago" if intent.get("at") else ""
        if intent.get("kind") == RestartNode.kind:
            stable = intent.get("stableSince")
            outcome = f"back and in sync for {age(stable, now)}" if stable else "not back yet"
            line = f"  restart of {intent_text(intent)}, begun{since}; {outcome}"
        else:
            accepted = "accepted by the active controller; the level is being verified"
            outcome = accepted if intent.get("outcome") else "outcome not known yet"
            line = f"  {intent_text(intent)}{', sent' + since if since else ''}; {outcome}"
        console.print(Text(line), overflow="fold")


def _roll(console: Console, resource: KubeResource) -> None:
    """How many nodes are current, how long each takes, and what limits how many are restarted at once."""
    rollout = resource.status.get("rollout") or {}
    total, done = rollout.get("total", 0), rollout.get("done", 0)
    if done >= total:
        return
    _title(console, "Roll")
    lines = [f"{done} of {total} nodes are current"]
    lines += [
        f"{one.get('name', '?')}: {one.get('updated', 0)} of {one.get('total', 0)} pods are updated"
        for one in resource.status.get("workloads") or ()
    ]
    if rollout.get("nodeSeconds"):
        lines.append(f"{rollout.get('restarted', 0)} nodes restarted, in {rollout['nodeSeconds']} s each on average")
        lines += _forecast(rollout, total - done)
    lines += [f"note: {note}" for note in rollout.get("notes") or ()]
    for line in lines:
        console.print(Text(f"  {line}"), overflow="fold")


def _forecast(rollout: Mapping[str, Any], left: int) -> Iterator[str]:
    """As long as the restarts so far took on average, in as many rounds as are left."""
    nodes = rollout.get("restarted", 0) + left
    if rollout.get("rounds") and nodes:
        seconds = rollout["nodeSeconds"] * max(1, round(rollout["rounds"] * left / nodes))
        yield f"about {seconds} s left" if seconds < 120 else f"about {round(seconds / 60)} min left"


def _conditions(console: Console, resource: KubeResource, now: datetime) -> None:
    """All but Ready; a message only where it says something that was not said above."""
    others = [one for one in resource.conditions if one["type"] != Condition.READY]
    if not others:
        return
    said = {resource.condition(Condition.READY).get("message")}
    _title(console, "Conditions")
    for one in others:
        of_old = "" if resource.is_current(one) else f" (of generation {one.get('observedGeneration', '?')})"
        line = f"  {one['type']}={one['status']}, for {age(one['lastTransitionTime'], now)}: {one['reason']}{of_old}"
        console.print(Text(line), overflow="fold")
        if one["message"] not in said:
            console.print(Padding(Text(one["message"]), (0, 0, 0, 4), expand=False))
        said.add(one["message"])


def _history(console: Console, resource: KubeResource) -> None:
    history: Sequence[Mapping[str, Any]] = resource.status.get("history") or ()
    if history:
        _title(console, "History, newest first")
    newest = len(history) - HISTORY_SHOWN
    for number, one in reversed([*enumerate(history)]):
        irreversible = _is_irreversible(one)
        if number < newest and not irreversible:
            continue
        why = f": {one['message']}" if one.get("message") else ""
        line = Text(f"  {one.get('at', '?')}  {one.get('action', '?')}: {one.get('result', '?')}{why}")
        console.print(line.append("  irreversible", "yellow") if irreversible else line, overflow="fold")
    if resource.status.get("spentConsents"):
        _title(console, "Used consents")
        for consent in resource.status["spentConsents"]:
            console.print(Text(f"  {consent}"), overflow="fold")


def _is_irreversible(entry: Mapping[str, Any]) -> bool:
    """Whether it is a change that Kafka does not undo, and that was made, as far as is known."""
    found = _CHANGE.match(str(entry.get("action", "")))
    if found is None or entry.get("result") in _NOT_MADE:
        return False
    return undo_of(UpdateFeature(found[1], int(found[2]), int(found[3]))) is Undo.IMPOSSIBLE


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, "bold"))


def _level(feature: Mapping[str, Any], key: str, absent: str) -> str:
    return format_level(feature["name"], feature[key]) if key in feature else absent


def _range(feature: Mapping[str, Any]) -> str:
    if "supportedMin" not in feature or "supportedMax" not in feature:
        return "?"
    return f"{feature['supportedMin']}-{feature['supportedMax']}"


def _state(feature: Mapping[str, Any]) -> Text:
    state = feature.get("state", "?")
    return Text(state, _STATES.get(state, ""))
