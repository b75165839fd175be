"""Interface of the Kubernetes side of a driver, and the function that imports it by its name.

Called by `reconcile/pods.py`, `reconcile/abandoned_requests.py` and `cli/kube/driver_rights.py`. `Driver.adapter` in
`core/roll/drivers.py` is the name of the driver's module in this package, so that one line registers both sides of a
driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol, cast

from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.engine.steps import Outcome
from kafkafeatures.core.ports import WorkloadPort
from kafkafeatures.core.roll.drivers import Driver
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.workloads.requests import RequestedPod
from kafkafeatures.kube.workloads.rights import KubernetesRight
from kafkafeatures.kube.workloads.templates import ObjectReader, Templates

Rival = Callable[[str], str]
"""Function that returns, for a name of `Driver.names_in`, the older resource that names it too; empty for none."""


class Adapter(Protocol):
    """Interface of a driver's module in this package."""

    RIGHTS: tuple[KubernetesRight, ...]
    """The requests that the driver sends to the API server, in the namespace of the resource."""

    def open_port(
        self, api: WorkloadsApi, namespace: str, rollout: Rollout, clock: Callable[[], datetime], rival: Rival
    ) -> WorkloadPort:
        """The port to the pods that one document names."""

    async def requests(self, api: WorkloadsApi, namespace: str) -> list[RequestedPod]:
        """Pods of the namespace on which a request of this operator waits for another one; only of a driver with
        `Driver.asked`. Raises KubeError.
        """

    async def withdraw(self, api: WorkloadsApi, namespace: str, step: RestartNode | RequestedPod) -> Outcome:
        """Withdraw a request that waits on exactly this pod for another operator (`Pod.restart_pending`); only of a
        driver with `Driver.asked`. The outcome is Applied also if that pod is gone, or if a person has made the
        request too, whose own it then stays.
        """

    def templates(self, objects: ObjectReader, driver: Driver, spec: Mapping[str, Any]) -> Templates:
        """The present sets of pods of a document. `spec`: of any form; the driver reads it."""


def adapter_of(driver: Driver) -> Adapter:
    """The module of a driver; only for a driver that reads pods."""
    return cast(Adapter, import_module(f"{__package__}.{driver.adapter}"))
