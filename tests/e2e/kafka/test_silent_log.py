"""A metadata log without records that are written periodically: the leader's clock shows how much time has passed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST, OLD

SILENT = {"metadata.max.idle.interval.ms": "0"}


def read(cluster: Cluster) -> Observation:
    async def once() -> Observation:
        servers = parse_addresses(cluster.bootstrap_servers, "")
        controllers = parse_addresses(cluster.bootstrap_controllers, "")
        settings = ClusterSettings(bootstrap_servers=servers, bootstrap_controllers=controllers)
        async with Client(settings, environment=Environment()) as client:
            return observe(*await client.read())

    return asyncio.run(once())


@pytest.mark.parametrize("release", [OLD, NEWEST])
def test_the_time_of_the_log_advances_while_the_active_controller_writes_no_record(
    release: str, tmp_path: Path
) -> None:
    with Cluster(tmp_path, release, controllers=1, brokers=1, properties=SILENT) as cluster:
        readings: list[Observation] = []

        def is_silent() -> bool:
            readings.append(read(cluster))
            return len(readings) > 2 and len({reading.source.offset for reading in readings[-3:]}) == 1

        wait_until("the log is silent", is_silent, step=1.0)
        first, _, last = readings[-3:]
        before, after = first.last_registration, last.last_registration
        assert before is not None
        assert after is not None
        assert after.offset == before.offset
        passed = (after.read_at - before.read_at).total_seconds()
        assert abs(passed - (last.at - first.at).total_seconds()) < 1.0
        assert passed > 1.0
        assert abs((after.at - before.at).total_seconds()) < 1.0
        assert first.returns is not None
        assert last.returns is not None
        assert first.returns.read_at < last.returns.read_at
