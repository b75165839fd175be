"""Texts of the runbooks for alerts that no reason of a condition explains: about the operator itself, its recordings,
waits and migrations. `runbook_texts.py` has those for reasons. `runbooks.py` makes the pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from docs.make.runbook_marks import Page, page


@dataclass(frozen=True)
class AlertPage:
    """The texts of a page. `outcome`: what happens if no action is taken. `meaning`: when the alert fires."""

    outcome: str
    meaning: str
    page: Page


_OPERATOR_DOWN = page(
    r"""
    Safe: Kafka is not affected. If a change is in progress, the operator finds its outcome after the restart by reading
    the level.

    Confirm:

        kubectl get pods -n OPERATOR-NS -l app.kubernetes.io/name=kafka-features-operator
        kubectl logs -n OPERATOR-NS deploy/kafka-features-operator --previous

    Fix: By the state of the pod:

    - The pod does not start: `kubectl describe pod` says why.
    - The pod runs but is not ready: the operator can list and watch none of its namespaces; `/readyz` and the log name
      them. Check the CRD, the namespaces, and the operator's rights in them ([install](../how-to/install.md)).
    - The pod is ready but Prometheus does not scrape it: check the ServiceMonitor and network policies.
    """
)
_NOT_RECORDED = page(
    r"""
    Safe: Kafka and reconciliations are not affected, and existing recordings stay. Kafka keeps its metadata log for
    about a week (`metadata.max.retention.ms`, `metadata.max.retention.bytes`). Nothing is lost before that, and the
    recorder continues at the end of its files.

    Confirm: The operator logs the cause once for each resource, and again when the cause changes:

        kubectl logs -n OPERATOR-NS deploy/kafka-features-operator | grep 'metadata log is'

    The cause is in parentheses. `kafkafeatures_recorder_failures_total{reason=...}` counts how often it occurred.

    Fix: By cause. The recorder tries again each time the operator looks at the cluster (`spec.drift.checkEvery`, at
    most once a minute), so it needs no restart unless its volume hangs.

    - `hangs`: the volume has not answered for five minutes, for example because network storage is down. The recorder
      continues once the volume answers. Otherwise repair the storage, and delete the operator's pod.
    - `disk`: the volume is read-only, inaccessible, or not writable for the user of the pod. `kubectl describe pvc` and
      the storage system say why. The group of the volume is `recorder.fsGroup`; a `hostPath` or NFS folder has to
      belong to user 65532.
    - `limit`: a limit is reached, and the recorder may remove nothing to make room. Raise `recorder.perCluster`,
      `recorder.allClusters` or the size of the claim. If the log line says so, remove recordings that contradict each
      other.
    - `unread`: the operator does not follow the metadata log. If it cannot read the cluster, the condition Ready or
      Reachable says why. If `status.source` is `ApiRequests`, the user needs `CLUSTER_ACTION`, and the operator has to
      reach a controller (<connect>).
    - `kafka`, `log`: the leader does not answer as it should. See the log of the leader.
    - `busy`: another operator records the same resource in the same folder, or the file system keeps the lock of a
      client that is gone.
    - `refused`: the cluster id cannot be the name of a folder. Kafka does not make such ids.
    - `bug`: report it with this log line, which contains no secrets.

    Nothing is recorded while the document or a Secret of the resource is not valid: see its conditions. If the resource
    needs no history, silence the alert for it.

    Being suspended does not cause this alert, because a suspended resource is recorded like any other. Neither does
    a long `spec.drift.checkEvery`, or ZooKeeper mode, in which a cluster has no metadata log.
    """
)
_RECORDING_GAP = page(
    r"""
    Safe: Existing recordings do not change, and recording continues. After a gap it continues with a snapshot of the
    whole state, so the state is known again from there on. Only the history inside the gap is missing.

    Confirm: After a gap, the next segment begins at its true offset:

        kafkafeatures log verify RECORDING

    If the metadata log contradicted the recording, the recorder began a new folder beside the old one. Its name ends
    with `_1`, `_2`, and so on. The operator's log says at which offset the two contradict each other.

    Fix: For a gap: the operator, its volume or the cluster was away for longer than Kafka keeps the log.

    - To restore the missing history: it may still be in the log directories of other controllers, or in their backups.
      Copy them into the same folder (that of the cluster id). The pipeline merges them.
    - To prevent the next gap: make sure that KafkaFeaturesNotRecorded reaches you within the retention time, or raise
      `metadata.max.retention.ms` of the controllers.

    A contradiction needs no action after an unclean election, or if the cluster was re-created with the same id.
    """
)
_RECORDINGS_FULL = page(
    r"""
    Safe: Recording continues. To make room, the recorder removes the oldest segments, but only those that are followed
    by a snapshot from which readers can begin. Kafka no longer has the removed records.

    Confirm: Look at these metrics:

    - `kafkafeatures_recorder_room_bytes`: how much can be recorded before segments are removed. An idle cluster writes
      about 12 MB a day.
    - `kafkafeatures_recorder_removed_bytes_total`: how much has been removed since the operator started.
    - `kafkafeatures_recorder_held_bytes`: the size of all recordings.

    Fix: If the history is as long as you need, silence the alert: reaching a limit is harmless. If you need more:

    - Raise `recorder.perCluster`, or `recorder.allClusters` and the size of the claim (1Gi above it).
    - Or first copy the oldest closed segments (`*.log`, with all `*.checkpoint`) to another place.
    """
)

_MIGRATION_STUCK = page(
    r"""
    Safe: The operator restarts only nodes of the next migration step, and changes no level. Until the phase is
    `Finalizing` there is a way back; `status.wayBack` describes it.

    Confirm: The condition Ready says what the migration waits for, and the plan shows the remaining steps:

        kafkafeatures status NAME -n NS
        kafkafeatures plan NAME -n NS

    `status.migration.brokers` says how many brokers run in each mode.

    Fix: By the reason of Ready:

    - `WaitingForGit`: a setting has to be changed in Git. The message names the node and the line
      ([WaitingForGit](WaitingForGit.md)).
    - `RollingNodes`: you were asked to restart a node, or a node has not come back. See the log of that node.
    - `Migrating`: the operator does not know in which phase the cluster is. The message says what it could not read.
    - `Suspended`, `WaitingForWindow`: the resource is suspended, or no window is open. Do not leave a cluster between
      two phases for days, because its nodes then run in two modes.
    - If the resource is stalled: see the runbook of the reason of Stalled.

    The hour starts again when the operator restarts.
    """
)
_MIGRATION_LAG = page(
    r"""
    Safe: Brokers and clients are not affected, because the metadata log is authoritative. But a rollback would lose
    the changes that are not yet in ZooKeeper. The operator does not finalize a migration while ZooKeeper is more than
    10 s behind.

    Confirm: `status.migration.lagRecords` is the number of records that ZooKeeper is behind:

        kafkafeatures status NAME -n NS

    The log of the active controller shows what it writes to ZooKeeper, or why it cannot.

    Fix: By cause:

    - ZooKeeper has no majority, or is slow: repair the ensemble (`zkServer.sh status` on each of its nodes). The
      controller continues automatically once it can write.
    - The active controller logs errors of `KRaftMigrationDriver` or `KRaftMigrationZkWriter`: restart it. The next
      active controller writes all metadata to ZooKeeper again.
    - Many changes at once (thousands of topics created or deleted): wait until the lag falls.

    Then compare the two, and see [MetadataDiffers](MetadataDiffers.md):

        kafkafeatures migration compare --bootstrap-server HOST:PORT \
          --bootstrap-controller HOST:PORT --zookeeper HOST:PORT/CHROOT
    """
)

_NOT_WATCHED = page(
    r"""
    Safe: The operator changes no level and restarts no node for resources of that namespace. It reconciles resources of
    other namespaces as before.

    Confirm: The operator logs once why it cannot list or watch the namespace, and again when the cause changes:

        kubectl logs -n OPERATOR-NS deploy/kafka-features-operator | grep 'NS'

    Fix: By cause. The operator tries again every few seconds and needs no restart.

    - The namespace is gone: remove it from `watchNamespaces`.
    - The operator is not allowed to list or watch there: check the Role and its RoleBinding
      ([install](../how-to/install.md)).
    """
)
_WAITING = page(
    r"""
    Safe: The operator starts no step until the wait is over.

    Confirm: The condition Ready says what the resource waits for and since when, and the plan shows the remaining
    steps:

        kafkafeatures status NAME -n NS

    Fix: By the reason of Ready:

    - `Soaking`, `WaitingForWindow`: the document tells the operator to wait (`spec.features.finalizeAfter`,
      `spec.rollout.windows`). If you want a wait of days, silence the alert for this resource.
    - `WaitingForGit`: you have to make a change in Git. See [WaitingForGit](WaitingForGit.md).
    - `RollingNodes`, `WaitingForQuorum`: a node has not come back, or a controller does not vote. See the log of that
      node. With the driver Manual you may have to restart a node: see [RestartRequested](RestartRequested.md).
    - `WaitingForNodes`: a node runs an older Kafka. Upgrade it.
    - `WaitingForBudget`: a PodDisruptionBudget allows no eviction now, or the operator restarts nodes of other clusters
      first. In the second case you can raise `maxPartitionImages`.
    """
)

_NOTIFICATIONS_FAILING = page(
    r"""
    Safe: Kafka and reconciliations are not affected. The operator repeats each notification, at last every
    5 minutes, until it is delivered or no longer applies.

    Confirm: The operator logs the cause at the first failure, and the first delivery after it:

        kubectl logs -n OPERATOR-NS deploy/kafka-features-operator | grep notification

    Until this is repaired, list what waits for a person:

        kubectl get kafkafeatures -A

    Fix: By cause. The operator reads the URL again for each request and needs no restart.

    - `cannot read`, `invalid URL`: create the Secret that `notifications.secret` names in the namespace of the
      operator, with the URL in that key ([be notified](../how-to/be-notified.md)). kubelet takes about a minute to show
      it to the pod.
    - `HTTP 4xx`: the receiver does not accept the URL or the format. Check both; a webhook may have been removed.
    - `does not resolve`, `cannot be reached`, `does not answer`: check the receiver, and whether a NetworkPolicy or a
      proxy is between (`HTTPS_PROXY` in `extraEnv`).
    - `the certificate of the webhook is not trusted`: mount your CA (`volumes`, `volumeMounts`), and set
      `SSL_CERT_FILE` in `extraEnv`.

    What still applies is delivered within 5 minutes.
    """
)

OF_ALERTS: Mapping[str, AlertPage] = {
    "OperatorDown": AlertPage(
        "Action required", "Prometheus has not been able to scrape the operator for 10 minutes", _OPERATOR_DOWN
    ),
    "NotWatched": AlertPage(
        "Action required", "the operator has not been able to list or watch a namespace for 15 minutes", _NOT_WATCHED
    ),
    "NotificationsFailing": AlertPage(
        "Action required", "notifications have been failing for half an hour", _NOTIFICATIONS_FAILING
    ),
    "Waiting": AlertPage(
        "Usually resolves automatically",
        "a resource has not been ready for a day; it is not stalled, suspended or waiting for an approval",
        _WAITING,
    ),
    "MigrationStuck": AlertPage(
        "Action required",
        "a migration from ZooKeeper is in a phase in which a cluster should not stay (`Migrating`, `Finalizing` "
        "or `RollingBack`), and no node has changed its mode for an hour",
        _MIGRATION_STUCK,
    ),
    "MigrationLag": AlertPage(
        "Resolves automatically once the active controller can write to ZooKeeper",
        "for 15 minutes, ZooKeeper has been more than 100 records behind the metadata log",
        _MIGRATION_LAG,
    ),
    "NotRecorded": AlertPage(
        "Action required",
        "the recorder is enabled, and the operator reads the cluster, but for hours the recorder has not written the "
        "whole metadata log to the volume",
        _NOT_RECORDED,
    ),
    "RecordingGap": AlertPage(
        "Recording continues",
        "Kafka removed records of the metadata log before they were recorded, or the log contradicts the recording",
        _RECORDING_GAP,
    ),
    "RecordingsFull": AlertPage(
        "Recording continues",
        "the recordings are close to a limit, or the volume is nearly full",
        _RECORDINGS_FULL,
    ),
}
"""By the name of the page."""
