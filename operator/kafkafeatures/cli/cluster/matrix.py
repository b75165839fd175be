"""Prints a cluster: the levels that it can be raised to, the table of features by nodes, and what prevents higher
levels.

Ghosts, nodes that the controller rejects, and nodes that do not answer have lines below the table. A cell that blocks
is red, and marked `!` for those who see no colour. Used by `describe` and by `plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from rich.console import Console
from rich.text import Text

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.cli.cluster.blockers_text import draw_blockers
from kafkafeatures.cli.cluster.matrix_table import CAN_BE_RAISED, Group, MatrixRow, draw_table, grouped_nodes
from kafkafeatures.cli.shell.indented import hanging, heading, line, remedy
from kafkafeatures.core.engine.blockers import grouped, shortened, title_of, verb
from kafkafeatures.core.engine.remedies import (
    ghost_remedy,
    in_its_place,
    kind_of_replacement,
    observer_remedy,
)
from kafkafeatures.core.facts.binaries import inferred_release
from kafkafeatures.core.facts.observation import (
    NOT_SUPPORTED,
    Known,
    Node,
    NodeKey,
    NodeState,
    Observation,
    SourceKind,
    Unknown,
)
from kafkafeatures.core.facts.quorum import observers, quorum_mode
from kafkafeatures.core.facts.readings import ANY_CLUSTER, FailureKind, Role
from kafkafeatures.core.facts.releases import format_in_kraft, format_level, format_range, level_name
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.report.blockers import blocker_status
from kafkafeatures.core.report.reach import (
    blockers_of,
    headline,
    highest_levels,
    is_counted_on,
    other_raises,
    raises_of,
)
from kafkafeatures.core.words import counted

UNKNOWN_CELL, ABSENT_CELL, BLOCKS = "?", "-", " !"
INFERRED = "Kafka: the release is inferred from the ranges"
LEGEND = {
    CAN_BE_RAISED: "+ can be raised",
    BLOCKS: "! blocks a raise to the highest level of a live node; - not supported",
}
"""Explanations by the end of a cell."""
_STATE_WIDTH = 12
"""Columns of a node's state, before the text about it."""


def draw(console: Console, observation: Observation, *, blockers: bool = True, flags: str = "") -> None:
    """Print everything. `blockers`: print what prevents the highest levels; False if the blockers of a plan follow.

    `flags`: connection flags for the commands in remedies; if given, a ghost that blocks nothing has its remedy, too.
    """
    highest = highest_levels(observation)
    all_blockers = blockers_of(observation, highest, flags or ANY_CLUSTER)
    _quorum_lost(console, observation)
    possible, blocked = headline(observation, highest.get(METADATA_VERSION, 0), all_blockers)
    if possible:
        line(console, Text.assemble((possible, "bold"), (blocked, "bold red")))
    raises = raises_of(observation, highest, all_blockers)
    if others := other_raises(raises):
        line(console, Text(others, "bold"))
    _cluster(console, observation)
    _table(console, observation, ("FEATURE", "FINALIZED"), feature_rows(observation, highest, raises))
    if protocol := protocol_of(observation):
        line(console, Text(protocol))
    blocking = {node.key for blocker in all_blockers for node in blocker.nodes} if blockers else set()
    _apart(console, observation, flags, blocking)
    _observers(console, observation)
    if blockers and all_blockers:
        heading(console, "Blockers of the highest levels that a live node supports")
        draw_blockers(console, map(blocker_status, grouped(all_blockers)))
    _not_read(console, observation, flags)


def draw_apis(console: Console, observation: Observation, api_names: dict[int, str]) -> None:
    """Print every API's version range on every node (KIP-35)."""
    _quorum_lost(console, observation)
    _cluster(console, observation)
    _table(console, observation, ("API (KEY)", ""), api_rows(observation, api_names), turn=False)
    _apart(console, observation)
    _not_read(console, observation)


# --- the lines around the table ---


def _quorum_lost(console: Console, observation: Observation) -> None:
    if text := quorum_lost(observation):
        remedy(console, text.plain, indent=2, style=str(text.style), first=Text())


