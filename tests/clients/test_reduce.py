"""`kafkafeatures clients reduce`: exact counts whatever lies between the lines of requests, in bounded memory."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafeatures.client_files.logs import counting
from kafkafeatures.client_files.logs.counting import HOUR, RequestCounter, read_hours
from kafkafeatures.client_files.logs.lines import BLOCK, MAX_LINE
from kafkafeatures.core.words import format_time
from tests.bench.weighed import weighed
from tests.clients.request_lines import AT, LAYOUTS, body, naive, plain, strimzi

CLIENTS = ("etl", "", None, 'a"b', "spaced out", '},"request":', "ü\n", "x}")
REQUESTS = st.builds(
    body,
    st.sampled_from(("PRODUCE", "FETCH", "API_VERSIONS")),
    st.integers(0, 3),
    st.sampled_from(CLIENTS),
    correlation=st.integers(-(2**31), 2**31 - 1),
    address=st.sampled_from(("10.1.2.3", "10.9.9.9")),
    port=st.sampled_from((40_000, 40_001, 5)),
    principal=st.sampled_from(("User:etl", "User:CN=a,O=b c", 'User:"}} (kafka.request.logger)')),
    forwarded=st.booleans(),
    request=st.sampled_from(("", {"acks": 1}, {"topic": "with space"}, {"connection": "x-y:1-2"})),
    more=st.sampled_from(({}, {"temporaryMemoryBytes": 72, "messageConversionsTime": 11.6})),
)
STEPS = st.sampled_from((0, 1, 40, 60_000, HOUR // 3))
"""Times in ms from one line to the next."""
GARBAGE = st.one_of(
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"")),
    st.sampled_from((b"", b"[2026-11-28 03:22:46,145] INFO [SocketServer] hello (kafka.network.SocketServer)",
                     b"\tat kafka.Kafka.main", b"Completed request:{", b"\xff\xfe\x00" * 9)),
)  # fmt: skip


FEW = settings(max_examples=40)


def counted(data: bytes, size: int = 1 << 20) -> tuple[Counter[tuple[Any, ...]], RequestCounter]:
    """Count a log with the product; the keys are those of `naive`. `size`: bytes of each read."""
    counter, counts = RequestCounter(str), Counter[tuple[Any, ...]]()
    for hour in read_hours(io.BufferedReader(cast(io.RawIOBase, Chunks(data, size))), counter):
        total = 0
        for group, requests, last in hour.counts.rows():
            fields = json.loads(group)
            counts[format_time(hour.hour)[:13], *fields] += requests
            total += requests
            assert hour.hour <= last < hour.hour + HOUR
            assert last <= hour.last
        assert total == hour.lines == sum(hour.levels.values())
    return counts, counter


class Chunks(io.RawIOBase):
    """A file that returns at most `size` bytes for each read."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size = io.BytesIO(data), size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        piece = self.data.read(min(len(buffer), self.size))
        buffer[: len(piece)] = piece
        return len(piece)


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Lines of requests, those of one shape repeated, with anything between them."""
    layout = draw(st.sampled_from((plain, strimzi)))
    texts, at, lines = draw(st.lists(REQUESTS, min_size=1, max_size=6)), AT, []
    for text in draw(st.lists(st.sampled_from(texts), max_size=40)):
        at += draw(STEPS)
        lines.append(layout(at, text, draw(st.sampled_from(("DEBUG", "INFO")))).encode())
        lines += draw(st.lists(GARBAGE, max_size=1))
    return lines


@FEW
@given(logs(), st.sampled_from((7, 100, 5_000)))
def test_requests_are_counted_as_by_a_reading_line_by_line(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    assert counted(data, size)[0] == naive(lines)


@FEW
@given(logs(), st.data())
def test_only_complete_lines_of_a_log_are_counted_wherever_it_was_cut_and_continued(
    lines: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    later = lines[data.draw(st.integers(0, len(lines))) :]
    # After the cut, which may be within a line, the log goes on with some of its lines.
    cut = whole[: data.draw(st.integers(0, len(whole)))] + b"".join(line + b"\n" for line in later)
    assert counted(cut)[0] == naive(cut.split(b"\n")[:-1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_has_the_same_counts(layout) -> None:  # type: ignore[no-untyped-def]
    texts = [body(correlation=number) for number in range(5)] + [body("FETCH", 11, "other")]
    lines = [layout(AT + number, text).encode() for number, text in enumerate(texts)]
    counts, _ = counted(b"".join(line + b"\n" for line in lines))
    assert counts == naive(plain(AT, text).encode() for text in texts)
    assert sorted(counts.values()) == [1, 5]


@FEW
@given(st.lists(st.integers(0, 9_999), min_size=1))
def test_the_first_and_the_last_time_of_an_hour_are_those_of_all_its_lines_in_any_order(times: list[int]) -> None:
    counter = RequestCounter(str)
    counter.add([plain(AT + time, body()).encode() for time in times])
    (hour,) = counter.close()
    assert (hour.first, hour.last) == (AT + min(times), AT + max(times))


def test_a_line_that_a_crash_joined_from_two_requests_is_not_counted() -> None:
    first, second = plain(AT, body(client="first")), plain(AT, body(client="second"))
    lines = [first, first[: len(first) // 2] + second, first, second]
    counts, counter = counted("".join(line + "\n" for line in lines).encode())
    assert sum(counts.values()) == 3
    assert counts == naive(line.encode() for line in lines)
    assert counter.unattributed == (0, 0)


def test_the_numbers_of_rejected_and_other_lines_are_reported() -> None:
    line = plain(AT, body())
    data = f"hello\n{line}\n{line[:300]}\n[{'x' * (MAX_LINE + 2 * BLOCK)}\nhello\n".encode()
    (hour,) = read_hours(io.BytesIO(data), RequestCounter(str))
    assert (hour.lines, hour.rejected, hour.other_lines, hour.size) == (1, 2, 2, len(data))


def test_each_hour_is_counted_separately_and_at_most_three_hours_are_open() -> None:
    lines = "".join(plain(AT + number * HOUR, body()) + "\n" for number in range(6)).encode()
    counter = RequestCounter(str)
    counter.add(lines.split(b"\n"))
    # Six hours were added. The three newest stay open, as late lines may come; the others can be written.
    assert [hour.hour for hour in counter.complete()] == [AT // HOUR * HOUR + number * HOUR for number in range(3)]
    assert len(list(counter.close())) == 3


def test_above_the_maximum_of_groups_clients_are_joined_and_versions_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_GROUPS", 10)
    texts = [body("FETCH", number % 7, f"client-{number}") for number in range(500)]
    counts, _ = counted("".join(plain(AT, text) + "\n" for text in texts).encode())
    assert len(counts) == 10 + 7, "the maximum, and one group without a client for each version"
    assert sum(counts.values()) == 500
    others = {key[2]: count for key, count in counts.items() if key[5] is None}  # by version; key[5]: client id
    assert set(others) == set(range(7))


def test_clients_with_long_names_are_joined_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of 100 clients of 5,000 characters and more exceed the maximum of bytes, long before that of groups."""
    monkeypatch.setattr(counting, "MAX_NAMES", 100_000)
    texts = [body("FETCH", 3, f"{number}" * 5_000) for number in range(100)]
    counts, _ = counted("".join(plain(AT, text) + "\n" for text in texts).encode())
    assert sum(counts.values()) == 100
    assert len(counts) < 20


# 130,000 requests of as many clients, and two lines of 100 million bytes, each of which swallows a request.
HOSTILE = """
import random, sys
from tests.clients.request_lines import AT, body, plain
chance = random.Random(1)
pad = "x" * 300
for number in range(130_000):
    text = body("FETCH", 11, f"{chance.getrandbits(64):x}-{number}-{pad[:chance.randrange(300)]}", port=number % 60_000)
    sys.stdout.write(plain(AT + number, text) + "\\n")
    if number in (100, 80_000):
        for _ in range(100):
            sys.stdout.write("y" * 1_000_000)
sys.stdout.write("\\n")
"""


def test_reducing_a_hostile_log_takes_bounded_memory(tmp_path: Path) -> None:
    """The log that HOSTILE writes has more clients and longer lines than are stored."""
    source = [sys.executable, "-c", HOSTILE]
    command = [sys.executable, "-m", "kafkafeatures", "clients", "reduce", "--broker", "1", "--to", str(tmp_path)]
    run = weighed(["/bin/sh", "-c", f"{shlex.join(source)} | {shlex.join(command)}"])
    assert b"129998 requests" in run.output
    assert run.peak < 64 * 2**20
