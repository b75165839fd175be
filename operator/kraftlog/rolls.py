"""Reads the history of restarts from a metadata log: when each node was away, and which partitions suffered.

    reader = RollReader(since_ms=...); reader.append(data, below=high_watermark); reader.finish()

`RollReader` takes bytes: of the log from its beginning, or of a snapshot and the log after it. `RollRecords` takes
decoded records. Each result has the offset of the record that proves it. The module reads no files.

A strip is the history of one partition that lacked in-sync replicas or a leader (`kraftlog/strips.py`).

The phases of a broker's restart: controlled shutdown (or only fencing), registration of the new process, unfencing, and
in sync: it is in the ISR of every partition that it hosts, except those in which it was not in sync before. Of a
controller's restart the log only has the registration of the new process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from kraftlog.batches import HEADER, HEADER_SIZE, Batch, Buffer, Head, view_of
from kraftlog.errors import ContradictionError
from kraftlog.modes import NO_MIGRATION, MigrationHistory, Modes
from kraftlog.records import Decoded, decode, key_of
from kraftlog.replay import ONLY_NO_OP, Replay
from kraftlog.schema import table
from kraftlog.strips import RULES as OF_PARTITIONS
from kraftlog.strips import Key, Moment, PartitionStrips, Strip, worst_first
from kraftlog.transactions import TRANSACTION_KEYS, Transactions

Data = Mapping[str, Any]

MAX_ABSENCES = 10_000
"""Most absences that are kept, the latest ones: ten for each of a thousand nodes."""


@dataclass(frozen=True, slots=True)
class Absence:
    """One time that a node was away.

    role: "broker", "controller", or "node" for both in one process. stopping: when it requested its controlled
    shutdown. fenced: when it was fenced. registered: when the new process registered; None if the same process came
    back. unfenced: when it was unfenced. in_sync: when it was in sync, as defined above. Each is None if the log has no
    such record. unregistered: the node was unregistered, and does not come back.
    """

    role: str
    node_id: int
    stopping: Moment | None = None
    fenced: Moment | None = None
    registered: Moment | None = None
    unfenced: Moment | None = None
    in_sync: Moment | None = None
    unregistered: bool = False

    @property
    def moments(self) -> tuple[Moment | None, ...]:
        """Moments in the order in which they happen."""
        return self.stopping, self.fenced, self.registered, self.unfenced, self.in_sync

    @property
    def first(self) -> Moment:
        """The first that is known."""
        return next(moment for moment in self.moments if moment is not None)

    @property
    def last(self) -> Moment:
        """The last that is known."""
        return next(moment for moment in reversed(self.moments) if moment is not None)


@dataclass(frozen=True, slots=True)
class RollHistory:
    """The result: absences of nodes, and strips of the partitions that suffered. known_from: end of the snapshot that
    the reader began with; None if it began with the log.

    end: the last record. absences: in the order in which they began. strips: the worst ones, worst first. affected:
    number of partitions with a strip; without_leader, below_minimum: number of those that were. partitions: their
    number at the end. minimum_known: min.insync.replicas of every affected partition is known. unreadable: number of
    records that are unknown or contradict the state; if above 0, the result may be wrong. migration: history of a
    migration from ZooKeeper, also of the time before the window.
    """

    known_from: Moment | None
    end: Moment
    absences: tuple[Absence, ...]
    strips: tuple[Strip, ...]
    affected: int
    without_leader: int
    below_minimum: int
    partitions: int
    minimum_known: bool
    unreadable: int
    migration: MigrationHistory = NO_MIGRATION


@dataclass(slots=True)
class _Broker:
    """A registered broker. `absence`: one that is not over. `already_missed`: partitions in which it was not in sync
    when the absence began.
    """

    id: int
    epoch: int
    incarnation: UUID
    absence: Absence | None = None
    already_missed: frozenset[Key] = frozenset()

    @property
    def is_away(self) -> bool:
        """True if an absence began, and it was not unfenced since."""
        return self.absence is not None and self.absence.unfenced is None


class RollRecords:
    """Takes the decoded records of `KEYS` of a log in order. `since_ms`, `default_minimum`: see `PartitionStrips`.
    Raises TooLargeError for more than `MAX_PARTITIONS` partitions.
    """

    def __init__(self, *, since_ms: int, default_minimum: int | None = None) -> None:
        self._since_ms = since_ms
        self._partitions = PartitionStrips(since_ms, default_minimum)
        self._brokers: dict[int, _Broker] = {}
        self._controllers: dict[int, UUID] = {}
        self._returning: set[int] = set()  # brokers that were unfenced, and are not in sync yet
        self._ended: deque[Absence] = deque(maxlen=MAX_ABSENCES)  # absences that are over
        self._transactions: Transactions[tuple[int, Data]] = Transactions()
        self._known_from: Moment | None = None
        self._at = Moment(-1, 0)  # up to where the log was read
        self._batch_begins = 0  # offset of the first record of the current batch
        self._unreadable = 0
        self._modes = Modes()

    def begin(self, at: Moment) -> None:
        """Note that the following records are those of a snapshot, which ends at this moment; the log after it
        follows.
        """
        self._known_from = self._at = at

    def read_to(self, at: Moment) -> None:
        """Note that the log was read up to this record."""
        self._at = Moment(max(self._at.at_ms, at.at_ms), at.offset)

    def count_unreadable(self) -> None:
        """Count a record that could not be decoded, of `KEYS` or of a key that is not known."""
        self._unreadable += 1

    def take(self, key: int, data: Data, at: Moment, batch_begins: int) -> None:
        """Apply a record, or keep it until its transaction ends. batch_begins: offset of the first record of its
        batch.
        """
        self._batch_begins = batch_begins
        try:
            effects = self._transactions.mark(key) if key in TRANSACTION_KEYS else self._transactions.take((key, data))
        except ContradictionError:  # a misplaced Begin, End or Abort does not change nodes and partitions
            return
        for each, effect in effects:
            self._apply(each, effect, at)

    def finish(self, most: int) -> RollHistory:
        """The history, with at most `most` strips. Call it once: the reader cannot be used afterwards."""
        under_way = [broker.absence for broker in self._brokers.values() if broker.absence is not None]
        recent = (absence for absence in (*self._ended, *under_way) if self._is_recent(absence))
        absences = sorted(self._with_roles(recent), key=lambda absence: (absence.first.at_ms, absence.node_id))
        strips = worst_first(self._partitions.finish(self._at.at_ms))
        return RollHistory(
            known_from=self._known_from,
            end=self._at,
            absences=tuple(absences),
            strips=tuple(strips[:most]),
            affected=len(strips),
            # The sums do not show a stretch that began and ended in the same millisecond.
            without_leader=sum(
                strip.without_leader_ms > 0 or not all(each.has_leader for each in strip.stretches) for strip in strips
            ),
            below_minimum=sum(
                strip.below_minimum_ms > 0 or any(each.below_minimum for each in strip.stretches) for strip in strips
            ),
            partitions=len(self._partitions),
            minimum_known=all(stretch.below_minimum is not None for strip in strips for stretch in strip.stretches),
            unreadable=self._unreadable,
            migration=self._modes.finish(),
        )

    def _is_recent(self, absence: Absence) -> bool:
        """True if it lasted into the window that begins at `since_ms`."""
        return absence.in_sync is None or absence.in_sync.at_ms >= self._since_ms

    def _with_roles(self, absences: Iterable[Absence]) -> Iterator[Absence]:
        """The absences, with one for each restart of a combined node. Such a node registers as a broker and as a
        controller: its absence as a broker has all moments, and the one as a controller is left out.
        """
        both = self._brokers.keys() & self._controllers.keys()
        for absence in absences:
            if absence.node_id not in both:
                yield absence
            elif absence.role == "broker":
                yield replace(absence, role="node")

    def _apply(self, key: int, data: Data, at: Moment) -> None:
        try:
            if key in OF_PARTITIONS:
                OF_PARTITIONS[key](self._partitions, data, at)
                self._end_absences(at)
            else:
                _OF_NODES[key](self, data, at)
        except ContradictionError:
            self._unreadable += 1

    def _end_absences(self, at: Moment) -> None:
        """End the absences of the brokers that are in sync again at this record."""
        for id_ in tuple(self._returning):
            broker = self._brokers[id_]
            if broker.absence is not None and broker.already_missed.issuperset(self._partitions.missed(id_)):
                self._ended.append(replace(broker.absence, in_sync=at))
                self._returning.discard(id_)
                broker.absence = None

    # --- nodes

    def _register(self, data: Data, at: Moment) -> None:
        id_, incarnation, epoch = data["brokerId"], data["incarnationId"], data["brokerEpoch"]
        self._modes.registered(data, at)
        broker = self._brokers.get(id_)
        if broker is None:  # new in the cluster, or the first record about it that was read
            broker = self._brokers[id_] = _Broker(id_, epoch, incarnation)
            # The moment of all records of a snapshot is its end: when an absence began before it is not known.
            if at == self._known_from and data["fenced"]:
                self._begin(broker, Absence("broker", id_, fenced=at))
            elif at == self._known_from and data.get("inControlledShutdown"):
                self._begin(broker, Absence("broker", id_, stopping=at))
            return
        broker.epoch = epoch
        if broker.incarnation == incarnation:
            return
        broker.incarnation = incarnation
        # A second new process within an absence begins another one.
        if broker.absence is None or broker.absence.registered is not None:
            self._begin(broker, Absence("broker", id_, registered=at))
        else:
            broker.absence = replace(broker.absence, registered=at)

    def _unregister(self, data: Data, at: Moment) -> None:
        gone = self._broker(data["brokerId"], data["brokerEpoch"])
        self._modes.unregistered(gone.id, at)
        del self._brokers[gone.id]
        self._returning.discard(gone.id)
        if gone.absence is not None:
            self._ended.append(replace(gone.absence, unregistered=True))

    def _change(self, data: Data, at: Moment) -> None:
        broker = self._broker(data["brokerId"], data["brokerEpoch"])
        if data.get("inControlledShutdown") and not broker.is_away:
            self._begin(broker, Absence("broker", broker.id, stopping=at))
        if data.get("fenced") == 1:
            self._note_fenced(broker, at)
        elif data.get("fenced") == -1:
            self._note_unfenced(broker, at)

    def _fence(self, data: Data, at: Moment) -> None:
        self._note_fenced(self._broker(data["id"], data["epoch"]), at)

    def _unfence(self, data: Data, at: Moment) -> None:
        self._note_unfenced(self._broker(data["id"], data["epoch"]), at)

    def _note_fenced(self, broker: _Broker, at: Moment) -> None:
        if not broker.is_away:
            self._begin(broker, Absence("broker", broker.id, fenced=at))
        elif broker.absence is not None and broker.absence.fenced is None and broker.absence.registered is None:
            broker.absence = replace(broker.absence, fenced=at)

    def _note_unfenced(self, broker: _Broker, at: Moment) -> None:
        if broker.absence is not None:
            broker.absence = replace(broker.absence, unfenced=at)
            self._returning.add(broker.id)
            self._end_absences(at)

    def _broker(self, id_: int, epoch: int) -> _Broker:
        broker = self._brokers.get(id_)
        if broker is None or broker.epoch != epoch:
            raise ContradictionError(f"broker {id_} is not registered with epoch {epoch}")
        return broker

    def _begin(self, broker: _Broker, absence: Absence) -> None:
        """Begin an absence of a broker; one that is not over ends here, without being in sync.

        A controller that fences a broker first removes it from ISRs, in the same batch
        (`ReplicationControlManager.handleBrokerFenced`). So a partition counts as already missed only if it was missed
        before this batch.
        """
        if broker.absence is not None:
            self._ended.append(broker.absence)
        self._returning.discard(broker.id)
        missed = self._partitions.missed(broker.id).items()
        broker.absence = absence
        broker.already_missed = frozenset(key for key, since in missed if since < self._batch_begins)

    def _register_controller(self, data: Data, at: Moment) -> None:
        id_, incarnation = data["controllerId"], data["incarnationId"]
        if self._controllers.get(id_, incarnation) != incarnation:
            self._ended.append(Absence("controller", id_, registered=at))
        self._controllers[id_] = incarnation

    def _unregister_controller(self, data: Data, _: Moment) -> None:
        self._controllers.pop(data["controllerId"], None)

    def _migrates(self, data: Data, at: Moment) -> None:
        self._modes.reached(data, at)


_OF_NODES = {
    table.REGISTER_BROKER.key: RollRecords._register,
    table.UNREGISTER_BROKER.key: RollRecords._unregister,
    table.BROKER_REGISTRATION_CHANGE.key: RollRecords._change,
    table.FENCE_BROKER.key: RollRecords._fence,
    table.UNFENCE_BROKER.key: RollRecords._unfence,
    table.REGISTER_CONTROLLER.key: RollRecords._register_controller,
    table.UNREGISTER_CONTROLLER.key: RollRecords._unregister_controller,
    table.ZK_MIGRATION_STATE.key: RollRecords._migrates,
}
KEYS = TRANSACTION_KEYS.union(OF_PARTITIONS, _OF_NODES)
"""Api keys of the records that `RollRecords` takes."""


class RollReader:
    """Takes the bytes of a log in order. Not thread-safe. `since_ms`, `default_minimum`: see `PartitionStrips`."""

    def __init__(self, *, since_ms: int, default_minimum: int | None = None) -> None:
        self._replay = Replay(sections=())  # checks batches: whole, undamaged, in order, committed
        self._records = RollRecords(since_ms=since_ms, default_minimum=default_minimum)

    @property
    def offset(self) -> int:
        """End offset, exclusive: where the next batch starts."""
        return self._replay.offset

    def skip_first(self) -> None:
        """Begin at offset 1. The only record before it is the first leader's LeaderChange, which has no effect here."""
        self._replay._offset = max(self._replay.offset, 1)

    def load_snapshot(self, data: Buffer, *, end_offset: int, epoch: int) -> None:
        """Begin with a complete snapshot with the id (end_offset, epoch). Raises what `Replay` raises."""
        self._replay.load_snapshot(data, end_offset=end_offset, epoch=epoch)
        at = Moment(self._replay.image().timestamp_ms, end_offset)
        self._records.begin(at)
        for batch in _batches(view_of(data)):
            for record in () if batch.is_control else batch.records():
                self._value(record.value, at, end_offset)

    def append(self, data: Buffer, *, below: int) -> int:
        """Take the batches that end at or below offset `below`. Returns the new end offset. Raises what `Replay.append`
        raises.
        """
        view, begin = view_of(data), self._replay.offset
        end = self._replay.append(view, below=below)
        for batch in _batches(view, begin, end):
            for record in () if batch.is_control else batch.records():
                if record.offset >= begin:
                    self._value(record.value, Moment(record.timestamp_ms, record.offset), batch.base_offset)
        if end > begin:
            self._records.read_to(Moment(self._replay.image().timestamp_ms, end - 1))
        return end

    def finish(self, most: int) -> RollHistory:
        """The history, with at most `most` strips. Call it once: the reader cannot be used afterwards."""
        return self._records.finish(most)

    def _value(self, value: bytes | None, at: Moment, batch_begins: int) -> None:
        key = key_of(value)
        if key >= 0 and key not in KEYS:
            return
        content = decode(value)
        if isinstance(content, Decoded):
            self._records.take(key, content.data, at, batch_begins)
        else:
            self._records.count_unreadable()


def _batches(view: memoryview, begin: int = 0, end: int | None = None) -> Iterator[Batch]:
    """The batches with records from offset `begin` on, as far as they end at or below `end`, without those of an idle
    controller. `Replay` has checked them already.
    """
    position = 0
    while position + HEADER_SIZE <= len(view):
        head = Head._make(HEADER.unpack_from(view, position))
        start, position = position, position + head.size
        last = head.base_offset + head.last_offset_delta
        if last < begin or view[start + HEADER_SIZE : position] == ONLY_NO_OP:
            continue
        if end is not None and last >= end:
            return
        yield head.batch(view, start)
