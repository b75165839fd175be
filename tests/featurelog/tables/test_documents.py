"""Documents of clusters: the changes that their history attributes to the operator, and drift from their levels."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from featurelog.tables import Documents
from tests.featurelog.tables.build import (
    CLUSTER_ID,
    copies_of,
    copy,
    healthy,
    leader,
    level,
    log,
    rows,
    segment_name,
    snapshot_at,
)
from tests.kraftlog.build import NOW


def stamp(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat().replace("+00:00", "Z")


def document(
    *, level: int = 28, name: str = "prod", cluster_id: str = CLUSTER_ID, history: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "KafkaFeatures",
        "metadata": {"name": name, "namespace": "kafka"},
        "spec": {
            "cluster": {"bootstrapServers": "a.example:9092"},
            "features": {"levels": [{"name": "metadata.version", "level": level}]},
        },
        "status": {"clusterId": cluster_id, "history": history or []},
    }


def change(action: str, at_ms: int, result: str = "Applied") -> dict[str, Any]:
    return {"at": stamp(at_ms), "action": action, "target": action.partition(" ")[0], "result": result}


CHANGED = log([*healthy(), level("metadata.version", 28)])
"""A log in which metadata.version is raised from 27 to 28, by its record at offset 9."""
AT = NOW + 9
"""The time of that record."""


def attributions(*documents: dict[str, Any], cluster_id: str | None = CLUSTER_ID) -> list[str]:
    copies = [copy("3001", {segment_name(0): CHANGED}, cluster_id=cluster_id)]
    return [row["attribution"] for row in rows(copies, "feature_timeline", documents=Documents.of(documents))]


def test_a_change_in_the_history_of_a_document_is_attributed_to_the_operator() -> None:
    found = attributions(document(history=[change("metadata.version 27 -> 28", AT + 2000)]))
    assert found == ["Unattributed", "kafka/prod"]


@pytest.mark.parametrize(
    "entry",
    [
        change("metadata.version 26 -> 28", AT),
        change("metadata.version 27 -> 29", AT),
        change("group.version 27 -> 28", AT),
        change("metadata.version 27 -> 28", AT, "NotApplied"),
        change("metadata.version 27 -> 28", AT, "Rejected"),
        change("metadata.version 27 -> 28", AT + 11 * 60_000),
        change("metadata.version 27 -> 28", AT - 2 * 60_000),
        change("restart of broker 1", AT),
    ],
    ids=[
        "from another level", "to another level", "of another feature", "not applied", "rejected", "later", "before",
        "a restart",
    ],
)  # fmt: skip
def test_a_change_that_no_history_entry_matches_is_unattributed(entry: dict[str, Any]) -> None:
    assert set(attributions(document(history=[entry]))) == {"Unattributed"}


def test_a_document_of_another_cluster_or_a_cluster_without_an_id_attributes_nothing() -> None:
    entry = change("metadata.version 27 -> 28", AT)
    assert set(attributions(document(history=[entry], cluster_id="another"))) == {"Unattributed"}
    assert set(attributions(document(history=[entry]), cluster_id=None)) == {"Unattributed"}


def test_a_change_that_only_a_snapshot_shows_is_unattributed() -> None:
    files = {**snapshot_at(10, CHANGED), segment_name(10): log([leader(3002)], start=10)}
    entry = change("metadata.version 27 -> 28", AT)
    found = rows([copy("3001", files)], "feature_timeline", documents=Documents.of([document(history=[entry])]))
    assert [row["attribution"] for row in found] == ["Unattributed"]


def drift(*documents: Any, data: bytes = CHANGED, cluster_id: str | None = CLUSTER_ID) -> dict[str, Any]:
    copies = [copy(node, {segment_name(0): data}, cluster_id=cluster_id) for node in ("3001", "3002", "3003")]
    (row,) = rows(copies, "drift", documents=Documents.of(documents))
    return row


@pytest.mark.parametrize(("desired", "state"), [(28, "InSync"), (27, "Drifted"), (29, "Drifted")])
def test_drift_compares_the_finalized_level_with_the_level_of_the_document(desired: int, state: str) -> None:
    row = drift(document(level=desired))
    assert (row["feature"], row["level"], row["desired_level"]) == ("metadata.version", 28, desired)
    assert row["drift"] == state
    assert (row["document"], row["reason"]) == ("kafka/prod", None)
    assert round(row["since"].timestamp() * 1000) == AT


def test_a_release_version_is_no_drift_where_a_level_is_higher_than_the_release_asks_for() -> None:
    body = document()
    body["spec"]["features"] = {"releaseVersion": "4.0"}
    found = rows(copies_of(CHANGED), "drift", documents=Documents.of([body]))
    # 4.0 has metadata.version 25, but a release version does not ask for a downgrade from 28.
    assert {row["feature"]: (row["desired_level"], row["drift"]) for row in found} == {
        "metadata.version": (28, "InSync"), "group.version": (1, "Drifted"), "transaction.version": (2, "Drifted"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        ([], "no KafkaFeatures document names this cluster"),
        ([document(cluster_id="another")], "no KafkaFeatures document names this cluster"),
        (
            [document(), document(name="second")],
            "2 KafkaFeatures documents name this cluster: kafka/prod, kafka/second",
        ),
        ([{**document(), "spec": {}}], "the document cannot be understood: "),
    ],
    ids=["none", "of another cluster", "two", "one that is not valid"],
)
def test_drift_is_unknown_without_exactly_one_document_that_can_be_read(documents: list[Any], why: str) -> None:
    row = drift(*documents)
    assert (row["drift"], row["desired_level"], row["level"]) == ("Unknown", None, 28)
    assert row["reason"].startswith(why)


def test_drift_is_unknown_where_the_levels_are_in_doubt() -> None:
    items = [*healthy(), level("metadata.version", 28), bytes([1, 99, 0, 1])]
    row = drift(document(), data=log(items))
    assert (row["drift"], row["reason"]) == (
        "Unknown", "a record of type 99 at offset 10 was not decoded: the table has no such type",
    )  # fmt: skip


def test_values_that_are_no_documents_leave_drift_unknown() -> None:
    assert drift(None, [], "text", {"metadata": 3, "status": {"history": "x"}})["drift"] == "Unknown"
