"""A recorded log on disk: its bytes are those that were fetched, also after the process is killed at any call."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafeatures.kafka.log.batch_heads import heads
from kafkafeatures.kafka.recorder.recorded_log import Busy, Contradicts, RecordedLog
from kafkafeatures.kafka.recorder.whole_batches import NotWhole
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kraftlog import SnapshotIncomplete, files, walk
from kraftlog.batches import Damage
from tests.kraftlog.build import batch, broker, level, no_op, snapshot

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
ALL = 10**9
START = 1_795_000_000.0


def recorded(folder: Path, close_at: int = 400, clock: Callable[[], float] = lambda: START) -> RecordedLog:
    """The recording in a folder. `close_at`: bytes after which a segment is closed; an hour closes it as well."""
    return RecordedLog(folder / ID / "recorder-a_b", ID, close_at=close_at, close_after=3600, clock=clock)


def log(sizes: list[int], start: int = 0) -> list[bytes]:
    """Batches with these numbers of records."""
    found = []
    for size in sizes:
        found.append(batch(start, *[no_op()] * size, epoch=1 + start // 7))
        start += size
    return found


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in (folder / ID / "recorder-a_b" / files.DIRECTORY).iterdir())


def content(folder: Path) -> bytes:
    """The bytes of all segments, the open one as well, in the order of their offsets; each begins where its
    name says.
    """
    found = b""
    for path in sorted((folder / ID / "recorder-a_b" / files.DIRECTORY).glob("*.log*")):
        data = path.read_bytes()
        assert not data or int(path.name[:20]) == int.from_bytes(data[:8])
        found += data
    return found


@settings(max_examples=30, deadline=None)  # each waits for the disk
@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(1, 1000))
def test_batches_are_recorded_once_and_in_order_however_the_log_is_served(
    data: st.DataObject, sizes: list[int], close_at: int
) -> None:
    """Replies overlap, end in the middle of a batch and contain uncommitted records; processes end and start again."""
    batches = log(sizes)
    whole = b"".join(batches)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        one, steps = recorded(place, close_at), 0
        while len(held := content(place) if one.position() else b"") < len(whole):
            end = one.position() or OffsetAndEpoch(0, 0)
            back = data.draw(st.integers(0, len(held)))
            start = max((at for at, *_ in heads(whole) if at <= back), default=0)
            stop = data.draw(st.integers(len(held), len(whole)))
            steps += 1
            # After a few steps everything is served, so that the test ends.
            stop, below = (stop, data.draw(st.integers(0, sum(sizes)))) if steps < 8 else (len(whole), ALL)
            one.append(whole[start:stop], at=end.offset, below=below)
            if data.draw(st.booleans()):
                one = recorded(place, close_at)
            assert whole.startswith(content(place))
        assert content(place) == whole


@settings(max_examples=30, deadline=None)  # each waits for the disk
@given(st.data(), st.lists(st.integers(1, 4), min_size=2, max_size=20), st.binary(max_size=200))
def test_only_whole_batches_of_an_open_segment_count(data: st.DataObject, sizes: list[int], garbage: bytes) -> None:
    whole = b"".join(log(sizes))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        recorded(place, 10**6).append(whole, at=0, below=ALL)
        (opened,) = place.rglob("*.open-*")
        kept = data.draw(st.integers(0, len(whole)))
        opened.write_bytes(whole[:kept] + garbage)
        one = recorded(place, 10**6)
        end = one.position()
        assert (end.offset if end else 0) == max(
            (last + 1 for at, size, last, _ in heads(whole) if at + size <= kept), default=0
        )
        one.append(whole, at=end.offset if end else 0, below=ALL)
        assert content(place) == whole


def keep(one: RecordedLog, id_: OffsetAndEpoch, *parts: bytes) -> None:
    """Record a snapshot that arrives in these parts."""
    new = one.new_snapshot(id_)
    try:
        for part in parts:
            new.feed(part)
        new.finish()
    finally:
        new.abandon()


class Killed(BaseException):
    """Raised at the call at which the process is killed."""


CALLS = ["write", "fsync", "fdatasync", "rename", "unlink", "open", "ftruncate"]


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Make the call with this number the last one of the process; if it is a write, half of it is written."""
    left = itertools.count()

    def killed(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(left) < number:
                return real(*arguments, **options)
            if name == "write" and next(left) == number + 1:  # only at the first call that is not made
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            raise Killed

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, killed(name, getattr(os, name)))


