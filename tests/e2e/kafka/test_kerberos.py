"""Kerberos: a real KDC, real nodes whose listeners have GSSAPI, the command line, and connections as the operator's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.base.errors import AddressRefused, AuthenticationFailed, Disconnected
from kafkafeatures.kafka.base.settings import Address, Kerberos, Sasl, Security, parse_addresses
from kafkafeatures.kafka.wire.addresses import AddressPolicy, networks
from kafkafeatures.kafka.wire.connection import Connection, connect
from kafkafeatures.kafka.wire.krb5_conf import read_krb5_conf
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest
from kafkafeatures.kafka.wire.pem import Tls
from tests.e2e.kafka.cli import run, write_document
from tests.e2e.rig.cluster import CLIENT, CONTROLLER, Cluster
from tests.e2e.rig.kerberos import REALM, Realm
from tests.e2e.rig.releases import NEWEST

HOST = "localhost"
NODE = f"kafka/{HOST}"
ALICE = f"alice@{REALM}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
SASL_AUTHENTICATE = 36


@dataclass(frozen=True)
class Secured:
    """A cluster with Kerberos on its listeners, and the realm."""

    cluster: Cluster
    realm: Realm

    def config(self, jaas: str) -> Path:
        """Kafka's own client properties with these options of the login module."""
        path = self.realm.folder / "client.properties"
        path.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.cluster.root / 'ca.pem'}\n"
            f"sasl.jaas.config={MODULE} {jaas};\n"
        )
        return path

    def describe(self, jaas: str, **environment: str) -> tuple[int, str]:
        """The exit code, and what `describe` says."""
        flags = "--bootstrap-server", self.cluster.bootstrap_servers, "--config", str(self.config(jaas))
        temporary = self.realm.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        variables = {**self.realm.environment, "TMPDIR": str(temporary), **environment}
        done = run("describe", *flags, environment=variables)
        assert done.stderr.count("\n") <= 1
        assert list(temporary.iterdir()) == []  # neither keytab nor tickets
        return done.returncode, done.stdout + done.stderr

    @property
    def address(self) -> Address:
        return parse_addresses(self.cluster.bootstrap_servers, "")[0]

    def security(self, login: Kerberos, policy: AddressPolicy | None = None) -> Security:
        return Security(Tls(ca=self.cluster.certificates.ca), Sasl("GSSAPI", kerberos=login), policy)

    def login(self, name: str = "alice") -> Kerberos:
        """The login of a document: keytab and KDCs of its own."""
        keytab = self.realm.keytab(name).read_bytes()
        return Kerberos("kafka", f"{name}@{REALM}", keytab, realms=read_krb5_conf(self.realm.conf.read_text()))

    async def connected(self, login: Kerberos, policy: AddressPolicy | None = None) -> Connection:
        security = self.security(login, policy)
        return await connect(self.address, security, timeout=30, client_id="t", environment=SYSTEM)


def with_keytab(keytab: Path, principal: str = ALICE) -> str:
    return f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}"'


def listener(name: str, login: str) -> dict[str, str]:
    prefix = f"listener.name.{name.lower()}"
    return {f"{prefix}.sasl.enabled.mechanisms": "GSSAPI", f"{prefix}.gssapi.sasl.jaas.config": login}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    root = tmp_path_factory.mktemp("kerberos")
    with Realm(root / "realm") as realm:
        for name in ("alice", NODE):
            realm.add(name)
        login = f"{MODULE} {with_keytab(realm.keytab(NODE), NODE)};"
        cluster = Cluster(
            root / "kafka",
            NEWEST,
            controllers=1,
            brokers=1,
            kind="GSSAPI",
            host=HOST,
            properties={
                "sasl.mechanism.controller.protocol": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                **listener(CLIENT, login),
                **listener(CONTROLLER, login),
                f"listener.name.{CLIENT.lower()}.gssapi.connections.max.reauth.ms": "2000",
            },
        )
        cluster.jvm = [f"-Djava.security.krb5.conf={realm.conf}"]
        with cluster:
            yield Secured(cluster, realm)


