"""What the operator asks of an API server, as a protocol. `KubeApi` of `kube/client.py` is the real one.

Errors are those of `kube/errors.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol


class Key(NamedTuple):
    """Which resource. Another life of the same name has the same key and another uid."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> Key:
        """The key of an object as the API server shows it."""
        return cls(resource["metadata"]["namespace"], resource["metadata"]["name"])


class Listing(NamedTuple):
    """Resources. `restored`: etcd is at an older state than before, and the same versions stand for other contents."""

    resources: list[dict[str, Any]]
    restored: bool = False


class WorkloadsApi(Protocol):
    """StatefulSets, their pods and PodDisruptionBudgets of one namespace. Nothing is ever written but an eviction."""

    async def stateful_set(self, namespace: str, name: str) -> dict[str, Any]:
        """One StatefulSet. Raises Gone."""

    def pods(self, namespace: str, selector: str) -> AsyncGenerator[dict[str, Any]]:
        """Those with these labels, read in pages."""

    def disruption_budgets(self, namespace: str) -> AsyncGenerator[dict[str, Any]]:
        """All of a namespace, read in pages."""

    async def evict(self, namespace: str, pod: str, uid: str) -> None:
        """Ask for the eviction of exactly this life of a pod, with the pod's own grace period.

        Raises Gone where there is no such pod, Conflict where the name has another uid or the pod was just changed,
        Throttled where a budget, or the server's load, does not allow it now.
        """


class KubernetesApi(WorkloadsApi, Protocol):
    """KafkaFeatures and their statuses; Secrets, ConfigMaps, Events and workloads of their namespaces."""

    @property
    def began(self) -> datetime | None:
        """When the first answer came, by the API server's clock."""

    async def serves_resources(self) -> bool:
        """Whether discovery names the kind of our resources. One that was just installed can be listed before that."""

    async def resource(self, key: Key) -> dict[str, Any]:
        """One KafkaFeatures as it is now. Raises Gone."""

    async def resources(self, namespace: str = "") -> Listing:
        """All of a namespace; all there are for an empty one."""

    async def replace_status(
        self, resource: Mapping[str, Any], status: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        """Write the whole status of exactly this version of the resource; what the server made of it.

        `manager`: the name under which the server notes who wrote it, and when. Raises Conflict where it was written in
        between, Invalid where the schema says no.
        """

    async def secret(self, namespace: str, name: str) -> dict[str, str] | None:
        """The texts of a Secret that carries our label; None for one that does not, and for one that is not there."""

    async def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """The texts of a ConfigMap; None where there is none."""

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Post one event of events.k8s.io/v1."""
