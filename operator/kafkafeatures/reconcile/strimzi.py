"""Where a cluster that Strimzi manages is, and how to connect to it: from its `Kafka` resource and Secrets of Strimzi.

Called by `connections` for documents with `spec.cluster.strimzi`, whenever a document's connections are needed, so that
a moved address or a new certificate authority opens them anew. What Strimzi writes where is in
docs/how-to/with-strimzi.md, with its sources. The resources are read, and never changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from kafkafeatures.api.references import CertificatesRef, ClientSecretRef, LoginSecretRef, TlsSpec
from kafkafeatures.api.spec import ClusterSpec, ListenerSpec, SaslSpec, StrimziSpec
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.managed import ManagedLevel
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kafkafeatures.kafka.wire.pem import SettingNames
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.kube.errors import Gone, RequestRefused
from kafkafeatures.reconcile.credentials import CredentialsInvalid, Reference, certificates_in
from kafkafeatures.reconcile.strimzi_levels import KafkaCondition, managed_level

PATH = "/apis/kafka.strimzi.io/v1/namespaces/{}/kafkas/{}"
CLUSTER_CA, TRUSTED = "cluster-ca.crt", "trusted.crt"
"""Key of the cluster CA in the trust bundle, and our own key for the certificates to trust."""
LONGEST_ADDRESS, LONGEST_TRUST = 2048, 262_144
"""Characters of addresses and of certificates that are used: a person or Strimzi writes far fewer."""
_INTERNAL = ("internal", "cluster-ip")
TLS, SCRAM = "tls", "scram-sha-512"
"""Types of the authentication of a listener that a KafkaUser may have."""


_TRUST = (
    "the CA must be in the Secrets -trustbundle or -cluster-ca-cert of the Kafka, that of a listener with a "
    "certificate of its own in status.listeners: wait until Strimzi has reconciled and rolled, see its log, or name "
    "another listener in spec.cluster.strimzi.listener"
)
_BROKERS = SettingNames(
    ca="",
    client="the certificate of the KafkaUser that spec.cluster.strimzi.user names",
    controllers="the controllers of Strimzi accept only certificates of the cluster CA: name one in "
    "spec.cluster.strimzi.controllers.clientSecretRef, or leave the controllers unread",
    trust=_TRUST,
)
_CLIENT_OF_CONTROLLERS = "spec.cluster.strimzi.controllers.clientSecretRef"
_CONTROLLERS = SettingNames(ca="", client=_CLIENT_OF_CONTROLLERS, trust=_TRUST)
"""Names of settings, for remedies."""


class StrimziApi(Protocol):
    """Requests for what Strimzi writes. Errors are those of `kube/errors.py`."""

    async def get(self, path: str) -> dict[str, Any]:
        """One object. Raises Gone where there is none."""

    async def certificates(self, namespace: str, name: str, owner: str) -> dict[str, str] | None:
        """The certificates in a Secret that the object with this uid owns; None for another Secret, or none."""


ReadSecret = Callable[[Reference], Awaitable[Mapping[str, str] | None]]
"""Reads a labelled Secret of the document's namespace; None if there is none. Raises CredentialsInvalid."""


class _OfType(msgspec.Struct, frozen=True):
    type: str


class _ListenerConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    broker_cert_chain_and_key: dict[str, str] | None = None


class Listener(msgspec.Struct, frozen=True):
    """What is used of `spec.kafka.listeners[]`."""

    name: str
    port: int
    type: str
    tls: bool = False
    authentication: _OfType | None = None
    configuration: _ListenerConfiguration | None = None

    @property
    def login(self) -> str:
        """Type of the authentication; empty for none."""
        return self.authentication.type if self.authentication is not None else ""

    @property
    def is_internal(self) -> bool:
        """True for addresses that only pods reach."""
        return self.type in _INTERNAL

    @property
    def has_own_certificate(self) -> bool:
        """True if its certificate is not of the cluster CA."""
        return self.configuration is not None and self.configuration.broker_cert_chain_and_key is not None

    def __str__(self) -> str:
        return f"{self.name} ({self.login or 'no authentication'}{'' if self.tls else ', without TLS'})"


