"""What /metrics says: reconciliations of the operator, and what the status of each resource holds.

Names and labels are for alerts, so they do not change: docs/reference/metrics.md. Series of a resource go with it.
"""

from __future__ import annotations

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from kafkafeatures import __version__
from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.status import Status
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.api_names import API_NAMES
from kafkafeatures.kafka.settings import Address
from kafkafeatures.kube.api import Key

_OF_RESOURCE = ("namespace", "name")
_LEVELS = ("finalized", "desired", "supported_min", "supported_max")
"""Of a feature of a status."""


class Metrics:
    """The `Watcher` of the controller, and the `Recorder` of connections to Kafka."""

    def __init__(self, environment: Environment = SYSTEM) -> None:
        self._clock = environment.clock
        disable_created_metrics()  # type: ignore[no-untyped-call]  # theirs; a second series for each counter, which nobody asked for
        self.registry = CollectorRegistry()
        self._shown: dict[Key, set[str]] = {}
        self._said: dict[Key, Status] = {}
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
        self._condition = Gauge(
            "kafkafeatures_condition",
            "1 for the status of a condition, 0 for the other two; no series while the condition is absent.",
            (*_OF_RESOURCE, "type", "status"),
            registry=self.registry,
        )
        self._level = Gauge(
            "kafkafeatures_feature_level",
            "Levels of a feature: finalized, desired, supported_min and supported_max of all nodes.",
            (*_OF_RESOURCE, "feature", "level"),
            registry=self.registry,
        )
        self._drift = Gauge(
            "kafkafeatures_drift",
            "1 while drift is detected: a level that had been reached was changed outside KafkaFeatures.",
            _OF_RESOURCE,
            registry=self.registry,
        )
        self._approval = Gauge(
            "kafkafeatures_approval_pending",
            "1 while a plan is waiting for approval.",
            _OF_RESOURCE,
            registry=self.registry,
        )
        self._approval_since = Gauge(
            "kafkafeatures_approval_pending_since_timestamp_seconds",
            "Since when a plan has been waiting for approval; 0 without one.",
            _OF_RESOURCE,
            registry=self.registry,
        )
        self._success = Gauge(
            "kafkafeatures_last_success_timestamp_seconds",
            "When a reconciliation of the resource last ended without an error.",
            _OF_RESOURCE,
            registry=self.registry,
        )
        build = Gauge("kafkafeatures_build_info", "Always 1.", ("version",), registry=self.registry)
        build.labels(__version__).set(1)
        for result in ("success", "requeued", "failed"):
            self._passes.labels(result)

    def sent(self, address: Address, frame: bytes) -> None:
        """One request, as the connection's `Recorder` says: its length, then its api key, two bytes."""
        key = int.from_bytes(frame[4:6])
        self._requests.labels(API_NAMES.get(key, str(key))).inc()

    def received(self, address: Address, frame: bytes) -> None:
        """Answers are not counted."""

    def waited(self, seconds: float) -> None:
        """Of one wake-up."""
        self._waited.observe(seconds)

    def passed(self, key: Key, result: str, seconds: float, status: Status) -> None:
        """See `Watcher` of the controller."""
        self._passes.labels(result).inc()
        if result == "failed":
            return
        self._seconds.observe(seconds)
        self._success.labels(*key).set(self._clock().timestamp())
        if self._said.get(key) == status:
            return
        self._said[key] = status
        conditions = {one.type: one for one in status.conditions}
        for kind in self._shown.get(key, set()) - set(conditions):
            self._condition.remove_by_labels({"namespace": key.namespace, "name": key.name, "type": kind})
        self._shown[key] = set(conditions)
        for kind, condition in conditions.items():
            for value in ("True", "False", "Unknown"):
                self._condition.labels(*key, kind, value).set(condition.status == value)
        self._drift.labels(*key).set(Condition.DRIFT_DETECTED.value in conditions)
        waiting = conditions.get(Condition.APPROVAL_REQUIRED.value)
        self._approval.labels(*key).set(waiting is not None)
        since = datetime.fromisoformat(waiting.last_transition_time).timestamp() if waiting else 0.0
        self._approval_since.labels(*key).set(since)
        self._level.remove_by_labels({"namespace": key.namespace, "name": key.name})
        for feature in status.features:
            for label in _LEVELS:
                level = getattr(feature, label)
                if level is not None:
                    self._level.labels(*key, feature.name, label).set(level)

    def forgot(self, key: Key) -> None:
        """See `Watcher` of the controller."""
        self._shown.pop(key, None)
        self._said.pop(key, None)
        labels = {"namespace": key.namespace, "name": key.name}
        for gauge in (
            self._condition, self._level, self._drift, self._approval, self._approval_since, self._success,
        ):  # fmt: skip
            gauge.remove_by_labels(labels)
