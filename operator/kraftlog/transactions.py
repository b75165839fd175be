"""Metadata transactions (KIP-868): which records of a log take effect, and when.

A controller that writes more than fits in one batch puts a Begin before the records and an End behind them: all take
effect at the End, none where an Abort stands in its place. Control records do not take part. Every reader of a log asks
this one; what an effect is, and how much of an open transaction may be kept, is the reader's to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from kraftlog.errors import ContradictionError
from kraftlog.schema import table

T = TypeVar("T")

BEGIN, END, ABORT = table.BEGIN_TRANSACTION.key, table.END_TRANSACTION.key, table.ABORT_TRANSACTION.key
TRANSACTION_KEYS = frozenset({BEGIN, END, ABORT})
"""Api keys of the records that say where a transaction begins and how it ends."""


class Transactions(Generic[T]):
    """Takes the records of a log in order. `open`: those of the transaction that has not ended; None outside of one.

    `most`: records that are kept of one transaction; the others are lost. None: all of them.
    """

    __slots__ = ("_most", "open")

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self.open: list[T] | None = None

    def take(self, record: T) -> Sequence[T]:
        """A record between the marks, or outside of them: the records that take effect now, itself or none."""
        if self.open is None:
            return (record,)
        if self._most is None or len(self.open) < self._most:
            self.open.append(record)
        return ()

    def mark(self, key: int) -> Sequence[T]:
        """A record of `TRANSACTION_KEYS`: the records that take effect now, at an End.

        Raises ContradictionError, and stays as it is, for a Begin within a transaction (where Kafka's controller stops)
        and for an end of one that never began.
        """
        if (self.open is None) != (key == BEGIN):
            problem = "begins within another" if key == BEGIN else "ends that never began"
            raise ContradictionError(f"a transaction {problem}")
        records, self.open = self.open or (), [] if key == BEGIN else None
        return records if key == END else ()

    def forget(self) -> None:
        """Be outside of a transaction again: records of the log are missing, and its end may be among them."""
        self.open = None