def quorum_lost(observation: Observation) -> Text | None:
    """The first line if no active controller is known: without one nothing can be changed. Files and clusters in
    ZooKeeper mode have none anyway.
    """
    active = observation.active_controller
    if observation.source.files or isinstance(active, Known) or observation.in_zookeeper_mode:
        return None
    voters = tuple(node for node in observation.nodes if Role.CONTROLLER in node.roles and node.is_voter)
    silent = tuple(node for node in voters if isinstance(node.answer, Unknown))
    ids = shortened(node.id for node in silent)
    count = f"; {len(silent)} of {len(voters)} voters {verb(silent, 'does', 'do')} not answer ({ids})" if silent else ""
    # This user could not read it, for lack of rights, credentials or TLS: there may well be an active controller.
    if active.failure.kind.is_of_the_asker:
        return Text(f"Active controller unknown: {active.failure}", "bold yellow")
    return Text(f"No active controller: {active.failure}{count}", "bold red")


def _cluster(console: Console, observation: Observation) -> None:
    """Print the cluster with the number of its nodes, and the source of all facts."""
    id_, mode, nodes = identity(observation)
    line(console, Text.assemble("Cluster ", (id_, "bold"), f"  {mode}  {nodes}"))
    line(console, Text(f"Source: {source_of(observation)}"))
    if isinstance(observation.finalized, Unknown):
        line(console, Text(f"Finalized levels unknown: {observation.finalized.failure}", "red"))
    console.print()


def identity(observation: Observation) -> tuple[str, str, str]:
    """(cluster id, metadata mode, how many nodes of each kind)."""
    mode = observation.mode.value.value if isinstance(observation.mode, Known) else "mode unknown"
    id_ = observation.cluster_id.value if isinstance(observation.cluster_id, Known) else "id unknown"
    nodes = ", ".join(_counts(observation)) or "no nodes"
    return id_, mode, f"{nodes}{_votes(observation)}"


def source_of(observation: Observation) -> str:
    """The source of all facts, with its offset or the number of answers, and the active controller."""
    source = observation.source
    if source.kind is SourceKind.METADATA_LOG:
        text = f"metadata log at offset {source.offset}, epoch {source.epoch}"
        if source.files and source.at:
            text = f"files in {source.files}, at offset {source.offset}, epoch {source.epoch}, "
            text += f"{source.at:%Y-%m-%d %H:%M:%S} UTC; no node was asked"
    else:
        answered = sum(isinstance(node.answer, Known) for node in observation.nodes)
        text = f"API requests, {answered} of {len(observation.nodes)} nodes answered"
    if isinstance(observation.active_controller, Known):
        text += f"; active controller {observation.active_controller.value}"
    return text


def _counts(observation: Observation) -> Iterator[str]:
    """Texts with the number of nodes of each kind, and of ghosts, which do not count as nodes."""
    nodes = [node for node in observation.nodes if node.state is not NodeState.GHOST]
    kinds = (
        ("controller", (Role.CONTROLLER,)),
        ("broker", (Role.BROKER,)),
        ("combined node", (Role.CONTROLLER, Role.BROKER)),
    )
    for name, roles in kinds:
        if count := sum(node.roles == roles for node in nodes):
            yield counted(count, name)
    if ghosts := len(observation.nodes) - len(nodes):
        yield counted(ghosts, "ghost")


def _votes(observation: Observation) -> str:
    """Text with the number of voters and observers, if some controllers are observers."""
    without_vote = observers(observation)
    voters = sum(node.is_voter for node in observation.nodes)
    ids = shortened(node.id for node in without_vote)
    return f"; {counted(voters, 'voter')}, {counted(len(without_vote), 'observer')} ({ids})" if without_vote else ""


def _observers(console: Console, observation: Observation) -> None:
    for state, text, advice in observing(observation):
        console.print()
        hanging(console, Text(text), indent=_STATE_WIDTH, first=Text(f"{state:<{_STATE_WIDTH}}", "bold yellow"))
        remedy(console, advice, indent=_STATE_WIDTH)


def observing(observation: Observation) -> Iterator[tuple[str, str, str]]:
    """(state, text, remedy) of controllers that are observers: they do not count for a majority, which people may
    expect.
    """
    if without_vote := observers(observation):
        predicate = verb(without_vote, "is not a voter, and counts", "are not voters, and count")
        text = f"{title_of(without_vote)}: {predicate} for no majority"
        yield "Observer", text, observer_remedy(without_vote, quorum_mode(observation))


