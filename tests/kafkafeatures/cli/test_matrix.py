"""The picture, as text: for one node and for three hundred, in a narrow terminal, without colour."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.matrix import draw, draw_apis
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import MetadataMode, NodeState, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import InferredRelease
from kafkafeatures.core.report.cluster_document import cluster_document
from tests.kafkafeatures.worlds import NEW, OLD, SILENT, Ranges, answer, node, observation


def drawn(seen: Observation, *, width: int = 80, apis: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, color_system=None)
    if apis:
        draw_apis(console, seen, {18: "ApiVersions"})
    else:
        draw(console, seen, flags="--bootstrap-server h:1")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines())
    return [line.rstrip() for line in text.splitlines()]


def line_with(lines: list[str], word: str) -> str:
    return next(line for line in lines if word in line)


def test_equal_nodes_share_a_column_of_the_matrix_and_a_blocking_node_is_marked() -> None:
    lines = drawn(observation(node(3001), node(3002), node(1), node(2, said=answer(OLD), written=OLD), node(3)))
    assert line_with(lines, "CONTROLLERS").split() == ["CONTROLLERS", "BROKERS", "BROKER"]
    assert line_with(lines, "FEATURE").split() == ["FEATURE", "FINALIZED", "3001,", "3002", "1,", "3", "2"]
    assert line_with(lines, "metadata.version  ").split()[-4:] == ["7-27", "7-27", "1-21", "!"]
    assert line_with(lines, "group.version  ").split()[-2:] == ["-", "!"]
    assert lines[0] == "metadata.version 3.9-IV0 -> 4.1-IV1: blocked by broker 2 (Kafka 3.9)"
    assert line_with(lines, "inferred").split() == ["Kafka", "(inferred", "from", "the", "ranges)", "4.1", "4.1", "3.9"]
    assert line_with(lines, "up to ").split()[-3:] == ["4.1-IV1", "4.1-IV1", "3.9-IV0"]
    assert line_with(lines, "! blocks a raise").endswith("- not supported")
    at = lines.index("  NodeRange: broker 2, Kafka 3.9")
    assert lines[at + 1 :] == [
        "    metadata.version 1-21 (up to 3.9-IV0); 27 (4.1-IV1) is required",
        "    group.version not supported; 1 is required",
        "    upgrade Kafka on broker 2",
    ]


def test_the_matrix_of_three_hundred_equal_nodes_is_as_short_as_one_of_three() -> None:
    brokers = [node(i) for i in range(1, 300)]
    lines = drawn(observation(node(3001), *brokers))
    assert "1-299" in line_with(lines, "FEATURE")
    assert len(lines) < 14
    assert lines[0] == "metadata.version 3.9-IV0; can be raised to 4.1-IV1"
    assert not any("!" in one for one in lines)


def test_the_matrix_of_three_hundred_half_upgraded_nodes_fits_a_screen() -> None:
    half = [node(i, said=answer(OLD if i % 2 else NEW), written=OLD if i % 2 else NEW) for i in range(1, 301)]
    silent = [node(i, state=NodeState.UNREACHABLE, said=SILENT) for i in range(400, 450)]
    lines = drawn(observation(node(3001), node(3002), node(3003), *half, *silent), width=100)
    assert len(lines) <= 24
    assert "  NodeRange: 150 brokers (1, 3, 5, ... 299), Kafka 3.9" in lines
    assert lines.count("    upgrade Kafka on these brokers") == 1
    assert "50 brokers (400-449): still registered" in line_with(lines, "Unreachable")


def test_the_first_line_reports_a_lost_quorum() -> None:
    lost = Failure(FailureKind.NO_LEADER, "", "no majority of the voters answers")
    seen = observation(node(3001), node(3002, state=NodeState.UNREACHABLE, said=SILENT), node(1), voting=lost)
    assert drawn(seen, width=120)[:2] == [
        "No active controller: no majority of the voters answers; 1 of 2 voters does not answer (3002)",
        "metadata.version 3.9-IV0; no level can be changed without an active controller",
    ]


def test_the_headline_promises_no_higher_level_while_a_migration_is_open() -> None:
    lines = drawn(observation(mode=MetadataMode.MIGRATING), width=100)
    assert lines[0] == "metadata.version 3.9-IV0; no level can be changed while a migration from ZooKeeper is open"


def test_the_matrix_of_a_single_controller_is_drawn() -> None:
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
    assert "and does not answer, registered by Kafka 3.9 with" in line_with(lines, "Ghost       controller 3003")
    assert "fenced, and does not answer" in line_with(lines, "Ghost       broker 4")
    assert "still registered, but connection refused" in line_with(lines, "Unreachable broker 5")
    assert "rejects its registration" in line_with(lines, "Refused     broker 9")
    assert line_with(lines, "Refused     broker 8").endswith(
        "in ZooKeeper mode, and is not registered with the controllers"
    )
    assert lines[0].endswith(": blocked by 2 of 5 nodes and 2 ghosts")
    assert line_with(lines, "Cluster ").endswith("1 controller, 4 brokers, 2 ghosts")
    assert "  GhostRegistration: controller 3003, Kafka 3.9; registered, but not running" in lines
    assert "      kafkafeatures unregister --broker 4 --bootstrap-server h:1" in lines


def test_a_source_that_was_not_read_is_listed_with_its_remedy() -> None:
    gap = Failure(FailureKind.AUTHORIZATION, "metadata log", "CLUSTER_ACTION is missing", "grant it")
    lines = drawn(observation(gaps=(gap,)))
    assert lines[-2:] == ["Not read", "  metadata log: CLUSTER_ACTION is missing; grant it"]


def test_an_unknown_supported_range_is_shown_as_a_question_mark() -> None:
    half = answer({"metadata.version": (7, 27)}, complete=False)
    lines = drawn(observation(node(3001), node(1, said=half, written=None)))
    assert line_with(lines, "group.version  ").split()[-1] == "?"


def test_a_node_that_reports_another_finalized_level_is_marked() -> None:
    late = answer(NEW, {"metadata.version": 20})
    assert "(reports 20)" in "".join(drawn(observation(node(3001), node(1, said=late))))


@pytest.mark.parametrize("width", [60, 80])
def test_the_matrix_has_nodes_as_rows_if_their_columns_are_too_many(width: int) -> None:
    nodes = [node(i, said=answer({"metadata.version": (1, 10 + i)}), written=None) for i in range(1, 13)]
    lines = drawn(observation(node(3001), *nodes), width=width)
    assert "1-22 !" in line_with(lines, "broker 12")
    assert "".join(lines).count("inferred") == 1
    assert "…" not in "".join(lines)


def test_each_feature_has_its_own_lines_if_the_matrix_is_too_wide() -> None:
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


def test_versions_of_apis_are_rows_of_a_second_matrix() -> None:
    lines = drawn(observation(), apis=True)
    assert line_with(lines, "ApiVersions (18)").split()[-2:] == ["0-4", "0-4"]
    assert line_with(lines, "? (55)")


_KINDS: tuple[Ranges, ...] = tuple(
    {"metadata.version": (low, high), "kraft.version": (0, 1), **more}
    for low, high, more in ((1, 21, {}), (7, 25, {"group.version": (0, 1)}), (7, 27, {"group.version": (0, 1)}))
)


def test_the_matrix_of_three_hundred_nodes_of_six_kinds_and_ghosts_fits_fifty_lines() -> None:
    nodes = [node(i, said=answer(_KINDS[i % 3]), written=_KINDS[i % 3]) for i in (*range(1, 301), *range(3001, 3010))]
    gone = [node(i, state=NodeState.GHOST, said=SILENT, written=OLD) for i in (400, 402, 405)]
    silent = [node(i, state=NodeState.UNREACHABLE, said=SILENT) for i in range(500, 550)]
    lines = drawn(observation(*nodes, *gone, *silent))
    assert len(lines) <= 50
    # 309 nodes answer, of which a third supports 27 (4.1-IV1); 50 are silent, with registrations that support it.
    assert lines[0] == "metadata.version 3.9-IV0 -> 4.1-IV1: blocked by 206 of 359 nodes and 3 ghosts"
    assert all(f"{kind}: " in "".join(lines) for kind in ("NodeRange", "GhostRegistration"))


@pytest.mark.parametrize("width", [60, 80])
def test_wrapped_lines_of_the_matrix_stay_indented(width: int) -> None:
    lines = drawn(
        observation(
            *(node(i, said=answer(_KINDS[i % 3]), written=_KINDS[i % 3]) for i in (3001, 1, 2, 3)),
            node(4, state=NodeState.GHOST, said=SILENT, written=OLD),
            gaps=(Failure(FailureKind.AUTHORIZATION, "metadata log", "CLUSTER_ACTION is missing " * 4, "grant it"),),
        ),
        width=width,
    )
    starts = (
        "Cluster",
        "Source",
        "metadata.version",
        "!",
        "Ghost",
        "Blockers",
        "Not read",
        "No",
        "NODES",
        "FEATURE",
        "Kafka",
    )
    rows = ("controller", "broker", "finalized", *{name for kind in _KINDS for name in kind})
    assert [one for one in lines if one and not one.startswith((" ", *starts, *rows))] == []
    command = "\n".join(lines).partition("kafkafeatures unregister")[2].partition("otherwise")[0]
    assert command.replace(" \\\n", " ").split() == ["--broker", "4", "--bootstrap-server", "h:1"]


def test_the_release_of_a_controller_that_is_inferred_from_its_pod_is_marked_as_such() -> None:
    silent = node(3002, state=NodeState.UNREACHABLE, said=SILENT, written=None)
    ranges = {"metadata.version": VersionRange(7, 30)}
    silent = replace(silent, inferred=InferredRelease("4.3", ranges, "controller-2", "1"))
    text = " ".join(line.strip() for line in drawn(observation(node(3001), silent, node(1))))
    assert "; Kafka 4.3, inferred from pod controller-2: metadata.version 7-30 (up to 4.3-IV0)" in text


def test_the_headline_names_the_reachable_and_the_blocked_level() -> None:
    old = {"metadata.version": (7, 25)}
    lines = drawn(observation(node(3001), node(1), node(2, said=answer(old), written=old)))
    assert " ".join(" ".join(lines[:2]).split()).startswith(
        "metadata.version 3.9-IV0 -> 4.0-IV3; 4.1-IV1 is blocked by broker 2 (Kafka 4.0)"
    )


def test_other_features_that_can_be_raised_are_below_the_headline() -> None:
    """Each up to what every node supports; kraft.version never, as its level 1 makes the quorum dynamic for ever."""
    ranges = {"metadata.version": (7, 27), "kraft.version": (0, 1), "group.version": (0, 1), "share.version": (0, 1)}
    old = {**ranges, "share.version": (0, 0)}
    levels = {"metadata.version": 27, "transaction.version": 0}
    nodes = node(3001, said=answer(ranges), written=ranges), node(1, said=answer(old), written=old)
    assert drawn(observation(*nodes, levels=levels))[:2] == [
        "metadata.version 4.1-IV1 is the highest level that a live node supports",
        "1 other feature can be raised: group.version 0 -> 1",
    ]
    elr = {"metadata.version": (7, 27), "eligible.leader.replicas.version": (0, 1)}
    for level, is_shown in ((22, False), (23, True)):  # Kafka refuses its level 1 below 23
        lines = drawn(observation(node(3001, said=answer(elr), written=elr), levels={"metadata.version": level}))
        assert ("1 other feature can be raised: eligible.leader.replicas.version 0 -> 1" in lines) is is_shown


def test_nodes_with_the_same_range_share_a_line_in_a_narrow_terminal() -> None:
    lines = drawn(observation(node(3001), node(1, said=answer(OLD), written=OLD)), width=30)
    at = lines.index("kraft.version  finalized 0")
    assert lines[at - 2 : at + 2] == [
        "  controller 3001  0-1",
        "  broker 1         - !",
        "kraft.version  finalized 0",
        "  every node       0-1",
    ]


@pytest.mark.parametrize("width", [100, 60, 40])
def test_a_level_that_can_be_raised_is_marked_in_every_layout(width: int) -> None:
    ranges = {"metadata.version": (7, 27), "kraft.version": (0, 1), "group.version": (0, 1), "share.version": (0, 1)}
    old = {**ranges, "share.version": (0, 0)}
    levels = {"metadata.version": 25}
    nodes = node(3001, said=answer(ranges), written=ranges), node(1, said=answer(old), written=old)
    lines = drawn(observation(*nodes, levels=levels), width=width)
    text = "\n".join(lines)
    assert len(re.findall(r"\s\+(?! can)", text)) == 2
    assert "+ can be raised; !" in text
    if width == 100:
        assert "25 (4.0-IV3) +" in line_with(lines, "metadata.version  ")
        assert line_with(lines, "group.version  ").split()[:3] == ["group.version", "0", "+"]


def test_the_headline_says_if_the_cluster_is_at_the_highest_level() -> None:
    lines = drawn(observation(levels={"metadata.version": 27, "group.version": 1, "kraft.version": 1}))
    assert lines[0] == "metadata.version 4.1-IV1 is the highest level that a live node supports"
    assert not any("Blockers" in one for one in lines)


def test_the_active_controller_is_unknown_if_the_right_to_describe_the_quorum_is_missing() -> None:
    lacks = Failure(FailureKind.AUTHORIZATION, "h:1", "DescribeQuorum needs DESCRIBE", "kafka-acls.sh --add")
    log = Failure(FailureKind.AUTHORIZATION, "metadata log", "CLUSTER_ACTION is missing", "grant it")
    seen = observation(node(3001), node(1), voting=lacks, gaps=(lacks, log))
    lines = drawn(seen, width=120)
    assert lines[lines.index("Not read") :] == ["Not read", "  metadata log: CLUSTER_ACTION is missing; grant it"]
    assert lines[0].startswith("Active controller unknown: h:1: DescribeQuorum needs DESCRIBE")
    assert any("no level can be changed while the active controller is unknown" in one for one in lines)
    assert not any("No active controller" in one or "without an active controller" in one for one in lines)


def test_the_headline_promises_no_higher_level_if_no_node_is_live() -> None:
    fenced = node(1, state=NodeState.FENCED, said=SILENT)
    seen = observation(fenced, levels={"metadata.version": 99})
    unknown = "no node is known to run, so how far it can be raised is unknown"
    assert drawn(seen, width=120)[0] == f"metadata.version level 99; {unknown}"


def test_a_metadata_log_without_metadata_version_is_shown_at_the_default_of_kafka() -> None:
    seen = observation(node(3001, said=answer(OLD), written=OLD), levels={})
    lines = drawn(seen)
    assert lines[0].startswith("metadata.version 3.0-IV1; can be raised to 3.9-IV0")
    assert "1 (3.0-IV1), not in the log" in "\n".join(lines)
    level, *others = sorted(cluster_document(seen)["features"], key=lambda one: one["name"] != "metadata.version")
    assert (level["finalized"], level["finalizedName"], level["inLog"]) == (1, "3.0-IV1", False)
    assert all("inLog" not in one for one in others)


def test_no_default_level_is_assumed_if_a_vendor_replaces_metadata_version() -> None:
    """The levels of Confluent Server 8.1: `metadata.version ... FinalizedVersionLevel: UNKNOWN 0`."""
    seen = observation(node(3001, said=answer(OLD), written=OLD), levels={"confluent.metadata.version": 140})
    lines = drawn(seen)
    assert lines[0].startswith("confluent.metadata.version 140, which is not one of Kafka's features")
    assert "3.0-IV1" not in "\n".join(lines)
    (level,) = [one for one in cluster_document(seen)["features"] if one["name"] == "metadata.version"]
    assert (level["finalized"], "inLog" in level) == (0, False)
