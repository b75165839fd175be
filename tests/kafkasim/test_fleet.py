"""A generated fleet: what it holds is what happened, in the records and files that real nodes leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.document import read_document
from kafkafeatures.api.values import replace
from kafkasim.fleet.__main__ import main
from kafkasim.fleet.files import write_cluster
from kafkasim.fleet.fleet import write_fleet
from kafkasim.fleet.history import live
from kafkasim.fleet.idle import IdleRun
from kafkasim.fleet.plan import DAY_MS, OWN_STORIES, SMALL, UNTIL_MS, WHOLE, Story, draw
from kafkasim.log import Write, encode
from kraftlog import Batch, Decoded, Replay, Section, decode, decode_control, walk
from kraftlog.image import ZkMigrationState
from kraftlog.reading import Reading
from kraftlog.schema import table
from tests.kafkasim.fleets import (
    SEED,
    histories,
    history_with,
    node_folders,
    plans,
    replayed,
    segments,
    snapshots,
    written,
)
from tests.kraftlog.golden import SEGMENTS, SNAPSHOTS

CLUSTERS = [plan.name for plan in plans()]
A_MOMENT = replace(SMALL, clusters=6, days=2, kept_days=2, copies=1, partitions=3)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def records(data: bytes) -> Iterator[tuple[Batch, Decoded]]:
    for batch in walk(data):
        assert isinstance(batch, Batch), batch
        for record in batch.records():
            is_control = batch.is_control
            found = decode_control(record.key, record.value) if is_control else decode(record.value)
            assert isinstance(found, Decoded), found
            yield batch, found


def test_a_fleet_has_the_same_bytes_for_the_same_seed_only(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("same", 7), ("other", 8)):
        write_fleet(tmp_path / name, A_MOMENT, seed=seed)
    assert tree(tmp_path / "one") == tree(tmp_path / "same")
    assert tree(tmp_path / "one") != tree(tmp_path / "other")


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_byte_of_a_generated_fleet_decodes(cluster: str) -> None:
    found = [path for folder in node_folders(cluster) for path in folder.glob("0*")]
    assert found
    for path in found:
        reading = Reading(path.read_bytes())
        assert len(list(reading)) > 0
        assert reading.account.is_balanced
        assert (reading.account.kept, reading.account.damaged) == ({}, {}), path


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_log_of_the_active_controller_replays_to_the_final_state_of_the_cluster(cluster: str) -> None:
    history = histories()[cluster]
    folder = next(each for each in node_folders(cluster) if each.parent.name == str(history.active))
    image = replayed(folder).image()
    assert image.offset == history.log.end_offset
    assert (image.registrations, image.finalized) == (history.image.registrations, history.image.finalized)
    assert image.zk_migration_state == history.image.zk_migration_state
    assert sorted(image.partitions.rows()) == sorted(history.image.partitions.rows())


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_snapshot_equals_the_log_up_to_its_offset(cluster: str) -> None:
    for folder in node_folders(cluster):
        for name, data in snapshots(folder)[1:]:
            alone = Replay(sections=frozenset(Section))
            alone.load_snapshot(data, end_offset=name.end_offset, epoch=name.epoch)
            by_log = replayed(folder, below=name.end_offset).image()
            assert by_log.offset == name.end_offset
            image = alone.image()
            assert (image.registrations, image.finalized) == (by_log.registrations, by_log.finalized)
            assert sorted(image.partitions.rows()) == sorted(by_log.partitions.rows())


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_node_has_the_segments_after_its_oldest_snapshot_and_no_older_ones(cluster: str) -> None:
    kept_ms = SMALL.kept_days * DAY_MS
    for folder in node_folders(cluster):
        oldest = snapshots(folder)[0][0]
        bases = [int(path.stem) for path in sorted(folder.glob("*.log"))]
        assert bases[0] <= oldest.end_offset < bases[1]
        times = [batch.max_timestamp for batch, _ in records(segments(folder))]
        assert UNTIL_MS - kept_ms <= times[0]
        assert times[-1] <= UNTIL_MS


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_nodes_have_the_same_log_except_for_batches_at_the_end_that_are_not_replicated_to_all_nodes(
    cluster: str,
) -> None:
    logs = [
        {batch.base_offset: batch.crc for batch, _ in records(segments(folder))} for folder in node_folders(cluster)
    ]
    everything = {offset: crc for log in logs for offset, crc in log.items()}
    ends = sorted(max(log) for log in logs)
    assert all(log.items() <= everything.items() for log in logs)
    assert max(everything) + 1 == histories()[cluster].log.end_offset
    assert ends[0] < ends[-1]
    # At most the last two batches are missing on some node.
    assert sum(offset > ends[0] for offset in everything) <= 2


def newest_segment(folder: Path) -> bytes:
    return max(folder.glob("*.log")).read_bytes()


def test_each_special_story_of_a_fleet_appears_once() -> None:
    assert sorted(plan.story for plan in plans() if plan.story in OWN_STORIES) == sorted(OWN_STORIES)


@pytest.mark.parametrize("story", [Story.GHOST_BROKER, Story.NEW_GHOST_BROKER])
def test_a_ghost_broker_of_a_fleet_is_registered_fenced_and_without_replicas(story: Story) -> None:
    history = history_with(story)
    image, ghost = history.image, history.plan.ghost
    assert [broker.id for broker in image.brokers.values() if broker.fenced] == [ghost]
    assert all(ghost not in state.replicas for _, _, state in image.partitions.rows())


def test_a_ghost_controller_of_a_fleet_is_registered_and_no_voter() -> None:
    history = history_with(Story.GHOST_CONTROLLER)
    assert set(history.image.controllers) - set(history.voters) == {history.plan.ghost}


def test_exactly_one_finalized_level_of_a_fleet_differs_from_its_document() -> None:
    different = []
    for path in sorted((written() / "documents").glob("*.yaml")):
        document = yaml.safe_load(path.read_text())
        image = histories()[path.stem].image
        wanted = {each["name"]: each["level"] for each in document["spec"]["features"]["levels"]}
        assert document["spec"]["cluster"]["clusterId"] == histories()[path.stem].cluster_id
        different += [(path.stem, name) for name, level in wanted.items() if image.features.get(name, 0) != level]
    assert different == [(history_with(Story.CHANGED_BY_HAND).plan.name, "share.version")]


def test_the_stuck_migration_of_a_fleet_has_one_broker_in_zookeeper_mode() -> None:
    image = history_with(Story.STUCK_MIGRATION).image
    assert image.zk_migration_state == ZkMigrationState.MIGRATION
    modes = [broker.is_migrating_zk_broker for _, broker in sorted(image.brokers.items())]
    assert modes == [False] * (len(modes) - 1) + [True]


def test_a_node_that_flaps_registers_again_and_again() -> None:
    history = history_with(Story.FLAPPING)
    times = [
        each.at_ms
        for each in history.written
        if each.write.type is table.REGISTER_BROKER and each.write.data["brokerId"] == history.plan.brokers[-1]
    ]
    assert len([at for at in times if at > UNTIL_MS - 2 * DAY_MS]) == 24  # `_KILLS` of `fleet.history`


@pytest.mark.parametrize("story", [Story.FINALIZED, Story.NOT_FINALIZED, Story.OLD, Story.HALFWAY])
def test_a_fleet_has_ordinary_clusters_too(story: Story) -> None:
    assert [plan for plan in draw(WHOLE, SEED) if plan.story is story]


def test_records_have_the_layouts_that_real_nodes_write() -> None:
    real = {
        (found.type.name, found.version): set(found.data)
        for path in (*SEGMENTS, *SNAPSHOTS)
        for _, found in records(path.read_bytes())
    }
    own_layouts = set()
    for cluster in CLUSTERS:
        folder = node_folders(cluster)[0]
        of_log, of_snapshot = segments(folder), snapshots(folder)[0][1]
        for _, found in (*records(of_log), *records(of_snapshot)):
            name = found.type.name, found.version
            own_layouts.add(name)
            if name in real and name[0] != "PARTITION_CHANGE_RECORD":  # which holds what changes
                assert set(found.data) == real[name], name
    assert len(own_layouts & real.keys()) > 10
    assert {name for name, _ in own_layouts} <= {name for name, _ in real}


def test_records_of_snapshots_have_the_order_of_real_snapshots() -> None:
    order = [
        "SNAPSHOT_HEADER", "KRAFT_VERSION", "KRAFT_VOTERS", "FEATURE_LEVEL_RECORD", "ZK_MIGRATION_STATE_RECORD",
        "REGISTER_BROKER_RECORD", "REGISTER_CONTROLLER_RECORD", "TOPIC_RECORD", "CONFIG_RECORD", "PRODUCER_IDS_RECORD",
        "SNAPSHOT_FOOTER",
    ]  # fmt: skip
    of_real = [path.read_bytes() for path in SNAPSHOTS]
    ours = [data for cluster in CLUSTERS for folder in node_folders(cluster) for _, data in snapshots(folder)]
    for data in (*of_real, *ours):
        names = [found.type.name for _, found in records(data)]
        places = [order.index(name) for name in names if name != "PARTITION_RECORD"]
        assert places == sorted(places)
        assert names[-1] == "SNAPSHOT_FOOTER"


@given(
    offset=st.integers(0, 2**40),
    count=st.integers(1, 50),
    epoch=st.integers(0, 2**31 - 1),
    first=st.integers(0, 2**62),
    every=st.integers(1, 10**9),
)
def test_a_run_of_no_op_batches_has_the_bytes_of_batches_encoded_one_by_one(
    offset: int, count: int, epoch: int, first: int, every: int
) -> None:
    run = IdleRun(offset, count, epoch, first, every)
    one_by_one = [
        encode([Write(table.NO_OP, {})], base_offset=offset + each, epoch=epoch, timestamp_ms=first + each * every)
        for each in range(count)
    ]
    assert run.data == b"".join(one_by_one)
    if count > 1:
        first_part, rest = run.split(count // 2)
        assert first_part.data + rest.data == run.data
        assert (first_part.end_offset, rest.end_offset, rest.last_ms) == (rest.base_offset, run.end_offset, run.last_ms)


def test_a_fleet_without_thinning_has_a_no_op_every_half_second(tmp_path: Path) -> None:
    scale = replace(A_MOMENT, clusters=7, full=1)  # full: clusters with every NoOp
    (plan,) = (each for each in draw(scale, SEED) if each.idle_ms == 500)
    write_cluster(tmp_path, live(plan, scale, until_ms=UNTIL_MS), scale)
    (folder,) = tmp_path.glob("*/__cluster_metadata-0")
    last = newest_segment(folder)
    beginning = last[: 72 * 5000]  # a batch with one NoOp has 72 bytes
    times = [batch.max_timestamp for batch, found in records(beginning) if found.type is table.NO_OP]
    assert len(times) > 1000
    assert max(later - earlier for earlier, later in pairwise(times)) == 500


def test_every_node_of_a_fleet_has_files_with_its_id_cluster_and_voters() -> None:
    for cluster in CLUSTERS:
        for folder in node_folders(cluster):
            lines = (folder.parent / "meta.properties").read_text().splitlines()
            properties = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
            assert properties["cluster.id"] == histories()[cluster].cluster_id
            assert properties["node.id"] == folder.parent.name
            voters = json.loads((folder / "quorum-state").read_text()).get("currentVoters")
            assert voters is None or [each["voterId"] for each in voters] == list(histories()[cluster].voters)


def test_the_description_of_a_fleet_says_that_it_is_generated_and_thinned() -> None:
    about = json.loads((written() / "fleet.json").read_text())
    assert "no Kafka wrote these logs" in about["note"]
    assert {each["name"]: each["idleMs"] for each in about["clusters"]} == dict.fromkeys(CLUSTERS, SMALL.idle_ms)


def test_the_documents_of_a_fleet_are_valid_resources() -> None:
    for path in (written() / "documents").glob("*.yaml"):
        assert read_document(yaml.safe_load(path.read_text())).metadata.name == path.stem


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert main([str(tmp_path), "--small"]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [(("--clusters", "3"), "at least 6 clusters"), (("--kept-days", "99"), "not more than there are")],
)
def test_sizes_that_do_not_fit_are_refused(
    flags: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "new"), "--small", *flags]) == 1
    assert message in capsys.readouterr().err