class _ShownListener(msgspec.Struct, frozen=True, rename="camel"):
    """What is used of `status.listeners[]`."""

    name: str = ""
    bootstrap_servers: str = ""
    certificates: list[str] = []


class _KafkaSettings(msgspec.Struct, frozen=True, rename="camel"):
    listeners: list[Listener] = []
    version: str | None = None
    metadata_version: str | None = None
    authorization: _OfType | None = None


class _KafkaSpec(msgspec.Struct, frozen=True):
    kafka: _KafkaSettings


class _KafkaStatus(msgspec.Struct, frozen=True):
    listeners: list[_ShownListener] | None = None
    conditions: list[KafkaCondition] | None = None


class _KafkaMetadata(msgspec.Struct, frozen=True):
    name: str
    uid: str


class Kafka(msgspec.Struct, frozen=True):
    """What is used of a `Kafka` resource."""

    metadata: _KafkaMetadata
    spec: _KafkaSpec
    status: _KafkaStatus | None = None

    @property
    def managed(self) -> ManagedLevel:
        """The level that Strimzi sets."""
        settings, conditions = self.spec.kafka, self.status.conditions if self.status is not None else None
        return managed_level(self.metadata.name, settings.metadata_version, settings.version, conditions)

    def shown(self, listener: Listener) -> _ShownListener:
        """What the status says of a listener; empty for nothing."""
        of_all = (self.status.listeners if self.status is not None else None) or []
        return next((shown for shown in of_all if shown.name == listener.name), _ShownListener())


class Located(NamedTuple):
    """A cluster that was found. cluster: addresses and security, as a document names them. material: content of the
    references in it that was read already, or is not an object of Kubernetes. name: for messages. managed: levels that
    Strimzi sets.
    """

    cluster: ClusterSpec
    material: Mapping[Reference, Mapping[str, str] | None]
    name: str
    managed: tuple[ManagedLevel, ...]


class _LastShown(NamedTuple):
    """What the status of a `Kafka` said of a listener when it last said something."""

    uid: str
    listener: str
    address: str
    certificates: str


