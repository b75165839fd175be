"""`kafkafeatures wait NAME --for ready|rolled|feature=NAME>=LEVEL`: waits until that is reached, or action is required.

Exit codes, by one reading of the resource:

| | `ready` | `feature=NAME>=LEVEL` |
|---|---|---|
| 0 | Ready=True, of the current generation | the level was read on the cluster, of whatever generation: it is a fact |
| 6, 3 | Stalled, ApprovalRequired: True, of the current generation | the same: no level moves until action is taken |

`rolled` also reads the StatefulSets, or what a driver has in their place (`cli/kube/wait_rolled.py`). It ends with 0
once the roll is complete, with 4 if no driver restarts nodes, and with 6 or 3 as above. If the status is still about
older pod templates, 6 and 3 count only after `SEEN_WITHIN` seconds, in which the operator can see the new ones. A pause
of another operator, which restarts the pods, is read from its own resource: `rolled` ends with 6 while there is one,
and a status that still has one that is over ends no wait. Every wait ends with 5 when the time is over.

A goal that is reached counts first, before Stalled or ApprovalRequired. Levels do not count while the cluster cannot be
read. A plan that was just approved is not reported as waiting for approval.

If the API server cannot be reached, polling continues (`cli/kube/polling.py`).
"""

from __future__ import annotations

import argparse
import re

from msgspec import Struct

from kafkafeatures.api.reasons import Condition
from kafkafeatures.cli.kube.api import Denied, Kube, add_resource_flags, connected
from kafkafeatures.cli.kube.polling import Ending, until
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.wait_rolled import (
    driver_of,
    halt_of,
    is_by_another,
    is_over,
    rolled_text,
    status_is_about,
    templates_of,
    why_not_rolled,
)
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.site import runbook_of
from kafkafeatures.cli.shell.values import duration, level_in
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.kube.workloads.templates import Templates

SEEN_WITHIN = 60.0
"""Seconds within which a running operator notices a changed StatefulSet, also for a resource that needs action."""

_FEATURE = re.compile(r"^feature=([a-z][a-z0-9._]{0,63})>=([0-9A-Za-z.-]{1,32})$")


class Goal(Struct, frozen=True):
    """The goal of the wait: a level of `feature`; if that is empty, the roll if `rolled`, else Ready."""

    feature: str = ""
    level: int = 0
    rolled: bool = False

    def __str__(self) -> str:
        if self.rolled:
            return "rolled"
        return f"{self.feature} at {format_level(self.feature, self.level)} or above" if self.feature else "ready"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `wait`."""
    add_resource_flags(parser)
    parser.add_argument(
        "--for",
        dest="goal",
        type=_goal,
        default=Goal(),
        metavar="WHAT",
        help="ready (default), rolled, or 'feature=NAME>=LEVEL' in quotes",
    )
    parser.add_argument(
        "--timeout", type=duration, default=600.0, metavar="10m", help="give up after this long (default: 10m)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Read the resource each second until the wait ends; print a line on stderr when something changes."""
    with connected(arguments) as kube:
        ending = _until(kube, arguments.name, arguments.goal, arguments.timeout)
    return ending.conclude()


def judge(resource: KubeResource, goal: Goal, templates: Templates | None = None, waited: float = 0.0) -> Ending | None:
    """The end of the wait by this reading; None to continue. The rules are in the module's docstring. `templates`: of
    the StatefulSets, only for `rolled`. `waited`: seconds so far.
    """
    if goal.rolled:
        driver = driver_of(resource)
        if driver is not None and not driver.restarts_nodes:
            text = f"{resource}: it has no workload driver, so no node is restarted; set spec.workload.driver"
            return Ending(Exit.BLOCKED, text)
        templates = templates or {}
        if not why_not_rolled(resource, templates):
            return Ending(Exit.DONE, f"{resource} is rolled: {rolled_text(templates)}")
        if halt := halt_of(templates):
            return _stalled(resource, str(halt.reason), halt.message, halt.remedy)
        if not status_is_about(resource, templates) and waited < SEEN_WITHIN:
            return None
    elif goal.feature:
        if _reached(resource, goal):
            return Ending(Exit.DONE, f"{resource}: {goal.feature} is finalized at {_finalized(resource, goal.feature)}")
    elif ready := resource.true_condition(Condition.READY):
        return Ending(Exit.DONE, f"{resource} is ready: {ready.reason}: {ready.message}")
    stalled = resource.true_condition(Condition.STALLED)
    if stalled and not is_over(stalled, resource, templates or {}):
        # The message of Stalled begins with that of the blocker that it is about, whose remedy is printed.
        blockers = (
            blocker
            for blocker in resource.status.blockers
            if blocker.message and stalled.message.startswith(blocker.message)
        )
        remedy = next(
            (blocker.remedy for blocker in blockers if blocker.remedy), f"see kafkafeatures status {resource.flags}"
        )
        return _stalled(resource, stalled.reason or "", stalled.message, remedy)
    if resource.true_condition(Condition.APPROVAL_REQUIRED) and not resource.is_approved:
        command = f"kafkafeatures approve {resource.flags} --plan {resource.plan_hash[:HASH_SHOWN]}"
        return Ending(
            Exit.APPROVAL,
            f"{resource}: a plan is waiting for approval; review it with plan, then approve it: {command}",
        )
    return None


