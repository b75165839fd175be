"""Metrics of the operator: its reconciliations, and fields of the status of each resource.

Names and labels are used in alerts, so they do not change: docs/reference/metrics.md. The series of a resource are
removed when it is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from kafkafeatures import __version__
from kafkafeatures.api.reasons import Condition, Phase, Reason
from kafkafeatures.api.status import EMPTY, ComparisonState, Status
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.api_names import API_NAMES
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.recorder.recorder import REASONS
from kafkafeatures.kube.api import ResourceKey

_OF_RESOURCE = ("namespace", "name")
"""Labels of every metric of a resource."""
_LEVELS = ("finalized", "desired", "supported_min", "supported_max")
"""Fields of a feature in a status that are metrics."""
_PHASES = tuple(phase.value for phase in Phase)
"""All phases of a migration. An unknown one, of another release, has no series of its own."""
_REASONS = frozenset(Reason)
"""All reasons of conditions. An unknown one, of another release, is `Other`, so that the label has few values."""
_BETWEEN = frozenset({Phase.MIGRATING, Phase.FINALIZING, Phase.ROLLING_BACK})
"""Phases in which no cluster should stay."""


def _gauge_of_resources(
    registry: CollectorRegistry, name: str, description: str, labels: tuple[str, ...] = ()
) -> Gauge:
    """A gauge for each resource. `labels`: besides its namespace and name."""
    return Gauge(name, description, (*_OF_RESOURCE, *labels), registry=registry)


class Metrics:
    """The `ReconciliationListener` of the controller, and the `Recorder` of connections to Kafka."""

    def __init__(self, environment: Environment) -> None:
        self._clock = environment.clock
        disable_created_metrics()  # type: ignore[no-untyped-call]  # theirs; a second series for each counter, which is not needed
        self.registry = CollectorRegistry()
        self._shown: dict[ResourceKey, Status] = {}  # the status whose series exist, by resource
        gauge = partial(_gauge_of_resources, self.registry)
        self._passes = Counter(
            "kafkafeatures_reconciliations", "Reconciliations that ended.", ("result",), registry=self.registry
        )
        self._seconds = Histogram(
            "kafkafeatures_reconciliation_duration_seconds",
            "Duration of reconciliations.",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
            registry=self.registry,
        )
        self._waited = Histogram(
            "kafkafeatures_queue_wait_seconds",
            "Time from a wake-up to the start of its reconciliation.",
            buckets=(0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60),
            registry=self.registry,
        )
        self._requests = Counter(
            "kafkafeatures_kafka_requests", "Requests sent to Kafka nodes.", ("api",), registry=self.registry
        )
        self._answers = Counter(
            "kafkafeatures_api_server_requests",
            "Requests to the API server that were answered, watches too.",
            ("code",),
            registry=self.registry,
        )
        self._notifications = Counter(
            "kafkafeatures_notifications", "Notifications, and failed requests.", ("result",), registry=self.registry
        )
        self._depth = Gauge(
            "kafkafeatures_queue_depth", "Resources that wait for their reconciliation.", registry=self.registry
        )
        self._watched = Gauge(
            "kafkafeatures_watched",
            "1 while the resources of a namespace are listed and watched; * for all namespaces.",
            ("namespace",),
            registry=self.registry,
        )
        self._reason = gauge(
            "kafkafeatures_condition_reason",
            "1 for the status and the reason that a condition has.",
            ("type", "status", "reason"),
        )
        self._rollout = gauge(
            "kafkafeatures_rollout_nodes", "Nodes of a rolling restart that is in progress: done, total.", ("count",)
        )
        self._condition = gauge(
            "kafkafeatures_condition",
            "1 for the status of a condition, 0 for the other two; no series while the condition is absent.",
            ("type", "status"),
        )
        self._level = gauge(
            "kafkafeatures_feature_level",
            "Levels of a feature: finalized, desired, supported_min and supported_max of all nodes.",
            ("feature", "kind"),
        )
        self._drift = gauge(
            "kafkafeatures_drift",
            "1 while drift is detected: a level that had been reached was changed outside KafkaFeatures.",
        )
        self._suspended = gauge("kafkafeatures_suspended", "1 while the resource is suspended, also if it is in sync.")
        self._approval = gauge("kafkafeatures_approval_pending", "1 while a plan waits for approval.")
        self._approval_since = gauge(
            "kafkafeatures_approval_pending_since_timestamp_seconds",
            "Since when a plan has been waiting for approval; 0 without one.",
        )
        self._phase = gauge(
            "kafkafeatures_migration_phase",
            "1 for the phase of a migration from ZooKeeper, 0 for the others; no series where none is wanted or open.",
            ("phase",),
        )
        self._modes = gauge(
            "kafkafeatures_migration_brokers",
            "Brokers in each mode while a migration is wanted: zookeeper, flagged, kraft.",
            ("mode",),
        )
        self._lag = gauge(
            "kafkafeatures_migration_lag_records",
            "Records of the metadata log that are not written to ZooKeeper yet; no series before both are written.",
        )
        self._differences = gauge(
            "kafkafeatures_migration_differences",
            "Differences between ZooKeeper and the metadata log in the last comparison; no series without a result.",
        )
        self._blocking_clients = gauge(
            "kafkafeatures_blocking_clients",
            "API versions that clients use and the target lacks; no series while the evidence does not tell.",
            ("target",),
        )
        self._progress = gauge(
            "kafkafeatures_migration_last_progress_timestamp_seconds",
            "When a migration last moved, between two phases at which it can stay; no series at those.",
        )
        self._success = gauge(
            "kafkafeatures_last_success_timestamp_seconds",
            "When a reconciliation of the resource last ended without an error.",
        )
        build = Gauge("kafkafeatures_build_info", "Always 1.", ("version",), registry=self.registry)
        build.labels(__version__).set(1)
        for result in ("success", "requeued", "failed"):
            self._passes.labels(result)

    def follow(self, waiting: Callable[[], int], watched: Mapping[str, Callable[[], bool]]) -> None:
        """Have these values read at each scrape, with those of the process.

        waiting: returns the number of resources that wait for a reconciliation.
        watched: tells whether a namespace is watched, by namespace; an empty name means all.
        """
        ProcessCollector(registry=self.registry)
        self._depth.set_function(waiting)
        for namespace, holds in watched.items():
            self._watched.labels(namespace or "*").set_function(holds)

    def answered(self, code: int) -> None:
        """Count an answer of the API server, by its HTTP status."""
        self._answers.labels(str(code)).inc()

    def notified(self, result: str) -> None:
        """Count a result of a notification: delivered, failed (a request), or withdrawn (it no longer applied)."""
        self._notifications.labels(result).inc()

    def of_recorder(self) -> RecorderMetrics:
        """The metrics of recorded metadata logs; to be called once."""
        return RecorderMetrics(self.registry, self._clock)

    def sent(self, address: Address, frame: bytes) -> None:
        """Count a request to Kafka. `frame`: four bytes of length, then the api key in two bytes."""
        key = int.from_bytes(frame[4:6])
        self._requests.labels(API_NAMES.get(key, str(key))).inc()

    def received(self, address: Address, frame: bytes) -> None:
        """Answers are not counted."""

    def waited(self, seconds: float) -> None:
        """Count the seconds between a wake-up and its reconciliation."""
        self._waited.observe(seconds)

    def reconciled(self, key: ResourceKey, result: str, seconds: float, status: Status) -> None:
        """See `ReconciliationListener` of the controller."""
        self._passes.labels(result).inc()
        if result == "failed":
            return
        self._seconds.observe(seconds)
        self._success.labels(*key).set(self._clock().timestamp())
        previous_status, self._shown[key] = self._shown.get(key), status
        if previous_status != status:
            self._show(key, previous_status or EMPTY, status)

    def suspended(self, key: ResourceKey, holds: bool) -> None:
        """See `ReconciliationListener` of the controller."""
        self._suspended.labels(*key).set(holds)

    def forgot(self, key: ResourceKey) -> None:
        """See `ReconciliationListener` of the controller."""
        self._show(key, self._shown.pop(key, EMPTY), EMPTY)
        for gauge in (self._drift, self._suspended, self._approval, self._approval_since, self._success):
            gauge.remove(*key)

    def _show(self, key: ResourceKey, previous_status: Status, status: Status) -> None:
        """Update the series that have changed, and remove those that have ended. All series of a resource are not
        removed at once, as the library would search the series of all resources for them.
        """
        for gauge, series_of in (
            (self._condition, _conditions),
            (self._reason, _reasons),
            (self._rollout, _rollout),
            (self._level, _levels),
            (self._phase, _phases),
            (self._modes, _modes),
            (self._lag, _lag),
            (self._differences, _differences),
            (self._blocking_clients, _blocking_clients),
        ):
            previous_series, current_series = series_of(previous_status), series_of(status)
            for labels in previous_series.keys() - current_series.keys():
                gauge.remove(*key, *labels)
            for labels, value in current_series.items():
                if previous_series.get(labels) != value:
                    gauge.labels(*key, *labels).set(value)
        self._show_progress(key, previous_status, status)
        waiting = status.condition(Condition.APPROVAL_REQUIRED)
        self._drift.labels(*key).set(status.condition(Condition.DRIFT_DETECTED) is not None)
        self._approval.labels(*key).set(waiting is not None)
        since = datetime.fromisoformat(waiting.last_transition_time).timestamp() if waiting else 0.0
        self._approval_since.labels(*key).set(since)

    def _show_progress(self, key: ResourceKey, previous_status: Status, status: Status) -> None:
        """Update the time at which a migration last made progress, in phases in which it should not stay."""
        previous_movement, movement = _movement(previous_status), _movement(status)
        if movement and movement != previous_movement:
            self._progress.labels(*key).set(self._clock().timestamp())
        elif previous_movement and not movement:
            self._progress.remove(*key)


class RecorderMetrics:
    """Implements `RecordingListener` of `kafka/recorder`, which calls it, also from its thread."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], datetime]) -> None:
        self._clock, gauge = clock, partial(_gauge_of_resources, registry)
        self._success = gauge(
            "kafkafeatures_recorder_last_success_timestamp_seconds",
            "When all of the metadata log that was committed was last on disk.",
        )
        self._failures = Counter(
            "kafkafeatures_recorder_failures", "Metadata logs that were not recorded.", ("reason",), registry=registry
        )
        self._written = Counter("kafkafeatures_recorder_written_bytes", "Bytes that were recorded.", registry=registry)
        self._removed = Counter(
            "kafkafeatures_recorder_removed_bytes", "Bytes that were removed to make room.", registry=registry
        )
        self._gaps = Counter(
            "kafkafeatures_recorder_gaps",
            "Recordings that begin anew, behind records that are missing or beside what the log contradicts.",
            registry=registry,
        )
        self._last_gap = gauge(
            "kafkafeatures_recorder_last_gap_timestamp_seconds",
            "When a recording of the resource last began anew; no series before.",
        )
        self._held = Gauge("kafkafeatures_recorder_held_bytes", "Bytes of all recordings.", registry=registry)
        self._room = gauge(
            "kafkafeatures_recorder_room_bytes", "Bytes that can be recorded before the oldest segments are removed."
        )
        for reason in REASONS:
            self._failures.labels(reason)

    def recorded(self, resource: tuple[str, str]) -> None:
        """See `RecordingListener`, as for all methods here."""
        self._success.labels(*resource).set(self._clock().timestamp())

    def forgot(self, resource: tuple[str, str]) -> None:
        for gauge in (self._success, self._last_gap, self._room):
            gauge.remove(*resource)

    def failed(self, reason: str) -> None:
        self._failures.labels(reason).inc()

    def wrote(self, size: int) -> None:
        self._written.inc(size)

    def removed(self, size: int) -> None:
        self._removed.inc(size)

    def gap(self, resource: tuple[str, str]) -> None:
        self._gaps.inc()
        self._last_gap.labels(*resource).set(self._clock().timestamp())

    def note_size(self, size: int) -> None:
        self._held.set(size)

    def note_room(self, resource: tuple[str, str], size: int) -> None:
        self._room.labels(*resource).set(size)


