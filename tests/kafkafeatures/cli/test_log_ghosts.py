"""`log ghosts` on files: the registrations that may be ghosts, each with the reason and the record that shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kraftlog import Record, encode_batch
from kraftlog.ghosts import FENCED_FOR_MS
from kraftlog.records import frame
from kraftlog.schema import table
from tests.kafkafeatures.terminal import PROGRAM, in_terminal
from tests.kraftlog.build import (
    NOW,
    batch,
    broker,
    change,
    checkpoint,
    control_batch,
    controller,
    log,
    no_op,
    segment,
    snapshot,
)
from tests.kraftlog.golden import CHANGES

FIRST = segment(0)


def leader(offset: int, *voters: int) -> bytes:
    """The record of an election, which names the voters of a static quorum."""
    data = {"leaderId": voters[0], "voters": tuple({"voterId": one} for one in voters), "grantingVoters": ()}
    return control_batch(offset, (table.LEADER_CHANGE, data))


def dynamic(*voters: int) -> tuple[Any, dict[str, object]]:
    """The record with the voters of a dynamic quorum."""
    each = {"voterDirectoryId": UUID(int=1), "endpoints": ()}
    ranges = {"minSupportedVersion": 0, "maxSupportedVersion": 1}
    return table.KRAFT_VOTERS, {
        "voters": tuple({"voterId": one, **each, "kRaftVersionFeature": ranges} for one in voters)
    }


def later(offset: int, milliseconds: int) -> bytes:
    """The last batch of a log; its time, in ms after NOW, is the time at which ghosts are judged."""
    return encode_batch([Record(offset, NOW + milliseconds, no_op())], leader_epoch=1)


def ghosts(capsys: pytest.CaptureFixture[str], path: Path, code: Exit = Exit.DONE) -> dict[str, Any]:
    assert main(["log", "ghosts", "-o", "json", str(path)]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def named(found: dict[str, Any], kind: str = "ghosts") -> list[tuple[int, str, bool | None]]:
    """Id, role and suspicion of each registration in one of the two lists, `ghosts` and `unclear`."""
    return [(one["id"], one["role"], one["suspected"]) for one in found[kind]]


def test_a_controller_that_is_registered_and_not_a_voter_is_suspected_with_its_last_registration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / FIRST
    path.write_bytes(leader(0, 1, 2) + log([controller(1), controller(2), controller(3)], [controller(3)], start=1))
    document = ghosts(capsys, tmp_path)
    assert (document["kind"], document["voters"], document["votersFrom"]["offset"]) == ("GhostRegistrations", [1, 2], 0)
    assert named(document) == [(3, "Controller", True)]
    (ghost,) = document["ghosts"]
    assert ghost["reason"] == "registered, but not a voter"
    assert ghost["lastRegistration"] == {"file": FIRST, "offset": 4, "timestamp": "2026-11-21T00:10:04.026Z"}
    assert ghost["features"]["metadata.version"] == {"min": 7, "max": 29}
    path.write_bytes(path.read_bytes() + log([frame(table.UNREGISTER_CONTROLLER, {"controllerId": 3})], start=5))
    assert named(ghosts(capsys, tmp_path)) == []


def test_voters_of_a_dynamic_quorum_come_from_its_voters_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = log([controller(1), controller(2), controller(3)], start=1)
    (tmp_path / FIRST).write_bytes(leader(0, 1, 2, 3) + nodes + control_batch(4, dynamic(1, 2)))
    document = ghosts(capsys, tmp_path)
    assert (document["voters"], document["votersFrom"]["offset"]) == ([1, 2], 4)
    assert named(document) == [(3, "Controller", True)]


def test_ghosts_are_unclear_if_no_record_names_the_voters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FIRST).write_bytes(log([controller(1)]))
    document = ghosts(capsys, tmp_path)
    assert (document["voters"], document["votersFrom"]) == (None, None)
    assert (named(document), named(document, "unclear")) == ([], [(1, "Controller", None)])


@pytest.mark.parametrize(("span", "suspected"), [(FENCED_FOR_MS - 1, False), (FENCED_FOR_MS, True)])
def test_a_broker_fenced_for_fifteen_minutes_is_suspected(
    span: int, suspected: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = log(
        [broker(1, 0), broker(2, 1)], [change(1, 0, fenced=-1), change(2, 1, fenced=-1)], [change(1, 0, fenced=1)]
    )
    (tmp_path / FIRST).write_bytes(start + later(5, 4 + span))  # broker 1 was fenced at 4 ms, by the record at offset 4
    document = ghosts(capsys, tmp_path)
    (one,) = document["ghosts" if suspected else "unclear"]
    assert (one["id"], one["suspected"]) == (1, suspected)
    assert one["fencedSince"] == {"file": FIRST, "offset": 4, "timestamp": "2026-11-21T00:10:04.026Z"}
    assert one["reason"] == f"fenced for {15 if suspected else 14} min at the end of the log"
    assert one["lastRegistration"]["offset"] == 0


def test_a_registration_in_a_snapshot_is_dated_not_after_the_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / checkpoint(5)).write_bytes(snapshot(broker(1, 0), controller(3)))
    (tmp_path / segment(5)).write_bytes(leader(5, 1) + later(6, FENCED_FOR_MS))
    document = ghosts(capsys, tmp_path)
    assert named(document) == [(3, "Controller", True), (1, "Broker", True)]
    for one in document["ghosts"]:
        assert one["lastRegistration"] == {
            "file": checkpoint(5), "offset": 5, "notAfter": "2026-11-21T00:10:04.017Z",
        }  # fmt: skip
    assert document["ghosts"][1]["reason"] == "fenced for at least 15 min at the end of the log"


def test_a_snapshot_without_a_timestamp_gives_no_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = control_batch(0, (table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": -1}))
    footer = control_batch(2, (table.SNAPSHOT_FOOTER, {}))
    (tmp_path / checkpoint(5)).write_bytes(header + batch(1, broker(1, 0)) + footer)
    (tmp_path / segment(5)).write_bytes(leader(5, 1) + later(6, FENCED_FOR_MS))
    document = ghosts(capsys, tmp_path)
    assert (named(document), named(document, "unclear")) == ([], [(1, "Broker", None)])
    assert document["unclear"][0]["reason"] == "fenced; since when is not known"


def test_the_last_registration_is_that_of_the_present_process_not_of_an_earlier_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(leader(0, 1) + log([controller(3, incarnation=1)], start=1))
    (tmp_path / checkpoint(5)).write_bytes(snapshot(controller(3, incarnation=2)))
    (tmp_path / segment(5)).write_bytes(log([no_op()], start=5))
    (ghost,) = ghosts(capsys, tmp_path)["ghosts"]
    assert ghost["lastRegistration"]["file"] == checkpoint(5)


def test_the_node_that_wrote_the_log_is_not_suspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    path = tmp_path / "__cluster_metadata-0" / FIRST
    path.write_bytes(leader(0, 1) + log([controller(3), broker(4, 2)], start=1) + later(3, FENCED_FOR_MS + 2))
    for own, suspects in ((3, [4]), (4, [3])):
        (tmp_path / "meta.properties").write_text(f"node.id={own}\n")
        document = ghosts(capsys, tmp_path)
        assert [one["id"] for one in document["ghosts"]] == suspects
        (other,) = document["unclear"]
        assert (other["id"], other["suspected"]) == (own, False)
        assert other["reason"].endswith("these files are its own")


def test_missing_records_are_reported_since_they_may_hide_ghosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(leader(0, 1) + log([controller(3)], start=1))
    (tmp_path / segment(5)).write_bytes(log([frame(table.UNREGISTER_CONTROLLER, {"controllerId": 3})], start=5))
    document = ghosts(capsys, tmp_path, Exit.FAILED)
    assert named(document) == [(3, "Controller", True)]
    assert document["problems"] == [
        f"the state behind offset 2 is not known: offsets 2 to 4 are missing: {segment(5)} is the next file"
    ]


def test_recently_stopped_brokers_of_a_real_cluster_are_not_suspected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = ghosts(capsys, CHANGES.parent)
    assert named(document) == []
    assert named(document, "unclear") == [(1, "Broker", False), (2, "Broker", False), (3, "Broker", False)]
    assert [one["fencedSince"]["offset"] for one in document["unclear"]] == [490, 492, 494]


def test_the_yaml_of_log_ghosts_has_what_its_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    document = ghosts(capsys, CHANGES.parent)
    assert main(["log", "ghosts", "-o", "yaml", str(CHANGES.parent)]) == Exit.DONE
    assert yaml.safe_load(capsys.readouterr().out) == document


def test_log_ghosts_prints_the_same_text_in_any_width(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(leader(0, 1) + log([controller(1), controller(3), broker(4, 3)], start=1))
    for columns in (120, 80, 40):
        screen = in_terminal([*PROGRAM, "log", "ghosts", str(tmp_path)], columns=columns)
        assert screen.code == Exit.DONE
        folded = [line for line in screen.lines if "kafkafeatures describe" not in line]  # to be copied
        assert max(map(len, folded)) <= columns
        assert all(one[:1] in ("", " ") or one[0].isupper() for one in screen.lines)  # none continues in column 0
        for text in (
            "Suspected ghost registrations",
            "controller 3: registered, but not a voter",
            f"registered 2026-11-21T00:10:04.024Z, at offset 2 of {FIRST}",
            "supports metadata.version 7-29",
            "Not clear broker 4: fenced for 0 s at the end of the log",
            "To confirm it: kafkafeatures describe --bootstrap-server HOST:PORT",
        ):
            assert text in screen.text
