"""Reads the changes in a metadata log, in order: of levels, registrations, fencing, voters, leaders and the migration.

    reader = HistoryReader(begins_at=0)
    for batch in walk(data): for event in reader.take(batch): ...

The caller reads the files, passes the undamaged batches in order, and reports gaps by `miss`. This module decides
what counts as a change, when it took effect (for records of a metadata transaction, at its End; KIP-868), and the
previous value, which is None if unknown. A snapshot is a state and not a change: `pass_snapshot` only fills in unknown
values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from kraftlog.batches import HEADER_SIZE, Batch
from kraftlog.errors import ContradictionError, MalformedError
from kraftlog.image import MIGRATION_UNDER_WAY, Image
from kraftlog.records import Decoded, Raw, decode, decode_control, key_of
from kraftlog.replay import ONLY_NO_OP
from kraftlog.rules import ranges_of
from kraftlog.schema import NAMES, table
from kraftlog.state import KRAFT_VERSION_FEATURE
from kraftlog.transactions import ABORT, BEGIN, END, TRANSACTION_KEYS, Transactions

Data = Mapping[str, Any]
_LEVEL_OF_3_4 = 8  # metadata.version 3.4-IV0, the only one that Kafka 3.4 added
METADATA_VERSION = "metadata.version"
MAX_PENDING = 100_000
"""Most changes of a metadata transaction that are kept until its End; real ones have up to a few thousand."""


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A finalized level changed; level 0: none.

    previous: the level before; None if it is not known. takes_effect: False for a FeatureLevel record of kraft.version,
    which the quorum ignores (KAFKA-18979). layout: empty for the current layout of the record; else the releases that
    wrote this older one.
    """

    feature: str
    level: int
    previous: int | None
    takes_effect: bool = True
    layout: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """A process registered its node. epoch: of a broker, else -1. fenced: None for a controller."""

    role: str
    node_id: int
    incarnation: UUID
    epoch: int
    fenced: bool | None
    features: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FencingChange:
    """A change of a broker. fenced: True if it was fenced, False if unfenced, None if neither. stopping: it began its
    controlled shutdown.
    """

    node_id: int
    fenced: bool | None
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Unregistration:
    """A node lost its registration."""

    role: str
    node_id: int


@dataclass(frozen=True, slots=True)
class MigrationChange:
    """A state of the migration from ZooKeeper, as the code in the record. by_3_4: it may be from Kafka 3.4, in which
    the meanings of 1 and 2 were exchanged.
    """

    state: int
    previous: int | None
    by_3_4: bool


@dataclass(frozen=True, slots=True)
class VotersChange:
    """A dynamic quorum (KIP-853) has these voters. previous: empty if the quorum was static before; None if that is not
    known.
    """

    voters: tuple[int, ...]
    previous: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """A controller became the leader of an epoch. voters: as the record names them, also of a static quorum."""

    leader_id: int
    epoch: int
    voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A record that could not be decoded: it may have changed anything."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A metadata transaction that was aborted, so that its changes never took effect. changes: their number."""

    begins_at: int
    changes: int


Change = (
    LevelChange
    | Registration
    | FencingChange
    | Unregistration
    | MigrationChange
    | VotersChange
    | LeaderElection
    | NotUnderstood
    | AbortedTransaction
)


@dataclass(frozen=True, slots=True)
class Event:
    """A change. offset, timestamp_ms: of its record. effective_offset, effective_ms: of its record, or of the End of
    its transaction. after_gap: records before it are missing, and there was no snapshot since.
    """

    offset: int
    timestamp_ms: int
    change: Change
    effective_offset: int
    effective_ms: int
    after_gap: bool


def may_be_by_3_4(state: int, metadata_version: int | None) -> bool:
    """True if Kafka 3.4 may have written this state of the migration. metadata_version: the level at that time; None if
    unknown, or none.
    """
    return state in MIGRATION_UNDER_WAY and metadata_version in (None, _LEVEL_OF_3_4)


