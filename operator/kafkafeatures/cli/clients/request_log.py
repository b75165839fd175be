"""Clients that request logs have seen at addresses and on connections that are in question.

Called by `rejected.py`. A line of the request logger (`RequestChannel.scala`) is JSON behind a prefix; only the parts
that name a client are read, and only of lines whose address is in question, so that memory does not grow with a log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator

from kafkafeatures.cli.clients.server_log import time_in
from kafkafeatures.core.clients.rejections import Seen, SeenClient, Sightings

MAX_LINE = 1 << 20
"""Bytes of a line; what is longer is no request, and is skipped. The longest that was measured has 5 kB."""
MAX_CLIENTS = 1_000
"""Clients for each address: some make up a client id for each run."""

_REQUEST = re.compile(
    rb'"requestApiVersion":(?P<version>-?\d{1,5}),"correlationId":-?\d{1,11},'
    rb'"clientId":(?P<client>"(?:[^"\\]|\\.)*"|null),"requestApiKeyName":"(?P<api>[A-Z_]{1,60})"'
)
_CONNECTION = re.compile(rb'"connection":"([^"\\]{7,160})",')
_PEER = re.compile(rb".*?:\d{1,5}-(.+):\d{1,5}(?:-\d{1,10}){1,2}")
_PRINCIPAL = re.compile(rb'"principal":("(?:[^"\\]|\\.)*")')
_SOFTWARE = re.compile(rb'"softwareName":"([^"\\]*)","softwareVersion":"([^"\\]*)"')


class ClientSearch:
    """Search for clients at `addresses`, and for those on `connections`."""

    def __init__(self, addresses: Collection[str], connections: Collection[str]) -> None:
        self._addresses = {address.encode() for address in addresses}
        self._connections = {connection.encode() for connection in connections}
        self._seen: dict[str, dict[SeenClient, Sightings]] = {}
        self.omitted: set[str] = set()
        """Addresses that have more than `MAX_CLIENTS`."""

    @property
    def seen(self) -> Seen:
        return self._seen

    def read(self, blocks: Iterable[bytes]) -> None:
        """Search one log."""
        for line in _lines(blocks):
            # From behind: what precedes it are the contents of the request and the response, which name anything.
            begin = line.rfind(b'"connection":"')
            match = _CONNECTION.match(line, begin) if begin >= 0 else None
            peer = _PEER.fullmatch(match[1]) if match else None
            if match and peer and peer[1] in self._addresses:
                self._add(line, match[1], peer[1].decode())

    def _add(self, line: bytes, connection: bytes, address: str) -> None:
        request, principal = _REQUEST.search(line), _PRINCIPAL.search(line, line.rfind(b'"principal":'))
        if request is None or principal is None:
            return
        software = _SOFTWARE.search(line, principal.end())
        names = [_text(part) for part in software.groups()] if software else []
        client = SeenClient(
            _json(request["client"]),
            _json(principal[1]),
            "" if not names or names[0] == "unknown" else " ".join(names),
        )
        clients = self._seen.setdefault(address, {})
        if client not in clients and len(clients) >= MAX_CLIENTS:
            self.omitted.add(address)
            return
        sightings = clients.setdefault(client, Sightings({}, set()))
        api = "".join(word.capitalize() for word in request["api"].decode().split("_"))
        sightings.uses.add((api, int(request["version"])))
        time = time_in(line[:256])
        if connection in self._connections and time is not None:
            first, last = sightings.times.get(connection.decode(), (time, time))
            sightings.times[connection.decode()] = min(first, time), max(last, time)


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines, without those that are too long."""
    rest = b""
    is_skipped = False
    for block in blocks:
        head, newline, text = block.partition(b"\n")
        if not newline:
            is_skipped |= len(rest) + len(head) > MAX_LINE
            rest = b"" if is_skipped else rest + head
            continue
        if not is_skipped:
            yield rest + head
        is_skipped = False
        *lines, rest = text.split(b"\n")
        yield from lines
    if not is_skipped:
        yield rest


def _json(text: bytes) -> str:
    try:
        value = json.loads(text.decode(errors="replace"))
    except ValueError:
        return _text(text)
    return value if isinstance(value, str) else ""


def _text(text: bytes) -> str:
    return text.decode(errors="replace")
