"""The gate: it judges rows of `upgrade_readiness`, and is ready only if each is ready, current and of enough copies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featurelog.gate import CLOCKS_DIFFER_MS, ClusterName, Gate, Target, Verdict, judge

TARGET = Target("release", "4.2")
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
ORDERS, PAYMENTS = ClusterName("orders", "id-of-orders"), ClusterName("payments", "id-of-payments")
BLOCKER = {
    "role": "broker", "node_id": 4, "reason": "NodeRange", "feature": "metadata.version", "needed": 29,
    "supported_min": 7, "supported_max": 25, "ghost_suspect": True,
    "node": "101", "file": "00000000000000000000.log", "offset": 17, "ts": NOW - timedelta(days=3),
}  # fmt: skip


def row(name: ClusterName = ORDERS, verdict: str = "ready", **changes: Any) -> dict[str, Any]:
    """A row of `upgrade_readiness`."""
    made: dict[str, Any] = {
        "cluster": name.cluster, "cluster_id": name.cluster_id, "target_kind": "release", "target": "4.2",
        "verdict": verdict, "changes": [{"feature": "metadata.version", "from_level": 27, "to_level": 29}],
        "blocking_nodes": [BLOCKER] if verdict == "blocked" else [], "downgrade_losses": [], "other_blockers": [],
        "unknown_because": [{"kind": "gap", "text": "offsets 1 to 2 are missing"}] if verdict == "unknown" else [],
        "known_from_offset": 0, "committed_below": 90, "voters": [101, 102, 103], "copies": ["101", "102", "103"],
        "copied_nodes": [101, 102, 103],
        "watermark_offset": 100, "watermark_ts": NOW - timedelta(hours=1), "evaluated_at": NOW,
        "valid_until": NOW + timedelta(hours=23),
    }  # fmt: skip
    assert made.keys() >= changes.keys()
    return made | changes


def gate_of(*rows: Mapping[str, Any], clusters: tuple[ClusterName, ...] = (ORDERS,), at_ms: int = NOW_MS) -> Gate:
    return judge(TARGET, rows, clusters, at_ms=at_ms)


def unknown_kinds(gate: Gate) -> list[str]:
    """The kinds of missing evidence of the only cluster."""
    (one,) = gate.clusters
    return [kind for kind, _ in one.unknown_because]


@pytest.mark.parametrize("verdict", Verdict)
def test_a_cluster_has_the_verdict_of_its_row(verdict: Verdict) -> None:
    assert gate_of(row(verdict=verdict.value)).verdict is verdict


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (("ready", "ready"), Verdict.READY),
        (("ready", "blocked"), Verdict.BLOCKED),
        (("ready", "unknown"), Verdict.UNKNOWN),
        (("unknown", "blocked"), Verdict.BLOCKED),
    ],
)
def test_a_fleet_is_ready_where_every_cluster_is_ready_and_blocked_where_any_is_blocked(
    verdicts: tuple[str, str], expected: Verdict
) -> None:
    rows = (row(ORDERS, verdicts[0]), row(PAYMENTS, verdicts[1]))
    assert gate_of(*rows, clusters=(ORDERS, PAYMENTS)).verdict is expected


def client_row(verdict: str = "ready", **changes: Any) -> dict[str, Any]:
    """A row of `client_readiness`."""
    return {
        "cluster": ORDERS.cluster, "cluster_id": ORDERS.cluster_id, "target": TARGET.name, "verdict": verdict,
        "blocking_versions": ["Produce v2"] if verdict == "blocked" else [],
        "unknown_because": [{"kind": "Restart", "text": "broker 4: no evidence"}] if verdict == "unknown" else [],
        "window_to": NOW - timedelta(hours=1), "valid_until": NOW + timedelta(hours=23), **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("by_log", "by_clients", "expected"),
    [
        ("ready", client_row(), Verdict.READY),
        ("ready", client_row("unknown"), Verdict.UNKNOWN),
        ("ready", client_row("blocked"), Verdict.BLOCKED),
        ("unknown", client_row("blocked"), Verdict.BLOCKED),
        ("unknown", client_row(), Verdict.UNKNOWN),
        ("blocked", client_row(), Verdict.BLOCKED),
        ("ready", client_row(target="4.3"), Verdict.UNKNOWN),
        ("ready", client_row(cluster="another"), Verdict.UNKNOWN),
        ("ready", client_row("blocked", valid_until=NOW - timedelta(seconds=1)), Verdict.UNKNOWN),
        ("ready", client_row(blocking_versions=["Produce v2"]), Verdict.UNKNOWN),
    ],
)
def test_where_clients_are_judged_the_verdict_is_the_worse_one_of_log_and_clients(
    by_log: str, by_clients: dict[str, Any], expected: Verdict
) -> None:
    gate = judge(TARGET, [row(verdict=by_log)], [ORDERS], at_ms=NOW_MS, client_rows=[by_clients])
    assert gate.verdict is expected
    (document,) = gate.as_json()["clusters"]
    assert document["clients"] in set(Verdict)
    assert expected is Verdict.READY or document["unknownBecause"] or any(document["blockers"].values())


def test_removed_versions_that_clients_use_are_blockers_in_the_document() -> None:
    gate = judge(TARGET, [row()], [ORDERS], at_ms=NOW_MS, client_rows=[client_row("blocked")])
    (document,) = gate.as_json()["clusters"]
    assert document["blockers"]["others"] == [
        {"kind": "Clients", "text": "clients use Produce v2, which this release lacks"}
    ]


def test_a_fleet_without_clusters_is_unknown() -> None:
    assert gate_of(clusters=()).verdict is Verdict.UNKNOWN


def test_a_cluster_without_a_row_makes_the_fleet_unknown() -> None:
    gate = gate_of(row(), clusters=(ORDERS, PAYMENTS))
    assert [one.verdict for one in gate.clusters] == [Verdict.READY, Verdict.UNKNOWN]
    assert gate.verdict is Verdict.UNKNOWN


def test_a_row_for_another_target_is_ignored() -> None:
    assert unknown_kinds(gate_of(row(target="4.1"))) == ["no_row"]
    assert unknown_kinds(gate_of(row(target_kind="feature"))) == ["no_row"]


UNKNOWN_ROWS = {
    "the data is too old": (row(valid_until=NOW - timedelta(seconds=1)), ["too_old"]),
    "the data is too old, and was blocked": (row(verdict="blocked", valid_until=NOW - timedelta(1)), ["too_old"]),
    "no record has a time": (row(watermark_ts=None, valid_until=None), ["too_old"]),
    "the last record is of tomorrow": (
        row(watermark_ts=NOW + timedelta(days=1), valid_until=NOW + timedelta(days=2)),
        ["in_the_future"],
    ),
    "one of three voters was read": (row(copies=["101"], copied_nodes=[101]), ["coverage"]),
    "two of four voters were read": (
        row(copies=["101", "102"], copied_nodes=[101, 102], voters=[101, 102, 103, 104]),
        ["coverage"],
    ),
    "no folder has a node id": (row(copies=["a", "b", "c"], copied_nodes=[]), ["coverage"]),
    "one voter was read three times": (row(copied_nodes=[101]), ["coverage"]),  # three folders with copies, one node
    "brokers were read, and no voter": (row(copied_nodes=[1, 2, 3]), ["coverage"]),
    "the only voter was read, and no other node": (row(copied_nodes=[101], voters=[101]), ["coverage"]),
    "the tables have no node ids of the copies": (row(copied_nodes=None), ["coverage"]),
    "the voters are not known": (row(voters=None), ["voters"]),
    "the log has a gap": (row(known_from_offset=None), ["coverage"]),
    "a row is ready and has a blocker": (row(blocking_nodes=[BLOCKER]), ["contradiction"]),
    "a verdict that does not exist": (row() | {"verdict": "fine"}, ["verdict"]),
    "a row is ready and lacks evidence": (row(unknown_because=[{"kind": "gap", "text": "2"}]), ["gap"]),
}


@pytest.mark.parametrize("case", UNKNOWN_ROWS)
def test_a_gate_is_unknown_for_each_reason_of_missing_evidence(case: str) -> None:
    found, kinds = UNKNOWN_ROWS[case]
    gate = gate_of(found)
    assert (gate.verdict, unknown_kinds(gate)) == (Verdict.UNKNOWN, kinds)


@pytest.mark.parametrize(
    "enough",
    [
        pytest.param(row(copied_nodes=[101, 102]), id="two of three voters"),
        pytest.param(row(copied_nodes=[101, 102, 103], voters=[101, 102, 103, 104]), id="three of four voters"),
        pytest.param(row(copied_nodes=[101, 1], voters=[101]), id="the only voter, and a broker"),
        pytest.param(row(watermark_ts=NOW + timedelta(milliseconds=CLOCKS_DIFFER_MS)), id="a clock slightly ahead"),
        pytest.param(row(valid_until=NOW), id="valid until now"),
    ],
)
def test_copies_of_a_majority_and_of_two_nodes_are_enough_and_clocks_may_differ_a_little(
    enough: dict[str, Any],
) -> None:
    assert gate_of(enough).verdict is Verdict.READY


def test_a_node_that_was_copied_twice_is_reported_with_a_remedy() -> None:
    (one,) = gate_of(row(copied_nodes=[101])).clusters
    ((_, text),) = one.unknown_because
    assert text.startswith("copies of 1 of 3 voters were read, not of a majority (of 3 folders only 1 are of ")
    assert "copy the whole log folder of each node, and meta.properties with it" in text


def test_two_clusters_in_one_folder_and_one_cluster_in_two_folders_are_unknown() -> None:
    other, elsewhere = ClusterName("orders", "another-id"), ClusterName("copy", "id-of-orders")
    for second in (other, elsewhere):
        gate = gate_of(row(), row(second), clusters=(ORDERS, second))
        assert [one.verdict for one in gate.clusters] == [Verdict.UNKNOWN, Verdict.UNKNOWN]


def test_two_rows_for_one_cluster_make_the_verdict_unknown() -> None:
    assert unknown_kinds(gate_of(row(), row())) == ["no_row"]


@given(
    rows=st.lists(
        st.builds(
            row,
            st.sampled_from([ORDERS, PAYMENTS]),
            st.sampled_from(list(Verdict)),
            copied_nodes=st.lists(st.sampled_from([101, 102, 103, 1]), unique=True),
            known_from_offset=st.sampled_from([None, 0]),
        ),
        max_size=3,
    ),
    data=st.data(),
)
def test_rows_that_are_removed_older_doubled_or_of_fewer_copies_make_no_cluster_ready(
    rows: list[dict[str, Any]], data: Any
) -> None:
    clusters = (ORDERS, PAYMENTS)
    before = {one.name: one.verdict for one in gate_of(*rows, clusters=clusters).clusters}
    changed = list(rows)
    for index in sorted(data.draw(st.sets(st.integers(0, max(len(rows) - 1, 0)))), reverse=True):
        if index >= len(changed):
            continue
        match data.draw(st.sampled_from(["remove", "older", "fewer copies"])):
            # Only if no cluster has two rows: without one of the two, the verdict may become ready.
            case "remove" if len(rows) == len({each["cluster"] for each in rows}):
                del changed[index]
            case "older":
                changed[index] = changed[index] | {"valid_until": NOW - timedelta(1)}
            case _:
                changed[index] = changed[index] | {"copied_nodes": changed[index]["copied_nodes"][:-1]}
    if data.draw(st.booleans()) and changed:
        changed.append(dict(changed[0]))
    after = {one.name: one.verdict for one in gate_of(*changed, clusters=clusters).clusters}
    assert not [name for name in after if after[name] is Verdict.READY and before[name] is not Verdict.READY]


def test_the_document_names_blockers_with_their_evidence_coverage_watermark_and_validity() -> None:
    document = json.loads(json.dumps(gate_of(row(verdict="blocked")).as_json()))
    assert document == {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "Gate",
        "target": {"kind": "release", "name": "4.2"},
        "verdict": "blocked",
        "evaluatedAt": "2026-11-01T12:00:00Z",
        "counts": {"ready": 0, "blocked": 1, "unknown": 0},
        "clusters": [
            {
                "cluster": "orders",
                "clusterId": "id-of-orders",
                "verdict": "blocked",
                "changes": [{"feature": "metadata.version", "fromLevel": 27, "toLevel": 29}],
                "blockers": {
                    "nodes": [
                        {
                            "role": "broker", "nodeId": 4, "reason": "NodeRange", "feature": "metadata.version",
                            "needed": 29, "supportedMin": 7, "supportedMax": 25, "ghostSuspect": True,
                            "node": "101", "file": "00000000000000000000.log", "offset": 17,
                            "ts": "2026-10-29T12:00:00Z",
                        }
                    ],
                    "losses": [],
                    "others": [],
                },
                "clients": None,
                "unknownBecause": [],
                "coverage": {
                    "copies": ["101", "102", "103"],
                    "copiedNodes": [101, 102, 103],
                    "voters": [101, 102, 103],
                    "knownFromOffset": 0,
                    "committedBelow": 90,
                },
                "watermark": {"offset": 100, "time": "2026-11-01T11:00:00Z"},
                "validUntil": "2026-11-02T11:00:00Z",
            }
        ],
    }  # fmt: skip