def protocol_of(observation: Observation) -> str:
    """Text with the inter.broker.protocol.version, which brokers in ZooKeeper mode have instead of metadata.version, if
    it was read.
    """
    if not observation.in_zookeeper_mode:
        return ""
    from kafkafeatures.core.ibp.report import in_use

    protocol = in_use(observation)
    return f"{IBP}: {protocol}" if protocol else ""


def _apart(console: Console, observation: Observation, flags: str = "", blocking: set[NodeKey] | None = None) -> None:
    nodes_apart = [*apart(observation, flags, blocking or set())]
    if nodes_apart:
        console.print()
    for state, text, advice in nodes_apart:
        hanging(console, Text(text), indent=_STATE_WIDTH, first=Text(f"{state:<{_STATE_WIDTH}}", "bold red"))
        if advice:
            remedy(console, advice, indent=_STATE_WIDTH)


def apart(observation: Observation, flags: str, blocking: set[NodeKey]) -> Iterator[tuple[str, str, str]]:
    """(state, text, remedy) of nodes that are not live, with what is known about them ("story"); nodes with equal state
    and story share a line. The remedy is that of a ghost; it is empty without `flags`, and for nodes in `blocking`:
    those of blockers, which have their own.
    """
    stories: dict[tuple[NodeState, tuple[Role, ...], str, str], list[Node]] = {}
    for node in observation.nodes:
        if not is_counted_on(observation, node):
            story = kind_of_replacement(node) or _STORIES[node.state](node)
            stories.setdefault((node.state, node.roles, story, _registration(node)), []).append(node)
    for state in NodeState:
        for (_, _, story, registration), nodes in (
            (key, tuple(nodes)) for key, nodes in stories.items() if key[0] is state
        ):
            address = f" {nodes[0].host}:{nodes[0].port}" if len(nodes) == 1 and nodes[0].port >= 0 else ""
            has_remedy = flags and state is NodeState.GHOST and not {node.key for node in nodes} <= blocking
            yield (
                state.value,
                f"{title_of(nodes)}{address}: {in_its_place(nodes) or story}{registration}",
                ghost_remedy(nodes, flags, observation.finalized) if has_remedy else "",
            )


def _registration(node: Node) -> str:
    """Text with the release and range in the registration of a node that does not answer, or those that its pod
    suggests; empty for other nodes.
    """
    if node.inferred is not None:
        ranges = node.inferred.ranges
        return f"; {node.inferred}: metadata.version {format_range(METADATA_VERSION, ranges[METADATA_VERSION])}"
    release, versions = inferred_release(node), node.known_range_of(METADATA_VERSION)
    if isinstance(node.answer, Known) or not node.registered or versions is None:
        return ""
    by = f" by Kafka {release}" if release else ""
    return f", registered{by} with metadata.version {format_range(METADATA_VERSION, versions)}"


def _ghost_story(node: Node) -> str:
    if Role.CONTROLLER in node.roles:
        return "no longer a voter, and does not answer"
    return "fenced, and does not answer: stopped or removed"


# text about a node by its state
_STORIES: dict[NodeState, Callable[[Node], str]] = {
    NodeState.LIVE: lambda _: "",
    NodeState.FENCED: lambda node: (
        "fenced by the controller"
        + (
            ""
            if isinstance(node.answer, Known) or node.answer.failure.kind is FailureKind.NOT_ASKED
            else "; fetches the metadata log, does not answer: starting, or rejected"
        )
    ),
    NodeState.UNREACHABLE: lambda node: (
        f"{'still a voter' if node.is_voter else 'still registered'}, but "
        + (node.answer.failure.message if isinstance(node.answer, Unknown) else "")
    ),
    NodeState.GHOST: _ghost_story,
    NodeState.REFUSED: lambda node: (
        "runs in ZooKeeper mode, and is not registered with the controllers"
        if node.runs_in_kraft_mode is False
        else "keeps fetching the metadata log, but the active controller rejects its registration"
        if node.roles
        else "fetches the metadata log, but is registered neither as a broker nor as a controller: it has just "
        "started, or is rejected"
    ),
}


def _not_read(console: Console, observation: Observation, flags: str = "") -> None:
    if unread := unread_of(observation, flags):
        heading(console, "Not read")
        for gap in unread:
            remedy(console, gap, indent=2, style="yellow")


