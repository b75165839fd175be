"""Readings that are shared by all open pages: a subject is read at most once in `EVERY` seconds, however many look.

Only pages cause readings, so nothing is read while no page is open. All readings run one after the other in one thread.
A page waits `READING_TIMEOUT` seconds for a reading in progress; after that it gets the previous reading, with its age.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime
from threading import Lock
from typing import Generic, TypeVar

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.cli.shell.exit_codes import CommandFailed
from kafkafeatures.environment import Environment

T = TypeVar("T")

EVERY = 5.0
"""Seconds from one reading to the next, and from one reload of a page to the next."""
READING_TIMEOUT = 2.0
"""Seconds for which a page waits for a reading."""


class LatestReading(Struct, Generic[T], frozen=True):
    """The latest successful reading. value: None if there is none yet. read_at: when it was made. failure: why later
    readings failed; empty if none did. failing_since: when the first of these failed.
    """

    value: T | None = None
    read_at: datetime | None = None
    failure: str = ""
    failing_since: datetime | None = None


class Reader:
    """The thread that reads. Used by all `Live` of a server."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._thread = ThreadPoolExecutor(1, "reader")

    def submit(self, read: Callable[[], None]) -> Future[None]:
        """Read once the earlier readings are over."""
        return self._thread.submit(read)

    def close(self) -> None:
        """Start no further reading. The one in progress is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class Live(Generic[T]):
    """A subject, such as the list of resources. `read`: reads it; raises CommandFailed. `every`: least seconds from one
    reading to the next.
    """

    def __init__(self, read: Callable[[], T], reader: Reader, every: float = EVERY) -> None:
        self._read, self._reader, self._every = read, reader, every
        self._lock = Lock()
        self._latest: LatestReading[T] = LatestReading()
        self._began = float("-inf")
        self._pending: Future[None] | None = None

    def latest(self) -> LatestReading[T]:
        """The newest reading; read anew if the last reading began `every` seconds ago."""
        with self._lock:
            current_seconds = self._reader.environment.monotonic()
            is_done = self._pending is None or self._pending.done()
            if is_done and current_seconds - self._began >= self._every:
                self._began = current_seconds
                self._pending = self._reader.submit(self._read_once)
            pending = self._pending
        if pending is not None and wait((pending,), READING_TIMEOUT).done:
            pending.result()  # raises what is a bug
        return self._latest

    def first(self) -> T:
        """The first reading. Raises CommandFailed."""
        value = self._read()
        self._began = self._reader.environment.monotonic()
        self._latest = LatestReading(value, self._reader.environment.clock())
        return value

    def _read_once(self) -> None:
        try:
            value = self._read()
        except CommandFailed as failed:
            since = self._latest.failing_since or self._reader.environment.clock()
            self._latest = replace(self._latest, failure=str(failed), failing_since=since)
        else:
            self._latest = LatestReading(value, self._reader.environment.clock())