class StrimziClusters:
    """Finds the clusters of documents. Keeps what the status of their `Kafka` said last: Strimzi removes the listeners
    from the status of one that is paused.
    """

    def __init__(self, api: StrimziApi) -> None:
        self._api = api
        self._last_shown: dict[ResourceKey, _LastShown] = {}

    async def located(
        self, key: ResourceKey, cluster: ClusterSpec, strimzi: StrimziSpec, read_secret: ReadSecret
    ) -> Located:
        """The cluster of a document. Raises CredentialsInvalid if a resource is missing, cannot be used, or may not be
        read; KubeError.
        """
        kafka = await self.kafka(key.namespace, strimzi.name)
        of_user = Reference("Secret", strimzi.user)
        user = await read_secret(of_user)
        if user is None:
            raise CredentialsInvalid(
                f"the Secret of the KafkaUser {strimzi.user} does not exist, or does not have the label "
                'kafkafeatures.dev/credentials: "true", which Strimzi copies from the KafkaUser'
            )
        listener = listener_of(kafka, strimzi, login_of(user, strimzi.user))
        known = self._remembered(key, kafka, listener)
        trusted = await self._trusted(key.namespace, kafka, listener, known)
        address = known.address or _service_of(kafka, listener, key.namespace)
        return Located(
            cluster_of(cluster, strimzi, listener, address),
            {of_user: user, Reference("ConfigMap", _trust_of(strimzi)): {TRUSTED: trusted}},
            f"the listener {listener.name} of the Kafka {strimzi.name}",
            (kafka.managed,),
        )

    def forget(self, key: ResourceKey) -> None:
        """Drop what is known for a resource that was deleted."""
        self._last_shown.pop(key, None)

    async def kafka(self, namespace: str, name: str) -> Kafka:
        """The `Kafka` of this name. Raises CredentialsInvalid where it is missing or cannot be used; KubeError."""
        try:
            kafka = await self._api.get(PATH.format(namespace, name))
        except Gone:
            raise CredentialsInvalid(
                f"no Kafka {name} (kafka.strimzi.io/v1) in the namespace {namespace}: it was deleted, has another "
                "name, or the Strimzi that is installed does not serve this version"
            ) from None
        except RequestRefused:
            raise CredentialsInvalid(
                f"the operator is not authorized to read the Kafka {name}; allow its ServiceAccount to get "
                f"kafkas of kafka.strimzi.io in the namespace {namespace} (value drivers.strimzi of the chart)"
            ) from None
        try:
            return msgspec.convert(kafka, Kafka)
        except msgspec.ValidationError as error:
            raise CredentialsInvalid(f"the Kafka {name} cannot be used: {error}") from None

    def _remembered(self, key: ResourceKey, kafka: Kafka, listener: Listener) -> _LastShown:
        """What the status says of a listener, else what it said last, else nothing. Raises CredentialsInvalid for an
        address that cannot be used.
        """
        shown, uid = kafka.shown(listener), kafka.metadata.uid
        # In order: the addresses of some listeners are those of the nodes of Kubernetes, in any order.
        address = ",".join(sorted(filter(None, map(str.strip, shown.bootstrap_servers.split(",")))))
        known = _LastShown(uid, listener.name, address, "\n".join(map(str.strip, shown.certificates)))
        if not address:
            last = self._last_shown.get(key)
            return last if last is not None and (last.uid, last.listener) == (uid, listener.name) else known
        try:
            parse_addresses(address, "its address")
        except ValueError as error:
            raise CredentialsInvalid(f"the Kafka {kafka.metadata.name} cannot be used: {error}") from None
        if len(address) > LONGEST_ADDRESS or len(known.certificates) > LONGEST_TRUST:
            raise CredentialsInvalid(f"the Kafka {kafka.metadata.name} cannot be used: its status is too long")
        self._last_shown[key] = known
        return known

    async def _trusted(self, namespace: str, kafka: Kafka, listener: Listener, known: _LastShown) -> str:
        """The certificates to trust, in PEM: all that Strimzi trusts now, so that none is missing while it replaces
        one; of a listener with a certificate of its own those in the status.
        """
        name = kafka.metadata.name
        if not listener.has_own_certificate:
            bundle = await self._certificates(namespace, f"{name}-trustbundle", kafka.metadata.uid)
            if trusted := bundle.get(CLUSTER_CA, "").strip():
                return trusted
            authorities = await self._certificates(namespace, f"{name}-cluster-ca-cert", kafka.metadata.uid)
            if trusted := (certificates_in(authorities) or "").strip():
                return trusted
        if known.certificates:
            return known.certificates
        places = "not in its status, and it has one of its own"
        if not listener.has_own_certificate:
            places = f"neither in a Secret that it owns ({name}-trustbundle, {name}-cluster-ca-cert), nor in its status"
        raise CredentialsInvalid(
            f"the Kafka {name} shows no certificates of its listener {listener.name}: {places}; wait until Strimzi has "
            "reconciled it, which writes them, and while it is paused removes them from the status"
        )

    async def _certificates(self, namespace: str, name: str, owner: str) -> Mapping[str, str]:
        """The certificates in a Secret of Strimzi; none where it is missing, of another owner, or may not be read: the
        status of the `Kafka` has them too.
        """
        try:
            texts = await self._api.certificates(namespace, name, owner) or {}
        except RequestRefused:
            return {}
        return texts if sum(map(len, texts.values())) <= LONGEST_TRUST else {}