def _conditions(status: Status) -> dict[tuple[str, ...], float]:
    values = ("True", "False", "Unknown")
    return {
        (condition.type, value): float(condition.status == value) for condition in status.conditions for value in values
    }


def _reasons(status: Status) -> dict[tuple[str, ...], float]:
    return {
        (condition.type, condition.status, condition.reason if condition.reason in _REASONS else "Other"): 1.0
        for condition in status.conditions
    }


def _rollout(status: Status) -> dict[tuple[str, ...], float]:
    rollout = status.rollout
    return (
        {("done",): rollout.done, ("total",): rollout.total} if rollout is not None and rollout.is_in_progress else {}
    )


def _phases(status: Status) -> dict[tuple[str, ...], float]:
    phase = status.migration.phase if status.migration is not None else ""
    return {(label,): float(label == phase) for label in _PHASES} if phase else {}


def _modes(status: Status) -> dict[tuple[str, ...], float]:
    modes = status.migration.brokers if status.migration is not None else None
    if modes is None:
        return {}
    return {("zookeeper",): modes.zoo_keeper, ("flagged",): modes.flagged, ("kraft",): modes.kraft}


def _lag(status: Status) -> dict[tuple[str, ...], float]:
    lag = status.migration.lag_records if status.migration is not None else None
    return {} if lag is None else {(): float(lag)}


def _differences(status: Status) -> dict[tuple[str, ...], float]:
    comparison = status.migration.equality if status.migration is not None else None
    if comparison is None or comparison.differences is None or comparison.state == ComparisonState.UNKNOWN:
        return {}
    return {(): float(comparison.differences)}


def _blocking_clients(status: Status) -> dict[tuple[str, ...], float]:
    section, condition = status.clients, status.condition(Condition.CLIENTS_COMPATIBLE)
    if section is None or condition is None or condition.status == "Unknown":
        return {}
    return {(section.target,): float(section.blocker_count)}


def _movement(status: Status) -> tuple[object, ...]:
    """The values that change while a migration makes progress; empty in a phase in which it can stay."""
    migration, rollout = status.migration, status.rollout
    if migration is None or migration.phase not in _BETWEEN:
        return ()
    return (
        migration.phase,
        migration.position,
        migration.brokers,
        migration.restarts_left,
        rollout.done if rollout is not None else None,
    )


def _levels(status: Status) -> dict[tuple[str, ...], float]:
    levels = {(feature.name, label): getattr(feature, label) for feature in status.features for label in _LEVELS}
    return {labels: level for labels, level in levels.items() if level is not None}
