"""Secrets in answers of nodes: they are removed from every text, in whatever encoding a node repeats them."""

from __future__ import annotations

import base64
import html
import json
import string
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.core.facts.observe import ClusterUnreachable, observe
from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    Failure,
    FailureKind,
    Host,
    LogReading,
    NodeAnswer,
    ProbedNode,
    Role,
)
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import AuthenticationFailed
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, OAuthClient, OAuthToken, Sasl, Security
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.messages import DescribeClusterResponse, UpdateFeaturesResponse
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.kafka.wire.sasl_codec import SaslAuthenticateResponse, SaslHandshakeResponse
from kafkafeatures.kafka.wire.secrets import LONGEST, REMOVED, WORD, Secrets
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.kafka.scripted_quorum import Quorum
from tests.kafkafeatures.kafka.wire.servers import Server, api_versions, framed, handshake, judged, refused, serving
from tests.kafkafeatures.worlds import NOW
from tests.kraftlog.build import level

PASSWORD = 'hunter2 "ä+/&=%'
ECHOES: dict[str, Callable[[str], str]] = {
    "as it is": lambda s: s,
    "in the middle": lambda s: f"user alice password {s}, which is wrong",
    "without a gap": lambda s: f"x{s}y",
    "percent": lambda s: quote(s, safe=""),
    "percent, lower case": lambda s: quote(s, safe="").lower(),
    "form": quote_plus,
    "form, twice": lambda s: quote_plus(quote_plus(s)),
    "each byte": lambda s: "".join(f"%{byte:02X}" for byte in s.encode()),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 for URLs": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base64 in a URL": lambda s: quote(base64.b64encode(s.encode()).decode(), safe=""),
    "base64 of PLAIN": lambda s: base64.b64encode(f"\0alice\0{s}".encode()).decode(),
    "base64 of Basic": lambda s: base64.b64encode(f"al:{s}".encode()).decode(),
    "base64 of Bearer": lambda s: base64.b64encode(f"n,,\x01auth=Bearer {s}\x01\x01".encode()).decode(),
    "PLAIN": lambda s: f"\0alice\0{s}",
    "JSON": lambda s: json.dumps({"password": s}),
    "JSON, no ASCII": lambda s: json.dumps({"password": s}, ensure_ascii=False),
    "HTML": html.escape,
    "upper case": str.upper,
}

# Encodings without anything around the secret.
PURE = ("as it is", "percent", "form, twice", "each byte", "hex", "base64", "base64 for URLs")


def of(*secrets: str, public: tuple[str, ...] = ()) -> Secrets:
    made = Secrets()
    made.add(*secrets)
    made.add_public(*public)
    return made


def text(secrets: Secrets, words: str) -> str:
    """An error message of a node, as it is shown."""
    return secrets.removed_from(SaslAuthenticateResponse(58, words, b"")).error_message or ""


def nothing_left(secret: str, words: str) -> None:
    """Assert that no encoded form of the secret is in the text."""
    for echo in ECHOES.values():
        assert echo(secret) not in words


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.parametrize("secret", [PASSWORD, "hunter2", "correct horse battery staple", "пароль-ö"])
def test_a_secret_is_removed_in_every_encoding(secret: str, echo: Callable[[str], str]) -> None:
    left = text(of(secret), f"no: {echo(secret)}.")
    assert REMOVED in left
    assert left.startswith("no: ")
    nothing_left(secret, left)


@given(
    secret=st.text(alphabet=string.ascii_letters + string.digits + "+/=&%ä ", min_size=6, max_size=40),
    before=st.binary(max_size=7),
    after=st.binary(max_size=7),
)
def test_a_secret_is_removed_from_base64_at_any_offset(secret: str, before: bytes, after: bytes) -> None:
    for code in (base64.b64encode, base64.urlsafe_b64encode):
        left = text(of(secret), code(before + secret.encode() + after).decode())
        assert REMOVED in left
        for part in left.split(REMOVED):
            assert len(part) <= 12  # what stood before or behind it


@given(words=st.text(max_size=200))
def test_text_without_secrets_is_unchanged(words: str) -> None:
    assert text(of("a-long-secret-that-nobody-says"), words) == words


@pytest.mark.parametrize(
    "proof",
    [
        "c=biws,r=abc,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        base64.b64encode(b"c=biws,r=abc,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=").decode(),
        quote("c=biws,r=abc,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=", safe=""),
    ],
    ids=["as it is", "base64", "percent"],
)
def test_a_scram_proof_is_removed(proof: str) -> None:
    left = text(of("other"), f"bad {proof}")
    assert "v0X8v3Bz" not in left
    assert proof[-30:] not in left


