"""`kafkafeatures clients reduce`: counts the requests in request logs of a broker, in files a thousand times smaller.

Called by `command.py`; runs beside the broker or where its logs are collected. It decides in which form addresses of
clients are written. A log that cannot be read to its end is reported, and counted as far as it was read.
Exit code 0: done; 5: something was not read, or a log had no request.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.cli.clients.sources import STDIN, open_source, source_name, sources_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import print_document, tell
from kafkafeatures.client_files.logs.counting import HourOfRequests, RequestCounter, read_hours
from kafkafeatures.client_files.logs.lines import LogUnreadable
from kafkafeatures.client_files.logs.reduced import write_hour
from kafkafeatures.client_files.reduced import ReducedRefused
from kafkafeatures.core.words import counted, printable

FULL, TRUNCATED, HASHED = "full", "truncated", "hashed"
_NETWORK_BITS = {4: 24, 6: 64}
"""Bits of an address that are written if it is truncated to its network, by the version of IP."""


@dataclass
class ReducedLog:
    """The outcome for one log. `lines`: number of lines that are requests; `size`: bytes of all lines; `rejected` and
    `other_lines`: lines that are not counted, as in `HourOfRequests`. `files`: paths that were written. `kept`: number
    of files that were left as they are, since they were made of more lines of the same log. `problem`: the reasons why
    the log was not read to its end, or not written; empty if there are none.
    """

    source: str
    lines: int = 0
    size: int = 0
    rejected: int = 0
    other_lines: int = 0
    files: list[str] = field(default_factory=list)
    kept: int = 0
    problem: str = ""

    def add_problem(self, text: str) -> None:
        """Add a reason to those that are there."""
        self.problem = f"{self.problem}; {text}" if self.problem else text


def add_arguments(group: argparse._ActionsContainer) -> None:
    """Flags for the broker, the folder, and the form of addresses."""
    group.add_argument("--broker", type=_broker, metavar="ID", help="the broker that wrote the logs")
    group.add_argument("--to", type=Path, metavar="DIR", help="folder for the reduced files")
    group.add_argument(
        "--addresses", choices=(FULL, TRUNCATED, HASHED), default=FULL,
        help="of clients: as they are (default), their networks (/24, /64), or hashes",
    )  # fmt: skip
    group.add_argument(
        "--salt", type=Path, metavar="FILE",
        help="secret for the hashes, so that those of several runs are equal (default: another one in each run)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Reduce each log, and show what was read."""
    for flag in ("broker", "to"):
        if getattr(arguments, flag) is None:
            raise CommandFailed(f"clients reduce: --{flag} is required", Exit.USAGE)
    if arguments.salt is not None and arguments.addresses != HASHED:
        raise CommandFailed("clients reduce: --salt is for --addresses hashed", Exit.USAGE)
    sources = sources_of(arguments, "request log")
    address = address_form(arguments.addresses, arguments.salt)
    logs = []
    for source in sources:
        log = _reduce(source, arguments, address)
        if log.problem:
            tell(f"{log.source}: {log.problem}")
        logs.append(log)
    if arguments.output == "table":
        _draw(logs)
    else:
        print_document(_document(arguments.broker, logs), arguments.output)
    return Exit.UNREACHABLE if any(log.problem for log in logs) else Exit.DONE


def address_form(form: str, salt_file: Path | None) -> Callable[[str], str]:
    """The function that returns what is written of an address: all of it, its network, or a hash. Raises
    CommandFailed.
    """
    if form == FULL:
        return str
    if form == TRUNCATED:
        return lru_cache(10_000)(_network)
    try:
        salt = salt_file.read_bytes().strip() if salt_file is not None else secrets.token_bytes(32)
    except OSError as error:
        raise CommandFailed(f"{salt_file}: {error.strerror}", Exit.USAGE) from None
    if len(salt) < 16:
        raise CommandFailed(f"{salt_file}: a salt of {len(salt)} bytes; expected 16 or more", Exit.USAGE)
    return lru_cache(10_000)(lambda address: hmac.digest(salt, address.encode(), hashlib.sha256).hex()[:16])


def _network(address: str) -> str:
    """The network of an address; empty for a text that is not an address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    return str(ipaddress.ip_network((parsed, _NETWORK_BITS[parsed.version]), strict=False))


def _reduce(source: str, arguments: argparse.Namespace, address: Callable[[str], str]) -> ReducedLog:
    """Count the requests of a log, and write its files. Raises CommandFailed if a file cannot be written."""
    log = ReducedLog(source_name(source))
    counter = RequestCounter(address)
    try:
        stream = open_source(source)
    except (LogUnreadable, OSError) as error:
        log.problem = f"not read: {_reason(error)}"
        return log
    try:
        with closing(stream):
            for hour in read_hours(stream, counter):
                _write(hour, log, arguments)
    except (LogUnreadable, OSError) as error:
        log.add_problem(f"not read to its end: {_reason(error)}")
    rejected, other_lines = counter.unattributed
    log.rejected, log.other_lines = log.rejected + rejected, log.other_lines + other_lines
    # Permitted: a log file is empty while nothing is logged. An empty stdin is more likely a mistake.
    is_empty_file = source != STDIN and not log.other_lines and not log.rejected
    if not log.lines and not is_empty_file:
        log.problem = log.problem or "no request of a request log in it"
    return log


def _reason(error: Exception) -> str:
    return (error.strerror or "") if isinstance(error, OSError) else str(error)


def _write(hour: HourOfRequests, log: ReducedLog, arguments: argparse.Namespace) -> None:
    """Write the file of an hour, and add the hour to the outcome `log`."""
    path = None
    try:
        path = write_hour(arguments.to, arguments.broker, hour, arguments.addresses)
    except ReducedRefused as refused:
        log.add_problem(str(refused))
    except OSError as error:
        text = f"clients reduce: cannot write {error.filename or arguments.to}: {error.strerror}"
        raise CommandFailed(text, Exit.FAILED) from None
    log.lines, log.size = log.lines + hour.lines, log.size + hour.size
    log.rejected, log.other_lines = log.rejected + hour.rejected, log.other_lines + hour.other_lines
    if path is None:
        log.kept += 1
    else:
        log.files.append(str(path))


def _draw(logs: Sequence[ReducedLog]) -> None:
    """A line for each log."""
    for log in logs:
        parts = [counted(log.lines, "request"), f"{log.size:,} bytes", counted(len(log.files), "file")]
        parts += [f"{counted(log.rejected, 'line')} rejected"] if log.rejected else []
        parts += [f"{counted(log.other_lines, 'line')} of other loggers"] if log.other_lines else []
        parts += [f"{counted(log.kept, 'file')} left unchanged: an earlier run counted more lines"] if log.kept else []
        print(f"{printable(log.source)}: {', '.join(parts)}")


def _document(broker: int, logs: Sequence[ReducedLog]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "ReducedRequestLogs",
        "broker": broker,
        "logs": [
            {
                "source": log.source,
                "requests": log.lines,
                "bytes": log.size,
                "rejectedLines": log.rejected,
                "otherLines": log.other_lines,
                "files": log.files,
                "keptFiles": log.kept,
                "problem": log.problem or None,
            }
            for log in logs
        ],
    }


def _broker(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"invalid broker {text[:60]!r}: expected its id, such as 3")
    return int(text)
