"""Less evidence about clients never makes a cluster ready, and a run that is interrupted leaves one state."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from featurelog.layout import InputsError
from tests.clients.test_rejected import connection, refused
from tests.featurelog.evidence import (
    DAY,
    END,
    HOUR,
    LOG,
    TIMES,
    Case,
    lines,
    place,
    rows,
    run,
    scrape,
    scrapes,
    verdict,
)
from tests.featurelog.inputs import tables


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


# --- less evidence


def changed_inputs(case: Case) -> list[tuple[Path, bytes | None]]:
    """Changes of one file each, as (path, new content; None: the file is removed). A file is removed, is cut to its
    first half, or has its content twice; and a file of scrapes is copied under a later time.
    """
    files = sorted(path for folder in (case.evidence, case.logs) for path in folder.rglob("*") if path.is_file())
    whole = {path: path.read_bytes() for path in files}
    changes: list[tuple[Path, bytes | None]] = [(path, None) for path in files]
    changes += [(path, data[: len(data) // 2]) for path, data in whole.items()]
    changes += [(path, data + data) for path, data in whole.items()]
    # The name of a scrape is its time: a 9 before it makes that a time far in the future.
    changes += [(path.with_name(f"9{path.name}"), data) for path, data in whole.items() if "prom" in path.name]
    return changes


@pytest.mark.parametrize("lack", ["a removed version", "a broker without scrapes"])
def test_removing_truncating_or_duplicating_a_file_never_makes_a_cluster_ready(
    case: Case, lack: str, tmp_path: Path
) -> None:
    if lack == "a removed version":
        scrapes(case.evidence, old=5)
    else:
        shutil.rmtree(case.evidence / "orders" / "2")
    place(case.evidence, 1, LOG, lines(TIMES, version=9))
    assert case.run() != "ready"
    for number, (path, data) in enumerate(changed_inputs(case)):
        before = path.read_bytes() if path.exists() else None
        path.unlink() if data is None else path.write_bytes(data)
        # Into the tables of earlier runs and, where the evidence is what changed, also into new tables.
        for output in (case.output, tmp_path / str(number))[: 1 if case.logs in path.parents else 2]:
            run(case.logs, output, [case.evidence])
            assert verdict(output) != "ready", f"{path.name}: {'removed' if data is None else len(data)}"
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)


def test_a_scrape_of_another_cluster_leaves_no_trace_once_it_is_removed(case: Case) -> None:
    assert case.run() == "ready"
    wrong = place(case.evidence, 1, f"{(END - HOUR) // 1000}.prom", scrape(2, END - HOUR, start=END - DAY))
    assert case.run() == "unknown"
    assert [row["detail"] is not None for row in rows(case.output, "evidence_coverage") if not row["source"]] == [True]
    wrong.unlink()
    assert case.run() == "ready"


def test_scrapes_of_a_folder_that_is_gone_stay(case: Case) -> None:
    case.run()
    shutil.rmtree(case.evidence / "orders" / "1")
    assert case.run() == "ready"


def test_an_input_without_any_evidence_is_refused(case: Case) -> None:
    case.run()
    shutil.rmtree(case.evidence)
    case.evidence.mkdir()
    with pytest.raises(InputsError, match="no evidence about clients is here"):
        case.run()


# --- a run that is interrupted


class Interrupted(BaseException):
    """Stands for the end of the process just before an effect."""


def test_a_run_that_ends_before_any_effect_leaves_the_state_of_before_and_is_completed_by_the_next(
    case: Case, tmp_path: Path
) -> None:
    place(case.evidence, 1, LOG, lines(TIMES[:5]))
    case.run()
    place(case.evidence, 1, LOG, lines(TIMES))
    place(case.evidence, 2, "server.log", refused(connection(1), time="2026-11-23 22:00:00,000").encode())
    before, whole = tables(case.output), tmp_path / "whole"
    shutil.copytree(case.output, whole)
    points: list[None] = []
    run(case.logs, whole, [case.evidence], before=lambda: points.append(None))
    expected = tables(whole)
    assert expected != before
    assert len(points) > 8, "a point before each effect"
    for point in range(len(points)):
        output, passed = tmp_path / str(point), [0]
        shutil.copytree(case.output, output)

        def interrupt(point: int = point, passed: list[int] = passed) -> None:
            if passed[0] == point:
                raise Interrupted
            passed[0] += 1

        with pytest.raises(Interrupted):
            run(case.logs, output, [case.evidence], before=interrupt)
        # The last effect is after the commit.
        assert tables(output) == (before if point < len(points) - 1 else expected), f"ended at point {point}"
        run(case.logs, output, [case.evidence])
        assert tables(output) == expected, f"ended at point {point}"
