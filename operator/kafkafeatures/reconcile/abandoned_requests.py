"""Requests of this operator that wait on pods for another operator, and for which no resource waits any more.

Run by `app.py`. A resource withdraws its own requests (`withdrawals.py`), also when it is deleted; but not if no
operator ran then, nor if the API server refused it, nor if its status was lost. There is no finalizer for that:
`kubectl delete` would wait until the operator is back. Instead, pods are listed at start, and at an interval.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Any

from kafkafeatures.api.names import API_VERSION, PLURAL
from kafkafeatures.core.roll.drivers import DRIVERS, Driver
from kafkafeatures.environment import Environment
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.errors import Gone, KubeError, RequestRefused
from kafkafeatures.kube.workloads.adapters import adapter_of
from kafkafeatures.reconcile.queue import not_before
from kafkafeatures.reconcile.withdrawals import is_withdrawn

MALFORMED = (AttributeError, KeyError, TypeError)
"""Errors where a pod or a resource is not as Kubernetes writes one."""
REMEDY = "grant the rights of docs/how-to/install.md in it, or take it out of --request-namespace"
NOT_SERVED = "install the CustomResourceDefinition kafkafeatures.kafkafeatures.dev: until then no request is withdrawn"
RETRY_AFTER = 5.0
"""Seconds until a namespace is read again if the API server did not answer."""

logger = logging.getLogger(__name__)


class AbandonedRequests:
    """Withdraws the requests without a resource in some namespaces. `every`: seconds between lists of their pods."""

    def __init__(self, api: WorkloadsApi, namespaces: Iterable[str], environment: Environment, *, every: float) -> None:
        self._api, self._environment = api, environment
        self._namespaces, self._every = tuple(namespaces), every

    async def run(self) -> None:
        """Withdraw them again and again, until it is cancelled; return at once where no namespace is given."""
        while self._namespaces:
            pause = self._environment.jittered(self._every)
            for namespace in self._namespaces:
                pause = min(pause, await self._read(namespace))
            await self._environment.sleep(pause)

    async def _read(self, namespace: str) -> float:
        """Withdraw those of a namespace. Returns the seconds after which it is to be read again at the latest."""
        try:
            for driver in DRIVERS:
                if driver.asked:
                    await self._withdraw(driver, namespace)
        except (RequestRefused, Gone) as error:
            remedy = NOT_SERVED if isinstance(error, Gone) else REMEDY
            logger.warning("requests on pods of namespace %s could not be read: %s; %s", namespace, error, remedy)
        except MALFORMED as error:
            text = "a pod or a KafkaFeatures of namespace %s is not as Kubernetes writes one: %r"
            logger.warning(text, namespace, error)
        except KubeError as error:
            return not_before(RETRY_AFTER, error)
        return self._every

    async def _withdraw(self, driver: Driver, namespace: str) -> None:
        """Pods are read before resources: an intent is written before its request is sent, and ends after the pod."""
        adapter = adapter_of(driver)
        requests = await adapter.requests(self._api, namespace)
        awaited = await self._awaited(namespace) if requests else ()
        for request in requests:
            if request.pod_uid in awaited:
                continue
            labels = {"namespace": namespace}
            if is_withdrawn(request, await adapter.withdraw(self._api, namespace, request), labels):
                text = "withdrawn: the request to restart pod %s, for which no KafkaFeatures waits any more"
                logger.info(text, request.pod, extra=labels)

    async def _awaited(self, namespace: str) -> set[str]:
        """Uids of the pods that resources wait for. Not by `resources` of the API, which tells its next caller alone
        that etcd was restored.
        """
        path = f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}"
        async with aclosing(self._api.listed(path)) as listed:
            return {uid async for resource in listed for uid in _pods_of(resource)}


def _pods_of(resource: Mapping[str, Any]) -> Iterable[str]:
    """Uids of the pods in the intents of a resource. A status may have been edited to any form."""
    intents = (resource.get("status") or {}).get("intents")
    for intent in intents if isinstance(intents, list) else ():
        uid = intent.get("podUid") if isinstance(intent, Mapping) else None
        if isinstance(uid, str):
            yield uid
