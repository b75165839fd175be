"""Readiness of a cluster for a release, or of a feature for a level, by the copies of its log.

`healthy` (`build.py`) has nine records, at offsets 0 to 8, of a cluster at metadata.version 27. Its nodes support
`LATEST`, which is 7 to 33; `OF_3_9` is 7 to 21. The time of a record is `NOW` plus its offset in ms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelog.gate import ClusterName, Target, judge
from featurelog.tables import NodeCopy
from kraftlog.schema import table
from tests.featurelog.tables.build import (
    LATEST,
    OF_3_9,
    VOTERS,
    changed,
    copies_of,
    copy,
    healthy,
    history,
    kraft_version,
    leader,
    level,
    log,
    migration,
    readiness,
    registered_broker,
    registered_controller,
    rows,
    segment_name,
    snapshot_at,
    unknown_kinds,
    unregistered_broker,
    verdicts,
)
from tests.kraftlog.build import NOW, begin, no_op


def test_a_cluster_whose_nodes_all_support_a_release_is_ready_for_it() -> None:
    row = readiness(copies_of(log(healthy())), "4.2")
    assert row["verdict"] == "ready"
    assert {"feature": "metadata.version", "from_level": 27, "to_level": 29} in row["changes"]
    assert (row["blocking_nodes"], row["other_blockers"], row["unknown_because"]) == ([], [], [])


def test_a_row_of_readiness_has_its_offsets_voters_and_copies() -> None:
    row = readiness(copies_of(log(healthy())), "4.2")
    assert (row["known_from_offset"], row["committed_below"], row["watermark_offset"]) == (0, 9, 9)
    assert (row["voters"], row["copies"]) == ([3001, 3002, 3003], ["3001", "3002", "3003"])
    assert row["watermark_ts"] == row["valid_until"]


def test_a_broker_that_does_not_support_the_level_blocks_with_its_last_registration_as_evidence() -> None:
    data = log([*healthy(), registered_broker(7, 500, supports=OF_3_9), changed(7, 500, fenced=-1), no_op()])
    row = readiness(copies_of(data), "metadata.version=28")
    (node,) = row["blocking_nodes"]
    assert row["verdict"] == "blocked"
    assert (node["role"], node["node_id"], node["reason"], node["feature"]) == (
        "broker", 7, "NodeRange", "metadata.version",
    )  # fmt: skip
    assert (node["needed"], node["supported_min"], node["supported_max"]) == (28, 7, 21)
    assert (node["node"], node["file"], node["offset"]) == ("3001", segment_name(0), 9)
    assert int(node["ts"].timestamp() * 1000) == NOW + 9


def test_a_feature_that_a_node_does_not_list_is_supported_at_level_0_only() -> None:
    data = log([*healthy(), registered_broker(7, 500, supports=OF_3_9)])
    found = verdicts(copies_of(data))
    assert (found["group.version=0"], found["group.version=1"]) == ("ready", "blocked")


def test_a_registered_controller_that_is_no_voter_blocks_as_a_ghost() -> None:
    data = log([*healthy(), registered_controller(5, supports=OF_3_9)])
    (node,) = readiness(copies_of(data), "metadata.version=28")["blocking_nodes"]
    assert (node["role"], node["node_id"], node["reason"], node["ghost_suspect"]) == (
        "controller", 5, "NodeRange", True,
    )  # fmt: skip


def test_a_voter_that_never_registered_blocks_the_upgrade() -> None:
    items = [one for one in healthy() if one != registered_controller(3003)]
    row = readiness(copies_of(log(items)), "metadata.version=28")
    (node,) = row["blocking_nodes"]
    assert (row["verdict"], node["node_id"], node["reason"]) == ("blocked", 3003, "ControllerNotRegistered")


def test_a_cluster_is_ready_after_the_blocking_node_is_unregistered() -> None:
    blocked = [*healthy(), registered_broker(7, 500, supports=OF_3_9)]
    assert verdicts(copies_of(log(blocked)))["4.2"] == "blocked"
    assert verdicts(copies_of(log([*blocked, unregistered_broker(7, 500)])))["4.2"] == "ready"


def test_the_verdict_is_unknown_where_only_an_uncommitted_record_makes_the_cluster_ready() -> None:
    """The unregistration is in one of three copies: a leader that does not have it would bring the node back."""
    whole = log([*healthy(), registered_broker(7, 500, supports=OF_3_9), unregistered_broker(7, 500)])
    before = log([*healthy(), registered_broker(7, 500, supports=OF_3_9)])
    copies = [copy("3001", {segment_name(0): whole}), *copies_of(before, (3002, 3003))]
    row = readiness(copies, "4.2")
    assert (row["verdict"], unknown_kinds(row)) == ("unknown", {"not_committed"})


def test_the_records_of_a_snapshot_are_committed() -> None:
    """Two of three copies are enough then, although only one has the unregistration of the blocking broker 7."""
    blocked = [*healthy(), registered_broker(7, 500, supports=OF_3_9)]
    records = [*blocked, unregistered_broker(7, 500)]
    with_snapshot = {segment_name(0): log(records), **snapshot_at(len(records), log(records))}
    row = readiness([copy("3001", with_snapshot)], "4.2")
    assert (row["committed_below"], unknown_kinds(row)) == (len(records), {"coverage"})  # a single copy is too few
    copies = [copy("3001", with_snapshot), copy("3002", {segment_name(0): log(blocked)})]
    assert verdicts(copies)["4.2"] == "ready"


def with_snapshots(data: bytes, nodes: Iterable[int]) -> list[NodeCopy]:
    """Copies of the log with a snapshot at its end, so that every record in them is committed."""
    end = history(*copies_of(data)).end
    files = {segment_name(0): data, **snapshot_at(end, data)}
    return [copy(str(node), files) for node in nodes]


@pytest.mark.parametrize("nodes", [(3001,), (1, 3001)], ids=["one voter", "one voter and a broker"])
def test_too_few_copies_make_a_ready_row_unknown_and_leave_a_blocked_one_blocked(nodes: tuple[int, ...]) -> None:
    """A blocker needs no majority: the gate judges in the same way."""
    row = readiness(with_snapshots(log(healthy()), nodes), "4.2")
    ((_, text),) = ((each["kind"], each["text"]) for each in row["unknown_because"])
    assert (row["verdict"], text.startswith("copies of 1 of 3 voters were read")) == ("unknown", True)
    bad = log([*healthy(), registered_broker(7, 500, supports=OF_3_9)])
    blocked = readiness(with_snapshots(bad, nodes), "4.2")
    assert (blocked["verdict"], blocked["unknown_because"]) == ("blocked", [])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from((1, 2, *VOTERS)), min_size=1, max_size=5, unique=True))
def test_a_row_is_ready_only_where_the_gate_is_ready(nodes: list[int]) -> None:
    copies = with_snapshots(log(healthy()), nodes)
    at_ms = history(*copies).end_ms or 0
    for row in rows(copies, "upgrade_readiness"):
        target, name = Target(row["target_kind"], row["target"]), ClusterName(row["cluster"], row["cluster_id"])
        assert judge(target, [row], [name], at_ms=at_ms).verdict == row["verdict"]


def test_a_record_that_only_the_copy_of_an_old_leader_has_is_ignored() -> None:
    """The old leader's copy unregisters the node under epoch 1; the cluster continued under epoch 2 without that."""
    start = healthy()
    items = [*start, registered_broker(7, 500, supports=OF_3_9)]
    old = log([*items, unregistered_broker(7, 500), no_op(), no_op()])
    new = log(items) + log([leader(3002), no_op()], start=len(items), epoch=2)
    copies = [copy("3001", {segment_name(0): old}), *copies_of(new, (3002, 3003))]
    row = readiness(copies, "4.2")
    assert (row["verdict"], row["watermark_offset"]) == ("blocked", len(items) + 2)
    (note,) = [one for one in rows(copies, "data_quality") if one["kind"] == "overwritten"]
    assert (note["node"], note["offset"], note["end_offset"]) == ("3001", len(items), len(items) + 3)


