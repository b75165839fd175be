"""Writes a snapshot to disk, part by part, as it arrives.

Created by `kafka/recorder/recorded_log.py`, and used by `recorder.py`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kafkafeatures.kafka.recorder.durable_files import open_file, sync_folder, write_all
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kraftlog import SnapshotReader

PART = ".part"


class NewSnapshot:
    """A snapshot in a temporary file, which gets its final name only when it is complete and every CRC is right.

    `lock`: the open lock file of the recording, which `finish` and `abandon` close; one of them must be called.
    """

    def __init__(self, path: Path, snapshot: OffsetAndEpoch, lock: int) -> None:
        self._path, self._lock = path, lock
        self._part = path.with_name(path.name + PART)
        self._reader = SnapshotReader(end_offset=snapshot.offset, epoch=snapshot.epoch, sections=())
        try:
            self._file = open_file(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except BaseException:
            os.close(lock)
            raise

    def feed(self, part: bytes) -> None:
        """Check and write the next part. Raises what `SnapshotReader.feed` raises, OSError."""
        self._reader.feed(part)
        write_all(self._file, part)

    def finish(self) -> None:
        """Give the file its final name, and make it durable. Raises SnapshotIncomplete, OSError; then no file is
        left.
        """
        try:
            self._reader.finish()
            os.fsync(self._file)
            os.rename(self._part, self._path)
            sync_folder(self._path.parent)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Remove the temporary file and release the lock. It may be called more than once, also after `finish`."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        try:
            with suppress(OSError):
                os.unlink(self._part)
        finally:
            os.close(self._lock)