def test_any_json_web_token_is_removed() -> None:
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
    assert text(of("other"), f"expired: {token}") == f"expired: {REMOVED}"
    opaque = of("other")
    opaque.add_token("opaque-1")
    assert text(opaque, "expired: opaque-1") == f"expired: {REMOVED}"


@given(before=st.integers(LONGEST - 400, LONGEST + 400), echo=st.sampled_from(PURE))
def test_no_part_of_a_secret_is_left_where_a_text_is_cut(before: int, echo: str) -> None:
    secret = "hunter2-and-more"
    left = text(of(secret), "." * before + ECHOES[echo](secret) * 9 + "." * 9)
    assert len(left) <= LONGEST
    assert ECHOES[echo](secret)[:9] not in left


def test_a_short_secret_is_removed_only_as_a_whole_word() -> None:
    assert text(of("no"), "no such user, nobody knows no") == f"{REMOVED} such user, nobody knows {REMOVED}"


def test_answers_are_unchanged_without_authentication() -> None:
    answer = SaslAuthenticateResponse(58, "hunter2", b"")
    assert Secrets().removed_from(answer) is answer
    assert of("").removed_from(answer) is answer


def test_secrets_are_removed_from_every_text_field_of_an_answer() -> None:
    secrets = of("hunter2x")
    assert secrets.removed_from(SaslHandshakeResponse(33, ("PLAIN", "hunter2x"))).mechanisms == ("PLAIN", REMOVED)
    answers = UpdateFeaturesResponse(0, None, {"group.version": (95, "hunter2x"), "hunter2x": (0, None)})
    assert secrets.removed_from(answers).results == {"group.version": (95, REMOVED), REMOVED: (0, None)}
    hosts = (Host(1, "hunter2x.example", 9092), Host(2, "b", 9092))
    cluster = secrets.removed_from(DescribeClusterResponse(0, None, 1, "hunter2x", 1, hosts, 2))
    assert (cluster.cluster_id, cluster.nodes) == (REMOVED, (Host(1, f"{REMOVED}.example", 9092), hosts[1]))


def test_a_password_that_is_part_of_host_names_does_not_change_the_nodes() -> None:
    """Such a password is taken out of what people read, and the nodes stay where they are."""
    hosts = (Host(1, "kafka-0.kafka.svc", 9092), Host(2, "orders-kafka-1.example", 9092))
    answer = DescribeClusterResponse(31, "kafka may not", 1, "kafka", 1, hosts, 2)
    # Fewer than `MIN_IN_NAMES` characters; a part of public settings; the name of a feature of Kafka.
    for password, public in (("kafka", ()), ("orders-kafka", ("orders-kafka.example",)), ("metadata.version", ())):
        cleaned = of(password, public=public).removed_from(answer)
        assert (cleaned.nodes, cleaned.cluster_id) == (hosts, "kafka")
    assert of("kafka").removed_from(answer).error_message == f"{REMOVED} may not"


def test_secrets_of_all_listeners_of_a_cluster_are_removed_on_each_listener() -> None:
    settings = ClusterSettings(
        (Address("a", 1),),
        brokers=Security(Tls(), Sasl("PLAIN", "alice", "for-brokers")),
        controllers=Security(Tls(), Sasl("OAUTHBEARER", oauth=OAuthClient("https://h/t", "us", "for-tokens"))),
    )
    settings.controllers.secrets.add_token("fetched-later")
    for security in (settings.brokers, settings.controllers):
        words = "for-brokers for-tokens fetched-later"
        assert text(security.secrets, words) == " ".join([REMOVED] * 3)
    assert text(ClusterSettings().brokers.secrets, "for-brokers") == "for-brokers"


@pytest.mark.parametrize(
    ("sasl", "secret"),
    [
        (Sasl("SCRAM-SHA-256", "alice", PASSWORD), PASSWORD),
        (Sasl("SCRAM-SHA-256", "alice", "given", OAuthToken("a-given-token")), "a-given-token"),
    ],
    ids=["password", "token"],
)
@pytest.mark.parametrize("echo", ["base64 of PLAIN", "in the middle"])
async def test_an_error_message_that_repeats_the_secret_is_shown_without_it(sasl: Sasl, secret: str, echo: str) -> None:
    answers: dict[int, Any] = {
        18: api_versions((17, 0, 1), (36, 0, 2)),
        17: handshake(sasl.mechanism),
        36: lambda request: refused(request, 58, ECHOES[echo](secret)),
    }
    async with serving(Server(answers)) as server:
        with pytest.raises(AuthenticationFailed) as caught:
            await connect(server.address, Security(sasl=sasl), timeout=5.0, client_id="t", environment=SYSTEM)
    assert REMOVED in str(caught.value)
    nothing_left(secret, str(caught.value))


