"""The picture, as text: for one node and for three hundred, in a narrow terminal, without colour."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kafkafeatures.cli.cluster.matrix import draw
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind
from tests.kafkafeatures.worlds import NEW, OLD, SILENT, answer, node, observation


def drawn(seen: Observation, *, width: int = 80, apis: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, color_system=None)
    draw(console, seen, api_names={18: "ApiVersions"} if apis else None)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines())
    return [line.rstrip() for line in text.splitlines()]


def line_with(lines: list[str], word: str) -> str:
    return next(line for line in lines if word in line)


def test_equal_nodes_share_a_column_and_the_one_that_blocks_is_marked() -> None:
    lines = drawn(observation(node(3001), node(3002), node(1), node(2, said=answer(OLD), written=OLD), node(3)))
    assert line_with(lines, "CONTROLLERS").split() == ["CONTROLLERS", "BROKERS", "BROKER"]
    assert line_with(lines, "FEATURE").split() == ["FEATURE", "FINALIZED", "3001,", "3002", "1,", "3", "2"]
    assert line_with(lines, "metadata.version  ").split()[-4:] == ["7-27", "7-27", "1-21", "!"]
    assert line_with(lines, "group.version  ").split()[-2:] == ["-", "!"]
    assert "  metadata.version above 21 (3.9-IV0): broker 2 (supports 1-21)" in lines
    assert "  group.version above 0: broker 2 (not supported)" in lines


def test_three_hundred_nodes_read_like_three() -> None:
    brokers = [node(i) for i in range(1, 300)]
    lines = drawn(observation(node(3001), *brokers))
    assert "1-299" in line_with(lines, "FEATURE")
    assert len(lines) < 12


def test_three_hundred_nodes_half_upgraded_fit_a_screen() -> None:
    half = [node(i, said=answer(OLD if i % 2 else NEW), written=OLD if i % 2 else NEW) for i in range(1, 301)]
    silent = [node(i, state=NodeState.UNREACHABLE, said=SILENT) for i in range(400, 450)]
    lines = drawn(observation(node(3001), node(3002), node(3003), *half, *silent), width=100)
    assert len(lines) <= 24
    assert "  metadata.version above 21 (3.9-IV0): 150 brokers (1, 3, 5, ... 299) (support 1-21)" in lines
    assert "50 brokers (400-449): still registered" in line_with(lines, "Unreachable")


def test_a_lost_quorum_is_the_first_line() -> None:
    lost = Failure(FailureKind.NO_LEADER, "", "no majority of the voters answers")
    seen = observation(node(3001), node(3002, state=NodeState.UNREACHABLE, said=SILENT), node(1), voting=lost)
    assert drawn(seen, width=120)[0] == (
        "No active controller: no majority of the voters answers; 1 of 2 voters does not answer (3002)"
    )


def test_one_node_is_enough() -> None:
    assert "CONTROLLER" in "".join(drawn(observation(node(3001))))


def test_ghosts_refused_and_silent_nodes_have_lines_of_their_own() -> None:
    lines = drawn(
        observation(
            node(3001),
            node(1),
            node(3003, state=NodeState.GHOST, said=SILENT, written=OLD, voter=False),
            node(4, state=NodeState.GHOST, said=SILENT, written=OLD),
            node(5, state=NodeState.UNREACHABLE, said=SILENT),
            node(9, state=NodeState.REFUSED, said=SILENT, written=None),
            node(8, state=NodeState.REFUSED, said=answer(OLD, keys=(18,)), written=None),
        ),
        width=120,
    )
    assert line_with(lines, "Ghost       controller 3003").endswith("registered with metadata.version 1-21")
    assert "fenced, and does not answer" in line_with(lines, "Ghost       broker 4")
    assert "still registered, but connection refused" in line_with(lines, "Unreachable broker 5")
    assert "rejects its registration" in line_with(lines, "Refused     broker 9")
    assert line_with(lines, "Refused     broker 8").endswith(
        "in ZooKeeper mode, and is not registered with the controllers"
    )
    assert "ghost controller 3003 (supports 1-21), ghost broker 4 (supports 1-21)" in line_with(lines, "above 21")


def test_what_was_not_read_is_said_with_the_remedy() -> None:
    gap = Failure(FailureKind.AUTHORIZATION, "metadata log", "CLUSTER_ACTION is missing", "grant it")
    lines = drawn(observation(gaps=(gap,)))
    assert lines[-2:] == ["Not read", "  metadata log: CLUSTER_ACTION is missing; grant it"]


def test_a_range_that_is_not_known_is_a_question_mark() -> None:
    half = answer({"metadata.version": (7, 27)}, complete=False)
    lines = drawn(observation(node(3001), node(1, said=half, written=None)))
    assert line_with(lines, "group.version  ").split()[-1] == "?"


def test_a_node_that_reads_another_level_is_reported() -> None:
    late = answer(NEW, {"metadata.version": 20})
    assert "(reports 20)" in "".join(drawn(observation(node(3001), node(1, said=late))))


@pytest.mark.parametrize("width", [60, 80])
def test_many_kinds_of_nodes_turn_the_picture_instead_of_breaking_it(width: int) -> None:
    nodes = [node(i, said=answer({"metadata.version": (1, 10 + i)}), written=None) for i in range(1, 13)]
    lines = drawn(observation(node(3001), *nodes), width=width)
    assert "1-22 !" in line_with(lines, "broker 12")
    assert "…" not in "".join(lines)


def test_where_words_would_be_broken_each_feature_has_lines_of_its_own() -> None:
    names = ("eligible.leader.replicas", "share", "streams", "transaction")
    new = NEW | {f"{name}.version": (0, 1) for name in names}
    live = (node(i, said=answer(new), written=new) for i in (3001, 3002, 1))
    lines = drawn(observation(*live, node(2, said=answer(OLD), written=OLD)), width=60)
    at = lines.index("metadata.version  finalized 21 (3.9-IV0)")
    assert lines[at + 1 : at + 4] == [
        "  controllers 3001, 3002  7-27",
        "  broker 1                7-27",
        "  broker 2                1-21 !",
    ]
    assert not any(word in "".join(lines) for word in ("…", "NODES", "FEATURE"))


def test_apis_are_rows_of_their_own_picture() -> None:
    lines = drawn(observation(), apis=True)
    assert line_with(lines, "ApiVersions (18)").split()[-2:] == ["0-4", "0-4"]
    assert line_with(lines, "? (55)")
