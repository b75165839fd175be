"""The table of the matrix: features (or APIs) by nodes, in the layout that fits the terminal.

Nodes that say the same share a column, so that three nodes and three hundred read alike. Where the columns do not fit
the terminal the table is turned: a row per group, a column per feature; where words would be broken even so, each
feature has lines of its own. Called by `cli/cluster/matrix.py`, which says what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafkafeatures.cli.shell.indented import hanging, line
from kafkafeatures.cli.shell.output import least_width, natural_width
from kafkafeatures.core.engine.blockers import shortened
from kafkafeatures.core.facts.observation import Node


class MatrixRow(Struct, frozen=True):
    """A feature, an API, or something else that each node has. level: what is finalized of it. cell: what a node has.

    short: its title where room is little, and note: what that leaves out. is_below: it goes with the row above, and has
    no column of its own.
    """

    title: str
    cell: Callable[[Node], Text]
    level: str = ""
    short: str = ""
    note: str = ""
    is_below: bool = False


class Group(Struct, frozen=True):
    """Nodes with the same role and the same cells."""

    nodes: tuple[Node, ...]
    cells: tuple[Text, ...]

    @property
    def role(self) -> str:
        """BROKER or BROKERS; counted where not all are listed."""
        word = self.nodes[0].roles[0].value.upper() if len(self.nodes[0].roles) == 1 else "NODE"
        title = word if len(self.nodes) == 1 else f"{word}S"
        return f"{len(self.nodes)} {title}" if "..." in self.ids else title

    @property
    def ids(self) -> str:
        return shortened(node.id for node in self.nodes)

    @property
    def title(self) -> str:
        return f"{self.role.lower()} {self.ids}"


def grouped_nodes(nodes: Sequence[Node], rows: Sequence[MatrixRow]) -> list[Group]:
    """The nodes, equal ones together."""
    nodes_by_key: dict[tuple[object, ...], list[Node]] = {}
    cells: dict[tuple[object, ...], tuple[Text, ...]] = {}
    for node in nodes:
        row = tuple(row.cell(node) for row in rows)
        key = (node.roles, *(cell.plain for cell in row))
        nodes_by_key.setdefault(key, []).append(node)
        cells[key] = row
    return [Group(tuple(those), cells[key]) for key, those in nodes_by_key.items()]


def draw_table(
    console: Console, corner: tuple[str, str], rows: Sequence[MatrixRow], groups: Sequence[Group], *, turn: bool = True
) -> None:
    """Print it. `corner`: the titles of the first two columns. `turn`: where it is too wide."""
    table = _upright(corner, rows, groups)
    if not turn or natural_width(console, table) <= console.width:
        console.print(table)
        return
    table = _turned(corner, rows, groups)
    if least_width(console, table) > console.width:
        _lined(console, corner, rows, groups)
        return
    console.print(table)
    for row in rows:
        if row.note:
            line(console, Text(row.note, "dim"))


def _upright(corner: tuple[str, str], rows: Sequence[MatrixRow], groups: Sequence[Group]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(corner[0], no_wrap=True)
    if corner[1]:
        table.add_column(corner[1], no_wrap=True)
    for group in groups:
        table.add_column(f"{group.role}\n{_folded(group.ids)}", no_wrap=True)
    for index, row in enumerate(rows):
        title = f"  {row.title}" if row.is_below else row.title
        table.add_row(title, *([row.level] if corner[1] else []), *(group.cells[index] for group in groups))
    return table


def _turned(corner: tuple[str, str], rows: Sequence[MatrixRow], groups: Sequence[Group]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("NODES")
    for row in rows:
        if not row.is_below:
            table.add_column(row.short or row.title, overflow="fold")
    levels = [Text(row.level.replace(" (", "\n").removesuffix(")")) for row in rows]
    table.add_row(corner[1].lower(), *_joined(rows, levels))
    for group in groups:
        table.add_row(group.title, *_joined(rows, group.cells))
    return table


def _joined(rows: Sequence[MatrixRow], cells: Sequence[Text]) -> list[Text]:
    """The cells of the columns: what belongs to the row above stands below it."""
    columns: list[Text] = []
    for row, cell in zip(rows, cells, strict=True):
        if not row.is_below:
            columns.append(cell)
        elif cell:
            columns[-1] = Text("\n").join((columns[-1], cell))
    return columns


def _lined(console: Console, corner: tuple[str, str], rows: Sequence[MatrixRow], groups: Sequence[Group]) -> None:
    width = max(len(group.title) for group in groups)
    for index, row in enumerate(rows):
        level = f"  {corner[1].lower()} {row.level}" if row.level else ""
        title = Text(f"  {row.title}") if row.is_below else Text(row.title, "bold")
        console.print(title.append(level, "none"), overflow="fold")
        for group in groups:
            cell, label = group.cells[index], f"  {group.title:<{width}}  "
            hanging(console, cell, indent=len(label), first=Text(label))


def _folded(ids: str, width: int = 18) -> str:
    """Long lists of ids in several lines, so that a column stays narrow."""
    lines = [""]
    for part in ids.split(", "):
        glue = ", " if lines[-1] else ""
        if lines[-1] and len(lines[-1]) + len(glue) + len(part) > width:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] += glue + part
    return "\n".join(lines)
