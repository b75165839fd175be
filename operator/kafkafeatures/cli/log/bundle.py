"""Reads metadata logs from a support bundle: a tar, tar.gz or zip file from an untrusted source.

It decides which members are read, and limits their number, size and inflated size. Only files of metadata logs, and
`meta.properties`, are copied, all into one temporary file without a name, so that paths in a bundle cannot lead out of
a folder. Links and devices are ignored. Called by `cli/log/paths.py`.
"""

from __future__ import annotations

import gzip
import shlex
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Any

from kafkafeatures.cli.log.files import GZIP_MAGIC, OpenFile, open_regular, refused
from kafkafeatures.cli.log.folders import MAX_PROPERTIES, LogFolder, parse_properties
from kafkafeatures.cli.shell.exit_codes import CommandFailed
from kraftlog import files

MAX_MEMBERS = 100_000
"""Most members of a bundle, of any kind: each header has to be read."""
MAX_KEPT = 4 * 1024**3
"""Most bytes of metadata logs, all together; a node keeps about 100 MiB of its own by default."""
MAX_INFLATED = 16 * 1024**3
"""Most bytes of an uncompressed tar: all of it has to be read."""
MAX_NAME = 4096
"""Most characters of a member's path; members with longer ones are ignored."""
_PIECE = 1024 * 1024
"""Bytes that are copied at once, and the most bytes of a tar header."""
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_ZIP_MAGIC = b"PK\x03\x04"


class _MustBeUnpacked(Exception):
    """A bundle that is not read in place: it exceeds a limit, or is encrypted or compressed in another way. The text
    says which.
    """


def is_bundle(path: Path) -> bool:
    """True if the first bytes of a file are those of a gzip, zip or tar file; False for a file that cannot be read."""
    try:
        with OpenFile(path) as data:
            head = bytes(data[: _TAR_MAGIC_AT + len(_TAR_MAGIC)])
    except CommandFailed:
        return False
    return head[:2] == GZIP_MAGIC or head[:4] == _ZIP_MAGIC or head[_TAR_MAGIC_AT:] == _TAR_MAGIC


def of_bundle(path: Path) -> list[LogFolder]:
    """The logs in a bundle, named by their paths in it. Raises CommandFailed for a bundle that cannot be read, or has
    none.
    """
    try:
        members = _ExtractedFiles(path)
        with open_regular(path) as file:
            magic = file.read(4)
            file.seek(0)
            (_of_zip if magic == _ZIP_MAGIC else _of_tar)(members, file, magic)
    except _MustBeUnpacked as error:
        raise refused(path, f"{error}; unpack it, and give the directory") from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        if _is_one_file(path):
            kind = "one compressed file, and no archive"
            raise refused(path, f"{kind}; decompress it first: gunzip -k {shlex.quote(str(path))}") from None
        raise refused(path, f"the bundle is damaged or cut: {error}") from None
    except OSError as error:
        raise refused(path, error.strerror or f"the bundle is damaged or cut: {error}") from None
    except (ValueError, RuntimeError, OverflowError, IndexError, struct.error) as error:  # of the library's readers
        raise refused(path, f"the bundle cannot be read: {type(error).__name__}") from None
    folders = members.folders()
    if not folders:
        raise refused(
            path, f"no file of a metadata log is in this bundle; expected files like {files.DIRECTORY}/{0:020}.log"
        )
    return folders


def _is_one_file(path: Path) -> bool:
    """True if the file is compressed by gzip and contains no tar archive, which its first header would show."""
    try:
        with gzip.open(path) as source:
            head = source.read(_TAR_MAGIC_AT + len(_TAR_MAGIC))
    except (OSError, EOFError, zlib.error):
        return False
    return head[_TAR_MAGIC_AT:] != _TAR_MAGIC


