"""Spark's data source `kafka_request_log`: each request is in exactly one partition, whatever the size of pieces, and
the mode decides what happens to lines that cannot be parsed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from featurelog.parts import DamagedInputError
from featurelog.spark.request_log import RequestLogReader
from featurelog.spark.source import OptionError
from tests.clients.request_lines import AT, LAYOUTS, body, naive, plain
from tests.e2e.pipeline import sparks
from tests.featurelog.evidence import place

LOG = "kafka-request.log"
BAD = b"[2026-11-28 03:22:46,145] DEBUG Completed request:{ (kafka.request.logger)\n"


def log(count: int = 40) -> bytes:
    """A log whose lines have several lengths; the last one has no end."""
    clients = [f"c{number % 7}" * (number % 5 + 1) for number in range(count)]
    texts = [plain(AT + number, body(client=client, version=number % 3)) for number, client in enumerate(clients)]
    return "\n".join([*texts, plain(AT, body())]).encode()


def rows(folder: Path, **options: object) -> list[dict[str, Any]]:
    """The rows of all partitions."""
    reader = RequestLogReader({"path": str(folder), **{name: str(value) for name, value in options.items()}})
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def counts(folder: Path, **options: object) -> Counter[tuple[Any, ...]]:
    """The number of requests by client and version."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for row in rows(folder, **options):
        sums[row["client_id"], row["version"]] += row["requests"]
    return sums


EXPECTED: Counter[tuple[Any, ...]] = Counter()
"""Requests of `log()` by client and version (fields 5 and 2 of a group), without the last line, which has no end."""
for _key, _count in naive(log().splitlines()[:-1]).items():
    EXPECTED[_key[5], _key[2]] += _count


@pytest.mark.parametrize("piece", [1, 100, 501, 4096, 10**9])
def test_each_request_is_in_one_partition(tmp_path: Path, piece: int) -> None:
    place(tmp_path, 1, LOG, log())
    assert counts(tmp_path, piece=piece) == EXPECTED
    assert sum(EXPECTED.values()) == 40


@pytest.mark.parametrize("name", [f"{LOG}.gz", "0.log"])
def test_compressed_logs_and_those_that_a_runtime_wrapped_are_not_cut(tmp_path: Path, name: str) -> None:
    wrapped = b"".join(b"2026-11-28T03:22:46.1Z stdout F " + line + b"\n" for line in log().splitlines()[:-1])
    path = place(tmp_path, 1, name, wrapped)
    reader = RequestLogReader({"path": str(tmp_path), "piece": "100"})
    assert len(reader.partitions()) == 1
    assert path.stat().st_size > 200
    assert counts(tmp_path, piece=100) == EXPECTED


def test_lines_that_cannot_be_parsed_are_counted_left_out_or_end_the_query(tmp_path: Path) -> None:
    place(tmp_path, 1, LOG, BAD + log() + b"\n" + BAD)
    assert sum(row["rejected"] or 0 for row in rows(tmp_path, piece=1000)) == 2
    # 40, and the last line, which has an end here
    assert sum(row["requests"] for row in rows(tmp_path, mode="dropmalformed")) == 41
    with pytest.raises(DamagedInputError, match=r"orders/1/kafka-request\.log: 2 lines of requests cannot be parsed"):
        rows(tmp_path, mode="FAILFAST")


def test_a_file_that_is_cut_off_has_a_row_with_the_reason(tmp_path: Path) -> None:
    path = place(tmp_path, 1, f"{LOG}.gz", log(4000))
    path.write_bytes(path.read_bytes()[:-20])
    place(tmp_path, 1, "2026-11-28T03-0123456789abcdef.jsonl.gz", b"{}\n")
    reasons = {row["file"]: row["reason"] for row in rows(tmp_path) if row["reason"]}
    assert reasons[f"{LOG}.gz"] == "not read to its end: the gzip stream is cut off"
    assert reasons["2026-11-28T03-0123456789abcdef.jsonl.gz"].startswith("it is not a reduced request log")


def test_other_files_and_folders_that_are_not_those_of_brokers_have_no_partition(tmp_path: Path) -> None:
    place(tmp_path, 1, "server.log", b"")
    place(tmp_path, 1, "1764374400.prom", b"x")
    (tmp_path / "orders" / "kafka-1").mkdir()
    (tmp_path / "orders" / "kafka-1" / LOG).write_bytes(log())
    reader = RequestLogReader({"path": str(tmp_path)})
    (part,) = reader.partitions()
    assert part.value is None
    assert list(reader.read(InputPartition(None))) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "option path is missing"),
        ({"path": "x", "Mode": "lenient"}, "invalid mode 'LENIENT'"),
        ({"path": "x", "piece": "16 MiB"}, "invalid piece '16 MiB'"),
        ({"path": "x", "peice": "16"}, "unknown option 'peice'; expected one of mode, piece"),
    ],
    ids=["no path", "mode", "piece", "unknown option"],
)
def test_a_missing_path_and_unknown_or_invalid_options_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=f"^kafka_request_log: {reason}"):
        RequestLogReader(options)


def test_spark_gives_the_same_counts(tmp_path: Path) -> None:
    place(tmp_path, 1, LOG, log())
    place(tmp_path, 2, f"{LOG}.gz", "".join(f"{LAYOUTS[2](AT, body())}\n" for _ in range(3)).encode())
    left = tmp_path / "left"
    left.mkdir()
    done = sparks.script("tests.e2e.pipeline.request_log_query", *sparks.arguments(tmp_path), env={"TMPDIR": str(left)})
    answer = sparks.said(done)
    assert [path.name for path in left.iterdir() if path.name.startswith("kafkafeatures-")] == []
    assert {(client, version): total for client, version, total in answer["counts"]} == {
        **EXPECTED,
        ("etl", 2): EXPECTED["etl", 2] + 3,
    }
    assert answer["hours"] == ["2026-11-28 03:00:00"]
