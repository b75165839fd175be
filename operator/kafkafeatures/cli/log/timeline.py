"""`kafkafeatures log timeline PATH`: prints the changes in a metadata log, in order, from the files of a node.

These are finalized levels (in the record formats of all releases) and kraft.version, registrations and their removal,
fencing, voters, leaders, and the migration from ZooKeeper. Changes in a metadata transaction appear where it is
committed. Records after the newest complete snapshot may not be committed, and are marked.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.records import Json
from kafkafeatures.cli.log.folders import LogFolder
from kafkafeatures.cli.log.history import History, HistoryLine, ImpossibleRecord, Item, Missing, StateOf
from kafkafeatures.cli.log.paths import log_folder
from kafkafeatures.cli.log.state import levels_of, registrations, voters_of
from kafkafeatures.cli.log.words import format_ranges, migration_state, ranges_shape
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.output import clean_stdout, console, print_document, tell
from kafkafeatures.core.facts.releases import format_in_kraft, format_level, has_no_level, level_in_kraft, level_name
from kafkafeatures.core.words import format_time, printable
from kraftlog import BrokerRegistration
from kraftlog.history import (
    AbortedTransaction,
    Change,
    FencingChange,
    LeaderElection,
    LevelChange,
    MigrationChange,
    NotUnderstood,
    Registration,
    Unregistration,
    VotersChange,
)
from kraftlog.records import kafka_uuid

_WIDE = 72
"""Least columns of a terminal for offset, time and text side by side."""
_INDENT = 40
"""Columns of offset and time."""
UNSURE = "the following records may not be committed: they are after the newest complete snapshot"


def run(arguments: argparse.Namespace) -> int:
    """Print the timeline. Exit code 0 if no record is missing, impossible or not understood; else 1."""
    (path,) = arguments.paths
    folder = log_folder(path)
    history, committed = History(folder), folder.committed()
    if arguments.output in ("text", "table"):
        return _text(folder, history, committed)
    is_complete = True
    for document in _documents(history, committed):
        is_complete = is_complete and document["event"] not in ("Missing", "NotUnderstood", "Impossible")
        if arguments.output == "json":
            clean_stdout().write(json.dumps(document) + "\n")
        else:
            print_document([document], "yaml")
    return Exit.DONE if is_complete else Exit.FAILED


# --- documents


def _documents(history: History, committed: int) -> Iterator[Json]:
    for item in history:
        yield document_of(item, committed)
    yield {
        "event": "End",
        "offset": history.end,
        "committedOffset": committed,
        "openTransaction": history.open_transaction,
        **(_levels({METADATA_VERSION: 0}) if history.has_no_level else {}),
    }


def document_of(item: Item, committed: int) -> Json:
    """One object of `log timeline -o json`."""
    match item:
        case HistoryLine(file, event):
            shape: Json = {"offset": event.offset, "timestamp": format_time(event.effective_ms)}
            shape |= _SHAPES[type(event.change)](event.change)
            shape |= {"file": file, "committed": True if event.effective_offset < committed else None}
            if event.effective_offset != event.offset:
                shape["effectiveOffset"] = event.effective_offset
            return shape | ({"afterGap": True} if event.after_gap else {})
        case ImpossibleRecord(file, judged):
            impossible = judged.impossible
            shape = {"offset": impossible.offset, "timestamp": format_time(judged.at_ms), "event": "Impossible"}
            shape |= {"record": impossible.name, "reason": impossible.reason, "check": impossible.check.method}
            snapshot = {} if judged.end_offset is None else {"snapshot": judged.end_offset}
            return {**shape, **snapshot, "file": file}
        case StateOf(file, offset, image):
            return {
                "offset": offset,
                "notAfter": format_time(image.timestamp_ms),
                "event": "State",
                **_levels(levels_of(image)),
                "registrations": [
                    {"id": registration.id, "role": role}
                    | ({"fenced": registration.fenced} if isinstance(registration, BrokerRegistration) else {})
                    for role, registration in registrations(image)
                ],
                "voters": voters_of(image),
                "migration": None if image.zk_migration_state is None else migration_state(image.zk_migration_state),
                "file": file,
            }
        case Missing(file, offset, until, reason):
            return {"offset": offset, "event": "Missing", "until": until, "why": reason, "file": file}


def _levels(levels: Mapping[str, int]) -> Json:
    shape: Json = {"features": {name: level_in_kraft(name, levels)["finalized"] for name in levels}}
    return {**shape, **({"notInLog": [METADATA_VERSION]} if has_no_level(levels) else {})}


def _level(change: LevelChange) -> Json:
    shape: Json = {"event": "FeatureLevel", "feature": change.feature, "level": change.level}
    shape["previous"] = change.previous
    if name := level_name(change.feature, change.level):
        shape["levelName"] = name
    if change.layout:
        shape["layout"] = change.layout
    return shape | ({} if change.takes_effect else {"takesEffect": False})


def _registration(change: Registration) -> Json:
    shape: Json = {"event": "Registration", "id": change.node_id, "role": change.role.capitalize()}
    shape["incarnation"] = kafka_uuid(change.incarnation)
    if change.fenced is not None:
        shape |= {"epoch": change.epoch, "fenced": change.fenced}
    return shape | {"features": ranges_shape(change.features)}


def _migration(change: MigrationChange) -> Json:
    shape = {"event": "Migration", "state": migration_state(change.state), "code": change.state}
    previous = None if change.previous is None else migration_state(change.previous)
    return {**shape, "previous": previous, **({"perhapsWrittenBy34": True} if change.by_3_4 else {})}


_SHAPES: dict[type, Callable[[Any], Json]] = {
    LevelChange: _level,
    Registration: _registration,
    FencingChange: lambda change: {
        "event": "Fencing", "id": change.node_id, "fenced": change.fenced, "inControlledShutdown": change.stopping,
    },
    Unregistration: lambda change: {"event": "Unregistration", "id": change.node_id, "role": change.role.capitalize()},
    MigrationChange: _migration,
    VotersChange: lambda change: {
        "event": "Voters", "voters": list(change.voters),
        "previous": None if change.previous is None else list(change.previous),
    },
    LeaderElection: lambda change: {
        "event": "Leader", "leader": change.leader_id, "epoch": change.epoch, "voters": list(change.voters),
    },
    NotUnderstood: lambda change: {"event": "NotUnderstood", "what": change.subject, "why": change.reason},
    AbortedTransaction: lambda change: {
        "event": "AbortedTransaction", "beginsAt": change.begins_at, "changes": change.changes,
    },
}  # fmt: skip


# --- text


def _text(folder: LogFolder, history: History, committed: int) -> int:
    width = console().width
    whose = "" if folder.node_id is None else f", files of node {folder.node_id}"
    sys.stdout.write(f"Cluster {folder.cluster_id or 'id unknown'}{whose}\n")
    file, is_committed, is_complete = "", True, True
    for item in history:
        if isinstance(item, HistoryLine) and is_committed and item.event.effective_offset >= committed:
            is_committed = False
            _write([f"-- {UNSURE}"], width)
        if item.file != file:
            file = item.file
            _write([f"# {file}"], width)
        is_complete = is_complete and not isinstance(item, Missing | ImpossibleRecord) and not _is_not_understood(item)
        _write(_line(item), width)
        if isinstance(item, ImpossibleRecord):
            tell(f"{folder.display_name}: {item.file}: {item.judged}")
    if history.open_transaction is not None:
        _write([f"-- the transaction that begins at {history.open_transaction} is open: it changed nothing yet"], width)
    if history.has_no_level:
        _write([f"-- {METADATA_VERSION} {format_in_kraft(METADATA_VERSION, {})}"], width)
    _write([f"-- the log ends at offset {history.end}"], width)
    return Exit.DONE if is_complete else Exit.FAILED


def _is_not_understood(item: Item) -> bool:
    return isinstance(item, HistoryLine) and isinstance(item.event.change, NotUnderstood)


def _line(item: Item) -> list[str]:
    """[offset, time, text] of an item, or [text] for missing records."""
    match item:
        case HistoryLine(_, event):
            note = f" (in effect from {event.effective_offset} on, the end of its transaction)"
            words = words_of(event.change) + (note if event.effective_offset != event.offset else "")
            return [str(event.offset), format_time(event.effective_ms), words]
        case ImpossibleRecord(_, judged):
            prefix = "" if judged.end_offset is None else "in the snapshot: "
            return [str(judged.impossible.offset), format_time(judged.at_ms), prefix + judged.impossible.reason]
        case StateOf(_, offset, image):
            finalized = levels_of(image)
            levels = ", ".join(f"{name} {format_in_kraft(name, finalized)}" for name in finalized)
            nodes = ", ".join(f"{role.lower()} {registration.id}" for role, registration in registrations(image))
            words = f"by this time, as the snapshot says: {levels}; registered: {nodes or 'none'}"
            return [str(offset), format_time(image.timestamp_ms), words]
        case Missing(_, _, _, reason):
            return [f"-- {reason}"]


def _write(parts: list[str], width: int) -> None:
    """Print an item; on a narrow terminal the text has lines of its own below offset and time."""
    *columns, words = map(printable, parts)
    if not columns:
        sys.stdout.write("\n".join(textwrap.wrap(words, width, subsequent_indent="   ")) + "\n")
        return
    head = f"{columns[0]:>10}  {columns[1]:<26}  "
    if width < _WIDE:
        lines = textwrap.wrap(words, width, initial_indent="  ", subsequent_indent="  ")
        sys.stdout.write("\n".join([f"{columns[0]}  {columns[1]}", *lines]) + "\n")
        return
    first, *continuation = textwrap.wrap(words, width - _INDENT) or [""]
    sys.stdout.write("\n".join([head + first, *(" " * _INDENT + line for line in continuation)]) + "\n")


def words_of(change: Change) -> str:
    """The change as text."""
    match change:
        case LevelChange(feature=name, level=level, previous=previous, takes_effect=effect, layout=layout):
            previous_text = "unknown" if previous is None else format_level(name, previous)
            notes = [f"record of Kafka {layout}"] if layout else []
            notes += [] if effect else ["a record without effect: the quorum follows its own (KAFKA-18979)"]
            return f"{name} {previous_text} -> {format_level(name, level)}" + (
                f" ({'; '.join(notes)})" if notes else ""
            )
        case Registration():
            state = {True: ", fenced", False: ", unfenced", None: ""}[change.fenced]
            who = f"{change.role} {change.node_id} registered{state}"
            return f"{who}: metadata.version {format_ranges(change.features)}, {kafka_uuid(change.incarnation)}"
        case FencingChange(node_id=id_, fenced=fenced, stopping=stopping):
            states = [{True: "fenced", False: "unfenced"}[fenced]] if fenced is not None else []
            return f"broker {id_} {' and '.join(states + (['in controlled shutdown'] if stopping else []))}"
        case Unregistration(role=role, node_id=id_):
            return f"{role} {id_} unregistered"
        case MigrationChange(state=state, previous=previous, by_3_4=unsure):
            previous_text = "unknown" if previous is None else migration_state(previous)
            note = " (if Kafka 3.4 wrote it: the other one of Migration and PreMigration)" if unsure else ""
            return f"migration from ZooKeeper {previous_text} -> {migration_state(state)} ({state}){note}"
        case VotersChange(voters=voters, previous=previous_voters):
            previous_text = "unknown" if previous_voters is None else _ids(previous_voters)
            return f"voters {previous_text} -> {_ids(voters)}"
        case LeaderElection(leader_id=id_, epoch=epoch):
            return f"controller {id_} is the leader of epoch {epoch}"
        case NotUnderstood(subject=subject, reason=reason):
            return f"{subject} was not understood, and may have changed anything: {reason}"
        case AbortedTransaction(begins_at=begins, changes=count):
            return f"the transaction that began at {begins} was aborted: {count} changes never took effect"


def _ids(voters: Iterable[int]) -> str:
    return ", ".join(map(str, voters)) or "static"
