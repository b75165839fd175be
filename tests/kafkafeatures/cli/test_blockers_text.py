"""Blockers as text: a block for each node or group of equal nodes, with all their features and one remedy."""

from __future__ import annotations

import io

from rich.console import Console

from kafkafeatures.api.status import BlockerStatus
from kafkafeatures.cli.cluster.blockers_text import BLOCKS_SHOWN, draw_blockers
from kafkafeatures.core.engine.blockers import grouped
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import blockers
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.report.blockers import blocker_status
from tests.kafkafeatures.worlds import OLD, SILENT, answer, node, observation

RAISE = (
    UpdateFeature("metadata.version", 21, 27),
    UpdateFeature("group.version", 0, 1),
)
"""Changes that a `node` supports by default, and a node with the ranges OLD (Kafka 3.9) does not. In each test, broker
99 supports them: if no node did, one blocker would speak for all nodes.
"""


def drawn(records: list[BlockerStatus], width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, color_system=None)
    draw_blockers(console, records)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def records_of(seen: Observation) -> list[BlockerStatus]:
    """The blockers of RAISE, as the status has them."""
    return [
        *map(blocker_status, grouped(blockers(LevelCheckInput(seen, RAISE, cluster_flags="--bootstrap-server h:1"))))
    ]


def test_blockers_of_equal_nodes_and_several_features_are_one_block_with_one_remedy() -> None:
    seen = observation(node(3001), node(99), *(node(i, said=answer(OLD), written=OLD) for i in (1, 2)))
    assert drawn(records_of(seen)) == [
        "  NodeRange: 2 brokers (1, 2), Kafka 3.9",
        "    metadata.version 1-21 (up to 3.9-IV0); 27 (4.1-IV1) is required",
        "    group.version not supported; 1 is required",
        "    upgrade Kafka on these brokers",
    ]


def test_the_command_that_removes_a_ghost_has_a_line_of_its_own() -> None:
    seen = observation(node(3001), node(99), node(4, state=NodeState.GHOST, said=SILENT, written=OLD))
    lines = drawn(records_of(seen))
    assert lines[0] == "  GhostRegistration: broker 4, Kafka 3.9; registered, but not running"
    assert lines[3:] == [
        "    if it is permanently gone:",
        "      kafkafeatures unregister --broker 4 --bootstrap-server h:1",
        "    otherwise start it on the new Kafka",
    ]


def test_unread_ranges_of_all_features_are_one_sentence() -> None:
    seen = observation(node(3001), node(99), node(1, said=SILENT, written=None))
    assert drawn(records_of(seen), width=200) == [
        "  NodeUnknown: the supported range of metadata.version, group.version on broker 1 could not be read: "
        "connection refused",
        "    start it",
    ]


def test_blockers_of_the_cluster_and_of_older_operators_are_shown_by_their_message() -> None:
    old = BlockerStatus(kind="NodeRange", feature="group.version", wanted=1, supported_max=0, message="as it was")
    of_cluster = BlockerStatus(kind="Quorum", message="no active controller is known", remedy="restore a majority")
    assert drawn([old, of_cluster]) == [
        "  NodeRange: as it was",
        "  Quorum: no active controller is known",
        "    restore a majority",
    ]


def test_only_the_first_kinds_of_very_many_blocked_nodes_are_explained() -> None:
    kinds = [{"metadata.version": (1, top)} for top in range(10, 20)]
    nodes = [node(i, said=answer(ranges), written=ranges) for i, ranges in enumerate(kinds, start=1)]
    lines = drawn(records_of(observation(node(3001), node(99), *nodes)), width=200)
    assert sum(line.startswith("  NodeRange") for line in lines) == BLOCKS_SHOWN
    rest = "; ".join(f"NodeRange: broker {i}" for i in range(BLOCKS_SHOWN + 1, 11))
    assert lines[-1] == f"  and {10 - BLOCKS_SHOWN} more: {rest}"
