"""`log timeline` on files: every change with its offset, its time and its file, and what is not known."""

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


def test_what_lies_behind_the_newest_whole_snapshot_may_not_be_committed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in timeline(capsys, CHANGES.parent)[:-1]:
        assert one["committed"] is (True if one["offset"] < 442 else None)
    folder = shutil.copytree(CHANGES.parent, tmp_path / "log")
    os.truncate(folder / checkpoint(442, 9), 500)
    assert {one["committed"] for one in timeline(capsys, folder)[:-1]} == {None}


def test_a_log_without_its_beginning_starts_with_the_state_of_its_snapshot_which_is_no_event(
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
    assert NOW == 1_795_219_804_022


def test_a_snapshot_alone_is_a_state_and_no_events(capsys: pytest.CaptureFixture[str]) -> None:
    for path in SNAPSHOTS:
        found = timeline(capsys, path)
        assert [one["event"] for one in found] == ["State", "End"]


def test_what_a_controller_was_formatted_with_is_read_from_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / checkpoint(0, 0)).write_bytes(snapshot(level(METADATA, 25)))
    (tmp_path / FIRST).write_bytes(log([level(METADATA, 25)]))
    found = timeline(capsys, tmp_path)
    assert (levels(found), [one["event"] for one in found]) == ([(0, 25, 0)], ["FeatureLevel", "End"])
    assert found[0]["committed"] is None


def test_behind_a_gap_nothing_is_known_of_before_until_a_snapshot_tells(
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


def test_what_an_idle_controller_writes_is_counted_and_no_gap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_damage_is_named_and_what_is_behind_it_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [batch(0, level("a", 1)), batch(1, level("a", 2)), batch(2, level("a", 3))]
    (tmp_path / FIRST).write_bytes(parts[0] + parts[1][:-1] + b"?" + parts[2])
    found = timeline(capsys, tmp_path, Exit.FAILED)
    assert levels(found) == [(0, 1, 0), (2, 3, None)]
    missing = [one["why"] for one in found if one["event"] == "Missing"]
    assert missing == [
        f"at byte {len(parts[0])}: the CRC-32C of the batch is wrong (base offset 1)", "offsets 1 to 1 are missing",
    ]  # fmt: skip


def test_offsets_that_are_there_twice_are_named_and_what_was_before_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(log([level("a", 1)], [level("a", 2)]))
    (tmp_path / segment(1)).write_bytes(log([level("a", 3)], [level("a", 4)], start=1))
    found = timeline(capsys, tmp_path, Exit.FAILED)
    assert levels(found) == [(0, 1, 0), (1, 2, 1), (2, 4, None)]
    assert [one["why"] for one in found if one["event"] == "Missing"] == ["offsets 1 to 1 are there twice"]


def test_a_leader_epoch_that_goes_back_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, level("a", 1), epoch=2) + batch(1, level("a", 2), epoch=1))
    found = timeline(capsys, tmp_path, Exit.FAILED)
    assert levels(found) == [(0, 1, 0), (1, 2, None)]
    (why,) = (one["why"] for one in found if one["event"] == "Missing")
    assert "the leader epoch goes back (leader epoch 1 after 2)" in why


def test_the_end_of_the_newest_segment_may_be_in_the_making(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, level("a", 1)) + batch(1, no_op())[:-3])
    assert timeline(capsys, tmp_path)[-1]["offset"] == 1
    (tmp_path / segment(2)).write_bytes(batch(2, no_op()))
    assert [one["event"] for one in timeline(capsys, tmp_path, Exit.FAILED)] == [
        "FeatureLevel", "Missing", "Missing", "End",
    ]  # fmt: skip


def test_an_open_transaction_changed_nothing_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FIRST).write_bytes(log([no_op()], [begin(), level("a", 1)]))
    (end_,) = timeline(capsys, tmp_path)
    assert (end_["event"], end_["offset"], end_["committedOffset"], end_["openTransaction"]) == ("End", 3, 0, 1)
    assert main(["log", "timeline", str(tmp_path)]) == Exit.DONE
    assert "the transaction that begins at 1 is open" in capsys.readouterr().out


def test_a_record_that_is_not_understood_may_have_changed_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, bytes((1, 12, 99)) + b"?"))
    (found, _) = timeline(capsys, tmp_path, Exit.FAILED)
    assert (found["event"], found["what"]) == ("NotUnderstood", "FEATURE_LEVEL_RECORD")


def test_yaml_is_one_list_of_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found = timeline(capsys, KRAFT.parent)
    assert main(["log", "timeline", "-o", "yaml", str(KRAFT.parent)]) == Exit.DONE
    assert yaml.safe_load(capsys.readouterr().out) == found


def test_people_read_the_same_in_any_width() -> None:
    for columns in (120, 80, 40):
        seen = in_terminal([*PROGRAM, "log", "timeline", str(CHANGES.parent)], columns=columns)
        assert seen.code == Exit.DONE
        assert max(map(len, seen.lines)) <= columns
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
            assert text in seen.text


def test_names_of_a_log_do_nothing_to_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\r\u202e=cmd"
    (tmp_path / FIRST).write_bytes(log([level(hostile, 1)], [begin(), level(hostile, 2), end()]))
    for form in ("text", "json", "yaml"):
        assert main(["log", "timeline", "-o", form, str(tmp_path)]) == Exit.DONE
        said = "".join(capsys.readouterr())
        assert said.count("cmd") == 2
        assert all(one.isprintable() or one == "\n" for one in said)


TAKEN = ({"metadata.version": 1}, ["metadata.version"])


def test_a_log_without_a_level_ends_with_the_one_that_kafka_takes_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quorum of Kafka 3.0 to 3.2 whose level was never raised."""
    (tmp_path / FIRST).write_bytes(log([broker(1, 0)], [no_op()]))
    last = timeline(capsys, tmp_path)[-1]
    assert (last["features"], last["notInLog"]) == TAKEN
    assert main(["log", "timeline", str(tmp_path)]) == Exit.DONE
    assert "-- metadata.version 1 (3.0-IV1), not in the log\n-- the log ends" in capsys.readouterr().out


def test_a_snapshot_shows_levels_that_are_not_in_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_nothing_is_taken_where_the_log_may_have_a_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    (tmp_path / FIRST).write_bytes(data)
    main(["log", "timeline", str(tmp_path), "-o", "json"])
    assert "notInLog" not in capsys.readouterr().out
