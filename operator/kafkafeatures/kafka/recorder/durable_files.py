"""Files on disk: opened for this user alone, written whole, and their folder synchronized.

Called by the modules of `kafka/recorder/` that write.
"""

from __future__ import annotations

import os
from pathlib import Path


def open_file(path: Path, flags: int) -> int:
    """A file of this user alone; never through a symbolic link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def write_all(file: int, data: bytes) -> None:
    """A single write may take less than all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def sync_folder(folder: Path) -> None:
    """Make durable what was made, renamed or removed in it."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
