"""A process that follows a cluster and records its log, as the operator does: run by test_recorded_logs.py, and killed.

    python -m tests.e2e.kafka.recording HOST:PORT,... CLUSTER_ID FOLDER CLOSE_AT

It looks without a pause.
"""

from __future__ import annotations

import asyncio
import sys

from kafkafeatures.api.status import Status
from kafkafeatures.core.facts.readings import LogReading
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.recorder import recorder, recordings
from kafkafeatures.kafka.recorder.recordings import RecorderSettings
from kafkafeatures.metrics import Metrics

RESOURCE = ("kafka", "orders")


async def main(controllers: str, cluster_id: str, folder: str, close_at: str) -> None:
    recorder.EVERY, recordings.CLOSE_AT = 0.0, int(close_at)
    recording = recorder.LogRecorder(
        RecorderSettings(folder), Metrics(environment=SYSTEM).of_recorder(), environment=SYSTEM
    )
    settings = ClusterSettings(bootstrap_controllers=parse_addresses(controllers, ""), request_timeout=5.0)
    async with Cluster(settings, environment=SYSTEM) as cluster:
        while True:
            seen = await cluster.unchanged()
            if not seen:
                seen = isinstance((await cluster.read()).log, LogReading)
            if seen:
                recording.saw(RESOURCE, cluster, Status(cluster_id=cluster_id))
                turns = [one for one in asyncio.all_tasks() if one.get_name().startswith("record ")]
                await asyncio.gather(*turns)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
