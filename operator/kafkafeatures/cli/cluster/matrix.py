"""The matrix of features (or APIs) by nodes.

Nodes that say the same share a column, so that three nodes and three hundred read alike. Where the columns do not fit
the terminal the picture is turned: a row per group, a column per feature; where words would be broken even so,
each feature has lines of its own. Ghosts, refused and silent nodes have lines
of their own. A cell that blocks is red, and marked `!` for those who see no colour. Used by `describe` and by `plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafkafeatures.cli.shell.output import least_width, natural_width
from kafkafeatures.core.engine.blockers import shortened, title_of, verb
from kafkafeatures.core.engine.remedies import ghost_remedy
from kafkafeatures.core.facts.observation import (
    NOT_SUPPORTED,
    Known,
    Node,
    NodeState,
    Observation,
    SourceKind,
    Unknown,
    supported_by_all,
)
from kafkafeatures.core.facts.readings import DESCRIBE_QUORUM, FailureKind, Role
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.words import counted

UNKNOWN_CELL, ABSENT_CELL = "?", "-"


class _Group(Struct, frozen=True):
    """Nodes with the same role and the same cells."""

    nodes: tuple[Node, ...]
    cells: tuple[Text, ...]

    @property
    def role(self) -> str:
        title = _role_title(self.nodes[0], plural=len(self.nodes) > 1)
        return f"{len(self.nodes)} {title}" if "..." in self.ids else title  # who is not listed is counted

    @property
    def ids(self) -> str:
        return shortened(node.id for node in self.nodes)


def draw(
    console: Console,
    observation: Observation,
    *,
    api_names: dict[int, str] | None = None,
    blockers: bool = True,
    flags: str = "",
) -> None:
    """Print the whole picture; `api_names` given: APIs instead of features (KIP-35). `blockers`: of any raise.

    `flags`: how our own commands reach the cluster; with them the cure of each ghost is shown.
    """
    _quorum_lost(console, observation)
    _headline(console, observation)
    if api_names is None:
        names = observation.feature_names()
        best = {name: _best(observation, name) for name in names}
        rows = [(name, _finalized(observation, name)) for name in names]
        groups = _grouped(observation, lambda node: tuple(_feature_cell(observation, node, n, best[n]) for n in names))
        _table(console, ("FEATURE", "FINALIZED"), rows, groups)
        _protocol(console, observation)
        _apart(console, observation, flags)
        if blockers:
            _blockers(console, observation, best)
    else:
        keys = sorted({key for node in observation.nodes for key in _apis(node)})
        rows = [(f"{api_names.get(key, '?')} ({key})", "") for key in keys]
        groups = _grouped(observation, lambda node: tuple(_api_cell(node, key) for key in keys))
        _table(console, ("API (KEY)", ""), rows, groups, turn=False)
        _apart(console, observation)
    _not_read(console, observation)


# --- the lines around the table ---


def _quorum_lost(console: Console, observation: Observation) -> None:
    """The first line of all: without an active controller nothing else on the page can be changed."""
    active = observation.active_controller
    if observation.source.files or isinstance(active, Known) or observation.in_zookeeper_mode:
        return
    voters = tuple(node for node in observation.nodes if Role.CONTROLLER in node.roles and node.is_voter)
    silent = tuple(node for node in voters if isinstance(node.answer, Unknown))
    ids = shortened(node.id for node in silent)
    count = f"; {len(silent)} of {len(voters)} voters {verb(silent, 'does', 'do')} not answer ({ids})" if silent else ""
    console.print(Text(f"No active controller: {active.why}{count}", "bold red"), overflow="fold")


def _headline(console: Console, observation: Observation) -> None:
    mode = observation.mode.value.value if isinstance(observation.mode, Known) else "mode unknown"
    console.print(
        Text.assemble("Cluster ", (_or_why(observation.cluster_id), "bold"), f"  {mode}  {_counts(observation)}")
    )
    source = observation.source
    if source.kind is SourceKind.METADATA_LOG:
        line = Text(f"Source: metadata log at offset {source.offset}, epoch {source.epoch}")
        if source.files and source.at:
            line = Text(f"Source: files in {source.files}, at offset {source.offset}, epoch {source.epoch}, ")
            line.append(f"{source.at:%Y-%m-%d %H:%M:%S} UTC; no node was asked")
    else:
        answered = sum(isinstance(node.answer, Known) for node in observation.nodes)
        line = Text(f"Source: API requests, {answered} of {len(observation.nodes)} nodes answered")
    if isinstance(observation.active_controller, Known):
        line.append(f"; active controller {observation.active_controller.value}")
    console.print(line)
    if isinstance(observation.finalized, Unknown):
        console.print(Text(f"Finalized levels unknown: {observation.finalized.why}", "red"))
    console.print()


def _protocol(console: Console, observation: Observation) -> None:
    """What brokers in ZooKeeper mode have instead of a finalized metadata.version, where they were asked."""
    if not observation.in_zookeeper_mode:
        return
    from kafkafeatures.core.ibp.report import in_use

    if found := in_use(observation):
        console.print(Text(f"{IBP}: {found}"), overflow="fold")


def _counts(observation: Observation) -> str:
    combined = sum(len(node.roles) > 1 for node in observation.nodes)
    controllers = sum(node.roles == (Role.CONTROLLER,) for node in observation.nodes)
    brokers = sum(node.roles == (Role.BROKER,) for node in observation.nodes)
    parts = ((controllers, "controller"), (brokers, "broker"), (combined, "combined node"))
    return ", ".join(counted(count, name) for count, name in parts if count) or "no nodes"


def _apart(console: Console, observation: Observation, flags: str = "") -> None:
    """Nodes that are not live, those with the same story on one line."""
    stories: dict[tuple[NodeState, tuple[Role, ...], str], list[Node]] = {}
    for node in observation.nodes:
        if not _is_counted_on(observation, node):
            stories.setdefault((node.state, node.roles, _story(node)), []).append(node)
    if stories:
        console.print()
    for state in NodeState:
        for (_, _, story), nodes in ((key, nodes) for key, nodes in stories.items() if key[0] is state):
            where = f" {nodes[0].host}:{nodes[0].port}" if len(nodes) == 1 and nodes[0].port >= 0 else ""
            line = Text.assemble((f"{state.value:<12}", "bold red"), f"{title_of(tuple(nodes))}{where}: {story}")
            console.print(line, overflow="fold", no_wrap=False)
            if flags and state is NodeState.GHOST:  # to be copied: never broken in two
                console.print(
                    Text(f"            {ghost_remedy(tuple(nodes), flags, observation.finalized)}"), soft_wrap=True
                )


def _story(node: Node) -> str:
    registered = isinstance(node.answer, Unknown) and bool(node.registered)
    ranges = ""
    if registered:
        written = node.range_of("metadata.version")
        if isinstance(written, Known):
            ranges = f", registered with metadata.version {written.value}"
    return _STORIES[node.state](node) + ranges


def _ghost_story(node: Node) -> str:
    if Role.CONTROLLER in node.roles:
        return "no longer a voter, and does not answer"
    return "fenced, and does not answer: stopped or removed"


_STORIES: dict[NodeState, Callable[[Node], str]] = {
    NodeState.LIVE: lambda _: "",
    NodeState.FENCED: lambda node: (
        "fenced by the controller"
        + (
            ""
            if isinstance(node.answer, Known) or node.answer.why.kind is FailureKind.NOT_ASKED
            else "; fetches the metadata log, does not answer: starting, or rejected"
        )
    ),
    NodeState.UNREACHABLE: lambda node: (
        f"{'still a voter' if node.is_voter else 'still registered'}, but "
        + (node.answer.why.message if isinstance(node.answer, Unknown) else "")
    ),
    NodeState.GHOST: _ghost_story,
    NodeState.REFUSED: lambda node: (
        "runs in ZooKeeper mode, and is not registered with the controllers"
        if isinstance(node.answer, Known) and DESCRIBE_QUORUM not in node.answer.value.apis
        else "keeps fetching the metadata log, but the active controller rejects its registration"
    ),
}


def _blockers(console: Console, observation: Observation, best: Mapping[str, int]) -> None:
    lines = []
    for name, supported in supported_by_all(observation, best).items():
        highest = best[name]
        if supported is None or highest <= supported.max:
            continue
        alike: dict[tuple[NodeState, tuple[Role, ...], str], list[Node]] = {}
        for node in observation.nodes:
            if _is_behind(node, name, highest):
                alike.setdefault((node.state, node.roles, _cell_text(node, name)), []).append(node)
        behind = [
            f"{_adjective(observation, nodes[0])}{title_of(tuple(nodes))} ({_has(text, len(nodes))})"
            for (_, _, text), nodes in alike.items()
        ]
        more = f" and {len(behind) - 5} more groups" if len(behind) > 5 else ""
        lines.append(f"{name} above {format_level(name, supported.max)}: {', '.join(behind[:5])}{more}")
    if lines:
        console.print()
        console.print(Text("Blockers", "bold"))
        for line in lines:
            console.print(Text(f"  {line}", "red"), overflow="fold")


def _has(text: str, count: int) -> str:
    if text == ABSENT_CELL:
        return "not supported"
    return f"supports {text}" if count == 1 else f"support {text}"


def _adjective(observation: Observation, node: Node) -> str:
    return "" if _is_counted_on(observation, node) else f"{node.state.value.lower()} "


def _not_read(console: Console, observation: Observation) -> None:
    if observation.gaps:
        console.print()
        console.print(Text("Not read", "bold"))
        for gap in observation.gaps:
            console.print(Text(f"  {gap}", "yellow"), overflow="fold")


# --- the table ---


def _is_counted_on(observation: Observation, node: Node) -> bool:
    """Whether it has a place in the table: it is live; of files, which show no process, the log counts on it."""
    return node.state is NodeState.LIVE or (bool(observation.source.files) and node.state is NodeState.UNREACHABLE)


def _grouped(observation: Observation, cells_of: Callable[[Node], tuple[Text, ...]]) -> list[_Group]:
    found: dict[tuple[object, ...], list[Node]] = {}
    cells: dict[tuple[object, ...], tuple[Text, ...]] = {}
    for node in observation.nodes:
        if not _is_counted_on(observation, node):
            continue
        row = cells_of(node)
        key = (node.roles, *(cell.plain for cell in row))
        found.setdefault(key, []).append(node)
        cells[key] = row
    return [_Group(tuple(nodes), cells[key]) for key, nodes in found.items()]


def _table(
    console: Console,
    corner: tuple[str, str],
    rows: Sequence[tuple[str, str]],
    groups: Sequence[_Group],
    *,
    turn: bool = True,
) -> None:
    if not groups:
        console.print(Text("No live node.", "red"))
        return
    table = _upright(corner, rows, groups)
    if turn and natural_width(console, table) > console.width:
        table = _turned(corner, rows, groups)
        if least_width(console, table) > console.width:
            _lined(console, rows, groups)
            return
    console.print(table)


def _upright(corner: tuple[str, str], rows: Sequence[tuple[str, str]], groups: Sequence[_Group]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(corner[0], no_wrap=True)
    if corner[1]:
        table.add_column(corner[1], no_wrap=True)
    for group in groups:
        table.add_column(f"{group.role}\n{_folded(group.ids)}", no_wrap=True)
    for index, (name, level) in enumerate(rows):
        table.add_row(name, *([level] if corner[1] else []), *(group.cells[index] for group in groups))
    return table


def _turned(corner: tuple[str, str], rows: Sequence[tuple[str, str]], groups: Sequence[_Group]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("NODES")
    for name, _ in rows:
        table.add_column(name.removesuffix(".version").replace(".", "\n"), overflow="fold")
    table.add_row(corner[1].lower(), *(level.split(" ")[0] for _, level in rows))
    for group in groups:
        table.add_row(f"{group.role.lower()} {group.ids}", *group.cells)
    return table


def _lined(console: Console, rows: Sequence[tuple[str, str]], groups: Sequence[_Group]) -> None:
    titles = [f"{group.role.lower()} {group.ids}" for group in groups]
    width = max(map(len, titles))
    for index, (name, level) in enumerate(rows):
        console.print(Text.assemble((name, "bold"), f"  finalized {level}"), overflow="fold")
        for title, group in zip(titles, groups, strict=True):
            console.print(Text.assemble(f"  {title:<{width}}  ", group.cells[index]), overflow="fold")


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


def _role_title(node: Node, *, plural: bool) -> str:
    word = node.roles[0].value.upper() if len(node.roles) == 1 else "NODE"
    return f"{word}S" if plural else word


# --- cells ---


def _finalized(observation: Observation, name: str) -> str:
    if isinstance(observation.finalized, Unknown):
        return UNKNOWN_CELL
    return format_level(name, observation.finalized.value.get(name, 0))


def _feature_cell(observation: Observation, node: Node, name: str, best: int) -> Text:
    text = _cell_text(node, name)
    if _is_behind(node, name, best):
        return Text(f"{text} !", "bold red")
    found = node.range_of(name)
    if isinstance(found, Unknown):
        return Text(text, "yellow")
    if isinstance(observation.finalized, Known) and isinstance(node.answer, Known):
        level = observation.finalized.value.get(name, 0)
        seen = node.answer.value.finalized.get(name, 0)
        if seen != level:
            return Text(f"{text} (reports {seen})", "yellow")
    return Text(text)


def _cell_text(node: Node, name: str) -> str:
    found = node.range_of(name)
    if isinstance(found, Unknown):
        return UNKNOWN_CELL
    return ABSENT_CELL if found.value == NOT_SUPPORTED else str(found.value)


def _best(observation: Observation, name: str) -> int:
    """The highest level a live node supports: what the cluster could be raised to, were it not for the others."""
    ranges = [node.range_of(name) for node in observation.nodes if _is_counted_on(observation, node)]
    return max((found.value.max for found in ranges if isinstance(found, Known)), default=0)


def _is_behind(node: Node, name: str, best: int) -> bool:
    found = node.range_of(name)
    if isinstance(found, Unknown) or node.state is NodeState.REFUSED:
        return False
    return found.value.max < best


def _apis(node: Node) -> dict[int, object]:
    return dict(node.answer.value.apis) if isinstance(node.answer, Known) else {}


def _api_cell(node: Node, key: int) -> Text:
    if isinstance(node.answer, Unknown):
        return Text(UNKNOWN_CELL, "yellow")
    versions = node.answer.value.apis.get(key)
    return Text(ABSENT_CELL, "dim") if versions is None else Text(str(versions))


def _or_why(fact: Known[str] | Unknown) -> str:
    return fact.value if isinstance(fact, Known) else "id unknown"
