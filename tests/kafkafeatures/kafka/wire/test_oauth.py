"""Tokens of OAUTHBEARER, fetched over TLS from a small endpoint: kept, shared, and never given away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
import urllib.parse
from base64 import b64decode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import AddressRefused, AuthenticationFailed, KafkaError, TlsFailed
from kafkafeatures.kafka.base.settings import OAuthClient, OAuthToken, Sasl, Security
from kafkafeatures.kafka.wire import oauth
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.authentication import RENEW_AFTER
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.oauth import KEEP, Tokens
from kafkafeatures.kafka.wire.pem import Tls
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.kafka.wire.servers import Answer, Server, api_versions, handshake, refused, serving

CERTIFICATES = Certificates()
CANARY = "canary-0f7b1"
TRUSTED = Tls(ca=CERTIFICATES.ca)


@contextlib.contextmanager
def token_endpoint(
    folder: Path,
    answer: Callable[[BaseHTTPRequestHandler], tuple[int, object]],
    *,
    elsewhere: str = "http://127.0.0.1:1/elsewhere",
) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            code, document = answer(self)
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Location", elsewhere)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = CERTIFICATES.server_side(folder).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def client(url: str, tls: Tls = TRUSTED) -> OAuthClient:
    return OAuthClient(url, "us", CANARY, tls=tls)


async def test_a_token_is_fetched_once_for_concurrent_callers_and_cached_for_half_of_its_lifetime(
    tmp_path: Path,
) -> None:
    count = 0

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, object]:
        nonlocal count
        count += 1
        return 200, {"access_token": f"token-{count}", "expires_in": 100}

    now = 0.0
    tokens = Tokens(lambda: now)
    with token_endpoint(tmp_path, answer) as url:
        assert set(await asyncio.gather(*(tokens.token(client(url), 5) for _ in range(10)))) == {"token-1"}
        now = 49.0
        assert await tokens.token(client(url), 5) == "token-1"
        now = 51.0
        assert await tokens.token(client(url), 5) == "token-2"


@pytest.mark.parametrize("life", [10**300, float("inf"), 86_400, "1e300"])
async def test_a_token_is_cached_for_at_most_half_an_hour_whatever_its_lifetime(tmp_path: Path, life: object) -> None:
    numbers, now = iter(range(1, 9)), 0.0
    tokens = Tokens(lambda: now)
    with token_endpoint(
        tmp_path, lambda request: (200, {"access_token": f"t{next(numbers)}", "expires_in": life})
    ) as url:
        assert await tokens.token(client(url), 5) == "t1"
        now = 1799.0
        assert await tokens.token(client(url), 5) == "t1"
        now = 1801.0
        assert await tokens.token(client(url), 5) == "t2"


@pytest.mark.parametrize("life", [0, -5, -(10**300), float("nan")])
async def test_a_token_without_a_positive_lifetime_is_used_once(tmp_path: Path, life: object) -> None:
    numbers = iter(range(1, 9))
    tokens = Tokens(lambda: 0.0)
    with token_endpoint(
        tmp_path, lambda request: (200, {"access_token": f"t{next(numbers)}", "expires_in": life})
    ) as url:
        assert [await tokens.token(client(url), 5) for _ in range(2)] == ["t1", "t2"]


# 58: SASL_AUTHENTICATION_FAILED
@pytest.mark.parametrize("said", [(58, "expired"), None], ids=["refused", "cut"])
async def test_a_token_that_a_node_refuses_is_dropped_from_the_cache(
    tmp_path: Path, said: tuple[int, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that is kept would be shown to every node for half of its life, also after the cause was corrected."""
    numbers, shown = iter(range(1, 9)), []
    monkeypatch.setattr(oauth, "TOKENS", Tokens(monotonic=SYSTEM.monotonic))

    def judge(request: bytes) -> bytes:
        shown.append(request.partition(b"Bearer ")[2].partition(b"\x01")[0].decode())
        return b"" if said is None else refused(request, *said)

    (folder := tmp_path / "node").mkdir()
    answers: dict[int, Answer] = {18: api_versions((17, 0, 1), (36, 0, 2)), 17: handshake("OAUTHBEARER"), 36: judge}
    with token_endpoint(
        tmp_path, lambda request: (200, {"access_token": f"t{next(numbers)}", "expires_in": 600})
    ) as url:
        security = Security(TRUSTED, Sasl("OAUTHBEARER", oauth=client(url)))
        async with serving(Server(answers), CERTIFICATES.server_side(folder)) as server:
            for _ in range(2):
                with pytest.raises(AuthenticationFailed):
                    await connect(server.address, security, timeout=10, client_id="us", environment=SYSTEM)
    assert shown == ["t1", "t2"]


async def test_a_newer_token_is_not_dropped_with_a_refused_one(tmp_path: Path) -> None:
    numbers = iter(range(1, 9))
    tokens = Tokens(monotonic=SYSTEM.monotonic)
    with token_endpoint(
        tmp_path, lambda request: (200, {"access_token": f"t{next(numbers)}", "expires_in": 600})
    ) as url:
        assert await tokens.token(client(url), 5) == "t1"
        tokens.drop(client(url), "t0")
        assert await tokens.token(client(url), 5) == "t1"