class HistoryReader:
    """Takes a log in order. Not thread-safe. `begins_at`: the offset of its first record."""

    def __init__(self, *, begins_at: int) -> None:
        self._complete = begins_at == 0  # then a value that is not here does not exist; else it is not known
        self._after_gap = False  # as in `Event`
        self._levels: dict[str, int] = {}
        self._migration: int | None = None  # the state of the migration, by its code
        self._voters: tuple[int, ...] | None = None
        self._transactions: Transactions[Event] = Transactions(MAX_PENDING)
        self._transaction_begin = 0  # offset of the Begin of the last transaction
        self._is_doubtful = False  # the last transaction has a record that was not understood

    @property
    def is_complete(self) -> bool:
        """True if all records before were understood and none is missing, or if there was a snapshot since."""
        return self._complete

    @property
    def levels(self) -> Mapping[str, int] | None:
        """Finalized levels so far, of features that have one; None if the state is not complete."""
        return self._levels if self._complete else None

    @property
    def open_transaction(self) -> int | None:
        """Offset of the transaction that has not ended yet; None if there is none."""
        return None if self._transactions.open is None else self._transaction_begin

    def miss(self) -> None:
        """Note that records are missing: known values may have changed, and an open transaction may have ended."""
        self._after_gap = True
        self._transactions.forget()
        self._forget_values()

    def pass_snapshot(self, image: Image) -> None:
        """Take in the state of a snapshot at this offset. It changes nothing if the state is complete."""
        if self._complete:
            return
        self._levels = dict(image.features)
        if image.kraft_version:
            self._levels[KRAFT_VERSION_FEATURE] = image.kraft_version
        self._migration = image.zk_migration_state
        self._voters = None if image.voters is None else tuple(sorted(voter.id for voter in image.voters))
        self._complete, self._after_gap = True, False

    def take(self, batch: Batch) -> Iterator[Event]:
        """The changes in a batch."""
        if batch.data[HEADER_SIZE:] == ONLY_NO_OP:
            return
        offset = batch.base_offset
        try:
            for record in batch.records():
                offset = record.offset
                yield from self._record(batch, record.key, record.value, offset, record.timestamp_ms)
        except MalformedError as error:
            yield self._doubt(NotUnderstood("records of a batch", str(error)), offset, batch.max_timestamp)

    def _record(self, batch: Batch, key: bytes | None, value: bytes | None, offset: int, at: int) -> Iterator[Event]:
        """The events that take effect with a record, or one for a record that is not understood. `at`: in ms."""
        if batch.is_control:
            content = decode_control(key, value)
        # A record of a type that no release has may have changed anything: it becomes NotUnderstood below.
        elif (number := key_of(value)) in _METADATA or number not in NAMES:
            content = decode(value)
        else:
            return
        if not isinstance(content, Decoded):
            reason = content.reason.value if isinstance(content, Raw) else content.detail
            unnamed = f"record {content.key}"
            name = f"control {unnamed}" if batch.is_control else NAMES.get(content.key, unnamed)
            yield self._doubt(NotUnderstood(name, reason), offset, at)
            return
        if content.type.control:
            if content.type.key in _CONTROL:
                yield from self._control_event(
                    _CONTROL[content.type.key](self, content.data, batch.leader_epoch), offset, at
                )
            return
        if content.type.key in TRANSACTION_KEYS:
            yield from self._mark(content.type.key, offset, at)
            return
        change = _METADATA[content.type.key](self, content.data, content.layout)
        if change is not None:
            event = Event(offset, at, change, offset, at, self._after_gap)
            yield from self._effects(self._transactions.take(event), offset, at)

    def _doubt(self, change: NotUnderstood, offset: int, at: int) -> Event:
        """The event of a record that is not understood: known values may have changed, at once or at the End."""
        self._forget_values()
        self._is_doubtful = True
        return Event(offset, at, change, offset, at, self._after_gap)

    def _forget_values(self) -> None:
        self._complete = False
        self._levels, self._migration, self._voters = {}, None, None

    def _control_event(self, change: Change | None, offset: int, at: int) -> Iterator[Event]:
        """The event of a control record, which takes effect at once: transactions have none."""
        if change is not None and (effect := self._with_previous(change)) is not None:
            yield Event(offset, at, effect, offset, at, self._after_gap)

    def _mark(self, key: int, offset: int, at: int) -> Iterator[Event]:
        open_ = self._transactions.open
        try:
            effects = self._transactions.mark(key)
        except ContradictionError:  # after a gap an End may come without its Begin
            return
        if key == BEGIN:
            self._transaction_begin, self._is_doubtful = offset, False
        elif key == ABORT and open_:
            yield Event(
                offset, at, AbortedTransaction(self._transaction_begin, len(open_)), offset, at, self._after_gap
            )
        yield from self._effects(effects, offset, at)
        if key == END and self._is_doubtful:
            self._forget_values()

    def _effects(self, events: Iterable[Event], offset: int, at: int) -> Iterator[Event]:
        """The events that take effect with the record at this offset, in order."""
        for event in events:
            change = self._with_previous(event.change)
            if change is not None:
                yield replace(event, change=change, effective_offset=offset, effective_ms=at)

    def _with_previous(self, change: Change) -> Change | None:
        """Note a change that takes effect. Returns it with the previous value; None if it changes nothing.

        A value that is not known is None as `previous` if the state is not complete; else it is 0, or no voters.
        """
        match change:
            case LevelChange(feature=name, level=level, takes_effect=True):
                previous = self._levels.get(name, 0 if self._complete else None)
                self._levels[name] = level
                return None if previous == level else replace(change, previous=previous)
            case LevelChange():
                return replace(change, previous=self._levels.get(change.feature, 0 if self._complete else None))
            case MigrationChange(state=state):
                previous = self._migration if self._migration is not None or not self._complete else 0
                self._migration = state
                by_3_4 = may_be_by_3_4(state, self._levels.get(METADATA_VERSION))
                return None if previous == state else replace(change, previous=previous, by_3_4=by_3_4)
            case VotersChange(voters=voters):
                earlier = self._voters if self._voters is not None or not self._complete else ()
                self._voters = voters
                return None if earlier == voters else replace(change, previous=earlier)
            case _:
                return change

    def _feature_level(self, data: Data, layout: str) -> Change:
        # Kafka 3.0 to 3.2 wrote a range, and its maximum was the finalized level (KIP-778).
        level = data["featureLevel"] if "featureLevel" in data else data["maxFeatureLevel"]
        return LevelChange(data["name"], level, None, data["name"] != KRAFT_VERSION_FEATURE, layout)

    def _remove_feature_level(self, data: Data, layout: str) -> Change:
        return LevelChange(data["name"], 0, None, data["name"] != KRAFT_VERSION_FEATURE, layout)

    def _register_broker(self, data: Data, _: str) -> Change:
        process = data["brokerId"], data["incarnationId"], data["brokerEpoch"]
        return Registration("broker", *process, data["fenced"], ranges_of(data["features"]))

    def _register_controller(self, data: Data, _: str) -> Change:
        process = data["controllerId"], data["incarnationId"], -1
        return Registration("controller", *process, None, ranges_of(data["features"]))

    def _change_broker(self, data: Data, _: str) -> Change | None:
        fenced = {1: True, -1: False}.get(data.get("fenced", 0))
        stopping = data.get("inControlledShutdown") == 1
        return FencingChange(data["brokerId"], fenced, stopping) if stopping or fenced is not None else None

    def _migration_state(self, data: Data, _: str) -> Change:
        return MigrationChange(data["zkMigrationState"], None, by_3_4=False)

    def _kraft_version(self, data: Data, _: int) -> Change:
        return LevelChange(KRAFT_VERSION_FEATURE, data["kRaftVersion"], None)

    def _kraft_voters(self, data: Data, _: int) -> Change:
        return VotersChange(tuple(sorted(voter["voterId"] for voter in data["voters"])), None)

    def _leader_change(self, data: Data, epoch: int) -> Change:
        return LeaderElection(data["leaderId"], epoch, tuple(sorted(voter["voterId"] for voter in data["voters"])))


