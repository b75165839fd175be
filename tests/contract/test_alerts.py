"""The rule of each alert, evaluated over the metrics of an operator minute by minute.

All times of this module are in minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from docs.make.alerts import ALERTS
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import BrokersByMode, MigrationStatus, Status, StatusCondition
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.metrics import Metrics, RecorderMetrics
from tests.contract.promql import Vector, evaluated

ORDERS = ResourceKey("kafka", "orders")
SINCE = Stamp("2026-01-02T00:00:00Z")
START = datetime(2026, 1, 2, tzinfo=UTC)
RULES = {
    one.name.removeprefix("KafkaFeatures"): replace(one, expression=one.expression.replace("@WATCHED@", "kafka|gone"))
    for one in ALERTS
}
HOUR, DAY = 60, 24 * 60
LASTING = {"1m": 1, "5m": 5, "15m": 15, "1h": HOUR, "24h": DAY, "7d": 7 * DAY}
Scenario = Callable[[int, Metrics, RecorderMetrics], None]
"""Function that is called once a minute and reports to the metrics what happens in that minute."""


def fired_after(
    scenario: Scenario, minutes: int = 2 * DAY, alert: str = "NotRecorded", *, every: int = 1
) -> int | None:
    """The minute in which the alert fires, because its rule held long enough without a break. None if it never fires.

    `every`: minutes between two evaluations.
    """
    now, rule = START, RULES[alert]
    metrics = Metrics(Environment(lambda: now, lambda: 0.0, lambda: 0.5))
    recorder, held = metrics.of_recorder(), 0
    for minute in range(0, minutes, every):
        now = START + timedelta(minutes=minute)
        scenario(minute, metrics, recorder)
        found = evaluated(rule.expression, _samples(metrics, alert), now.timestamp())
        held = held + every if found else 0
        assert all({"namespace", "name"} <= dict(labels).keys() for labels in found)  # which the summary names
        if held > LASTING[rule.lasting]:
            return minute
    return None


def _samples(metrics: Metrics, alert: str) -> Mapping[str, Vector]:
    """The samples of the metrics that the rule of an alert uses, with the labels that a scrape adds."""
    samples: dict[str, Vector] = {}
    named = re.findall("kafkafeatures_[a-z_]+", RULES[alert].expression)
    for family in metrics.registry.restricted_registry(named).collect():
        for sample in family.samples:
            labels = frozenset(
                {**sample.labels, "instance": "10.0.0.1:8080", "pod": "operator-0", "job": "@JOB@"}.items()
            )
            samples.setdefault(sample.name, {})[labels] = sample.value
    return samples


def reconciliations(every: int, *, recorded: Callable[[int], bool]) -> Scenario:
    """A reconciliation every so many minutes; the recorder writes the log after those for which `recorded` is true."""

    def report(minute: int, metrics: Metrics, recorder: RecorderMetrics) -> None:
        if minute % every == 0:
            metrics.reconciled(ORDERS, "success", 0.1, Status())
            if recorded(minute):
                recorder.recorded(ORDERS)

    return report


@pytest.mark.parametrize("every", [1, 3 * HOUR, DAY], ids=["each minute", "each three hours", "each day"])
def test_no_alert_fires_while_each_reconciliation_records_the_log_however_rare_they_are(every: int) -> None:
    assert fired_after(reconciliations(every, recorded=lambda _: True)) is None


@pytest.mark.parametrize(
    ("every", "latest"), [(1, 2 * HOUR + 2), (3 * HOUR, 4 * HOUR + 2)], ids=["each minute", "each three hours"]
)
def test_an_alert_fires_after_an_hour_in_which_reconciliations_are_an_hour_younger_than_the_recorded_log(
    every: int, latest: int
) -> None:
    """Only the reconciliation of minute 0 records the log, as if the document became invalid then.

    The rule holds once a reconciliation is more than an hour younger than the last record, and must then hold for an
    hour: so an alert can fire after two hours, or an hour after the reconciliation at three hours. `latest` leaves two
    minutes for the evaluations.
    """
    fired = fired_after(reconciliations(every, recorded=lambda minute: minute == 0))
    assert fired is not None
    assert HOUR < fired <= latest


@pytest.mark.parametrize("every", [1, 3 * HOUR], ids=["each minute", "each three hours"])
def test_an_alert_fires_after_an_hour_where_the_volume_hangs_from_the_start(every: int) -> None:
    assert fired_after(reconciliations(every, recorded=lambda _: False)) == HOUR


def test_no_alert_fires_for_an_operator_without_a_recorder() -> None:
    metrics = Metrics(environment=SYSTEM)
    metrics.reconciled(ORDERS, "success", 0.1, Status())
    assert evaluated(RULES["NotRecorded"].expression, _samples(metrics, "NotRecorded"), 0.0) == {}


# --- conditions ---


def ready_with(reason: str, *others: StatusCondition, status: str = "False") -> Scenario:
    """A resource whose condition Ready has the same reason all the time. `others`: its other conditions."""
    ready = StatusCondition(type="Ready", status=status, last_transition_time=SINCE, reason=reason, message="m")

    def report(minute: int, metrics: Metrics, recorder: RecorderMetrics) -> None:
        metrics.reconciled(ORDERS, "success", 0.1, Status(conditions=(*others, ready)))

    return report


def condition(kind: str, reason: str) -> StatusCondition:
    return StatusCondition(type=kind, status="True", last_transition_time=SINCE, reason=reason, message="m")


def test_an_alert_fires_for_a_resource_that_waits_for_a_day_unless_another_alert_covers_the_cause() -> None:
    assert fired_after(ready_with("WaitingForWindow"), alert="Waiting", every=HOUR) == DAY
    assert fired_after(ready_with("InSync", status="True"), alert="Waiting", every=HOUR) is None
    assert fired_after(ready_with("Suspended"), alert="Waiting", every=HOUR) is None
    assert fired_after(ready_with("Halted", condition("Stalled", "Halted")), alert="Waiting", every=HOUR) is None
    assert (
        fired_after(
            ready_with("PlanPending", condition("ApprovalRequired", "PlanPending")), alert="Waiting", every=HOUR
        )
        is None
    )


def test_an_alert_fires_for_a_suspension_after_a_week() -> None:
    def report(minute: int, metrics: Metrics, recorder: RecorderMetrics) -> None:
        ready_with("InSync", status="True")(minute, metrics, recorder)
        metrics.suspended(ORDERS, holds=minute < lasts)

    lasts = 8 * DAY
    assert fired_after(report, 8 * DAY, "Suspended", every=HOUR) == 7 * DAY
    lasts = 6 * DAY
    assert fired_after(report, 8 * DAY, "Suspended", every=HOUR) is None


def test_the_alert_for_a_stalled_resource_has_the_reason() -> None:
    assert fired_after(ready_with("Halted", condition("Stalled", "Halted")), alert="Stalled") == 5
    metrics = Metrics(environment=SYSTEM)
    metrics.reconciled(ORDERS, "success", 0.1, Status(conditions=(condition("Stalled", "Halted"),)))
    metrics.reconciled(
        ResourceKey("kafka", "new"), "success", 0.1, Status(conditions=(condition("Stalled", "OfNextYear"),))
    )
    found = evaluated(RULES["Stalled"].expression, _samples(metrics, "Stalled"), 0.0)
    assert sorted(dict(labels)["reason"] for labels in found) == ["Halted", "Other"]


def test_an_alert_selects_only_the_operator_of_its_release() -> None:
    metrics = Metrics(environment=SYSTEM)
    metrics.reconciled(ORDERS, "success", 0.1, Status(conditions=(condition("Stalled", "Halted"),)))
    assert evaluated(RULES["Stalled"].expression, _samples(metrics, "Stalled"), 0.0)
    for other_release in ({"job": "another"}, {"namespace": "of-another"}):
        elsewhere = {
            name: {frozenset({**dict(labels), **other_release}.items()): value for labels, value in vector.items()}
            for name, vector in _samples(metrics, "Stalled").items()
        }
        assert evaluated(RULES["Stalled"].expression, elsewhere, 0.0) == {}
    assert all('job="@JOB@"' in one.expression for one in ALERTS)


def test_an_alert_fires_only_for_a_namespace_that_is_not_watched() -> None:
    metrics = Metrics(environment=SYSTEM)
    metrics.follow(lambda: 3, {"gone": lambda: False, "kafka": lambda: True})
    (found,) = evaluated(RULES["NotWatched"].expression, _samples(metrics, "NotWatched"), 0.0)
    assert dict(found)["namespace"] == "gone"


# --- migrations ---


def migrating(*phases: tuple[int, str], rolled_every: int = 0, lag: int = 0) -> Scenario:
    """A migration. `phases`: each phase with the minute in which it begins. `lag`: in records.

    `rolled_every`: minutes until one more broker is in KRaft mode; 0: no broker ever is.
    """

    def report(minute: int, metrics: Metrics, recorder: RecorderMetrics) -> None:
        phase = [name for begin, name in phases if begin <= minute][-1]
        brokers = BrokersByMode(kraft=minute // rolled_every if rolled_every else 0)
        now = MigrationStatus(phase=phase, brokers=brokers, lag_records=lag)
        metrics.reconciled(ORDERS, "success", 0.1, Status(migration=now))

    return report


@pytest.mark.parametrize("phase", ["Migrating", "Finalizing", "RollingBack"])
def test_an_alert_fires_for_a_migration_that_is_stuck_between_two_phases_for_an_hour(phase: str) -> None:
    fired = fired_after(migrating((0, "PreMigration"), (HOUR, phase)), alert="MigrationStuck")
    # The last progress is at HOUR. The rule holds once more than an hour has passed, and must then hold for a minute.
    assert fired == 2 * HOUR + 2


def test_no_alert_fires_for_a_long_migration_while_nodes_change_their_mode() -> None:
    assert fired_after(migrating((0, "Migrating"), rolled_every=50), alert="MigrationStuck") is None


@pytest.mark.parametrize("phase", ["None", "PreMigration", "DualWrite", "Finalized", "RolledBack"])
def test_no_alert_fires_for_a_migration_that_stays_at_a_stable_phase(phase: str) -> None:
    assert fired_after(migrating((0, "Migrating"), (30, phase)), alert="MigrationStuck") is None


def test_an_alert_fires_where_zookeeper_lags_for_a_quarter_of_an_hour() -> None:
    assert fired_after(migrating((0, "DualWrite"), lag=100), alert="MigrationLag") is None
    assert fired_after(migrating((0, "DualWrite"), lag=101), alert="MigrationLag") == 15


def test_no_alert_fires_for_a_migration_that_was_removed_from_the_document() -> None:
    def report(minute: int, metrics: Metrics, recorder: RecorderMetrics) -> None:
        migration = MigrationStatus(phase="Migrating", lag_records=500) if minute < 10 else None
        metrics.reconciled(ORDERS, "success", 0.1, Status(migration=migration))

    assert fired_after(report, alert="MigrationStuck") is None
    assert fired_after(report, alert="MigrationLag") is None
