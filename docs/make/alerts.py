"""The alerts of the chart, made of conditions and reasons: `make docs` writes them to files/alerts.yaml of the chart.

Few on purpose. One alert stands for all reasons of `Stalled`; its link leads to the page of the reason. Those of
recordings fire only where the operator records. `@JOB@`, `@NAMESPACE@` and `@WATCHED@`, a pattern for the namespaces
that the operator watches, are filled in by the chart: each release has alerts for what it scrapes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from kafkafeatures.api.reasons import Condition, Reason

STALLED = [reason for reason in Reason if Condition.STALLED in reason.conditions]


@dataclass(frozen=True)
class Alert:
    """An alert rule. `expression`: PromQL. `lasting`: how long it must hold before the alert fires. `runbook`: a page
    of docs/runbooks. This and the other texts may have templates of Prometheus.
    """

    name: str
    expression: str
    lasting: str
    runbook: str
    summary: str
    description: str
    severity: str = "warning"


_PROCESS_SERIES = {"reconciliations_total", "recorder_held_bytes", "notifications_total"}
"""Series of the operator as a whole; the others have the namespace of a resource."""


def _series(name: str, **labels: str) -> str:
    """PromQL that selects a series of the operator that this Helm release installed. `labels`: further values; a value
    that begins with `~` is a pattern.
    """
    namespace = {} if name in _PROCESS_SERIES else {"namespace": "~@WATCHED@"}
    selected = {"job": "@JOB@", **namespace, **labels}
    pairs = (f'{label}{"=~" if value[0] == "~" else "="}"{value.lstrip("~")}"' for label, value in selected.items())
    return f"kafkafeatures_{name}{{{','.join(pairs)}}}"


def _has_status(condition: Condition, status: str) -> str:
    """PromQL for the resources whose condition has this status."""
    return f"{_series('condition', type=condition, status=status)} == 1"


SUSPENDED = f"{_series('condition_reason', type=Condition.READY, reason=f'~{Reason.SUSPENDED}|{Reason.PAUSED}')} == 1"
OF_REASON = "{{ $labels.reason }}.md"
"""The page of the reason that a series has."""
RESOURCE = "{{ $labels.namespace }}/{{ $labels.name }}"
"""The resource that a series is about."""

ALERTS = (
    Alert(
        "KafkaFeaturesStalled",
        f"{_series('condition_reason', type=Condition.STALLED, status='True')} == 1",
        "5m",
        OF_REASON,
        f"{RESOURCE} is stalled: {{{{ $labels.reason }}}}",
        "Action is required; the condition Stalled says what to do.",
    ),
    Alert(
        "KafkaFeaturesApprovalPending",
        f"{_series('approval_pending')} == 1"
        f" and time() - {_series('approval_pending_since_timestamp_seconds')} > 24 * 3600",
        "5m",
        f"{Reason.APPROVAL_REQUIRED}.md",
        f"A plan of {RESOURCE} has been waiting for approval for more than a day",
        "The operator sends nothing before the plan is approved; the cluster keeps its levels.",
    ),
    Alert(
        "KafkaFeaturesDrift",
        f"{_series('drift')} == 1",
        "15m",
        f"{Reason.DRIFTED}.md",
        f"Drift detected: a level of {RESOURCE} was changed outside KafkaFeatures",
        "The document and the cluster name different levels; change one of them.",
    ),
    Alert(
        "KafkaFeaturesWaiting",
        f"{_has_status(Condition.READY, 'False')} unless on (namespace, name) {_has_status(Condition.STALLED, 'True')}"
        f" unless on (namespace, name) {_series('approval_pending')} == 1 unless on (namespace, name) {SUSPENDED}",
        "24h",
        "Waiting.md",
        f"{RESOURCE} has been waiting for a day",
        "The condition Ready says what it waits for, and whether you have to do something.",
        severity="info",  # a soak, a window or a broker that recovers may take that long
    ),
    Alert(
        "KafkaFeaturesSuspended",
        f"{_series('suspended')} == 1",
        "7d",
        f"{Reason.SUSPENDED}.md",
        f"{RESOURCE} has been suspended for a week",
        "The operator starts no step before the resource is resumed.",
        severity="info",
    ),
    Alert(
        "KafkaFeaturesNotWatched",
        f"{_series('watched')} == 0",
        "15m",
        "NotWatched.md",
        "The operator cannot list or watch the namespace {{ $labels.namespace }}",
        "Resources of this namespace are not reconciled; resources of other namespaces are.",
    ),
    Alert(
        "KafkaFeaturesUnreachable",
        _has_status(Condition.READY, "Unknown"),
        "15m",
        f"{Reason.UNREACHABLE}.md",
        f"The cluster of {RESOURCE} could not be read for 15 minutes",
        "The condition Reachable says why. The facts in the status are from the last successful read.",
    ),
    Alert(
        "KafkaFeaturesReconciliationsFailing",
        f"rate({_series('reconciliations_total', result='failed')}[15m]) > 0",
        "30m",
        f"{Reason.INTERNAL_ERROR}.md",
        "Reconciliations of the operator have been failing for half an hour",
        "The API server is unavailable or rejects requests, or there is a bug; the operator's log says which.",
    ),
    Alert(
        "KafkaFeaturesNotificationsFailing",
        f"rate({_series('notifications_total', result='failed')}[15m]) > 0",
        "30m",
        "NotificationsFailing.md",
        "Notifications of the operator have not been delivered for half an hour",
        "People are not notified when they have to act. The operator's log says why.",
    ),
    Alert(
        "KafkaFeaturesMigrationStuck",
        f"time() - {_series('migration_last_progress_timestamp_seconds')} > 3600",
        "1m",
        "MigrationStuck.md",
        f"The migration of {RESOURCE} from ZooKeeper has been between two phases without progress for an hour",
        "No node has changed its mode, and nodes may run in different modes. The condition Ready says what the "
        "migration waits for.",
    ),
    Alert(
        "KafkaFeaturesMigrationLag",
        f"{_series('migration_lag_records')} > 100",
        "15m",
        "MigrationLag.md",
        f"ZooKeeper is behind the metadata log of {RESOURCE}",
        "{{ $value }} records are not yet written to ZooKeeper; a rollback now would lose these changes.",
    ),
    Alert(
        "KafkaFeaturesNotRecorded",
        # Since then it was looked at (each minute also where a document or a Secret is not valid), and not recorded.
        f"{_series('last_success_timestamp_seconds')} - on (instance, namespace, name)"
        f" {_series('recorder_last_success_timestamp_seconds')} > 3600"
        # Never since the operator started: a metric that is there wherever it records says whether that is wanted.
        f" or ({_series('last_success_timestamp_seconds')}"
        f" unless on (instance, namespace, name) {_series('recorder_last_success_timestamp_seconds')})"
        f" and on (instance) {_series('recorder_held_bytes')}",
        "1h",
        "NotRecorded.md",
        f"The metadata log of {RESOURCE} is not recorded",
        "Recording is enabled. The operator's log says why it fails. After about a week Kafka removes the records.",
    ),
    Alert(
        "KafkaFeaturesRecordingGap",
        f"time() - {_series('recorder_last_gap_timestamp_seconds')} < 24 * 3600",
        "1m",
        "RecordingGap.md",
        f"The recorded metadata log of {RESOURCE} has a gap, or a new recording was begun",
        "Kafka removed records before they were recorded, or its metadata log contradicted the recording.",
    ),
    Alert(
        "KafkaFeaturesRecordingsFull",
        f"{_series('recorder_room_bytes')} < 128 * 1024 * 1024",
        "1h",
        "RecordingsFull.md",
        f"The room for the recorded metadata log of {RESOURCE} is nearly used up",
        "{{ $value | humanize1024 }}B can be recorded before the oldest segments are removed.",
        severity="info",  # limits are there to be reached
    ),
    Alert(
        "KafkaFeaturesOperatorDown",
        'absent(up{job="@JOB@",namespace="@NAMESPACE@"} == 1)',
        "10m",
        "OperatorDown.md",
        "The operator cannot be scraped",
        "Kafka is not affected, but its levels are not reconciled.",
    ),
)


def alerts() -> str:
    """The file with all alerts: one group of rules, as a PrometheusRule holds it."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.lasting,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.summary, "description": alert.description, "runbook_url": alert.runbook},
        }
        for alert in ALERTS
    ]
    group = {"name": "kafka-features-operator", "rules": rules}
    return "# made by `make docs`; do not edit\n" + yaml.safe_dump({"groups": [group]}, sort_keys=False, width=120)
