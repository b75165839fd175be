"""A raise of eligible.leader.replicas.version is ready only where the log has the value of min.insync.replicas that
applies to all brokers before and after it.
"""

from __future__ import annotations

import pytest

from featurelog.tables.scans import scan
from kraftlog.records import frame
from kraftlog.schema import table
from tests.featurelog.tables.build import (
    Item,
    changed,
    copies_of,
    copy,
    healthy,
    history,
    leader,
    level,
    log,
    min_insync,
    readiness,
    registered_broker,
    segment_name,
    snapshot_at,
    unregistered_broker,
    verdicts,
)
from tests.featurelog.tables.test_inputs import golden
from tests.kraftlog.build import no_op

ELR = "eligible.leader.replicas.version=1"
UNSET = healthy()[:-1]
"""The log of a cluster where no request has set a value; the last record of `healthy` sets 2 for all brokers."""


def of_topic(value: str, topic: str = "orders") -> bytes:
    data = {"resourceType": 2, "resourceName": topic, "name": "min.insync.replicas", "value": value}
    return frame(table.CONFIG, data)


def another_config() -> bytes:
    data = {"resourceType": 4, "resourceName": "", "name": "log.retention.ms", "value": "1"}
    return frame(table.CONFIG, data)


def judged(*items: Item) -> tuple[str, set[str]]:
    """The verdict for `ELR`, and the kinds of the blockers and of the unknown facts."""
    row = readiness(copies_of(log(items)), ELR)
    return row["verdict"], {one["kind"] for one in row["other_blockers"] + row["unknown_because"]}


@pytest.mark.parametrize("target", [ELR, "4.1", "4.2"])
def test_readiness_is_unknown_where_only_files_of_nodes_set_min_insync_replicas(target: str) -> None:
    row = readiness(copies_of(log(UNSET)), target)
    assert row["verdict"] == "unknown"
    (why,) = row["unknown_because"]
    assert why["kind"] == "min_insync_replicas"
    assert "what the files of nodes say is in no log: ask the nodes (kafkafeatures plan)" in why["text"]
    assert why["text"].endswith(
        "kafka-configs.sh --bootstrap-server HOST:PORT --entity-type brokers --entity-default --alter --add-config "
        "min.insync.replicas=N"
    )


def test_targets_without_eligible_leader_replicas_need_no_min_insync_replicas() -> None:
    found = verdicts(copies_of(log(UNSET)))
    assert (found["metadata.version=28"], found["group.version=1"], found["4.0"]) == ("ready", "ready", "ready")


def test_a_cluster_that_has_eligible_leader_replicas_needs_no_min_insync_replicas() -> None:
    assert verdicts(copies_of(log([*UNSET, level("eligible.leader.replicas.version", 1)])))["4.1"] == "ready"


@pytest.mark.parametrize(
    "more",
    [
        (),
        (min_insync("2", "1"),),
        (min_insync("3", "1"), min_insync(None, "1")),
        (min_insync("3", "7"),),
        (min_insync("3"), min_insync("2")),
        (of_topic("3"), of_topic("3", "1"), another_config()),
        (registered_broker(7, 107), min_insync("3", "7"), unregistered_broker(7, 107)),
    ],
    ids=[
        *("for all", "the same for one", "no longer for one", "for a broker that is not registered"),
        *("changed for all", "another for a topic", "for one that was unregistered"),
    ],
)
def test_a_default_of_min_insync_replicas_for_all_brokers_makes_the_cluster_ready_whatever_else_is_set(
    more: tuple[Item, ...],
) -> None:
    """`healthy` sets 2 for all brokers; with `more`, each broker still has the same before and after the raise."""
    assert judged(*healthy(), *more, no_op()) == ("ready", set())


@pytest.mark.parametrize(
    "more",
    [
        (of_topic("2"),),
        (another_config(),),
        (min_insync("2", "1"), min_insync("2", "2")),
        (min_insync("2"), min_insync(None)),
    ],
    ids=["for a topic", "another config", "for each broker by itself", "no longer"],
)
def test_a_value_of_some_brokers_does_not_make_the_cluster_ready(more: tuple[Item, ...]) -> None:
    assert judged(*UNSET, *more) == ("unknown", {"min_insync_replicas"})


def test_a_value_that_a_broker_would_lose_blocks_the_raise() -> None:
    row = readiness(copies_of(log([*healthy(), min_insync("3", "2"), min_insync("2", "1")])), ELR)
    assert row["verdict"] == "blocked"
    assert row["other_blockers"] == [
        {
            "kind": "Setting",
            "text": "raising eligible.leader.replicas.version makes min.insync.replicas 2 for all brokers, and removes "
            "what requests set for single ones; broker 2 uses 3 today",
        }
    ]


def test_a_value_that_a_fenced_broker_would_lose_blocks_the_raise() -> None:
    fenced = changed(2, 102, fenced=1)
    assert judged(*healthy(), min_insync("3", "2"), fenced) == ("blocked", {"Setting"})


@pytest.mark.parametrize(
    ("before", "last"),
    [
        (UNSET, min_insync("2")),
        ([*healthy(), min_insync("3", "2")], min_insync(None, "2")),
        ([*healthy(), min_insync("3", "2")], min_insync("2", "2")),
        ([*healthy(), min_insync("3", "2")], min_insync("3")),
    ],
    ids=["for all", "no longer for one", "changed for one", "changed for all"],
)
def test_an_uncommitted_value_does_not_make_the_cluster_ready(before: list[Item], last: bytes) -> None:
    whole = log([*before, last])
    row = readiness([copy("3001", {segment_name(0): whole}), *copies_of(log(before), (3002, 3003))], ELR)
    assert row["verdict"] != "ready"
    assert "not_committed" in {one["kind"] for one in row["unknown_because"]}


def test_the_value_is_read_from_a_snapshot_where_the_log_before_it_was_deleted() -> None:
    items = [*healthy(), no_op()]
    end = len(items)
    files = {
        **snapshot_at(end, log(items)),
        segment_name(end): log([leader(3001)], start=end),
    }
    assert readiness(copies_of(files), ELR)["verdict"] == "ready"


def test_a_snapshot_without_the_value_that_the_log_set_makes_the_verdict_unknown() -> None:
    items = [*UNSET, no_op()]
    files = {segment_name(0): log(items), **snapshot_at(len(items), log(items))}
    row = readiness(copies_of(files), ELR)
    assert row["verdict"] == "unknown"
    (why,) = [one["text"] for one in row["unknown_because"] if one["kind"] == "snapshot_contradicts_log"]
    assert why.endswith("min.insync.replicas of all brokers")


def test_a_scan_for_min_isr_decodes_configs_of_brokers_only() -> None:
    (source,) = copy("3001", {segment_name(0): log([of_topic("2")] * 50 + [another_config(), min_insync()])}).files
    assert scan(source).small["offset"].to_pylist() == [51]  # the last record


def test_min_insync_replicas_is_read_from_real_logs() -> None:
    """Kafka 4.2.0 wrote the value as it raised the feature; another log sets it for a topic."""
    found = history(*golden("4.2.0-feature-changes")).min_insync.current
    assert {name: (version.value, version.begin.offset) for name, version in found.items()} == {"": ("1", 86)}
    assert not history(*golden("3.9.1-after-migration")).min_insync.current
