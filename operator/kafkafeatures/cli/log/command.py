"""`kafkafeatures log`: reads the files of a metadata log, without a JVM and without a cluster.

`decode` prints every record of a node's `__cluster_metadata-0`, or of single files; `verify` only checks that every
byte was decoded, and that no records are missing between files. Both report each damage and continue after it. Secrets
are redacted without `--no-redact`. The other actions, about the log as a whole, are modules of their own. The files are
never written or locked, since a node may be using them. A record at which Kafka itself would stop is called impossible
(`kraftlog.judged`): it makes a log unsound, though every byte of it was decoded.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from kafkafeatures.cli.log.files import File, missing
from kafkafeatures.cli.log.impossible import impossible_of
from kafkafeatures.cli.log.paths import files_at, unread
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import clean_stdout, tell
from kafkafeatures.core.words import format_time, printable
from kraftlog import Damage, DamageReason, Decoded, Raw
from kraftlog.as_json import body, bytes_of
from kraftlog.judged import Judged
from kraftlog.lines import Form, lines
from kraftlog.reading import Account, Entry, Reading, Share
from kraftlog.schema import NAMES

_NORMAL_AT_END = (DamageReason.TRUNCATED, DamageReason.ZEROS)
"""Damage that is normal at the end of the newest segment, while a node writes to it."""

_WHOLE_LOG_ACTIONS = {
    "state": "kafkafeatures.cli.log.state",
    "timeline": "kafkafeatures.cli.log.timeline",
    "ghosts": "kafkafeatures.cli.log.ghosts",
}
"""Actions about a log as a whole, each with its module."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags for the action, its files, and the form of its output."""
    parser.add_argument(
        "action", choices=("decode", "verify", *_WHOLE_LOG_ACTIONS),
        help="decode: show every record; verify: check every byte; state: show the state at an offset; "
        "timeline: show every change; ghosts: show registrations whose nodes may no longer exist",
    )  # fmt: skip
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH",
        help="log directory of a node, its __cluster_metadata-0, a segment (.log), a snapshot (.checkpoint), or a "
        "support bundle with such files (tar, tar.gz, zip); if a bundle has several nodes, BUNDLE:FOLDER selects one",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", choices=("text", "table", "json", "yaml"), default="text",
        help="text or table for people (default: text), json or yaml for programs; decode and verify have text and "
        "json; decode, verify and timeline write one JSON object per line",
    )  # fmt: skip
    parser.add_argument(
        "--at", type=_offset, metavar="OFFSET", help="only for state: include the records before this offset"
    )
    parser.add_argument(
        "--no-redact", action="store_true",
        help="also show secrets: SCRAM credentials, sensitive configs, bytes that could not be decoded",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Read all files. Exit code 0 if every byte was decoded, and no record is missing or impossible; else 1."""
    _check(arguments)
    if arguments.action in _WHOLE_LOG_ACTIONS:
        command = importlib.import_module(_WHOLE_LOG_ACTIONS[arguments.action])
        return int(command.run(arguments))
    verify = arguments.action == "verify"
    # Snapshots are always read, as records are judged by the state before them; `decode` shows one only if it is named.
    all_files = files_at(arguments.paths, snapshots=True)
    shown_files = [file for file in all_files if verify or not file.is_snapshot or file.path in arguments.paths]
    impossible_by_file = impossible_of(all_files)
    out = clean_stdout()  # JSON escapes what does not print
    sound = True
    for file in shown_files:
        with file.opened() as data:
            reading, impossible = Reading(data), impossible_by_file.get(file.path, ())
            if verify:
                problems = [_damage(item) for item in reading.damages() if not _is_end(item, file)]
            else:
                problems = _decode(reading, file, impossible, arguments, out.write)
        gaps = missing(file, reading)
        is_sound = not problems and not gaps and not impossible and _is_whole(reading.account, file)
        reported = problems if verify else []  # `decode` has shown them in their places
        _report(arguments, file, reading.account, problems=reported, impossible=impossible, gaps=gaps, sound=is_sound)
        sound = sound and is_sound
    for file in all_files:
        if file not in shown_files:  # a snapshot, of which no record is shown
            for judged in impossible_by_file.get(file.path, ()):
                out.write(_impossible_line(judged, file, arguments))
                sound = False
    for line in unread(arguments.paths) if verify else ():
        tell(line)
    return Exit.DONE if sound else Exit.FAILED


def _check(arguments: argparse.Namespace) -> None:
    """Raise CommandFailed for flags that this action does not have."""
    action = arguments.action
    if arguments.at is not None and action != "state":
        raise CommandFailed(f"log {action}: --at is a flag of log state", Exit.USAGE)
    if action in _WHOLE_LOG_ACTIONS:
        if len(arguments.paths) > 1:
            raise CommandFailed(f"log {action}: expected one PATH, which holds the log of a node", Exit.USAGE)
        if arguments.no_redact:
            raise CommandFailed(f"log {action} shows no secrets; --no-redact is a flag of log decode", Exit.USAGE)
    elif arguments.output in ("table", "yaml"):
        raise CommandFailed(
            f"log {action}: invalid value {arguments.output!r} of -o; expected text or json", Exit.USAGE
        )


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= _LAST_OFFSET):
        raise argparse.ArgumentTypeError(f"invalid value {text[:60]!r}: expected an offset from 0 to {_LAST_OFFSET}")
    return int(text)


def _decode(
    reading: Reading,
    file: File,
    impossible: Sequence[Judged],
    arguments: argparse.Namespace,
    write: Callable[[str], object],
) -> list[str]:
    """Write every record in order, each damage in its place, and a line after each impossible record. Returns the
    damage that is a problem, as texts.
    """
    problems = []
    unshown = deque(impossible)
    for item in _lines(reading, arguments):
        if isinstance(item, str):
            write("".join(_marked(item, file, unshown, arguments)) if unshown else item)
            continue
        if not _is_end(item, file):
            problems.append(_damage(item))
        if arguments.output == "json":
            fields = {"position": item.position, "size": item.size, "damage": item.reason.value, "detail": item.detail}
            write(json.dumps({"file": str(file.path), **fields}) + "\n")
        else:
            write(f"# {printable(str(file.path))}: {_damage(item)}\n")
    for judged in unshown:  # those whose records could not be decoded
        write(_impossible_line(judged, file, arguments))
    return problems


def _marked(lines: str, file: File, unshown: deque[Judged], arguments: argparse.Namespace) -> Iterator[str]:
    """The lines of records, each impossible record followed by a line with the reason. Takes these out of `unshown`."""
    for line in lines.split("\n")[:-1]:
        yield line + "\n"
        if unshown and (offset := _OFFSET_OF.match(line)) and int(offset[1]) == unshown[0].impossible.offset:
            yield _impossible_line(unshown.popleft(), file, arguments)


def _impossible_line(judged: Judged, file: File, arguments: argparse.Namespace) -> str:
    if arguments.output != "json":
        return f"# {printable(str(file.path))}: {printable(str(judged))}\n"
    return json.dumps({"file": str(file.path), **_impossible_shape(judged)}) + "\n"


def _impossible_shape(judged: Judged) -> dict[str, object]:
    impossible = judged.impossible
    shape = {"offset": impossible.offset, "record": impossible.name}
    return {**shape, "impossible": impossible.reason, "check": impossible.check.method}


def _lines(reading: Reading, arguments: argparse.Namespace) -> Iterator[str | Damage]:
    """Damage, and texts of one or many lines, one line for each record. Large files are decoded in columns, if numpy
    and Arrow are installed (the extra `pipeline`).
    """
    show, separators, width = (_object, _OBJECT, 0) if arguments.output == "json" else (_line, _LINE, _OFFSET_WIDTH)
    form = Form(partial(show, no_redact=arguments.no_redact), format_time, separators, width)
    if reading.account.size >= _LARGE:
        try:
            from kraftlog.arrow.lines import lines as of_many
        except ModuleNotFoundError:  # without the extra `pipeline`
            pass
        else:
            return of_many(reading, form, redact=not arguments.no_redact)
    return lines(reading, form)


def _object(entry: Entry, no_redact: bool) -> str:
    """A record as one JSON object: offset, timestamp, type, version and data, or the reason why it was not decoded."""
    name, version, content = _shown(entry, no_redact)
    timestamp = format_time(entry.timestamp_ms)
    return f'{{"offset":{entry.offset},"timestamp":"{timestamp}","type":"{name}","version":{version},{content}}}'


def _line(entry: Entry, no_redact: bool) -> str:
    """A record as one line of text."""
    name, version, content = _shown(entry, no_redact)
    timestamp = format_time(entry.timestamp_ms)
    return f"{entry.offset:>{_OFFSET_WIDTH}}  {timestamp}  {name} v{version}  {content.removeprefix(_DATA)}"


_DATA = '"data":'
_OFFSET_WIDTH = 10  # columns of the offset in a line of text
_LINE = ("", "  ", "  ", " v", "  ", "")
_OBJECT = ('{"offset":', ',"timestamp":"', '","type":"', '","version":', f",{_DATA}", "}")
"""Separators of a line: before the offset, the time, the type, the version and the data, and at the end. Lines that are
made in columns have them from here, so they must be those in the format strings of `_line` and `_object`.
"""

_OFFSET_OF = re.compile(r'(?: *|\{"offset":)([0-9]+)[ ,]')
"""The offset of a record, in either form of its line."""

_LAST_OFFSET = 2**63 - 1
"""The largest offset: Kafka has 64 bits with a sign for it."""

_LARGE = 4 * 1024 * 1024
"""Bytes from which on a file is decoded in columns: for less it takes longer to import numpy and Arrow."""


def _shown(entry: Entry, no_redact: bool) -> tuple[str, int, str]:
    """(type, version, members of a JSON object with the data, or with the bytes and the reason why they are raw)."""
    content = entry.content
    if isinstance(content, Decoded):
        text = body(content, redact=not no_redact)
        layout = f',"layout":"{content.layout}"' if content.layout else ""
        return content.type.name, content.version, f"{_DATA}{text}{layout}"
    name = "" if entry.control else NAMES.get(content.key, "")
    reason = content.reason.value if isinstance(content, Raw) else content.detail
    shape = bytes_of(content.value, redact=not no_redact, data=None, key=content.key, why=reason)
    return name or "UNKNOWN", content.version, json.dumps(shape, separators=(",", ":"))[1:-1]


def _is_end(damage: Damage, file: File) -> bool:
    """True for a batch that the node had not finished writing, which is no problem."""
    return file.is_open and damage.reason in _NORMAL_AT_END


def _is_whole(account: Account, file: File) -> bool:
    """True if nothing is damaged or missing; the newest segment may end within a batch."""
    return account.is_balanced and account.is_sound and (file.is_open or not account.damaged)


def _damage(damage: Damage) -> str:
    extent = f"{damage.size} bytes damaged at byte {damage.position}" if damage.size else f"at byte {damage.position}"
    return printable(f"{extent}: {damage.reason.value}" + (f" ({damage.detail})" if damage.detail else ""))


def _report(
    arguments: argparse.Namespace,
    file: File,
    account: Account,
    *,
    problems: list[str],
    impossible: Sequence[Judged],
    gaps: list[str],
    sound: bool,
) -> None:
    """Report how many bytes were decoded, skipped or damaged: to stdout for `verify`, to stderr for `decode`."""
    stream = sys.stdout if arguments.action == "verify" else sys.stderr
    name = printable(str(file.path))
    if arguments.action == "verify" and arguments.output == "json":
        shares = {kind: _counts(getattr(account, kind)) for kind in ("decoded", "kept", "damaged")}
        document = {"file": str(file.path), "bytes": account.size, "batches": account.batches, **shares}
        ends = {"headerBytes": account.headers, "inflatedBytes": account.inflated, "breaks": account.breaks}
        shapes = [_impossible_shape(judged) for judged in impossible]
        print(json.dumps({**document, **ends, "missing": gaps, "impossible": shapes, "sound": sound}), file=stream)
        return
    stops = [printable(str(judged)) for judged in impossible] if arguments.action == "verify" else []
    for problem in [*problems, *stops, *gaps]:
        print(f"{name}: {problem}", file=stream)
    decoded, raw, damaged = (_sum(shares) for shares in (account.decoded, account.kept, account.damaged))
    unfinished = sum(
        account.damaged[reason.value].bytes
        for reason in _NORMAL_AT_END
        if file.is_open and reason.value in account.damaged
    )
    text = (
        f"{name}: {account.size} bytes, {account.batches} batches, {account.claimed} records: "
        f"{decoded.records} decoded, {raw.records} kept as bytes, {damaged.records} damaged"
    )
    text += f"; {damaged.bytes - unfinished} bytes damaged" if damaged.bytes > unfinished else ""
    print(text + (f"; {unfinished} bytes behind the end" if unfinished else ""), file=stream)


def _sum(shares: dict[str, Share]) -> Share:
    return Share(sum(share.records for share in shares.values()), sum(share.bytes for share in shares.values()))


def _counts(shares: dict[str, Share]) -> dict[str, dict[str, int]]:
    return {name: {"records": share.records, "bytes": share.bytes} for name, share in sorted(shares.items())}
