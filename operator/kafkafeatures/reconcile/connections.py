"""The open cluster of each resource, with its ensemble where that is wanted: opened of its spec and its Secrets,
and anew once one of them changed.

Called by `reconcile/controller.py`. Secrets are read here and nowhere else in the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from msgspec import Struct

from kafkafeatures.api.spec import ClusterSpec, Spec
from kafkafeatures.api.values import replace
from kafkafeatures.core.ports import KafkaPort, ZooKeeperPort
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kube.api import KubernetesApi, ResourceKey
from kafkafeatures.kube.errors import RequestRefused
from kafkafeatures.reconcile.credentials import (
    CredentialsInvalid,
    Material,
    Reference,
    ensemble_of,
    material_of,
    references,
    settings_of,
)
from kafkafeatures.zookeeper.ensemble import Ensemble

LONGEST_REQUEST = 30.0
"""Seconds; a longer `requestTimeout` counts as this. A look at silent nodes takes two of them, a reconciliation two
looks: more would not fit into its deadline, and the status would never say which node is silent."""


class OpenCluster(KafkaPort, Protocol):
    """A cluster with its connections."""

    async def unchanged(self) -> bool:
        """Tell whether nothing happened since the last look, for certain."""

    def release_partitions(self, *, at_once: bool = True) -> None:
        """No restart is decided on for a while: other clusters may have theirs in memory. Not `at_once`: the roll may
        continue at any moment, so only where others wait, and after its turn.
        """

    async def release_idle_connections(self) -> None:
        """The next reading is a while away."""

    async def close(self) -> None:
        """Give them up."""


OpenClusterOf = Callable[[ClusterSettings], OpenCluster]

OpenEnsembleOf = Callable[[Ensemble, OpenCluster], ZooKeeperPort]
"""The ensemble of an open cluster: called only where something is wanted of it. Nothing is connected to by that."""


class Connected(NamedTuple):
    """`zookeeper` None: nothing of it is wanted. `is_new`: it was not open before, or was to something else."""

    cluster: OpenCluster
    zookeeper: ZooKeeperPort | None
    is_new: bool


class _OpenConnection(Struct, frozen=True):
    spec: ClusterSpec
    in_zookeeper: bool
    material: Material
    cluster: OpenCluster
    zookeeper: ZooKeeperPort | None


class Connections:
    """The open connections of all resources. `policy`: which addresses may be connected to.

    `open_ensemble` None: no ensemble can be read, so that no migration takes a step.
    """

    def __init__(
        self,
        api: KubernetesApi,
        open_cluster: OpenClusterOf,
        policy: AddressPolicy,
        open_ensemble: OpenEnsembleOf | None = None,
    ) -> None:
        self._api, self._open_cluster, self._policy = api, open_cluster, policy
        self._open_ensemble = open_ensemble
        self._open: dict[ResourceKey, _OpenConnection] = {}

    async def opened(self, key: ResourceKey, spec: Spec) -> Connected:
        """Return what is open, or open it anew where the document, or a Secret it names, says something else now.
        Secrets of an ensemble are read only where something is wanted of it.

        Raises CredentialsInvalid.
        """
        cluster, in_zookeeper = spec.cluster, spec.wants_ensemble
        material = {
            reference: await self._material(key.namespace, reference)
            for reference in references(cluster, ensemble=in_zookeeper)
        }
        entry = self._open.get(key)
        if entry is not None and (entry.spec, entry.in_zookeeper, entry.material) == (cluster, in_zookeeper, material):
            return Connected(entry.cluster, entry.zookeeper, is_new=False)
        settings, ensemble = await run_in_thread(partial(self._resolved, spec, material))
        await self.close(key)
        opened_cluster = self._open_cluster(settings)
        zookeeper = None
        if ensemble is not None and self._open_ensemble is not None:
            zookeeper = self._open_ensemble(ensemble, opened_cluster)
        self._open[key] = _OpenConnection(cluster, in_zookeeper, material, opened_cluster, zookeeper)
        return Connected(opened_cluster, zookeeper, is_new=True)

    def _resolved(self, spec: Spec, material: Material) -> tuple[ClusterSettings, Ensemble | None]:
        read_secret = material_of(material)
        settings = settings_of(spec.cluster, read_secret, policy=self._policy)
        settings = replace(settings, request_timeout=min(settings.request_timeout, LONGEST_REQUEST))
        ensemble = ensemble_of(spec.cluster, read_secret, policy=self._policy) if spec.wants_ensemble else None
        return settings, ensemble

    async def close(self, key: ResourceKey) -> None:
        """Give up the connections of one resource."""
        entry = self._open.pop(key, None)
        if entry is not None:
            await entry.cluster.close()

    async def close_all(self) -> None:
        """Give up all connections."""
        for key in list(self._open):
            await self.close(key)

    async def _material(self, namespace: str, reference: Reference) -> dict[str, str] | None:
        fetch = self._api.secret if reference.kind == "Secret" else self._api.config_map
        try:
            return await fetch(namespace, reference.name)
        except RequestRefused:  # whether or not it is there
            raise CredentialsInvalid(
                f"the operator is not authorized to read the {reference.kind} {reference.name}; "
                f"allow its ServiceAccount to get {reference.kind.lower()}s in the namespace {namespace}"
            ) from None
