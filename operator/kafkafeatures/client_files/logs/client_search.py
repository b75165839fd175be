"""Searches request logs for clients at given addresses, and for those on given connections.

Called by `clients rejected` and the pipeline, with the addresses and connections of refused requests. It takes raw logs
and those of `clients reduce`, which have no connections. Lines with other addresses are skipped, so that memory does
not grow with a log.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from kafkafeatures.client_files.logs.lines import ContainerLog, LogStream
from kafkafeatures.client_files.logs.reduced import find_files, read_hour
from kafkafeatures.client_files.logs.requests import RequestRejected, parse_request
from kafkafeatures.client_files.reduced import SUFFIX, ReducedRefused, RequestGroup
from kafkafeatures.core.clients.rejections import Seen, SeenClient, Sightings

MAX_CLIENTS = 1_000
"""Clients of one address, at most: some programs make up a client id for each run."""
UNKNOWN_SOFTWARE = "unknown"
"""Name that brokers log for software that does not name itself."""
_PEER = re.compile(rb'"connection\\?":\\?"[^"\\]{3,80}:\d{1,5}-\[?([^"\\\[\]]{3,80}?)\]?:\d{1,5}-[\d-]{1,22}\\?"')
"""The address in a line, also where the line is a text within JSON."""


class ClientSearch:
    """A search for clients at `addresses`. `connections`: those of which it notes when a client used them."""

    def __init__(self, addresses: Collection[str], connections: Collection[str]) -> None:
        self._addresses = {address.encode() for address in addresses}
        self._connections = frozenset(connections)
        self._seen: dict[str, dict[SeenClient, Sightings]] = {}

    @property
    def seen(self) -> Seen:
        """By address, the clients that were seen there so far."""
        return self._seen

    def read(self, stream: LogStream) -> None:
        """Search a raw log. Raises LogUnreadable, after what could be read."""
        for lines in ContainerLog().batches(stream):
            for line in lines:
                # From behind: in front of it are a request and a response, whose texts clients choose.
                begin = line.rfind(b'"connection')
                match = _PEER.match(line, begin) if begin >= 0 else None
                if match and match[1] in self._addresses:
                    self._add_line(line)

    def read_reduced(self, path: Path) -> Iterable[str]:
        """Search reduced logs in a folder or a file. Returns a line for each that could not be read. Raises OSError."""
        problems = []
        for file in find_files(path):
            try:
                hour = read_hour(file)
            except ReducedRefused as refused:
                problems.append(f"{file}: not read: {refused}")
                continue
            for count in hour.counts:
                self._add(count.group)
        return problems

    def _add_line(self, line: bytes) -> None:
        try:
            request = parse_request(line, str)
        except RequestRejected:
            return
        sightings = self._add(request.group) if request is not None else None
        if sightings is None or request is None or request.connection not in self._connections:
            return
        first, last = sightings.times.get(request.connection, (request.time, request.time))
        sightings.times[request.connection] = min(first, request.time), max(last, request.time)

    def _add(self, group: RequestGroup) -> Sightings | None:
        """Add the API and version of a group to its client. Returns what is known of that client; None if its address
        is not searched for, or has too many clients.
        """
        address = group.address or ""
        if address.encode() not in self._addresses:
            return None
        software = " ".join(filter(None, (group.software, group.software_version)))
        client = SeenClient(
            group.client_id or "", group.principal or "", "" if group.software == UNKNOWN_SOFTWARE else software
        )
        clients = self._seen.setdefault(address, {})
        if client not in clients and len(clients) >= MAX_CLIENTS:
            return None
        sightings = clients.setdefault(client, Sightings({}, set()))
        sightings.uses.add((group.api, group.version))
        return sightings


def is_reduced(path: Path) -> bool:
    """True if a path is a folder, which can only have reduced logs, or has the name of a reduced log."""
    return path.is_dir() or path.name.endswith(SUFFIX)
