"""The state file with the levels of request logs that were switched, so that they can be restored after a crash.

Opened by `target.py`. `start.py` writes it before it changes anything. A file belongs to one cluster, by its id, and
only one command at a time may change it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.clients.request_logging import LEVELS, LoggingSwitch, SwitchedBroker
from kafkafeatures.kafka.recorder.durable_files import open_file, sync_folder, write_all

KIND = "RequestLogging"
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_SIZE = 1 << 20  # bytes that are read


def default_path(cluster_id: str) -> Path:
    """The file of a cluster in the user's folder for state (XDG). Raises CommandFailed for an id that names no file."""
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise CommandFailed(f"cluster id {cluster_id[:64]!r} cannot be a file name; use --state FILE", Exit.USAGE)
    home = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "state"
    return folder / "kafkafeatures" / f"request-logging-{cluster_id}.json"


class SwitchFile:
    """The state file of one cluster."""

    def __init__(self, path: Path, cluster_id: str) -> None:
        self.path, self._cluster_id = path, cluster_id

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Context in which no other command may change the file. Raises CommandFailed if one is doing so, or if the
        file cannot be written. The lock is a file beside it, with the process id of the command.
        """
        lock = self.path.with_name(f"{self.path.name}.lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = open_file(lock, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise self._not_written(error) from None
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                process = os.pread(file, 20, 0).decode(errors="replace").strip()
                text = f"clients evidence start still runs, as process {process or 'unknown'}; end that one with Ctrl-C"
                raise CommandFailed(text, Exit.BLOCKED) from None
            os.ftruncate(file, 0)
            os.pwrite(file, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(file)

    def read(self) -> LoggingSwitch | None:
        """The content; None if there is no file. Raises CommandFailed if the file is of another kind or cluster."""
        try:
            with open(self.path, "rb") as stream:
                data = stream.read(_MAX_SIZE)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CommandFailed(f"{self.path}: {error.strerror}", Exit.USAGE) from None
        switch = _parsed(data)
        if switch is None:
            text = (
                f"{self.path} is not a {KIND} state file; move it away, and see the levels with clients evidence status"
            )
            raise CommandFailed(text, Exit.USAGE)
        if switch.cluster_id != self._cluster_id:
            text = f"{self.path} belongs to cluster {switch.cluster_id}, connected to {self._cluster_id}; use --state"
            raise CommandFailed(text, Exit.USAGE)
        return switch

    def write(self, switch: LoggingSwitch) -> None:
        """Write a new file to the disk, then rename that over the old one. Raises CommandFailed."""
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "clusterId": switch.cluster_id,
            "begin": switch.begin,
            "until": switch.until,
            "brokers": [
                {"id": each.broker, "before": each.before, "level": each.level, "process": each.process}
                for each in switch.brokers
            ],
        }
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            file = open_file(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                write_all(file, json.dumps(document, indent=2).encode() + b"\n")
                os.fsync(file)
            finally:
                os.close(file)
            beside.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            raise self._not_written(error) from None

    def remove(self) -> None:
        """Remove the file: nothing is left to restore."""
        self.path.unlink(missing_ok=True)

    def _not_written(self, error: OSError) -> CommandFailed:
        text = f"{self.path}: {error.strerror}: the levels of before cannot be recorded; use --state FILE"
        return CommandFailed(text, Exit.USAGE)


def _parsed(data: bytes) -> LoggingSwitch | None:
    """The content of a state file; None if the data is something else."""
    try:
        document = json.loads(data)
        if document["kind"] != KIND:
            return None
        brokers = tuple(
            SwitchedBroker(int(each["id"]), str(each["before"]), str(each["level"]), str(each["process"]))
            for each in document["brokers"]
        )
        switch = LoggingSwitch(str(document["clusterId"]), int(document["begin"]), int(document["until"]), brokers)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    is_sound = brokers and all(each.before in LEVELS and each.level in LEVELS for each in brokers)
    return switch if is_sound else None
