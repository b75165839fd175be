"""Formats version ranges and migration states for the commands of `log` and `clients`, and prints their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkafeatures.cli.shell.output import natural_width
from kraftlog.image import ZkMigrationState

if TYPE_CHECKING:
    from rich.console import Console


def migration_state(code: int) -> str:
    """The name of a state; "Unknown" for a code that no release has."""
    state = ZkMigrationState.of(code)
    return "Unknown" if state is None else state.name.title().replace("_", "")


def format_ranges(features: Mapping[str, tuple[int, int]]) -> str:
    """The range of metadata.version that a node supports, as text; "-" where it registered none."""
    bounds = features.get("metadata.version")
    return f"{bounds[0]}-{bounds[1]}" if bounds else "-"


def ranges_shape(features: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    """The ranges of all features that a node supports, for documents."""
    return {name: {"min": low, "max": high} for name, (low, high) in sorted(features.items())}


def show_table(console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; if it does not fit the terminal, each cell has a line of its own, after its heading."""
    from rich.table import Table
    from rich.text import Text

    from kafkafeatures.cli.shell.indented import item

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    if natural_width(console, table) <= console.width:
        console.print(table)
        return
    for first, *cells in rows:
        console.print(Text(first, "bold"), overflow="fold")
        for head, cell in zip(heads[1:], cells, strict=True):
            item(console, Text(f"{head.lower()} {cell}"))
