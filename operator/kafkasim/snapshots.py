"""The snapshots that a controller writes by itself, and what it finds in the log behind the newest one.

Called by `world`. A controller writes a snapshot every so often while it runs, counted from its start. When it starts,
it replays the log from the newest snapshot on. It exits if a record there has a level that its binary does not support,
even if a later record lowers the level (`FeatureControlManager.replay`; seen on real nodes). A broker continues.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkasim.log import MetadataLog
from kafkasim.node import Node
from kafkasim.releases import Release
from kraftlog import Image, Replay, Section


def newest_ms(node: Node, now_ms: int, every_ms: int) -> int:
    """Time of the last record in the newest snapshot that a node has written by itself."""
    if not node.running:
        return node.snapshot_ms
    count = (now_ms - node.started_ms) // every_ms
    return node.started_ms + count * every_ms if count > 0 else node.snapshot_ms


def image_at(log: MetadataLog, at_ms: int, sections: Collection[Section]) -> Image:
    """The image that was committed at that time."""
    replay = Replay(sections=sections)
    for piece in log.pieces:
        if piece.first_ms > at_ms or piece.end_offset > log.high_watermark:
            break
        replay.append(piece.data, below=piece.end_offset)
    return replay.image()


def unsupported_level(image: Image, since_ms: int, release: Release) -> str:
    """Text with a level that was finalized at that time or later, and that this release does not support; empty if
    there is none.
    """
    # Levels that the log had at that time or later, and has no more: a replay meets them too.
    former_levels = [key for key, dropped_ms in image.former_levels.dropped.items() if dropped_ms >= since_ms]
    for feature, level in (*former_levels, *image.features.items()):
        supported = release.features.get(feature)
        if supported is None or level not in supported:
            return f"{feature} {level}"
    return ""