def _stalled(resource: KubeResource, reason: str, message: str, remedy: str) -> Ending:
    page = runbook_of(reason)
    text = f"{resource} is stalled: {reason}: {message}"
    parts = (text, "" if remedy in message else remedy, f"see {page}" if page else "")
    return Ending(Exit.STALLED, "; ".join(filter(None, parts)))


def progress(resource: KubeResource, goal: Goal, templates: Templates | None = None) -> str:
    """Text on what the goal waits for, in one line; for `rolled` empty if it is reached."""
    if goal.rolled:
        return why_not_rolled(resource, templates or {})
    ready = resource.status.condition(Condition.READY)
    if ready is None:
        line = "not reconciled yet"
    elif not resource.is_current(ready):
        line = f"generation {resource.generation} is not reconciled yet"
    else:
        line = f"{ready.reason}: {ready.message}"
    if not goal.feature:
        return line
    feature = resource.feature(goal.feature)
    is_asked_for = feature is not None and (feature.desired or 0) >= goal.level
    asked_for = "" if is_asked_for else ", and the document does not ask for more"
    return f"{goal.feature} is at {_finalized(resource, goal.feature)}{asked_for}; {line}"


def _until(kube: Kube, name: str, goal: Goal, seconds: float) -> Ending:
    def read() -> tuple[KubeResource, Templates]:
        resource = kube.resource(name)
        # read after the status, so they are never older than it
        return resource, templates_of(kube, resource) if goal.rolled else _paused_templates(kube, resource)

    return until(
        kube,
        read,
        lambda reading, waited: judge(reading[0], goal, reading[1], waited),
        lambda reading: progress(reading[0], goal, reading[1]),
        seconds=seconds,
        missing=f"{kube.namespace}/{name} is not {goal}",
    )


def _paused_templates(kube: Kube, resource: KubeResource) -> Templates:
    """The templates if the status says that a person has paused another operator, and this user may read them; else
    none.
    """
    stalled = resource.true_condition(Condition.STALLED)
    if stalled is None or not is_by_another(stalled, resource):
        return {}
    try:
        return templates_of(kube, resource)
    except Denied:
        return {}


def _reached(resource: KubeResource, goal: Goal) -> bool:
    """True if the feature has its level. A level counts only while the cluster can be read: then FeaturesFinalized is
    True or False, not Unknown.
    """
    levels, feature = resource.status.condition(Condition.FEATURES_FINALIZED), resource.feature(goal.feature)
    is_known = levels is not None and levels.status in ("True", "False")
    return is_known and feature is not None and (feature.finalized or 0) >= goal.level


def _finalized(resource: KubeResource, feature: str) -> str:
    feature_status = resource.feature(feature)
    if feature_status is None or feature_status.finalized is None:
        return "an unknown level"
    return format_level(feature, feature_status.finalized)


def _goal(text: str) -> Goal:
    if text.lower() in ("ready", "rolled"):
        return Goal(rolled=text.lower() == "rolled")
    match = _FEATURE.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"invalid condition {text[:60]!r}: expected ready, rolled, or 'feature=NAME>=LEVEL' (in quotes)"
        )
    feature, level = match[1], level_in(match[1], match[2])
    if level is None or level < 1:
        raise argparse.ArgumentTypeError(f"invalid level {match[2]!r} of {feature}: expected a level above 0")
    return Goal(feature, level)
