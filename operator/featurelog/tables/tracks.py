"""Periods of values: each version of a value, and the records with which it began and ended.

`walk` fills the tracks of a `History` in the order of the log, and the tables are made of them. A version ends where
its key gets another value, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A reference to a record. node, file: the copy that has it. offset: of the record; for a snapshot its end offset.
    at_ms: when a controller appended it; for a snapshot the time of its last record; None: not known.
    """

    node: str
    file: str
    offset: int
    at_ms: int | None

    def as_columns(self) -> dict[str, Any]:
        """The values of the columns `table.EVIDENCE`."""
        return {
            "evidence_node": self.node, "evidence_file": self.file, "evidence_offset": self.offset,
            "evidence_ts": self.at_ms,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """The moment at which a record took effect: for a record in a metadata transaction, the End of that transaction.

    offset, at_ms: of the record or End; at_ms None: not known, as only a snapshot shows it.
    not_after_ms: the latest time at which it can have happened. source: `record`, `control` or `snapshot`.
    after_gap: records before it are missing or not decoded. evidence: the record itself.
    """

    offset: int
    at_ms: int | None
    not_after_ms: int
    source: str
    after_gap: bool
    evidence: Evidence


@dataclass(slots=True)
class Version(Generic[V]):
    """A value of a key, and its period.

    begin: the moment at which the value took effect. replaced: the previous value; None: none, or unknown.
    is_replaced_known: the previous value is known. last: see below. end: None: the value still holds.
    """

    key: Any
    value: V
    begin: Point
    replaced: V | None
    is_replaced_known: bool
    last: Evidence
    """The last record that set this value, or set it again."""
    end: Point | None = None

    def as_columns(self, committed_below: int) -> dict[str, Any]:
        """The values of the columns `table.SPAN` and `table.EVIDENCE`."""
        begin, end = self.begin, self.end
        return {
            "from_offset": begin.offset, "from_ts": begin.at_ms, "not_after": begin.not_after_ms,
            "to_offset": end.offset if end else None, "to_ts": end.at_ms if end else None,
            "source": begin.source, "after_gap": begin.after_gap,
            "committed": "yes" if self.is_committed(committed_below) else "unknown",
            **begin.evidence.as_columns(),
        }  # fmt: skip

    def is_committed(self, committed_below: int) -> bool:
        """True if the record with which it began is surely committed, so that no leader can undo it."""
        return self.begin.offset < committed_below or self.begin.source == "snapshot"

    def may_hold(self, committed_below: int) -> bool:
        """True if the value holds now, or would hold again if records that are not surely committed are undone."""
        return self.end is None or (self.end.offset >= committed_below and self.end.source != "snapshot")


@dataclass(slots=True)
class Track(Generic[V]):
    """Versions of values by key. versions: in the order of the log. current: those that hold at its end, by key."""

    versions: list[Version[V]] = field(default_factory=list)
    current: dict[Any, Version[V]] = field(default_factory=dict)
    _by_key: dict[Any, list[Version[V]]] = field(default_factory=dict)
    _indexed: int = 0

    def of_key(self, key: Any) -> Sequence[Version[V]]:
        """The versions of one key, in order."""
        if self._indexed < len(self.versions):
            for version in self.versions[self._indexed :]:
                self._by_key.setdefault(version.key, []).append(version)
            self._indexed = len(self.versions)
        return self._by_key.get(key, ())

    def put(self, key: Any, value: V | None, at: Point, *, before_known: bool) -> bool:
        """Note that the key has this value from `at` on; None: no value. Return True if the value changed.

        before_known: the log is known without a gap up to here, so that no earlier version means no earlier value.
        """
        current = self.current.get(key)
        if current is not None:
            if current.value == value:
                current.last = at.evidence
                return False
            current.end = at
            del self.current[key]
        elif value is None:
            return False
        if value is not None:
            replaced = current.value if current else None
            fresh = Version(key, value, at, replaced, current is not None or before_known, at.evidence)
            self.versions.append(fresh)
            self.current[key] = fresh
        return True