@dataclass(slots=True)
class _ExtractedFiles:
    """Members copied out of a bundle into one file without a name. `places`: (position, size) of each member there.

    The file stays open while any of its logs is referenced, and is gone afterwards.
    """

    path: Path
    file: Any = field(default_factory=TemporaryFile)
    size: int = 0
    places: dict[PurePosixPath, tuple[int, int]] = field(default_factory=dict)
    names: dict[PurePosixPath, list[str]] = field(default_factory=dict)
    """Names of the files of the log in each directory, those that are compressed one by one too."""

    def __del__(self) -> None:
        if hasattr(self, "file"):  # False if creating the file failed
            self.file.close()

    def path_to_copy(self, name: str) -> PurePosixPath | None:
        """Path of a member in the bundle if it must be copied; else None. Notes the name of each file of a log. If
        several members have the same path, the first counts.
        """
        if len(name) > MAX_NAME:
            return None
        path = PurePosixPath(name.lstrip("/"))
        is_log = path.parent.name in (files.DIRECTORY, "")  # not in the folder of a topic
        is_segment = is_log and files.parse(path.name) is not None
        if is_segment or (is_log and files.compressed([path.name])):
            self.names.setdefault(path.parent, []).append(path.name)
        is_read = is_segment or path.name == files.PROPERTIES
        return path if is_read and ".." not in path.parts and path not in self.places else None

    def copy(self, path: PurePosixPath, source: IO[bytes]) -> None:
        """Copy a whole member of the bundle to the end of the file."""
        begin = self.size
        while part := source.read(_PIECE):
            self.size += len(part)
            if self.size > MAX_KEPT:
                raise _MustBeUnpacked(f"more than {MAX_KEPT} bytes of metadata logs in it")
            self.file.write(part)
        self.places[path] = begin, self.size - begin

    def folders(self) -> list[LogFolder]:
        """A log for each directory with files of a metadata log."""
        for folder, names in self.names.items():
            if compressed := files.compressed(names):
                inside = f"{folder / next(iter(compressed))} in it is compressed by itself"
                raise refused(self.path, f"{inside}; unpack the bundle, decompress its files, and give the directory")
        self.file.flush()
        logs: dict[PurePosixPath, list[str]] = {}
        for path in sorted(self.places):
            if path.name != files.PROPERTIES:
                logs.setdefault(path.parent, []).append(path.name)
        return [
            LogFolder(f"{self.path}:{folder}", tuple(names), partial(self._opened, folder), self._properties(folder))
            for folder, names in logs.items()
        ]

    def _opened(self, folder: PurePosixPath, name: str) -> OpenFile:
        return _Member(self, Path(f"{self.path}:{folder / name}"), *self.places[folder / name])

    def _properties(self, folder: PurePosixPath) -> dict[str, str]:
        """`meta.properties` of the node: a node has it beside `__cluster_metadata-0`, bundles may have it inside."""
        for path in (folder.parent / files.PROPERTIES, folder / files.PROPERTIES):
            if path in self.places:
                return parse_properties(bytes(_Member(self, self.path, *self.places[path])[0:MAX_PROPERTIES]))
        return {}


class _Member(OpenFile):
    """The bytes of one member, `size` of them from position `begin` of the common file. shown: its path in messages."""

    def __init__(self, extracted: _ExtractedFiles, shown: Path, begin: int, size: int) -> None:
        self._extracted = extracted  # keeps the common file open
        self._path, self._file, self._begin, self._size = shown, extracted.file, begin, size
        self._start, self._piece = 0, b""

    def __exit__(self, *_: object) -> None:
        """Close nothing: other members are in the same file."""


def _of_zip(extracted: _ExtractedFiles, file: IO[bytes], _: bytes) -> None:
    """Copy the files of logs out of a zip file."""
    with zipfile.ZipFile(file) as bundle:
        members = bundle.infolist()
        if len(members) > MAX_MEMBERS:
            raise _MustBeUnpacked(f"more than {MAX_MEMBERS} members in it")
        for member in members:
            path = extracted.path_to_copy(member.filename)
            kind = stat.S_IFMT(member.external_attr >> 16)  # 0 if the zip was not made on Unix
            if path is None or member.is_dir() or kind not in (0, stat.S_IFREG):
                continue
            if member.flag_bits & 1:  # encrypted
                raise _MustBeUnpacked("its members are encrypted")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise _MustBeUnpacked("its members are compressed in another way than deflate")
            with bundle.open(member) as source:
                extracted.copy(path, source)


def _of_tar(extracted: _ExtractedFiles, file: IO[bytes], magic: bytes) -> None:
    """Copy the files of logs out of a tar file, which gzip may have compressed. `magic`: its first bytes."""
    source: IO[bytes] = gzip.GzipFile(fileobj=file) if magic[:2] == GZIP_MAGIC else file  # type: ignore[assignment]  # only read, seek and tell are used
    with tarfile.open(fileobj=_Bounded(source), mode="r:") as bundle:  # type: ignore[call-overload]  # the same three
        for member in _members(bundle):
            path = extracted.path_to_copy(member.name)
            if path is None or not member.isreg():
                continue
            content = bundle.extractfile(member)
            if content is not None:
                extracted.copy(path, content)


def _members(bundle: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for _ in range(MAX_MEMBERS):
        member = bundle.next()
        if member is None:
            return
        yield member
        bundle.members = []  # type: ignore[attr-defined]  # it would keep them all, and the stubs do not show it
    raise _MustBeUnpacked(f"more than {MAX_MEMBERS} members in it")


class _Bounded:
    """A file object for `tarfile` that limits reads to `_PIECE` and positions to `MAX_INFLATED`: `tarfile` reads a long
    name or header as a whole, and skips a member by seeking behind it.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _PIECE:
            raise _MustBeUnpacked(f"a header of {size} bytes in it")
        return self._source.read(size)

    def tell(self) -> int:
        return self._source.tell()

    def seek(self, position: int, whence: int = 0) -> int:
        if not 0 <= position <= MAX_INFLATED:
            raise _MustBeUnpacked(f"more than {MAX_INFLATED} bytes in it")
        return self._source.seek(position, whence)
