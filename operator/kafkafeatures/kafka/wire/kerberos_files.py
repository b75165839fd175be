"""The files of one Kerberos login, which its library can only read from files: a keytab out of a Secret, and tickets.

They are shared by all connections with this login, through its settings, and removed with them.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from pathlib import Path

AT_ONCE = 2
"""Exchanges of one login at the same time: each has a process of its own, of 15 MB."""


class LoginFiles:
    """A folder that only this user may read, made when first needed. `places`: held by each exchange."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(AT_ONCE)
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder. Raises OSError."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kafkafeatures-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def keytab(self, content: bytes) -> Path:
        """The path of a keytab with this content. Raises OSError."""
        path = self.folder / "keytab"
        if not path.exists():
            path.write_bytes(content)
        return path
