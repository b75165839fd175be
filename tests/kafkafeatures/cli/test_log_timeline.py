"""`log timeline` on files: every change with its offset, its time and its file, and the parts that are not known."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.kafkafeatures.terminal import PROGRAM, in_terminal
from tests.kraftlog.build import NOW, batch, begin, broker, checkpoint, end, level, log, no_op, segment, snapshot
from tests.kraftlog.dump import parse_dump
from tests.kraftlog.golden import CHANGES, KRAFT, SNAPSHOTS, dump_of

FIRST = segment(0)
METADATA = "metadata.version"


def timeline(capsys: pytest.CaptureFixture[str], path: Path, code: Exit = Exit.DONE) -> list[dict[str, Any]]:
    assert main(["log", "timeline", "-o", "json", str(path)]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def levels(found: list[dict[str, Any]]) -> list[tuple[int, int, int | None]]:
    return [(one["offset"], one["level"], one["previous"]) for one in found if one["event"] == "FeatureLevel"]


def test_every_change_of_a_level_in_a_real_log_is_shown_as_the_dump_tool_dates_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = timeline(capsys, CHANGES.parent)
    shown = [(one["offset"], one["feature"], one["level"]) for one in found if "feature" in one]
    dumped = parse_dump(dump_of(CHANGES))
    # The dump tool prints kraft.version in another form, so its only change is given here.
    written, before = [(187, "kraft.version", 1)], dict[str, int]()
    for offset, kind, data in dumped:
        if kind == "FEATURE_LEVEL_RECORD" and data is not None:
            change = data["name"], data["featureLevel"]
            if before.get(change[0], 0) != change[1]:
                written.append((offset, *change))
            before[change[0]] = change[1]
    assert sorted(written) == shown
    first = next(one for one in found if "feature" in one)
    assert first == {
        "offset": 2, "timestamp": "2026-11-21T00:23:43.527Z", "event": "FeatureLevel", "feature": METADATA,
        "level": 21, "previous": 0, "levelName": "3.9-IV0", "file": FIRST, "committed": True, "effectiveOffset": 3,
    }  # fmt: skip
    assert found[-1] == {"event": "End", "offset": 495, "committedOffset": 442, "openTransaction": None}


def test_records_after_the_newest_complete_snapshot_may_be_uncommitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log has a snapshot of offset 442, and a snapshot has committed records only. In the copy it is incomplete."""
    for one in timeline(capsys, CHANGES.parent)[:-1]:
        assert one["committed"] is (True if one["offset"] < 442 else None)
    folder = shutil.copytree(CHANGES.parent, tmp_path / "log")
    os.truncate(folder / checkpoint(442, 9), 500)
    assert {one["committed"] for one in timeline(capsys, folder)[:-1]} == {None}


def test_the_timeline_shows_the_state_of_a_snapshot_separately_from_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / segment(3)).write_bytes(log([level("a", 2)], [level("a", 3)], [level("b", 1)], start=3))
    (tmp_path / checkpoint(5)).write_bytes(snapshot(level("a", 3), level(METADATA, 9), broker(1, 1)))
    found = timeline(capsys, tmp_path)
    assert levels(found) == [(3, 2, None), (4, 3, 2), (5, 1, 0)]
    (state,) = (one for one in found if one["event"] == "State")
    assert found.index(state) == 2
    assert (state["offset"], state["notAfter"], "timestamp" in state) == (5, "2026-11-21T00:10:04.017Z", False)
    assert state["features"] == {METADATA: 9, "a": 3}
    assert state["registrations"] == [{"id": 1, "role": "Broker", "fenced": True}]
    assert NOW == 1_795_219_804_022  # the time of the records, on which `notAfter` above is based


def test_the_timeline_of_a_snapshot_has_a_state_and_no_events(capsys: pytest.CaptureFixture[str]) -> None:
    for path in SNAPSHOTS:
        found = timeline(capsys, path)
        assert [one["event"] for one in found] == ["State", "End"]


def test_a_level_in_the_bootstrap_checkpoint_and_in_the_log_is_one_change_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / checkpoint(0, 0)).write_bytes(snapshot(level(METADATA, 25)))
    (tmp_path / FIRST).write_bytes(log([level(METADATA, 25)]))
    found = timeline(capsys, tmp_path)
    assert (levels(found), [one["event"] for one in found]) == ([(0, 25, 0)], ["FeatureLevel", "End"])
    assert found[0]["committed"] is None  # no later snapshot shows that it is