def test_a_recorder_killed_before_any_system_call_loses_and_repeats_no_batch(tmp_path: Path) -> None:
    """A kill between any two calls, or in the middle of any write: the next process continues with the same log."""
    batches, snap = log([1, 3, 2, 4, 1, 1]), snapshot(broker(1, 1))
    whole = b"".join(batches)

    def record(one: RecordedLog, acknowledged: list[int]) -> None:
        while (position := one.position() or OffsetAndEpoch(0, 0)).offset < 12:  # the batches have 12 records
            at = next(at for at, _, last, _ in heads(whole) if last >= position.offset)
            acknowledged.append(one.append(whole[at : at + 250], at=position.offset, below=ALL).end.offset)
            if not one.snapshots() and position.offset > 3:
                keep(one, OffsetAndEpoch(4, 1), snap)
        one.close_segment(if_due=False)

    killed = 0
    for number in itertools.count():
        place, acknowledged = tmp_path / str(number), list[int]()
        place.mkdir()
        with pytest.MonkeyPatch.context() as monkeypatch:
            kill_at(monkeypatch, number)
            try:
                record(recorded(place), acknowledged)
            except Killed:
                killed += 1
            else:
                break
        again = recorded(place)
        position = again.position()
        assert (position.offset if position else 0) >= max(acknowledged, default=0)
        record(again, [])
        assert content(place) == whole
        assert [one for one in names(place) if files.parse(one) is None] == []
        assert (place / ID / "recorder-a_b" / files.PROPERTIES).read_text().endswith(f"cluster.id={ID}\n")
        for path in place.rglob("*.checkpoint"):
            assert path.read_bytes() == snap
    assert killed > 40  # recording takes more than 40 calls


CHILD = """
import sys
from pathlib import Path
from kafkafeatures.kafka.recorder.recorded_log import RecordedLog
from tests.kraftlog.build import batch, no_op

one = RecordedLog(Path(sys.argv[1]), sys.argv[2], close_at=4000, close_after=3600, clock=lambda: 1795000000.0)
position = one.position()
offset = position.offset if position else 0
while True:
    data = batch(offset, no_op(), no_op()) + batch(offset + 2, *[no_op()] * 40)
    offset = one.append(data, at=offset, below=10**9).end.offset
    print(offset, flush=True)
"""


def test_a_recorder_killed_repeatedly_leaves_one_log_without_a_gap(tmp_path: Path) -> None:
    folder = tmp_path / ID / "recorder-a_b"
    for lines in (1, 7, 23, 60):
        command = [sys.executable, "-c", CHILD, str(folder), ID]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            said = [int(child.stdout.readline()) for _ in range(lines)]
            child.send_signal(signal.SIGKILL)
            said += [int(one) for one in child.stdout.read().split("\n")[:-1]]
        position = recorded(tmp_path).position()
        assert position is not None
        assert position.offset >= max(said)
    found = list(walk(content(tmp_path)))
    assert not any(isinstance(one, Damage) for one in found)
    assert len(names(tmp_path)) > 5  # several segments were closed


def test_uncommitted_batches_are_recorded_once_they_are_committed(tmp_path: Path) -> None:
    first, second = log([2, 2])
    one = recorded(tmp_path)
    assert one.append(first + second, at=0, below=3).end == OffsetAndEpoch(2, 1)
    assert one.append(second, at=2, below=4).size == len(second)
    assert content(tmp_path) == first + second


