"""`kafkafeatures check`: tells scripts whether every node is healthy, and whether the cluster can be raised to a
release. Changes nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from kafkafeatures.api.names import API_VERSION, ELIGIBLE_LEADER_REPLICAS
from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.connect import add_connection_flags, flags_of, look, on_cluster, settings_from_flags
from kafkafeatures.cli.document.rights_flags import add_rights_flags, rights_are_asked
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.output import FORMATS, console, print_document, print_junit
from kafkafeatures.cli.shell.values import release
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.releases import bundle
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.core.levels.prerequisites import settings_of
from kafkafeatures.core.report.check import Check, CheckVerdict, check
from kafkafeatures.core.words import counted

if TYPE_CHECKING:
    from kafkafeatures.core.facts.observation import Observation

JUNIT = "junit"
"""Value of `-o`: a JUnit report (XML), which CI servers show as test results."""
CODES = {CheckVerdict.READY: Exit.DONE, CheckVerdict.BLOCKED: Exit.BLOCKED, CheckVerdict.UNKNOWN: Exit.UNREACHABLE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `check`."""
    add_connection_flags(parser, takes_document=True)
    parser.add_argument(
        "--release",
        "--release-version",
        type=release,
        metavar="X",
        help="also: can its levels be raised to those of Kafka X",
    )
    add_rights_flags(parser)
    parser.add_argument(
        "-o", "--output", choices=(*FORMATS, JUNIT), default="table", help="table for people (default), or a document"
    )


def run(arguments: argparse.Namespace) -> int:
    """Read the cluster once, and print the blockers. Exit code 0: none, 4: blocked, 5: unknown. `--rights` is another
    check (`check_rights.py`).
    """
    if rights_are_asked(arguments):
        from kafkafeatures.cli.document.check_rights import check_rights

        return check_rights(arguments)
    levels = bundle(arguments.release or "") or {}
    # Settings of nodes that are prerequisites of the levels. No finalized level is known yet, so these are the settings
    # for all changes that the release may need.
    settings = settings_of(changes_between(levels, {}))
    settings |= {MIN_INSYNC_REPLICAS} if ELIGIBLE_LEADER_REPLICAS in levels else set()
    observation = on_cluster(look(settings_from_flags(arguments), partitions=True, settings_of_nodes=settings))
    replication = None
    if isinstance(observation.partitions, Known):
        from kafkafeatures.core.facts.replication import Replication

        replication = Replication(observation.partitions.value)
    outcome = check(observation, levels, flags_of(arguments), replication)
    if arguments.output == "table":
        _draw(outcome, observation, arguments.release)
    elif arguments.output == JUNIT:
        print_junit(_junit(outcome, observation, arguments.release))
    else:
        print_document(_document(outcome, observation, arguments.release), arguments.output)
    return CODES[outcome.verdict]


def _draw(check: Check, observation: Observation, release: str | None) -> None:
    from rich.text import Text

    from kafkafeatures.cli.cluster.blockers_text import draw_blockers
    from kafkafeatures.cli.shell.indented import item, remedy
    from kafkafeatures.core.facts.readings import ANY_CLUSTER
    from kafkafeatures.core.report.blockers import blocker_status
    from kafkafeatures.core.report.reach import blockers_of, highest_levels, other_raises, raises_of

    nodes = counted(sum(bool(node.roles) for node in observation.nodes), "node")
    summary = f"{nodes} healthy" + (f", and ready for Kafka {release}" if release else "")
    print(f"{check.verdict}: {summary}" if check.verdict is CheckVerdict.READY else f"{check.verdict}")
    draw_blockers(console(), map(blocker_status, check.blockers))
    for gap in check.unread:
        if not any(str(replace(gap, remedy="")) in blocker.message for blocker in check.blockers):
            remedy(console(), f"not read: {gap}", indent=4, first=Text("  "))
    for warning in check.warnings:
        item(console(), Text(warning))
    if check.verdict is CheckVerdict.READY:
        highest = highest_levels(observation)
        if others := other_raises(raises_of(observation, highest, blockers_of(observation, highest, ANY_CLUSTER))):
            item(console(), Text(others))


def _document(check: Check, observation: Observation, release: str | None) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Check",
        "clusterId": observation.cluster_id.value if isinstance(observation.cluster_id, Known) else None,
        "release": release,
        "verdict": check.verdict.value,
        "blockers": [
            {
                "kind": blocker.kind.value, "message": blocker.message, "remedy": blocker.remedy,
                "nodes": [{"id": node.id, "roles": [role.value for role in node.roles]} for node in blocker.nodes],
                "feature": blocker.feature or None,
                "wanted": blocker.required_level if blocker.required_level >= 0 else None,
            }
            for blocker in check.blockers
        ],
        "unread": list(map(str, check.unread)),
        "warnings": list(check.warnings),
    }  # fmt: skip


def _junit(check: Check, observation: Observation, release: str | None) -> ElementTree.Element:
    """A JUnit report with one case for the cluster, one for each broker or controller, and one for each thing that was
    not read.
    """
    suite = ElementTree.Element("testsuite", name="kafkafeatures check")
    cluster_blockers = [blocker for blocker in check.blockers if not blocker.nodes]
    cases = [(f"cluster, for Kafka {release}" if release else "cluster", cluster_blockers)]
    cases += [
        (node.title, [blocker for blocker in check.blockers if node.key in {blocked.key for blocked in blocker.nodes}])
        for node in observation.nodes
        if node.roles
    ]
    for title, blockers in cases:
        case = ElementTree.SubElement(suite, "testcase", classname="kafkafeatures.check", name=title)
        for blocker in blockers:
            ElementTree.SubElement(
                case, "failure", type=blocker.kind.value, message=blocker.message
            ).text = blocker.remedy
    for gap in check.unread:
        case = ElementTree.SubElement(suite, "testcase", classname="kafkafeatures.check", name=f"read {gap.location}")
        ElementTree.SubElement(case, "error", message=str(gap))
    return suite
