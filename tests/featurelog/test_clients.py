"""Evidence about clients in a run: what is read, what stays of it, and the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.featurelog.evidence import (
    logs,
    rows,
    run,
    scrapes,
)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Folders of metadata logs, of evidence that makes the cluster ready, and of the tables."""
    logs(tmp_path / "logs")
    scrapes(tmp_path / "evidence")
    return tmp_path / "logs", tmp_path / "evidence", tmp_path / "out"


Folders = tuple[Path, Path, Path]


def test_a_cluster_whose_brokers_are_covered_by_counters_is_ready(folders: Folders) -> None:
    inputs, evidence, output = folders
    summary = run(inputs, output, [evidence])
    (row,) = rows(output, "client_readiness")
    assert (row["verdict"], row["unknown_because"]) == ("ready", [])
    assert summary.client_files == 6
