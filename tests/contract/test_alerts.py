"""When alerts of recordings and of migrations fire: their rules, over the metrics of an operator, minute by minute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from kafkafeatures.api.status import BrokersByMode, MigrationStatus, Status
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kube.api import Key
from kafkafeatures.metrics import Metrics, RecorderMetrics
from tests.contract.alerts import ALERTS
from tests.contract.promql import Vector, evaluated

ORDERS = Key("kafka", "orders")
START = datetime(2026, 1, 2, tzinfo=UTC)
RULES = {one.name.removeprefix("KafkaFeatures"): one for one in ALERTS}
LASTING = {"1m": 1, "15m": 15, "1h": 60}
HOUR, DAY = 60, 24 * 60
Look = Callable[[int, Metrics, RecorderMetrics], None]
"""What happens in a minute."""


def fired_after(happens: Look, minutes: int = 2 * DAY, alert: str = "NotRecorded") -> int | None:
    """Minutes until the rule held for as long as it has to, without a break; None where it never did."""
    now, rule = START, RULES[alert]
    metrics = Metrics(Environment(lambda: now, lambda: 0.0, lambda: 0.5))
    recorder, held = metrics.of_recorder(), 0
    for minute in range(minutes):
        now = START + timedelta(minutes=minute)
        happens(minute, metrics, recorder)
        found = evaluated(rule.expression, _samples(metrics), now.timestamp())
        held = held + 1 if found else 0
        assert all({"namespace", "name"} <= dict(labels).keys() for labels in found)  # which the summary names
        if held > LASTING[rule.lasting]:
            return minute
    return None


def _samples(metrics: Metrics) -> Mapping[str, Vector]:
    """The samples of all metrics as a scrape of a pod gives them."""
    found: dict[str, Vector] = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            labels = frozenset({**sample.labels, "instance": "10.0.0.1:8080", "pod": "operator-0"}.items())
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def looks(every: int, *, recorded: Callable[[int], bool]) -> Look:
    """A reconciliation ends; what the recorder then does is over before the next scrape."""

    def look(minute: int, metrics: Metrics, recorder: RecorderMetrics) -> None:
        if minute % every == 0:
            metrics.passed(ORDERS, "success", 0.1, Status())
            if recorded(minute):
                recorder.recorded(ORDERS)

    return look


@pytest.mark.parametrize("every", [1, 3 * HOUR, DAY])
def test_a_log_that_is_recorded_at_each_look_is_no_alarm_however_seldom_that_is(every: int) -> None:
    assert fired_after(looks(every, recorded=lambda _: True)) is None


@pytest.mark.parametrize(("every", "latest"), [(1, 2 * HOUR + 2), (3 * HOUR, 4 * HOUR + 2)])
def test_a_log_that_is_recorded_no_more_is_an_alarm_an_hour_after_looks_continued_without(
    every: int, latest: int
) -> None:
    """The looks may be at a document or a Secret that is not valid: such a reconciliation ends as well."""
    fired = fired_after(looks(every, recorded=lambda minute: minute == 0))
    assert fired is not None
    assert HOUR < fired <= latest


@pytest.mark.parametrize("every", [1, 3 * HOUR])
def test_a_volume_that_hangs_from_the_start_on_is_an_alarm_after_an_hour(every: int) -> None:
    assert fired_after(looks(every, recorded=lambda _: False)) == HOUR


def test_an_operator_that_does_not_record_is_no_alarm() -> None:
    metrics = Metrics(environment=SYSTEM)
    metrics.passed(ORDERS, "success", 0.1, Status())
    assert evaluated(RULES["NotRecorded"].expression, _samples(metrics), 0.0) == {}


# --- migrations ---


def migrates(*phases: tuple[int, str], rolled_every: int = 0, lag: int = 0) -> Look:
    """A migration in phases, each from a minute on. `rolled_every`: minutes after which one broker more is in KRaft
    mode; 0: none ever is. `lag`: in records.
    """

    def look(minute: int, metrics: Metrics, recorder: RecorderMetrics) -> None:
        phase = [one for begin, one in phases if begin <= minute][-1]
        brokers = BrokersByMode(kraft=minute // rolled_every if rolled_every else 0)
        now = MigrationStatus(phase=phase, brokers=brokers, lag_records=lag)
        metrics.passed(ORDERS, "success", 0.1, Status(migration=now))

    return look


@pytest.mark.parametrize("phase", ["Migrating", "Finalizing", "RollingBack"])
def test_a_migration_that_does_not_move_between_two_phases_is_an_alarm_after_an_hour(phase: str) -> None:
    fired = fired_after(migrates((0, "PreMigration"), (HOUR, phase)), alert="MigrationStuck")
    assert fired == 2 * HOUR + 2


def test_a_migration_whose_nodes_change_their_mode_is_no_alarm_however_long_it_takes() -> None:
    assert fired_after(migrates((0, "Migrating"), rolled_every=50), alert="MigrationStuck") is None


@pytest.mark.parametrize("phase", ["None", "PreMigration", "DualWrite", "Finalized", "RolledBack"])
def test_a_migration_may_stay_at_a_phase_that_is_one_to_stay_at(phase: str) -> None:
    assert fired_after(migrates((0, "Migrating"), (30, phase)), alert="MigrationStuck") is None


def test_a_zookeeper_that_is_behind_is_an_alarm_after_a_quarter_of_an_hour() -> None:
    assert fired_after(migrates((0, "DualWrite"), lag=100), alert="MigrationLag") is None
    assert fired_after(migrates((0, "DualWrite"), lag=101), alert="MigrationLag") == 15


def test_a_migration_that_is_wanted_no_longer_is_no_alarm() -> None:
    def look(minute: int, metrics: Metrics, recorder: RecorderMetrics) -> None:
        migration = MigrationStatus(phase="Migrating", lag_records=500) if minute < 10 else None
        metrics.passed(ORDERS, "success", 0.1, Status(migration=migration))

    assert fired_after(look, alert="MigrationStuck") is None
    assert fired_after(look, alert="MigrationLag") is None
