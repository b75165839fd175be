"""The open cluster of each resource: opened of its spec and its Secrets, and anew once one of them changed.

Called by `reconcile/controller.py`. Secrets are read here and nowhere else in the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from kafkafeatures.api.spec import ClusterSpec
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.ports import KafkaPort
from kafkafeatures.kafka.base.aside import aside
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kube.api import Key, KubernetesApi
from kafkafeatures.kube.errors import Refused
from kafkafeatures.reconcile.credentials import (
    CredentialsInvalid,
    Material,
    Reference,
    material_of,
    references,
    settings_of,
)

LONGEST_REQUEST = 30.0
"""Seconds; a longer `requestTimeout` counts as this. A look at silent nodes takes two of them, a reconciliation two
looks: more would not fit into its deadline, and the status would never say which node is silent."""


class OpenCluster(KafkaPort, Protocol):
    """A cluster with its connections."""

    async def unchanged(self) -> bool:
        """Whether nothing happened since the last look, for certain."""

    def release_partitions(self, *, at_once: bool = True) -> None:
        """No restart is decided on for a while: other clusters may have theirs in memory. Not `at_once`: the roll may
        continue at any moment, so only where others wait, and after its turn.
        """

    async def release_idle_connections(self) -> None:
        """The next reading is a while away."""

    async def close(self) -> None:
        """Give them up."""


class LogRecorder(Protocol):
    """Records the metadata logs that are followed: see `kafka/recorder/recorder.py`."""

    def saw(self, resource: Key, cluster: OpenCluster, status: Status) -> None:
        """A look at its cluster is over, of which this is the status. Returns at once."""

    def forgot(self, resource: Key) -> None:
        """It is gone."""


class _NotRecorded:
    """Records no metadata log."""

    def saw(self, resource: Key, cluster: OpenCluster, status: Status) -> None: ...

    def forgot(self, resource: Key) -> None: ...


NOT_RECORDED = _NotRecorded()

OpenClusterOf = Callable[[ClusterSettings], OpenCluster]


class _Open(Struct, frozen=True):
    spec: ClusterSpec
    material: Material
    cluster: OpenCluster


class Connections:
    """The open connections of all resources. `policy`: which addresses may be connected to."""

    def __init__(self, api: KubernetesApi, open_cluster: OpenClusterOf, policy: AddressPolicy) -> None:
        self._api, self._open_cluster, self._policy = api, open_cluster, policy
        self._open: dict[Key, _Open] = {}

    async def cluster(self, key: Key, spec: ClusterSpec) -> tuple[OpenCluster, bool]:
        """The one that is open, unless the document, or a Secret it names, says something else now; whether it is new.

        Raises CredentialsInvalid.
        """
        material = {one: await self._material(key.namespace, one) for one in references(spec)}
        held = self._open.get(key)
        if held is not None and (held.spec, held.material) == (spec, material):
            return held.cluster, False
        settings = await aside(lambda: settings_of(spec, material_of(material), policy=self._policy))
        await self.close(key)
        settings = replace(settings, request_timeout=min(settings.request_timeout, LONGEST_REQUEST))
        cluster = self._open_cluster(settings)
        self._open[key] = _Open(spec, material, cluster)
        return cluster, True

    async def close(self, key: Key) -> None:
        """Give up the connections of one resource."""
        held = self._open.pop(key, None)
        if held is not None:
            await held.cluster.close()

    async def close_all(self) -> None:
        """Give up all connections."""
        for key in list(self._open):
            await self.close(key)

    async def _material(self, namespace: str, reference: Reference) -> dict[str, str] | None:
        read = self._api.secret if reference.kind == "Secret" else self._api.config_map
        try:
            return await read(namespace, reference.name)
        except Refused:  # whether or not it is there
            raise CredentialsInvalid(
                f"the operator is not authorized to read the {reference.kind} {reference.name}; "
                f"allow its ServiceAccount to get {reference.kind.lower()}s in the namespace {namespace}"
            ) from None
