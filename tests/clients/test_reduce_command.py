"""`kafkafeatures clients reduce`: the files that it writes, and what it tells of logs that it cannot reduce."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafeatures.cli.clients.reduce import HASHED, TRUNCATED, address_form
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.client_files.logs.counting import HourOfRequests, RequestCounter, read_hours
from kafkafeatures.client_files.logs.reduced import find_files, read_hour
from kafkafeatures.client_files.reduced import GroupCount, ReducedHour, ReducedRefused, RequestGroup, merge_hours
from tests.clients.request_lines import AT, body, plain

FEW = settings(max_examples=40)


def reduce(capsys: pytest.CaptureFixture[str], folder: Path, *words: str | Path, code: Exit = Exit.DONE) -> Any:
    command = ["clients", "reduce", "--broker", "3", "--to", str(folder), "-o", "json", *map(str, words)]
    assert main(command) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kafka-request.log"
    path.write_text("".join(plain(AT + number, body(correlation=number)) + "\n" for number in range(10)))
    return path


def requests_in(folder: Path) -> int:
    """The number of requests in all reduced files of a folder."""
    hours = merge_hours(read_hour(file) for file in find_files(folder))
    return sum(count.requests for hour in hours for count in hour.counts)


def test_a_log_becomes_a_file_for_each_broker_and_hour(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = reduce(capsys, tmp_path / "to", log)
    (file,) = document["logs"][0]["files"]
    assert Path(file).parent == tmp_path / "to" / "3"
    assert Path(file).name.startswith("2026-11-28T03-")
    header = json.loads(gzip.decompress(Path(file).read_bytes()).split(b"\n")[0])
    assert (header["broker"], header["lines"], header["first"], header["levels"]) == (
        3, 10, "2026-11-28T03:22:46.145Z", {"DEBUG": 10},
    )  # fmt: skip
    (count,) = read_hour(Path(file)).counts
    assert (count.group.client_id, count.group.version, count.requests, count.last) == ("etl", 2, 10, AT + 9)


def test_a_log_that_is_reduced_again_replaces_its_file_and_is_counted_once(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "to"
    reduce(capsys, folder, log)
    compressed = tmp_path / "a.gz"
    compressed.write_bytes(gzip.compress(log.read_bytes()))
    in_container = tmp_path / "0.log"
    in_container.write_text(
        "".join(f"2026-11-28T03:22:46.1Z stdout F {line}\n" for line in log.read_text().splitlines())
    )
    reduce(capsys, folder, log, compressed, in_container)
    with log.open("a") as file:
        file.write(plain(AT + 10, body()) + "\n")
    reduce(capsys, folder, log)
    assert len(find_files(folder)) == 1
    assert requests_in(folder) == 11
    document = reduce(capsys, folder, compressed)  # the copy has 10 lines, the file was made of 11
    assert document["logs"][0]["keptFiles"] == 1
    assert requests_in(folder) == 11


def as_read(hour: HourOfRequests) -> ReducedHour:
    """The hour as it is read back from its file."""
    counts = tuple(
        GroupCount(RequestGroup(*json.loads(group)), requests, last) for group, requests, last in hour.counts.rows()
    )
    return ReducedHour(3, hour.hour, hour.first, hour.last, frozenset(hour.levels), counts)


@FEW
@given(st.data())
def test_overlapping_parts_of_a_log_do_not_count_twice(data: st.DataObject) -> None:
    lines = [plain(AT + number, body(correlation=number)).encode() for number in range(20)]
    sections = []
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, 19))
        end = data.draw(st.integers(begin + 1, 20))
        sections.append((begin, end))
    hours = []
    for begin, end in sections:
        form = data.draw(st.sampled_from((str, lambda address: f"hash of {address}")))
        (hour,) = read_hours(io.BytesIO(b"\n".join([*lines[begin:end], b""])), RequestCounter(form))
        hours.append(as_read(hour))
    total = sum(count.requests for hour in merge_hours(hours) for count in hour.counts)
    assert total <= len({number for begin, end in sections for number in range(begin, end)}), "no line counts twice"
    assert total >= max(end - begin for begin, end in sections), "the longest part counts completely"


def test_the_counts_of_consecutive_parts_of_a_log_are_added(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = tmp_path / "kafka-request.log.1"
    second.write_text("".join(plain(AT + number, body()) + "\n" for number in range(20, 25)))
    reduce(capsys, tmp_path / "to", second, log)
    assert requests_in(tmp_path / "to") == 15


DAMAGES = {
    "cut off": lambda data: data[:-20],
    "another content": lambda data: b"hello",
    "ten bytes missing": lambda data: data[:300] + data[310:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_truncated_or_damaged_reduced_file_is_refused(
    damage: Callable[[bytes], bytes], log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = (f"{number}{random.Random(number).random()}" for number in range(50))
    log.write_text("".join(plain(AT, body(client=name)) + "\n" for name in names))
    reduce(capsys, tmp_path / "to", log)
    (file,) = find_files(tmp_path / "to")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ReducedRefused):
        read_hour(file)


def test_a_reduced_file_without_its_counts_is_refused(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reduce(capsys, tmp_path / "to", log)
    (file,) = find_files(tmp_path / "to")
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).split(b"\n")[0] + b"\n"))
    with pytest.raises(ReducedRefused, match="not complete"):
        read_hour(file)


def test_a_log_that_cannot_be_read_is_named_and_the_others_are_reduced(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(log.read_bytes())[:-20])
    document = reduce(capsys, tmp_path / "to", broken, tmp_path / "none", tmp_path, log, code=Exit.UNREACHABLE)
    problems = [entry["problem"] for entry in document["logs"]]
    assert problems[0] == "not read to its end: the gzip stream is cut off"
    assert problems[1:3] == ["not read: No such file or directory", "not read: it is not a regular file"]
    assert problems[3] is None
    assert requests_in(tmp_path / "to") == 10


def test_a_file_with_full_addresses_is_reported_if_hashed_addresses_are_requested(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reduce(capsys, tmp_path / "to", log)
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:4]))
    document = reduce(capsys, tmp_path / "to", log, "--addresses", "hashed", code=Exit.UNREACHABLE)
    assert "has more requests, with full addresses; remove it" in document["logs"][0]["problem"]


def test_a_file_that_is_not_replaced_is_still_told_if_the_log_cannot_be_read_to_its_end(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reduce(capsys, tmp_path / "to", log)
    shorter = "".join(log.read_text().splitlines(keepends=True)[:4])
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(shorter.encode())[:-4])
    document = reduce(capsys, tmp_path / "to", cut, "--addresses", "hashed", code=Exit.UNREACHABLE)
    problem = document["logs"][0]["problem"]
    assert "has more requests, with full addresses" in problem
    assert problem.endswith("; not read to its end: the gzip stream is cut off")


@pytest.mark.parametrize(
    ("text", "code"),
    [("", Exit.DONE), ("[2026-11-28 03:22:46,145] INFO started (kafka.server.KafkaServer)\n", Exit.UNREACHABLE)],
    ids=["empty", "a server log"],
)
def test_a_log_with_lines_but_no_request_is_a_problem_and_an_empty_log_is_none(
    text: str, code: Exit, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text(text)
    (entry,) = reduce(capsys, tmp_path / "to", log, code=code)["logs"]
    assert entry["problem"] == (None if code is Exit.DONE else "no request of a request log in it")


def test_a_folder_that_cannot_be_written_is_reported_and_not_taken_for_an_unreadable_log(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["clients", "reduce", "--broker", "3", "--to", str(log / "folder"), str(log)]
    assert main(command) == Exit.FAILED
    assert "cannot write" in capsys.readouterr().err


def test_addresses_are_truncated_or_hashed_on_request(tmp_path: Path) -> None:
    truncated = address_form(TRUNCATED, None)
    assert [truncated(address) for address in ("10.1.2.3", "2001:db8::1:2", "odd")] == [
        "10.1.2.0/24", "2001:db8::/64", "",
    ]  # fmt: skip
    salt = tmp_path / "salt"
    salt.write_bytes(b"0123456789abcdef")
    assert address_form(HASHED, salt)("10.1.2.3") == address_form(HASHED, salt)("10.1.2.3")
    assert address_form(HASHED, None)("10.1.2.3") != address_form(HASHED, None)("10.1.2.3")
    assert "10.1" not in address_form(HASHED, None)("10.1.2.3")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--to", "x"), "--broker is required"),
        (("--broker", "1"), "--to is required"),
        (("--broker", "one", "--to", "x"), "invalid broker 'one'"),
        (("--broker", "1", "--to", "x", "--salt", "y"), "--salt is for --addresses hashed"),
        (("--broker", "1", "--to", "x", "--addresses", "hashed", "--salt", "/none"), "No such file"),
        (("--broker", "1", "--to", "x", "--release", "4.1"), "--release: it is a flag of clients check"),
    ],
)
def test_an_invalid_flag_of_clients_reduce_gives_one_line(
    words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clients", "reduce", *words]) in (Exit.USAGE, Exit.UNREACHABLE)
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
