"""Requests to a Prometheus: a slow, endless or wrong server costs bounded time and memory, and ends in one line."""

from __future__ import annotations

import gzip
import re
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trustme

from kafkafeatures.prometheus.api import HttpAnswer, PrometheusApi, PrometheusFailed
from kafkafeatures.prometheus.config import (
    BasicAuth,
    HttpConfig,
    HttpConfigRefused,
    TlsConfig,
    context_of,
    headers_of,
    read_http_config,
)
from kafkafeatures.prometheus.http import HttpTransport, PrometheusUrlRefused, parse_url

Serve = Callable[[socket.socket], None]
EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'
JSON = b"Content-Type: application/json\r\n"


@contextmanager
def server(serve: Serve, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server. `serve`: what it does with each connection, after the request was read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(line,), daemon=True).start()

        def answer(line: socket.socket) -> None:
            try:
                with line if context is None else context.wrap_socket(line, server_side=True) as stream:
                    serve(stream)
            except OSError:
                pass  # the client went away

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def request_of(line: socket.socket) -> bytes:
    """The complete request; b"" if there is no further one."""
    text = b""
    while b"\r\n\r\n" not in text:
        if not (part := line.recv(65536)):
            return b""
        text += part
    head, _, body = text.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += line.recv(65536)
    return head + b"\r\n\r\n" + body


def reply(body: bytes, head: bytes = JSON, status: bytes = b"200 OK") -> bytes:
    """A complete HTTP answer."""
    return b"HTTP/1.1 " + status + b"\r\n" + head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def answering_with(text: bytes) -> Serve:
    """Answer each request with this text."""

    def serve(line: socket.socket) -> None:
        while request_of(line):
            line.sendall(text)

    return serve


def dripping(head: bytes) -> Serve:
    """Send the head, and then a byte every 20 ms, for ever: no deadline between two bytes ends that."""

    def serve(line: socket.socket) -> None:
        request_of(line)
        line.sendall(head)
        while True:
            line.sendall(b" ")
            time.sleep(0.02)

    return serve


def silent(line: socket.socket) -> None:
    """Read until the client goes away, and send nothing."""
    while line.recv(4096):
        pass


def failure_of(serve: Serve, **limits: float | int) -> str:
    """The text with which a request to such a server fails."""
    with server(serve) as port:
        transport = HttpTransport(parse_url(f"http://127.0.0.1:{port}/prefix/"), {}, None, **limits)  # type: ignore[arg-type]  # numbers
        with closing(transport), pytest.raises(PrometheusFailed) as failed:
            PrometheusApi(transport).query("up", 1)
    return str(failed.value)


def endless(line: socket.socket) -> None:
    """Send two gigabytes without announcing a length."""
    request_of(line)
    line.sendall(b"HTTP/1.1 200 OK\r\n" + JSON + b"\r\n" + b'{"status":"success","error":"')
    for _ in range(2 * 1024):
        line.sendall(b"x" * 1024 * 1024)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n" + JSON + b"\r\n"])
def test_a_server_that_sends_a_byte_at_a_time_times_out(head: bytes) -> None:
    began = time.monotonic()
    assert failure_of(dripping(head), deadline=0.3) == "did not answer within 0.3 s"
    assert time.monotonic() - began < 5


def test_many_slow_answers_end_at_the_limit_for_all_requests_together() -> None:
    def serve(line: socket.socket) -> None:
        while request_of(line):
            time.sleep(0.1)  # a slow server
            line.sendall(reply(EMPTY))

    with server(serve) as port, pytest.raises(PrometheusFailed, match=re.escape("took more than 0.5 s in all")):
        send_100_requests(HttpTransport(parse_url(f"http://127.0.0.1:{port}"), {}, None, total=0.5))


def send_100_requests(transport: HttpTransport) -> None:
    with closing(transport):
        for _ in range(100):
            transport("/api/v1/query", b"")


def test_a_silent_server_times_out() -> None:
    assert failure_of(silent, deadline=0.3) == "did not answer within 0.3 s"


