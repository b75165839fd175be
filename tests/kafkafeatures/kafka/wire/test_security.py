"""TLS, SASL and tokens against servers of our own: what real nodes do with the same is in tests/e2e."""

from __future__ import annotations

import hashlib
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from scramp import ScramMechanism

from kafkafeatures.api.values import replace
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.base.errors import AuthenticationFailed, KafkaError, TlsFailed
from kafkafeatures.kafka.base.settings import OAuthToken, Sasl, Security
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.kafka.wire.unregister_codec import UnregisterBrokerRequest
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.kafka.wire.servers import (
    Answers,
    Server,
    api_versions,
    handshake,
    judged,
    proof_of,
    serving,
    unregistered,
)

CERTIFICATES = Certificates()
CANARY = "canary-0f7b1"
ASK = UnregisterBrokerRequest(1)


def server_side(folder: Path, pair: tuple[str, str], *, wants_client: bool = False) -> ssl.SSLContext:
    (folder / "ca.pem").write_text(CERTIFICATES.ca)
    context = CERTIFICATES.server_side(folder, pair)
    if wants_client:
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


TRUSTED = Tls(ca=CERTIFICATES.ca)


def with_client(pair: tuple[str, str]) -> Tls:
    return replace(TRUSTED, certificate=pair[0], key=pair[1])


# --- TLS ---


async def attempt(server: Server, security: Security, **more: Any) -> None:
    async with await connect(
        server.address, security, timeout=5.0, client_id="us", **{"environment": SYSTEM, **more}
    ) as link:
        await link.request(ASK)


def answering() -> Server:
    return Server({18: api_versions((64, 0, 0)), 64: unregistered})


async def test_a_node_with_a_trusted_certificate_is_connected_to(tmp_path: Path) -> None:
    async with serving(answering(), server_side(tmp_path, CERTIFICATES.node)) as server:
        await attempt(server, Security(TRUSTED))


@pytest.mark.parametrize(
    "trusted",
    [f"# Müller & Söhne\n{CERTIFICATES.ca}", CERTIFICATES.node[0]],
    ids=["with a comment that is not ASCII", "the node's certificate, without its root"],
)
async def test_whatever_certificate_is_configured_is_trusted(tmp_path: Path, trusted: str) -> None:
    async with serving(answering(), server_side(tmp_path, CERTIFICATES.node)) as server:
        await attempt(server, Security(Tls(ca=trusted)))


async def test_a_client_certificate_is_sent_if_the_server_asks_for_one(tmp_path: Path) -> None:
    context = server_side(tmp_path, CERTIFICATES.node, wants_client=True)
    async with serving(answering(), context) as server:
        await attempt(server, Security(with_client(CERTIFICATES.client("alice"))))
        with pytest.raises(KafkaError) as caught:  # asyncio's server ends it without an alert; a JVM sends one
            await attempt(server, Security(TRUSTED))
        assert "require a client certificate" in caught.value.remedy


NOT_TRUSTED = "a CA that is not trusted|the CA of the certificate is not trusted"


@pytest.mark.parametrize(
    ("pair", "tls", "said"),
    [
        ("expired", TRUSTED, "the certificate has expired"),
        ("wrong_host", TRUSTED, r"the certificate is for another address \(it is for kafka\.example\)"),
        ("node", Tls(ca=CERTIFICATES.other_ca), NOT_TRUSTED),
        ("node", Tls(), NOT_TRUSTED),  # the system's trust does not hold it
        ("node", Tls(ca="no pem"), "the CA is not a PEM certificate"),
        ("node", Tls(ca=CERTIFICATES.ca, key=CANARY), "a client certificate needs its key"),
        ("node", Tls(ca=CERTIFICATES.ca, certificate="x", key=CANARY), "cannot be used"),
    ],
)
async def test_no_request_is_sent_if_the_tls_handshake_fails(tmp_path: Path, pair: str, tls: Tls, said: str) -> None:
    async with serving(answering(), server_side(tmp_path, getattr(CERTIFICATES, pair))) as server:
        with pytest.raises(TlsFailed, match=said) as caught:
            await attempt(server, Security(tls))
        assert server.requests == []
        assert caught.value.remedy
        assert CANARY not in f"{caught.value!s}{caught.value!r}{caught.value.remedy}{tls!r}"


async def test_a_failure_of_the_operator_does_not_name_the_hosts_of_a_certificate(tmp_path: Path) -> None:
    async with serving(answering(), server_side(tmp_path, CERTIFICATES.wrong_host)) as server:
        with pytest.raises(TlsFailed) as caught:
            await attempt(server, Security(TRUSTED, policy=AddressPolicy()))
        assert str(caught.value) == "the certificate is for another address"


