"""Request logs that grow: what is complete is not read again, and clients on refused connections are identified."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.clients.test_rejected import refused
from tests.featurelog.evidence import HOUR, LOG, ON_THE_HOUR, TIMES, Case, lines, place, requests, rows, run


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


MANY_TIMES = range(ON_THE_HOUR - 10 * HOUR, ON_THE_HOUR + 2 * HOUR, 20_000)
"""Every 20 seconds of twelve hours."""


def of_request_log(output: Path) -> list[dict[str, object]]:
    """The rows that a request log has made."""
    return [*rows(output, "client_api_usage"), *rows(output, "data_quality")]


def test_of_a_log_that_has_grown_only_the_hours_that_were_not_complete_are_read_again(
    case: Case, tmp_path: Path
) -> None:
    bad = b"[2026-11-23 00:00:00,000] DEBUG Completed request:{ (kafka.request.logger)\n"
    whole = lines(MANY_TIMES)
    begin = whole.index(b"\n") + 1
    whole = whole[:begin] + bad + whole[begin:] + bad
    for share in (0.3, 0.55, 0.8, 1):  # most of them end within a line
        place(case.evidence, 1, LOG, whole[: int(share * len(whole))])
        summary = run(case.logs, case.output, [case.evidence])
        shutil.rmtree(tmp_path / "whole", ignore_errors=True)
        run(case.logs, tmp_path / "whole", [case.evidence])
        assert of_request_log(case.output) == of_request_log(tmp_path / "whole")
    assert summary.client_bytes < 0.6 * len(whole)
    assert "2 lines of requests cannot be parsed" in {row["text"] for row in rows(case.output, "data_quality")}


def test_a_log_is_also_continued_at_a_line_of_another_logger(case: Case) -> None:
    whole = lines(MANY_TIMES).replace(b"\n", b"\n\tat " + b"x" * 1500 + b"\n")
    for share in (0.3, 0.55, 0.8, 1, 1, 1):
        place(case.evidence, 1, LOG, whole[: int(share * len(whole))])
        summary = run(case.logs, case.output, [case.evidence])
    assert summary.client_bytes < 0.6 * len(whole)


def test_a_log_that_was_replaced_by_a_longer_one_is_read_from_its_begin(case: Case) -> None:
    whole = lines(MANY_TIMES)
    place(case.evidence, 1, LOG, whole)
    run(case.logs, case.output, [case.evidence])
    other = lines(MANY_TIMES, client="other") + lines([MANY_TIMES[-1]] * 3, client="other")
    place(case.evidence, 1, LOG, other)
    assert run(case.logs, case.output, [case.evidence]).client_bytes == len(other)
    counts = {client: 0 for *_, client in requests(case.output)}
    for key, count in requests(case.output).items():
        counts[key[-1]] += count
    assert counts == {"etl": len(MANY_TIMES), "other": len(MANY_TIMES) + 3}


@pytest.mark.parametrize("missing", [0, 0.1], ids=["same size", "grown"])
@pytest.mark.parametrize("start", [0, 200], ids=["from the begin of a line", "from the middle of a line"])
def test_a_sound_copy_in_place_of_a_log_with_a_hole_is_read_from_its_begin(
    case: Case, tmp_path: Path, missing: float, start: int
) -> None:
    """Both have the same first and last bytes. The hole is of zeros, as a download that was interrupted leaves it."""
    whole = lines(MANY_TIMES)
    at = whole.index(b"\n", len(whole) // 3) + 1 + start
    copy = whole[:at] + bytes(50_000) + whole[at + 50_000 :]
    path = place(case.evidence, 1, LOG, copy[: int((1 - missing) * len(whole))])
    case.run()
    place(case.evidence, 1, LOG, whole)
    os.utime(path, ns=(1, 1))
    assert run(case.logs, case.output, [case.evidence]).client_bytes == len(whole)
    run(case.logs, tmp_path / "whole", [case.evidence])
    assert of_request_log(case.output) == of_request_log(tmp_path / "whole")


def test_a_log_that_was_cut_off_and_is_whole_again_is_read_from_its_begin(case: Case) -> None:
    whole = lines(MANY_TIMES)
    for content in (whole, whole[:1000], whole):
        os.utime(place(case.evidence, 1, LOG, content), ns=(len(content), len(content)))
        assert run(case.logs, case.output, [case.evidence]).client_bytes >= len(content)


PORT = 40_000
"""The port of the client in `lines`."""


def refusal(time: int) -> bytes:
    """A server log with a refused request on the connection of the client in `lines`."""
    at = f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M:%S},000"
    return refused(f"127.0.0.1:9092-10.1.2.3:{PORT}-3", time=at).encode()


@pytest.mark.parametrize("first", ["server.log", LOG])
def test_a_client_that_request_logs_show_alone_on_a_refused_connection_is_identified(case: Case, first: str) -> None:
    """One of the logs is read a run later than the other. At this address there is another client."""
    contents = {
        "server.log": refusal(TIMES[-1]),
        LOG: lines(TIMES[:3]) + lines(TIMES[3:], client="other", port=PORT + 1),
    }
    for log in sorted(contents, key=lambda log: log != first):
        place(case.evidence, 1, log, contents[log])
        case.run()
    (row,) = rows(case.output, "rejected_requests")
    assert row["clients"] == [{"client_id": "etl", "principal": "User:etl", "match": "Connection"}]


def test_a_client_is_identified_by_hours_of_a_growing_log_that_an_earlier_run_has_read(case: Case) -> None:
    whole = lines(MANY_TIMES[:30]) + lines(MANY_TIMES[30:], client="other", port=PORT + 1)
    place(case.evidence, 1, LOG, whole[: int(0.9 * len(whole))])
    case.run()
    place(case.evidence, 1, LOG, whole)
    place(case.evidence, 1, "server.log", refusal(MANY_TIMES[30]))
    case.run()
    (row,) = rows(case.output, "rejected_requests")
    assert row["clients"] == [{"client_id": "etl", "principal": "User:etl", "match": "Connection"}]
