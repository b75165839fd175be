"""`serve`: who may read its pages, what they say, and how seldom they make it read."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from html import unescape
from threading import Event, Thread
from typing import Any

import pytest

from kafkafeatures.api.names import PAUSE
from kafkafeatures.cli.kube.api import Away, NotFound
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.serve import live
from kafkafeatures.cli.serve import server as serve_pages
from kafkafeatures.cli.serve.live import EVERY, Live, Reader
from kafkafeatures.cli.serve.resources import ResourcePages
from kafkafeatures.cli.serve.server import ADDRESS, PageServer
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.environment import Environment
from tests.kafkafeatures import statuses
from tests.kafkafeatures.cli.test_report_page import KINDS, Page, commands
from tests.kafkafeatures.statuses import resource
from tests.kafkafeatures.worlds import NOW


class Kube:
    """An API server with these resources, that counts its list requests, and may be away."""

    server = "https://kubernetes.example"

    def __init__(self) -> None:
        self.resources = [resource(statuses.in_sync())]
        self.lists = 0
        self.seconds = 0.0
        self.is_away = False
        self.environment = Environment(
            clock=lambda: NOW + timedelta(seconds=self.seconds), monotonic=lambda: self.seconds
        )

    def read(self) -> list[KubeResource]:
        self.lists += 1
        if self.is_away:
            raise Away("connection refused", Exit.UNREACHABLE)
        return self.resources

    def events(self, namespace: str, name: str) -> list[dict[str, Any]]:
        uid = self.resources[0].uid
        return [{"metadata": {}, "regarding": {"uid": uid}, "reason": "RestartingNode", "note": f"{namespace}/{name}"}]


@pytest.fixture
def kube() -> Kube:
    return Kube()


@pytest.fixture
def pages(kube: Kube) -> Iterator[ResourcePages]:
    reader = Reader(kube.environment)
    made = ResourcePages(kube, kube.read, reader, ("--context", "a b"))  # type: ignore[arg-type]
    made.start()
    yield made
    reader.close()


@pytest.fixture
def server(pages: ResourcePages) -> Iterator[PageServer]:
    with running(PageServer(pages, 0)) as made:
        yield made


@contextmanager
def running(server: PageServer) -> Iterator[PageServer]:
    with server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def answer(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    """(status, body, headers) of the answer to a request for this path, as it stands in the request."""
    with closing(http.client.HTTPConnection(ADDRESS, server.port, timeout=10)) as connection:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read().decode(), dict(reply.headers)


# --- the server ---


def test_a_page_is_read_with_the_token_in_its_address_only(server: PageServer) -> None:
    status, body, headers = answer(server, f"/{server.token}/")
    assert (status, "kafka/orders" in body) == (200, True)
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    (policy,) = re.findall('http-equiv="Content-Security-Policy" content="(.*?)"', body)
    assert re.fullmatch(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; script-src 'sha256-[^ ']+'",
        policy,
    )
    assert "Set-Cookie" not in headers
    for path in ("/", "/favicon.ico", f"/{server.token[:-1]}/", f"/{server.token}x/", f"/x?{server.token}", "//"):
        status, body, _ = answer(server, path)
        assert (status, server.token in body, "orders" in body) == (403, False, False)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "kafka.example"},
        {"Host": "127.0.0.1"},
        {"Host": ""},
        {"Origin": "https://kafka.example"},
        {"Origin": "null"},
    ],
)
def test_a_request_of_another_site_is_refused(server: PageServer, headers: dict[str, str]) -> None:
    status, body, _ = answer(server, f"/{server.token}/", **headers)
    assert (status, "orders" in body) == (403, False)


def test_the_page_may_read_its_own_server(server: PageServer) -> None:
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}"):
        assert answer(server, f"/{server.token}/", Host=host, Origin=f"http://{host}")[0] == 200


def test_on_the_port_of_http_browsers_name_the_host_alone(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_pages, "HTTP_PORT", server.port)
    for host in ("127.0.0.1", "localhost"):
        assert answer(server, f"/{server.token}/", Host=host, Origin=f"http://{host}")[0] == 200
    assert answer(server, f"/{server.token}/", Host="kafka.example")[0] == 403


def test_a_request_that_never_ends_is_cut_however_often_a_part_of_it_arrives(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_pages, "REQUEST_SECONDS", 1.0)
    with socket.create_connection((ADDRESS, server.port), timeout=0.02) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(500):
            with suppress(TimeoutError):
                assert slow.recv(1) == b""
                break
            slow.sendall(b"X")
        else:
            pytest.fail("not cut")


def test_a_connection_beyond_the_limit_is_closed_and_those_that_end_make_room(
    pages: ResourcePages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_pages, "MOST_CONNECTIONS", 1)
    with running(PageServer(pages, 0)) as server:
        with socket.create_connection((ADDRESS, server.port), timeout=10) as only:
            only.sendall(b"GET / HTTP/1.1\r\n")
            with socket.create_connection((ADDRESS, server.port), timeout=5) as further:
                assert further.recv(1) == b""
            only.sendall(b"\r\n")
            while only.recv(4096):
                pass
        for _ in range(1000):  # its place is free once its thread has ended
            with suppress(OSError, http.client.HTTPException):
                assert answer(server, f"/{server.token}/")[0] == 200
                break
        else:
            pytest.fail("no room")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_a_request_that_could_change_something_is_refused(server: PageServer, method: str) -> None:
    status, _, headers = answer(server, f"/{server.token}/", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_the_answer_to_head_has_no_body(server: PageServer) -> None:
    status, body, headers = answer(server, f"/{server.token}/", "HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 1000


def test_a_port_in_use_is_refused_on_one_line(server: PageServer, pages: ResourcePages) -> None:
    with pytest.raises(CommandFailed, match=f"port {server.port} of 127.0.0.1: Address already in use") as failed:
        PageServer(pages, server.port)
    assert failed.value.code is Exit.USAGE


def test_every_server_has_another_token(server: PageServer, pages: ResourcePages) -> None:
    with PageServer(pages, 0) as other:
        assert other.token != server.token
        assert len(other.token) >= 43


@pytest.mark.parametrize("port", ["65536", "-1", "http", "8080/"])
def test_an_invalid_port_is_refused(capsys: pytest.CaptureFixture[str], port: str) -> None:
    assert main(["serve", f"--port={port}"]) == Exit.USAGE
    assert f"invalid port '{port}'" in capsys.readouterr().err


# --- readings ---


def test_ten_pages_cause_one_reading_and_no_page_causes_none(kube: Kube, pages: ResourcePages) -> None:
    for _ in range(10):
        pages("")
    assert kube.lists == 1
    kube.seconds += 100 * EVERY
    assert kube.lists == 1
    for _ in range(10):
        pages("kafka/orders")
    assert kube.lists == 2


def test_a_page_shows_the_last_picture_with_its_age_while_the_api_server_is_away(
    kube: Kube, pages: ResourcePages
) -> None:
    kube.is_away = True
    for seconds in (EVERY, 60.0):
        kube.seconds = seconds
        page = pages("") or ""
        assert "Not read since 2026-01-02 03:04:10 UTC" in Page(page).text  # the first failure
        assert "connection refused" in page
        assert "kafka/orders" in page
    assert "1 min ago" in page
    kube.is_away, kube.seconds = False, 120.0
    assert "Not read since" not in (pages("") or "")


def test_a_page_does_not_wait_for_a_slow_reading(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "READING_TIMEOUT", 0.0)
    reader, answered = Reader(kube.environment), Event()
    values = iter((1, 2))

    def read() -> int:
        assert answered.wait(10) or kube.seconds == 0
        return next(values)

    subject = Live(read, reader)
    answered.set()
    assert subject.first() == 1
    answered.clear()
    kube.seconds = EVERY
    assert subject.latest().value == 1
    monkeypatch.setattr(live, "READING_TIMEOUT", 10.0)
    answered.set()
    assert subject.latest().value == 2
    reader.close()


# --- pages ---


def test_the_list_has_those_that_require_action_first_with_a_link_to_each(kube: Kube, pages: ResourcePages) -> None:
    kube.resources.append(resource(statuses.stalled(), name="zebra"))
    kube.seconds = EVERY
    page = Page(pages("") or "")
    assert [row[:2] for row in page.rows_under("2 resources")[1:]] == [
        ["kafka/zebra", "GhostRegistration"],
        ["kafka/orders", "InSync"],
    ]
    assert [one["href"] for tag, one in page.tags if tag == "a"] == ["kafka/zebra", "kafka/orders"]


def test_the_page_of_a_resource_has_what_its_report_has_and_its_events(pages: ResourcePages) -> None:
    page = Page(pages("kafka/orders") or "")
    assert ["?", "RestartingNode", "kafka/orders"][1:] in [row[1:] for row in page.rows]
    assert ("a", {"href": "../"}) in page.tags


@pytest.mark.parametrize("path", ["kafka/gone", "kafka", "../etc/passwd", "kafka/orders/"])
def test_there_is_no_page_of_what_is_not_in_the_list(pages: ResourcePages, path: str) -> None:
    assert pages(path) is None


STATES = {
    "in_sync": ["kafkafeatures suspend orders -n kafka", "kafkafeatures reconcile orders -n kafka"],
    "waiting_for_approval": ["kafkafeatures approve orders -n kafka --plan sha256:", "suspend", "reconcile"],
}


@pytest.mark.parametrize("state", STATES)
def test_the_page_of_a_resource_has_commands_to_copy(kube: Kube, pages: ResourcePages, state: str) -> None:
    kube.resources[0] = resource(getattr(statuses, state)())
    kube.seconds = EVERY
    shown = [line for line in commands(pages("kafka/orders")) if line.endswith("--context 'a b'")]
    assert len(shown) == len(STATES[state])
    assert all(part in line for part, line in zip(STATES[state], shown, strict=True))


def test_a_suspended_resource_can_be_resumed_and_not_suspended_again(kube: Kube, pages: ResourcePages) -> None:
    kube.resources[0] = resource(statuses.suspended(), annotations={PAUSE: "true"})
    kube.seconds = EVERY
    shown = "\n".join(commands(pages("kafka/orders")))
    assert "kafkafeatures resume orders -n kafka" in shown
    assert "kafkafeatures suspend" not in shown


def test_a_missing_consent_is_a_command_that_keeps_the_other_consents(kube: Kube, pages: ResourcePages) -> None:
    downgrade = statuses.status(DesiredState({"metadata.version": 20}))
    spec = {"cluster": {"bootstrapServers": "h:1"}, "consents": ["zk-finalize"]}
    kube.resources[0] = resource(downgrade, spec=spec)
    kube.seconds = EVERY
    (patch,) = [line for line in commands(pages("kafka/orders")) if "kubectl patch" in line]
    assert """-p '{"spec":{"consents":["zk-finalize","metadata.version:21->20"]}}'""" in patch


def test_a_page_without_the_right_to_events_says_so(
    kube: Kube, pages: ResourcePages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def events(namespace: str, name: str) -> list[dict[str, Any]]:
        raise NotFound("no right", Exit.BLOCKED)

    monkeypatch.setattr(kube, "events", events)
    assert "The Events could not be read." in (pages("kafka/orders") or "")


def test_addresses_of_a_document_are_quoted_in_a_command_which_reaches_the_same_api_server(
    kube: Kube, pages: ResourcePages
) -> None:
    spec = {"cluster": {"bootstrapServers": "h:1; rm -rf x"}, "mode": "Apply"}
    kube.resources[0] = resource(KINDS["rolling"], spec=spec)
    kube.seconds = EVERY
    text = unescape(pages("kafka/orders") or "")
    assert "kafkafeatures serve orders -n kafka --bootstrap-server 'h:1; rm -rf x' --context 'a b'" in text
