"""`kafkafeatures log ghosts PATH`: finds registrations that may be ghosts, with the evidence in the files of a node.

A ghost registration is that of a node which no longer exists (`core/facts/membership.py`): a fenced broker, or a
controller that is not a voter, without a sign that it runs. Files do not show which processes run, so the result is a
suspicion, with its reason and the record of the last registration. `describe` of the live cluster confirms it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.api.records import Json
from kafkafeatures.cli.log.folders import LogFolder
from kafkafeatures.cli.log.history import History, HistoryLine, Missing, StateOf
from kafkafeatures.cli.log.paths import log_folder
from kafkafeatures.cli.log.state import problems_of, registrations, restored, source_shape, voters_of
from kafkafeatures.cli.log.words import format_ranges, ranges_shape
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.output import console, print_document, tell
from kafkafeatures.core.words import format_span, format_time
from kraftlog import BrokerRegistration, ControllerRegistration, Image
from kraftlog.ghosts import may_be_ghost
from kraftlog.history import Change, FencingChange, LeaderElection, Registration, VotersChange
from kraftlog.records import kafka_uuid
from kraftlog.restored import Restored

if TYPE_CHECKING:
    from rich.console import Console

CONFIRM = "kafkafeatures describe --bootstrap-server HOST:PORT"
"""The command that confirms a suspicion."""

Registered = BrokerRegistration | ControllerRegistration


class RecordSource(Struct, frozen=True):
    """The record that proves a fact: its file, offset and time (milliseconds since 1970). `is_state`: the fact is in a
    snapshot, so it became true at that time or earlier.
    """

    file: str
    offset: int
    at_ms: int
    is_state: bool = False

    @property
    def shape(self) -> Json:
        """JSON form, for documents."""
        time_field = "notAfter" if self.is_state else "timestamp"
        return {"file": self.file, "offset": self.offset, time_field: format_time(self.at_ms)}

    def __str__(self) -> str:
        if self.is_state:
            return f"not after {format_time(self.at_ms)}, in the state at offset {self.offset} of {self.file}"
        return f"{format_time(self.at_ms)}, at offset {self.offset} of {self.file}"


class Candidate(Struct, frozen=True):
    """A registration of a fenced broker, or of a controller that is not known to vote. suspected: True if it may be a
    ghost, False if not; None if the files cannot show it. registered: the record of the registration. fenced: the
    record since which the broker is fenced, None for a controller. Both are None if the files do not have them.
    """

    role: str
    registration: Registered
    suspected: bool | None
    reason: str
    registered: RecordSource | None
    fenced: RecordSource | None


def run(arguments: argparse.Namespace) -> int:
    """Print the candidates. Exit code 0 if the state of the whole log is known; 1 if records are missing, impossible or
    not understood, so that there may be others.
    """
    (path,) = arguments.paths
    folder = log_folder(path)
    state = restored(folder, None)
    evidence = Evidence(folder, state.image)
    candidates = list(_candidates(folder, state.image, evidence))
    problems = problems_of(state)
    if arguments.output in ("text", "table"):
        _draw(console(), folder, state.image, evidence, candidates)
    else:
        print_document(_document(folder, state, evidence, candidates), arguments.output)
    for problem in problems:
        tell(f"{folder.display_name}: {problem}")
    return Exit.FAILED if problems else Exit.DONE


class Evidence:
    """The records about registrations, fencing and voters in the files, up to the offset of the image.

    voters: ids; None if neither the image nor a record has them. voters_from: the record that has them.
    """

    def __init__(self, folder: LogFolder, image: Image) -> None:
        self._registered: dict[tuple[str, int, str], RecordSource] = {}
        self._fenced: dict[int, RecordSource] = {}
        self.voters: tuple[int, ...] | None = None
        self.voters_from: RecordSource | None = None
        for item in History(folder):
            if isinstance(item, HistoryLine) and item.event.effective_offset < image.offset:
                event = item.event
                self._take_change(event.change, RecordSource(item.file, event.offset, event.effective_ms))
            elif isinstance(item, StateOf) and item.offset <= image.offset:
                self._take_state(
                    item.image, RecordSource(item.file, item.offset, item.image.timestamp_ms, is_state=True)
                )
            elif isinstance(item, Missing):
                self._fenced.clear()  # one of them may have been unfenced meanwhile
        if (voters := voters_of(image)) is not None:
            self.voters = tuple(voters)

    def _take_change(self, change: Change, record_source: RecordSource) -> None:
        match change:
            case Registration(role=role, node_id=id_, incarnation=incarnation, fenced=fenced):
                self._registered[role, id_, kafka_uuid(incarnation)] = record_source
                if role == "broker":
                    self._fence(id_, fenced, record_source)
            case FencingChange(node_id=id_, fenced=bool(fenced)):
                self._fence(id_, fenced, record_source)
            case VotersChange(voters=voters) | LeaderElection(voters=voters):
                self.voters, self.voters_from = voters, record_source
            case _:
                pass

    def _take_state(self, image: Image, record_source: RecordSource) -> None:
        for role, registration in registrations(image):
            # A record that is known already is the exact time of the registration, so it stays.
            self._registered.setdefault(
                (role.lower(), registration.id, kafka_uuid(registration.incarnation)), record_source
            )
            if isinstance(registration, BrokerRegistration):
                self._fence(registration.id, registration.fenced, record_source)
        # Only the source: the ids are taken at the end, from the image of the whole log.
        if image.voters is not None:
            self.voters_from = record_source

    def _fence(self, broker: int, fenced: bool | None, record_source: RecordSource) -> None:
        if not fenced:
            self._fenced.pop(broker, None)
        else:
            self._fenced.setdefault(broker, record_source)  # the first record since which it is fenced

    def registered(self, role: str, registration: Registered) -> RecordSource | None:
        """The record of the current registration; None if these files do not have it."""
        return self._registered.get((role.lower(), registration.id, kafka_uuid(registration.incarnation)))

    def fenced(self, broker: int) -> RecordSource | None:
        """The record since which the broker is fenced; None if these files do not have it."""
        return self._fenced.get(broker)


def _candidates(folder: LogFolder, image: Image, evidence: Evidence) -> Iterator[Candidate]:
    for role, registration in registrations(image):
        fenced = evidence.fenced(registration.id) if isinstance(registration, BrokerRegistration) else None
        suspected = may_be_ghost(
            registration,
            voters=evidence.voters,
            fenced_since_ms=None if fenced is None else fenced.at_ms,
            end_ms=image.timestamp_ms,
        )
        is_own = folder.node_id == registration.id  # the node that wrote these files did exist
        if isinstance(registration, ControllerRegistration):
            judgement = _controller(suspected, is_own)
        else:
            judgement = _broker(suspected, fenced, image.timestamp_ms, is_own) if registration.fenced else None
        if judgement is not None:
            yield Candidate(role, registration, *judgement, evidence.registered(role, registration), fenced)


def _controller(suspected: bool | None, is_own: bool) -> tuple[bool | None, str] | None:
    """(suspected, reason) of a registered controller; None for a voter."""
    if suspected is None:
        return None, "who votes is not known: no record of a leader or of voters is in these files"
    if not suspected:
        return None
    return (False, "not a voter, but these files are its own") if is_own else (True, "registered, but not a voter")


def _broker(suspected: bool | None, fenced: RecordSource | None, end_ms: int, is_own: bool) -> tuple[bool | None, str]:
    """(suspected, reason) of a fenced broker. If only a snapshot shows that it is fenced, it has been fenced for at
    least the known time: a short one then proves nothing, so the result is None instead of False.
    """
    if is_own:
        return False, "fenced, but these files are its own"
    if suspected is None or fenced is None:
        return None, "fenced; since when is not known"
    least = "at least " if fenced.is_state else ""
    reason = f"fenced for {least}{_span(end_ms - fenced.at_ms)} at the end of the log"
    return (suspected or None) if fenced.is_state else suspected, reason


def _span(milliseconds: int) -> str:
    """The duration as text, in whole minutes if it is longer than one; at most 10**9 s, which `timedelta` can hold."""
    from datetime import timedelta

    seconds = max(milliseconds, 0) // 1000
    return format_span(timedelta(seconds=min(seconds - seconds % 60 if seconds > 60 else seconds, 10**9)))


def _document(folder: LogFolder, restored: Restored, evidence: Evidence, candidates: list[Candidate]) -> Json:
    """The document of `log ghosts -o json`. ghosts: the candidates that are suspected. unclear: the other ones."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GhostRegistrations",
        "clusterId": folder.cluster_id or None,
        "source": source_shape(folder, restored, folder.committed()),
        "voters": None if evidence.voters is None else list(evidence.voters),
        "votersFrom": None if evidence.voters_from is None else evidence.voters_from.shape,
        "ghosts": [_shape(candidate) for candidate in candidates if candidate.suspected],
        "unclear": [_shape(candidate) for candidate in candidates if not candidate.suspected],
        "problems": problems_of(restored),
    }


