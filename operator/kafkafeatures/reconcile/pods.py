"""The pods of one resource: read for a reconciliation, and compared with that while the resource is at rest.

Called by `reconcile/controller.py`. A new image changes neither the generation of a KafkaFeatures resource nor the
metadata log; only the StatefulSets show it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.engine.steps import NotSent, Outcome
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.ports import Withheld, WorkloadPort
from kafkafeatures.core.roll.drivers import asking_driver, driver_of
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.workloads.adapters import Rival, adapter_of


class Pods:
    """`WorkloadPort` that remembers its last reading."""

    def __init__(self, port: WorkloadPort) -> None:
        self._port = port
        self._last: WorkloadsReading | Failure | None = None

    async def read(self) -> WorkloadsReading | Failure:
        """Read the pods at this moment."""
        self._last = await self._port.read()
        return self._last

    async def restart(self, step: RestartNode, withheld: Withheld) -> Outcome:
        """Have the port restart this pod."""
        return await self._port.restart(step, withheld)

    async def are_as_before(self) -> bool:
        """Tell whether a new reading equals the last one; False also where one of them failed."""
        previous = self._last
        current = await self._port.read()
        if isinstance(previous, WorkloadsReading) and isinstance(current, WorkloadsReading):
            return replace(current, at=previous.at) == previous  # the times of the readings differ always
        return False


async def withdraw(api: WorkloadsApi, namespace: str, step: RestartNode) -> Outcome:
    """Take back a request that waits on a pod for another operator, whatever driver the document names by now. The
    outcome is Applied also if that pod is gone.
    """
    driver = asking_driver(step.by)
    if driver is None:
        return NotSent(f"a request by {step.by or 'eviction'} cannot be withdrawn")
    return await adapter_of(driver).withdraw(api, namespace, step)


def pods_of(
    api: WorkloadsApi, namespace: str, rollout: Rollout, clock: Callable[[], datetime], rival: Rival
) -> Pods | None:
    """Port to the pods that a document names, through its driver; None for a driver that reads no pods."""
    driver = driver_of(rollout)
    return Pods(adapter_of(driver).open_port(api, namespace, rollout, clock, rival)) if driver.reads_pods else None
