"""Where a cluster that Strimzi manages is, and how to connect to it: from its `Kafka` resource and Secrets of Strimzi.

Called by `connections` for documents with `spec.cluster.strimzi`, at each reconciliation, so that a moved address or a
new certificate authority opens the connections anew. What Strimzi writes where is in docs/how-to/with-strimzi.md, with
its sources. The resources are read, and never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafkafeatures.api.references import CertificatesRef, ClientSecretRef, LoginSecretRef, TlsSpec
from kafkafeatures.api.spec import ClusterSpec, ListenerSpec, SaslSpec, StrimziSpec
from kafkafeatures.api.values import replace
from kafkafeatures.kube.api import KubernetesApi, ResourceKey
from kafkafeatures.kube.errors import Gone, RequestRefused
from kafkafeatures.reconcile.credentials import CERTIFICATES, CredentialsInvalid, Reference

PATH = "/apis/kafka.strimzi.io/v1/namespaces/{}/kafkas/{}"
CLUSTER_CA, TRUSTED = "cluster-ca.crt", "trusted.crt"
"""Key of the cluster CA in the trust bundle, and our own key for the certificates to trust."""
_INTERNAL = ("internal", "cluster-ip")
_TLS, _SCRAM = "tls", "scram-sha-512"
"""Types of the authentication of a listener that a KafkaUser may have."""


class Located(NamedTuple):
    """A cluster that was found. cluster: addresses and security, as a document names them. certificates: content of
    the reference to certificate authorities in it, which is not an object of Kubernetes.
    """

    cluster: ClusterSpec
    certificates: Mapping[Reference, Mapping[str, str]]


class StrimziClusters:
    """Finds the clusters of documents. Keeps their last addresses: Strimzi removes them from the status of a `Kafka`
    that is paused.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._addresses: dict[tuple[ResourceKey, str, str], str] = {}

    async def located(self, key: ResourceKey, cluster: ClusterSpec, strimzi: StrimziSpec) -> Located:
        """The cluster of a document. Raises CredentialsInvalid if a resource is missing, has no such listener, or may
        not be read; KubeError.
        """
        kafka = await self._kafka(key.namespace, strimzi.name)
        user = await self._api.secret(key.namespace, strimzi.user)
        if user is None:
            raise CredentialsInvalid(
                f"the Secret of the KafkaUser {strimzi.user} does not exist, or does not have the label "
                'kafkafeatures.dev/credentials: "true", which Strimzi copies from the KafkaUser'
            )
        listener = listener_of(kafka, strimzi, _authentication_of(user, strimzi.user))
        trusted = await self._trusted(key.namespace, kafka, listener)
        return Located(
            cluster_of(cluster, strimzi, listener, self._address(key, kafka, listener)),
            {Reference("ConfigMap", _trust_of(strimzi)): {TRUSTED: trusted}},
        )

    def forget(self, key: ResourceKey) -> None:
        """Drop the addresses of a resource that was deleted."""
        for known in [known for known in self._addresses if known[0] == key]:
            del self._addresses[known]

    async def _kafka(self, namespace: str, name: str) -> Mapping[str, Any]:
        try:
            return await self._api.get(PATH.format(namespace, name))
        except Gone:
            raise CredentialsInvalid(
                f"no Kafka {name} (kafka.strimzi.io/v1) in the namespace {namespace}; correct spec.cluster.strimzi.name"
            ) from None
        except RequestRefused:
            raise CredentialsInvalid(
                f"the operator is not authorized to read the Kafka {name}; allow its ServiceAccount to get "
                f"kafkas of kafka.strimzi.io in the namespace {namespace} (value drivers.strimzi of the chart)"
            ) from None

    def _address(self, key: ResourceKey, kafka: Mapping[str, Any], listener: Mapping[str, Any]) -> str:
        """The address in the status; else the last one that was there; else that of the Service of an internal
        listener.
        """
        name, uid = listener["name"], kafka["metadata"]["uid"]
        address = _in_status(kafka, name).get("bootstrapServers")
        if address:
            self._addresses[key, uid, name] = address
            return str(address)
        if known := self._addresses.get((key, uid, name)):
            return known
        if listener.get("type") in _INTERNAL:
            service = f"{kafka['metadata']['name']}-kafka-bootstrap.{key.namespace}.svc"
            return f"{service}:{listener['port']}"
        raise CredentialsInvalid(
            f"the Kafka {kafka['metadata']['name']} shows no address of its listener {name} yet; Strimzi writes it at "
            "the end of a reconciliation, and removes it while the Kafka is paused"
        )

    async def _trusted(self, namespace: str, kafka: Mapping[str, Any], listener: Mapping[str, Any]) -> str:
        """The certificates to trust, in PEM: all that Strimzi trusts now, so that none is missing while it replaces
        one; of a listener with a certificate of its own those in the status.
        """
        name, uid = kafka["metadata"]["name"], kafka["metadata"]["uid"]
        if "brokerCertChainAndKey" not in (listener.get("configuration") or {}):
            bundle = await self._api.certificates(namespace, f"{name}-trustbundle", uid)
            if bundle and CLUSTER_CA in bundle:
                return bundle[CLUSTER_CA]
            authorities = await self._api.certificates(namespace, f"{name}-cluster-ca-cert", uid)
            if authorities:
                return "\n".join(text.strip() for _, text in sorted(authorities.items()))
        shown = _in_status(kafka, listener["name"]).get("certificates") or ()
        if not shown:
            raise CredentialsInvalid(
                f"no certificates of the listener {listener['name']}: neither in a Secret that the Kafka {name} owns "
                f"({name}-trustbundle, {name}-cluster-ca-cert), nor in its status"
            )
        return "\n".join(shown)


