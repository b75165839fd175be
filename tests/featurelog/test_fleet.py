"""A generated fleet: tables and gate show what its generator did, and damaged copies never make a cluster ready."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from featurelog.gate import Target, Verdict
from kafkafeatures.core.facts.releases import bundle, releases
from kafkasim.fleet.history import History
from kafkasim.fleet.plan import UNTIL_MS, Story
from kafkasim.rules import finalized
from kraftlog.schema import table
from tests.featurelog.fleet import HOUR_MS, fleet, gate, of, tables
from tests.kafkasim.fleets import histories, history_with, written

RELEASES = releases()[releases().index("4.0") :]


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def nodes_that_cannot(history: History, release: str) -> set[tuple[str, int]]:
    """The nodes that do not support a level that a change to a release would set, by the registrations in the
    simulated cluster itself. A downgrade sets features that the release lacks to 0; an upgrade lowers no level.
    """
    levels, image = bundle(release) or {}, history.image
    now = finalized(image, history.plan.after)
    found = set()
    if now.get("metadata.version", 0) > levels["metadata.version"]:
        levels = dict.fromkeys(now, 0) | levels
    else:
        levels = {name: max(level, now.get(name, 0)) for name, level in levels.items()}
    for role, registered in (("broker", image.brokers), ("controller", image.controllers)):
        for id_, node in registered.items():
            for name, level in levels.items():
                low, high = node.features.get(name, (0, 0))
                if level != now.get(name, 0) and name != "kraft.version" and not low <= level <= high:
                    found.add((role, id_))
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_the_gate_names_exactly_the_nodes_that_do_not_support_the_release(release: str) -> None:
    for one in gate(Target("release", release)).clusters:
        history = histories()[one.name.cluster]
        named = {(node["role"], node["node_id"]) for node in (one.row or {})["blocking_nodes"]}
        assert named == nodes_that_cannot(history, release), one.name


def test_every_cluster_is_ready_or_blocked_and_none_is_unknown() -> None:
    verdicts = {one.name.cluster: one.verdict for one in gate(Target("release", "4.2")).clusters}
    stories = {history.plan.name: history.plan for history in histories().values()}
    assert verdicts.keys() == stories.keys()
    for name, verdict in verdicts.items():
        can = not nodes_that_cannot(histories()[name], "4.2") and stories[name].story is not Story.STUCK_MIGRATION
        assert verdict is (Verdict.READY if can else Verdict.BLOCKED), name
    assert set(verdicts.values()) == {Verdict.READY, Verdict.BLOCKED}


def test_every_verdict_is_unknown_a_day_after_the_copies_were_made() -> None:
    late = gate(Target("release", "4.2"), at_ms=UNTIL_MS + 25 * HOUR_MS)
    assert {one.verdict for one in late.clusters} == {Verdict.UNKNOWN}


@pytest.mark.parametrize("story", [Story.GHOST_BROKER, Story.NEW_GHOST_BROKER, Story.GHOST_CONTROLLER])
def test_a_ghost_blocks_and_is_named_with_its_last_registration(story: Story) -> None:
    history = history_with(story)
    target = Target("release", history.plan.after.name)
    (one,) = (each for each in gate(target).clusters if each.name.cluster == history.plan.name)
    ghost = history.plan.ghost
    blocking = {(node["node_id"], node["ghost_suspect"]) for node in (one.row or {})["blocking_nodes"]}
    assert blocking == {(ghost, True)}
    (node, *_) = (one.row or {})["blocking_nodes"]
    registered = [
        each
        for each in history.written
        if each.write.type in (table.REGISTER_BROKER, table.REGISTER_CONTROLLER)
        and ghost in (each.write.data.get("brokerId"), each.write.data.get("controllerId"))
    ][-1]
    if node["file"].endswith(".log"):
        assert (node["offset"], node["ts"]) == (registered.offset, moment(registered.at_ms))
    else:  # it registered before the log begins: the snapshot says that it was so by then
        assert node["ts"] >= moment(registered.at_ms)


def test_suspected_ghosts_are_exactly_the_ghosts_of_the_fleet() -> None:
    found = {
        (name.cluster, row["role"], row["node_id"])
        for name, one in fleet().items()
        for row in one["node_registrations"]
        if row["is_current"] and row["ghost_suspect"]
    }
    assert found == {
        (plan.name, "controller" if plan.story is Story.GHOST_CONTROLLER else "broker", plan.ghost)
        for plan in (history.plan for history in histories().values())
        if plan.ghost is not None
    }


def test_the_level_that_was_changed_by_hand_is_drifted_and_drift_is_unknown_without_a_document() -> None:
    drifted = {
        (name.cluster, row["feature"])
        for name, one in fleet().items()
        for row in one["drift"]
        if row["drift"] == "Drifted"
    }
    assert drifted == {(history_with(Story.CHANGED_BY_HAND).plan.name, "share.version")}
    for history in histories().values():
        if not history.plan.documented:
            assert {row["drift"] for row in of(history.plan.name)["drift"]} == {"Unknown"}


def test_the_timeline_has_the_time_and_the_author_of_each_level_of_the_log() -> None:
    """A log begins with a snapshot. It has the levels of its time, but neither time nor author of earlier changes."""
    for name, history in histories().items():
        timeline = of(name)["feature_timeline"]
        snapshot_at = min(row["not_after"] for row in timeline)
        in_log = {
            (row["feature"], row["level"], row["from_ts"], row["attribution"] != "Unattributed")
            for row in timeline
            if row["from_ts"] is not None  # not a level of the snapshot
        }
        in_history = {
            (change.feature, change.after, moment(change.at_ms), change.by_operator)
            for change in history.changes
            if moment(change.at_ms) > snapshot_at
        }
        assert in_log == in_history, name


def test_the_timeline_has_one_open_migration_with_its_last_broker() -> None:
    found = {
        (name.cluster, row["state_name"], tuple(row["zk_brokers_remaining"]))
        for name, one in fleet().items()
        for row in one["migration_timeline"]
        if row["is_current"] and row["state_name"] not in ("NONE", "POST_MIGRATION")
    }
    plan = history_with(Story.STUCK_MIGRATION).plan
    assert found == {(plan.name, "MIGRATION", (plan.brokers[-1],))}


def test_the_fleet_has_no_row_of_data_quality() -> None:
    assert {row["kind"] for one in fleet().values() for row in one["data_quality"]} == set()


# --- damaged copies never make a cluster ready


def worsen(logs: Path, cluster: str, data: st.DataObject) -> str:
    """Damage the copies of a cluster in one way, and describe it. A fault that is not possible there does nothing."""
    paths = sorted(path for path in (logs / cluster).rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(paths))
    node = logs / cluster / path.relative_to(logs / cluster).parts[0]
    fault = data.draw(st.sampled_from(["remove", "cut", "twice", "node twice", "node gone", "snapshots gone"]))
    match fault:
        case "remove":
            path.unlink()
        case "cut":
            content = path.read_bytes()
            path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        case "twice":
            shutil.copy(path, path.with_name(f"{data.draw(st.integers(0, 10**6)):020}.log"))
        case "node twice":
            name = data.draw(st.sampled_from(["101-again", "copy-of-102", "101", "102", "103", "104", "1"]))
            if name != node.name:
                shutil.rmtree(node.with_name(name), ignore_errors=True)
                shutil.copytree(node, node.with_name(name))
        case "node gone" if len({one.relative_to(logs / cluster).parts[0] for one in paths}) > 1:
            shutil.rmtree(node)
        case "snapshots gone":
            for one in node.rglob("*.checkpoint"):
                one.unlink()
        case _:
            pass
    return f"{fault} {path.relative_to(logs)}"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_fault_of_copies_makes_a_cluster_ready_that_was_not(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = data.draw(st.sampled_from([history.plan.name for history in histories().values()]))
    logs = tmp_path_factory.mktemp("worse")
    shutil.copytree(written() / "logs" / cluster, logs / cluster)
    target = Target("release", data.draw(st.sampled_from(RELEASES)))
    before = next(one.verdict for one in gate(target).clusters if one.name.cluster == cluster)
    done = []
    for _ in range(data.draw(st.integers(1, 4))):
        if not any(path.is_file() for path in (logs / cluster).rglob("*")):
            break
        done.append(worsen(logs, cluster, data))
        after = {one.verdict for one in gate(target, tables(logs)).clusters}
        assert before is Verdict.READY or Verdict.READY not in after, done
        before = Verdict.READY if after == {Verdict.READY} else Verdict.UNKNOWN


def test_a_cluster_copied_under_two_names_is_not_ready(tmp_path: Path) -> None:
    name = history_with(Story.FINALIZED).plan.name
    for copied in (name, "again"):
        shutil.copytree(written() / "logs" / name, tmp_path / copied)
    found = gate(Target("release", "4.2"), tables(tmp_path)).clusters
    assert [one.verdict for one in found] == [Verdict.UNKNOWN] * 2


@pytest.mark.parametrize("has_properties", [True, False], ids=["with meta.properties", "without meta.properties"])
def test_one_copy_under_the_names_of_three_voters_is_one_copy(tmp_path: Path, has_properties: bool) -> None:
    plan = history_with(Story.FINALIZED).plan
    name, target = plan.name, Target("release", plan.after.name)
    only = tmp_path / name / "101"
    shutil.copytree(written() / "logs" / name / "101", only)
    for other in ("102", "103"):
        shutil.copytree(only, only.with_name(other))
    if not has_properties:
        for path in tmp_path.rglob("meta.properties"):
            path.unlink()
    (one,) = gate(target, tables(tmp_path)).clusters
    assert next(each.verdict for each in gate(target).clusters if each.name.cluster == name) is Verdict.READY
    assert one.verdict is Verdict.UNKNOWN
    assert (one.row or {})["copied_nodes"] == [101]
    assert "(of 3 folders only 1 are of different nodes for sure" in dict(one.unknown_because)["coverage"]
