"""Metadata transactions (KIP-868): which records of a log take effect, and when.

If a controller must write more records than fit into one batch, it writes a Begin before and an End after them: all
take effect at the End, or none if there is an Abort instead. Control records are not part of transactions. The reader
of a log defines what a record is, and how many of an open transaction are kept.
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
    """Takes the records of a log in order. `open`: the records of the open transaction; None outside of one. `most`:
    most records of a transaction that are kept; further ones are dropped. None: all are kept.
    """

    __slots__ = ("_most", "open")

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self.open: list[T] | None = None

    def take(self, record: T) -> Sequence[T]:
        """Take a record. Returns the records that take effect now: itself, or none within a transaction."""
        if self.open is None:
            return (record,)
        if self._most is None or len(self.open) < self._most:
            self.open.append(record)
        return ()

    def mark(self, key: int) -> Sequence[T]:
        """Take a record of `TRANSACTION_KEYS`. Returns the records that take effect now, if it is an End.

        Raises ContradictionError, without effect, for a Begin within a transaction (at which Kafka's controller
        throws), and for an End or Abort without a Begin.
        """
        if (self.open is None) != (key == BEGIN):
            problem = "begins within another" if key == BEGIN else "ends that never began"
            raise ContradictionError(f"a transaction {problem}")
        records, self.open = self.open or (), [] if key == BEGIN else None
        return records if key == END else ()

    def forget(self) -> None:
        """Leave an open transaction, because records are missing, which may include its end."""
        self.open = None
