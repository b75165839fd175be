"""Reads reduced request logs, and the file with the owners of clients, for `clients check`. Called by `check.py`.

What it decides: a reduced log that cannot be read is reported and left out, since logs only name senders and add uses:
without a log, the verdict is that of the counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.client_files.logs.reduced import find_files, read_hour
from kafkafeatures.client_files.owners import OwnersRefused, parse_owners
from kafkafeatures.client_files.reduced import ReducedHour, ReducedRefused, logged_uses
from kafkafeatures.core.clients.senders import ClientOwner, LoggedUse

MAX_OWNERS = 4 * 1024 * 1024
"""Bytes of a file of owners, at most."""


class RequestLogs(Struct, frozen=True):
    """Uses of API versions in logs. `refused`: a line for each file that was not read."""

    uses: tuple[LoggedUse, ...] = ()
    refused: tuple[str, ...] = ()


def read_request_logs(paths: Iterable[Path]) -> RequestLogs:
    """The reduced logs of folders and files. Raises CommandFailed."""
    hours: list[ReducedHour] = []
    refused: list[str] = []
    for file in [file for path in paths for file in _files(path)]:
        try:
            hours.append(read_hour(file))
        except ReducedRefused as error:
            refused.append(f"{file}: not read: {error}")
        except OSError as error:
            refused.append(f"{file}: not read: {error.strerror}")
    return RequestLogs(tuple(logged_uses(hours)), tuple(refused))


def _files(path: Path) -> list[Path]:
    try:
        files = find_files(path)
    except OSError as error:
        raise CommandFailed(f"{error.filename or path}: {error.strerror}", Exit.USAGE) from None
    if not files:
        text = f"{path}: no reduced request logs in it; make them with clients reduce --to {path}"
        raise CommandFailed(text, Exit.USAGE)
    return files


def read_owners(path: Path | None) -> Sequence[ClientOwner]:
    """The owners in a file, in its order: the first that matches a client counts. Raises CommandFailed."""
    if path is None:
        return ()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_OWNERS + 1)
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", Exit.USAGE) from None
    if len(data) > MAX_OWNERS:
        raise CommandFailed(f"{path}: larger than {MAX_OWNERS // 1024 // 1024} MiB", Exit.USAGE)
    try:
        return parse_owners(data)
    except OwnersRefused as refused:
        raise CommandFailed(f"{path}: {refused}", Exit.USAGE) from None
