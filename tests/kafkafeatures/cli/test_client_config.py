"""Kafka's client properties, read without a JVM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkafeatures.cli.cluster.client_config import ConfigInvalid, parse_properties, read_properties, security_of
from kafkafeatures.kafka.base.settings import Address, Kerberos, OAuthClient, OAuthToken, parse_addresses

CERT = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
GSSAPI = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIC\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a: 1\n# c=2\n! d=3\n\n b = 2 ", {"a": "1", "b": "2"}),
        ("a one two", {"a": "one two"}),
        ("a=1\\\n   2\\\n   3", {"a": "123"}),
        ("a=C:\\\\x", {"a": "C:\\x"}),
        ("a\\=b=c\\u0041", {"a=b": "cA"}),
        ("a=", {"a": ""}),
    ],
)
def test_a_file_is_parsed_in_the_format_of_java_properties(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_scram_login_may_have_quotes_inside_the_password() -> None:
    jaas = 'org.x.ScramLoginModule required username="al ice" password="a\\"b;c";'
    found = security_of(
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}, "f"
    )
    assert found.sasl is not None
    assert (found.sasl.username, found.sasl.password) == ("al ice", 'a"b;c')
    assert found.tls is not None
    assert found.protocol == "SASL_SSL"


def test_pem_stores_give_the_certificate_chain_and_the_key(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(CERT)
    (tmp_path / "me.pem").write_text(CERT + KEY)
    (tmp_path / "f").write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={tmp_path}/ca.pem\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/me.pem\n"
    )
    tls = security_of(read_properties(tmp_path / "f"), "f").tls
    assert tls is not None
    assert (tls.ca, tls.certificate, tls.key) == (CERT, CERT, KEY)


def test_tokens_are_fetched_or_read_from_a_file(tmp_path: Path) -> None:
    base = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    url = "sasl.oauthbearer.token.endpoint.url"
    jaas = 'org.x.OAuthBearerLoginModule required clientId="me" clientSecret="canary-1" scope="kafka";'
    fetched = security_of({**base, url: "https://issuer/token", "sasl.jaas.config": jaas}, "f")
    assert fetched.sasl is not None
    assert isinstance(fetched.sasl.oauth, OAuthClient)
    assert fetched.sasl.oauth.scope == "kafka"
    assert "canary" not in repr(fetched)
    (tmp_path / "token").write_text("abc.def\n")
    read = security_of({**base, url: f"file://{tmp_path}/token"}, "f")
    assert read.sasl is not None
    assert read.sasl.oauth == OAuthToken("abc.def")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "TLS"}, "invalid security.protocol: expected one of PLAINTEXT, SSL"),
        (
            {"security.protcol": "SASL_SSL"},
            "unsupported property security.protcol; it would change the connection; did you mean",
        ),
        (
            {"security.protocol": "SSL", "ssl.engine.factory.class": "x"},
            "unsupported property ssl.engine.factory.class",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.key": "abc"}, "ssl.keystore.key contains no PEM private key"),
        ({"securty.protocol": "SSL"}, "unknown property securty.protocol; did you mean security.protocol?"),
        ({"Security.Protocol": "SSL"}, "unknown property Security.Protocol; did you mean security.protocol?"),
        ({"sasl_mechanism": "PLAIN"}, "unknown property sasl_mechanism; did you mean sasl.mechanism?"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not set; set it to one of PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "DIGEST"}, "invalid sasl.mechanism DIGEST: expected one"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}, "AWS_MSK_IAM is not supported: it signs"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "GSSAPI needs sasl.kerberos.service.name"),
        ({**GSSAPI, "sasl.jaas.config": f"{KRB5} useKeyTab=true;"}, "useKeyTab=true needs keyTab and principal"),
        (
            {**GSSAPI, "sasl.jaas.config": f'{KRB5} useKeyTab=true keyTab="/no/keytab" principal="a@B";'},
            "sasl.jaas.config: keyTab /no/keytab: No such file or directory",
        ),
        (
            {**GSSAPI, "sasl.jaas.config": f'{KRB5} principal="a@B";'},
            "GSSAPI needs Krb5LoginModule with useKeyTab=true",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "no username and password"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.pem"}, "No such file"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}, "host names are always verified"),
    ],
)
def test_an_unsupported_property_is_refused_by_name(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"^f: .*") as caught:
        security_of(properties, "f")
    assert message in str(caught.value)


def test_client_properties_that_do_not_concern_the_connection_are_ignored() -> None:
    """The other properties of Kafka's AdminClientConfig and CommonClientConfigs, and some of consumers and tools."""
    names = (
        "bootstrap.servers bootstrap.controllers client.dns.lookup client.id connections.max.idle.ms "
        "receive.buffer.bytes send.buffer.bytes request.timeout.ms socket.connection.setup.timeout.ms "
        "socket.connection.setup.timeout.max.ms reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms "
        "retry.backoff.max.ms retries metadata.max.age.ms metadata.recovery.strategy metric.reporters "
        "metrics.num.samples metrics.recording.level metrics.sample.window.ms enable.metrics.push group.id "
        "default.api.timeout.ms group.protocol key.deserializer schema.registry.url isolation.level session.timeout.ms"
    )
    assert security_of(dict.fromkeys(names.split(), "x"), "f") == security_of({}, "f")


