"""Spark's data source `kafka_metadata`: it gives the rows that one core reads, in each supported version of Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from featurelog.record_files import ROWS
from tests.e2e.pipeline import sparks
from tests.e2e.pipeline.page import program
from tests.e2e.pipeline.queries import FILTERS, ON_THE_PAGE
from tests.featurelog.inputs import fleet, run, tables
from tests.kafkasim.fleets import written

Answers = dict[str, Any]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    fleet(folder / "in")
    run([folder / "in"], folder / "out", piece=1000)
    (folder / "logs").symlink_to(written() / "logs")  # of the page
    return folder


@pytest.fixture(scope="module", params=["", *sparks.OLDER])
def answers(request: pytest.FixtureRequest, inputs: Path) -> Answers:
    """The answers of one Spark version: the newest, and with SOAK=1 also the oldest and the first that
    takes filters.
    """
    interpreter = sparks.python(request.param)
    done = sparks.script("tests.e2e.pipeline.queries", str(inputs / "in"), interpreter=interpreter, cwd=inputs)
    found: Answers = sparks.said(done)
    assert found["version"].startswith(request.param)
    assert not found["pandas"]
    return found


def test_the_data_source_of_spark_gives_the_rows_that_one_core_reads(answers: Answers, inputs: Path) -> None:
    expected = tables(inputs / "out")["metadata_records"]
    assert answers["rows"] == expected
    assert len(expected) > 200


def test_the_data_source_of_spark_has_the_columns_of_the_table(answers: Answers) -> None:
    assert [one.split(":")[0] for one in answers["schema"].removeprefix("struct<").split(",")] == ROWS.names
    assert set(answers["columns"]) == {3}  # of a query for column `offset` alone, where it is 3


@pytest.mark.parametrize("where", FILTERS)
def test_a_filter_gives_the_matching_rows_whether_or_not_spark_pushes_it_down(answers: Answers, where: str) -> None:
    fits: Callable[[Answers], bool] = {
        "cluster = 'orders'": lambda row: row["cluster"] == "orders",
        "node = '2' and record_type = 'FEATURE_LEVEL_RECORD'": lambda row: (
            row["node"] == "2" and row["record_type"] == "FEATURE_LEVEL_RECORD"
        ),
        "offset >= 10 and offset < 20": lambda row: row["offset"] is not None and 10 <= row["offset"] < 20,
        "api_key = 12 and level > 10": lambda row: row["api_key"] == 12 and row["level"] > 10,
        "api_key = 100000": lambda row: False,
        "offset is null": lambda row: row["offset"] is None,
        "cluster in ('orders', 'nowhere') and origin = 'snapshot'": lambda row: (
            row["cluster"] == "orders" and row["origin"] == "snapshot"
        ),
        "fenced and body like '%1%' and level <> 7 or status = 'damaged'": lambda row: row["status"] == "damaged",
    }[where]
    assert answers["filters"][where] == [row for row in answers["rows"] if fits(json.loads(row))]


def test_files_that_a_filter_excludes_are_not_opened_where_spark_pushes_the_filter_down(answers: Answers) -> None:
    # Spark 4.0 has no way to push filters down to such a source.
    every, some = answers["partitions"]["true"], answers["partitions"]["cluster = 'orders'"]
    assert every > 8  # the partitions are files, and pieces of a file
    assert (some < every / 2) is not answers["version"].startswith("4.0")


def test_the_source_gives_the_same_answers_without_filters_pushed_down(answers: Answers) -> None:
    assert answers["plain"] == answers["filters"][FILTERS[2]]
    assert answers["plain"]


def test_damage_is_a_row_is_left_out_or_ends_the_query(answers: Answers) -> None:
    damaged = [row for row in answers["rows"] if json.loads(row)["status"] == "damaged"]
    assert damaged
    assert answers["dropped"] == [row for row in answers["rows"] if row not in damaged]
    assert "the CRC-32C of the batch is wrong; mode is FAILFAST" in answers["failfast"]


def test_the_error_message_of_a_wrong_option_or_path_names_the_expected_value(answers: Answers) -> None:
    assert "invalid mode 'LENIENT'; expected one of PERMISSIVE, DROPMALFORMED, FAILFAST" in answers["mode"]
    assert "check the path and the rights to read it" in answers["missing"]


def test_the_query_of_logs_on_the_page_about_the_pipeline_prints_what_it_shows(answers: Answers) -> None:
    assert answers["page"] == program(ON_THE_PAGE)[1]
