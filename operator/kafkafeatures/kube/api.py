"""What the operator asks of an API server, as a protocol. `KubeApi` of `kube/client.py` is the real one.

Errors are those of `kube/errors.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol


class ResourceKey(NamedTuple):
    """Namespace and name of a resource. Another life of the same name has the same key and another uid."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> ResourceKey:
        """The key of an object as the API server shows it."""
        return cls(resource["metadata"]["namespace"], resource["metadata"]["name"])


class Listing(NamedTuple):
    """Resources. `restored`: etcd is at an older state than before, and the same versions stand for other contents."""

    resources: list[dict[str, Any]]
    restored: bool = False


class WorkloadsApi(Protocol):
    """Requests of a driver of `kube/workloads/`. Their paths and verbs are in its `RIGHTS`."""

    @property
    def answered_at(self) -> datetime | None:
        """The time of the last answer, by the API server's clock; None where it does not say."""

    async def get(self, path: str) -> dict[str, Any]:
        """One object. Raises Gone where there is none."""

    def listed(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[dict[str, Any]]:
        """The objects of a collection, read in pages. `query`: such as a labelSelector."""

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        """Ask once for a change; PATCH is a merge patch.

        Raises Withheld where it must not leave after all (`kube/first_byte.py`).

        Raises Gone where there is no such object, Conflict where it has another uid or was just changed, Throttled
        where a PodDisruptionBudget, or the server's load, does not allow it now.
        """


class KubernetesApi(WorkloadsApi, Protocol):
    """KafkaFeatures and their statuses; Secrets, ConfigMaps, Events and workloads of their namespaces."""

    @property
    def began(self) -> datetime | None:
        """The time of the first answer, by the API server's clock."""

    async def serves_resources(self) -> bool:
        """True if discovery names our kind. A kind that was just installed can be listed before discovery names it."""

    async def resource(self, key: ResourceKey) -> dict[str, Any]:
        """One KafkaFeatures as it is now. Raises Gone."""

    async def resources(self, namespace: str = "") -> Listing:
        """Every resource of a namespace; of all namespaces where it is empty."""

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
