"""Request logs that grow: what is complete is not read again, and clients on refused connections are identified."""

from __future__ import annotations

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


@pytest.mark.parametrize("first", ["server.log", LOG])
def test_a_client_that_request_logs_show_alone_on_a_refused_connection_is_identified(case: Case, first: str) -> None:
    """One of the logs is read a run later than the other. At this address there is another client."""
    port, address = 40_000, "10.1.2.3"
    name = f"127.0.0.1:9092-{address}:{port}-3"
    contents = {
        "server.log": refused(name, time=f"{datetime.fromtimestamp(TIMES[-1] / 1000, UTC):%Y-%m-%d %H:%M:%S},000"),
        LOG: lines(TIMES[:3]).decode() + lines(TIMES[3:], client="other", port=port + 1).decode(),
    }
    for log in sorted(contents, key=lambda log: log != first):
        place(case.evidence, 1, log, contents[log].encode())
        case.run()
    if first == LOG:  # the log has grown, and the hours that are not complete are read again
        place(
            case.evidence, 1, LOG, (contents[LOG] + lines(TIMES[-1:], client="other", port=port + 1).decode()).encode()
        )
        case.run()
    (row,) = rows(case.output, "rejected_requests")
    assert row["clients"] == [{"client_id": "etl", "principal": "User:etl", "match": "Connection"}]
