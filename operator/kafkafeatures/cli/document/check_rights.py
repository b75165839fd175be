"""`kafkafeatures check --rights`: shows which rights this user has in Kafka, ZooKeeper and Kubernetes. Changes nothing.

Exit code 0 if all rights that the purpose needs are granted, 5 if any is missing or unknown. Rights in Kafka are judged
by `kafka/probe/granted.py`, those in ZooKeeper by `zookeeper/rights.py`, those in Kubernetes by its API server.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from msgspec import Struct
from rich.text import Text

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.connect import cluster_of, on_cluster, on_loop, pool_of, settings_from_flags
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.indented import hanging, line
from kafkafeatures.cli.shell.output import console, print_document, print_junit
from kafkafeatures.core.facts.early_rights import is_before_the_copy
from kafkafeatures.core.facts.observation import Known, NodeState, Observation
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, LogReading, NodeAnswer, Role
from kafkafeatures.core.roll.drivers import NOBODY, Driver, driver_named
from kafkafeatures.kafka.base.needs import Purpose
from kafkafeatures.kafka.probe.granted import RightsQuestion, RightsReading, RightState, verdict_of
from kafkafeatures.kafka.probe.witnesses import ask_for_rights

if TYPE_CHECKING:
    from kafkafeatures.core.facts.readings import Readings
    from kafkafeatures.core.facts.znodes import ZooKeeperReading
    from kafkafeatures.kafka.base.settings import ClusterSettings

_STATE_COLUMNS = 11
"""Columns of the state of a right in the table."""
_WORDS = {
    RightState.GRANTED: ("granted", "green"),
    RightState.MISSING: ("missing", "red"),
    RightState.UNKNOWN: ("unknown", "red"),
    RightState.NOT_NEEDED: ("not needed", "dim"),
}


class RightRow(Struct, frozen=True):
    """A line of the output: a right in a `system` (Kafka, ZooKeeper or Kubernetes) on a resource or on znodes, and the
    purposes that it is needed for. message: why it is missing or unknown.
    """

    system: str
    right: str
    on: str
    state: RightState
    needed_for: tuple[str, ...]
    message: str = ""
    remedy: str = ""


def check_rights(arguments: argparse.Namespace) -> int:
    """Read all rights, and print which are granted, missing or unknown. Returns the exit code."""
    mode, driver = arguments.mode or "levels", driver_named(arguments.driver or NOBODY.name) or NOBODY
    settings = settings_from_flags(arguments)
    zookeeper = _read_zookeeper(arguments) if arguments.zookeeper is not None else NOT_ASKED
    observation, reading = on_cluster(_read_kafka(settings, zookeeper, mode, driver))
    rows = [
        *(
            RightRow(
                "Kafka",
                finding.right.name,
                finding.resource,
                finding.state,
                finding.needed_for,
                finding.message,
                finding.remedy,
            )
            for finding in reading.findings
        ),
        *(_zookeeper_rows(arguments, observation, mode) if mode in ("ibp", "migrate") else ()),
        *(_kubernetes_rows(arguments, driver) if driver.reads_pods else ()),
    ]
    verdict = verdict_of(row.state for row in rows)
    purpose = f"mode {mode}" + (f", driver {driver.name}" if driver is not NOBODY else "")
    if arguments.output == "table":
        _draw(rows, verdict, reading, purpose)
    elif arguments.output == "junit":
        print_junit(_junit(rows, purpose))
    else:
        print_document(_document(rows, verdict, reading, (observation, mode, driver)), arguments.output)
    return Exit.DONE if verdict is RightState.GRANTED else Exit.UNREACHABLE


def _read_zookeeper(arguments: argparse.Namespace) -> ZooKeeperReading | Failure:
    from kafkafeatures.cli.cluster.ensemble import named
    from kafkafeatures.zookeeper.reader import read_zookeeper

    return on_loop(read_zookeeper(named(arguments), lambda: datetime.now(UTC)))


async def _read_kafka(
    settings: ClusterSettings, zookeeper: ZooKeeperReading | Failure, mode: str, driver: Driver
) -> tuple[Observation, RightsReading]:
    """The state of the cluster, and the rights in it."""
    async with cluster_of(settings) as cluster:
        readings = await cluster.read()
    observation = observe(*readings, zookeeper=zookeeper)
    async with pool_of(settings) as pool:
        before_copy = is_before_the_copy(readings.probe, readings.log, zookeeper)
        question = replace(question_of(readings, observation, mode, driver), before_copy=before_copy)
        return observation, await ask_for_rights(pool, readings.probe.nodes, question)


def question_of(readings: Readings, observation: Observation, mode: str, driver: Driver) -> RightsQuestion:
    """The question for `granted.py`.

    `roles`: a cluster in ZooKeeper mode has no controllers of its own; for a migration it will have some.
    `reads_log`: True if the metadata log can be read, or only the right to read it is missing: then the user is told to
    get that right, and not the rights that would replace it. False in ZooKeeper mode, which has no log.
    """
    purposes = {Purpose(mode)}
    if driver.restarts_nodes and Purpose(mode) is not Purpose.IBP:
        purposes.add(Purpose.RESTARTS)
    nodes, parts = readings.probe.nodes, (readings.log, readings.probe.quorum, readings.probe.controllers)
    brokers = [node.answer for node in nodes if node.role is Role.BROKER and isinstance(node.answer, NodeAnswer)]
    without_kraft = bool(brokers) and not any(answer.runs_in_kraft_mode for answer in brokers)
    has_controllers = any(node.role is Role.CONTROLLER for node in nodes) or mode == "migrate"
    may_read_log = isinstance(readings.log, LogReading) or any(
        isinstance(part, Failure) and part.kind is FailureKind.AUTHORIZATION for part in parts
    )
    is_in_log = observation.in_kraft_mode if mode in ("ibp", "migrate") else not without_kraft
    ghosts = ((role, node.id) for node in observation.nodes if node.state is NodeState.GHOST for role in node.roles)
    return RightsQuestion(
        frozenset(purposes),
        frozenset(ghosts),
        reads_log=may_read_log and is_in_log,
        roles=frozenset(Role if has_controllers or not without_kraft else (Role.BROKER,)),
    )


def _zookeeper_rows(arguments: argparse.Namespace, observation: Observation, mode: str) -> Iterator[RightRow]:
    """The rights in ZooKeeper; a single row if the cluster has no ZooKeeper, or if its rights could not be read."""
    goal = ("read what Kafka keeps in ZooKeeper",)
    if observation.in_kraft_mode:
        text = "the cluster is in KRaft mode, and has no ZooKeeper"
        yield RightRow("ZooKeeper", "READ", "all znodes", RightState.NOT_NEEDED, goal, text)
        return
    if arguments.zookeeper is None:
        text = "the ensemble is not named"
        yield RightRow("ZooKeeper", "READ", "all znodes", RightState.UNKNOWN, goal, text, "give it with --zookeeper")
        return
    from kafkafeatures.cli.cluster.ensemble import named
    from kafkafeatures.zookeeper.rights import znode_rights

    ensemble = named(arguments)
    rights = on_loop(znode_rights(ensemble, goes_back=mode == "migrate"))
    if isinstance(rights, Failure):
        yield RightRow("ZooKeeper", "READ", "all znodes", RightState.UNKNOWN, goal, rights.message, rights.action)
        return
    for right in rights:
        row = RightRow("ZooKeeper", right.right, right.on, RightState.GRANTED, (right.goal,))
        if isinstance(right.is_granted, Failure):
            failure = right.is_granted
            row = replace(row, state=RightState.UNKNOWN, message=failure.message, remedy=failure.action)
        elif not right.is_granted:
            user = f"digest user {ensemble.digest.username}" if ensemble.digest else "the user of the operator"
            remedy = f"grant {right.right} on {', '.join(right.missing_on)} to {user}"
            text = f"missing on {', '.join(right.missing_on)}"
            row = replace(row, state=RightState.MISSING, message=text, remedy=remedy)
        yield row


def _kubernetes_rows(arguments: argparse.Namespace, driver: Driver) -> Iterator[RightRow]:
    from kafkafeatures.cli.kube.driver_rights import driver_rights

    states = {True: RightState.GRANTED, False: RightState.MISSING, None: RightState.UNKNOWN}
    goal = (f"restart nodes with the driver {driver.name}",)
    for right in driver_rights(arguments, driver):
        state = states[right.is_granted]
        yield RightRow("Kubernetes", right.verb, right.resource, state, goal, right.message, right.remedy)


def _draw(rows: list[RightRow], verdict: RightState, reading: RightsReading, purpose: str) -> None:
    out = console()
    users = " and ".join(user or "the user of the certificate or token" for user in reading.users)
    numbers = Counter(row.state for row in rows)
    states = ", ".join(f"{numbers[state]} {_WORDS[state][0]}" for state in RightState if numbers[state])
    line(out, Text(f"{verdict}: rights of {users} for {purpose}: {states}"))
    line(out, Text(f"Authorizer: {reading.authorizer}"))
    for system in dict.fromkeys(row.system for row in rows):
        print(f"\n{system}")
        for row in (row for row in rows if row.system == system):
            word, style = _WORDS[row.state]
            title = Text(f"  {word:<{_STATE_COLUMNS}}", style)
            text = f"{row.right} on {row.on}: {'; '.join(row.needed_for)}"
            hanging(out, Text(text), indent=_STATE_COLUMNS + 2, first=title)
            for explanation in (row.message, row.remedy):
                if explanation and row.state is not RightState.GRANTED:
                    hanging(out, Text(explanation, style), indent=_STATE_COLUMNS + 2)
    if reading.commands:
        print("\nGrant what is missing in Kafka:")
    for command in reading.commands:
        out.print(Text(f"  {command}"), soft_wrap=True)  # copied as it stands


def _document(
    rows: list[RightRow], verdict: RightState, reading: RightsReading, about: tuple[Observation, str, Driver]
) -> dict[str, Any]:
    observation, mode, driver = about
    return {
        "apiVersion": API_VERSION,
        "kind": "Rights",
        "clusterId": observation.cluster_id.value if isinstance(observation.cluster_id, Known) else None,
        "mode": mode,
        "driver": driver.name,
        "users": [user or None for user in reading.users],
        "authorizer": reading.authorizer,
        "verdict": verdict.value,
        "rights": [
            {
                "system": row.system, "right": row.right, "on": row.on, "state": row.state.value,
                "neededFor": list(row.needed_for), "message": row.message, "remedy": row.remedy,
            }
            for row in rows
        ],
        "commands": list(reading.commands),
    }  # fmt: skip


def _junit(rows: list[RightRow], purpose: str) -> ElementTree.Element:
    """One case for each right."""
    suite = ElementTree.Element("testsuite", name=f"kafkafeatures check --rights, {purpose}")
    for row in rows:
        name = f"{row.right} on {row.on}"
        case = ElementTree.SubElement(suite, "testcase", classname=f"kafkafeatures.rights.{row.system}", name=name)
        if row.state is RightState.MISSING:
            ElementTree.SubElement(case, "failure", type="Rights", message=row.message).text = row.remedy
        elif row.state is RightState.UNKNOWN:
            ElementTree.SubElement(case, "error", type="Rights", message=row.message).text = row.remedy
    return suite
