"""The operator reads a Prometheus that a tenant names: only at permitted addresses, and its answers are never quoted.

A tenant could otherwise make the operator read an address that only the operator reaches. `CANARY` is a text that no
failure may repeat.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MINUTE
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.wire.addresses import AddressPolicy, networks
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.prometheus.operator_source import PrometheusSource
from kafkafeatures.prometheus.settings import PrometheusSettings
from tests.clients.fake_prometheus import target_of
from tests.clients.histories import BEGIN, END, HOUR, History, Process
from tests.clients.test_prometheus_command import serving as serving_targets
from tests.e2e.rig.certificates import Certificates

CERTIFICATES = Certificates()
TRUSTED = Tls(ca=CERTIFICATES.ca)
DAY = 86_400_000
WINDOW = EvidenceWindow(100 * DAY, 135 * DAY)
CANARY = "canary-0f7b1"
NO_SERIES = b'{"status": "success", "data": {"resultType": "matrix", "result": []}}'
Answer = Callable[[BaseHTTPRequestHandler], None]


class Served:
    """A server on loopback. `requests`: path and credentials of each request; `connections`: their number."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[tuple[str, str | None]] = []
        self.connections = 0


@contextlib.contextmanager
def serving(answer: Answer, certificate: tuple[str, str] | None = None, folder: Path | None = None) -> Iterator[Served]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            served.requests.append((self.path, self.headers["Authorization"]))
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def get_request(self) -> tuple[socket.socket, object]:
            served.connections += 1
            return super().get_request()

        def handle_error(self, *words: object) -> None:
            """Ignore a client that closes its connection."""

    server = Server(("127.0.0.1", 0), Handler)
    served = Served(server.server_address[1])
    if certificate is not None and folder is not None:
        context = CERTIFICATES.server_side(folder, certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def says(body: bytes, code: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def hangs(handler: BaseHTTPRequestHandler) -> None:
    handler.rfile.read(1)  # until the client goes away


def drips(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(60):
            handler.wfile.write(b" ")
            time.sleep(0.05)  # longer in all than a reading may take, and each byte is soon there


def failure(settings: PrometheusSettings, within: float = 20.0) -> Failure:
    """The failure of a reading that may last `within` seconds."""
    scrapes, _ = PrometheusSource(settings, SYSTEM.monotonic, within=within).read(WINDOW, lambda key: True)
    assert isinstance(scrapes, Failure), scrapes
    return scrapes


def settings(port: int, scheme: str = "http", host: str = "127.0.0.1", **fields: object) -> PrometheusSettings:
    return PrometheusSettings(f"{scheme}://{host}:{port}", **fields)  # type: ignore[arg-type]


def test_an_address_that_the_policy_forbids_gets_no_connection_also_by_a_name() -> None:
    with serving(says(NO_SERIES)) as served:
        policy = AddressPolicy(denied=networks("127.0.0.0/8", "::1/128"))
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1"):
            found = failure(settings(served.port, host=host, policy=policy, authorization=f"Bearer {CANARY}"))
            assert found.kind in (FailureKind.FORBIDDEN, FailureKind.UNREACHABLE), host
        assert failure(settings(served.port, policy=policy)).kind is FailureKind.FORBIDDEN
    assert not served.connections


def test_a_name_with_several_addresses_is_read_at_the_first_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo

    def two_addresses(host: str, port: int, *rest: int, **options: int) -> object:
        names = ("127.0.0.2", "127.0.0.1") if host == "prometheus" else (host,)
        return [entry for name in names for entry in resolve(name, port, *rest, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    with serving(says(NO_SERIES)) as served:
        found = failure(settings(served.port, host="prometheus"))
    assert served.requests
    assert found.kind is FailureKind.REJECTED  # it has no series


def test_the_api_server_gets_no_connection() -> None:
    class ApiServer:
        endpoints = frozenset({("127.0.0.1", 0)})

        async def answers_at(self, address: str, port: int) -> bool:
            return False

    with serving(says(NO_SERIES)) as served:
        ApiServer.endpoints = frozenset({("127.0.0.1", served.port)})
        found = failure(settings(served.port, policy=AddressPolicy(api_server=ApiServer())))
        assert found.kind is FailureKind.FORBIDDEN
    assert not served.connections


def test_a_redirect_is_not_followed_and_its_target_gets_no_credentials() -> None:
    with serving(says(NO_SERIES)) as target:
        redirect = says(b"", 307, Location=f"http://127.0.0.1:{target.port}/api/v1/query_range")
        with serving(redirect) as served:
            found = failure(settings(served.port, authorization=f"Bearer {CANARY}"))
    assert "redirects" in found.message
    assert not target.connections
    assert CANARY not in str(found)


@pytest.mark.parametrize("answer", [hangs, drips])
def test_a_server_that_hangs_or_drips_costs_a_reading_its_time_and_no_more(answer: Answer) -> None:
    with serving(answer) as served:
        began = time.monotonic()
        found = failure(settings(served.port), within=0.4)
        assert time.monotonic() - began < 0.9
    assert found.kind in (FailureKind.UNREACHABLE, FailureKind.TIMED_OUT)


HOSTILE = f"\x1b[31m<script>{CANARY}".encode()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (says(b'{"status": "error", "error": "' + HOSTILE.replace(b"\x1b", b"") + b'"}', 400), "no usable answer"),
        (says(HOSTILE, Content_Type="text/html"), "no usable answer"),
        (says(HOSTILE, 401), "refuses the credentials"),
        (says(HOSTILE, 500), "no usable answer"),
        (says(b"[]"), "no usable answer"),
        (says(NO_SERIES), "no usable answer"),
        (
            says(b'{"status": "success", "warnings": ["' + CANARY.encode() + b'"], "data": null}'),
            "no usable answer",
        ),
        (says(NO_SERIES, Content_Encoding="gzip"), "no usable answer"),
    ],
)
def test_the_answer_of_the_server_is_not_repeated(answer: Answer, words: str) -> None:
    with serving(answer) as served:
        found = failure(settings(served.port))
    assert words in found.message
    assert CANARY not in f"{found} {found.action}"


def test_the_name_of_the_url_is_checked_in_the_certificate(tmp_path: Path) -> None:
    token = {"authorization": f"Bearer {CANARY}"}
    for certificate, tls, kind in (
        (CERTIFICATES.node, TRUSTED, FailureKind.REJECTED),  # trusted: it has no series
        (CERTIFICATES.wrong_host, TRUSTED, FailureKind.TLS),
        (CERTIFICATES.expired, TRUSTED, FailureKind.TLS),
        (CERTIFICATES.node, Tls(), FailureKind.TLS),
        (CERTIFICATES.node, Tls(ca="no certificate"), FailureKind.TLS),
    ):
        with serving(says(NO_SERIES), certificate, tmp_path) as served:
            found = failure(settings(served.port, "https", "localhost", tls=tls, **token))
        assert found.kind is kind, found
        assert [login for _, login in served.requests] == ([f"Bearer {CANARY}"] if kind is FailureKind.REJECTED else [])


def test_brokers_are_named_by_the_label_of_the_document_and_no_other() -> None:
    """The targets have a label broker_id as well, which is of something else."""
    history = History({broker: (Process(BEGIN, END),) for broker in (1, 2)})
    targets = [
        replace(target, labels={**target.labels, "broker_id": "7", "pod": f"orders-broker-{broker}"})
        for broker in history.brokers
        for target in (target_of(history, broker),)
    ]
    window = EvidenceWindow((END - HOUR) * MINUTE, END * MINUTE)
    with serving_targets(targets) as url:
        named = PrometheusSettings(url, broker_label="pod", broker_pattern="orders-broker-([0-9]+)")
        scrapes, _ = PrometheusSource(named, SYSTEM.monotonic).read(window, lambda key: True)
    assert not isinstance(scrapes, Failure), scrapes
    assert {scrape.broker for scrape in scrapes} == {1, 2}


@pytest.mark.parametrize("selector", ['namespace="kafka"} or {job="secrets"', "up", 'a="b"} offset 5m #'])
def test_a_selector_that_is_more_than_matchers_is_never_sent(selector: str) -> None:
    with serving(says(NO_SERIES)) as served:
        assert "selector" in failure(settings(served.port, selector=selector)).message
    assert not served.connections


def test_nothing_is_sent_by_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(says(NO_SERIES)) as proxy, serving(says(NO_SERIES)) as served:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        failure(settings(served.port))
    assert served.connections
    assert not proxy.connections
