"""The registered brokers for `clients check`, from a live cluster or from the metadata log of one of its nodes.

Called by `check.py`. What it decides: when the brokers are not known, since a list that may lack some must not be used.
They are not known if some run in ZooKeeper mode, as no metadata log has these; by a live cluster for a window in the
past, as it only shows who is registered now; and by a log that ends before the window does. If a log begins within the
window, a note says that brokers may have been removed before.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.cli.cluster.connection_sources import names_cluster
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
    """The brokers from the source that the flags name; not known if they name none. Raises CommandFailed."""
    is_live = names_cluster(arguments) or arguments.config
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
    """The brokers of a live cluster; not known for a window that ended more than `MAX_GAP` before. `now`: the time of
    the observation, in ms.
    """
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
    """The brokers of a metadata log; not known if the log ends before the window does: brokers may have registered
    since.
    """
    from kafkafeatures.cli.log.paths import log_folder
    from kafkafeatures.cli.log.state import problems_of, restored
    from kafkafeatures.core.facts.client_standing import refuses_old_versions
    from kafkafeatures.core.words import format_time

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
    """Registrations of brokers in a log, up to an image. `since`: the time in ms from which on none is missing;
    `registry`: the result.
    """

    def __init__(self, folder: LogFolder, image: Image, window: EvidenceWindow) -> None:
        from kafkafeatures.cli.log.history import History, HistoryLine, StateOf

        self._running: dict[int, tuple[UUID, RegisteredProcess]] = {}  # by broker: incarnation id, and its process
        self._removed: dict[int, int] = {}  # by broker: time in ms
        self._joined: dict[int, int] = {}  # by broker: time in ms of its very first registration
        self._known: set[int] = set()  # brokers that have been registered before
        self._is_complete = bool(folder.segments) and folder.segments[0].base_offset == 0  # so far nothing is missing
        self.since = 0
        self._first = 0  # time of the first change: the cluster may have begun with it
        for item in History(folder):
            if isinstance(item, HistoryLine):
                if item.event.effective_offset < image.offset:
                    self._add_change(item.event.change, item.event.effective_ms)
            elif isinstance(item, StateOf):
                if item.offset <= image.offset:
                    self._add_state(item.image)
            else:  # records are missing: the next state (of a snapshot, or `image`) shows what is registered then
                self._is_complete = False
        if not self._is_complete:
            self._add_state(image)
        # Joining times are used only if log and cluster reach back to the beginning of the window, and the cluster was
        # never in ZooKeeper mode: else a broker may have been there before its first registration in the log.
        is_first = max(self.since, self._first) <= window.begin and image.zk_migration_state in (None, 0)
        self.registry = BrokerRegistry(
            frozenset(image.brokers),
            self._removed,
            self._joined if is_first else {},
            {broker: process for broker, (_, process) in self._running.items()},
        )

    def _add_change(self, change: Change, time: int) -> None:
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
            case MigrationChange():  # brokers that were removed in ZooKeeper mode are in no record
                self.since = time
            case _:
                pass

    def _add_state(self, image: Image) -> None:
        """Take in the state behind records that are missing. A broker that is gone or new in it changed at an unknown
        time: removals count as late as possible, processes as started at any time before.
        """
        time = image.timestamp_ms
        for broker in self._running.keys() - image.brokers.keys():
            del self._running[broker]
            self._removed[broker] = time
        for broker, registration in image.brokers.items():
            if broker not in self._running or self._running[broker][0] != registration.incarnation:
                self._running[broker] = registration.incarnation, RegisteredProcess(0, time)
        self._known.update(image.brokers)
        self._joined, self._is_complete, self.since = {}, True, time
