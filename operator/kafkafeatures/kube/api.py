"""Protocols of the requests that the operator sends to an API server. `KubeApi` of `kube/client.py` implements them;
tests have others. Errors are those of `kube/errors.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, Protocol

from kafkafeatures import __version__

MANAGER = "kafka-features-operator"
"""Field manager of the operator's patches: the API server takes it from the User-Agent. It is that of all releases."""
USER_AGENT = f"{MANAGER}/{__version__}"
"""Name of the operator in the audit log of the API server."""


def date_of(header: str) -> datetime | None:
    """The time in a Date header, which is that of the API server's clock; None where it is missing or invalid."""
    with suppress(ValueError):
        return parsedate_to_datetime(header)
    return None


class ResourceKey(NamedTuple):
    """Namespace and name of a resource. If it is deleted and created again, it has the same key and another uid."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def log_fields(self) -> dict[str, object]:
        """Fields of a log line about the resource."""
        return {"namespace": self.namespace, "resource": self.name}

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> ResourceKey:
        """The key of an object as the API server shows it."""
        return cls(resource["metadata"]["namespace"], resource["metadata"]["name"])


class Listing(NamedTuple):
    """Resources of a list. `restored`: etcd is at an older state than before, so that the same resourceVersions stand
    for other contents.
    """

    resources: list[dict[str, Any]]
    restored: bool = False


class WorkloadsApi(Protocol):
    """Requests of a driver of `kube/workloads/`. Their paths and verbs are in its `RIGHTS`."""

    @property
    def answered_at(self) -> datetime | None:
        """Time of the last answer, by the API server's clock (its Date header); None where it has none."""

    async def get(self, path: str) -> dict[str, Any]:
        """One object. Raises Gone where there is none."""

    def listed(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[dict[str, Any]]:
        """The objects of a collection, read in pages. `query`: query parameters, such as labelSelector."""

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        """Send a change once; PATCH is a merge patch.

        Raises WriteWithheld where the request must not leave after all (`kube/first_byte.py`), Gone where there is no
        such object, Conflict where it has another uid or was just changed, Throttled where a PodDisruptionBudget or the
        server's load does not allow it now.
        """


class KubernetesApi(WorkloadsApi, Protocol):
    """KafkaFeatures and their statuses; Secrets, ConfigMaps, Events and workloads of their namespaces."""

    @property
    def began(self) -> datetime | None:
        """Time of the first answer, by the API server's clock; None before it."""

    async def serves_resources(self) -> bool:
        """True if discovery lists our kind, which watches need. A kind that was just installed can be listed
        before discovery lists it.
        """

    async def resource(self, key: ResourceKey) -> dict[str, Any]:
        """One KafkaFeatures as it is now. Raises Gone."""

    async def resources(self, namespace: str = "") -> Listing:
        """All KafkaFeatures of a namespace; an empty name means all namespaces."""

    async def replace_status(
        self, resource: Mapping[str, Any], status: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        """Replace the whole status of exactly this version of the resource. Returns the resource as the server has it
        then. Raises Conflict where it was changed since, Invalid where the schema does not allow the status.

        manager: field manager, under which the server notes in `managedFields` who wrote it, and when.
        """

    async def secret(self, namespace: str, name: str) -> dict[str, str] | None:
        """The texts of a Secret that has the label `CREDENTIALS`; None for one without it, or if there is none."""

    async def certificates(self, namespace: str, name: str, owner: str) -> dict[str, str] | None:
        """The certificates (`*.crt`) in a Secret that the object with the uid `owner` owns, whatever its labels; None
        for another Secret, or if there is none. Nothing else of the Secret is returned.
        """

    async def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """The texts of a ConfigMap; None if it does not exist."""

    async def config_map_files(self, namespace: str, name: str) -> dict[str, bytes] | None:
        """All entries of a ConfigMap as bytes, also its `binaryData`; None if it does not exist."""

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Post one event of events.k8s.io/v1."""