def test_a_gap_makes_the_verdict_unknown_until_the_next_snapshot() -> None:
    items = [*healthy(), no_op(), no_op(), no_op(), no_op()]
    data = log(items)
    first, rest = {segment_name(0): log(items[:9])}, {segment_name(11): log(items[11:], start=11)}
    row = readiness([copy(node, {**first, **rest}) for node in ("3001", "3002", "3003")], "4.2")
    assert (row["verdict"], unknown_kinds(row) >= {"gap"}, row["known_from_offset"]) == ("unknown", True, None)
    snapshot = snapshot_at(12, data)
    behind = {segment_name(12): log([leader(3002)], start=12, epoch=2)}
    row = readiness([copy(node, {**first, **snapshot, **behind}) for node in ("3001", "3002", "3003")], "4.2")
    assert (row["verdict"], row["known_from_offset"]) == ("ready", 12)


def test_a_log_without_its_begin_and_without_a_snapshot_makes_the_verdict_unknown() -> None:
    items = [*healthy(), no_op(), leader(3002)]
    row = readiness([copy("3001", {segment_name(3): log(items[3:], start=3)})], "4.2")
    assert (row["verdict"], unknown_kinds(row) >= {"no_base"}) == ("unknown", True)


@pytest.mark.parametrize("key", [0, 12, 27, 99])
def test_an_unknown_record_that_may_be_about_nodes_or_levels_makes_the_verdict_unknown(key: int) -> None:
    unknown = bytes([1, key, 55, 1, 2, 3])
    row = readiness(copies_of(log([*healthy(), unknown])), "4.2")
    assert (row["verdict"], unknown_kinds(row)) == ("unknown", {"not_decoded"})


