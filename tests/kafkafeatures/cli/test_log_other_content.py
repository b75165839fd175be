"""Files that are not what their name says: compressed ones, and the text of another tool."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kafkafeatures.cli.log.paths import found, log_folder
from kafkafeatures.cli.shell.exit_codes import CommandFailed

SEGMENT = f"{0:020}.log"
DUMP = "Dumping /kafka/__cluster_metadata-0/00000000000000000000.log\nLog starting offset: 0\nbaseOffset: 0\n"


def refused(path: Path) -> str:
    words = []
    for read in (lambda: [one.opened() for one in found([path], snapshots=False)], lambda: log_folder(path)):
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
def test_one_compressed_file_is_answered_with_how_to_decompress_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(bytes(100)))
    assert f"decompress it first: gunzip -k {tmp_path / name}" in refused(tmp_path / name)


def test_a_compressed_segment_that_lost_its_ending_is_recognised_too(tmp_path: Path) -> None:
    (tmp_path / SEGMENT).write_bytes(gzip.compress(bytes(100)))
    assert "it is compressed with gzip; decompress it first" in refused(tmp_path / SEGMENT)


def test_an_archive_that_is_cut_is_still_an_archive(tmp_path: Path) -> None:
    (tmp_path / "bundle.tar.gz").write_bytes(gzip.compress(b"x" * 257 + b"ustar" + bytes(100))[:-8])
    assert "damaged or cut" in refused(tmp_path / "bundle.tar.gz")
