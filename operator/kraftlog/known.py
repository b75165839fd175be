"""Tables with the values that a `Judge` (`kraftlog.judge`) knows, which can undo the changes of an aborted transaction.

A value that no record has set is `UNKNOWN` if earlier records are missing, and else None: it does not exist. The number
of values is limited.
"""

from __future__ import annotations

from typing import Any

from kraftlog.errors import TooLargeError

MAX_KNOWN = 8_000_000
"""Most topics, partitions, registrations and entries that are kept: four times as many as a cluster can have."""


class _Unknown:
    """The type of `UNKNOWN`, which stays one object when it is pickled."""

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()

Table = dict[Any, Any]


class JudgeMemory:
    """Tables of one log. `is_complete`: no earlier records are missing."""

    def __init__(self, *, is_complete: bool) -> None:
        self.is_complete = is_complete
        self.clear()

    def clear(self) -> None:
        """Drop all values."""
        self._count = 0
        self._undo: list[tuple[Table, Any, Any]] | None = None  # changes to be undone by an Abort
        self.brokers: Table = {}  # epoch and log directories, by id
        self.controllers: Table = {}
        self.directories: Table = {}  # by directory id, the id of its broker
        self.topics: Table = {}  # by id
        self.topic_ids: Table = {}  # by name
        self.entries: Table = {}  # content of ACLs, by id
        self.contents: Table = {}  # by content, for all ACLs that exist, whatever their ids
        self.credentials: Table = {}
        self.numbers: Table = {}  # single values, by api key: the next producer id, the offset of the open transaction

    def get(self, table: Table, key: object) -> Any:
        """The value; None if it does not exist, UNKNOWN if earlier records are missing and no later one has set it."""
        value = table.get(key, UNKNOWN)
        return None if value is UNKNOWN and self.is_complete else value

    def put(self, table: Table, key: object, value: object) -> None:
        """Set a value. Raises TooLargeError if there are more than `MAX_KNOWN` values then."""
        previous = table.get(key, UNKNOWN)
        if self._undo is not None:
            self._undo.append((table, key, previous))
        if previous is UNKNOWN:
            self._count += 1
            if self._count > MAX_KNOWN:
                raise TooLargeError(f"more than {MAX_KNOWN} topics, partitions, registrations and entries")
        table[key] = value

    def drop(self, table: Table, key: object) -> None:
        """Note that there is no such value from now on."""
        if not self.is_complete:
            self.put(table, key, None)
        elif key in table:
            if self._undo is not None:
                self._undo.append((table, key, table[key]))
            del table[key]
            self._count -= 1

    def take(self, table: Table, key: object) -> Any:
        """Drop a value, and return it as `get` does."""
        value = self.get(table, key)
        self.drop(table, key)
        return value

    def count_off(self, values: int) -> None:
        """Reduce the number of values, after a table with that many was dropped."""
        self._count -= values

    def begin(self) -> None:
        """Begin a transaction."""
        self._undo = []

    def end(self) -> None:
        """End the transaction, and keep its changes."""
        self._undo = None

    def abort(self) -> bool:
        """Undo the changes of the transaction. False if its Begin is missing, so that its changes are not known."""
        undo, self._undo = self._undo, None
        for table, key, previous in reversed(undo or ()):
            self._count += (previous is not UNKNOWN) - (key in table)
            if previous is UNKNOWN:
                table.pop(key, None)
            else:
                table[key] = previous
        return undo is not None
