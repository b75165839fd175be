"""One request to a webhook. Its URL is a secret: it is in no message, no log line and no error.

Called by `notifier.py`. What it decides: a notification is delivered if the answer's status is 2xx and no web page. A
redirect is not followed, of an answer only the first bytes are read, and the URL is read from its file for each
request, so that a Secret can be corrected while the operator runs.
"""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct

from kafkafeatures import __version__
from kafkafeatures.notify.settings import NotifySettings

MAX_URL = 8192
"""Most bytes of the file of a URL."""
MAX_WAIT = 600
"""Most seconds of a Retry-After that are waited."""
_FIRST_BYTES = 64
_HINTS = {
    400: "check the format",
    401: "check the URL",
    403: "check the URL",
    404: "check the URL",
    405: "check the URL",
    410: "the webhook was removed; set another URL",
}


class NotDelivered(Exception):
    """The receiver did not take a notification: one line without the URL. `wait`: seconds for which it asks to wait."""

    def __init__(self, cause: str, wait: float = 0.0) -> None:
        super().__init__(cause)
        self.wait = wait


class Webhook(Struct, frozen=True):
    """The webhook of the settings."""

    settings: NotifySettings

    def url(self) -> str:
        """The URL. Raises NotDelivered for one that cannot be used."""
        path = self.settings.url_file
        try:
            with open(path, "rb") as file:
                text = file.read(MAX_URL).decode().strip()
            url = urlsplit(text)
            is_valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and text.isprintable()
        except OSError as error:
            raise NotDelivered(f"cannot read {path}: {error.strerror}") from None
        except ValueError:
            is_valid = False
        if not is_valid:
            raise NotDelivered(f"invalid URL in {path}: expected one line such as https://hooks.example/T0/B0")
        if url.scheme == "http" and not (self.settings.allow_http or _is_loopback(text)):
            raise NotDelivered(f"the URL in {path} is not https: use https, or allow http (--notify-allow-http)")
        return text

    async def post(self, body: bytes) -> None:
        """Send a body of JSON. Raises NotDelivered."""
        url = self.url()
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=aiohttp.ClientTimeout(total=self.settings.timeout),
                    trust_env=not _is_loopback(url),  # a proxy of the environment
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,
                    headers={"User-Agent": f"kafkafeatures/{__version__}", "Accept-Encoding": "identity"},
                ) as session,
                session.post(
                    url, data=body, headers={"Content-Type": "application/json"}, allow_redirects=False
                ) as response,
            ):
                await _check(response)
        except NotDelivered:
            raise
        except Exception as error:  # of any kind: its text may have the URL
            raise NotDelivered(self._cause(error)) from None

    def _cause(self, error: Exception) -> str:
        """The failure in words. The texts of these errors may have the URL."""
        match error:
            case TimeoutError():
                return f"the webhook does not answer within {self.settings.timeout:g} s"
            case aiohttp.ClientConnectorCertificateError():
                return "the certificate of the webhook is not trusted"
            case aiohttp.ClientConnectorDNSError():
                return "the host name of the webhook does not resolve"
            case aiohttp.ClientSSLError():
                return "the TLS handshake with the webhook failed"
            case aiohttp.ClientConnectorError(os_error=OSError(errno=int(number))) if number > 0:
                return f"the webhook cannot be reached: {os.strerror(number)}"
            case _:
                return "the webhook closed the connection, or does not speak HTTP"


async def _check(response: aiohttp.ClientResponse) -> None:
    """Raise NotDelivered unless the receiver took the notification."""
    if 200 <= response.status < 300:
        try:
            first = await response.content.read(_FIRST_BYTES)
        except (aiohttp.ClientError, OSError):
            first = b""  # the status has said all
        if first.lstrip().startswith(b"<"):
            raise NotDelivered("the webhook answers with a web page; check the URL, or what is between")
        return
    if 300 <= response.status < 400:
        raise NotDelivered("the webhook redirects, which is not followed; set the URL that it redirects to")
    hint = _HINTS.get(response.status)
    wait = response.headers.get("Retry-After", "")
    seconds = min(int(wait), MAX_WAIT) if wait.isdecimal() and len(wait) < 10 else 0
    raise NotDelivered(f"the webhook answers HTTP {response.status}{f'; {hint}' if hint else ''}", seconds)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