def test_an_unknown_record_about_topics_leaves_the_verdict_ready() -> None:
    row = readiness(copies_of(log([*healthy(), bytes([1, table.TOPIC.key, 55, 1, 2, 3])])), "4.2")
    assert row["verdict"] == "ready"


def test_damage_without_an_intact_copy_makes_the_verdict_unknown() -> None:
    data = bytearray(log([*healthy(), no_op(), no_op()]))
    data[len(log(healthy())) - 3] ^= 0xFF
    damaged, whole = bytes(data), log([*healthy(), no_op(), no_op()])
    row = readiness(copies_of(damaged), "4.2")
    assert (row["verdict"], unknown_kinds(row) >= {"gap"}) == ("unknown", True)
    copies = [*copies_of(damaged, (3001,)), *copies_of(whole, (3002, 3003))]
    assert verdicts(copies)["4.2"] == "ready"


def test_data_older_than_its_validity_makes_the_verdict_unknown() -> None:
    copies = copies_of(log(healthy()))
    end_ms = NOW + 8
    assert readiness(copies, "4.2", at_ms=end_ms + 1000, valid_for_ms=1000)["verdict"] == "ready"
    row = readiness(copies, "4.2", at_ms=end_ms + 1001, valid_for_ms=1000)
    assert (row["verdict"], unknown_kinds(row)) == ("unknown", {"too_old"})


def test_the_voters_are_unknown_without_a_leader_change_and_without_a_record_of_voters() -> None:
    items = [*healthy(), no_op()]
    files = {**snapshot_at(9, log(items)), segment_name(9): log([no_op()], start=9)}
    row = readiness([copy("3001", files)], "4.2")
    assert (row["verdict"], unknown_kinds(row), row["voters"]) == ("unknown", {"voters"}, None)


@pytest.mark.parametrize(
    ("voters_by_node", "voters"),
    [
        ({3001: VOTERS}, [*VOTERS]),
        ({3001: VOTERS, 3002: VOTERS}, [*VOTERS]),
        ({3001: VOTERS, 3002: (3001,)}, None),
        ({}, None),
    ],
    ids=["one node", "two nodes agree", "two nodes disagree", "no node"],
)
def test_without_a_record_the_voters_of_a_static_quorum_are_those_on_which_its_nodes_agree(
    voters_by_node: dict[int, tuple[int, ...]], voters: list[int] | None
) -> None:
    items = [*healthy(), no_op()]
    files = {**snapshot_at(9, log(items)), segment_name(9): log([no_op()], start=9)}
    copies = [replace(copy(str(node), files), voters=voters_by_node.get(node)) for node in VOTERS]
    row = readiness(copies, "4.2")
    assert (row["verdict"], row["voters"]) == ("unknown" if voters is None else "ready", voters)


def test_the_voters_of_a_leader_change_take_precedence_over_quorum_state() -> None:
    copies = [replace(one, voters=(3001,)) for one in copies_of(log(healthy()))]
    assert readiness(copies, "4.2")["voters"] == [*VOTERS]


def test_supported_ranges_of_controllers_are_unknown_below_the_level_at_which_controllers_register() -> None:
    items = [leader(3001), level("metadata.version", 14), registered_broker(1, 101)]
    row = readiness(copies_of(log(items)), "3.9")
    assert (row["verdict"], unknown_kinds(row)) == ("unknown", {"controllers"})


def test_a_broker_blocks_a_release_whatever_the_controllers_support() -> None:
    items = [leader(3001), level("metadata.version", 14), registered_broker(1, 101, supports=OF_3_9)]
    assert verdicts(copies_of(log(items)))["4.0"] == "blocked"


def test_an_open_transaction_makes_the_verdict_unknown() -> None:
    row = readiness(copies_of(log([*healthy(), begin(), level("metadata.version", 28)])), "4.2")
    assert (row["verdict"], unknown_kinds(row)) == ("unknown", {"open_transaction"})


def test_a_migration_that_is_under_way_blocks_every_change() -> None:
    row = readiness(copies_of(log([*healthy(version=21), migration(0), migration(2)])), "4.0")
    assert (row["verdict"], [one["kind"] for one in row["other_blockers"]]) == ("blocked", ["Migration"])


