"""Live readings of one cluster: the page of `describe -o html`, or what the page of a resource shows of its cluster.

Like `describe` they change nothing. The metadata log is read as a whole, so more seldom than the nodes.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from kafkafeatures.api.status import EMPTY
from kafkafeatures.cli.cluster.connect import look, on_cluster
from kafkafeatures.cli.cluster.matrix import identity
from kafkafeatures.cli.cluster.other_nodes import OtherNodes
from kafkafeatures.cli.cluster.page import STYLE, facts, features, nodes_apart, sections
from kafkafeatures.cli.kube.report_log import read_roll
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.pages.roll_rows import window_begins
from kafkafeatures.cli.serve.frame import age_of, live_page
from kafkafeatures.cli.serve.live import Live, Reader
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.html_parts import Html, box, day_and_time, text
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.kafka.base.settings import ClusterSettings
from kraftlog.rolls import RollHistory

LOG_EVERY = 15.0
"""Least seconds from one reading of a metadata log to the next."""


class ClusterPage:
    """The page at the path "". `flags`: connection flags for the commands in remedies."""

    def __init__(self, settings: ClusterSettings, reader: Reader, flags: str) -> None:
        self._reader, self._flags = reader, flags
        self._observation = Live(partial(_observed, OtherNodes(settings)), reader)

    def start(self) -> str:
        """Read for the first time, and return the path of the first page. Raises CommandFailed."""
        self._observation.first()
        return ""

    def __call__(self, path: str) -> str | None:
        """The page; None for any other path."""
        reading = self._observation.latest()
        if path or reading.value is None:
            return None
        title = f"Kafka cluster {identity(reading.value)[0]}"
        shown = (Html("<h1>{}</h1>").format(text(title)), *sections(reading.value, self._flags))
        return live_page(title, reading, shown, STYLE, current_time=self._reader.environment.clock())


class ClusterOfResource:
    """The cluster of the one resource whose pages are served."""

    def __init__(self, settings: ClusterSettings, reader: Reader) -> None:
        self._nodes, self._reader = OtherNodes(settings), reader
        self._observation = Live(partial(_observed, self._nodes), reader)
        self._history = Live(self._read_history, reader, LOG_EVERY)
        self._status = EMPTY

    def history(self, resource: KubeResource) -> RollHistory | str:
        """Restarts by the metadata log, from the last successful reading; else the reason why there is none. `nodes`
        shows why later readings failed. Notes the status of the resource: the next reading takes the cluster id and the
        window from it.
        """
        self._status = resource.status
        reading = self._history.latest()
        return reading.value or reading.failure or "It is being read."

    def nodes(self, resource: KubeResource, current_time: datetime) -> Html:
        """The section with every feature on every node, and when that was read."""
        reading, expected_id = self._observation.latest(), resource.status.cluster_id
        parts = [Html("<h2>Nodes</h2>")]
        if reading.failure:
            parts.append(age_of(reading, current_time))
        history = self._history.latest()
        if history.failure and history.value is not None and history.failure != reading.failure:
            old = Html(
                '<p class="box"><strong class="bad">Restarts are those of {}</strong><br>The metadata log: {}</p>'
            )
            parts.append(old.format(text(day_and_time(history.read_at)), text(history.failure)))
        if reading.value is not None:
            id_ = identity(reading.value)[0]
            if expected_id in ("", id_):
                parts += facts(reading.value), features(reading.value), *nodes_apart(reading.value, "", set())
            else:
                head = f"Connected to cluster {id_}, expected {expected_id}"
                parts.append(box("bad", head, "use the addresses of that cluster"))
        return Html("<section>{}</section>").format(Html("\n").join(parts))

    def _read_history(self) -> RollHistory:
        since = window_begins(self._status, self._reader.environment.clock())
        history = read_roll(self._nodes.current, self._status.cluster_id, since)
        if isinstance(history, str):
            raise CommandFailed(history, Exit.UNREACHABLE)
        return history


def _observed(nodes: OtherNodes) -> Observation:
    return on_cluster(nodes.observed(partial(look, settings_of_zookeeper_mode=frozenset({IBP}))))
