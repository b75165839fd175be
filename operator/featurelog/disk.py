"""The few ways to write what must survive a crash; injected, so that tests can end a run between any two.

A file is written beside its place and renamed into it, so that a reader finds the old one or the new one. What was
renamed is on disk before anything that depends on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from featurelog.parts import synced

PROOF = ".seen-"
"""How the name of a file begins by which a worker knows that it sees the folder of the run."""


class LockedError(Exception):
    """Another run writes to the same tables."""


class Disk:
    """A folder of plain files."""

    def write(self, path: Path, content: bytes) -> None:
        """A file that is there as a whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.tmp")
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.replace(beside, path)

    def replace(self, beside: Path, path: Path) -> None:
        """Rename, and make the rename survive a crash."""
        beside.replace(path)
        synced(str(path.parent))

    def remove(self, path: Path) -> None:
        """A file that nothing depends on; one that is gone already is gone."""
        path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def seen(self, path: Path) -> Iterator[None]:
        """An empty file as long as this lasts: who sees it sees the folder. Those that killed runs left are removed."""
        for leftover in path.parent.glob(f"{PROOF}*"):
            leftover.unlink(missing_ok=True)
        path.touch()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Held by one process at a time, and let go by the kernel when it dies. Raises LockedError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockedError(f"{path.parent}: another run writes to it; wait until it has ended") from None
            yield
