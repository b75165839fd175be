"""Lines of logs: only complete lines are read, however a log is cut, compressed, or wrapped by a container runtime."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafeatures.client_files.logs.events import LogEvent, parse_event
from kafkafeatures.client_files.logs.lines import BLOCK, MAX_LINE, ContainerLog, LogUnreadable, open_log, uncompressed

FEW = settings(max_examples=40)
TEXTS = st.lists(st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=30), max_size=12)


class Drip(io.RawIOBase):
    """A pipe that returns up to 39 bytes at a time."""

    def __init__(self, data: bytes, sizes: random.Random) -> None:
        self.data, self.sizes = data, sizes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        count = min(len(buffer), self.sizes.randrange(1, 40))
        piece, self.data = self.data[:count], self.data[count:]
        buffer[: len(piece)] = piece
        return len(piece)


def lines_of(data: bytes, log: ContainerLog | None = None) -> list[bytes]:
    stream = uncompressed(io.BytesIO(data))
    return [line for batch in (log or ContainerLog()).batches(stream) for line in batch]


def cri(text: str, cuts: random.Random, stream: str = "stdout") -> list[str]:
    """A line as containerd writes it: in parts marked P, the last of them marked F."""
    time = "2026-11-28T03:22:46.145123456Z"
    parts = []
    while len(text) > 1 and cuts.random() < 0.5:
        place = cuts.randrange(1, len(text))
        parts.append(f"{time} {stream} P {text[:place]}\n")
        text = text[place:]
    return [*parts, f"{time} {stream} F {text}\n"]


def docker(text: str, cuts: random.Random) -> list[str]:
    """A line as Docker writes it: JSON of its parts, the last of them with the end of the line."""
    place = cuts.randrange(len(text) + 1)
    pieces = [piece for piece in (text[:place], text[place:] + "\n") if piece]
    return [json.dumps({"log": piece, "stream": "stdout", "time": "2026-11-28T03:22:46Z"}) + "\n" for piece in pieces]


@FEW
@given(TEXTS, st.randoms(use_true_random=False))
def test_lines_do_not_depend_on_where_a_pipe_cuts_them(texts: list[str], sizes: random.Random) -> None:
    data = "".join(f"[{text}\n" for text in texts).encode()
    stream = uncompressed(io.BufferedReader(cast(io.RawIOBase, Drip(data, sizes))))
    lines = [line for batch in ContainerLog().batches(stream) for line in batch]
    assert lines == [f"[{text}".encode() for text in texts]


@pytest.mark.parametrize("wrap", [cri, docker])
@FEW
@given(texts=TEXTS, cuts=st.randoms(use_true_random=False))
def test_a_log_wrapped_by_a_container_runtime_has_the_lines_of_the_plain_log(
    wrap: Callable[[str, random.Random], list[str]], texts: list[str], cuts: random.Random
) -> None:
    data = "".join(piece for text in texts for piece in wrap(text, cuts)).encode()
    assert lines_of(data) == [text.encode() for text in texts]


def test_parts_of_lines_of_stdout_and_stderr_are_not_joined_with_each_other() -> None:
    out, errors = (
        ["2026-11-28T03:22:46Z stdout P [a", "2026-11-28T03:22:46Z stdout F b"],
        ["2026-11-28T03:22:46+01:00 stderr P [c", "2026-11-28T03:22:46+01:00 stderr F d"],
    )
    data = "\n".join((out[0], errors[0], out[1], errors[1], "")).encode()
    assert lines_of(data) == [b"[ab", b"[cd"]


def test_a_last_line_without_its_end_is_not_read_yet() -> None:
    assert lines_of(b"[a\n[b") == [b"[a"]
    assert lines_of(b"2026-11-28T03:22:46Z stdout P [a\n") == []


def test_a_line_that_is_too_long_is_counted_and_skipped() -> None:
    log = ContainerLog()
    data = b"[a\n" + b"[" + b"x" * (MAX_LINE + 3 * BLOCK) + b"\n[b\n"
    assert lines_of(data, log) == [b"[a", b"[b"]
    assert log.counts.too_long == 1
    assert log.counts.size == len(data)


def test_a_line_that_is_too_long_in_parts_is_counted_and_skipped() -> None:
    log = ContainerLog()
    part = b"2026-11-28T03:22:46Z stdout P " + b"x" * BLOCK + b"\n"
    data = part * (2 * MAX_LINE // BLOCK) + b"2026-11-28T03:22:46Z stdout F y\n2026-11-28T03:22:46Z stdout F [b\n"
    assert lines_of(data, log) == [b"[b"]
    assert log.counts.too_long == 1


def test_an_invalid_line_of_docker_is_counted_as_malformed() -> None:
    log = ContainerLog()
    valid = json.dumps({"log": "x\n", "stream": "stdout"}).encode() + b"\n"
    assert lines_of(b'{"log":7}\n' + valid + b'{"log":"\xff\n', log) == [b"x"]
    assert log.counts.malformed == 2


def test_a_compressed_log_of_several_members_has_all_lines() -> None:
    assert lines_of(gzip.compress(b"[a\n") + gzip.compress(b"[b\n")) == [b"[a", b"[b"]


@pytest.mark.parametrize("length", [11, 30], ids=["just after the header", "within the data"])
def test_a_compressed_log_that_is_cut_off_is_unreadable(length: int) -> None:
    data = gzip.compress(random.Random(0).randbytes(100) + b"\n")[:length]
    with pytest.raises(LogUnreadable, match="cut off"):
        lines_of(data)


def test_a_compressed_log_with_a_wrong_checksum_is_unreadable() -> None:
    data = bytearray(gzip.compress(random.Random(0).randbytes(100) + b"\n"))
    data[-6] ^= 1  # a byte of the checksum
    with pytest.raises(LogUnreadable, match="damaged"):
        lines_of(bytes(data))


def test_a_file_is_read_up_to_its_size_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "kafka-request.log"
    path.write_bytes(b"[a\n[b")
    stream = open_log(path)
    with path.open("ab") as file:
        file.write(b"c\n[d\n")
    assert [line for batch in ContainerLog().batches(stream) for line in batch] == [b"[a"]
    stream.close()


def test_a_folder_is_refused_as_a_log(tmp_path: Path) -> None:
    with pytest.raises(LogUnreadable, match="not a regular file"):
        open_log(tmp_path)


MESSAGE = 'Completed request:{"a":1}'
TIME = 1_795_836_166_145
LOGGER = "kafka.request.logger"
EVENT = LogEvent(TIME, "DEBUG", LOGGER, MESSAGE.encode())
JSON = {"message": MESSAGE}


@pytest.mark.parametrize(
    "line",
    [
        f"[2026-11-28 03:22:46,145] DEBUG {MESSAGE} (kafka.request.logger)",
        f"[2026-11-28 03:22:46,145] DEBUG {MESSAGE} (kafka.request.logger)\r",
        f"2026-11-28 03:22:46,145 DEBUG {MESSAGE} (kafka.request.logger) [data-plane-kafka-request-handler-3]",
        f"2026-11-28T03:22:46,145 DEBUG {MESSAGE} (kafka.request.logger)",
        json.dumps({**JSON, "@timestamp": "2026-11-28T03:22:46.145Z", "log.level": "DEBUG", "log.logger": LOGGER}),
        json.dumps({**JSON, "@timestamp": "2026-11-28T04:22:46.145+0100", "level": "DEBUG", "logger_name": LOGGER}),
        json.dumps({**JSON, "instant": {"epochSecond": TIME // 1000, "nanoOfSecond": 145_000_000}, "level": "DEBUG",
                    "loggerName": LOGGER}),
        json.dumps({**JSON, "timeMillis": TIME, "level": "DEBUG", "loggerName": LOGGER}),
        json.dumps({**JSON, "timestamp": "2026-11-28T03:22:46.145123Z", "severity": "DEBUG", "logger": LOGGER}),
    ],
    ids=[
        "Kafka's layout", "with a carriage return", "Strimzi's layout", "with a T in the time", "JSON of ECS",
        "JSON of Logstash", "JsonLayout with an instant", "JsonLayout with milliseconds", "other JSON",
    ],
)  # fmt: skip
def test_the_same_event_is_read_from_each_layout(line: str) -> None:
    assert parse_event(line.encode()) == EVENT


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\tat kafka.network.Processor.run(SocketServer.scala)",
        b"[2026-13-28 03:22:46,145] DEBUG x (y)",
        b"{",
        b'{"message":"x"}',
        b'{"message":"x","@timestamp":"yesterday"}',
        b'{"message":' + b"[" * 100_000,
        b'{"message":"\xff","timeMillis":5}',
    ],
    ids=[
        "empty", "a line of a stack trace", "an invalid date", "half of JSON", "JSON without a time",
        "JSON with an invalid time", "deep JSON", "not UTF-8",
    ],
)  # fmt: skip
def test_a_line_that_is_no_event_is_parsed_as_none(line: bytes) -> None:
    assert parse_event(line) is None
