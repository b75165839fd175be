"""`describe --from`: the matrix and the document of a metadata log on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.kafkafeatures.terminal import PROGRAM, in_terminal
from tests.kraftlog.build import batch, broker, controller, level, log, no_op
from tests.kraftlog.golden import CHANGES, MIGRATION

FIRST = f"{0:020}.log"


# Offsets, epochs, times and ids in the next two tests are those of the recorded logs CHANGES and MIGRATION.


def test_describe_from_files_prints_the_document_of_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    path = CHANGES.parent
    assert main(["describe", "--from", str(path), "-o", "json"]) == Exit.DONE
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == {
        "kind": "MetadataLog", "offset": 495, "epoch": 9, "files": str(path), "timestamp": "2026-11-21T00:28:30Z",
    }  # fmt: skip
    assert document["features"][0]["finalizedName"] == "4.2-IV0"
    states = {one["id"]: (one["roles"], one["state"]) for one in document["nodes"]}
    assert states[3001] == (["Controller"], "Unreachable")
    assert states[1] == (["Broker"], "Fenced")
    assert {one["why"] for one in document["nodes"]} == {f"{path}: read from files; no node was asked"}


def test_describe_from_files_draws_the_matrix_in_any_width() -> None:
    for columns in (120, 80, 40):
        screen = in_terminal([*PROGRAM, "describe", "--from", str(MIGRATION.parent)], columns=columns)
        assert screen.code == Exit.DONE
        for text in (
            "3 controllers, 3 brokers",
            "at offset 1045, epoch 4, 2026-11-21 00:17:18 UTC; no node was asked",
            "finalized 21" if columns == 40 else "21 (3.9-IV0)",
            "kafkafeatures log ghosts",
        ):
            assert text in screen.text
        assert "No active controller" not in screen.text
        assert "No live node" not in screen.text


def test_describe_from_files_names_the_node_that_blocks_a_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    # All nodes but broker 2 support up to 29, the default of `controller` and `broker`.
    old = ({"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": 21},)
    nodes = [controller(3), broker(1, 1, fenced=False), broker(2, 2, features=old)]
    (tmp_path / FIRST).write_bytes(log([level("metadata.version", 21)], nodes))
    assert main(["describe", "--from", str(tmp_path)]) == Exit.DONE
    output = capsys.readouterr().out
    assert "  NodeRange: broker 2\n    metadata.version 7-21 (up to 3.9-IV0); 29 (4.2-IV1) is required\n" in output
    assert "broker 2 a.example:9092: fenced by the controller, registered with metadata.version 7-21" in output


def test_describe_from_files_reports_missing_and_unknown_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, level("metadata.version", 21), bytes((1, 12, 99)) + b"?"))
    (tmp_path / f"{5:020}.log").write_bytes(log([no_op()], start=5))
    assert main(["describe", "--from", str(tmp_path)]) == Exit.FAILED
    output = capsys.readouterr().err
    assert "the state behind offset 2 is not known: offsets 2 to 4 are missing" in output
    assert "1 record could not be understood" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bootstrap-server", "a:1"), "--from reads files instead of a cluster"),
        (("--apis",), "--apis needs a cluster"),
    ],
)
def test_describe_from_files_refuses_flags_of_a_cluster(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", "--from", str(CHANGES.parent), *words]) == Exit.USAGE
    assert message in capsys.readouterr().err


def test_describe_from_files_refuses_a_path_without_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "--from", str(tmp_path)]) == Exit.USAGE
    assert "no file of a metadata log is here" in capsys.readouterr().err