def test_a_server_that_never_completes_its_tls_handshake_times_out() -> None:
    with server(silent) as port:
        transport = HttpTransport(
            parse_url(f"https://127.0.0.1:{port}"), {}, ssl.create_default_context(), deadline=0.3
        )
        with pytest.raises(PrometheusFailed, match="did not answer within"):
            transport("/", b"")


def test_an_answer_of_two_gigabytes_is_refused_and_not_held_in_memory() -> None:
    tracemalloc.start()
    assert (
        failure_of(endless, max_answer=8 * 1024 * 1024)
        == "answers with more than 8 MiB: narrow the selector to one cluster"
    )
    assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (
            reply(gzip.compress(b"0" * 10**8, mtime=0), JSON + b"Content-Encoding: gzip\r\n"),
            "answers with something compressed",
        ),
        (reply(b"", b"Location: http://elsewhere:9090/\r\n", b"302 Found"), "redirects to 'http://elsewhere:9090/'"),
        (reply(EMPTY, b"Content-Type: text/html\r\n"), "answers with something else than JSON: is it the URL of a"),
        (reply(b"", b"", b"401 Unauthorized"), "answers 401: check the credentials"),
        (reply(b"<html>", b"Content-Type: text/html\r\n", b"404 Not Found"), "answers 404: check the path of the URL"),
        (reply(b'{"status":"error","error":"bad\\u001b[2J"}', status=b"422 U"), "answers 422"),
        (reply(b'{"status":"error","error":"too many samples"}', status=b"422 U"), "answers 422: too many samples"),
        (reply(b'{"status":"error"}'), "answers 200: without a reason"),
        (reply(b""), "JSON of another shape"),
        (reply(b"[]"), "JSON of another shape"),
        (reply(b'{"status":"success","data":{"resultType":"vector","result":{}}}'), "JSON of another shape"),
        (reply(b"[" * 100_000), "JSON of another shape"),
        (reply(b'{"status":"success"}'), "something else than a vector"),
        (reply(b'{"status":"success","data":{"resultType":"streams","result":[]}}'), "something else than a vector"),
        (reply(EMPTY[:-1] + b',"warnings":["remote read failed"]}'), "warns .* remote read failed; a part proves"),
        (
            reply(b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}'),
            "something else than numbers in a sample",
        ),
        (b"HTTP/1.1 200 OK\r\n" + JSON + b"Content-Length: 500\r\n\r\n" + EMPTY, "did not answer within|closed"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
    ],
)
def test_an_answer_that_proves_nothing_is_refused_with_the_reason(text: bytes, failure: str) -> None:
    message = failure_of(answering_with(text), deadline=1.0)
    assert re.search(failure, message)
    assert message.isprintable()


def test_an_answer_that_ends_before_its_announced_length_is_refused() -> None:
    def serve(line: socket.socket) -> None:
        request_of(line)
        line.sendall(b"HTTP/1.1 200 OK\r\n" + JSON + b"Content-Length: 500\r\n\r\n" + EMPTY)

    assert failure_of(serve) == "closed the connection within its answer"


def hang_up(line: socket.socket) -> None:
    request_of(line)


def test_a_closed_connection_and_a_closed_port_are_reported() -> None:
    assert failure_of(hang_up) == "closed the connection without an answer"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(PrometheusFailed, match="cannot be reached: Connection refused"):
        HttpTransport(parse_url(f"http://127.0.0.1:{port}"), {}, None)("/", b"")