def test_earlier_levels_are_unknown_after_a_gap_until_a_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(log([level("a", 1)]))
    (tmp_path / segment(5)).write_bytes(log([level("a", 4)], [level("a", 5)], start=5))
    found = timeline(capsys, tmp_path, Exit.FAILED)
    assert levels(found) == [(0, 1, 0), (5, 4, None), (6, 5, 4)]
    assert found[1] == {
        "offset": 1, "event": "Missing", "until": 5, "why": "offsets 1 to 4 are missing", "file": segment(5),
    }  # fmt: skip
    assert [one.get("afterGap") for one in found] == [None, None, True, True, None]
    (tmp_path / checkpoint(5)).write_bytes(snapshot(level("a", 3)))
    found = timeline(capsys, tmp_path, Exit.FAILED)
    assert levels(found) == [(0, 1, 0), (5, 4, 3), (6, 5, 4)]
    assert [one["event"] for one in found][1:3] == ["Missing", "State"]


def test_no_op_records_are_no_gap_in_the_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    idle = [[no_op()]] * 20
    (tmp_path / FIRST).write_bytes(log([level("a", 1)], *idle, [level("a", 2)], *idle))
    (tmp_path / segment(42)).write_bytes(log(*idle, [level("a", 3)], start=42))
    found = timeline(capsys, tmp_path)
    assert levels(found) == [(0, 1, 0), (21, 2, 1), (62, 3, 2)]
    assert found[-1]["offset"] == 63
    (tmp_path / FIRST).write_bytes(log([level("a", 1)], *idle))
    (tmp_path / checkpoint(50)).write_bytes(snapshot(level("a", 2)))
    found = timeline(capsys, tmp_path, Exit.FAILED)
    assert levels(found) == [(0, 1, 0), (62, 3, 2)]
    assert [one["why"] for one in found if one["event"] == "Missing"] == ["offsets 21 to 41 are missing"]
    assert [one["offset"] for one in found if one["event"] == "State"] == [50]


def test_the_timeline_reports_damage_and_continues_after_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [batch(0, level("a", 1)), batch(1, level("a", 2)), batch(2, level("a", 3))]
    (tmp_path / FIRST).write_bytes(parts[0] + parts[1][:-1] + b"?" + parts[2])
    found = timeline(capsys, tmp_path, Exit.FAILED)
    assert levels(found) == [(0, 1, 0), (2, 3, None)]
    missing = [one["why"] for one in found if one["event"] == "Missing"]
    assert missing == [
        f"at byte {len(parts[0])}: the CRC-32C of the batch is wrong (base offset 1)", "offsets 1 to 1 are missing",
    ]  # fmt: skip


def test_repeated_offsets_are_reported_and_make_earlier_levels_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(log([level("a", 1)], [level("a", 2)]))
    (tmp_path / segment(1)).write_bytes(log([level("a", 3)], [level("a", 4)], start=1))
    found = timeline(capsys, tmp_path, Exit.FAILED)
    assert levels(found) == [(0, 1, 0), (1, 2, 1), (2, 4, None)]
    assert [one["why"] for one in found if one["event"] == "Missing"] == ["offsets 1 to 1 are there twice"]


def test_the_timeline_reports_a_leader_epoch_that_goes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, level("a", 1), epoch=2) + batch(1, level("a", 2), epoch=1))
    found = timeline(capsys, tmp_path, Exit.FAILED)
    assert levels(found) == [(0, 1, 0), (1, 2, None)]
    (why,) = (one["why"] for one in found if one["event"] == "Missing")
    assert "the leader epoch goes back (leader epoch 1 after 2)" in why


def test_the_timeline_accepts_an_incomplete_batch_only_in_the_newest_segment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, level("a", 1)) + batch(1, no_op())[:-3])
    assert timeline(capsys, tmp_path)[-1]["offset"] == 1
    (tmp_path / segment(2)).write_bytes(batch(2, no_op()))
    assert [one["event"] for one in timeline(capsys, tmp_path, Exit.FAILED)] == [
        "FeatureLevel", "Missing", "Missing", "End",  # the incomplete batch, and the offset that it had
    ]  # fmt: skip


