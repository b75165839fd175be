"""The metadata log of one node: its files, in a folder or a bundle, and the facts in their names and properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from kafkafeatures.cli.log.files import OpenFile
from kafkafeatures.core.words import cut
from kraftlog import KraftLogError, files
from kraftlog.restored import loaded

MAX_PROPERTIES = 64 * 1024
"""Most bytes that are read of a `meta.properties`, which has about 100."""


class LogFolder(Struct, frozen=True):
    """The log of one node. display_name: its name in messages. names: the names of its files. opened: opens the file
    with a name. properties: the content of `meta.properties` beside the log; empty without that file.
    """

    display_name: str
    names: tuple[str, ...]
    opened: Callable[[str], OpenFile]
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def segments(self) -> list[files.Segment]:
        """The segments of the log, the oldest first."""
        return files.in_order(self.names)[1]

    @property
    def snapshots(self) -> list[files.Snapshot]:
        """The snapshots of the log, the oldest first."""
        return files.in_order(self.names)[0]

    @property
    def cluster_id(self) -> str:
        """The cluster id in `meta.properties`; empty if unknown."""
        return cut(self.properties.get("cluster.id", ""), 64)

    @property
    def node_id(self) -> int | None:
        """Node whose log it is; None where it is not known."""
        text = self.properties.get("node.id", "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 11 else None

    def committed(self) -> int:
        """The offset below which everything is committed: the end of the newest complete snapshot, since Kafka makes
        snapshots of committed records only (KIP-630). 0 without one.
        """
        for snapshot in reversed(self.snapshots):
            try:
                with self.opened(snapshot.name) as data:
                    loaded(data, snapshot, sections=())  # raises if the snapshot is not whole
            except KraftLogError:
                continue
            return snapshot.end_offset
        return 0


def parse_properties(content: bytes) -> dict[str, str]:
    """The properties in a file with lines `name=value`, as Kafka writes them; `#` begins a comment."""
    lines = (line.partition("=") for line in content.decode(errors="replace").splitlines() if line[:1] != "#")
    return {name.strip(): value.strip() for name, _, value in lines}
