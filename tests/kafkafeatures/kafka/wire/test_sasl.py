"""The exchanges as such, without a connection: what is sent, and whom they believe."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramMechanism

from kafkafeatures.kafka.base.errors import AuthenticationFailed
from kafkafeatures.kafka.base.settings import NEEDS_VERIFIED_TLS, Sasl
from kafkafeatures.kafka.wire.sasl import MOST_ITERATIONS, exchange

CANARY = "canary-0f7b1"
SALT = "AAAAAAAAAAAAAAAAAAAA"


def scram(username: str = "alice", password: str = CANARY, mechanism: str = "SCRAM-SHA-256") -> Any:
    return exchange(Sasl(mechanism, username, password), None)


def test_mechanisms_that_send_the_secret_need_verified_tls() -> None:
    assert frozenset({"PLAIN", "OAUTHBEARER"}) == NEEDS_VERIFIED_TLS


def test_sasl_plain_is_one_message() -> None:
    steps = exchange(Sasl("PLAIN", "älice", "pässword"), None)
    assert next(steps) == b"\0" + "älice".encode() + b"\0" + "pässword".encode()
    with pytest.raises(StopIteration):
        steps.send(b"")


@pytest.mark.parametrize(("username", "password"), [("a\0b", CANARY), ("alice", f"{CANARY}\0")])
def test_sasl_plain_refuses_a_nul_in_user_name_or_password(username: str, password: str) -> None:
    with pytest.raises(AuthenticationFailed, match="NUL") as caught:
        next(exchange(Sasl("PLAIN", username, password), None))
    assert CANARY not in repr(caught.value)


def test_oauthbearer_sends_the_token_as_in_the_rfc_and_an_empty_answer_accepts_it() -> None:
    steps = exchange(Sasl("OAUTHBEARER"), "abc")
    assert next(steps) == b"n,,\x01auth=Bearer abc\x01\x01"
    with pytest.raises(StopIteration):
        steps.send(b"")


def test_a_challenge_after_a_token_is_a_refusal() -> None:
    steps = exchange(Sasl("OAUTHBEARER"), CANARY)
    next(steps)
    assert steps.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match="refused the token") as caught:
        steps.send(b"")
    assert CANARY not in repr(caught.value)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("username", ["alice", "a,b=c", "User@example.org", "älice"])
def test_a_scram_exchange_authenticates_client_and_server(mechanism: str, username: str) -> None:
    asked: list[str] = []
    made = ScramMechanism(mechanism)
    auth = made.make_auth_info(CANARY, iteration_count=4096)

    def known(user: str) -> Any:
        asked.append(user)
        return auth

    server = made.make_server(known)
    steps = scram(username, CANARY, mechanism)
    server.set_client_first(next(steps).decode())
    server.set_client_final(steps.send(server.get_server_first().encode()).decode())
    with pytest.raises(StopIteration):
        steps.send(server.get_server_final().encode())
    assert asked == [username]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "garbage",
        "e=other-error",
        "r=,s=,i=",
        f"r=someone-elses,s={SALT},i=4096",
        f"r=NONCE,s={SALT},i=4096",  # the server adds nothing of its own
        "r=NONCEx",
        "r=NONCEx,s=!!!,i=4096",
        "r=NONCEx,s=,i=4096",
        f"r=NONCEx,s={SALT},i=x",
        f"r=NONCEx,s={SALT},i=-1",
        f"r=NONCEx,s={SALT},i=1",  # so few that a listener could guess the password from the proof
        f"m=x,r=NONCEx,s={SALT},i=4096",
    ],
)
def test_an_invalid_first_scram_answer_gets_no_proof(answer: str) -> None:
    steps = scram()
    nonce = next(steps).decode().partition("r=")[2]
    with pytest.raises(AuthenticationFailed, match="did not prove") as caught:
        steps.send(answer.replace("NONCE", nonce).encode())
    assert CANARY not in f"{caught.value!r}{caught.value.__context__!r}"


@pytest.mark.parametrize("iterations", [16_385, 10_000_000, 99_999_999_999, "9" * 5000, "00016385"])
def test_too_many_scram_iterations_are_refused_before_any_is_computed(
    iterations: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000,000 of them take half a minute, 99,999,999,999 days."""
    monkeypatch.delattr("hashlib.pbkdf2_hmac")
    steps = scram()
    nonce = next(steps).decode().partition("r=")[2]
    with pytest.raises(AuthenticationFailed, match="asks for more than 16,384 iterations") as caught:
        steps.send(f"r={nonce}x,s={SALT},i={iterations}".encode())
    assert "set the user's password again" in caught.value.remedy
    assert CANARY not in f"{caught.value!r}{caught.value.__context__!r}"


def test_as_many_iterations_as_kafka_allows_are_computed() -> None:
    steps = scram()
    nonce = next(steps).decode().partition("r=")[2]
    assert b",p=" in steps.send(f"r={nonce}x,s={SALT},i={MOST_ITERATIONS}".encode())


@pytest.mark.parametrize(
    "final", [b"", b"v=", b"v", b"x", b"v=AAAA", b"v=!!!", b"e=invalid-proof", b"\xff\xfe", b"v=" + b"A" * 43 + b"="]
)
def test_a_wrong_server_signature_of_scram_is_refused(final: bytes) -> None:
    steps = scram()
    nonce = next(steps).decode().partition("r=")[2]
    steps.send(f"r={nonce}x,s={SALT},i=4096".encode())
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        steps.send(final)


@given(answer=st.binary(max_size=60))
def test_an_arbitrary_scram_answer_fails_the_authentication(answer: bytes) -> None:
    steps = scram()
    next(steps)
    with pytest.raises(AuthenticationFailed):
        steps.send(answer)


@pytest.mark.parametrize(
    ("username", "password"), [("", CANARY), ("a\0", CANARY), ("alice", f"{CANARY}\x07"), ("alice", f"{CANARY}\n")]
)
def test_credentials_that_scram_cannot_carry_are_refused_before_anything_is_sent(username: str, password: str) -> None:
    with pytest.raises(AuthenticationFailed, match="characters that SASLprep forbids") as caught:
        next(scram(username, password))
    assert CANARY not in repr(caught.value)