def test_a_kerberos_login_has_a_keytab_or_the_tickets_of_a_cache(tmp_path: Path) -> None:
    keytab = tmp_path / "alice.keytab"
    keytab.touch()
    jaas = f'{KRB5} useKeyTab=true storeKey=true keyTab="{keytab}" principal="alice@EXAMPLE.COM";'
    found = security_of({**GSSAPI, "sasl.jaas.config": jaas}, "f")
    assert found.sasl is not None
    assert found.sasl.kerberos == Kerberos("kafka", "alice@EXAMPLE.COM", keytab)
    jaas = f'{KRB5} useTicketCache=true ticketCache="/tmp/krb5cc_1" serviceName="other";'
    found = security_of({**GSSAPI, "sasl.jaas.config": jaas}, "f")
    assert found.sasl is not None
    assert found.sasl.kerberos == Kerberos("other", ticket_cache="/tmp/krb5cc_1")


@pytest.mark.parametrize(("store", "flag"), [("truststore", "-nokeys"), ("keystore", "-nodes")])
def test_a_jks_store_is_refused_with_the_commands_that_make_pem(tmp_path: Path, store: str, flag: str) -> None:
    path = tmp_path / "store.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ConfigInvalid, match="is not PEM; make PEM of it: keytool -importkeystore") as caught:
        security_of({"security.protocol": "SSL", f"ssl.{store}.location": str(path)}, "f")
    assert f"-srckeystore {path} -destkeystore store.p12 -deststoretype PKCS12" in str(caught.value)
    assert f"openssl pkcs12 -in store.p12 {flag} -out store.pem" in str(caught.value)


def test_bootstrap_addresses_are_parsed_as_kafka_does() -> None:
    assert parse_addresses("a:1, [::1]:2 ,a:1,", "x") == (Address("a", 1), Address("::1", 2))
    assert str(Address("::1", 2)) == "[::1]:2"


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:0", "a:65536", "a:x", "::1:2", "a:٣"])
def test_an_invalid_bootstrap_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="--bootstrap-server: "):
        parse_addresses(text, "--bootstrap-server")


# --- config.providers ---

PROVIDER = "org.apache.kafka.common.config.provider."
LOGIN = """security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.x.ScramLoginModule required username="admin" password="%s";
config.providers=p
config.providers.p.class=%s
"""


def password(tmp_path: Path, reference: str, provider: str, more: str = "") -> str | None:
    (tmp_path / "f").write_text(LOGIN % (reference, provider) + more)
    sasl = security_of(read_properties(tmp_path / "f"), "f").sasl
    return sasl.password if sasl is not None else None


