"""Reads the history of a roll from the cluster's metadata log, for `report`.

The operator stores none of this: Kafka's own log has it, for as long as controllers keep records. Called by
`report.py`. If the log cannot be read, the result is a text with the reason, and the report is made without it.
"""

from __future__ import annotations

from datetime import datetime

from kafkafeatures.cli.cluster.connect import cluster_of, on_cluster
from kafkafeatures.cli.pages.roll import MAX_STRIPS
from kafkafeatures.cli.shell.exit_codes import CommandFailed
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.kafka.base.settings import ClusterSettings
from kraftlog.rolls import RollHistory, RollReader


def read_roll(settings: ClusterSettings, cluster_id: str, since: datetime) -> RollHistory | str:
    """Restarts and levels from the metadata log since a time, or the reason why it was not read. An empty `cluster_id`
    accepts any cluster.
    """
    try:
        history = on_cluster(_read(settings, cluster_id, since))
    except CommandFailed as failed:
        return str(failed)
    return str(history) if isinstance(history, Failure) else history


async def _read(settings: ClusterSettings, cluster_id: str, since: datetime) -> RollHistory | Failure:
    async with cluster_of(settings) as cluster:
        readings = await cluster.read()
        probed_id = readings.probe.cluster_id
        if isinstance(probed_id, Failure):
            return probed_id
        if cluster_id and probed_id != cluster_id:
            text = f"connected to cluster {probed_id}, expected {cluster_id}"
            return Failure(FailureKind.WRONG_CLUSTER, "metadata log", text, "use the addresses of that cluster")
        if isinstance(readings.log, Failure):
            return readings.log
        minimum = await cluster.default_min_insync_replicas()
        reader = RollReader(
            since_ms=int(since.timestamp() * 1000), default_minimum=None if isinstance(minimum, Failure) else minimum
        )
        failure = await cluster.read_history(reader)
        if failure is not None:
            return failure
        history = reader.finish(MAX_STRIPS)
        if history.unreadable:
            text = f"{history.unreadable} of its records are unknown to this version"
            return Failure(FailureKind.UNSUPPORTED, "metadata log", text, "use a newer version of this tool")
        return settings.controllers.secrets.removed_from(history)
