"""What a new start with many resources costs the operator itself: neither HTTP nor Kopf, all else in one process.

Processor time, so that it can be measured also where other programs run.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from kafkafeatures import app
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.wire.addresses import NEVER, AddressPolicy
from kafkafeatures.settings import OperatorSettings
from tests.e2e.kubernetes.simulated_operator import Cluster
from tests.simulated.kubernetes import ApiServer
from tests.simulated.requests import Fault, Request

NAMESPACE = "bench"


def new_start(count: int) -> None:
    """Resources that are raised by a first process; then a second one, for which the clusters are as before that."""
    server = ApiServer()
    for number in range(count):
        cluster = {"bootstrapServers": f"simulated:{number + 1}"}
        levels = [{"name": "metadata.version", "level": 27}]
        server.create(NAMESPACE, f"many-{number:04}", {"cluster": cluster, "features": {"levels": levels}})
    for what, status in (("raised", "True"), ("a new start until each has its status", "")):
        asked: Counter[str] = Counter()
        used = asyncio.run(_life(server, count, status, asked))
        requests = ", ".join(f"{times} {method}" for method, times in asked.most_common())
        print(f"{count} resources in memory, {what}: {used:.1f} s of processor time; {requests}")


async def _life(server: ApiServer, count: int, ready: str, asked: Counter[str]) -> float:
    """Seconds. `ready`: the status of the condition that all have at the end; empty for any."""

    def heard(request: Request) -> Fault | None:
        asked[request.method] += 1
        return None

    began = time.process_time()
    policy = AddressPolicy(NEVER, (), None)
    operator = app.Operator(server.client(heard), Cluster, SYSTEM, OperatorSettings(), policy)
    running = asyncio.create_task(operator.run())
    while _conditions(operator, ready) < count:  # noqa: ASYNC110 - metrics have no event
        await asyncio.sleep(0.5)
    used = time.process_time() - began
    await operator.end()
    await running
    return used


def _conditions(operator: app.Operator, status: str) -> int:
    samples = (one for family in operator.health.metrics.collect() for one in family.samples)
    ready = (one for one in samples if one.name == "kafkafeatures_condition" and one.labels["type"] == "Ready")
    return int(sum(one.value for one in ready if not status or one.labels["status"] == status))
