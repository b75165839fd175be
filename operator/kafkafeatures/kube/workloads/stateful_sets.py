"""The StatefulSet driver: it reads a cluster's StatefulSets, pods and budgets, and asks for the eviction of one pod.

Imported by its name in `adapters.py`, for a resource whose document names StatefulSets. It judges nothing (`core/roll/`
does), watches nothing, and reads only in the namespace of the resource. Its only write is the eviction of a pod that
was read, by its uid: it never deletes a pod, never shortens its grace period, and never writes to a StatefulSet, which
Git may own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any, ClassVar

from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.engine.steps import Outcome
from kafkafeatures.core.facts.binaries import release_of
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.workloads import StatefulSet, WorkloadsReading
from kafkafeatures.core.ports import Withheld
from kafkafeatures.core.roll.drivers import Driver
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.kube.api import WorkloadsApi
from kafkafeatures.kube.errors import Gone
from kafkafeatures.kube.first_byte import withholding
from kafkafeatures.kube.workloads import budgets
from kafkafeatures.kube.workloads.adapters import Rival
from kafkafeatures.kube.workloads.answers import ListTooLarge, outcome_of, reading_of
from kafkafeatures.kube.workloads.pods import container_of, pod_of
from kafkafeatures.kube.workloads.rights import KubernetesRight
from kafkafeatures.kube.workloads.selectors import as_query
from kafkafeatures.kube.workloads.templates import ObjectReader, Template, Templates

RIGHTS = (
    KubernetesRight("apps", "statefulsets", "get"),
    KubernetesRight("", "pods", "list"),
    budgets.RIGHT,
    KubernetesRight("", "pods/eviction", "create"),
)
MOST_PODS = 2_000
"""Most pods of one cluster that are read. A selector that matches more is a mistake."""
AT_ONCE = 8
"""StatefulSets whose pods are read at the same time. With a slow API server, one after the other would take longer than
`FRESH` of `reconcile/last_second.py`; all at once would need memory for a page of pods of each.
"""
REMEDY = "name the namespace in the chart's value drivers.statefulSet, or grant the rights of docs/how-to/install.md"

Json = Mapping[str, Any]


class StatefulSets:
    """`WorkloadPort` for the StatefulSets of one document. `rival`: returns, for the name of a StatefulSet, the older
    resource that names it too; empty for none.
    """

    annotation: ClassVar[str] = ""
    """Annotation of a pod on which another operator restarts it; empty where pods are evicted."""

    def __init__(
        self,
        api: WorkloadsApi,
        namespace: str,
        rollout: Rollout,
        clock: Callable[[], datetime],
        rival: Rival = lambda name: "",
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._rollout = rollout
        self._clock = clock
        self._rival = rival

    async def read(self) -> WorkloadsReading | Failure:
        return await reading_of(self._read(), self._namespace, REMEDY)

    async def restart(self, step: RestartNode, withheld: Withheld) -> Outcome:
        with withholding(withheld):
            return await outcome_of(self.request(step), REMEDY)

    def request(self, step: RestartNode) -> Awaitable[None]:
        """Request the eviction of the pod with exactly this uid, with the pod's own grace period."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": self._namespace, "name": step.pod},
            "deleteOptions": {"preconditions": {"uid": step.pod_uid}},
        }
        path = f"/api/v1/namespaces/{self._namespace}/pods/{step.pod}/eviction"
        return self._api.send("POST", path, eviction)

    async def _read(self) -> WorkloadsReading:
        at = self._clock()
        labels: dict[str, Json] = {}
        slots = asyncio.Semaphore(AT_ONCE)
        roles = {"controllers": self._rollout.controllers, "brokers": self._rollout.brokers}
        sets = [
            (name, asyncio.ensure_future(self._stateful_set(name, role, labels, slots)))
            for role, names in roles.items()
            for name in names
        ]
        listed = asyncio.ensure_future(budgets.listed(self._api, self._namespace))
        # Wait for all. If several fail, the first in the order of the document is reported: always the same one.
        await asyncio.gather(*(reading for _, reading in sets), listed, return_exceptions=True)
        stateful_sets = [stateful_set for _, reading in sets if (stateful_set := reading.result()) is not None]
        missing = tuple(name for name, reading in sets if reading.result() is None)
        covering = budgets.covering(listed.result(), labels, stateful_sets) if labels else ()
        at = min(at, self._api.answered_at or at)  # see `WorkloadsReading.at`
        return WorkloadsReading(at, tuple(stateful_sets), covering, missing, self._namespace)

    async def _stateful_set(
        self, name: str, role: str, labels: dict[str, Json], slots: asyncio.Semaphore
    ) -> StatefulSet | None:
        """A StatefulSet with its pods; None where it does not exist or is being deleted. The labels of its pods are
        added to `labels`.
        """
        try:
            raw = await self._api.get(f"/apis/apps/v1/namespaces/{self._namespace}/statefulsets/{name}")
        except Gone:
            return None
        metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
        if metadata.get("deletionTimestamp"):
            return None
        pods = []
        query = {"labelSelector": as_query(spec["selector"])}
        async with slots, aclosing(self._api.listed(f"/api/v1/namespaces/{self._namespace}/pods", query)) as listed:
            async for pod in listed:
                if any(owner.get("uid") == metadata["uid"] for owner in pod["metadata"].get("ownerReferences") or ()):
                    pods.append(pod_of(pod, name, self._rollout.container, self.annotation))
                    labels[pod["metadata"]["name"]] = pod["metadata"].get("labels") or {}
                if len(labels) > MOST_PODS:
                    raise ListTooLarge(f"there are more than {MOST_PODS} pods of this cluster")
        template = spec["template"]
        container = container_of(template["spec"], self._rollout.container)
        template_metadata = template.get("metadata") or {}
        image = str(container.get("image") or "")
        return StatefulSet(
            name=name,
            uid=str(metadata["uid"]),
            role=role,
            replicas=int(spec.get("replicas", 1)),
            update_revision=str(status.get("updateRevision") or ""),
            update_strategy=str((spec.get("updateStrategy") or {}).get("type") or "RollingUpdate"),
            observed=int(status.get("observedGeneration") or 0) >= int(metadata.get("generation") or 0),
            image=image,
            release=release_of(
                template_metadata.get("labels") or {}, template_metadata.get("annotations") or {}, image
            ),
            conflict=_controller_of(metadata) or self._rival(name),
            grace_seconds=int(template["spec"].get("terminationGracePeriodSeconds", 30)),
            labels=dict(spec["selector"].get("matchLabels") or {}),
            pods=tuple(sorted(pods, key=lambda pod: pod.name)),
            is_ordered=spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady",
            first_ordinal=int((spec.get("ordinals") or {}).get("start") or 0),
        )


def templates(objects: ObjectReader, driver: Driver, spec: Mapping[str, Any]) -> Templates:
    """Templates of the StatefulSets that the document names."""
    documents = {name: objects.object_of(("statefulsets", "apps"), "apps/v1", name) for name in driver.names_in(spec)}
    return {name: None if raw is None else _template(raw) for name, raw in documents.items()}


def _template(raw: Json) -> Template:
    status = raw.get("status") or {}
    is_current = int(status.get("observedGeneration") or 0) >= int(raw["metadata"].get("generation") or 0)
    return Template(str(status.get("updateRevision") or "") if is_current else "", int(raw["spec"].get("replicas", 1)))


def _controller_of(metadata: Json) -> str:
    """The controller that owns the StatefulSet, such as another operator, which may restart its pods too; empty for
    none.
    """
    owner = next(
        (reference for reference in metadata.get("ownerReferences") or () if reference.get("controller")), None
    )
    return f"{owner['kind']} {owner['name']} ({owner['apiVersion'].partition('/')[0]})" if owner else ""


open_port = StatefulSets  # the function of this name that `Adapter` of `adapters.py` asks of a driver's module