@pytest.fixture(autouse=True)
def with_library(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in secured.realm.environment.items():
        monkeypatch.setenv(name, value)


def test_describe_logs_in_with_a_keytab_and_reads_the_log_of_the_controllers(secured: Secured) -> None:
    code, text = secured.describe(with_keytab(secured.realm.keytab("alice")))
    assert code == 0, text
    assert "Source: metadata log" in text


def test_describe_logs_in_with_the_tickets_of_kinit_and_names_an_expired_one(secured: Secured) -> None:
    secured.realm.kinit("alice")
    assert secured.describe("useTicketCache=true")[0] == 0
    secured.realm.kinit("alice", "-l", "1s", "-s", "-1h")
    code, text = secured.describe("useTicketCache=true")
    assert (code, text.count("\n")) == (5, 1)
    assert "GSSAPI: the ticket has expired; run kinit, or use a keytab" in text


def test_a_missing_library_is_named_with_the_extra_that_has_it(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "gssapi.py").write_text("raise ImportError('libgssapi_krb5.so.2: no such file')\n")
    path = f"{tmp_path}:{secured.realm.environment['PYTHONPATH']}"
    code, text = secured.describe(with_keytab(secured.realm.keytab("alice")), PYTHONPATH=path)
    assert (code, text.count("\n")) == (5, 1)
    assert "(libgssapi_krb5.so.2: no such file); install kafka-features-operator[kerberos]" in text


def test_apply_dry_runs_a_document_with_keytab_and_krb5_conf_in_a_secret(secured: Secured, tmp_path: Path) -> None:
    login = tmp_path / "secrets" / "login"
    login.mkdir(parents=True)
    (login / "keytab").write_bytes(secured.realm.keytab("alice").read_bytes())
    (login / "krb5.conf").write_text(secured.realm.conf.read_text())
    (login / "ca.crt").write_text(secured.cluster.certificates.ca)
    path = write_document(
        tmp_path / "levels.yaml",
        {"metadata.version": 33},
        bootstrapServers=secured.cluster.bootstrap_servers,
        tls={"caSecretRef": {"name": "login"}},
        sasl={"mechanism": "GSSAPI", "username": ALICE, "secretRef": {"name": "login"}},
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**secured.realm.environment, "KRB5_CONFIG": "/nowhere", "TMPDIR": str(temporary)}
    done = run("plan", "-f", str(path), "--secrets-dir", str(login.parent), environment=environment)
    assert done.returncode == 0, done.stderr
    assert list(temporary.iterdir()) == []  # neither keytab nor tickets


class Authentications:
    """A recorder of requests that counts those of SASL exchanges, and sees no byte of them."""

    def __init__(self) -> None:
        self.count = 0

    def sent(self, address: Address, frame: bytes) -> None:
        if int.from_bytes(frame[4:6], "big") == SASL_AUTHENTICATE:
            self.count += 1
            assert b"\x60\x82" not in frame  # how a token of GSSAPI begins

    def received(self, address: Address, frame: bytes) -> None:
        """Not of interest."""


async def test_a_session_is_authenticated_again_before_it_expires(secured: Secured) -> None:
    """KIP-368: the node closes a connection after `connections.max.reauth.ms`."""
    authentications, security = Authentications(), secured.security(secured.login())
    renewing = await connect(
        secured.address, security, timeout=30, client_id="t", recorder=authentications, environment=SYSTEM
    )
    sleeping = await connect(
        secured.address, security, timeout=30, client_id="t", environment=Environment(monotonic=lambda: 0.0)
    )
    first = authentications.count
    async with renewing, sleeping, asyncio.timeout(30):
        while not sleeping.closed:  # without a renewal the node closes the connection
            await renewing.request(ApiVersionsRequest())
            with contextlib.suppress(Disconnected):
                await sleeping.request(ApiVersionsRequest())
        while authentications.count < 2 * first:
            await renewing.request(ApiVersionsRequest())


async def test_many_connections_share_one_ticket(secured: Secured) -> None:
    login, log = secured.login(), secured.realm.kdc
    before = log.log.count("AS_REQ")
    for connection in await asyncio.gather(*(secured.connected(login) for _ in range(4))):
        await connection.close()
    assert 1 <= log.log.count("AS_REQ") - before <= 2  # two exchanges run at the same time


async def test_the_files_of_a_login_go_with_it_and_only_this_user_may_read_them(secured: Secured) -> None:
    login = secured.login()
    async with await secured.connected(login):
        folder = login.files.tickets.parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.name for path in folder.iterdir()} >= {"keytab", "tickets"}
    del login
    assert not folder.exists()


