"""What was so from when to when: the versions of values, and the records that began and ended them.

Filled by `history` in the order of the log; the tables are made of it. A version is ended by the next one of its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A record, as it can be found again. at_ms: when it was appended."""

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
    """The moment at which a record took effect. offset, at_ms: of a metadata transaction those of its End; at_ms
    None: of a snapshot.

    not_after_ms: the latest time that it can have been. after_gap: records before it are missing.
    """

    offset: int
    at_ms: int | None
    not_after_ms: int
    source: str
    after_gap: bool
    evidence: Evidence


@dataclass(slots=True)
class Version(Generic[V]):
    """A value, from `begin` on. replaced: the value before it; None: there was none, or, unless is_replaced_known, that
    is not known.
    """

    key: Any
    value: V
    begin: Point
    replaced: V | None
    is_replaced_known: bool
    last: Evidence
    """The last record that said anything of it."""
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
        """True if no leader can undo its beginning."""
        return self.begin.offset < committed_below or self.begin.source == "snapshot"

    def may_hold(self, committed_below: int) -> bool:
        """True if it holds now, or would hold if what is not surely committed is undone."""
        return self.end is None or (self.end.offset >= committed_below and self.end.source != "snapshot")


@dataclass(slots=True)
class Track(Generic[V]):
    """Versions of values by key."""

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
        """Note that the key has this value from here on, None for none; returns whether that is news."""
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
