"""Makes the `History` of a cluster from the rows of its metadata logs, in one walk over all records and snapshots.

It decides when records take effect (those of a metadata transaction at its End, KIP-868), what a snapshot proves, and
which doubts remain at the end. The next complete snapshot ends all earlier doubts, because it contains the whole state.
`kraftlog.rules` defines what each record changes in the state; `impossible.py` finds the records at which Kafka would
stop. Called by `tables_of`.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from featurelog.tables import min_insync
from featurelog.tables.checkpoint import SETTLED_MS, Checkpoint, Recorder
from featurelog.tables.history import (
    BROKER,
    CONTROLLER,
    Doubt,
    History,
    Migration,
    NodeKey,
    Note,
    Registered,
)
from featurelog.tables.impossible import findings
from featurelog.tables.inputs import ClusterCopies
from featurelog.tables.merged_log import Piece, SnapshotFile
from featurelog.tables.merging import merged
from featurelog.tables.scans import KEYS, rows_of
from featurelog.tables.snapshot_state import RULES, state_of
from featurelog.tables.tracks import Evidence, Point
from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.readings import majority_of
from kraftlog.arrow import DECODED
from kraftlog.errors import ContradictionError
from kraftlog.image import SMALL, BrokerRegistration, ControllerRegistration, ZkMigrationState
from kraftlog.partition_records import MIN_INSYNC_REPLICAS
from kraftlog.rules import CONTROL_RULES
from kraftlog.schema import table
from kraftlog.state import State
from kraftlog.transactions import ABORT, BEGIN, TRANSACTION_KEYS, Transactions

RECORD, CONTROL, SNAPSHOT = "record", "control", "snapshot"

_Record = tuple[int, Mapping[str, Any], Evidence]
"""A record: its api key, its fields, and a reference to it."""

STEP = "walk"
_OF_WALK = ("state", "transactions", "began", "position", "static_voters", "noted", "since_gap")
_OF_HISTORY = ("levels", "nodes", "migration", "min_insync", "voter_sets", "doubts", "notes", "base", "end_ms")
_MOST = 1000
"""Limit to the notes of each kind, and to the doubts: a log can cause any number of them."""


def history_of(cluster: ClusterCopies, earlier: Checkpoint | None = None, settled_ms: int = SETTLED_MS) -> History:
    """Read the files of a cluster, and return its history. earlier, settled_ms, raises: see `merged`."""
    return _Walk(History(cluster, merged(cluster, earlier, settled_ms))).run()


def _offset_of(item: Piece | SnapshotFile) -> int:
    """Offset at which something takes effect."""
    return item.end if isinstance(item, SnapshotFile) else item.begin


class _Walk:
    """One walk. `history` is its result; the other attributes are the state so far, and what is still to be noted."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.state = State(SMALL)  # the state at `position`
        self.transactions: Transactions[_Record] = Transactions()
        self.began: Evidence | None = None  # the Begin of the last transaction
        self.position = 0  # offset up to which the log was read
        self.static_voters: frozenset[int] | None = None  # named by the last leader change since the last gap
        self.noted: Counter[str] = Counter()  # notes by kind, also those beyond `_MOST`
        all_findings = list(findings(history.log))
        self.impossible = deque(finding for finding in all_findings if finding.end_offset is None)  # not noted yet
        # `_piece` notes each of them, so `_mark` and `_apply` do not.
        self.impossible_offsets = frozenset(finding.at.offset for finding in self.impossible)
        self.in_snapshots = [finding for finding in all_findings if finding.end_offset is not None]
        self.since_gap = False  # records before are missing or not decoded, and no snapshot was read since

    def run(self) -> History:
        history, log = self.history, self.history.log
        if log.earlier is not None:
            self._continue(log.earlier)
        elif not log.pieces or log.pieces[0].begin > 0:
            self.since_gap = True
            history.doubts.append(
                Doubt("no_base", "neither the beginning of the log nor a snapshot of its state is here")
            )
        else:
            history.base = 0
        for item in self._in_order():
            if log.recorder.is_due(STEP, _offset_of(item)):
                self._save(log.recorder)
            if isinstance(item, SnapshotFile):
                self._snapshot(item)
            else:
                self._piece(item)
        self._open_transaction("is not over at the end")
        history.end = max(self.position, log.end)
        history.voters = self._voters()
        history.doubts += [Doubt(kind, text) for kind, text in history.cluster.doubts]
        history.doubts += [Doubt("contradiction", contradiction.text) for contradiction in log.contradictions]
        history.committed_below = self._committed_below()
        return history

    def _in_order(self) -> Iterator[Piece | SnapshotFile]:
        """All new pieces and snapshots by offset: a snapshot comes before the records that begin at its end."""
        everything: list[Piece | SnapshotFile] = [*self.history.log.new_snapshots, *self.history.log.new_pieces]
        return iter(sorted(everything, key=_offset_of))

    def _save(self, recorder: Recorder) -> None:
        """Save the state of the walk."""
        recorder.save(STEP, [{name: getattr(owner, name) for name in names} for owner, names in self._saved()])

    def _continue(self, earlier: Checkpoint) -> None:
        """Continue from a state that was saved."""
        for (owner, _), values in zip(self._saved(), earlier.state(STEP), strict=True):
            for name, value in values.items():
                setattr(owner, name, value)

    def _saved(self) -> tuple[tuple[object, Sequence[str]], ...]:
        """Objects of which a checkpoint saves attributes, with the names of these."""
        return (self, _OF_WALK), (self.history, _OF_HISTORY)

    def _committed_below(self) -> int:
        """The offset below which every record is in a snapshot, or in copies of a majority of the voters.

        Leaving out a copy never raises it: then fewer voters are known to have the records.
        """
        log, voters = self.history.log, self.history.voters or ()
        proved = max((snapshot.end for snapshot in log.snapshots), default=0)
        if not voters:
            return proved
        for end in sorted(set(log.held_until.values()), reverse=True):
            holding = [folder for folder, until in log.held_until.items() if until >= end]
            if len(log.witnesses.most(holding, voters)) >= majority_of(len(voters)):
                return max(proved, end)
        return proved

    def _voted(self, offset: int) -> None:
        """Note the set of voters from this offset on, if it is another one than before."""
        voters, voter_sets = self._voters(), self.history.voter_sets
        if voters is not None and (not voter_sets or voter_sets[-1][1] != voters):
            voter_sets.append((offset, voters))

    def _voters(self) -> frozenset[int] | None:
        if self.state.voters is not None:
            return frozenset(voter.id for voter in self.state.voters)
        # A log names the voters of a static quorum in each leader change, which may lie before its oldest record. Then
        # the files beside the log, which also name them, are used.
        return self.history.cluster.static_voters if self.static_voters is None else self.static_voters

    # --- pieces and gaps

    def _gap(self, until: int) -> None:
        """Note that the offsets from the current position up to `until` are missing."""
        history = self.history
        self._open_transaction("has its end in a gap")
        self.static_voters = None
        if not (self.position == 0 and self.since_gap):  # offsets before the oldest file are no gap
            text = f"offsets {self.position} to {until - 1} are missing"
            self._add(Note("gap", text, offset=self.position, end_offset=until, count=until - self.position))
            self._add(Doubt("gap", text))
        history.base = None
        self.since_gap = True

    def _piece(self, piece: Piece) -> None:
        if piece.begin > self.position:
            self._gap(piece.begin)
        source = piece.scan.source
        for row in rows_of(piece.scan.between(piece.begin, piece.end)):
            self._row(row, Evidence(source.node, source.file, row["offset"], row["timestamp_ms"]))
        while self.impossible and self.impossible[0].at.offset < piece.end:
            impossible = self.impossible.popleft()
            self._doubt("contradiction_in_log", impossible.text, impossible.at)
        self.position = piece.end
        self.history.end_ms = piece.end_ms

    def _row(self, row: dict[str, Any], at: Evidence) -> None:
        if row["status"] != DECODED:
            self._not_decoded(row, at)
            return
        key, data = row["api_key"], json.loads(row["body"])
        if row["is_control"]:
            self._control(key, data, at)
        elif key in TRANSACTION_KEYS:
            self._mark(key, at)
        else:
            self._take_effect(self.transactions.take((key, data, at)), at)

    def _mark(self, key: int, at: Evidence) -> None:
        open_ = self.transactions.open
        try:
            effects = self.transactions.mark(key)
        except ContradictionError as error:
            # Behind a gap, a mark without a Begin is no contradiction: the Begin may be missing.
            if at.offset not in self.impossible_offsets and (open_ is not None or not self.since_gap):
                self._doubt("contradiction_in_log", f"{error}, at offset {at.offset}", at)
            return
        if key == BEGIN:
            self.began = at
        elif key == ABORT:
            void = len(open_ or ())
            text = f"a transaction was aborted; {void} of its records about nodes and levels had no effect"
            self._note("aborted_transaction", text, at)
        self._take_effect(effects, at)

    def _take_effect(self, records: Iterable[_Record], at: Evidence) -> None:
        """Apply records that take effect at the record `at`: their own, or the End of their transaction."""
        for key, data, evidence in records:
            self._apply(key, data, evidence, self._point(at, RECORD, evidence))

    def _open_transaction(self, reason: str) -> None:
        """Leave an open transaction, whose records have no effect here, and note it. reason: why it is left."""
        if self.transactions.open is not None and self.began is not None:
            text = f"the transaction that began at offset {self.began.offset} {reason}"
            self._doubt("open_transaction", text, self.began)
        self.transactions.forget()

    def _not_decoded(self, row: dict[str, Any], at: Evidence) -> None:
        """Doubt the state: the record could be anything, unless its type is known and no table is made of it."""
        is_type_known = row["record_type"] is not None
        if row["is_control"] or not is_type_known or row["api_key"] in KEYS:
            record_type = row["record_type"] or f"type {row['api_key']}"
            text = f"a record of {record_type} at offset {at.offset} was not decoded: {row['reason']}"
            self._add(Doubt("not_decoded", text))
            self.history.base, self.since_gap = None, True

    def _point(self, at: Evidence, source: str, evidence: Evidence) -> Point:
        return Point(at.offset, at.at_ms, at.at_ms if at.at_ms is not None else -1, source, self.since_gap, evidence)

    def _add(self, entry: Doubt | Note) -> None:
        """Add a doubt or a note, within the limit."""
        if isinstance(entry, Doubt):
            if len(self.history.doubts) < _MOST:
                self.history.doubts.append(entry)
            return
        self.noted[entry.kind] += 1
        if self.noted[entry.kind] <= _MOST:
            self.history.notes.append(entry)

    def _note(self, kind: str, text: str, at: Evidence) -> None:
        self._add(Note(kind, text, at.node, at.file, at.offset, at_ms=at.at_ms))

    def _doubt(self, kind: str, text: str, at: Evidence) -> None:
        self._note(kind, text, at)
        self._add(Doubt(kind, text))

    # --- records

    def _control(self, key: int, data: Mapping[str, Any], at: Evidence) -> None:
        CONTROL_RULES[key](self.state, data)
        if key == table.LEADER_CHANGE.key:
            self.static_voters = frozenset(voter["voterId"] for voter in data["voters"])
        if key in (table.LEADER_CHANGE.key, table.KRAFT_VOTERS.key):
            self._voted(at.offset)
        elif key == table.KRAFT_VERSION.key:
            is_known = not self.since_gap
            point = self._point(at, CONTROL, at)
            self.history.levels.put(KRAFT_VERSION, self.state.kraft_version, point, before_known=is_known)

    def _apply(self, key: int, data: Mapping[str, Any], evidence: Evidence, at: Point) -> None:
        if key == table.CONFIG.key:
            if (config := min_insync.value_of(data)) is not None:
                self.history.min_insync.put(*config, at, before_known=not self.since_gap)
            return
        state = self.state
        try:
            RULES[key](state, data)
        except ContradictionError as error:
            # Behind a gap, the node that the record is about may have registered in the gap.
            if not self.since_gap and evidence.offset not in self.impossible_offsets:
                self._doubt("contradiction_in_log", f"{error}, at offset {evidence.offset}", evidence)
            return
        if key in (table.FEATURE_LEVEL.key, table.REMOVE_FEATURE_LEVEL.key):
            self._level(data["name"], evidence, at)
        elif key in (table.REGISTER_CONTROLLER.key, table.UNREGISTER_CONTROLLER.key):
            self._node((CONTROLLER, data["controllerId"]), at)
        elif key == table.ZK_MIGRATION_STATE.key:
            self._migration(at)
        else:
            self._node((BROKER, data["brokerId"] if "brokerId" in data else data["id"]), at)
            self._migration(at)

    def _level(self, name: str, evidence: Evidence, at: Point) -> None:
        if name == KRAFT_VERSION:
            text = "a FeatureLevel record for kraft.version, which has no effect on the quorum (KAFKA-18979)"
            self._note("kraft_version_record", text, evidence)
            return
        level, is_known = self.state.features.get(name) or 0, not self.since_gap
        if level or name in self.history.levels.current or not is_known:  # level 0 after level 0 is no change
            self.history.levels.put(name, level, at, before_known=is_known)

    def _node(self, key: NodeKey, at: Point) -> None:
        registration = self._registration(self.state, key)
        is_known = not self.since_gap
        if registration is None:
            self.history.nodes.put(key, None, at, before_known=is_known)
            return
        current = self.history.nodes.current.get(key)
        value = Registered(registration, at.evidence, at.not_after_ms)
        if current is not None:
            replaced = current.value.registration
            is_same = replaced.incarnation == registration.incarnation
            was_fenced = isinstance(replaced, BrokerRegistration) and replaced.fenced
            value = Registered(
                registration,
                current.value.by if is_same else at.evidence,
                current.value.fenced_since if is_same and was_fenced else at.not_after_ms,
            )
        self.history.nodes.put(key, value, at, before_known=is_known)

    @staticmethod
    def _registration(state: State, key: NodeKey) -> BrokerRegistration | ControllerRegistration | None:
        return state.brokers.get(key[1]) if key[0] == BROKER else state.controllers.get(key[1])

    def _migration(self, at: Point) -> None:
        code = self.state.zk_migration_state
        if code is None:
            return
        zk_brokers: tuple[int, ...] = ()
        if code != ZkMigrationState.NONE:  # also after the end: brokers in ZooKeeper mode may have been left behind
            brokers = self.state.brokers.view().items()
            zk_brokers = tuple(sorted(id_ for id_, broker in brokers if broker.is_migrating_zk_broker))
        value = Migration(code, zk_brokers, self.state.features.get(METADATA_VERSION))
        self.history.migration.put("", value, at, before_known=not self.since_gap)

    # --- snapshots

    def _snapshot(self, file: SnapshotFile) -> None:
        """Continue with the state of a snapshot. Where the state was known before, differences become a doubt."""
        history, source = self.history, file.scan.source
        if file.end < self.position:
            return
        if file.end > self.position:
            self._gap(file.end)
            self.position = file.end
        self._open_transaction("is not over where a snapshot was made")
        fresh, configs, header_ms, unreadable = state_of(file)
        at = Evidence(source.node, source.file, file.end, header_ms)
        # The snapshot at 0 is written when the disk is formatted: the log does not have its content.
        was_known = not history.doubts and file.end > 0
        point = Point(file.end, None, header_ms if header_ms is not None else -1, SNAPSHOT, self.since_gap, at)
        self.state, replaced = fresh, self.state
        changed = [*self._adopt(replaced, point), *self._adopt_configs(configs, point)]
        history.doubts.clear()
        history.doubts += unreadable
        for finding in self.in_snapshots:
            if (finding.at.node, finding.at.file) == (source.node, source.file):
                self._doubt("contradiction_in_log", finding.text, finding.at)
        if was_known and changed:
            text = f"it contradicts the log before its end: {', '.join(sorted(changed)[:5])}"
            self._doubt("snapshot_contradicts_log", text, at)
        elif not was_known:
            history.base = file.end
        self.since_gap = False
        self._voted(file.end - 1)
        history.end_ms = max(header_ms, history.end_ms or header_ms) if header_ms is not None else history.end_ms

    def _adopt(self, replaced: State, at: Point) -> list[str]:
        """Put the snapshot's levels, nodes and migration into the history; return what changed, in words.
        replaced: the state before the snapshot.
        """
        changed = []
        is_known = not self.since_gap
        names = {*replaced.features.view(), *self.state.features.view()}
        for name in names:
            level = self.state.features.get(name)
            was_seen = name in self.history.levels.current
            if self.history.levels.put(name, level if level or not was_seen else 0, at, before_known=is_known):
                changed.append(name)
        if (self.state.kraft_version or KRAFT_VERSION in self.history.levels.current) and self.history.levels.put(
            KRAFT_VERSION, self.state.kraft_version, at, before_known=is_known
        ):
            changed.append(KRAFT_VERSION)
        keys = {(BROKER, id_) for state in (replaced, self.state) for id_ in state.brokers.view()}
        keys |= {(CONTROLLER, id_) for state in (replaced, self.state) for id_ in state.controllers.view()}
        for key in keys:
            was = self.history.nodes.current.get(key)
            self._node(key, at)
            if self.history.nodes.current.get(key) is not was:
                changed.append(f"{key[0]} {key[1]}")
        self._migration(at)
        return changed

    def _adopt_configs(self, configs: Mapping[str, str], at: Point) -> list[str]:
        track, is_known = self.history.min_insync, not self.since_gap
        names = sorted({*track.current, *configs})
        changed = [name for name in names if track.put(name, configs.get(name), at, before_known=is_known)]
        return [f"{MIN_INSYNC_REPLICAS} of {f'broker {name}' if name else 'all brokers'}" for name in changed]
