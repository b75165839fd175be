"""Reads reduced request logs, and the file with the owners of clients, for `clients check`. Called by `check.py`.

What it decides: a reduced log that cannot be read is reported and left out, since logs only name the senders, and the
verdict does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from kafkafeatures.cli.clients.logs.reduced import ReducedHour, ReducedRefused, find_files, merge_hours, read_hour
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.clients.senders import ClientOwner, LoggedUse
from kafkafeatures.core.words import printable

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
    return RequestLogs(tuple(use for hour in merge_hours(hours) for use in _uses(hour)), tuple(refused))


def _files(path: Path) -> list[Path]:
    try:
        files = find_files(path)
    except OSError as error:
        raise CommandFailed(f"{error.filename or path}: {error.strerror}", Exit.USAGE) from None
    if not files:
        text = f"{path}: no reduced request logs in it; make them with clients reduce --to {path}"
        raise CommandFailed(text, Exit.USAGE)
    return files


def _uses(hour: ReducedHour) -> Iterator[LoggedUse]:
    """A use for each count of an hour."""
    shows_all = "DEBUG" in hour.levels or "TRACE" in hour.levels  # at INFO only deprecated versions are logged
    for count in hour.counts:
        group = count.group
        software = " ".join(part for part in (group.software, group.software_version) if part and part != "unknown")
        yield LoggedUse(
            hour.broker, group.api, group.version, group.client_id, group.principal, group.address, software,
            group.is_forwarded, count.requests, hour.first, count.last, shows_all,
        )  # fmt: skip


def read_owners(path: Path | None) -> Sequence[ClientOwner]:
    """The owners in a file, in its order: the first that matches a client counts. Raises CommandFailed."""
    if path is None:
        return ()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_OWNERS + 1)
        if len(data) > MAX_OWNERS:
            raise CommandFailed(f"{path}: larger than {MAX_OWNERS // 1024 // 1024} MiB", Exit.USAGE)
        return msgspec.convert(_document(data), type=_Owners).owners
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", Exit.USAGE) from None
    except (msgspec.ValidationError, yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        reason = printable(" ".join(str(error).split()))[:200] or type(error).__name__
        text = f"{path}: {reason}; expected owners: [{{team: NAME, clientId: PATTERN, principal: PATTERN}}]"
        raise CommandFailed(text, Exit.USAGE) from None


class _Owners(Struct, frozen=True, forbid_unknown_fields=True):
    owners: tuple[ClientOwner, ...]


def _document(data: bytes) -> Any:
    return yaml.safe_load(data.decode())