def test_a_gap_begins_a_segment_at_its_true_offset(tmp_path: Path) -> None:
    one = recorded(tmp_path, close_at=10**6)
    one.append(batch(0, no_op(), no_op()), at=0, below=ALL)
    done = one.append(batch(50, no_op(), epoch=4), at=50, below=ALL)
    assert (done.gap, done.began, done.end) == (True, True, OffsetAndEpoch(51, 4))
    assert names(tmp_path) == [f"{0:020}.log", f"{50:020}.log.open-{int(START)}"]


def test_batches_that_contradict_the_recorded_log_are_not_written(tmp_path: Path) -> None:
    one = recorded(tmp_path)
    one.append(batch(0, no_op(), no_op(), epoch=5), at=0, below=ALL)
    before = content(tmp_path)
    with pytest.raises(Contradicts, match="leader epoch 4 at offset 2 after epoch 5"):
        one.append(batch(2, no_op(), epoch=4), at=2, below=ALL)
    with pytest.raises(Contradicts, match="from offset 1 on goes over offset 2"):
        one.append(batch(1, no_op(), no_op(), epoch=6), at=2, below=ALL)
    with pytest.raises(NotWhole, match="served offset 3, and was asked for 2"):
        one.append(batch(3, no_op(), epoch=6), at=2, below=ALL)
    assert content(tmp_path) == before


def test_a_batch_whose_checksum_is_wrong_is_not_written(tmp_path: Path) -> None:
    one, data = recorded(tmp_path), bytearray(batch(0, level("metadata.version", 21)))
    data[-3] ^= 1
    with pytest.raises(NotWhole, match="CRC"):
        one.append(batch(0, no_op()) + bytes(data), at=0, below=ALL)
    with pytest.raises(NotWhole, match="does not start where the one before it ended"):
        one.append(batch(0, no_op()) + batch(4, no_op()), at=0, below=ALL)
    assert one.position() is None


def test_an_old_segment_is_closed_even_if_the_clock_was_set_back(tmp_path: Path) -> None:
    now = [START]
    one = recorded(tmp_path, 10**6, lambda: now[0])
    # (offset of the next batch, seconds by which the clock moves before it, segments that are closed then)
    for offset, seconds, closed in ((0, 0, 0), (1, 3599, 0), (2, 1, 1), (3, -9000, 2)):
        now[0] += seconds
        one.append(batch(offset, no_op()), at=offset, below=ALL)
        assert sum(name.endswith(".log") for name in names(tmp_path)) == closed
    now[0] += 3600
    one.append(b"", at=4, below=ALL)  # also of a log to which nothing comes any more
    assert names(tmp_path) == [f"{0:020}.log", f"{2:020}.log", f"{3:020}.log"]
    assert recorded(tmp_path).position() == OffsetAndEpoch(4, 1)


def test_two_writers_of_one_recording_continue_after_each_other(tmp_path: Path) -> None:
    one, other = recorded(tmp_path), recorded(tmp_path)
    batches = log([1, 2, 3, 1, 2, 3, 1])
    for writer, data in zip(itertools.cycle((one, other, other)), batches, strict=False):
        position = writer.position()
        writer.append(data, at=position.offset if position else 0, below=ALL)
    one.append(batches[-1], at=12, below=ALL)  # what the other one has written meanwhile
    assert content(tmp_path) == b"".join(batches)


def test_a_locked_recording_names_the_process_that_has_to_wait(tmp_path: Path) -> None:
    one = recorded(tmp_path)
    one.append(batch(0, no_op()), at=0, below=ALL)
    with (one.folder / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Busy, match="another process records here"):
            one.append(batch(1, no_op()), at=1, below=ALL)
    one.append(batch(1, no_op()), at=1, below=ALL)


def test_a_full_disk_keeps_the_batches_recorded_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, more = recorded(tmp_path), batch(1, no_op())
    one.append(batch(0, no_op()), at=0, below=ALL)
    real, calls = os.write, itertools.count()

    def full(file: int, data: Any) -> int:
        if next(calls):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, bytes(data)[:10])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            one.append(more, at=1, below=ALL)
    assert content(tmp_path) == batch(0, no_op())
    one.append(more, at=1, below=ALL)
    assert content(tmp_path) == batch(0, no_op()) + more


