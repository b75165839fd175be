"""Metric series are set by the status of a resource, follow it, and are removed with the resource; others stay."""

from __future__ import annotations

import pytest
from prometheus_client import Gauge

from kafkafeatures.api.reasons import Phase
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import (
    EMPTY,
    BrokersByMode,
    EqualityStatus,
    FeatureStatus,
    MigrationStatus,
    Status,
    StatusCondition,
)
from kafkafeatures.api.values import replace
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.metrics import Metrics

MIGRATION = "kafkafeatures_migration_"
SINCE = Stamp("2026-01-02T03:04:05Z")
STATUS = replace(
    EMPTY,
    conditions=(
        StatusCondition(type="Ready", status="True", last_transition_time=SINCE, reason="InSync", message=""),
        StatusCondition(type="DriftDetected", status="True", last_transition_time=SINCE, reason="Drift", message=""),
    ),
    features=(
        FeatureStatus(name="metadata.version", finalized=21, desired=27),
        FeatureStatus(name="group.version", finalized=1),
    ),
)
LATER = replace(
    STATUS, conditions=STATUS.conditions[:1], features=(FeatureStatus(name="metadata.version", finalized=27),)
)


def series(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    samples = [one for family in metrics.registry.collect() for one in family.samples if one.name == name]
    return {tuple(one.labels.values()): one.value for one in samples}


def passed(metrics: Metrics, name: str, status: Status) -> None:
    metrics.reconciled(ResourceKey("ns", name), "success", 0.1, status)


def test_a_value_that_left_the_status_has_no_metric() -> None:
    metrics = Metrics(environment=SYSTEM)
    passed(metrics, "a", STATUS)
    passed(metrics, "b", STATUS)
    passed(metrics, "a", LATER)
    of_a = {
        labels[2:]: value for labels, value in series(metrics, "kafkafeatures_feature_level").items() if "a" in labels
    }
    assert of_a == {("metadata.version", "finalized"): 27.0}
    of_b = [labels for labels in series(metrics, "kafkafeatures_feature_level") if "b" in labels]
    assert len(of_b) == 3  # finalized and desired metadata.version, and finalized group.version
    conditions = series(metrics, "kafkafeatures_condition")
    assert {labels[2] for labels in conditions if "a" in labels} == {"Ready"}
    assert conditions["ns", "a", "Ready", "True"] == 1.0
    assert series(metrics, "kafkafeatures_drift") == {("ns", "a"): 0.0, ("ns", "b"): 1.0}


def test_the_series_of_a_deleted_resource_are_removed() -> None:
    metrics = Metrics(environment=SYSTEM)
    for name in "ab":
        passed(metrics, name, STATUS)
    metrics.forgot(ResourceKey("ns", "a"))
    metrics.forgot(ResourceKey("ns", "never seen"))
    families = {one.name for one in metrics.registry.collect()}
    labels = [labels for name in families for labels in series(metrics, name)]
    assert any("b" in one for one in labels)
    assert not any("a" in one or "never seen" in one for one in labels)


def test_series_of_a_resource_are_removed_without_a_search_through_all_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand resources, such a search takes longer than the rest of a reconciliation."""

    def searched(self: Gauge, labels: dict[str, str]) -> None:
        raise AssertionError("all series were searched")

    monkeypatch.setattr(Gauge, "remove_by_labels", searched)
    metrics = Metrics(environment=SYSTEM)
    passed(metrics, "a", STATUS)
    passed(metrics, "a", LATER)
    metrics.forgot(ResourceKey("ns", "a"))
    assert series(metrics, "kafkafeatures_feature_level") == {}


# --- migrations ---

MIGRATING = Status(
    migration=MigrationStatus(
        phase="Migrating", brokers=BrokersByMode(zoo_keeper=1, flagged=2, kraft=3), lag_records=7,
        equality=EqualityStatus(state="Differs", differences=9),
    )
)  # fmt: skip


def test_metrics_of_a_migration_are_phase_broker_modes_lag_and_differences() -> None:
    metrics = Metrics(environment=SYSTEM)
    passed(metrics, "a", MIGRATING)
    assert series(metrics, f"{MIGRATION}phase") == {("ns", "a", one): float(one is Phase.MIGRATING) for one in Phase}
    assert series(metrics, f"{MIGRATION}brokers") == {
        ("ns", "a", "zookeeper"): 1.0, ("ns", "a", "flagged"): 2.0, ("ns", "a", "kraft"): 3.0,
    }  # fmt: skip
    assert series(metrics, f"{MIGRATION}lag_records") == {("ns", "a"): 7.0}
    assert series(metrics, f"{MIGRATION}differences") == {("ns", "a"): 9.0}


def test_an_unknown_value_of_a_migration_has_no_series() -> None:
    metrics = Metrics(environment=SYSTEM)
    passed(metrics, "a", MIGRATING)
    passed(metrics, "a", Status(migration=MigrationStatus(phase="DualWrite", equality=EqualityStatus(state="Unknown"))))
    names = ("brokers", "lag_records", "differences", "last_progress_timestamp_seconds")
    assert [series(metrics, f"{MIGRATION}{name}") for name in names] == [{}] * len(names)


def test_an_unknown_phase_of_another_release_adds_no_label() -> None:
    metrics = Metrics(environment=SYSTEM)
    passed(metrics, "a", Status(migration=MigrationStatus(phase="Whatever")))
    assert series(metrics, f"{MIGRATION}phase") == {("ns", "a", one.value): 0.0 for one in Phase}


def test_the_series_of_a_migration_are_removed_with_the_migration_or_its_resource() -> None:
    for end in ("status", "resource"):
        metrics = Metrics(environment=SYSTEM)
        passed(metrics, "a", MIGRATING)
        if end == "status":
            passed(metrics, "a", STATUS)
        else:
            metrics.forgot(ResourceKey("ns", "a"))
        there = [one.name for one in metrics.registry.collect() for _ in one.samples if one.name.startswith(MIGRATION)]
        assert there == []