async def test_the_remedy_for_an_untrusted_certificate_names_the_property_to_set(tmp_path: Path) -> None:
    async with serving(answering(), server_side(tmp_path, CERTIFICATES.node)) as server:
        with pytest.raises(TlsFailed) as caught:
            await attempt(server, Security(Tls(ca=CERTIFICATES.other_ca)))
        assert caught.value.remedy == (
            "set ssl.truststore.location in --config (in a document spec.cluster.tls.caSecretRef) to the PEM file of "
            "that CA"
        )


async def test_a_mismatch_of_tls_and_plaintext_is_reported(tmp_path: Path) -> None:
    async with serving(answering()) as plain:
        with pytest.raises(TlsFailed):
            await connect(plain.address, Security(TRUSTED), timeout=0.5, client_id="us", environment=SYSTEM)
    async with serving(answering(), server_side(tmp_path, CERTIFICATES.node)) as secured:
        with pytest.raises(KafkaError, match="the connection ended before the answer") as caught:
            await connect(secured.address, Security(), timeout=0.5, client_id="us", environment=SYSTEM)
        assert "it may require TLS" in caught.value.remedy


# --- SASL ---


OFFERED = api_versions((17, 0, 1), (36, 0, 2), (64, 0, 0))


class Scram:
    """scramp's server side behind SaslAuthenticate."""

    def __init__(self, mechanism: str, *, lie: bool = False) -> None:
        self.server = ScramMechanism(mechanism)
        salt, stored, key, iterations = self.server.make_auth_info("right", iteration_count=4096)
        self.auth = salt, stored, key, iterations
        self.lie = lie
        self.step: Any = None

    def __call__(self, request: bytes) -> bytes:
        text = proof_of(request).decode()
        try:
            if self.step is None:
                self.step = self.server.make_server(lambda user: self.auth)
                self.step.set_client_first(text)
                return judged(request, self.step.get_server_first().encode())
            step, self.step = self.step, None
            step.set_client_final(text)
            final = step.get_server_final()
            return judged(
                request, (final[:4] + ("A" if final[4] != "A" else "B") + final[5:] if self.lie else final).encode()
            )
        except Exception:
            self.step = None
            return judged(request, error=58)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_accepts_the_right_password_and_refuses_a_wrong_one(mechanism: str) -> None:
    answers: Answers = {18: OFFERED, 17: handshake(mechanism), 36: Scram(mechanism), 64: unregistered}
    async with serving(Server(answers)) as server:
        await attempt(server, Security(sasl=Sasl(mechanism, "alice", "right")))
        with pytest.raises(AuthenticationFailed, match=f"{mechanism}: nope") as caught:
            await attempt(server, Security(sasl=Sasl(mechanism, "alice", CANARY)))
        assert CANARY not in f"{caught.value!r}{server.requests!r}"


