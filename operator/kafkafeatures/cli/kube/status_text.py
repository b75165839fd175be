"""Prints the status of a resource: its state, since when, the plan, and the blockers.

It prints what the status holds; ages and the forecast of a roll are computed from it. Facts about an older generation,
or about a cluster that can no longer be read, are marked as such. If the table of features does not fit the terminal,
each feature has lines of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafkafeatures.api.names import PAUSE
from kafkafeatures.api.reasons import Condition, PlanVerdict
from kafkafeatures.api.shown import time_of
from kafkafeatures.api.status import (
    FeatureStatus,
    HistoryEntry,
    PlanStatus,
    Result,
    RolloutStatus,
    Status,
    StatusCondition,
)
from kafkafeatures.cli.cluster.blockers_text import draw_blockers
from kafkafeatures.cli.document.steps_text import APPROVED, COLOURS, draw_steps, draw_way_back
from kafkafeatures.cli.kube.resource import KubeResource, level_of, range_of
from kafkafeatures.cli.shell.indented import hanging, heading, item, line
from kafkafeatures.cli.shell.output import natural_width
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.kinds import in_flight, kind_of
from kafkafeatures.core.report.migration_lines import migration_lines
from kafkafeatures.core.roll.drivers import unused_sets

NOT_RECONCILED = "not reconciled yet; check that the operator is running and watches this namespace"
HISTORY_SHOWN = 5
"""Newest entries of the history that are shown. Irreversible changes are always shown."""
WORTH_SAYING = timedelta(seconds=90)
"""If the status of the condition Ready is older than its reason by at least this, both ages are printed."""

_WITHOUT_EFFECT = (Result.NOT_APPLIED, Result.REJECTED, Result.NOT_SENT)
"""Results of steps that certainly changed nothing."""

NOT_YET = ("not reconciled", "bold yellow")
"""Word and style of a resource without the condition Ready."""
READY_WORDS = {
    "True": ("ready", "bold green"),
    "False": ("not ready", "bold red"),
    "Unknown": ("unknown", "bold yellow"),
}
"""Word and style by the status of the condition Ready."""
_STATES = {"InSync": "green", "Pending": "yellow", "Blocked": "red", "Drifted": "red", "Unmanaged": "dim"}
# (seconds below which the unit is used, seconds of the unit, its letter)
_AGES = ((90, 1, "s"), (90 * 60, 60, "m"), (36 * 3600, 3600, "h"), (float("inf"), 86400, "d"))


def draw_status(console: Console, resource: KubeResource, current_time: datetime) -> None:
    """Print all of a status, as `status NAME` shows it."""
    draw_headline(console, resource, current_time)
    draw_features(console, resource)
    plan = resource.status.plan
    if plan is not None:
        heading(console, "Plan")
        line(console, _plan_line(resource, plan, current_time))
        draw_steps(console, plan.steps)
        _soak(console, resource, current_time)
        draw_how_to_approve(console, resource)
    draw_blockers_of(console, resource)
    _migration(console, resource)
    if plan is None:  # else `_soak` has printed it below the plan
        draw_way_back(console, resource.status.way_back)
    _roll(console, resource)
    _in_progress(console, resource, current_time)
    _conditions(console, resource, current_time)
    _history(console, resource)


def draw_plan_of(console: Console, resource: KubeResource, verdict: PlanVerdict, current_time: datetime) -> None:
    """Print the part of a status that `plan NAME` shows."""
    cluster = resource.status.cluster_id
    line(console, Text.assemble((str(resource), "bold"), f"  cluster {cluster or 'unknown'}"))
    for caution in cautions(resource, current_time):
        line(console, Text(caution, "yellow"))
    draw_features(console, resource)
    plan = resource.status.plan
    if plan is not None:
        heading(console, "Steps")
        draw_steps(console, plan.steps)
    draw_blockers_of(console, resource)
    _migration(console, resource)
    console.print()
    text = Text.assemble(("Plan: ", "bold"), (verdict, f"bold {COLOURS[verdict]}"))
    if plan is not None:
        text.append("  ").append_text(_plan_line(resource, plan, current_time))
    line(console, text)
    ready = resource.status.condition(Condition.READY)
    line(console, Text(f"{ready.reason}: {ready.message}" if ready else NOT_RECONCILED))
    _soak(console, resource, current_time)
    draw_how_to_approve(console, resource)


def draw_headline(console: Console, resource: KubeResource, current_time: datetime) -> None:
    """Print the state and since when, the cluster, and warnings that the rest may be outdated."""
    status = resource.status
    ready = status.condition(Condition.READY)
    word, style = READY_WORDS.get(ready.status if ready else "", NOT_YET)
    text = Text.assemble((str(resource), "bold"), "  ", (word, style))
    if ready:
        text.append(f": {ready.reason}", style).append(f", for {_ages_of(status, ready, word, current_time)}")
    line(console, text)
    line(console, Text(ready.message if ready else NOT_RECONCILED))
    facts = (
        f"Cluster {status.cluster_id}" if status.cluster_id else "cluster unknown",
        status.metadata_mode,
        f"mode {resource.mode}",
        f"generation {resource.generation}",
        f"operator {status.operator_version}" if status.operator_version else "",
    )
    line(console, Text("  ".join(filter(None, facts))))
    for caution in cautions(resource, current_time):
        line(console, Text(caution, "yellow"))


def cautions(resource: KubeResource, current_time: datetime) -> Iterator[str]:
    """Warnings that the status may be outdated or incomplete."""
    ready, levels = map(resource.status.condition, (Condition.READY, Condition.FEATURES_FINALIZED))
    if resource.deleted_at:
        yield f"Being deleted for {age(resource.deleted_at, current_time)}."
    if ready and not resource.is_current(ready):
        yield (
            f"Generation {resource.generation} is not reconciled yet; the status is of "
            f"generation {ready.observed_generation or '?'}."
        )
    if levels and levels.status == "Unknown":
        since = age(levels.last_transition_time, current_time)
        yield f"The cluster could not be read for {since}; levels and plan are from the last successful read."
    if resource.paused:
        yield f"Suspended by the annotation {PAUSE}; to resume: kafkafeatures resume {resource.flags}"
    if resource.suspended_in_document:
        yield "Suspended by spec.suspend in the document; set it to false there to resume."
    if note := unused_sets(resource.spec):
        yield note


def draw_features(console: Console, resource: KubeResource) -> None:
    """Print every feature: its level, the desired level, the range that all nodes support, and its state."""
    features = resource.status.features
    if not features:
        return
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("FEATURE", "FINALIZED", "DESIRED", "SUPPORTED", "STATE"):
        table.add_column(column, no_wrap=True)
    for feature in features:
        levels = level_of(feature, feature.finalized, "?"), level_of(feature, feature.desired, "-")
        table.add_row(feature.name, *levels, range_of(feature, "?"), _state(feature))
    if natural_width(console, table) <= console.width:
        console.print(table)
    else:
        _draw_feature_lines(console, features)
    for feature in filter(lambda feature: feature.managed_by, features):
        _draw_manager(console, feature)


def _draw_manager(console: Console, feature: FeatureStatus) -> None:
    """Print which other operator sets the level of a feature, to what, and why it could not."""
    target = level_of(feature, feature.managed_level, "a level that is not known")
    line(console, Text(f"{feature.name} is set by {feature.managed_by}, to {target}"))
    if feature.managed_problem:
        item(console, Text(feature.managed_problem, "yellow"))


def _draw_feature_lines(console: Console, features: tuple[FeatureStatus, ...]) -> None:
    for feature in features:
        line(console, Text.assemble((feature.name, "bold"), "  ", _state(feature)))
        changes = feature.desired is not None and feature.desired != feature.finalized
        target = f" -> {level_of(feature, feature.desired, '-')}" if changes else ""
        item(
            console,
            Text(f"{level_of(feature, feature.finalized, '?')}{target}; all nodes support {range_of(feature, '?')}"),
        )


def draw_how_to_approve(console: Console, resource: KubeResource) -> None:
    """Print the command line that approves the plan, if it waits for approval."""
    if resource.true_condition(Condition.APPROVAL_REQUIRED) and not resource.is_approved:
        command_text = f"To approve: kafkafeatures approve {resource.flags} --plan {resource.plan_hash[:HASH_SHOWN]}"
        console.print(Text(command_text), soft_wrap=True)  # to be copied: never broken in two


def draw_blockers_of(console: Console, resource: KubeResource) -> None:
    """Print the blockers with their remedies."""
    blockers = resource.status.blockers
    if not blockers:
        return
    heading(console, "Blockers")
    draw_blockers(console, blockers)
    omitted = resource.status.blockers_total - len(blockers)
    if omitted > 0:
        console.print(Text(f"  and {omitted} more"))


def age(moment: str, current_time: datetime) -> str:
    """The age in one unit, such as "5m"; "?" for a text that is no time. 0 if our clock is behind that of the API
    server.
    """
    then = time_of(moment)
    if then is None:
        return "?"
    seconds = max((current_time - then).total_seconds(), 0.0)
    unit, letter = next((unit, letter) for below, unit, letter in _AGES if seconds < below)
    return f"{int(seconds // unit)}{letter}"


# --- parts ---


def _ages_of(status: Status, ready: StatusCondition, word: str, current_time: datetime) -> str:
    """Text that says for how long Ready has had its reason; and its status (`word`), if that is clearly longer."""
    status_text, status_time = ready.last_transition_time, time_of(ready.last_transition_time)
    reason_text = reason_since(status, ready)
    reason_time = time_of(reason_text)
    if status_time is None or reason_time is None or reason_time <= status_time:
        return age(status_text, current_time)
    return age(reason_text, current_time) + (
        f" ({word} for {age(status_text, current_time)})" if reason_time - status_time >= WORTH_SAYING else ""
    )


def reason_since(status: Status, ready: StatusCondition) -> str:
    """Time stamp since when Ready has its reason. Older operators have it only in the condition that is named like the
    reason.
    """
    ready_reason = status.ready_reason
    if ready_reason is not None and ready_reason.reason == ready.reason and ready_reason.since:
        return ready_reason.since
    conditions = (
        condition for condition in status.conditions if condition.reason == ready.reason and condition.status == "True"
    )
    return next(conditions, ready).last_transition_time


def _plan_line(resource: KubeResource, plan: PlanStatus, current_time: datetime) -> Text:
    text = Text(plan.hash[:HASH_SHOWN])
    if plan.irreversible:
        text.append("  irreversible", "yellow")
    if plan.approved_by:
        text.append(f"  {APPROVED.get(plan.approved_by, 'approved')}")
    elif resource.is_approved:
        text.append("  approved; not reconciled yet")
    elif resource.status.condition(Condition.APPROVAL_REQUIRED):
        text.append("  waiting for approval", "yellow")
    if plan.created_at:
        text.append(f"  created {age(plan.created_at, current_time)} ago")
    return text


def _soak(console: Console, resource: KubeResource, current_time: datetime) -> None:
    """Print the soak (since when all nodes have been healthy), and the way back."""
    since = resource.status.soak_started_at
    if since:
        line(console, Text(f"Soaking for {age(since, current_time)}: every node healthy since {since}"))
    draw_way_back(console, resource.status.way_back)


def _migration(console: Console, resource: KubeResource) -> None:
    """Print the phase of a migration, and what remains to be done."""
    status = resource.status
    if status.migration is None or not status.migration.phase:
        return
    heading(console, "Migration")
    for text in migration_lines(status.migration, status.rollout):
        item(console, Text(text))


def _in_progress(console: Console, resource: KubeResource, current_time: datetime) -> None:
    intents = resource.status.intents
    if intents:
        heading(console, "In progress")
    for intent in intents:
        text = in_flight(intent).progress(lambda moment: age(moment, current_time))
        item(console, Text(text))


def _roll(console: Console, resource: KubeResource) -> None:
    """Print how many nodes are current, how long each takes, and what limits how many are restarted at once."""
    rollout = resource.status.rollout
    if rollout is None or not rollout.is_in_progress:
        return
    heading(console, "Roll")
    lines = [f"{rollout.done} of {rollout.total} nodes are current"]
    lines += [
        f"{workload.name or '?'}: {workload.updated} of {workload.total} pods are updated"
        for workload in resource.status.workloads
    ]
    if rollout.node_seconds:
        lines.append(f"{rollout.restarted} nodes restarted, in {rollout.node_seconds} s each on average")
        lines += _forecast(rollout)
    lines += [f"note: {note}" for note in rollout.notes]
    for text in lines:
        item(console, Text(text))


def _forecast(rollout: RolloutStatus) -> Iterator[str]:
    """Text on the remaining time: the average time of a restart so far, times the remaining rounds, which are assumed
    to be in proportion to the remaining nodes. Nothing if the status does not have the rounds.
    """
    remaining = rollout.total - rollout.done
    nodes = rollout.restarted + remaining
    if rollout.rounds and nodes:
        seconds = rollout.node_seconds * max(1, round(rollout.rounds * remaining / nodes))
        yield f"about {seconds} s left" if seconds < 120 else f"about {round(seconds / 60)} min left"


def _conditions(console: Console, resource: KubeResource, current_time: datetime) -> None:
    """Print all conditions except Ready; messages only if they were not printed above."""
    conditions = [condition for condition in resource.status.conditions if condition.type != Condition.READY]
    if not conditions:
        return
    ready = resource.status.condition(Condition.READY)
    messages = {ready.message} if ready else set()
    heading(console, "Conditions")
    for condition in conditions:
        note = "" if resource.is_current(condition) else f" (of generation {condition.observed_generation or '?'})"
        text = (
            f"{condition.type}={condition.status}, for {age(condition.last_transition_time, current_time)}: "
            f"{condition.reason}{note}"
        )
        item(console, Text(text))
        if condition.message not in messages:
            hanging(console, Text(condition.message), indent=4)
        messages.add(condition.message)


def _history(console: Console, resource: KubeResource) -> None:
    """Print the newest entries of the history and all irreversible ones, and the used consents."""
    history = resource.status.history
    if history:
        heading(console, "History, newest first")
    newest = len(history) - HISTORY_SHOWN
    for number, entry in reversed([*enumerate(history)]):
        irreversible = _is_irreversible(entry)
        if number < newest and not irreversible:
            continue
        message = f": {entry.message}" if entry.message else ""
        text = Text(f"{entry.at or '?'}  {entry.action or '?'}: {entry.result or '?'}{message}")
        item(console, text.append("  irreversible", "yellow") if irreversible else text)
    if resource.status.spent_consents:
        heading(console, "Used consents")
        for consent in resource.status.spent_consents:
            item(console, Text(consent))


def _is_irreversible(entry: HistoryEntry) -> bool:
    """True if this is an irreversible step that was carried out, as far as is known."""
    kind = kind_of(entry)
    return kind is not None and entry.result not in _WITHOUT_EFFECT and kind.is_irreversible(entry)


def _state(feature: FeatureStatus) -> Text:
    return Text(feature.state or "?", _STATES.get(feature.state, ""))