@pytest.mark.parametrize(
    ("code", "document", "said"),
    [
        (401, {"error": "invalid_client", "hint": CANARY}, "answers 401"),
        (302, {}, "answers 302"),  # following it would carry the secret elsewhere
        (200, {"token": "x"}, "did not return JSON with an access_token"),
        (200, b"<html>", "did not return JSON with an access_token"),
        (200, b"", "did not return JSON with an access_token"),
        (200, b"[" * 100_000, "did not return JSON with an access_token"),
        (200, ["x"], "did not return JSON with an access_token"),
        (200, "x", "did not return JSON with an access_token"),
        (200, {"access_token": None}, "did not return JSON with an access_token"),
        (200, {"access_token": ""}, "did not return JSON with an access_token"),
        (200, b'{"access_token": "\\ud800"}', "did not return JSON with an access_token"),
        (200, {"access_token": {"hint": CANARY}}, "did not return JSON with an access_token"),
        (200, {"access_token": CANARY, "expires_in": "soon"}, "did not return JSON with an access_token"),
        (200, {"access_token": CANARY, "expires_in": 10**400}, "did not return JSON with an access_token"),
        (500, {"error": CANARY}, "answers 500"),
    ],
)
async def test_a_token_endpoint_that_gives_no_token_is_reported(
    tmp_path: Path, code: int, document: object, said: str
) -> None:
    with token_endpoint(tmp_path, lambda request: (code, document)) as url:
        with pytest.raises(AuthenticationFailed, match=said) as caught:
            await Tokens(monotonic=SYSTEM.monotonic).token(client(url), 5)
        assert CANARY not in f"{caught.value!r}{caught.value.remedy}{client(url)!r}"


async def test_the_token_endpoint_is_not_asked_over_http_or_without_trust(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed, match="the token endpoint is not https"):
        await Tokens(monotonic=SYSTEM.monotonic).token(client("http://127.0.0.1:1/token"), 5)
    not_trusted = pytest.raises(TlsFailed, match=r"token endpoint .* the CA of the certificate is not trusted")
    with token_endpoint(tmp_path, lambda request: (200, {})) as url, not_trusted:
        await Tokens(monotonic=SYSTEM.monotonic).token(client(url, Tls(ca=CERTIFICATES.other_ca)), 5)


async def test_an_unreachable_token_endpoint_is_reported() -> None:
    with pytest.raises(AuthenticationFailed, match=r"the token endpoint 127\.0\.0\.1:1 cannot be reached"):
        await Tokens(monotonic=SYSTEM.monotonic).token(client("https://127.0.0.1:1/token"), 5)


async def test_a_token_request_has_the_form_of_the_rfc(tmp_path: Path) -> None:
    """RFC 6749: the pair is form-encoded before it goes into the header (2.3.1), the grant in the body (4.4.2)."""
    asked: list[tuple[str, dict[str, list[str]]]] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, object]:
        scheme, _, pair = request.headers["Authorization"].partition(" ")
        body = request.rfile.read(int(request.headers["Content-Length"])).decode()
        asked.append((f"{scheme} {b64decode(pair).decode()}", urllib.parse.parse_qs(body)))
        return 200, {"access_token": "t"}

    with token_endpoint(tmp_path, answer) as url:
        source = OAuthClient(url, "us:we", "s&e %", scope="kafka admin", tls=TRUSTED)
        assert await Tokens(monotonic=SYSTEM.monotonic).token(source, 10) == "t"
    body = {"grant_type": ["client_credentials"], "scope": ["kafka admin"]}
    assert asked == [("Basic us%3Awe:s%26e+%25", body)]


class ApiServer:
    endpoints: frozenset[tuple[str, int]] = frozenset()

    def __init__(self, port: int) -> None:
        self.port = port

    async def answers_at(self, address: str, port: int) -> bool:
        return (address, port) == ("127.0.0.1", self.port)


@pytest.mark.parametrize("ca", [CERTIFICATES.ca, CERTIFICATES.other_ca], ids=["trusted", "not trusted"])
async def test_an_api_server_as_token_endpoint_is_refused_as_any_forbidden_address(tmp_path: Path, ca: str) -> None:
    """`AddressRefused` has one text, whatever the server answered, and even if its certificate is not trusted."""
    with token_endpoint(tmp_path, lambda request: (403, {})) as url:
        port = urllib.parse.urlsplit(url).port or 0
        # At another port than the API server's, the endpoint's own error is reported.
        for api_port, error in ((port, AddressRefused), (port + 1, KafkaError)):
            source = replace(client(url, Tls(ca=ca)), policy=AddressPolicy(api_server=ApiServer(api_port)))
            with pytest.raises(error) as caught:
                await Tokens(monotonic=SYSTEM.monotonic).token(source, 10)
            assert isinstance(caught.value, AddressRefused) is (api_port == port)