_METADATA: Mapping[int, Callable[[HistoryReader, Data, str], Change | None]] = {
    table.FEATURE_LEVEL.key: HistoryReader._feature_level,
    table.REMOVE_FEATURE_LEVEL.key: HistoryReader._remove_feature_level,
    table.REGISTER_BROKER.key: HistoryReader._register_broker,
    table.REGISTER_CONTROLLER.key: HistoryReader._register_controller,
    table.BROKER_REGISTRATION_CHANGE.key: HistoryReader._change_broker,
    table.FENCE_BROKER.key: lambda _, data, __: FencingChange(data["id"], True),
    table.UNFENCE_BROKER.key: lambda _, data, __: FencingChange(data["id"], False),
    table.UNREGISTER_BROKER.key: lambda _, data, __: Unregistration("broker", data["brokerId"]),
    table.UNREGISTER_CONTROLLER.key: lambda _, data, __: Unregistration("controller", data["controllerId"]),
    table.ZK_MIGRATION_STATE.key: HistoryReader._migration_state,
    # Never called: these keys are here so that `_record` decodes the records, which `_mark` then takes.
    **{key: lambda _, __, ___: None for key in TRANSACTION_KEYS},
}
_CONTROL: Mapping[int, Callable[[HistoryReader, Data, int], Change | None]] = {
    table.KRAFT_VERSION.key: HistoryReader._kraft_version,
    table.KRAFT_VOTERS.key: HistoryReader._kraft_voters,
    table.LEADER_CHANGE.key: HistoryReader._leader_change,
}