def test_a_connection_that_was_closed_while_idle_is_opened_again() -> None:
    requests = []

    def serve(line: socket.socket) -> None:  # one request, after which the server closes the connection
        requests.append(request_of(line))
        line.sendall(reply(EMPTY))

    with (
        server(serve) as port,
        closing(HttpTransport(parse_url(f"http://127.0.0.1:{port}/p"), {"X": "1"}, None)) as send,
    ):
        api = PrometheusApi(send)
        assert api.query("up", 1_500) == api.query("up", 2_000) == []
    assert requests[0].startswith(b"POST /p/api/v1/query HTTP/1.1\r\n")
    assert requests[0].endswith(b"\r\n\r\nquery=up&time=1.500")
    assert b"\r\nX: 1\r\n" in requests[0]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def test_a_certificate_is_trusted_only_with_the_configured_authority_and_server_name(
    authority: trustme.CA, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    certificate = authority.issue_cert("prometheus.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)

    def asked(tls: TlsConfig) -> HttpAnswer:
        with server(answering_with(reply(EMPTY)), context) as port:
            url = parse_url(f"https://127.0.0.1:{port}")
            trust = context_of(HttpConfig(tls_config=tls), tmp_path)
            with closing(HttpTransport(url, {}, trust, server_name=tls.server_name)) as send:
                return send("/api/v1/query", b"")

    assert asked(TlsConfig(ca_file="ca.pem", server_name="prometheus.example")).body == EMPTY
    with pytest.raises(PrometheusFailed, match="its certificate is not trusted"):
        asked(TlsConfig(ca_file="ca.pem"))
    with pytest.raises(PrometheusFailed, match="its certificate is not trusted"):
        asked(TlsConfig(server_name="prometheus.example"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("http://user:secret@p:9090", "do not belong into a URL"),
        ("http://p@q", "do not belong into a URL"),
        ("ftp://p", "expected a URL such as"),
        ("p:9090", "expected a URL such as"),
        ("http://", "expected a URL such as"),
        ("http://p:0", "expected a URL such as"),
        ("http://p:x", "not a URL"),
        ("http://p/?a=b", "path alone"),
        ("http://p/a\r\nb", "path alone"),
        ("http://p/\u00e4", "path alone"),
    ],
)
def test_a_url_with_a_login_or_without_a_server_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PrometheusUrlRefused, match=reason) as refused:
        parse_url(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("", {}),
        ("basic_auth: {username: a, password: b}", {"Authorization": "Basic YTpi"}),
        ("basic_auth: {username: a, password_file: secret}", {"Authorization": "Basic YTpi"}),
        ("authorization: {credentials_file: secret}", {"Authorization": "Bearer b"}),
        ("authorization: {type: Token, credentials: b}", {"Authorization": "Token b"}),
        ("bearer_token_file: secret", {"Authorization": "Bearer b"}),
    ],
)
def test_a_login_is_read_as_prometheus_reads_it(tmp_path: Path, text: str, header: Mapping[str, str]) -> None:
    (tmp_path / "secret").write_text("b\n")
    path = tmp_path / "config.yml"
    path.write_text(text)
    assert headers_of(read_http_config(path), tmp_path) == header


def use_config(path: Path) -> None:
    config = read_http_config(path)
    headers_of(config, path.parent)
    context_of(config, path.parent)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("basic_auth: {username: a, passwrd: hunter2}", "unknown field `passwrd`"),
        ("proxy_url: hunter2", "unknown field `proxy_url`"),
        ("basic_auth: hunter2", "Expected `object"),
        ("basic_auth: {username: a}", "either basic_auth.password or basic_auth.password_file"),
        ("basic_auth: {password: hunter2, password_file: b}", "either basic_auth.password or"),
        ("authorization: {credentials: hunter2}\nbearer_token_file: b", "exclude each other"),
        ("tls_config: {insecure_skip_verify: true}", "a server that is not verified may be another one"),
        ("tls_config: {ca_file: nowhere}", "ca_file: No such file"),
        ("tls_config: {cert_file: config.yml}", "belong together"),
        ("tls_config: {cert_file: config.yml, key_file: config.yml}", "cert_file: no certificate with its key"),
        ("authorization: {credentials_file: nowhere}", "nowhere: No such file"),
        ('authorization: {credentials: "hunter2\\n"}', "characters that no header may have"),
        ("a: [", "not YAML"),
    ],
)
def test_an_invalid_http_configuration_is_refused_and_its_secret_is_not_repeated(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "config.yml"
    path.write_text(text)
    with pytest.raises(HttpConfigRefused, match=reason) as refused:
        use_config(path)
    assert "hunter2" not in str(refused.value)


def test_a_password_is_not_in_the_representation_of_the_headers() -> None:
    assert "hunter2" not in str(headers_of(HttpConfig(basic_auth=BasicAuth("a", "hunter2")), Path()))
