"""A cluster as it is read, where it is not there at all."""

from __future__ import annotations

import asyncio

import pytest

from kafkafeatures.core.observe import ClusterUnreachable, observe
from kafkafeatures.core.readings import Failure
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.settings import Address, ClusterSettings

NOBODY = Address("127.0.0.1", 1)


async def test_where_nobody_answers_the_log_is_not_waited_for() -> None:
    """Its reader would look for a leader as long as a request may take: there may be an election."""
    settings = ClusterSettings((NOBODY,), (NOBODY,), request_timeout=300)
    async with asyncio.timeout(60), Cluster(settings) as cluster:
        readings = await cluster.read()
    assert isinstance(readings.log, Failure)
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1: connection refused"):
        observe(readings.probe, readings.log)