async def test_a_scram_key_is_derived_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says how long that takes, and everybody else would wait for it."""
    threads: list[int] = []
    derive = hashlib.pbkdf2_hmac

    def watched(*arguments: Any) -> bytes:
        threads.append(threading.get_ident())
        return derive(*arguments)

    answers: Answers = {18: OFFERED, 17: handshake("SCRAM-SHA-256"), 36: Scram("SCRAM-SHA-256"), 64: unregistered}
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", watched)
    async with serving(Server(answers)) as server:
        await attempt(server, Security(sasl=Sasl("SCRAM-SHA-256", "alice", "right")))
    assert threads
    assert threading.get_ident() not in threads


async def test_a_server_that_cannot_prove_the_password_is_refused() -> None:
    answers: Answers = {
        18: OFFERED,
        17: handshake("SCRAM-SHA-256"),
        36: Scram("SCRAM-SHA-256", lie=True),
        64: unregistered,
    }
    async with serving(Server(answers)) as server:
        with pytest.raises(AuthenticationFailed, match="did not prove that it knows the password"):
            await attempt(server, Security(sasl=Sasl("SCRAM-SHA-256", "alice", "right")))
        assert not any(request[:2] == b"\0\x40" for request in server.requests)  # API key 64: UnregisterBroker


async def test_an_unsupported_sasl_mechanism_is_reported_with_the_offered_mechanisms() -> None:
    answers: Answers = {18: OFFERED, 17: handshake("GSSAPI", "PLAIN", error=33)}
    async with serving(Server(answers)) as server:
        with pytest.raises(AuthenticationFailed, match="does not offer SCRAM-SHA-256; it offers GSSAPI, PLAIN"):
            await attempt(server, Security(sasl=Sasl("SCRAM-SHA-256", "alice", "right")))


@pytest.mark.parametrize(
    "sasl", [Sasl("PLAIN", "alice", CANARY), Sasl("OAUTHBEARER", oauth=OAuthToken(CANARY))], ids=lambda s: s.mechanism
)
async def test_a_secret_is_not_sent_without_tls(sasl: Sasl) -> None:
    async with serving(answering()) as server:
        with pytest.raises(AuthenticationFailed, match="without TLS sends the secret in clear text") as caught:
            await attempt(server, Security(sasl=sasl))
        assert server.connections == 0
        assert CANARY not in f"{caught.value!r}{sasl!r}"


async def test_sasl_plain_is_sent_over_tls_and_recorded_as_zeros(tmp_path: Path) -> None:
    frames: list[bytes] = []

    class Recorder:
        def sent(self, address: object, frame: bytes) -> None:
            frames.append(frame)

        def received(self, address: object, frame: bytes) -> None:
            frames.append(frame)

    answers: Answers = {18: OFFERED, 17: handshake("PLAIN"), 36: judged, 64: unregistered}
    async with serving(Server(answers), server_side(tmp_path, CERTIFICATES.node)) as server:
        await attempt(server, Security(TRUSTED, Sasl("PLAIN", "alice", CANARY)), recorder=Recorder())
        (proof,) = [request for request in server.requests if request[:2] == b"\0\x24"]  # 36: SaslAuthenticate
    sent_bytes = b"\0alice\0" + CANARY.encode()
    assert proof_of(proof) == sent_bytes
    assert CANARY.encode() not in b"".join(frames)
    (recorded,) = [frame for frame in frames if frame[4:6] == b"\0\x24" and len(frame) > 4 + len(sent_bytes)]
    assert bytes(len(sent_bytes)) in recorded
    assert len(frames) == 8  # ApiVersions, SaslHandshake, SaslAuthenticate and the request, each with its answer


async def test_a_refused_token_is_reported_and_the_exchange_ended_as_the_rfc_wants(tmp_path: Path) -> None:
    said = iter([b'{"status":"invalid_token"}', b""])
    answers = {
        18: OFFERED, 17: handshake("OAUTHBEARER"),
        36: lambda request: judged(request, answer) if (answer := next(said)) else judged(request, error=58),
    }  # fmt: skip
    async with serving(Server(answers), server_side(tmp_path, CERTIFICATES.node)) as server:
        with pytest.raises(AuthenticationFailed) as caught:
            await attempt(server, Security(TRUSTED, Sasl("OAUTHBEARER", oauth=OAuthToken(CANARY))))
        proofs = [proof_of(request) for request in server.requests if request[:2] == b"\0\x24"]
    assert proofs == [f"n,,\x01auth=Bearer {CANARY}\x01\x01".encode(), b"\x01"]
    assert CANARY not in f"{caught.value!r}{caught.value}"


async def test_a_sasl_session_is_renewed_before_a_request_once_most_of_its_lifetime_is_over(tmp_path: Path) -> None:
    """KIP-368, with a clock of our own."""
    now = 1000.0
    proofs = 0

    def believed(request: bytes) -> bytes:
        nonlocal proofs
        proofs += 1
        return judged(request, lifetime_ms=100_000)

    answers: Answers = {18: OFFERED, 17: handshake("PLAIN"), 36: believed, 64: unregistered}
    context = server_side(tmp_path, CERTIFICATES.node)
    security = Security(TRUSTED, Sasl("PLAIN", "alice", "p"))
    async with (
        serving(Server(answers), context) as server,
        await connect(
            server.address, security, timeout=5, client_id="us", environment=Environment(monotonic=lambda: now)
        ) as link,
    ):
        # A session lasts 100 s and is renewed 80 s after its beginning: after 1080, and 80 s after the renewal at 1081.
        for now, expected in ((1079.0, 1), (1081.0, 2), (1150.0, 2), (1161.5, 3)):  # noqa: B007 - the clock reads it
            await link.request(ASK)
            assert proofs == expected


async def test_a_refused_renewal_closes_the_connection_without_sending_the_request(tmp_path: Path) -> None:
    now, verdicts = 0.0, iter([0, 58])

    def answer(request: bytes) -> bytes:
        return judged(request, error=next(verdicts), lifetime_ms=1000)

    answers: Answers = {18: OFFERED, 17: handshake("PLAIN"), 36: answer, 64: unregistered}
    context = server_side(tmp_path, CERTIFICATES.node)
    security = Security(TRUSTED, Sasl("PLAIN", "alice", "p"))
    async with (
        serving(Server(answers), context) as server,
        await connect(
            server.address, security, timeout=5, client_id="us", environment=Environment(monotonic=lambda: now)
        ) as link,
    ):
        now = 0.9  # of a session of 1 s, which is renewed after four fifths
        with pytest.raises(AuthenticationFailed) as caught:
            await link.request(ASK)
        assert link.closed
        assert not caught.value.sent
