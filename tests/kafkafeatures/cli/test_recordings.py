"""Recordings of the operator are read like the log directory of a node, by `log` and by the pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.kafka.recorder.recordings import RecorderSettings, Recordings
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kraftlog.schema import table
from tests.featurelog.inputs import tables
from tests.kraftlog.build import batch, broker, control_batch, level, no_op, snapshot

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
ALL = 10**9
ELECTED = {"leaderId": 3002, "voters": (), "grantingVoters": ()}


@pytest.fixture
def recordings(tmp_path: Path) -> Recordings:
    return Recordings(RecorderSettings(str(tmp_path / "in")), clock=lambda: 1.8e9, monotonic=lambda: 0.0)


def rows(output: Path, table: str) -> list[dict[str, object]]:
    return [json.loads(one) for one in tables(output)[table]]


def output_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    main(["log", *words, "-o", "json"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("action", ["verify", "timeline", "state", "decode"])
def test_a_recording_with_an_open_first_segment_is_refused_with_a_remedy(
    action: str, recordings: Recordings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recordings.of(("kafka", "orders"), ID)
    log.append(batch(0, level("metadata.version", 21)), at=0, below=ALL)
    for folder in (log.folder, tmp_path / "in"):
        assert main(["log", action, str(folder)]) == Exit.USAGE
        output = capsys.readouterr().err
        assert "closes it when it is 6 hours old; to read it now, copy it to a name without .open-...\n" in output
    (segment,) = (tmp_path / "in").rglob("*.log.open-*")
    copy = tmp_path / segment.name.partition(".open-")[0]
    copy.write_bytes(segment.read_bytes())
    assert main(["log", action, str(copy)]) == Exit.DONE


def test_a_gap_is_reported_by_the_log_commands_and_is_a_row_of_the_pipeline(
    recordings: Recordings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recordings.of(("kafka", "orders"), ID)
    log.append(batch(0, level("metadata.version", 21)) + batch(1, no_op()), at=0, below=ALL)
    new = log.new_snapshot(OffsetAndEpoch(90, 3))
    new.feed(snapshot(level("metadata.version", 25), broker(1, 50), epoch=3))
    new.finish()
    log.append(batch(90, level("metadata.version", 27), epoch=3), at=90, below=ALL)
    assert main(["log", "verify", str(log.folder)]) == 0  # what is behind the gap is in the open segment
    log.close_segment(if_due=False)
    assert main(["log", "verify", str(log.folder)]) == 1
    told = capsys.readouterr()
    assert "ends at offset 2, but the next segment begins at 90" in told.out + told.err
    history = output_of(capsys, "timeline", str(log.folder))
    assert [one["offset"] for one in history if one["event"] == "Missing"] == [2]
    assert [one["level"] for one in history if one["event"] == "FeatureLevel"] == [21, 27]
    config = tmp_path / "pipeline.yaml"
    config.write_text("inputs: [in]\noutput: out\nspark: {enabled: false}\n")
    assert main(["pipeline", "run", "--config", str(config)]) == 0
    (row,) = [one for one in rows(tmp_path / "out", "data_quality") if one["kind"] == "gap"]
    assert (row["cluster_id"], row["offset"], row["end_offset"]) == (ID, 2, 90)


def test_a_recording_that_contradicts_another_one_is_read_as_a_second_copy_of_the_log(
    recordings: Recordings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one of the newer leader counts, and what that one has overwritten is a row."""
    first = recordings.of(("kafka", "orders"), ID)
    first.append(batch(0, level("metadata.version", 21)) + batch(1, level("metadata.version", 25)), at=0, below=ALL)
    successor = recordings.successor_of(first)
    newer = control_batch(1, (table.LEADER_CHANGE, ELECTED), epoch=2) + batch(2, level("metadata.version", 27), epoch=2)
    successor.append(batch(0, level("metadata.version", 21)) + newer, at=0, below=ALL)
    successor.close_segment(if_due=False)
    assert [main(["log", "verify", str(one.folder)]) for one in (first, successor)] == [0, 0]
    capsys.readouterr()
    config = tmp_path / "pipeline.yaml"
    config.write_text("inputs: [in]\noutput: out\nspark: {enabled: false}\n")
    assert main(["pipeline", "run", "--config", str(config)]) == 0
    assert sorted(str(one["level"]) for one in rows(tmp_path / "out", "feature_timeline")) == ["21", "27"]
    quality = rows(tmp_path / "out", "data_quality")
    assert [(one["node"], one["offset"]) for one in quality if one["kind"] == "overwritten"] == [(first.folder.name, 1)]
