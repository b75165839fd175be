"""A cluster that Strimzi manages is found by its `Kafka`, the Secret of a KafkaUser and the certificates of its CA.
What is missing or does not fit is named.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafkafeatures.core.facts.readings import Failure, FailureKind, Readings
from kafkafeatures.kafka.base.requester import Requester
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Sasl
from kafkafeatures.kafka.wire import tls
from kafkafeatures.kafka.wire.pem import Tls
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.reconcile.rig import Rig
from tests.kafkafeatures.worlds import asked, probe
from tests.simulated.orders import KEY, Orders
from tests.simulated.requests import Fault, Request

NAMESPACE = KEY.namespace
KAFKA = f"/apis/kafka.strimzi.io/v1/namespaces/{NAMESPACE}/kafkas/my-cluster"
LABELS = {"kafkafeatures.dev/credentials": "true"}
TLS, SCRAM = {"type": "tls"}, {"type": "scram-sha-512"}
CERTIFICATES, OTHER = Certificates(), Certificates()
CERTIFICATE, PRIVATE_KEY = CERTIFICATES.client("kafka-features")
OWN_CERTIFICATE = {"brokerCertChainAndKey": {"secretName": "own", "certificate": "tls.crt", "key": "tls.key"}}
ADDRESS = {"tls": "tls.example:9094"}
UID, BUNDLE, AUTHORITIES = "uid-of-kafka", "my-cluster-trustbundle", "my-cluster-cluster-ca-cert"


def listener(name: str, port: int = 9093, type_: str = "internal", *, tls: bool = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "port": port, "type": type_, "tls": tls, **more}


class Scene(Rig):
    """A namespace of Strimzi with a document that names its `Kafka`. strimzi: more fields of `spec.cluster.strimzi`."""

    def __init__(self, *listeners: Mapping[str, Any], password: str = "", **strimzi: Any) -> None:
        super().__init__(Orders())
        levels = {"levels": [{"name": "group.version", "level": 1}]}
        self.api.edit(cluster={"strimzi": {"name": "my-cluster", **strimzi}}, features=levels)
        self.listeners = listeners or (listener("tls", authentication=TLS),)
        user = {"password": password} if password else {"user.crt": CERTIFICATE, "user.key": PRIVATE_KEY}
        self.shows({each["name"]: f"{each['name']}.example:9094" for each in self.listeners})
        self.secret("kafka-features", user, labels=LABELS)
        self.secret(BUNDLE, {"cluster-ca.crt": CERTIFICATES.ca, "clients-ca.crt": OTHER.ca}, owner=UID)

    def shows(self, addresses: Mapping[str, str], failure: str = "", **kafka: str) -> None:
        """The `Kafka`, with the addresses of these listeners in its status, and with more fields of `spec.kafka`.
        `failure`: message of the failure to set metadata.version; empty for none.
        """
        shown = [
            {"name": name, "bootstrapServers": address, "certificates": [OTHER.other_ca]}
            for name, address in addresses.items()
        ]
        metadata = {"namespace": NAMESPACE, "name": "my-cluster", "uid": UID}
        spec = {"kafka": {"listeners": [*self.listeners], **kafka}}
        failed = {"type": "Warning", "status": "True", "reason": "MetadataUpdateFailed", "message": failure}
        status = {"listeners": shown, "conditions": [{"type": "Ready", "status": "True"}, *[failed] * bool(failure)]}
        self.api.server.store(KAFKA, {"metadata": metadata, "spec": spec, "status": status})

    def secret(
        self, name: str, texts: Mapping[str, str], *, labels: Mapping[str, str] | None = None, owner: str = ""
    ) -> None:
        data = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        metadata = {"namespace": NAMESPACE, "name": name, "uid": name, "labels": dict(labels or {})}
        owners = [{"kind": "Kafka", "name": "my-cluster", "uid": owner}] if owner else []
        self.api.server.store(self.path(name), {"metadata": metadata | {"ownerReferences": owners}, "data": data})

    def path(self, secret: str) -> str:
        return f"/api/v1/namespaces/{NAMESPACE}/secrets/{secret}"

    async def settings(self) -> ClusterSettings:
        """What the operator connects to now."""
        await self.work()
        return self.opened[-1]

    async def metadata_version(self, mode: str = "Apply") -> dict[str, Any]:
        """What the status says of metadata.version after a reconciliation."""
        self.api.edit(mode=mode)
        await self.work()
        return next(feature for feature in self.api.status["features"] if feature["name"] == "metadata.version")

    async def refusal(self) -> str:
        """The message of a cluster that cannot be connected to."""
        await self.work()
        assert self.opened == []
        condition = self.api.condition("Reachable")
        assert condition["reason"] == "CredentialsInvalid"
        message: str = condition["message"]
        return message


async def test_a_user_with_a_certificate_connects_to_the_listener_with_tls() -> None:
    settings = await Scene(listener("plain", 9092, tls=False), listener("tls", authentication=TLS)).settings()
    assert settings.bootstrap_servers == (Address("tls.example", 9094),)
    assert settings.brokers.tls == Tls(ca=CERTIFICATES.ca.strip(), certificate=CERTIFICATE, key=PRIVATE_KEY)
    assert settings.controllers == settings.brokers


@pytest.mark.parametrize("code", [18, 19, 20, 21])
async def test_a_ca_that_is_not_trusted_is_one_that_strimzi_writes_and_that_no_setting_names(code: int) -> None:
    error = ssl.SSLCertVerificationError(1, "CERTIFICATE_VERIFY_FAILED")
    error.verify_code, error.verify_message = code, "not trusted"
    settings = await Scene().settings()
    remedy = tls.failed(error, settings.brokers.tls, named=settings.brokers.named).remedy
    assert remedy.startswith("the CA must be in the Secrets -trustbundle or -cluster-ca-cert of the Kafka, ")
    assert remedy.endswith("or name another listener in spec.cluster.strimzi.listener")


async def test_a_user_with_a_password_logs_in_by_scram() -> None:
    scene = Scene(listener("mtls", authentication=TLS), listener("scram", authentication=SCRAM), password="secret")
    settings = await scene.settings()
    assert settings.bootstrap_servers == (Address("scram.example", 9094),)
    assert settings.brokers.sasl == Sasl("SCRAM-SHA-512", "kafka-features", "secret")
    assert settings.brokers.tls == Tls(ca=CERTIFICATES.ca.strip())


async def test_of_several_listeners_that_fit_the_first_one_is_used_unless_the_document_names_another() -> None:
    listeners = listener("first", 9093, authentication=TLS), listener("second", 9095, authentication=TLS)
    assert (await Scene(*listeners).settings()).bootstrap_servers[0].host == "first.example"
    assert (await Scene(*listeners, listener="second").settings()).bootstrap_servers[0].host == "second.example"


async def test_an_internal_listener_comes_before_others_unless_the_document_names_one() -> None:
    listeners = listener("outside", 9095, "loadbalancer", authentication=TLS), listener("inside", authentication=TLS)
    assert (await Scene(*listeners).settings()).bootstrap_servers[0].host == "inside.example"
    assert (await Scene(*listeners, listener="outside").settings()).bootstrap_servers[0].host == "outside.example"


async def test_a_certificate_for_the_controllers_is_used_for_them_alone() -> None:
    scene = Scene(controllers={"clientSecretRef": {"name": "controllers"}})
    certificate, key = CERTIFICATES.client("controllers")
    scene.secret("controllers", {"tls.crt": certificate, "tls.key": key}, labels=LABELS)
    settings = await scene.settings()
    assert settings.controllers.tls == Tls(ca=CERTIFICATES.ca.strip(), certificate=certificate, key=key)
    assert settings.brokers.tls == Tls(ca=CERTIFICATES.ca.strip(), certificate=CERTIFICATE, key=PRIVATE_KEY)


async def test_without_a_bundle_all_certificates_of_the_cluster_ca_are_trusted_also_one_that_is_replaced() -> None:
    scene = Scene()
    scene.api.server.remove(scene.path(BUNDLE))
    both = {"ca.crt": CERTIFICATES.ca, "ca-2026-01-01T00-00-00Z.crt": OTHER.ca, "ca.password": "secret"}
    scene.secret(AUTHORITIES, both, owner=UID)
    tls = (await scene.settings()).brokers.tls
    assert tls is not None
    assert tls.ca == f"{OTHER.ca.strip()}\n{CERTIFICATES.ca.strip()}"  # by the names of their keys


@pytest.mark.parametrize("owner", ["", "uid-of-another"], ids=["nobody's", "of another Kafka"])
async def test_certificates_of_a_secret_that_the_kafka_does_not_own_are_not_trusted(owner: str) -> None:
    scene = Scene()
    for name in (BUNDLE, AUTHORITIES):
        scene.secret(name, {"cluster-ca.crt": CERTIFICATES.ca, "ca.crt": CERTIFICATES.ca}, owner=owner)
    tls = (await scene.settings()).brokers.tls
    assert tls is not None
    assert tls.ca == OTHER.other_ca.strip()  # of the status


async def test_a_listener_with_a_certificate_of_its_own_is_trusted_by_the_status() -> None:
    settings = await Scene(listener("tls", authentication=TLS, configuration=OWN_CERTIFICATE)).settings()
    assert settings.brokers.tls is not None
    assert settings.brokers.tls.ca == OTHER.other_ca.strip()


async def test_a_moved_address_or_a_new_certificate_authority_opens_the_connections_anew() -> None:
    scene = Scene()
    await scene.work()
    await scene.work()
    assert len(scene.opened) == 1
    scene.shows({"tls": "moved.example:9094"})
    assert (await scene.settings()).bootstrap_servers == (Address("moved.example", 9094),)
    scene.secret(BUNDLE, {"cluster-ca.crt": OTHER.ca}, owner=UID)
    tls = (await scene.settings()).brokers.tls
    assert tls is not None
    assert tls.ca == OTHER.ca.strip()
    assert len(scene.opened) == 3


async def test_a_paused_kafka_keeps_its_address_and_a_new_process_uses_the_service_of_an_internal_listener() -> None:
    scene = Scene()
    await scene.work()
    scene.shows({})  # Strimzi removes the listeners from the status of a Kafka that is paused
    await scene.work()
    assert len(scene.opened) == 1
    for type_, service in (
        ("internal", "my-cluster-kafka-bootstrap"),
        ("cluster-ip", "my-cluster-kafka-inside-bootstrap"),
    ):
        another = Scene(listener("inside", type_=type_, authentication=TLS))
        another.shows({})
        assert (await another.settings()).bootstrap_servers == (Address(f"{service}.{NAMESPACE}.svc", 9093),)


async def test_a_paused_kafka_keeps_the_address_and_the_certificate_of_an_external_listener_beside_a_rival() -> None:
    scene = Scene(listener("outside", type_="nodeport", authentication=TLS, configuration=OWN_CERTIFICATE))
    await scene.work()
    scene.shows({})
    await scene.controller._connections.close(KEY)  # while another operator writes the status
    settings = await scene.settings()
    assert settings.bootstrap_servers == (Address("outside.example", 9094),)
    assert len(scene.opened) == 2


async def test_addresses_in_another_order_open_no_connections_anew() -> None:
    """Strimzi lists those of a nodeport in any order."""
    scene = Scene()
    for addresses in ("a.example:1,b.example:2", "b.example:2, a.example:1"):
        scene.shows({"tls": addresses})
        await scene.work()
    assert len(scene.opened) == 1


async def test_the_secret_of_the_user_is_read_once_for_each_reconciliation() -> None:
    scene, paths = Scene(), list[str]()

    def note(request: Request) -> Fault | None:
        paths.append(request.path)
        return None

    scene.api.faults = note
    await scene.work()
    assert paths.count(scene.path("kafka-features")) == 1


async def test_only_a_listener_that_is_named_may_be_without_tls_and_only_for_scram() -> None:
    plain = listener("plain", 9092, tls=False, authentication=SCRAM)
    assert (await Scene(plain, password="secret", listener="plain").settings()).brokers.tls is None
    assert "no listener with TLS" in await Scene(plain, password="secret").refusal()


async def test_remedies_name_what_the_owner_of_a_kafka_can_change() -> None:
    settings = await Scene().settings()
    for text in (*settings.brokers.named, *settings.controllers.named):
        assert "spec.cluster.tls" not in text
        assert "controllerListener" not in text
    refused = Failure(FailureKind.TLS, "h:9090", "the node does not trust the CA of our client certificate")
    readings = Readings(probe(asked(1), asked(3001, refused)), refused)
    log = Requester(settings).of_readings(readings).log
    assert isinstance(log, Failure)
    assert "spec.cluster.strimzi.controllers.clientSecretRef" in log.remedy


async def test_a_certificate_that_the_controllers_refuse_is_named_by_its_own_field() -> None:
    scene = Scene(controllers={"clientSecretRef": {"name": "controllers"}})
    certificate, key = OTHER.client("controllers")
    scene.secret("controllers", {"tls.crt": certificate, "tls.key": key}, labels=LABELS)
    settings = await scene.settings()
    assert settings.controllers.named.client == "spec.cluster.strimzi.controllers.clientSecretRef"
    assert settings.brokers.named.client == "the certificate of the KafkaUser that spec.cluster.strimzi.user names"


def without_kafka(scene: Scene) -> None:
    scene.api.server.remove(KAFKA)


def without_right(scene: Scene) -> None:
    scene.api.server.forbidden.add("kafkas")


def without_user(scene: Scene) -> None:
    scene.api.server.remove(scene.path("kafka-features"))


def without_label(scene: Scene) -> None:
    scene.secret("kafka-features", {"user.crt": CERTIFICATE, "user.key": PRIVATE_KEY})


def of_another_kind(scene: Scene) -> None:
    scene.secret("kafka-features", {"token": "secret"}, labels=LABELS)


def without_right_to_secrets(scene: Scene) -> None:
    scene.api.server.forbidden.add("secrets")


def without_a_certificate_in_the_bundle(scene: Scene) -> None:
    scene.secret(BUNDLE, {"cluster-ca.crt": "# Müller"}, owner=UID)


def without_certificates(scene: Scene) -> None:
    scene.api.server.remove(scene.path(BUNDLE))
    scene.shows({})


def without_its_own_certificate(scene: Scene) -> None:
    scene.listeners = (listener("tls", authentication=TLS, configuration=OWN_CERTIFICATE),)
    scene.shows({})


def created_anew(scene: Scene) -> None:
    scene.secret(BUNDLE, {"cluster-ca.crt": CERTIFICATES.ca}, owner="uid-of-the-one-before")
    scene.shows({})


_LABEL = "the Secret of the KafkaUser kafka-features does not exist, or does not have the label"
REFUSED: dict[str, tuple[Callable[[Scene], None], str]] = {
    "no Kafka": (without_kafka, "no Kafka my-cluster (kafka.strimzi.io/v1) in the namespace kafka"),
    "no right": (without_right, "not authorized to read the Kafka my-cluster; allow its ServiceAccount"),
    "no user": (without_user, _LABEL),
    "no label": (without_label, _LABEL),
    "a Secret of another kind": (of_another_kind, "has neither user.crt with user.key nor password"),
    "no right to Secrets": (without_right_to_secrets, "not authorized to read the Secret kafka-features"),
    "no certificate in the bundle": (
        without_a_certificate_in_the_bundle,
        "the listener tls of the Kafka my-cluster: the CA is not a PEM certificate",
    ),
    "no certificates": (without_certificates, "my-cluster-cluster-ca-cert), nor in its status; wait until Strimzi"),
    "no certificate of its own": (
        without_its_own_certificate,
        "no certificates of its listener tls: not in its status, and it has one of its own; wait until Strimzi",
    ),
    "an older Kafka owned the Secrets": (created_anew, "neither in a Secret that it owns (my-cluster-trustbundle, "),
}


@pytest.mark.parametrize(("change", "says"), REFUSED.values(), ids=REFUSED)
async def test_a_missing_resource_or_key_is_named(change: Callable[[Scene], None], says: str) -> None:
    scene = Scene()
    change(scene)
    message = await scene.refusal()
    assert says in message
    assert "spec.cluster.tls" not in message  # which a document with `strimzi` may not have


GOOD, SHOWN = listener("tls", authentication=TLS), {"name": "tls", "bootstrapServers": "a.example:9094"}
MALFORMED: dict[str, tuple[Any, Any]] = {
    "listeners are no list": ({"tls": GOOD}, {"listeners": [SHOWN]}),
    "a listener is a text": (["tls"], {"listeners": [SHOWN]}),
    "a listener without a name": ([{"tls": True, "authentication": TLS}], {"listeners": [SHOWN]}),
    "an authentication is a text": ([{**GOOD, "authentication": "tls"}], {"listeners": [SHOWN]}),
    "no port": ([{key: value for key, value in GOOD.items() if key != "port"}], None),
    "a listener of the status is a text": ([GOOD], {"listeners": ["tls"]}),
    "certificates are no texts": ([GOOD], {"listeners": [{**SHOWN, "certificates": [1]}]}),
    "an address without a port": ([GOOD], {"listeners": [{**SHOWN, "bootstrapServers": "a.example"}]}),
    "an address of IPv6 without brackets": ([GOOD], {"listeners": [{**SHOWN, "bootstrapServers": "fd00::1:9094"}]}),
    "an endless address": ([GOOD], {"listeners": [{**SHOWN, "bootstrapServers": "a.example:9094," * 1000}]}),
}


@pytest.mark.parametrize(("listeners", "status"), MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_kafka_is_named(listeners: Any, status: Any) -> None:
    scene = Scene()
    metadata = {"namespace": NAMESPACE, "name": "my-cluster", "uid": UID}
    spec = {"kafka": {"listeners": listeners}}
    scene.api.server.store(KAFKA, {"metadata": metadata, "spec": spec, "status": status})
    assert "the Kafka my-cluster cannot be used: " in await scene.refusal()


@pytest.mark.parametrize(
    ("listeners", "strimzi", "says"),
    [
        ([listener("plain", tls=False)], {}, "no listener with the authentication tls of the KafkaUser"),
        (
            [listener("plain", tls=False, authentication=TLS)],
            {},
            "no listener with TLS; its listeners are: plain (tls, ",
        ),
        ([listener("plain", tls=False, authentication=TLS)], {"listener": "plain"}, "no TLS on the listener plain"),
        ([listener("scram", authentication=SCRAM)], {}, "its listeners are: scram (scram-sha-512)"),
        (
            [listener("scram", authentication=SCRAM)],
            {"listener": "scram"},
            "another authentication on the listener scram",
        ),
        ([listener("tls", authentication=TLS)], {"listener": "outside"}, "no listener outside; its listeners are: tls"),
        (
            [listener("outside", 9095, "nodeport", authentication=TLS)],
            {},
            "shows no address of its listener outside",
        ),
    ],
    ids=[
        "no authentication",
        "none with TLS",
        "the one that is named has no TLS",
        "another authentication",
        "the one that is named has another",
        "not the one that is named",
        "external, without an address",
    ],
)
async def test_a_listener_that_does_not_fit_is_named(
    listeners: list[dict[str, Any]], strimzi: dict[str, Any], says: str
) -> None:
    scene = Scene(*listeners, **strimzi)
    scene.shows({})
    assert says in await scene.refusal()
