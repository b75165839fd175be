"""The files of one Kerberos login, which its library can only read from files: a keytab and a krb5.conf out
of a Secret, and tickets.

They are shared by all connections with this login, through its settings, and removed with them, or at the end of the
process (`interrupts.end`).
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from pathlib import Path
from weakref import WeakKeyDictionary
from zlib import crc32

AT_ONCE = 2
"""Exchanges of one login that ask the KDC at the same time: each has a process of its own, of 15 MB."""


class LoginFiles:
    """A folder that only this user may read, made when first needed."""

    def __init__(self) -> None:
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._folder: Path | None = None

    @property
    def places(self) -> asyncio.Semaphore:
        """The places in the running event loop, one for each exchange until it has its ticket. A command has several
        event loops after one another, with the same settings.
        """
        return self._places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))

    @property
    def tickets(self) -> Path:
        """The path of the ticket cache. Raises OSError."""
        return self._path("tickets")

    def keytab(self, content: bytes) -> Path:
        """The path of a keytab with this content. Raises OSError."""
        return self._with("keytab", content)

    def krb5_conf(self, text: str) -> Path:
        """The path of a krb5.conf with this text. Raises OSError."""
        return self._with(f"krb5-{crc32(text.encode()):x}.conf", text.encode())

    def _with(self, name: str, content: bytes) -> Path:
        path = self._path(name)
        if not path.exists():
            path.write_bytes(content)
        return path

    def _path(self, name: str) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kafkafeatures-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder / name