def _shape(candidate: Candidate) -> Json:
    registration = candidate.registration
    shape: Json = {
        "id": registration.id,
        "role": candidate.role,
        "suspected": candidate.suspected,
        "reason": candidate.reason,
        "lastRegistration": None if candidate.registered is None else candidate.registered.shape,
        "incarnation": kafka_uuid(registration.incarnation),
    }
    if isinstance(registration, BrokerRegistration):
        shape |= {
            "epoch": registration.epoch,
            "fencedSince": None if candidate.fenced is None else candidate.fenced.shape,
        }
    return shape | {"features": ranges_shape(registration.features)}


def _draw(screen: Console, folder: LogFolder, image: Image, evidence: Evidence, candidates: list[Candidate]) -> None:
    from rich.text import Text

    from kafkafeatures.cli.shell.indented import hanging

    def say(text: str, style: str = "", *, at: int = 0) -> None:
        hanging(screen, Text(text, style), indent=at + 2, first=Text(" " * at))

    whose = "" if folder.node_id is None else f", files of node {folder.node_id}"
    say(f"Cluster {folder.cluster_id or 'id unknown'}{whose}")
    voters = "unknown" if evidence.voters is None else ", ".join(map(str, evidence.voters))
    timestamp = "" if image.timestamp_ms < 0 else f", {format_time(image.timestamp_ms)}"
    say(f"Registrations at offset {image.offset}{timestamp}; voters {voters}")
    ghosts = [candidate for candidate in candidates if candidate.suspected]
    unclear = [candidate for candidate in candidates if not candidate.suspected]
    for heading, listed in (("Suspected ghost registrations", ghosts), ("Not clear", unclear)):
        if listed:
            say("")
            say(heading, "bold")
        for candidate in listed:
            say(
                f"{candidate.role.lower()} {candidate.registration.id}: {candidate.reason}",
                "red" if candidate.suspected else "yellow",
                at=2,
            )
            say(f"registered {candidate.registered or 'when is not in these files'}", at=4)
            if candidate.fenced is not None:
                say(f"fenced {candidate.fenced}", at=4)
            say(f"supports metadata.version {format_ranges(candidate.registration.features)}", at=4)
    say("")
    if not ghosts:
        say("No ghost registration is suspected." if not unclear else "No other registration is suspected.")
        return
    say("A ghost registration is that of a node that no longer exists. Files do not show which processes run.")
    say("To confirm it:")
    screen.print(Text(f"  {CONFIRM}"), soft_wrap=True)
