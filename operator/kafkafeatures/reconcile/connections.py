"""Open connections of each resource: to its cluster, to its ZooKeeper ensemble where needed, and to what evidence about
its clients is read from. They are opened from its spec and Secrets, and anew when one of these changes.

Called by `reconcile/controller.py`. In the operator, only this module and `client_evidence.py` read Secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from msgspec import Struct

from kafkafeatures.api.spec import ClusterSpec, Spec
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.managed import ManagedLevel
from kafkafeatures.core.ports import KafkaPort, ZooKeeperPort
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kube.api import KubernetesApi, ResourceKey
from kafkafeatures.kube.errors import RequestRefused
from kafkafeatures.reconcile.client_evidence import ClientEvidence, LatestEvidence
from kafkafeatures.reconcile.credentials import (
    CredentialsInvalid,
    Material,
    Reference,
    ensemble_of,
    material_of,
    references,
    settings_of,
)
from kafkafeatures.reconcile.strimzi import StrimziClusters, with_known_fields, with_remedies
from kafkafeatures.zookeeper.ensemble import Ensemble

LONGEST_REQUEST = 30.0
"""Largest `requestTimeout` in seconds that is used. To read nodes that do not answer takes two of them, and a
reconciliation reads twice: with more it would exceed its deadline, and the status would never name such a node.
"""


class OpenCluster(KafkaPort, Protocol):
    """A cluster with its connections."""

    async def unchanged(self) -> bool:
        """Tell whether certainly nothing has changed since the last reading."""

    def release_partitions(self, *, at_once: bool = True) -> None:
        """Free the memory for partitions, as no restart is decided for a while. `at_once` False: the roll may continue
        at any moment, so free it only if other clusters wait for it and this cluster's turn is over.
        """

    async def release_idle_connections(self) -> None:
        """Close idle connections: the next reading is a while away."""

    async def close(self) -> None:
        """Close all connections."""


OpenClusterOf = Callable[[ClusterSettings], OpenCluster]
"""Makes an open cluster from its settings, without connecting."""

OpenEnsembleOf = Callable[[Ensemble, OpenCluster], ZooKeeperPort]
"""Makes the port to the ensemble of an open cluster, without connecting. Called only where the ensemble is needed."""


class Connected(NamedTuple):
    """Open connections of a resource. `zookeeper`: None where it is not needed. `is_new`: opened by this call.
    `clients`: latest evidence about clients; None where the document asks for none. `managed`: levels that another
    operator sets.
    """

    cluster: OpenCluster
    zookeeper: ZooKeeperPort | None
    is_new: bool
    clients: LatestEvidence | None = None
    managed: tuple[ManagedLevel, ...] = ()


class _OpenConnection(Struct, frozen=True):
    """Open connections of a resource, with what they were opened from."""

    spec: ClusterSpec
    wants_ensemble: bool
    material: Material
    cluster: OpenCluster
    zookeeper: ZooKeeperPort | None


class Connections:
    """The open connections of all resources.

    policy: addresses that may be connected to.
    open_ensemble: opens a ZooKeeper ensemble; None: no ensemble can be read, so that no migration takes a step.
    """

    def __init__(
        self,
        api: KubernetesApi,
        open_cluster: OpenClusterOf,
        policy: AddressPolicy,
        evidence: ClientEvidence,
        open_ensemble: OpenEnsembleOf | None = None,
    ) -> None:
        self._api, self._open_cluster, self._policy, self._evidence = api, open_cluster, policy, evidence
        self._open_ensemble = open_ensemble
        self._strimzi = StrimziClusters(api)
        self._open: dict[ResourceKey, _OpenConnection] = {}

    async def opened(self, key: ResourceKey, spec: Spec) -> Connected:
        """Return the open connections; open them anew if the document, or a Secret or ConfigMap that it names, has
        changed. References for the ensemble are read only if the document needs it. Raises CredentialsInvalid,
        KubeError.
        """
        cluster, wants_ensemble = spec.cluster, spec.wants_ensemble
        material: dict[Reference, Mapping[str, str] | None] = {}
        source, managed = "", tuple[ManagedLevel, ...]()
        if cluster.strimzi is not None:
            read_secret = partial(self._material, key.namespace)
            located = await self._strimzi.located(key, cluster, cluster.strimzi, read_secret)
            cluster, source, managed = located.cluster, located.name, located.managed
            material.update(located.material)
        for reference in references(cluster, ensemble=wants_ensemble):
            if reference not in material:
                material[reference] = await self._material(key.namespace, reference)
        entry = self._open.get(key)
        current = cluster, wants_ensemble, material
        if entry is not None and (entry.spec, entry.wants_ensemble, entry.material) == current:
            return Connected(entry.cluster, entry.zookeeper, False, self._evidence.of(key, spec), managed)
        settings, ensemble = await self._settings(cluster, wants_ensemble, material, source)
        await self._close_cluster(key)
        opened_cluster = self._open_cluster(settings)
        zookeeper = None
        if ensemble is not None and self._open_ensemble is not None:
            zookeeper = self._open_ensemble(ensemble, opened_cluster)
        self._open[key] = _OpenConnection(cluster, wants_ensemble, material, opened_cluster, zookeeper)
        return Connected(opened_cluster, zookeeper, True, self._evidence.of(key, spec), managed)

    def is_reading(self, key: ResourceKey) -> bool:
        """Tell whether evidence of a resource is being read, so that there is news soon."""
        return self._evidence.is_reading(key)

    async def _settings(
        self, cluster: ClusterSpec, wants_ensemble: bool, material: Material, source: str
    ) -> tuple[ClusterSettings, Ensemble | None]:
        """Settings of the cluster and of its ensemble. `source`: what the cluster was found by, for messages, whose
        fields the document does not have then; empty if the document itself has them. Raises CredentialsInvalid.
        """
        try:
            settings, ensemble = await run_in_thread(partial(self._resolved, cluster, wants_ensemble, material))
        except CredentialsInvalid as error:
            if not source:
                raise
            raise with_known_fields(error, source) from None
        return with_remedies(settings) if source else settings, ensemble

    def _resolved(
        self, cluster: ClusterSpec, wants_ensemble: bool, material: Material
    ) -> tuple[ClusterSettings, Ensemble | None]:
        read_secret = material_of(material)
        settings = settings_of(cluster, read_secret, policy=self._policy)
        settings = replace(settings, request_timeout=min(settings.request_timeout, LONGEST_REQUEST))
        ensemble = ensemble_of(cluster, read_secret, policy=self._policy) if wants_ensemble else None
        return settings, ensemble

    async def close(self, key: ResourceKey) -> None:
        """Close the connections of one resource."""
        self._evidence.forget(key)
        await self._close_cluster(key)

    async def forget(self, key: ResourceKey) -> None:
        """Close the connections of a resource that was deleted, and drop what is known of it."""
        self._strimzi.forget(key)
        await self.close(key)

    async def close_all(self) -> None:
        """Close all connections."""
        await self._evidence.close()
        for key in list(self._open):
            await self._close_cluster(key)

    async def _close_cluster(self, key: ResourceKey) -> None:
        entry = self._open.pop(key, None)
        if entry is not None:
            await entry.cluster.close()

    async def _material(self, namespace: str, reference: Reference) -> dict[str, str] | None:
        fetch = self._api.secret if reference.kind == "Secret" else self._api.config_map
        try:
            return await fetch(namespace, reference.name)
        except RequestRefused:  # the API server answers so whether or not it exists
            raise CredentialsInvalid(
                f"the operator is not authorized to read the {reference.kind} {reference.name}; "
                f"allow its ServiceAccount to get {reference.kind.lower()}s in the namespace {namespace}"
            ) from None
