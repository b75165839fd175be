"""The registered brokers for `clients check`: by a live cluster, or by the metadata log of one of its nodes.

Called by `check.py`. What it decides: a list of brokers that may lack some is none. Brokers in ZooKeeper mode are in no
metadata log; a cluster tells who is registered now, and not who was; and a log tells nothing of the time before it
begins, which a note says.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MAX_GAP
from kafkafeatures.core.clients.registry import BrokerRegistry, RegisteredProcess
from kafkafeatures.core.facts.client_standing import MIGRATE_FIRST, NOT_ALL_REGISTERED

if TYPE_CHECKING:
    from uuid import UUID

    from kafkafeatures.cli.log.folders import LogFolder
    from kafkafeatures.core.facts.observation import Observation
    from kraftlog import Image
    from kraftlog.history import Change

_ALL_REFUSE = (
    "all brokers run Kafka 4.0 or newer, which refuse removed versions without counting them: clients that fail "
    "already are not shown"
)
_UNKNOWN = "which brokers are registered is not known"
_ZOOKEEPER = f"{NOT_ALL_REGISTERED}; {MIGRATE_FIRST}"


class RegisteredBrokers(Struct, frozen=True):
    """The brokers of a cluster. `registry`: None where they are not known. `notes`: sentences about them for people.
    `all_refuse`: all run Kafka 4.0 or newer.
    """

    registry: BrokerRegistry | None
    cluster_id: str = ""
    notes: tuple[str, ...] = ()
    all_refuse: bool = False


def registered_brokers(arguments: argparse.Namespace, window: EvidenceWindow) -> RegisteredBrokers:
    """The brokers by the flags. Raises CommandFailed."""
    is_live = arguments.bootstrap_server or arguments.bootstrap_controller or arguments.config
    if arguments.log is not None and is_live:
        raise CommandFailed("clients check: --log and --bootstrap-server exclude each other", Exit.USAGE)
    if arguments.log is not None:
        return of_log(arguments.log, window)
    if is_live:
        from kafkafeatures.cli.cluster.connect import look, on_cluster, settings_from_flags

        settings = settings_from_flags(arguments)
        return of_cluster(on_cluster(look(settings)), window, round(time.time() * 1000))
    return RegisteredBrokers(None, notes=(f"{_UNKNOWN}; use --bootstrap-server HOST:PORT or --log PATH",))


def of_cluster(observation: Observation, window: EvidenceWindow, now: int) -> RegisteredBrokers:
    """The brokers by a live cluster, at a time in ms."""
    from kafkafeatures.core.facts.client_standing import refusing_nodes
    from kafkafeatures.core.facts.membership import FENCED_UNSEEN
    from kafkafeatures.core.facts.observation import Known, Unknown

    cluster_id = observation.cluster_id.value if isinstance(observation.cluster_id, Known) else ""
    brokers = observation.registered_brokers
    problem = ""
    if window.end < now - MAX_GAP:
        problem = "the cluster tells which brokers are registered now, not at the time of --at; use --log PATH"
    elif isinstance(observation.mode, Unknown):
        problem = f"{_UNKNOWN}: {observation.mode.failure}"
    elif not observation.in_kraft_mode:
        problem = f"{_UNKNOWN}: {_ZOOKEEPER}"
    elif isinstance(brokers, Unknown) and brokers.failure == FENCED_UNSEEN:
        text = "these brokers do not list those that are down; use --bootstrap-controller HOST:PORT, or --log PATH"
        problem = f"{_UNKNOWN}: {text}"
    elif isinstance(brokers, Unknown):
        problem = f"{_UNKNOWN}: {brokers.failure}"
    else:
        refusing = refusing_nodes(observation)
        return _registered(BrokerRegistry(brokers.value), cluster_id, all_refuse=brokers.value <= refusing)
    return RegisteredBrokers(None, cluster_id, (problem,))


def of_log(path: Path, window: EvidenceWindow) -> RegisteredBrokers:
    """The brokers by a metadata log that reaches to the end of the window: later ones may be missing in an older."""
    from kafkafeatures.cli.log.paths import log_folder
    from kafkafeatures.cli.log.state import problems_of, restored
    from kafkafeatures.cli.log.words import format_time
    from kafkafeatures.core.facts.client_standing import refuses_old_versions

    folder = log_folder(path)
    state = restored(folder, None)
    image = state.image
    problem = ""
    if problems := problems_of(state):
        problem = problems[0]
    elif image.timestamp_ms < window.end - MAX_GAP:
        until = format_time(image.timestamp_ms)
        problem = f"the metadata log ends at {until}, before the window does; use --at {until}"
    elif image.is_migrating is not False or any(broker.is_migrating_zk_broker for broker in image.brokers.values()):
        problem = f"{_UNKNOWN}: {_ZOOKEEPER}"
    else:
        reading = _Registrations(folder, image, window)
        if reading.since <= window.end:
            all_refuse = all(
                refuses_old_versions(broker.features.get(METADATA_VERSION)) for broker in image.brokers.values()
            )
            since = format_time(reading.since) if reading.since > window.begin else ""
            note = (f"brokers that were gone before {since} are not known: the log, or KRaft mode, began then",)
            return _registered(reading.registry, folder.cluster_id, all_refuse=all_refuse, notes=note if since else ())
        problem = f"the metadata log begins at {format_time(reading.since)}, after the window ends"
    return RegisteredBrokers(None, folder.cluster_id, (f"{folder.display_name}: {problem}",))


def _registered(
    registry: BrokerRegistry, cluster_id: str, *, all_refuse: bool, notes: tuple[str, ...] = ()
) -> RegisteredBrokers:
    return RegisteredBrokers(registry, cluster_id, (*notes, *((_ALL_REFUSE,) if all_refuse else ())), all_refuse)


class _Registrations:
    """What a log says about registrations of brokers, up to an image. `since`: in ms, it is complete from then on."""

    def __init__(self, folder: LogFolder, image: Image, window: EvidenceWindow) -> None:
        from kafkafeatures.cli.log.history import History, HistoryLine, StateOf

        self._running: dict[int, tuple[UUID, RegisteredProcess]] = {}
        self._removed: dict[int, int] = {}
        self._joined: dict[int, int] = {}
        self._known: set[int] = set()
        self._is_complete = bool(folder.segments) and folder.segments[0].base_offset == 0
        self.since = 0
        self._first = 0  # time of the first change: the cluster may have begun with it
        for item in History(folder):
            if isinstance(item, HistoryLine):
                if item.event.effective_offset < image.offset:
                    self._happened(item.event.change, item.event.effective_ms)
            elif isinstance(item, StateOf):
                if item.offset <= image.offset:
                    self._state(item.image)
            else:  # something is missing, and what is known begins anew with a state, or with the end
                self._is_complete = False
        if not self._is_complete:
            self._state(image)
        # A broker may have been there before: in ZooKeeper mode, or in what is missing. A cluster that is younger than
        # the window has not been looked at for so long.
        is_first = max(self.since, self._first) <= window.begin and image.zk_migration_state in (None, 0)
        self.registry = BrokerRegistry(
            frozenset(image.brokers),
            self._removed,
            self._joined if is_first else {},
            {broker: process for broker, (_, process) in self._running.items()},
        )

    def _happened(self, change: Change, time: int) -> None:
        from kraftlog.history import MigrationChange, Registration, Unregistration

        self._first = self._first or time
        match change:
            case Registration(role="broker", node_id=broker, incarnation=incarnation):
                if self._is_complete and broker not in self._known:
                    self._joined[broker] = time
                if broker not in self._running or self._running[broker][0] != incarnation:
                    self._running[broker] = incarnation, RegisteredProcess(time, time)
                self._known.add(broker)
            case Unregistration(role="broker", node_id=broker):
                self._running.pop(broker, None)
                self._known.add(broker)
                self._removed[broker] = time
            case MigrationChange():  # of brokers that were gone by then there is no record
                self.since = time
            case _:
                pass

    def _state(self, image: Image) -> None:
        """Take the state behind something that is missing. When what it has came about is not known."""
        time = image.timestamp_ms
        for broker in self._running.keys() - image.brokers.keys():
            del self._running[broker]
            self._removed[broker] = time
        for broker, registration in image.brokers.items():
            if broker not in self._running or self._running[broker][0] != registration.incarnation:
                self._running[broker] = registration.incarnation, RegisteredProcess(0, time)
        self._known.update(image.brokers)
        self._joined, self._is_complete, self.since = {}, True, time
