"""The table of features (or APIs) by nodes, in a layout that fits the terminal.

Nodes with equal cells share a column, so that three hundred nodes take as little room as three. If the columns do not
fit, the table is turned: a row for each group of nodes, a column for each feature. If that does not fit either, each
feature has lines of its own. Called by `cli/cluster/matrix.py`, which makes the cells.
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

CAN_BE_RAISED = " +"


class MatrixRow(Struct, frozen=True):
    """A row of the table: a feature, an API, or the release. cell: makes the text for a node. level: the finalized
    level. is_raisable: it can be raised. short: a shorter title for the turned table. note: a line below that table,
    which explains the short title. is_below: the row belongs to the one above it, so it has no column of its own in the
    turned table.
    """

    title: str
    cell: Callable[[Node], Text]
    level: str = ""
    is_raisable: bool = False
    short: str = ""
    note: str = ""
    is_below: bool = False

    @property
    def marked_level(self) -> str:
        """The finalized level, with the mark of one that can be raised."""
        return f"{self.level}{CAN_BE_RAISED}" if self.is_raisable else self.level


class Group(Struct, frozen=True):
    """Nodes with the same role and the same cells. cells: one for each row of the table."""

    nodes: tuple[Node, ...]
    cells: tuple[Text, ...]

    @property
    def role(self) -> str:
        """BROKER, CONTROLLER or NODE (both roles), or the plural, with a number of nodes if not all ids are listed."""
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
    """The nodes in groups with equal roles and cells."""
    nodes_by_key: dict[tuple[object, ...], list[Node]] = {}
    cells: dict[tuple[object, ...], tuple[Text, ...]] = {}
    for node in nodes:
        row = tuple(row.cell(node) for row in rows)
        key = (node.roles, *(cell.plain for cell in row))
        nodes_by_key.setdefault(key, []).append(node)
        cells[key] = row
    return [Group(tuple(alike), cells[key]) for key, alike in nodes_by_key.items()]


def draw_table(
    console: Console, corner: tuple[str, str], rows: Sequence[MatrixRow], groups: Sequence[Group], *, turn: bool = True
) -> None:
    """Print the table. `corner`: the titles of the first two columns. `turn`: allow the other layouts if it is too
    wide.
    """
    table = _nodes_as_columns(corner, rows, groups)
    if not turn or natural_width(console, table) <= console.width:
        console.print(table)
        return
    table = _nodes_as_rows(corner, rows, groups)
    if least_width(console, table) > console.width:
        _features_as_lines(console, corner, rows, groups)
        return
    console.print(table)
    for row in rows:
        if row.note:
            line(console, Text(row.note, "dim"))


def _nodes_as_columns(corner: tuple[str, str], rows: Sequence[MatrixRow], groups: Sequence[Group]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(corner[0], no_wrap=True)
    if corner[1]:
        table.add_column(corner[1], no_wrap=True)
    for group in groups:
        table.add_column(f"{group.role}\n{_folded(group.ids)}", no_wrap=True)
    for index, row in enumerate(rows):
        title = f"  {row.title}" if row.is_below else row.title
        table.add_row(title, *([row.marked_level] if corner[1] else []), *(group.cells[index] for group in groups))
    return table


def _nodes_as_rows(corner: tuple[str, str], rows: Sequence[MatrixRow], groups: Sequence[Group]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("NODES")
    for row in rows:
        if not row.is_below:
            table.add_column(row.short or row.title, overflow="fold")
    levels = [Text(row.marked_level.replace(" (", "\n").replace(")", "")) for row in rows]
    table.add_row(corner[1].lower(), *_joined(rows, levels))
    for group in groups:
        table.add_row(group.title, *_joined(rows, group.cells))
    return table


def _joined(rows: Sequence[MatrixRow], cells: Sequence[Text]) -> list[Text]:
    """The cells of one line of the turned table; a cell with `is_below` is appended to the one before it."""
    columns: list[Text] = []
    for row, cell in zip(rows, cells, strict=True):
        if not row.is_below:
            columns.append(cell)
        elif cell:
            columns[-1] = Text("\n").join((columns[-1], cell))
    return columns


def _features_as_lines(
    console: Console, corner: tuple[str, str], rows: Sequence[MatrixRow], groups: Sequence[Group]
) -> None:
    width = max(len(group.title) for group in groups)
    every_node = "every node" if len(groups) > 1 else groups[0].title
    for index, row in enumerate(rows):
        level = f"  {corner[1].lower()} {row.marked_level}" if row.level else ""
        title = Text(f"  {row.title}") if row.is_below else Text(row.title, "bold")
        console.print(title.append(level, "none"), overflow="fold")
        cells = {group.title: group.cells[index] for group in groups}
        if len({cell.plain for cell in cells.values()}) == 1:
            cells = {every_node: groups[0].cells[index]}
        for nodes, cell in cells.items():
            label = f"  {nodes:<{width}}  "
            hanging(console, cell, indent=len(label), first=Text(label))


def _folded(ids: str, width: int = 18) -> str:
    """A list of ids in lines of at most `width` characters, so that a column stays narrow."""
    lines = [""]
    for part in ids.split(", "):
        glue = ", " if lines[-1] else ""
        if lines[-1] and len(lines[-1]) + len(glue) + len(part) > width:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] += glue + part
    return "\n".join(lines)