def test_config_providers_read_files_directories_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets").write_text("password=canary ${p:x:y}\n")
    monkeypatch.setenv("KAFKA_PASSWORD", "from-env")
    assert password(tmp_path, f"${{p:{tmp_path}/secrets:password}}", PROVIDER + "FileConfigProvider") == (
        "canary ${p:x:y}"  # what a value holds is not looked at again
    )
    assert password(tmp_path, f"${{p:{tmp_path}:secrets}}", PROVIDER + "DirectoryConfigProvider") == (
        "password=canary ${p:x:y}\n"
    )
    assert password(tmp_path, "${p:KAFKA_PASSWORD}", PROVIDER + "EnvVarConfigProvider") == "from-env"


@pytest.mark.parametrize(
    ("reference", "provider", "more", "words"),
    [
        ("${p:/x:y}", "io.x.SecurePassProvider", "", "its class io.x.SecurePassProvider is not supported"),
        ("${q:/x:y}", PROVIDER + "FileConfigProvider", "", "names the provider 'q', and config.providers lists p"),
        ("${p:/absent:y}", PROVIDER + "FileConfigProvider", "", "/absent: No such file"),
        ("${p:f:absent}", PROVIDER + "FileConfigProvider", "", "has no absent"),
        ("${p:f:x}", PROVIDER + "FileConfigProvider", "config.providers.p.param.allowed.paths=/etc", "allowed.paths"),
        ("${p:ABSENT_1}", PROVIDER + "EnvVarConfigProvider", "", "there is no environment variable ABSENT_1"),
        ("${p:HOME}", PROVIDER + "EnvVarConfigProvider", "config.providers.p.param.allowlist.pattern=KAFKA_.*", "HOME"),
        ("${p:..:../x}", PROVIDER + "DirectoryConfigProvider", "", "is not the name of a file"),
        ("${PASSWORD}", PROVIDER + "EnvVarConfigProvider", "", "begins with ${ and names no provider"),
        ("${p:/x", PROVIDER + "FileConfigProvider", "", "begins with ${ and names no provider"),
        (r"\\${p:/x:y}", PROVIDER + "FileConfigProvider", "", r"\${ does not escape: Kafka replaces a"),
        (
            r"pa\\${p:/x:y}",
            PROVIDER + "FileConfigProvider",
            "",
            r"\${ does not escape: Kafka replaces a",
        ),
        (r"\\${PASSWORD}", PROVIDER + "EnvVarConfigProvider", "", "begins with ${ and names no provider"),
        (r"$\\{PASSWORD}", PROVIDER + "EnvVarConfigProvider", "", "the value of password begins with ${"),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_refused_and_never_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, provider: str, more: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigInvalid, match=re.escape(words)) as caught:
        password(tmp_path, reference, provider, more)
    assert "sasl.jaas.config" in str(caught.value)


def test_a_value_of_a_config_provider_that_is_itself_a_reference_is_never_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "${VAULT_PASSWORD}")
    with pytest.raises(ConfigInvalid, match="the value of KAFKA_PASSWORD begins with") as caught:
        password(tmp_path, "${p:KAFKA_PASSWORD}", PROVIDER + "EnvVarConfigProvider")
    assert "VAULT" not in str(caught.value)
    monkeypatch.setenv("KAFKA_PASSWORD", r"\${VAULT_PASSWORD}")
    with pytest.raises(ConfigInvalid, match="the value of password begins with") as caught:
        password(tmp_path, "${p:KAFKA_PASSWORD}", PROVIDER + "EnvVarConfigProvider")
    assert "VAULT" not in str(caught.value)


def test_a_reference_without_a_config_provider_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("security.protocol=${env:KAFKA_PROTOCOL}\n")
    with pytest.raises(ConfigInvalid, match=r"names the provider 'env', and config\.providers lists none"):
        read_properties(tmp_path / "f")


def test_a_password_with_dollar_signs_and_an_unused_config_provider_are_accepted(tmp_path: Path) -> None:
    for text in ("pa${ss", r"pa\\${ss", r"pa\\${ss}"):
        assert password(tmp_path, text, "io.x.SecurePassProvider") == text.replace("\\", "")