def unread_of(observation: Observation, flags: str) -> list[str]:
    """What could not be read, with remedies, but for what `quorum_lost` says. `flags`: for commands in the remedies."""
    said = "" if quorum_lost(observation) is None else str(observation.no_quorum)
    return [text for gap in observation.gaps if (text := str(gap.with_flags(flags or ANY_CLUSTER))) != said]


# --- the table ---


def feature_rows(observation: Observation, highest: dict[str, int], raises: Collection[str]) -> list[MatrixRow]:
    """The rows of the table of features. `highest`: by feature the highest level that a live node supports. `raises`:
    features that can be raised.
    """
    rows = []
    if any(map(inferred_release, observation.nodes)):
        rows.append(MatrixRow("Kafka (inferred from the ranges)", _release_cell, short="Kafka", note=INFERRED))
    for name, highest_level in highest.items():
        short = name.removesuffix(".version").replace(".", "\n")
        level = UNKNOWN_CELL
        if isinstance(observation.finalized, Known):
            levels = observation.finalized.value
            level_in_zookeeper = format_level(name, levels.get(name, 0))
            level = level_in_zookeeper if observation.in_zookeeper_mode else format_in_kraft(name, levels)
        cell = partial(_feature_cell, observation, name, highest_level)
        rows.append(MatrixRow(name, cell, level, name in raises, short))
        if name == METADATA_VERSION:
            rows.append(MatrixRow("up to", _name_cell, is_below=True))
    return rows


def api_rows(observation: Observation, api_names: dict[int, str]) -> list[MatrixRow]:
    """The rows of the table of APIs."""
    keys = sorted({key for node in observation.nodes for key in _apis(node)})
    return [MatrixRow(f"{api_names.get(key, '?')} ({key})", partial(_api_cell, key)) for key in keys]


def counted_groups(observation: Observation, rows: Sequence[MatrixRow]) -> list[Group]:
    """The groups of nodes with equal cells that the table shows."""
    return grouped_nodes([node for node in observation.nodes if is_counted_on(observation, node)], rows)


def _table(
    console: Console, observation: Observation, corner: tuple[str, str], rows: Sequence[MatrixRow], *, turn: bool = True
) -> None:
    """Print the rows with a column for each group of live nodes, and the legend if a cell blocks."""
    groups = counted_groups(observation, rows)
    if not groups:
        console.print(Text("No live node.", "red"))
        return
    draw_table(console, corner, rows, groups, turn=turn)
    signs = [*(row.marked_level for row in rows), *(cell.plain for group in groups for cell in group.cells)]
    legend = "; ".join(words for mark, words in LEGEND.items() if any(sign.endswith(mark) for sign in signs))
    if legend:
        line(console, Text(legend, "dim"))


# --- cells ---


def _release_cell(node: Node) -> Text:
    return Text(inferred_release(node) or UNKNOWN_CELL)


def _name_cell(node: Node) -> Text:
    supported = node.range_of(METADATA_VERSION)
    return Text(level_name(METADATA_VERSION, supported.value.max) if isinstance(supported, Known) else "")


def _feature_cell(observation: Observation, name: str, highest_level: int, node: Node) -> Text:
    """The range that a node supports, marked if it blocks the highest level. A level that the node reports, and that is
    not the finalized one, is added: the node has not read the latest record yet.
    """
    supported = node.range_of(name)
    if isinstance(supported, Unknown):
        return Text(UNKNOWN_CELL, "yellow")
    text = ABSENT_CELL if supported.value == NOT_SUPPORTED else str(supported.value)
    if supported.value.max < highest_level:
        return Text(f"{text}{BLOCKS}", "bold red")
    if isinstance(observation.finalized, Known) and isinstance(node.answer, Known) and node.runs_in_kraft_mode:
        level = observation.finalized.value.get(name, 0)
        reported = node.answer.value.finalized.get(name, 0)
        if reported != level:
            return Text(f"{text} (reports {reported})", "yellow")
    return Text(text)


def _apis(node: Node) -> dict[int, object]:
    return dict(node.answer.value.apis) if isinstance(node.answer, Known) else {}


def _api_cell(key: int, node: Node) -> Text:
    if isinstance(node.answer, Unknown):
        return Text(UNKNOWN_CELL, "yellow")
    versions = node.answer.value.apis.get(key)
    return Text(ABSENT_CELL, "dim") if versions is None else Text(str(versions))
