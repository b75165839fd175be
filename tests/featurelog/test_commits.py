"""Commits: a table that is the same is not committed, and of two runs at once one wins."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from featurelog.delta import SCHEMAS, OutputError, load
from tests.featurelog.inputs import SEGMENT, made_log, put, run, tables
from tests.featurelog.killing import Points
from tests.featurelog.test_delta import grown, rows

__all__ = ["grown"]


def test_a_table_with_the_same_rows_as_before_keeps_its_file_and_its_version(grown: Path, tmp_path: Path) -> None:
    """Another hour of a quiet cluster costs few commits."""
    before = load(str(grown))[0]
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(21), "orders-id")  # another batch of NoOp records
    run([tmp_path / "in"], grown)
    after = load(str(grown))[0]
    names = SCHEMAS.keys() & before.versions.keys()
    same = {name for name in names if rows(grown, name, before.versions[name]) == rows(grown, name)}
    assert {"node_registrations", "rolls"} <= same < names
    assert {name for name in names if after.versions[name] == before.versions[name]} == same
    assert {name for name in names if after.paths(name) == before.paths(name)} == same


def test_a_file_that_is_lost_or_cut_is_written_again_when_its_table_is_made_again(grown: Path, tmp_path: Path) -> None:
    (lost,) = load(str(grown))[0].paths("node_registrations")
    (cut,) = load(str(grown))[0].paths("feature_timeline")
    (grown / lost).unlink()
    os.truncate(grown / cut, 10)
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(21), "orders-id")
    run([tmp_path / "in"], grown)
    run([tmp_path / "in"], tmp_path / "whole")
    for name in ("node_registrations", "feature_timeline"):
        assert tables(grown)[name] == tables(tmp_path / "whole")[name]


def test_whenever_another_run_commits_during_a_run_the_tables_are_those_of_a_whole_run(tmp_path: Path) -> None:
    """Both begin with the same tables, and open most of them only when they commit to them."""
    logs, failures = tmp_path / "in", list[str]()
    put(logs, "orders", "1", SEGMENT, made_log(12), "orders-id")
    run([logs], tmp_path / "before")
    put(logs, "orders", "1", SEGMENT, made_log(20), "orders-id")
    shutil.copytree(tmp_path / "before", tmp_path / "whole")
    count = Points()
    run([logs], tmp_path / "whole", before=count)

    def run_to_end(output: Path, **more: Any) -> None:
        try:
            run([logs], output, **more)
        except OutputError as error:
            failures.append(str(error))

    for point in range(count.count):
        output, passed = tmp_path / str(point), iter(range(count.count))
        shutil.copytree(tmp_path / "before", output)
        run_to_end(output, before=lambda: run_to_end(output) if next(passed, -1) == point else None)  # noqa: B023
        assert tables(output) == tables(tmp_path / "whole"), f"another run at point {point}"
    assert len(failures) >= count.count - 1, "the last point is behind the commit"
    assert all("another run has written to it meanwhile; run it again" in failure for failure in failures)
