"""Files that are not what their name says: compressed ones, and the text of another tool."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest

from kafkafeatures.cli.log.paths import files_at, log_folder
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.main import main
from tests.kraftlog.golden import LOGS

SEGMENT, SNAPSHOT = f"{0:020}.log", f"{442:020}-{9:010}.checkpoint"
DUMP = "Dumping /kafka/__cluster_metadata-0/00000000000000000000.log\nLog starting offset: 0\nbaseOffset: 0\n"


def refused(path: Path) -> str:
    words = []
    for read in (lambda: [one.opened() for one in files_at([path], snapshots=False)], lambda: log_folder(path)):
        with pytest.raises(CommandFailed) as caught:
            read()
        words.append(str(caught.value))
    assert words[0] == words[1]
    return words[0]


@pytest.mark.parametrize("name", [SEGMENT, "dump.txt", "anything.log", f"{5:020}-{3:010}.checkpoint"])
def test_the_text_of_kafka_dump_log_is_recognised_by_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(DUMP)
    assert "this is text, for example of kafka-dump-log.sh" in refused(tmp_path / name)


@pytest.mark.parametrize("name", [f"{SEGMENT}.gz", "of-an-issue.gz"])
def test_a_compressed_file_is_refused_with_the_command_that_decompresses_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(bytes(100)))
    assert f"decompress it first: gunzip -k {tmp_path / name}" in refused(tmp_path / name)


def test_a_compressed_segment_without_its_file_ending_is_recognised(tmp_path: Path) -> None:
    (tmp_path / SEGMENT).write_bytes(gzip.compress(bytes(100)))
    assert "it is compressed with gzip; decompress it first" in refused(tmp_path / SEGMENT)


def test_a_truncated_archive_is_reported_as_a_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "bundle.tar.gz").write_bytes(gzip.compress(b"x" * 257 + b"ustar" + bytes(100))[:-8])
    assert "damaged or cut" in refused(tmp_path / "bundle.tar.gz")


@pytest.mark.parametrize(
    ("end", "command"),
    [(".gz", "gunzip -k"), (".zst", "unzstd"), (".xz", "unxz -k"), (".bz2", "bunzip2 -k"), (".lz4", "unlz4 -k")],
)
def test_the_decompression_command_follows_from_the_file_name(tmp_path: Path, end: str, command: str) -> None:
    (tmp_path / f"{SEGMENT}{end}").write_bytes(bytes(100))
    assert f"decompress it first: {command} {tmp_path / SEGMENT}{end}" in refused(tmp_path / f"{SEGMENT}{end}")


WHOLE = ["log decode", "log verify", "log state", "log timeline", "log ghosts", "describe --from"]


def refusal(capsys: pytest.CaptureFixture[str], command: str, path: Path) -> str:
    """The refusal of each command, which must not show a log without its compressed files."""
    assert main([*command.split(), str(path)]) == Exit.USAGE
    shown = capsys.readouterr()
    assert not shown.out
    return shown.err.removeprefix("kafkafeatures: ").rstrip("\n")


@pytest.mark.parametrize("command", WHOLE)
@pytest.mark.parametrize("beside", [(), (SNAPSHOT,), (f"{252:020}.log",)], ids=["alone", "a snapshot", "a segment"])
def test_a_log_with_a_compressed_segment_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, beside: tuple[str, ...]
) -> None:
    folder = log_of(tmp_path, beside)
    output = refusal(capsys, command, folder)
    assert output == f"{folder}: {SEGMENT}.gz is compressed; decompress it first: gunzip -k {folder / SEGMENT}.gz"


@pytest.mark.parametrize("command", WHOLE)
def test_a_bundle_with_a_compressed_segment_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    folder = log_of(tmp_path, (SNAPSHOT,))
    with tarfile.open(tmp_path / "bundle.tar.gz", "w:gz") as bundle:
        bundle.add(folder, "node-1/__cluster_metadata-0")
    output = refusal(capsys, command, tmp_path / "bundle.tar.gz")
    assert f"node-1/__cluster_metadata-0/{SEGMENT}.gz in it is compressed by itself; unpack the bundle" in output


def test_several_compressed_files_are_answered_with_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = log_of(tmp_path, ())
    (folder / f"{SNAPSHOT}.gz").write_bytes(gzip.compress(bytes(100)))
    assert f"decompress them first: gunzip -k {folder}/*.gz" in refusal(capsys, "log state", folder)


def test_a_compressed_copy_of_a_segment_and_foreign_compressed_files_are_ignored(tmp_path: Path) -> None:
    folder = log_of(tmp_path, (SEGMENT, "dump.txt.gz", f"{SEGMENT}.dump.txt.gz", "00000000000000000000.index.gz"))
    assert main(["log", "verify", str(folder)]) == Exit.DONE


def log_of(folder: Path, names: tuple[str, ...]) -> Path:
    """The directory of a log whose first segment is compressed, with these files of the same log beside it."""
    log = folder / "__cluster_metadata-0"
    log.mkdir()
    data = (LOGS / "4.2.0-feature-changes" / SEGMENT).read_bytes()
    (log / f"{SEGMENT}.gz").write_bytes(gzip.compress(data))
    for name in names:
        source = LOGS / "4.2.0-feature-changes" / name
        (log / name).write_bytes(source.read_bytes() if source.exists() else data)
    return log
