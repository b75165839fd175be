"""Live pages of the resources on Kubernetes: a list of them, and for each the page of a report with its commands.

All open pages share one list request. Events are read for a resource whose page is open. Nothing is changed: what a
person may do stands there as a command, to be copied.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime

from kafkafeatures.api.names import KIND
from kafkafeatures.api.reasons import Condition
from kafkafeatures.cli.cluster import page as cluster_page
from kafkafeatures.cli.kube.api import Kube
from kafkafeatures.cli.kube.list import cells_of, urgency
from kafkafeatures.cli.kube.report import events_of
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.kube.status_text import age, reason_since
from kafkafeatures.cli.pages import resource as report
from kafkafeatures.cli.serve.cluster import ClusterOfResource
from kafkafeatures.cli.serve.frame import live_page
from kafkafeatures.cli.serve.live import LatestReading, Live, Reader
from kafkafeatures.cli.shell.html_parts import Html, small, table, text, to_copy
from kafkafeatures.core.words import counted
from kraftlog.rolls import RollHistory

_CONSENT = re.compile(r"\badd '?([^\s',]+)'? to (?:spec\.)?consents\b")
"""A consent in the remedy of a blocker."""


class ResourcePages:
    """Pages by path: "" is the list, "NAMESPACE/NAME" a resource. `read`: reads all resources. `flags`: words that
    commands need to reach the same API server as the same user. `cluster`: that of the only resource; None
    if it is not read.
    """

    def __init__(
        self,
        kube: Kube,
        read: Callable[[], list[KubeResource]],
        reader: Reader,
        flags: Sequence[str] = (),
        cluster: ClusterOfResource | None = None,
    ) -> None:
        self._kube, self._reader, self._flags, self._cluster = kube, reader, flags, cluster
        self._resources = Live(read, reader)
        self._events: dict[str, Live[Sequence[SeenEvent]]] = {}

    def start(self) -> str:
        """Read for the first time, and return the path of the first page. Raises CommandFailed."""
        resources = self._resources.first()
        return str(resources[0]) if self._cluster is not None else ""

    def __call__(self, path: str) -> str | None:
        """The page at this path; None if there is none, such as that of a resource that was deleted."""
        reading = self._resources.latest()
        resources = {str(resource): resource for resource in reading.value or ()}
        current_time = self._reader.environment.clock()
        if not path:
            title = f"{KIND} at {self._kube.server}"
            sections = (Html("<h1>{}</h1>").format(text(title)), _list(resources.values(), current_time))
            return live_page(title, reading, sections, report.STYLE, current_time=current_time)
        return self._page(resources[path], reading, current_time) if path in resources else None

    def _page(self, resource: KubeResource, reading: LatestReading[list[KubeResource]], current_time: datetime) -> str:
        def read() -> Sequence[SeenEvent]:
            return events_of(self._kube, resource)

        events = self._events.setdefault(resource.uid, Live(read, self._reader)).latest()
        head, blockers, plan, *sections = report.sections(
            resource, events.value, reading.read_at or current_time, self._history(resource), shlex.join(self._flags)
        )
        nodes = self._cluster.nodes(resource, current_time) if self._cluster is not None else Html()
        shown = (head, blockers, plan, _commands(resource, self._flags), nodes, *sections)
        style = report.STYLE + cluster_page.STYLE
        return live_page(str(resource), reading, shown, style, current_time=current_time, back="../")

    def _history(self, resource: KubeResource) -> RollHistory | str:
        """Restarts by the metadata log, or the reason why it was not read."""
        if self._cluster is not None:
            return self._cluster.history(resource)
        kind, addresses = resource.bootstrap
        words = ("kafkafeatures", "serve", *shlex.split(resource.flags), f"--bootstrap-{kind}", addresses, *self._flags)
        return f"To read it, and every feature on every node, run `{shlex.join(words)}`"


def _list(resources: Collection[KubeResource], current_time: datetime) -> Html:
    """The table of resources, those that require action first, with a link to each."""
    if not resources:
        return Html("<p>There is no resource, or none with these labels.</p>")
    rows = [_row(resource, current_time) for resource in sorted(resources, key=urgency)]
    head = ("Resource", "State", "For", "Metadata", "Target", "Levels", "Message")
    return table(f"{counted(len(rows), 'resource')}, first those that require action", head, rows)


def _row(resource: KubeResource, current_time: datetime) -> tuple[Html | str, ...]:
    status = resource.status
    ready = status.condition(Condition.READY) or report.NOT_RECONCILED
    lasts = age(reason_since(status, ready), current_time) if ready.status else "-"
    _, _, state, *cells = cells_of(resource, lasts).values()
    name = f"{resource.metadata['namespace']}/{resource.metadata['name']}"
    return (
        Html('<a href="{}">{}</a>').format(name, name),
        Html('<strong class="{}">{}</strong>').format(report.style_of(resource), state),
        *cells,
        small(ready.message or "-"),
    )


def _commands(resource: KubeResource, flags: Sequence[str]) -> Html:
    """What a person may do about the resource, as commands."""
    where = shlex.join(flags)
    commands = (to_copy(purpose, f"{command} {where}".strip()) for purpose, command in _offers(resource))
    return Html("<section><h2>Commands</h2>\n{}</section>").format(Html("\n").join(commands))


def _offers(resource: KubeResource) -> Iterator[tuple[str, str]]:
    """(purpose, command line) of each command that has an effect in this state."""
    consents = [str(consent) for consent in resource.spec.get("consents") or ()]
    remedies = " ".join(blocker.remedy for blocker in resource.status.blockers)
    for consent in dict.fromkeys(_CONSENT.findall(remedies)):
        patch = json.dumps({"spec": {"consents": [*consents, consent]}}, separators=(",", ":"))
        purpose = f"Consent to {consent} (in Git instead, if the resource comes from there)"
        yield purpose, f"kubectl patch kafkafeatures {resource.flags} --type merge -p {shlex.quote(patch)}"
    if resource.paused:
        yield "Resume", f"kafkafeatures resume {resource.flags}"
    elif not resource.suspended_in_document:
        yield "Suspend; the step in progress completes, no other starts", f"kafkafeatures suspend {resource.flags}"
    yield "Reconcile now", f"kafkafeatures reconcile {resource.flags}"
