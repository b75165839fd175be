"""Log files as blocks of bytes: plain or gzip, standard input, files that are cut or still grow.

Called by `server_log.py` and `request_log.py`. A block has no respect for lines, so that a line of any length takes no
more memory than another. What could not be read to its end is a problem that is told, and what came before it counts.
"""

from __future__ import annotations

import os
import stat
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

STDIN = "-"
BLOCK = 1 << 20
_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
"""`wbits` of zlib for a stream with the header of gzip."""


class LogFile:
    """One file. `problem`: why it was not read to its end, once it is read; empty if it was."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problem = ""

    @property
    def name(self) -> str:
        return "stdin" if self.path == STDIN else self.path

    def blocks(self) -> Iterator[bytes]:
        """The content, decompressed. Raises CommandFailed if it cannot be opened."""
        with self._open() as stream:
            try:
                head = _read(stream)
                if head.startswith(_GZIP):
                    yield from self._decompressed(stream, head)
                    return
                while head:
                    yield head
                    head = stream.read(BLOCK)
            except OSError as error:
                self.problem = f"{self.name}: not read to its end: {error.strerror}"

    def _open(self) -> BinaryIO:
        if self.path == STDIN:
            return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CommandFailed(f"{self.path}: {error.strerror}", Exit.USAGE) from None
        if stat.S_ISDIR(os.fstat(file).st_mode):
            os.close(file)
            raise CommandFailed(f"{self.path}: it is a folder; name the log files in it", Exit.USAGE)
        return os.fdopen(file, "rb", buffering=0)

    def _decompressed(self, stream: BinaryIO, data: bytes) -> Iterator[bytes]:
        """Members of gzip one after the other, as rotation of logs appends them."""
        member = zlib.decompressobj(_GZIP_WINDOW)
        try:
            while data:
                while data:
                    if member.eof:
                        member = zlib.decompressobj(_GZIP_WINDOW)
                    if block := member.decompress(data, BLOCK):
                        yield block
                    data = member.unused_data if member.eof else member.unconsumed_tail
                data = stream.read(BLOCK)
        except zlib.error:
            self.problem = f"{self.name}: not read to its end: damaged gzip data"
            return
        if not member.eof:
            self.problem = f"{self.name}: not read to its end: the gzip data is cut"


def _read(stream: BinaryIO) -> bytes:
    """The first block, of at least two bytes if the file has them: a pipe may give them one by one."""
    head = stream.read(BLOCK)
    while len(head) == 1 and (more := stream.read(BLOCK)):
        head += more
    return head
