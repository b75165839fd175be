"""System calls for files that survive a crash: opened for this user alone, written completely, folders synchronized.

Called by the modules of `kafka/recorder/` that write, and by `cli/clients/request_logger/state.py`.
"""

from __future__ import annotations

import os
from pathlib import Path


def open_file(path: Path, flags: int) -> int:
    """Open a file (a new one with mode 0600), and return its descriptor. Symbolic links are refused."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def write_all(file: int, data: bytes) -> None:
    """Write all of `data`: a single `os.write` may write less."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def sync_folder(folder: Path) -> None:
    """Make it durable that files in this folder were created, renamed or removed (fsync of the folder)."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