async def test_a_redirect_is_not_followed_not_even_to_https(tmp_path: Path) -> None:
    visited = 0

    def count(request: BaseHTTPRequestHandler) -> tuple[int, object]:
        nonlocal visited
        visited += 1
        return 200, {"access_token": "t"}

    (other := tmp_path / "other").mkdir()
    with (
        token_endpoint(other, count) as elsewhere,
        token_endpoint(tmp_path, lambda request: (307, {}), elsewhere=elsewhere) as url,
    ):
        with pytest.raises(AuthenticationFailed, match="answers 307"):
            await Tokens(monotonic=SYSTEM.monotonic).token(client(url), 10)
        assert visited == 0


async def test_a_cancelled_caller_of_a_token_request_does_not_fail_another(tmp_path: Path) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, object]:
        asked.set()
        may_answer.wait(10)
        return 200, {"access_token": "t"}

    tokens = Tokens(monotonic=SYSTEM.monotonic)
    with token_endpoint(tmp_path, answer) as url:
        first, second = (asyncio.create_task(tokens.token(client(url), 10)) for _ in range(2))
        assert await asyncio.to_thread(asked.wait, 10)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        may_answer.set()
        assert await second == "t"


@pytest.mark.parametrize("drip", [b"", b"x"], ids=["in the handshake", "in the answer"])
async def test_a_slow_token_endpoint_times_out(tmp_path: Path, drip: bytes) -> None:
    """The thread of the call ends as well: a few that hang would leave none for others."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        line, _ = listener.accept()
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(line)
            if drip:
                line = stack.enter_context(CERTIFICATES.server_side(tmp_path).wrap_socket(line, server_side=True))
                line.sendall(b"HTTP/1.1 200 OK\r\n")
            else:
                line.sendall(b"\x16\x03\x03\x40\x00\x02")  # a record of 16 KB begins
            while not over.wait(0.02):
                line.sendall(drip or b"\0")

    thread = threading.Thread(target=serve)
    thread.start()
    tokens, began = Tokens(monotonic=SYSTEM.monotonic), time.monotonic()
    try:
        with pytest.raises(AuthenticationFailed, match="did not answer in time"):
            async with asyncio.timeout(10):
                await tokens.token(client(f"https://127.0.0.1:{listener.getsockname()[1]}/token"), 1)
        assert time.monotonic() - began < 5
        await asyncio.sleep(0)
        assert not tokens._fetching
    finally:
        over.set()
        listener.close()
        thread.join()


async def test_an_expired_token_is_removed_from_the_cache_with_its_secret(tmp_path: Path) -> None:
    now = 0.0
    tokens = Tokens(lambda: now)
    with token_endpoint(tmp_path, lambda request: (200, {"access_token": "t", "expires_in": 100})) as url:
        await tokens.token(OAuthClient(url, "us", "rotated", tls=TRUSTED), 5)
        now = 51.0
        await tokens.token(OAuthClient(url, "us", "new", tls=TRUSTED), 5)
    assert [one.client_secret for one in tokens._held] == ["new"]


async def test_a_failure_of_the_token_endpoint_is_not_cached(tmp_path: Path) -> None:
    answers = iter([(503, {}), (200, {"access_token": "t"})])
    tokens = Tokens(monotonic=SYSTEM.monotonic)
    with token_endpoint(tmp_path, lambda request: next(answers)) as url:
        with pytest.raises(AuthenticationFailed, match="answers 503"):
            await tokens.token(client(url), 10)
        assert await tokens.token(client(url), 10) == "t"


async def test_a_rotated_client_secret_fetches_a_new_token(tmp_path: Path) -> None:
    """A rotated secret is used at once: what the old one fetched is not its."""
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, object]:
        asked.append(request.headers["Authorization"])
        return 200, {"access_token": f"t{len(asked)}", "expires_in": 1000}

    tokens = Tokens(monotonic=SYSTEM.monotonic)
    with token_endpoint(tmp_path, answer) as url:
        for secret, expected in (("old", "t1"), ("new", "t2"), ("new", "t2")):
            assert await tokens.token(OAuthClient(url, "us", secret, tls=TRUSTED), 10) == expected


async def test_a_configured_token_is_used_unchanged() -> None:
    assert await Tokens(monotonic=SYSTEM.monotonic).token(OAuthToken("as-it-is"), 1) == "as-it-is"


def test_a_token_is_cached_for_less_time_than_a_session_lasts_before_its_renewal() -> None:
    """A session lives as long as its token at most, so at its renewal the token in hand must be another."""
    assert KEEP < RENEW_AFTER


async def test_an_oauth_token_is_not_sent_without_tls() -> None:
    async with serving(Server()) as server:
        source = client(f"https://127.0.0.1:{server.address.port}/token")
        with pytest.raises(AuthenticationFailed, match="without TLS sends the secret in clear text") as caught:
            await connect(
                server.address,
                Security(sasl=Sasl("OAUTHBEARER", oauth=source)),
                timeout=10,
                client_id="us",
                environment=SYSTEM,
            )
        assert server.connections == 0
        assert CANARY not in f"{caught.value!r}{source!r}"