def test_a_migration_finalized_with_a_broker_in_zookeeper_mode_blocks_the_upgrade() -> None:
    left = registered_broker(2, 105, isMigratingZkBroker=True)
    items = [*healthy(version=21), migration(0), migration(2), migration(1), left, migration(3)]
    row = readiness(copies_of(log(items)), "4.0")
    text = "the migration was finalized while brokers were in ZooKeeper mode: 2"
    assert (row["verdict"], row["other_blockers"]) == ("blocked", [{"kind": "Migration", "text": text}])
    after = readiness(copies_of(log([*items, registered_broker(2, 106), no_op()])), "4.0")
    assert (after["verdict"], after["other_blockers"]) == ("ready", [])


def test_an_unknown_migration_state_makes_the_verdict_unknown() -> None:
    unknown_state = 9  # no release of Kafka defines it
    row = readiness(copies_of(log([*healthy(), migration(unknown_state)])))
    # A contradiction too: Kafka itself refuses a record with such a state.
    assert (row["verdict"], unknown_kinds(row)) == ("unknown", {"migration", "contradiction_in_log"})


def test_a_level_with_an_unmet_dependency_is_blocked_and_names_the_dependency() -> None:
    data = log(healthy(version=22))
    (blocker,) = readiness(copies_of(data), "eligible.leader.replicas.version=1")["other_blockers"]
    assert blocker == {
        "kind": "Dependency",
        "text": "eligible.leader.replicas.version 1 requires metadata.version 23 (4.0-IV1), which would be 22",
    }
    assert verdicts(copies_of(data))["4.1"] == "ready"


def test_a_downgrade_names_the_features_whose_metadata_would_be_lost() -> None:
    row = readiness(copies_of(log([*healthy(version=30), level("streams.version", 1)])), "4.1")
    found = {one["feature"]: (one["from_level"], one["to_level"], one["undo"]) for one in row["downgrade_losses"]}
    assert row["verdict"] == "blocked"
    assert found == {"metadata.version": (30, 27, "Impossible"), "streams.version": (1, 0, "Lossy")}


def test_a_lossless_downgrade_is_ready() -> None:
    row = readiness(copies_of(log(healthy(version=29))), "metadata.version=25")
    assert (row["verdict"], row["downgrade_losses"]) == ("ready", [])


def test_kraft_version_needs_controllers_of_4_1() -> None:
    old = {
        "name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": 25,
    }  # fmt: skip
    supports = (old, *(one for one in LATEST if one["name"] != "metadata.version"))
    items = [*healthy(version=25), registered_controller(3003, 2, supports=supports)]
    (node,) = readiness(copies_of(log(items)), "kraft.version=1")["blocking_nodes"]
    assert (node["node_id"], node["reason"], node["needed"]) == (3003, "ControllerTooOld", 26)
    assert verdicts(copies_of(log([*healthy(), kraft_version(1)])))["kraft.version=0"] == "blocked"


def test_an_empty_cluster_is_never_ready() -> None:
    assert set(verdicts([copy("3001", {})], at_ms=NOW).values()) == {"unknown"}


def test_copies_in_folders_that_name_no_voter_do_not_count_towards_the_majority() -> None:
    data = log([*healthy(), registered_broker(7, 500, supports=OF_3_9), unregistered_broker(7, 500)])
    renamed = [copy(node, {segment_name(0): data}) for node in ("a", "b", "c")]
    assert verdicts(renamed)["4.2"] == "unknown"


def test_a_record_with_an_unknown_frame_makes_the_verdict_unknown() -> None:
    assert verdicts(copies_of(log([*healthy(), b"\x02\x0c\x00"])))["4.2"] == "unknown"


def test_a_damaged_leader_epoch_does_not_invalidate_other_copies() -> None:
    """The checksum of a batch does not cover its epoch, and of two batches the one with the higher epoch is used."""
    whole = log([*healthy(), no_op(), no_op()])
    flipped = bytearray(whole)
    flipped[len(log(healthy())) + 12] ^= 0x40  # the highest byte of the epoch of the batch at offset 9
    damaged = bytes(flipped)
    assert verdicts(copies_of(damaged))["4.2"] == "unknown"
    assert verdicts([*copies_of(damaged, (3001,)), *copies_of(whole, (3002, 3003))])["4.2"] == "ready"


def test_features_of_a_hostile_log_are_bounded() -> None:
    many = tuple({"name": f"f{n:05}", "minSupportedVersion": 0, "maxSupportedVersion": 32767} for n in range(150))
    found = rows(
        copies_of(log([*healthy(), registered_broker(7, 500, supports=(*LATEST, *many))])), "upgrade_readiness"
    )
    others = [row["target"] for row in found if row["target"].startswith("f0")]
    # 100 features, each with the levels 0 to 100; they are sorted as texts, so 99 is the last level
    assert (len(others), others[-1]) == (100 * 101, "f00099=99")