def test_the_timeline_shows_no_change_of_an_open_transaction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(log([no_op()], [begin(), level("a", 1)]))
    (end_,) = timeline(capsys, tmp_path)
    assert (end_["event"], end_["offset"], end_["committedOffset"], end_["openTransaction"]) == ("End", 3, 0, 1)
    assert main(["log", "timeline", str(tmp_path)]) == Exit.DONE
    assert "the transaction that begins at 1 is open" in capsys.readouterr().out


def test_an_unknown_record_makes_later_changes_uncertain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, bytes((1, 12, 99)) + b"?", level("a", 1)))
    (found, change, _) = timeline(capsys, tmp_path, Exit.FAILED)
    assert (found["event"], found["what"]) == ("NotUnderstood", "FEATURE_LEVEL_RECORD")
    assert (change["level"], change["previous"]) == (1, None)


def test_log_timeline_prints_the_same_events_in_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    found = timeline(capsys, KRAFT.parent)
    assert main(["log", "timeline", "-o", "yaml", str(KRAFT.parent)]) == Exit.DONE
    assert yaml.safe_load(capsys.readouterr().out) == found


def test_log_timeline_prints_the_same_text_in_any_width() -> None:
    for columns in (120, 80, 40):
        screen = in_terminal([*PROGRAM, "log", "timeline", str(CHANGES.parent)], columns=columns)
        assert screen.code == Exit.DONE
        assert max(map(len, screen.lines)) <= columns
        for text in (
            f"# {FIRST}",
            "143 2026-11-21T00:24:38.801Z metadata.version 25 (4.0-IV3) -> 28 (4.2-IV0)",
            "187 2026-11-21T00:24:59.728Z kraft.version 0 -> 1",
            "voters static -> 3001, 3002, 3003",
            "broker 4 registered, fenced: metadata.version 7-27",
            "broker 4 unregistered",
            "controller 3001 is the leader of epoch 9",
            "-- the following records may not be committed",
            "-- the log ends at offset 495",
        ):
            assert text in screen.text


def test_log_timeline_prints_no_control_characters_of_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\r\u202e=cmd"
    (tmp_path / FIRST).write_bytes(log([level(hostile, 1)], [begin(), level(hostile, 2), end()]))
    for form in ("text", "json", "yaml"):
        assert main(["log", "timeline", "-o", form, str(tmp_path)]) == Exit.DONE
        output = "".join(capsys.readouterr())
        assert output.count("cmd") == 2
        assert all(one.isprintable() or one == "\n" for one in output)


TAKEN = ({"metadata.version": 1}, ["metadata.version"])
"""Levels and `notInLog`: Kafka runs at level 1 if the log has no record of metadata.version."""


def test_the_timeline_of_a_log_without_metadata_version_ends_with_the_default_of_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quorum of Kafka 3.0 to 3.2 whose level was never raised."""
    (tmp_path / FIRST).write_bytes(log([broker(1, 0)], [no_op()]))
    last = timeline(capsys, tmp_path)[-1]
    assert (last["features"], last["notInLog"]) == TAKEN
    assert main(["log", "timeline", str(tmp_path)]) == Exit.DONE
    assert "-- metadata.version 1 (3.0-IV1), not in the log\n-- the log ends" in capsys.readouterr().out


def test_the_timeline_of_a_snapshot_without_metadata_version_has_the_default_of_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / checkpoint(5)).write_bytes(snapshot(broker(1, 1)))
    state, last = timeline(capsys, tmp_path)
    assert [(one["features"], one["notInLog"]) for one in (state, last)] == [TAKEN, TAKEN]
    assert main(["log", "timeline", str(tmp_path)]) == Exit.DONE
    shown = " ".join(capsys.readouterr().out.split())  # however wide the terminal is
    assert "as the snapshot says: metadata.version 1 (3.0-IV1), not in the log; registered" in shown


@pytest.mark.parametrize(
    "data",
    [
        log([level(METADATA, 7)], [broker(1, 0)]),
        log([level("confluent.metadata.version", 140)], [broker(1, 0)]),
        batch(0, broker(1, 0)) + batch(5, no_op()),
        batch(0, bytes((1, 12, 99)) + b"?"),
        b"",
    ],
    ids=["there is one", "a vendor's", "some of it is missing", "a record was not understood", "nothing is in it"],
)
def test_the_timeline_assumes_no_default_level_if_the_log_may_have_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    (tmp_path / FIRST).write_bytes(data)
    main(["log", "timeline", str(tmp_path), "-o", "json"])
    assert "notInLog" not in capsys.readouterr().out
