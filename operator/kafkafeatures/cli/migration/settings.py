"""`kafkafeatures migration settings`: compares the settings of each node with those that the next phase requires.

Called by `command.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

import msgspec
from rich.console import Console
from rich.text import Text

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.api.spec import Desired
from kafkafeatures.cli.migration.connection import connection_of
from kafkafeatures.cli.migration.reading import look
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.indented import item, line
from kafkafeatures.cli.shell.output import console, print_document
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.migration.demands import NAMES, SettingDifferences, demands, setting_facts_of
from kafkafeatures.core.migration.edges import TARGETS, NoEdge, next_edge
from kafkafeatures.core.migration.positions import Misplaced, Position, quorum_uncertainty
from kafkafeatures.core.migration.progress import release_of
from kafkafeatures.core.report.migration_document import settings_document
from kafkafeatures.core.words import printable


def run(arguments: argparse.Namespace) -> int:
    """Print the differences. Exit code 0: none, 4: some, or there is no next phase, 5: something is unknown."""
    connection = connection_of(arguments)
    to = arguments.to or connection.desired
    if to not in TARGETS:
        raise CommandFailed("where is the migration to go? use --to, or set spec.migration.desired", Exit.USAGE)
    readings = look(connection, NAMES)
    placement = readings.placement
    if isinstance(placement, (Failure, Misplaced)):
        passes = "; this may pass within a minute: look again before" if getattr(placement, "may_pass", False) else ""
        raise CommandFailed(
            f"which phase the cluster is in is not known: {printable(str(placement))}{passes}", Exit.UNREACHABLE
        )
    position, facts = placement
    desired = Desired(to)
    edge = next_edge(position, desired, facts)
    if isinstance(edge, NoEdge):
        raise CommandFailed(f"{edge.message}; {edge.remedy}", Exit.BLOCKED)
    end = TARGETS[desired] if edge is None else edge.end_from(position)  # without an edge it is there already
    differences = demands(
        position, end, edge, setting_facts_of(readings.settings, release_of(readings.observation)), readings.settings
    )
    differences = msgspec.structs.replace(
        differences, missing=(*differences.missing, *unread_controllers(differences, readings.observation))
    )
    if arguments.output == "table":
        draw(console(), differences)
    else:
        document = settings_document(differences)
        print_document({"apiVersion": API_VERSION, "kind": "MigrationSettings", **document}, arguments.output)
    if differences.unknown:
        return Exit.UNREACHABLE
    return Exit.BLOCKED if differences.differing else Exit.DONE


def unread_controllers(differences: SettingDifferences, observation: Observation) -> Iterator[Failure]:
    """Failures for controllers that the next phase needs and that could not be asked."""
    if (failure := quorum_uncertainty(differences.position, observation)) is not None:
        yield failure
    elif differences.position is Position.ZOOKEEPER and any(
        role is Role.CONTROLLER for role, _, _ in differences.lines
    ):
        yield Failure(FailureKind.UNREACHABLE, "controllers", "none answers", "start them with these lines")


def draw(out: Console, differences: SettingDifferences) -> None:
    """Print the required lines of properties for each role, then the differences of each node."""
    edge = differences.edge
    next_stage = ", where it is to be" if edge is None else f"; next is {differences.end}"
    # a controller that was not asked may run: then this is not the position
    unless = (
        ", unless a controller runs"
        if any(failure.kind is FailureKind.NOT_ASKED for failure in differences.missing)
        else ""
    )
    line(out, Text(f"The cluster is at {differences.position}{unless}{next_stage}.", "bold"))
    for change in edge.further_actions if edge is not None else ():
        line(out, Text(f"Needed besides: {change.value}."))
    if edge is not None and edge.caution:
        line(out, Text(f"{edge.caution}.", "bold red"))
    for role, shape, lines in differences.lines:
        out.print(Text(f"\nEach {role.value.lower()} is {shape.value}:", "bold"))
        for setting in (*lines.add, *(f"without {name}" for name in lines.remove)):
            item(out, Text(str(setting)))
    out.print()
    for (role, lacks), ids in _alike(differences).items():
        title = f"{role.value.lower()}{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
        for text, style in lacks or (("have all of it" if len(ids) > 1 else "has all of it", ""),):
            line(out, Text(f"{title}: {text}", style))
    for failure in differences.missing:
        line(out, Text(f"Not known: {printable(str(failure))}", "red"))


def _alike(differences: SettingDifferences) -> Mapping[tuple[Role, tuple[tuple[str, str], ...]], list[int]]:
    """Node ids by (role, differences), each difference as (line, colour): nodes with equal differences share an
    entry.
    """
    alike: dict[tuple[Role, tuple[tuple[str, str], ...]], list[int]] = {}
    for node in differences.nodes:
        if isinstance(node.differs, Failure):
            lines: tuple[tuple[str, str], ...] = ((f"unknown: {printable(str(node.differs))}", "red"),)
        else:
            lines = tuple((printable(str(difference)), "yellow") for difference in node.differs)
        alike.setdefault((node.role, lines), []).append(node.id)
    return alike
