"""Writes files so that they survive a crash. Injected into a run, so that tests can end a run between any two writes.

A file is written under a temporary name and then renamed, so that a reader finds the old file or the new one. A rename
is on disk before anything that depends on it is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from featurelog.parts import synced

PROOF = ".seen-"
"""Prefix of the proof file of a run: a worker that sees the file shares the output folder."""


class LockedError(Exception):
    """Another run writes to the same tables."""


class Disk:
    """Writes to a folder of plain files."""

    def write(self, path: Path, content: bytes) -> None:
        """Write a file, which appears as a whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.replace(temporary, path)

    def replace(self, temporary: Path, path: Path) -> None:
        """Rename a file to `path`, and make the rename survive a crash."""
        temporary.replace(path)
        synced(str(path.parent))

    def remove(self, path: Path) -> None:
        """Remove a file that nothing depends on, if it exists."""
        path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def proved(self, path: Path) -> Iterator[None]:
        """Context with a proof file at this path, see `PROOF`. Proof files that killed runs left are removed."""
        for leftover in path.parent.glob(f"{PROOF}*"):
            leftover.unlink(missing_ok=True)
        path.touch()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Context with a lock, which one process at a time can hold; the kernel releases it if the process dies. Raises
        LockedError.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockedError(f"{path.parent}: another run writes to it; wait until it has ended") from None
            yield
