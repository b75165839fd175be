"""`kafkafeatures log state [--at OFFSET] PATH`: prints the cluster's state at an offset, from the files of a node's
log.

The state is exact: it needs all records from offset 0 on, or a complete snapshot and all records after it; otherwise
the command fails and names what is missing. It prints counts and names only; secrets are not part of a state.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kafkafeatures.api.names import API_VERSION, KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.records import Json
from kafkafeatures.cli.log.clients import client_lines, clients_shape
from kafkafeatures.cli.log.folders import LogFolder
from kafkafeatures.cli.log.impossible import impossible_in
from kafkafeatures.cli.log.paths import log_folder
from kafkafeatures.cli.log.words import format_ranges, migration_state, ranges_shape, show_table
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import console, print_document, tell
from kafkafeatures.core.facts.releases import format_in_kraft, level_in_kraft
from kafkafeatures.core.words import format_time, printable
from kraftlog import BrokerRegistration, ControllerRegistration, Image, KraftLogError, Section
from kraftlog.image import SMALL
from kraftlog.judged import Judged
from kraftlog.records import kafka_uuid
from kraftlog.restored import Restored, StateUnknown, image_at

if TYPE_CHECKING:
    from rich.console import Console

MAX_IMAGE = 512 * 1024 * 1024
"""Bytes of memory for a state: hundreds of times what the largest cluster needs."""

_MAX_LISTED = 10
"""Most impossible records (at which Kafka itself stops, see `kraftlog.judged`) that are listed as problems."""


def run(arguments: argparse.Namespace) -> int:
    """Print the state. Exit code 0 if it is exact and all records were understood, 1 if something is missing or
    damaged.
    """
    (path,) = arguments.paths
    folder = log_folder(path)
    state = restored(folder, arguments.at, frozenset(Section) - {Section.CONFIGS})
    committed = folder.committed()
    problems = problems_of(state)
    if arguments.output in ("text", "table"):
        _draw(console(), folder, state, committed)
    else:
        print_document(state_document(folder, state, committed), arguments.output)
    for note in state.left_out:
        tell(f"{folder.display_name}: a snapshot that is not whole was left out: {note}")
    for problem in problems:
        tell(f"{folder.display_name}: {problem}")
    return Exit.FAILED if problems else Exit.DONE


def restored(folder: LogFolder, at: int | None, sections: Iterable[Section] = SMALL) -> Restored:
    """The image at offset `at`; for None at the end of the log, or before the first impossible record, if there is one.
    Raises CommandFailed if the files do not suffice for it, or if such a record lies before `at`.
    """
    name = printable(folder.display_name)
    try:
        impossible = [judged for judged in impossible_in(folder) if at is None or judged.begins < at]
        state = image_at(folder.names, folder.opened, at=at, sections=sections, limit=MAX_IMAGE)
        # Records below `base` are not replayed: a snapshot that the image is made of has their effects.
        base = max((snapshot.end_offset for snapshot in folder.snapshots if snapshot.name in state.made_of), default=0)
        stop = next((judged for judged in impossible if _stops(judged, base, state.image.offset)), None)
        if stop is None:
            messages = tuple(f"{judged.file}: {judged}" for judged in impossible)
            return Restored(state.image, state.made_of, state.left_out, state.stop_reason, messages)
        if at is not None:
            raise StateUnknown(f"{stop.file}: {stop}", stop.begins)
        before = image_at(folder.names, folder.opened, at=stop.begins, sections=sections, limit=MAX_IMAGE)
        messages = tuple(f"{judged.file}: {judged}" for judged in impossible if judged is not stop)
        return Restored(before.image, before.made_of, before.left_out, f"{stop.file}: {stop}", messages)
    except StateUnknown as error:
        until = f"; the state is known up to --at {error.exact_until}" if error.exact_until is not None else ""
        context = "" if at is None else f"the state at offset {at} is not known: "
        raise CommandFailed(f"{name}: {context}{error}{until}", Exit.FAILED) from None
    except KraftLogError as error:
        raise CommandFailed(f"{name}: {error}", Exit.FAILED) from None


def _stops(judged: Judged, base: int, end: int) -> bool:
    """True if this impossible record is in a segment, between `base` and `end`, so that the state is made from it. One
    in a snapshot (it has an `end_offset`) is only reported.
    """
    return judged.end_offset is None and base <= judged.begins < end


def problems_of(restored: Restored) -> list[str]:
    """Reasons why the image may be incomplete."""
    image, problems = restored.image, []
    if restored.stop_reason:
        problems.append(f"the state behind offset {image.offset} is not known: {restored.stop_reason}")
    problems += restored.impossible[:_MAX_LISTED]
    if (omitted := len(restored.impossible) - _MAX_LISTED) > 0:
        problems.append(f"Kafka stops at {omitted} more of the records; see log verify")
    if image.unreadable:
        many = f"{image.unreadable} records" if image.unreadable > 1 else "1 record"
        problems.append(f"{many} could not be understood: what they changed is not known; see log decode")
    return problems


def state_document(folder: LogFolder, restored: Restored, committed: int) -> Json:
    """The document of `log state -o json`."""
    image, levels = restored.image, levels_of(restored.image)
    code = image.zk_migration_state
    return {
        "apiVersion": API_VERSION,
        "kind": "MetadataState",
        "clusterId": folder.cluster_id or None,
        "source": source_shape(folder, restored, committed),
        "features": [{"name": name, **level_in_kraft(name, levels)} for name in levels],
        "quorum": {"voters": voters_of(image), "leader": image.leader_id},
        "migration": None if code is None else {"state": migration_state(code), "code": code},
        "registrations": [_registration(role, registration) for role, registration in registrations(image)],
        **clients_shape(image),
        "unreadable": image.unreadable,
        "problems": problems_of(restored),
    }


def source_shape(folder: LogFolder, restored: Restored, committed: int) -> Json:
    """The source of a document as JSON: files and offsets. `committed` is an offset (`LogFolder.committed`); the field
    of that name is true if all records are committed, and null if that is unknown.
    """
    image = restored.image
    return {
        "kind": "Files",
        "path": folder.display_name,
        "node": folder.node_id,
        "files": list(restored.made_of),
        "leftOut": list(restored.left_out),
        "offset": image.offset,
        "epoch": image.epoch,
        "timestamp": None if image.timestamp_ms < 0 else format_time(image.timestamp_ms),
        "committed": True if image.offset <= committed else None,
        "committedOffset": committed,
        "inTransaction": image.in_transaction,
    }


def levels_of(image: Image) -> Mapping[str, int]:
    """Finalized levels by feature, metadata.version first; it is 0 if the log has none."""
    levels = {METADATA_VERSION: 0, **image.features}
    if image.kraft_version:
        levels[KRAFT_VERSION] = image.kraft_version
    return dict(sorted(levels.items(), key=lambda item: (item[0] != METADATA_VERSION, item[0])))


def voters_of(image: Image) -> list[int] | None:
    """The ids of the voters; None of a static quorum, whose voters an image does not have."""
    return None if image.voters is None else sorted(voter.id for voter in image.voters)


def registrations(image: Image) -> Iterator[tuple[str, BrokerRegistration | ControllerRegistration]]:
    """(role, registration) of all controllers by id, then of all brokers by id."""
    yield from (("Controller", image.controllers[id_]) for id_ in sorted(image.controllers))
    yield from (("Broker", image.brokers[id_]) for id_ in sorted(image.brokers))


def _registration(role: str, registration: BrokerRegistration | ControllerRegistration) -> Json:
    shape: Json = {"id": registration.id, "role": role, "incarnation": kafka_uuid(registration.incarnation)}
    if isinstance(registration, BrokerRegistration):
        shape |= {
            "epoch": registration.epoch,
            "fenced": registration.fenced,
            "inControlledShutdown": registration.in_controlled_shutdown,
        }
        shape |= {"rack": registration.rack}
    shape["listeners"] = [
        {"name": endpoint.name, "host": endpoint.host, "port": endpoint.port} for endpoint in registration.endpoints
    ]
    return shape | {"features": ranges_shape(registration.features)}


def headline(folder: LogFolder, restored: Restored, committed: int) -> Iterator[str]:
    """Lines with the cluster and node, the offset, the files used, and whether all of it is committed."""
    image = restored.image
    whose = "" if folder.node_id is None else f"  files of node {folder.node_id}"
    yield f"Cluster {folder.cluster_id or 'id unknown'}{whose}"
    timestamp = "" if image.timestamp_ms < 0 else f", {format_time(image.timestamp_ms)}"
    yield f"State at offset {image.offset}, epoch {image.epoch}{timestamp}"
    yield f"Read from {', '.join(restored.made_of) or 'an empty log'}"
    if image.offset > committed:
        since = f"from offset {committed} on" if committed else "for all of it"
        yield f"Committed: unknown {since}; what is behind the last snapshot may yet be removed by a new leader"
    if image.in_transaction:
        yield "Inside of a metadata transaction: its changes are not part of the state yet"


def _draw(screen: Console, folder: LogFolder, restored: Restored, committed: int) -> None:
    from rich.text import Text

    from kafkafeatures.cli.shell.indented import line

    image = restored.image
    for text in headline(folder, restored, committed):
        line(screen, Text(text))
    line(screen, Text(_quorum(image)))
    code = image.zk_migration_state
    if code:
        line(screen, Text(f"Migration from ZooKeeper: {migration_state(code)} ({code})"))
    screen.print()
    levels = levels_of(image)
    show_table(screen, ("FEATURE", "FINALIZED"), [(name, format_in_kraft(name, levels)) for name in levels])
    rows = [
        (
            f"{role.lower()} {registration.id}",
            _registration_state(registration),
            format_ranges(registration.features),
            _address(registration),
        )
        for role, registration in registrations(image)
    ]
    if rows:
        screen.print()
        show_table(screen, ("REGISTERED", "STATE", "METADATA.VERSION", "ADDRESS"), rows)
    if lines := list(client_lines(image)):
        screen.print()
        for text in lines:
            line(screen, Text(text))


def _quorum(image: Image) -> str:
    leader = f"leader {image.leader_id}" if image.leader_id is not None else "leader not known from here"
    if (voters := voters_of(image)) is None:
        return f"Quorum: static, {leader}"
    return f"Quorum: voters {', '.join(map(str, voters))}, {leader}"


def _registration_state(registration: BrokerRegistration | ControllerRegistration) -> str:
    if isinstance(registration, ControllerRegistration):
        return "-"
    return "fenced" if registration.fenced else "stopping" if registration.in_controlled_shutdown else "unfenced"


def _address(registration: BrokerRegistration | ControllerRegistration) -> str:
    return f"{registration.endpoints[0].host}:{registration.endpoints[0].port}" if registration.endpoints else "-"