def cluster_of(cluster: ClusterSpec, strimzi: StrimziSpec, listener: Listener, address: str) -> ClusterSpec:
    """The document's cluster with the address and the security of a listener in place of `strimzi`."""
    trust = CertificatesRef(name=_trust_of(strimzi), key=TRUSTED)
    with_certificate = ClientSecretRef(name=strimzi.user, cert_key="user.crt", key_key="user.key")
    is_scram = listener.login == SCRAM
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
        tls=tls if listener.tls else None,
        sasl=sasl if is_scram else None,
        controller_listener=controllers,
    )


def with_known_fields(error: CredentialsInvalid, source: str) -> CredentialsInvalid:
    """The error without fields that the document does not have. `source`: what the cluster was found by."""
    text = str(error).removeprefix("spec.cluster.tls: ")
    return CredentialsInvalid(
        f"{source}: {text.replace('spec.cluster.controllerListener.tls', _CLIENT_OF_CONTROLLERS)}"
    )


def with_remedies(settings: ClusterSettings) -> ClusterSettings:
    """The settings of a cluster that was found, whose remedies name what its owner can change."""
    brokers = replace(settings.brokers, named=_BROKERS)
    is_shared = settings.controllers == settings.brokers
    return replace(
        settings,
        brokers=brokers,
        controllers=brokers if is_shared else replace(settings.controllers, named=_CONTROLLERS),
    )


def listener_of(kafka: Kafka, strimzi: StrimziSpec, login: str) -> Listener:
    """The listener of a `Kafka` that the document names; else the first one with TLS and this type of authentication,
    internal ones before others. Raises CredentialsInvalid. Only a listener that is named may be without TLS, and only
    for SCRAM, which sends proofs of the password.
    """
    listeners = kafka.spec.kafka.listeners
    named = [listener for listener in listeners if strimzi.listener in (None, listener.name)]
    fitting = [listener for listener in named if listener.login == login]
    may_be_plain = strimzi.listener is not None and login == SCRAM
    usable = [listener for listener in fitting if listener.tls or may_be_plain]
    if usable:
        return min(usable, key=lambda listener: not listener.is_internal)
    shown = ", ".join(map(str, listeners)) or "none"
    if not named:
        reason = f"no listener {strimzi.listener}"
    elif fitting:
        reason = "no listener with TLS" if strimzi.listener is None else f"no TLS on the listener {strimzi.listener}"
    else:
        reason = f"no listener with the authentication {login} of the KafkaUser {strimzi.user}"
        if strimzi.listener is not None:
            reason = f"another authentication on the listener {strimzi.listener} than {login} of {strimzi.user}"
    raise CredentialsInvalid(f"the Kafka {strimzi.name} has {reason}; its listeners are: {shown}")


def _service_of(kafka: Kafka, listener: Listener, namespace: str) -> str:
    """The address of the Service of an internal listener, which Strimzi names after the `Kafka`. Raises
    CredentialsInvalid for another listener: only the status has its address.
    """
    name = kafka.metadata.name
    if not listener.is_internal:
        raise CredentialsInvalid(
            f"the Kafka {name} shows no address of its listener {listener.name}; Strimzi writes it at the end of a "
            "reconciliation, and removes it while the Kafka is paused"
        )
    service = f"{name}-kafka-bootstrap" if listener.type == "internal" else f"{name}-kafka-{listener.name}-bootstrap"
    return f"{service}.{namespace}.svc:{listener.port}"


def login_of(user: Mapping[str, str], name: str) -> str:
    """The type of authentication of a KafkaUser, by the keys of its Secret. Raises CredentialsInvalid."""
    if "user.crt" in user and "user.key" in user:
        return TLS
    if "password" in user:
        return SCRAM
    raise CredentialsInvalid(
        f"the Secret {name} has neither user.crt with user.key nor password; it must be that of a KafkaUser"
    )


def _trust_of(strimzi: StrimziSpec) -> str:
    """The name of our reference to the certificates that are trusted."""
    return f"{strimzi.name}-trustbundle"
