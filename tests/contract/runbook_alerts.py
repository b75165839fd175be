"""What the runbooks say of alerts that no condition explains: the operator itself, and its recordings.

As `runbook_texts.py` does for reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.contract.runbook_marks import Page, page


@dataclass(frozen=True)
class AlertPage:
    """`outcome`: what becomes of it if no action is taken."""

    outcome: str
    meaning: str
    page: Page


_OPERATOR_DOWN = page(
    r"""
    Safe: Kafka is not affected. After its restart the operator finds the outcome of a change in progress by
    reading the level.

    Confirm:

        kubectl get pods -n OPERATOR-NS -l app.kubernetes.io/name=kafka-features-operator
        kubectl logs -n OPERATOR-NS deploy/kafka-features-operator --previous

    Fix: If the pod does not start, `kubectl describe pod` says why. If it runs but is not ready,
    it can list and watch none of its namespaces; `/readyz` and the log name them: check the CRD, the
    namespaces and the rights there ([install](../how-to/install.md)). If it runs but is not scraped,
    check the ServiceMonitor and network policies.
    """
)
_NOT_RECORDED = page(
    r"""
    Safe: Kafka and reconciliations are not affected, and what was recorded stays. Kafka keeps its metadata log
    for about a week (`metadata.max.retention.ms`, `metadata.max.retention.bytes`): until then nothing is lost, and
    the recorder continues where its files end.

    Confirm: The log of the operator says why, once for each resource until the reason changes:

        kubectl logs -n OPERATOR-NS deploy/kafka-features-operator | grep 'metadata log is'

    The reason is in parentheses; `kafkafeatures_recorder_failures_total{reason=...}` counts how often.

    Fix: The recorder tries again with each look at the cluster (`spec.drift.checkEvery`, at most once a minute), so
    except for a volume that hangs it needs no restart.

    - `hangs`: the volume did not answer for five minutes, as network storage may. Once it answers, the recorder
      continues; if it does not, repair the storage and delete the operator's pod.
    - `disk`: the volume is read-only, inaccessible, or not writable for the user of the pod. `kubectl describe pvc` and
      the storage say why. Its group is `recorder.fsGroup`; a `hostPath` or NFS folder has to belong to user 65532.
    - `limit`: nothing may be removed to make room. Raise `recorder.perCluster`, `recorder.allClusters` or the size of
      the claim; or, if the line in the log says so, remove recordings that contradict each other.
    - `unread`: the operator does not follow the log. Its Ready or Reachable condition says why if the cluster cannot be
      read; if `status.source` is `ApiRequests`, the user needs `CLUSTER_ACTION` and a controller that can be
      reached (<connect>).
    - `kafka`, `log`: the leader does not answer as it should; see its own log.
    - `busy`: another operator records the same resource in the same folder, or its file system keeps a lock of a client
      that is gone.
    - `refused`: the cluster id cannot be the name of a folder; Kafka does not make such ids.
    - `bug`: report it with this line of the log, which contains no secrets.

    A resource that is suspended is recorded like any other, and one that is looked at every few hours only as seldom
    as that; a cluster in ZooKeeper mode has no such log. None of the three is a reason for this alert. Nothing is
    recorded of a resource whose document or Secret is not valid: see its conditions. Silence the alert for a resource
    that needs no history.
    """
)
_RECORDING_GAP = page(
    r"""
    Safe: Nothing that was recorded is changed, and recording continues: behind a gap with a snapshot of the
    whole state, so that what was true is known again from there on. Only the history in between is missing.

    Confirm: Behind a gap a segment begins at its true offset:

        kafkafeatures log verify RECORDING

    A log that contradicts what was recorded lies in a folder of its own beside it, whose name ends with `_1`, `_2`, ...
    The operator's log says which offset contradicts.

    Fix: The operator, its volume or the cluster was away for longer than Kafka keeps the log: see that
    KafkaFeaturesNotRecorded reaches you within that time, or raise `metadata.max.retention.ms` of the controllers. What
    is missing may still be in the log directories of other controllers, or in their backups: copy them into the same
    folder (that of the cluster id), and the pipeline merges them.

    After an unclean election, or where a cluster was made anew under its id, a contradiction needs no action.
    """
)
_RECORDINGS_FULL = page(
    r"""
    Safe: Recording continues. The oldest segments are removed to make room, and only where a snapshot lies
    behind them, with which readers can begin. What is removed cannot be had back from Kafka.

    Confirm: `kafkafeatures_recorder_room_bytes` is what can be recorded before that; an idle cluster
    writes about 12 MB a day. `kafkafeatures_recorder_removed_bytes_total` counts what was removed since the operator
    was started, and `kafkafeatures_recorder_held_bytes` is what all recordings take.

    Fix: If the history is as long as you need, silence the alert: to be at a limit is harmless. If not, raise
    `recorder.perCluster`, or `recorder.allClusters` and the claim (1Gi above it), or copy the oldest closed segments
    (`*.log`, with all `*.checkpoint`) to another place first.
    """
)

_MIGRATION_STUCK = page(
    r"""
    Safe: Nothing is restarted beside the next step of the migration, and no level is changed. Until the phase is
    `Finalizing` there is a way back, and `status.wayBack` says how.

    Confirm: The condition Ready says what is waited for, and the plan which steps are left:

        kubectl kafkafeatures status NAME -n NS
        kubectl kafkafeatures plan NAME -n NS

    `status.migration.brokers` says how many brokers run in which mode.

    Fix: By the reason of Ready:

    - `WaitingForGit`: a setting is still to be changed in Git; the message names node and line
      ([WaitingForGit](WaitingForGit.md)).
    - `RollingNodes`: a person was asked to restart a node, or a node has not come back: look at its log.
    - `Migrating`: it is not known where the cluster is. The message says what could not be read.
    - `Suspended`, `WaitingForWindow`: it was asked to wait. A cluster should not wait between two phases for days: each
      restart that is left is one more with nodes in two modes.
    - Stalled: see the runbook of its reason.

    The hour begins anew when the operator is restarted.
    """
)
_MIGRATION_LAG = page(
    r"""
    Safe: Brokers and clients are not affected: the metadata log is what counts. Only the way back is: what is not
    written to ZooKeeper would be lost. The operator does not finalize a migration while ZooKeeper is more than 10 s
    behind.

    Confirm: `status.migration.lagRecords` is how many records; the log of the active controller says what it writes, or
    why it cannot:

        kubectl kafkafeatures status NAME -n NS

    Fix:

    - ZooKeeper without a majority, or slow: repair the ensemble (`zkServer.sh status` on each of its nodes). The
      controller continues by itself once it can write.
    - The active controller logs errors of `KRaftMigrationDriver` or `KRaftMigrationZkWriter`: restart it. The next one
      writes all metadata to ZooKeeper again.
    - Very many changes at once (thousands of topics created or deleted): wait; it is over once the lag falls.

    Then compare: `kafkafeatures migration compare`, and see [MetadataDiffers](MetadataDiffers.md).
    """
)

_NOT_WATCHED = page(
    r"""
    Safe: No level is changed and no node is restarted for resources of that namespace. Those of other namespaces are
    reconciled as before.

    Confirm: The operator's log says why it cannot list or watch it, once until the reason changes:

        kubectl logs -n OPERATOR-NS deploy/kafka-features-operator | grep 'NS'

    Fix: If the namespace is gone, remove it from `watchNamespaces`. If the operator may not list or watch there, check
    the Role and its RoleBinding ([install](../how-to/install.md)). It tries again every few seconds, without a restart.
    """
)
_WAITING = page(
    r"""
    Safe: What the resource waits for passes by itself; nothing is begun before it has.

    Confirm: The condition Ready says what is waited for and since when, and the plan which steps are left:

        kubectl kafkafeatures status NAME -n NS

    Fix: By the reason of Ready:

    - `Soaking`, `WaitingForWindow`: it was asked to wait (`spec.features.finalizeAfter`, `spec.rollout.windows`).
      Silence the alert for this resource if a wait of days is meant.
    - `RestartRequested`, `WaitingForGit`: a person, or Git, is asked for something; see their pages.
    - `RollingNodes`, `WaitingForQuorum`: a node has not come back, or a controller does not vote: see its log.
    - `WaitingForBudget`: other clusters are rolled first; raise `maxPartitionImages`.
    """
)

OF_ALERTS: Mapping[str, AlertPage] = {
    "OperatorDown": AlertPage(
        "Action required", "the metrics endpoint of the operator does not answer", _OPERATOR_DOWN
    ),
    "NotWatched": AlertPage(
        "Action required", "for 15 minutes a namespace could not be listed or watched", _NOT_WATCHED
    ),
    "Waiting": AlertPage(
        "Resolves automatically",
        "a resource has not been ready for a day; it is not stalled, suspended or waiting for an approval",
        _WAITING,
    ),
    "MigrationStuck": AlertPage(
        "Action required",
        "a migration from ZooKeeper is between two phases at which it can stay (`Migrating`, `Finalizing`, "
        "`RollingBack`), and for an hour no node has changed its mode",
        _MIGRATION_STUCK,
    ),
    "MigrationLag": AlertPage(
        "Resolves automatically once ZooKeeper can be written",
        "for 15 minutes more than 100 records of the metadata log were not written to ZooKeeper",
        _MIGRATION_LAG,
    ),
    "NotRecorded": AlertPage(
        "Action required",
        "the recorder is enabled, and the operator looked at the cluster, but for hours it did not write all of its "
        "metadata log to the volume",
        _NOT_RECORDED,
    ),
    "RecordingGap": AlertPage(
        "Recording continues",
        "records of the metadata log were lost before they were recorded, or the log contradicts what was recorded",
        _RECORDING_GAP,
    ),
    "RecordingsFull": AlertPage(
        "Recording continues",
        "a limit of the recordings, or the end of the volume's free space, is near or reached",
        _RECORDINGS_FULL,
    ),
}
"""By the name of the page."""
