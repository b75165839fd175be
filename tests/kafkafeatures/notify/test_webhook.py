"""One request to a webhook that answers well, badly, slowly, endlessly or not at all."""

from __future__ import annotations

import asyncio
import socket
import traceback
from pathlib import Path

import pytest

from kafkafeatures.notify.settings import NotifySettings
from kafkafeatures.notify.webhook import NotDelivered, Webhook
from tests.kafkafeatures.notify.receiver import (
    SECRET,
    Answer,
    answer,
    closes,
    is_silent,
    never_ends,
    receiving,
    speaks_otherwise,
)

BROKEN = "the webhook closed the connection, or does not speak HTTP"


async def post(url_file: str, *, allow_http: bool = False, timeout: float = 20.0) -> None:
    """Send a body, within a limit that only a receiver which never answers may reach."""
    await Webhook(NotifySettings(url_file, allow_http=allow_http, timeout=timeout)).post(b'{"text": "x"}')


@pytest.mark.parametrize(
    "taken",
    [answer(200), answer(202, b""), answer(204, b""), answer(200, b"ok", Content_Length="9999"), never_ends],
    ids=["200", "202", "204", "a body that is cut short", "an endless body"],
)
async def test_a_notification_is_delivered_if_the_status_says_so_whatever_the_body_is(
    tmp_path: Path, taken: Answer
) -> None:
    async with asyncio.timeout(10), receiving(tmp_path, taken) as receiver:
        await post(receiver.url_file)
    assert (receiver.requests, receiver.paths) == ([{"text": "x"}], [f"/services/{SECRET}"])


@pytest.mark.parametrize(
    ("reply", "cause", "wait"),
    [
        (answer(500), "the webhook answers HTTP 500", 0),
        (answer(404, SECRET.encode()), "the webhook answers HTTP 404; check the URL", 0),
        (answer(429, Retry_After="30"), "the webhook answers HTTP 429", 30),
        (answer(503, Retry_After="999999"), "the webhook answers HTTP 503", 600),
        (answer(429, Retry_After="-1"), "the webhook answers HTTP 429", 0),
        (answer(200, b"\n<!DOCTYPE html>"), "the webhook answers with a web page", 0),
        (answer(307, Location=f"/other/{SECRET}"), "the webhook redirects, which is not followed", 0),
        (closes, BROKEN, 0),
        (speaks_otherwise, BROKEN, 0),
        (answer(200, X=SECRET * 10_000), BROKEN, 0),
    ],
    ids=[
        "500", "404", "429", "longest wait", "wrong wait", "web page", "redirect", "closed", "no HTTP", "large header",
    ],
)  # fmt: skip
async def test_a_refused_notification_says_why_without_the_url(
    tmp_path: Path, reply: Answer, cause: str, wait: float
) -> None:
    async with receiving(tmp_path, reply) as receiver:
        with pytest.raises(NotDelivered) as caught:
            await post(receiver.url_file)
    assert str(caught.value).startswith(cause)
    assert caught.value.wait == wait
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert len(receiver.requests) == 1


async def test_a_webhook_that_is_slow_is_given_up(tmp_path: Path) -> None:
    async with receiving(tmp_path, is_silent) as receiver:
        with pytest.raises(NotDelivered, match=r"^the webhook does not answer within 0.05 s$"):
            await post(receiver.url_file, timeout=0.05)


async def test_a_webhook_that_is_down_or_has_no_name_is_named_by_its_failure_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.socket() as unused:  # bound, but not listening
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}/{SECRET}"
        for url, cause in (
            (closed, "the webhook cannot be reached: Connection refused"),
            (f"https://{SECRET}.invalid/", "the host name of the webhook does not resolve"),
        ):
            (tmp_path / "url").write_text(url)
            with pytest.raises(NotDelivered) as caught:
                await post(str(tmp_path / "url"))
            assert str(caught.value) == cause


async def test_a_webhook_that_speaks_no_tls_is_named_by_its_failure_alone(tmp_path: Path) -> None:
    async with receiving(tmp_path) as receiver:
        receiver.set_url(f"https://127.0.0.1:{receiver.port}/{SECRET}")
        with pytest.raises(NotDelivered, match=r"^the TLS handshake with the webhook failed$"):
            await post(receiver.url_file)


@pytest.mark.parametrize(
    "url",
    ["", "hooks.example/T0", "ftp://hooks.example/T0", "https://", "https://h:99999/", "https://h/\0", "https://[h/", "https://h/\nhttps://i/"],
)  # fmt: skip
def test_a_url_that_cannot_be_used_is_refused_without_showing_it(tmp_path: Path, url: str) -> None:
    file = tmp_path / "url"
    file.write_text(url)
    with pytest.raises(NotDelivered) as caught:
        Webhook(NotifySettings(str(file))).url()
    assert str(caught.value) == f"invalid URL in {file}: expected one line such as https://hooks.example/T0/B0"


def test_a_file_of_the_url_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotDelivered, match=r"^cannot read .*/url: No such file or directory$"):
        Webhook(NotifySettings(str(tmp_path / "url"))).url()
    (tmp_path / "url").write_bytes(b"https://\xff")
    with pytest.raises(NotDelivered, match="invalid URL"):
        Webhook(NotifySettings(str(tmp_path / "url"))).url()


@pytest.mark.parametrize("host", ["hooks.example", "127.0.0.1.example", "10.0.0.1"])
def test_http_is_refused_unless_it_is_allowed(tmp_path: Path, host: str) -> None:
    file = tmp_path / "url"
    file.write_text(f"http://{host}/T0")
    with pytest.raises(NotDelivered, match=r"is not https: use https, or allow http \(--notify-allow-http\)$"):
        Webhook(NotifySettings(str(file))).url()
    assert Webhook(NotifySettings(str(file), allow_http=True)).url() == f"http://{host}/T0"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "[::1]"])
def test_http_is_allowed_on_loopback(tmp_path: Path, host: str) -> None:
    (tmp_path / "url").write_text(f"http://{host}:8080/T0\r\n")
    assert Webhook(NotifySettings(str(tmp_path / "url"))).url() == f"http://{host}:8080/T0"


async def test_the_url_is_read_anew_for_each_request(tmp_path: Path) -> None:
    async with receiving(tmp_path) as receiver:
        await post(receiver.url_file)
        receiver.set_url(f"http://127.0.0.1:{receiver.port}/other")
        await post(receiver.url_file)
    assert receiver.paths == [f"/services/{SECRET}", "/other"]
