"""The live page of one cluster: that of `describe -o html`, read anew by whoever looks.

Like `describe` it needs no Kubernetes, and changes nothing.
"""

from __future__ import annotations

from kafkafeatures.cli.cluster.connect import look, on_cluster
from kafkafeatures.cli.cluster.matrix import identity
from kafkafeatures.cli.cluster.page import STYLE, sections
from kafkafeatures.cli.serve.frame import live_page
from kafkafeatures.cli.serve.live import Live, Reader
from kafkafeatures.cli.shell.html_parts import Html, text
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.kafka.base.settings import ClusterSettings


class ClusterPage:
    """The page at the path "". `flags`: connection flags for the commands in remedies."""

    def __init__(self, settings: ClusterSettings, reader: Reader, flags: str) -> None:
        self._settings, self._reader, self._flags = settings, reader, flags
        self._observation = Live(self._read, reader)

    def start(self) -> None:
        """Read for the first time. Raises CommandFailed."""
        self._observation.first()

    def __call__(self, path: str) -> str | None:
        """The page; None for any other path."""
        picture = self._observation.picture()
        if path or picture.value is None:
            return None
        title = f"Kafka cluster {identity(picture.value)[0]}"
        shown = (Html("<h1>{}</h1>").format(text(title)), *sections(picture.value, self._flags))
        return live_page(title, picture, shown, STYLE, current_time=self._reader.environment.clock())

    def _read(self) -> Observation:
        return on_cluster(look(self._settings, frozenset({IBP})))
