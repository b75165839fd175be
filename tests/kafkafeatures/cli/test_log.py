"""`log decode` and `log verify` on files: what they show, what they hide, and what they say of damage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from kafkafeatures.cli.log import command as log
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kraftlog.records import frame
from kraftlog.schema import table
from kraftlog.schema.others import USER_SCRAM_CREDENTIAL
from kraftlog.schema.types import UNKNOWN_TAGS
from tests.kraftlog.build import batch, no_op
from tests.kraftlog.dump import parse_dump
from tests.kraftlog.golden import CHANGES, FILES, SNAPSHOTS, batches_of, dump_of, name

FIRST = "00000000000000000000.log"
SECOND = "00000000000000000002.log"
THIRD = "00000000000000000003.log"
SECRET = b"salt-of-alice-9f3c"
CREDENTIAL = {
    "name": "alice", "mechanism": 1, "salt": SECRET, "storedKey": SECRET, "serverKey": SECRET, "iterations": 4096,
}  # fmt: skip


def segment(folder: Path, *batches: bytes) -> Path:
    path = folder / FIRST
    path.write_bytes(b"".join(batches))
    return path


@pytest.mark.parametrize("path", FILES, ids=name)
def test_log_decode_prints_every_record_as_the_dump_tool_does(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "decode", "-o", "json", str(path)]) == Exit.DONE
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    dumped = parse_dump(dump_of(path))
    assert [(one["offset"], one["type"]) for one in shown] == [(offset, kind) for offset, kind, _ in dumped]
    for one, (_, _, data) in zip(shown, dumped, strict=True):
        assert data is None or one["data"] == data
        assert one.keys() == {"offset", "timestamp", "type", "version", "data"}


@pytest.mark.parametrize("flags", [[], ["-o", "json"], ["--no-redact"]], ids=["text", "json", "no-redact"])
def test_log_decode_prints_large_files_like_small_ones(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    older = bytes((1, 12, 0, 2)) + b"a\0\1\0\5\0"
    config = frame(
        table.CONFIG, {"resourceType": 4, "resourceName": "1", "name": "sasl.jaas.config", "value": "hunter2"}
    )
    few = [frame(USER_SCRAM_CREDENTIAL, CREDENTIAL), older, bytes((1, 99, 0)) + SECRET, no_op() + b"\0"]
    many = [batch(at, *[no_op()] * 300, *[config] * 100, *few) for at in range(0, 2020, 404)]
    damaged = bytearray(batch(2020, no_op()))
    damaged[-1] ^= 1
    segment(tmp_path, CHANGES.read_bytes(), *many, bytes(damaged), batch(2021, no_op()))
    output = []
    for large in (0, 1 << 60):  # bytes from which on a file is large: each file is, then none is
        monkeypatch.setattr(log, "_LARGE", large)
        assert main(["log", "decode", *flags, str(tmp_path)]) == Exit.FAILED
        output.append(capsys.readouterr())
    assert output[0] == output[1]
    # CHANGES has 495 records, each of the 5 batches 404 (one of them unknown, so kept; one damaged), the last batch 1.
    assert "2516 records: 2506 decoded, 5 kept as bytes, 5 damaged" in output[0].err


def test_log_decode_reads_a_directory_and_prints_its_account_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "decode", str(CHANGES.parent)]) == Exit.DONE
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert len(lines) == 495  # this and the numbers below are those of the recorded log
    assert lines[187].split(maxsplit=4)[:4] == ["187", "2026-11-21T00:24:59.728Z", "KRAFT_VERSION", "v0"]
    assert output.err.endswith("39297 bytes, 486 batches, 495 records: 495 decoded, 0 kept as bytes, 0 damaged\n")


def test_log_decode_reads_segments_in_the_order_of_their_offsets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000002.log").write_bytes(batch(2, no_op()))
    segment(folder, batch(0, no_op(), no_op()))
    (folder / "00000000000000000003.log.deleted").write_bytes(b"no segment")
    assert main(["log", "decode", "-o", "json", str(tmp_path / "data")]) == Exit.DONE
    assert [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()] == [0, 1, 2]


def test_log_decode_prints_secrets_on_request_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unreadable = frame(USER_SCRAM_CREDENTIAL, CREDENTIAL) + b"\0"
    unknown = bytes((1, 99, 0)) + SECRET
    password = frame(
        table.CONFIG, {"resourceType": 4, "resourceName": "", "name": "sasl.jaas.config", "value": "jaas-9f3c"}
    )
    tagged = frame(table.NO_OP, {UNKNOWN_TAGS: ((9, SECRET),)})
    values = frame(USER_SCRAM_CREDENTIAL, CREDENTIAL), unreadable, unknown, password, tagged
    path = segment(tmp_path, batch(0, *values))
    for form in ("json", "text"):
        main(["log", "decode", "-o", form, str(path)])
        output = "".join(capsys.readouterr())
        assert "9f3c" not in output
        assert "c2FsdC1vZi1hbGljZS05ZjNj" not in output  # in base64
        assert "(redacted)" in output
        assert '"_unknownTags":[{"tag":9,"bytes":18}]' in output
    main(["log", "decode", "-o", "json", "--no-redact", str(path)])
    shown = capsys.readouterr().out
    assert shown.count("c2FsdC1vZi1hbGljZS05ZjNj") == 6  # three fields, two that are kept, a tag
    assert "jaas-9f3c" in shown
    assert len([json.loads(line) for line in shown.splitlines()]) == 5


def test_log_decode_reports_damage_in_place_and_continues_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(batch(0, no_op()) + batch(1, no_op()) + batch(2, no_op()))
    data[-1 - len(batch(2, no_op()))] ^= 1
    path = segment(tmp_path, bytes(data))
    assert main(["log", "decode", "-o", "json", str(path)]) == Exit.FAILED
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one.get("offset") for one in shown] == [0, None, None, 2]
    assert shown[1] == {
        "file": str(path), "position": 72, "size": 72,
        "damage": "the CRC-32C of the batch is wrong", "detail": "base offset 1",
    }  # fmt: skip
    assert main(["log", "verify", str(path)]) == Exit.FAILED
    output = capsys.readouterr().out
    assert "72 bytes damaged at byte 72: the CRC-32C of the batch is wrong (base offset 1)" in output
    assert "216 bytes, 2 batches, 2 records: 2 decoded, 0 kept as bytes, 0 damaged; 72 bytes damaged" in output


def test_log_verify_accepts_an_incomplete_batch_only_in_the_newest_segment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment(tmp_path, batch(0, no_op()), batch(1, no_op())[:-3])
    assert main(["log", "verify", str(tmp_path)]) == Exit.DONE
    assert "69 bytes behind the end" in capsys.readouterr().out  # a batch of one record has 72 bytes; 3 are cut off
    (tmp_path / "00000000000000000002.log").write_bytes(batch(2, no_op()))
    assert main(["log", "verify", str(tmp_path)]) == Exit.FAILED


def test_log_verify_accounts_for_every_byte_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", "-o", "json", str(CHANGES)]) == Exit.DONE
    (found,) = map(json.loads, capsys.readouterr().out.splitlines())
    shares = [share for kind in ("decoded", "kept", "damaged") for share in found[kind].values()]
    assert sum(share["bytes"] for share in shares) + found["headerBytes"] == found["bytes"] == 39297
    assert sum(share["records"] for share in shares) == 495
    assert found["sound"] is True


def test_log_decode_prints_no_control_characters_of_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\r\u202e=cmd"
    level = frame(table.FEATURE_LEVEL, {"name": hostile, "featureLevel": 1})
    path = segment(tmp_path, batch(0, level))
    for form in ("json", "text"):
        assert main(["log", "decode", "-o", form, str(path)]) == Exit.DONE
        output = "".join(capsys.readouterr())
        assert all(one.isprintable() or one == "\n" for one in output)


@pytest.mark.parametrize(
    ("path", "message"),
    [("nothing.log", "No such file"), ("empty", "no segment of a metadata log is here"), ("closed", "Is a directory")],
)
def test_an_invalid_path_gives_one_line(
    path: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "closed" / FIRST).mkdir(parents=True)
    assert main(["log", "decode", str(tmp_path / path)]) == Exit.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert len(output.err.splitlines()) == 1


def test_log_verify_accepts_an_empty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(segment(tmp_path))]) == Exit.DONE
    assert "0 bytes, 0 batches, 0 records" in capsys.readouterr().out


def test_log_verify_does_not_change_the_file_or_its_folder(tmp_path: Path) -> None:
    path = Path(shutil.copy(CHANGES, tmp_path / FIRST))
    path.chmod(0o444)
    before = path.stat()
    assert main(["log", "verify", str(tmp_path)]) == Exit.DONE
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)
    assert [one.name for one in tmp_path.iterdir()] == [FIRST]


A_BATCH = len(batch(0, no_op()))
"""Bytes of each batch of `three_segments`."""


def three_segments(folder: Path) -> None:
    segment(folder, batch(0, no_op()), batch(1, no_op()))
    (folder / SECOND).write_bytes(batch(2, no_op()))
    (folder / THIRD).write_bytes(batch(3, no_op()))


def cut(path: Path, size: int) -> None:
    os.truncate(path, path.stat().st_size - size)


def snapshot_at(folder: Path, end: int, *, without: int = 0) -> Path:
    """A snapshot of a node, without that many of its last batches, under another name."""
    path = folder / f"{end:020}-0000000001.checkpoint"
    batches = batches_of(SNAPSHOTS[0])
    path.write_bytes(b"".join(bytes(one.data) for one in batches[: len(batches) - without]))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / SECOND).unlink(), "ends at offset 2, but the next segment begins at 3"),
        (lambda folder: (folder / FIRST).unlink(), "the records before offset 2 are missing"),
        (lambda folder: cut(folder / FIRST, A_BATCH), "ends at offset 1, but the next segment begins at 2"),
        (lambda folder: cut(folder / SECOND, A_BATCH), "ends at offset 2, but the next segment begins at 3"),
        (lambda folder: (folder / THIRD).rename(folder / f"{9:020}.log"), "begins at offset 3, expected 9"),
        (lambda folder: snapshot_at(folder, 2, without=1), "the snapshot has no footer"),
        (lambda folder: (folder / f"{2:020}-0000000001.checkpoint").touch(), "the snapshot has no header"),
    ],
    ids=["middle", "first", "batch", "empty", "name", "footer", "snapshot"],
)
def test_log_verify_reports_missing_files_and_batches(
    change: Callable[[Path], object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    three_segments(tmp_path)
    assert main(["log", "verify", str(tmp_path)]) == Exit.DONE
    capsys.readouterr()
    change(tmp_path)
    assert main(["log", "verify", str(tmp_path)]) == Exit.FAILED
    assert message in capsys.readouterr().out
    assert main(["log", "verify", "-o", "json", str(tmp_path)]) == Exit.FAILED
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert any(message in text for one in documents for text in one["missing"])
    assert [one["sound"] for one in documents] == [not one["missing"] for one in documents]


def test_log_verify_lists_unfinished_and_deleted_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three_segments(tmp_path)
    checkpoint = f"{2:020}-0000000001.checkpoint"
    names = f"{checkpoint}.part", f"{checkpoint}.deleted", f"{0:020}.log.deleted", f"{9:020}.log.open-1795402638"
    for unfinished in names:
        (tmp_path / unfinished).write_bytes(b"?")
    assert main(["log", "verify", str(tmp_path)]) == Exit.DONE
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 3  # a line for each complete segment
    assert "the operator still records this segment" in output.err
    assert sorted(line.split(": ")[0] for line in output.err.splitlines()) == sorted(
        str(tmp_path / one) for one in names
    )
    assert main(["log", "decode", str(tmp_path)]) == Exit.DONE
    assert "not finished" not in capsys.readouterr().err


def test_log_verify_accepts_a_log_that_begins_with_a_complete_snapshot(tmp_path: Path) -> None:
    three_segments(tmp_path)
    (tmp_path / FIRST).unlink()
    snapshot_at(tmp_path, 1)
    assert main(["log", "verify", str(tmp_path)]) == Exit.FAILED
    snapshot_at(tmp_path, 2)
    assert main(["log", "verify", str(tmp_path)]) == Exit.DONE


def test_log_verify_accepts_a_single_snapshot_only_with_its_footer(tmp_path: Path) -> None:
    assert main(["log", "verify", str(snapshot_at(tmp_path, 5))]) == Exit.DONE
    assert main(["log", "verify", str(snapshot_at(tmp_path, 5, without=1))]) == Exit.FAILED


def test_log_verify_allows_a_cut_end_only_in_the_newest_segment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    three_segments(tmp_path)
    every = [str(tmp_path / one) for one in (FIRST, SECOND, THIRD)]
    cut(tmp_path / THIRD, 5)
    assert main(["log", "verify", *every]) == Exit.DONE
    cut(tmp_path / FIRST, 5)
    assert main(["log", "verify", *every]) == Exit.FAILED
    # The first segment has two batches of 72 bytes; the second one is cut by 5.
    assert "67 bytes damaged at byte 72: the last batch is cut" in capsys.readouterr().out


def test_log_decode_reports_damage_with_the_name_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    three_segments(tmp_path)
    path = tmp_path / SECOND
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert main(["log", "decode", str(tmp_path)]) == Exit.FAILED
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("#"))
    assert line.startswith(f"# {path}: 72 bytes damaged at byte 0")
    assert main(["log", "decode", "-o", "json", str(tmp_path)]) == Exit.FAILED
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["file"] for one in shown if "damage" in one] == [str(path)]


def test_a_file_truncated_during_reading_gives_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment(tmp_path, *(batch(at, no_op()) for at in range(10_000)))

    class Cutting(StringIO):
        def write(self, text: str) -> int:
            os.truncate(path, 100)
            return super().write(text)

    monkeypatch.setattr(sys, "stdout", Cutting())
    assert main(["log", "decode", str(path)]) == Exit.USAGE
    output = capsys.readouterr().err
    assert "changed while it was read" in output
    assert len(output.splitlines()) == 1


def test_a_pipe_in_place_of_a_log_file_is_refused_without_waiting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / FIRST
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)  # so that opening it never waits
    try:
        for path in (pipe, tmp_path, Path(os.devnull)):
            assert main(["log", "verify", str(path)]) == Exit.USAGE
            assert "not a regular file" in capsys.readouterr().err
    finally:
        os.close(writer)


@pytest.mark.parametrize("path", [CHANGES, SNAPSHOTS[0]], ids=["while it writes", "at its end"])
def test_a_full_output_device_gives_one_line(path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kafkafeatures", "log", "decode", path], stdout=full, stderr=subprocess.PIPE,
            text=True, check=False,
        )  # fmt: skip
    assert done.returncode == Exit.FAILED
    (line,) = done.stderr.splitlines()
    assert line == "kafkafeatures: stdout: No space left on device; what was written is not complete"