def cluster_of(cluster: ClusterSpec, strimzi: StrimziSpec, listener: Mapping[str, Any], address: str) -> ClusterSpec:
    """The document's cluster with the address and the security of a listener in place of `strimzi`."""
    trust = CertificatesRef(name=_trust_of(strimzi), key=CERTIFICATES)
    with_certificate = ClientSecretRef(name=strimzi.user, cert_key="user.crt", key_key="user.key")
    is_scram = _type_of(listener) == _SCRAM
    tls = TlsSpec(ca_config_map_ref=trust, client_secret_ref=None if is_scram else with_certificate)
    sasl = SaslSpec(mechanism="SCRAM-SHA-512", username=strimzi.user, secret_ref=LoginSecretRef(name=strimzi.user))
    controllers = None
    if strimzi.controllers is not None:
        client = strimzi.controllers.client_secret_ref
        controllers = ListenerSpec(tls=TlsSpec(ca_config_map_ref=trust, client_secret_ref=client))
    return replace(
        cluster,
        strimzi=None,
        bootstrap_servers=address,
        tls=tls if listener.get("tls") else None,
        sasl=sasl if is_scram else None,
        controller_listener=controllers,
    )


def listener_of(kafka: Mapping[str, Any], strimzi: StrimziSpec, authentication: str) -> Mapping[str, Any]:
    """The listener of a `Kafka` that the document names; else the first one with TLS and this authentication, internal
    ones before others. Raises CredentialsInvalid.
    """
    listeners = [*_listeners(kafka)]
    fitting = [one for one in listeners if _type_of(one) == authentication]
    if strimzi.listener is not None:
        fitting = [one for one in fitting if one["name"] == strimzi.listener]
    else:
        encrypted = [one for one in fitting if one.get("tls")]
        fitting = sorted(encrypted, key=lambda one: one.get("type") not in _INTERNAL)
    if fitting:
        return fitting[0]
    shown = ", ".join(f"{one['name']} ({_type_of(one) or 'no authentication'})" for one in listeners) or "none"
    wanted = f"no listener {strimzi.listener}" if strimzi.listener else "no listener with TLS"
    raise CredentialsInvalid(
        f"the Kafka {strimzi.name} has {wanted} and the authentication {authentication} of the KafkaUser "
        f"{strimzi.user}; its listeners are: {shown}"
    )


def _authentication_of(user: Mapping[str, str], name: str) -> str:
    """The type of authentication of a KafkaUser, by the keys of its Secret. Raises CredentialsInvalid."""
    if "user.crt" in user and "user.key" in user:
        return _TLS
    if "password" in user:
        return _SCRAM
    raise CredentialsInvalid(
        f"the Secret {name} has neither user.crt with user.key nor password; it must be that of a KafkaUser"
    )


def _trust_of(strimzi: StrimziSpec) -> str:
    """The name of our reference to the certificates that are trusted."""
    return f"{strimzi.name}-trustbundle"


def _listeners(kafka: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from ((kafka.get("spec") or {}).get("kafka") or {}).get("listeners") or ()


def _type_of(listener: Mapping[str, Any]) -> str:
    return str((listener.get("authentication") or {}).get("type") or "")


def _in_status(kafka: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What the status of a `Kafka` says of a listener; empty for nothing."""
    shown = (kafka.get("status") or {}).get("listeners") or ()
    return next((one for one in shown if one.get("name") == name), {})