def test_recorded_bytes_are_synced_before_they_are_acknowledged_or_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power cannot be cut in a test, so the test compares the order of the calls."""
    calls: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any) -> Any:
            calls.append(name)
            return real(*words)

        return call

    for name in ("write", "fdatasync", "fsync", "rename"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    one = recorded(tmp_path, close_at=1)
    one.append(batch(0, no_op()), at=0, below=ALL)
    calls.clear()
    one.append(batch(1, no_op()), at=1, below=ALL)
    assert calls == ["rename", "fsync", "fsync", "write", "fdatasync"]  # the old segment, the folder twice, the new one
    calls.clear()
    keep(one, OffsetAndEpoch(1, 1), snapshot())
    assert calls == ["write", "fsync", "rename", "fsync"]


def test_recorded_files_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        one = recorded(tmp_path, close_at=1)
        one.append(b"".join(log([1, 1])), at=0, below=ALL)
        one.append(batch(2, no_op()), at=2, below=ALL)
        keep(one, OffsetAndEpoch(1, 1), snapshot())
    finally:
        os.umask(before)
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {True: 0o700, False: 0o600}


def test_a_recorded_snapshot_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    one, data = recorded(tmp_path), snapshot(broker(1, 1), epoch=3)
    with pytest.raises(SnapshotIncomplete):
        keep(one, OffsetAndEpoch(9, 3), data[:-1])
    assert names(tmp_path) == []
    new = one.new_snapshot(OffsetAndEpoch(9, 3))
    with pytest.raises(Busy):
        one.append(batch(0, no_op()), at=0, below=ALL)
    new.abandon()
    assert names(tmp_path) == []
    keep(one, OffsetAndEpoch(9, 3), data[:70], data[70:])
    (path,) = tmp_path.rglob("*.checkpoint")
    assert path.read_bytes() == data
    assert files.parse(path.name) == files.Snapshot(path.name, 9, 3)
    assert one.position() is None  # it is no part of the log


def test_segments_are_removed_only_behind_a_snapshot(tmp_path: Path) -> None:
    one = recorded(tmp_path, close_at=1)
    for offset in range(0, 8, 2):
        one.append(batch(offset, no_op(), no_op()), at=offset, below=ALL)
    assert one.remove_oldest() == 0
    for end in (1, 3):
        keep(one, OffsetAndEpoch(end, 1), snapshot())
    assert one.remove_oldest() == len(batch(0, no_op(), no_op())) + len(snapshot())
    assert names(tmp_path)[:3] == [f"{2:020}.log", f"{3:020}-{1:010}.checkpoint", f"{4:020}.log"]
    assert one.remove_oldest() == 0
    assert one.position() == OffsetAndEpoch(8, 1)
    size = one.size()
    assert one.remove() == size
    assert not one.folder.exists()
    assert one.position() is None


def test_an_existing_segment_is_never_overwritten(tmp_path: Path) -> None:
    one = recorded(tmp_path, 10**6)
    one.append(batch(0, no_op()), at=0, below=ALL)
    (one.folder / files.DIRECTORY / f"{0:020}.log").write_bytes(b"of somebody else")
    with pytest.raises(Contradicts):
        one.append(batch(1, no_op()), at=1, below=ALL)
    with pytest.raises(Contradicts):
        recorded(tmp_path).close_segment(if_due=False)


def test_a_recording_with_an_unreadable_closed_segment_is_not_continued(tmp_path: Path) -> None:
    one = recorded(tmp_path, 10**6)
    one.append(batch(0, no_op()), at=0, below=ALL)
    one.close_segment(if_due=False)
    (path,) = tmp_path.rglob("*.log")
    path.write_bytes(bytes(100))
    with pytest.raises(Contradicts, match="holds no batch that can be read"):
        recorded(tmp_path).position()
