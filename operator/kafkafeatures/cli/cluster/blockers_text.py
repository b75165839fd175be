"""Prints blockers: one block for each node, or group of equal nodes, with all features that it lacks and one remedy.

It gets records of `api/status.py`, so that all commands print equal blockers in equal words, whether the blockers were
just found or come from a status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.status import BlockerStatus
from kafkafeatures.cli.shell.indented import hanging, item, remedy
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import NOT_SUPPORTED
from kafkafeatures.core.facts.releases import format_level, format_range

_KIND_NOTES = {BlockerKind.GHOST_REGISTRATION.value: "; registered, but not running"}
"""By kind: text after the nodes, if their version ranges do not explain the blocker."""

BLOCKS_SHOWN = 6
"""Blocks that are shown in full; the nodes of further ones are only named."""


def draw_blockers(console: Console, blockers: Iterable[BlockerStatus], *, most: int = BLOCKS_SHOWN) -> None:
    """Print each blocker, with its remedies indented below it. `most`: blocks that are shown in full."""
    groups = blocks(blockers)
    for block in groups[:most]:
        first = block[0]
        if is_about_ranges(first):
            item(console, Text.assemble((first.kind, "bold red"), f": {_head(first)}"))
            for text in range_lines(block):
                hanging(console, Text(text), indent=6, first=Text("    "))
        else:
            for text in messages(block):
                item(console, Text.assemble((first.kind, "bold red"), f": {text}"))
        for text in dict.fromkeys(blocker.remedy for blocker in block if blocker.remedy):
            remedy(console, text, indent=4)
    if omitted := [f"{block[0].kind}: {block[0].nodes or block[0].message}" for block in groups[most:]]:
        item(console, Text(f"and {len(omitted)} more: {'; '.join(omitted)}"))


def is_about_ranges(blocker: BlockerStatus) -> bool:
    """True if nodes do not support a level, and the record has their range, from which a text can be made. Older
    operators wrote the range only into the message, so then the message is printed.
    """
    return bool(blocker.nodes and blocker.feature) and None not in (blocker.wanted, blocker.supported_max)


def _head(first: BlockerStatus) -> str:
    """The nodes of a block, with their release, and the addition for the kind."""
    release = f", Kafka {first.inferred_release}" if first.inferred_release else ""
    return f"{first.nodes}{release}{_KIND_NOTES.get(first.kind, '')}"


def range_lines(block: Sequence[BlockerStatus]) -> list[str]:
    """For each feature of a block the range that its nodes support and the required level. Features with equal text
    share a line.
    """
    features: dict[str, list[str]] = {}
    for blocker in block:
        supported, level = VersionRange(blocker.supported_min or 0, blocker.supported_max or 0), blocker.wanted or 0
        range_text = "not supported" if supported == NOT_SUPPORTED else format_range(blocker.feature, supported)
        features.setdefault(f"{range_text}; {format_level(blocker.feature, level)} is required", []).append(
            blocker.feature
        )
    return [f"{', '.join(names)} {requirement}" for requirement, names in features.items()]


def blocks(blockers: Iterable[BlockerStatus]) -> list[Sequence[BlockerStatus]]:
    """The blockers in blocks: those of one kind and of the same nodes together, each without nodes by itself. Blocks
    are in the order of their first blockers.
    """
    groups: dict[object, list[BlockerStatus]] = {}
    for number, blocker in enumerate(blockers):
        key = (blocker.kind, blocker.nodes, is_about_ranges(blocker)) if blocker.nodes else number
        groups.setdefault(key, []).append(blocker)
    return [*groups.values()]


def messages(block: Sequence[BlockerStatus]) -> Iterator[str]:
    """The messages of a block. Messages that differ only in the name of the feature become one, with all names."""
    features: dict[tuple[str, str], list[str]] = {}
    for blocker in block:
        prefix, name, suffix = (
            blocker.message.partition(blocker.feature) if blocker.feature else (blocker.message, "", "")
        )
        features.setdefault((prefix, suffix), []).append(name)
    for (prefix, suffix), names in features.items():
        yield f"{prefix}{', '.join(names)}{suffix}"
