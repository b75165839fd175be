"""The metadata log of one node: the files it has now, wherever they are, and what they say of themselves.

Made by `cli/log/paths.py` and `cli/log/bundle.py`, read by the commands that say what a log as a whole says (`state`,
`timeline`, `ghosts`, `describe --from`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from kafkafeatures.cli.log.files import OpenFile
from kafkafeatures.core.words import cut
from kraftlog import KraftLogError, files
from kraftlog.restored import loaded

MAX_PROPERTIES = 64 * 1024


class LogFolder(Struct, frozen=True):
    """The log of one node. display_name: its name in messages. opened: gives the bytes of the file of a name.

    properties: of the node's `meta.properties`, where it lies beside the log.
    """

    display_name: str
    names: tuple[str, ...]
    opened: Callable[[str], OpenFile]
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def segments(self) -> list[files.Segment]:
        """The oldest first."""
        return files.in_order(self.names)[1]

    @property
    def snapshots(self) -> list[files.Snapshot]:
        """The oldest first."""
        return files.in_order(self.names)[0]

    @property
    def cluster_id(self) -> str:
        """Empty where it is not known."""
        return cut(self.properties.get("cluster.id", ""), 64)

    @property
    def node_id(self) -> int | None:
        """Node whose log it is; None where it is not known."""
        text = self.properties.get("node.id", "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 11 else None

    def committed(self) -> int:
        """Everything below this offset is known to be committed: Kafka makes snapshots of nothing else (KIP-630)."""
        for snapshot in reversed(self.snapshots):
            try:
                with self.opened(snapshot.name) as data:
                    loaded(data, snapshot, sections=())
            except KraftLogError:
                continue
            return snapshot.end_offset
        return 0


def parse_properties(content: bytes) -> dict[str, str]:
    """`name=value`, a line each, as Kafka writes them."""
    lines = (line.partition("=") for line in content.decode(errors="replace").splitlines() if line[:1] != "#")
    return {name.strip(): value.strip() for name, _, value in lines}