async def test_a_secret_is_removed_from_the_offered_sasl_mechanisms() -> None:
    answers: dict[int, Any] = {18: api_versions((17, 0, 1), (36, 0, 2)), 17: handshake("PLAIN", "hunter2", error=33)}
    async with serving(Server(answers)) as server:
        security = Security(sasl=Sasl("SCRAM-SHA-256", "alice", "hunter2"))
        with pytest.raises(AuthenticationFailed, match=r"it offers PLAIN, \*\*\*$"):
            await connect(server.address, security, timeout=5.0, client_id="t", environment=SYSTEM)


async def test_secrets_are_removed_from_readings_of_the_metadata_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the controllers writes it, also names of unknown features."""
    quorum = Quorum()
    quorum.leader.append(level("metadata.version", 20))
    quorum.leader.append(level("hunter2.version", 1))
    security = Security(Tls(), Sasl("PLAIN", "alice", "hunter2"))
    cluster = Cluster(
        ClusterSettings(bootstrap_controllers=(Address("c1", 1),), controllers=security), environment=SYSTEM
    )
    silent = Failure(FailureKind.NOT_ASKED, "", "nobody was asked")
    answer = NodeAnswer({}, {}, -1, {}, zk_migration_ready=False)
    node = ProbedNode(1, Role.CONTROLLER, "c1", 1, answer, NOW)

    async def asked(*_: object, **__: object) -> ClusterProbe:
        return ClusterProbe(NOW, silent, silent, silent, silent, (node,))

    monkeypatch.setattr("kafkafeatures.kafka.cluster.probe_cluster", asked)
    monkeypatch.setattr(cluster, "_log", quorum.log())
    reading = (await cluster.read()).log
    assert isinstance(reading, LogReading)
    assert dict(reading.image.features) == {"metadata.version": 20, f"{REMOVED}.version": 1}


@given(secret=st.text(st.characters(exclude_characters="*"), min_size=WORD, max_size=30), around=st.text(max_size=30))
def test_secrets_of_any_characters_are_removed(secret: str, around: str) -> None:
    assert secret not in text(of(secret), f"{around}{secret}{around}")


def compact(text: str) -> bytes:
    """A compact string, of less than 127 bytes."""
    return bytes([len(text.encode()) + 1]) + text.encode()


async def test_a_reading_contains_no_secret(tmp_path: Path) -> None:
    """Any answer after the login may repeat the secret, and readings are shown in the status and in the log."""

    def described(request: bytes) -> bytes:
        said = f"alice with hunter2 or {base64.b64encode(b'hunter2').decode()} may not"
        error = (92).to_bytes(2, "big") + compact(said) + compact("") + bytes(4) + b"\1" + bytes(4) + b"\0"
        return framed(request[4:8] + b"\0" + bytes(4) + error)

    certificates = Certificates()
    context = certificates.server_side(tmp_path)
    answers: dict[int, Any] = {
        18: api_versions((3, 0, 12), (17, 0, 1), (36, 0, 2), (60, 0, 0)),
        17: handshake("PLAIN"),
        36: judged,
        60: described,
    }
    async with serving(Server(answers), context) as server:
        listener = Security(Tls(ca=certificates.ca), Sasl("PLAIN", "alice", "hunter2"))
        settings = ClusterSettings((server.address,), brokers=listener, controllers=listener, request_timeout=5.0)
        async with Cluster(settings, environment=SYSTEM) as cluster:
            with pytest.raises(ClusterUnreachable) as caught:
                observe(*await cluster.read())
    assert f"alice with {REMOVED} or {REMOVED} may not" in str(caught.value.failure)


@pytest.mark.parametrize("made_of", ["-eyJ", "eyJ.", "p=aaaa", "%2Cp%3D", "-Yz1iaXdz", PASSWORD[:-1]])
def test_the_search_for_secrets_is_fast_for_any_text(made_of: str) -> None:
    """A list of such texts, as an answer may have, once blocked the event loop for seconds."""
    secrets = Secrets()
    secrets.add(PASSWORD)
    text = (made_of * LONGEST)[:LONGEST]
    began = time.process_time()
    secrets.removed_from(UpdateFeaturesResponse(1, None, {str(number): (1, text) for number in range(200)}))
    assert time.process_time() - began < 1.5