async def test_the_operator_connects_only_to_a_kdc_that_its_policy_permits(secured: Secured) -> None:
    permitted = AddressPolicy(allowed=networks("127.0.0.0/8", "::1/128"))
    async with await secured.connected(secured.login(), permitted):
        pass
    text = secured.realm.conf.read_text().replace(f"kdc = 127.0.0.1:{secured.realm.port}", "kdc = 10.0.0.1")
    with pytest.raises(AddressRefused):
        await secured.connected(
            Kerberos("kafka", ALICE, secured.realm.keytab("alice").read_bytes(), realms=read_krb5_conf(text)), permitted
        )


def unknown_principal(secured: Secured) -> Kerberos:
    return Kerberos("kafka", f"bob@{REALM}", secured.realm.keytab("alice"))


def no_keytab(secured: Secured) -> Kerberos:
    path = secured.realm.folder / "broken.keytab"
    path.write_bytes(b"not a keytab")
    return Kerberos("kafka", ALICE, path)


def old_key(secured: Secured) -> Kerberos:
    secured.realm.add("carol")
    keytab = secured.realm.keytab("carol")
    secured.realm.keytab("carol", new_key=True)
    return Kerberos("kafka", f"carol@{REALM}", keytab)


def deleted(secured: Secured) -> Kerberos:
    secured.realm.add("dave")
    keytab = secured.realm.keytab("dave")
    secured.realm.delete("dave")
    return Kerberos("kafka", f"dave@{REALM}", keytab)


def locked(secured: Secured) -> Kerberos:
    secured.realm.add("locked", "-allow_tix")
    return secured.login("locked")


def expired(secured: Secured) -> Kerberos:
    secured.realm.add("expired", "-expire", "yesterday")
    return secured.login("expired")


def expired_key(secured: Secured) -> Kerberos:
    secured.realm.add("key", "-pwexpire", "yesterday")
    return secured.login("key")


def unknown_realm(secured: Secured) -> Kerberos:
    text = secured.realm.conf.read_text().replace(REALM, "OTHER.EXAMPLE")
    return Kerberos("kafka", ALICE, secured.realm.keytab("alice").read_bytes(), realms=read_krb5_conf(text))


def other_service(secured: Secured) -> Kerberos:
    return Kerberos("other", ALICE, secured.realm.keytab("alice"))


@pytest.mark.parametrize(
    ("make", "message", "remedy"),
    [
        (unknown_principal, f"the keytab has no key of bob@{REALM}", "klist -k"),
        (no_keytab, f"the keytab has no key of {ALICE}", "klist -k"),
        (old_key, f"the keytab has another key than the KDC for carol@{REALM}", "make a new keytab"),
        (deleted, f"the KDC does not know the principal dave@{REALM}", "check the principal"),
        (locked, f"the principal locked@{REALM} is locked", "ask the administrator"),
        (expired, f"the principal expired@{REALM} has expired", "ask the administrator"),
        (expired_key, f"the key of the principal key@{REALM} has expired", "make a new keytab"),
        (unknown_realm, f"krb5.conf has no KDC of the realm {REALM}", "add its kdc"),
        (other_service, f"the KDC has no principal other/{HOST} for this node", "sasl.kerberos.service.name"),
    ],
)
async def test_a_login_that_fails_says_why(
    secured: Secured, make: Callable[[Secured], Kerberos], message: str, remedy: str
) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        await secured.connected(make(secured))
    assert str(caught.value) == f"GSSAPI: {message}"
    assert remedy in caught.value.remedy


async def test_a_kdc_that_does_not_answer_is_named_in_time(secured: Secured) -> None:
    login, security = secured.login(), secured.security(secured.login())
    secured.realm.kdc.freeze()
    try:
        with pytest.raises(AuthenticationFailed, match=r"^GSSAPI: no answer from the KDC within 3 s$"):
            await connect(secured.address, security, timeout=5, client_id="t", environment=SYSTEM)
    finally:
        secured.realm.kdc.thaw()
    secured.realm.kdc.kill()
    try:
        with pytest.raises(AuthenticationFailed, match=f"^GSSAPI: no KDC of the realm {REALM} answers$"):
            await secured.connected(login)
    finally:
        secured.realm.kdc.start()


async def test_a_clock_that_differs_by_more_than_five_minutes_is_part_of_the_remedy(secured: Secured) -> None:
    with secured.realm.clock_ahead(3600), pytest.raises(AuthenticationFailed, match="GSSAPI") as caught:
        await secured.connected(secured.login())
    assert "check that the clocks agree" in caught.value.remedy
