"""Records at which Kafka stops: `decode`, `verify`, `timeline` and `state` say the same of them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.kraftlog.build import batch, broker, change, checkpoint, fence, level, log, no_op, segment, snapshot
from tests.kraftlog.impossible import CASES, A, B, Case, moved, partition, topic

FIRST = segment(0)
BEFORE = level("metadata.version", 29), no_op()
SAID = "BROKER_REGISTRATION_CHANGE of broker 3 has epoch 705, its registration has 10: Kafka stops here"
WORDS = f"{SAID} (ClusterDelta.getBrokerOrThrow)"
EPOCH = [broker(3, 10), change(3, 10, fenced=-1), change(3, 705, fenced=1), no_op()]

Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, path: Path, *words: str, code: Exit = Exit.FAILED) -> str:
    """The output of a `log` command, of both streams."""
    assert main(["log", *words, str(path)]) == code
    out, err = capsys.readouterr()
    return out + err


def objects(capsys: Capture, path: Path, *words: str, code: Exit = Exit.FAILED) -> list[dict[str, Any]]:
    assert main(["log", *words, "-o", "json", str(path)]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def a_log(folder: Path, **files: bytes) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_all_log_commands_describe_an_impossible_record_alike(tmp_path: Path, capsys: Capture, case: Case) -> None:
    folder = a_log(tmp_path, **{FIRST: log(BEFORE, case.values, [no_op()])})
    at = len(BEFORE) + len(case.values) - 1
    began = case.text.replace("at offset 0 ", f"at offset {len(BEFORE)} ")
    words = f"offset {at}: {began}: Kafka stops here ({case.check.method})"
    for action in ("verify", "decode", "timeline", "state", "ghosts"):
        assert words in shown(capsys, folder, action), action


def test_log_decode_reports_an_impossible_record_after_the_record(tmp_path: Path, capsys: Capture) -> None:
    folder = a_log(tmp_path, **{FIRST: log(EPOCH)})
    lines = shown(capsys, folder, "decode").splitlines()
    assert lines[3] == f"# {folder / FIRST}: offset 2: {WORDS}"
    assert lines[2].split()[0] == "2"
    found = objects(capsys, folder, "decode")
    assert [one["offset"] for one in found] == [0, 1, 2, 2, 3]
    assert found[3] == {
        "file": str(folder / FIRST), "offset": 2, "record": "BROKER_REGISTRATION_CHANGE_RECORD",
        "impossible": WORDS, "check": "ClusterDelta.getBrokerOrThrow",
    }  # fmt: skip


def test_log_verify_lists_impossible_records_and_exits_with_1(tmp_path: Path, capsys: Capture) -> None:
    folder = a_log(tmp_path, **{FIRST: log(EPOCH)})
    first, last = shown(capsys, folder, "verify").splitlines()
    assert first == f"{folder / FIRST}: offset 2: {WORDS}"
    assert last.endswith("4 records: 4 decoded, 0 kept as bytes, 0 damaged")
    (found,) = objects(capsys, folder, "verify")
    assert ([one["offset"] for one in found["impossible"]], found["sound"]) == ([2], False)


def test_the_timeline_shows_an_impossible_record_instead_of_its_change(tmp_path: Path, capsys: Capture) -> None:
    folder = a_log(tmp_path, **{FIRST: log(EPOCH)})
    found = objects(capsys, folder, "timeline")
    assert [(one["event"], one.get("offset")) for one in found] == [
        ("Registration", 0), ("Fencing", 1), ("Impossible", 2), ("End", 4),
    ]  # fmt: skip
    assert (found[2]["reason"], found[2]["record"]) == (WORDS, "BROKER_REGISTRATION_CHANGE_RECORD")
    assert "broker 3 fenced" not in shown(capsys, folder, "timeline")


def test_log_state_ends_before_an_impossible_record(tmp_path: Path, capsys: Capture) -> None:
    folder = a_log(tmp_path, **{FIRST: log(EPOCH)})
    (found,) = [json.loads(text) for text in [_out(capsys, folder, "state", "-o", "json", code=Exit.FAILED)]]
    assert (found["source"]["offset"], found["unreadable"]) == (2, 0)
    assert found["problems"] == [f"the state behind offset 2 is not known: {FIRST}: offset 2: {WORDS}"]
    assert "unfenced" in shown(capsys, folder, "state", "--at", "2", code=Exit.DONE)
    refused = shown(capsys, folder, "state", "--at", "3")
    assert f"the state at offset 3 is not known: {FIRST}: offset 2: {WORDS}" in refused
    assert "the state is known up to --at 2" in refused


def _out(capsys: Capture, path: Path, *words: str, code: Exit) -> str:
    assert main(["log", *words, str(path)]) == code
    return capsys.readouterr().out


def test_a_state_after_a_later_snapshot_is_exact_and_the_impossible_record_is_still_named(
    tmp_path: Path, capsys: Capture
) -> None:
    state = snapshot(broker(3, 900), level("metadata.version", 29))
    folder = a_log(tmp_path, **{FIRST: log(EPOCH), checkpoint(4): state, segment(4): log([no_op()], start=4)})
    document = json.loads(_out(capsys, folder, "state", "-o", "json", code=Exit.FAILED))
    assert (document["source"]["offset"], document["registrations"][0]["epoch"]) == (5, 900)
    assert document["problems"] == [f"{FIRST}: offset 2: {WORDS}"]
    for action in ("verify", "decode", "timeline"):
        assert f"offset 2: {WORDS}" in shown(capsys, folder, action)


def test_all_log_commands_report_an_impossible_record_of_a_snapshot(tmp_path: Path, capsys: Capture) -> None:
    state = snapshot(topic(), partition(), partition(id_=B))
    folder = a_log(tmp_path, **{checkpoint(4): state, segment(4): log([no_op()], start=4)})
    words = (
        "offset 3 of the snapshot: PARTITION of partition 0 has topic id AAAAAAAAAAIAAAAAAAAABw, which does not exist"
    )
    for action in ("verify", "decode", "timeline", "state"):
        assert words in shown(capsys, folder, action), action
    assert words in shown(capsys, folder / checkpoint(4), "decode")


def test_no_record_is_called_impossible_in_a_log_without_its_beginning(tmp_path: Path, capsys: Capture) -> None:
    folder = a_log(tmp_path, **{segment(9): log([fence(3, 10), moved(isr=(1,)), no_op()], start=9)})
    for action, code in {"verify": Exit.FAILED, "decode": Exit.FAILED, "timeline": Exit.DONE}.items():
        assert "Kafka stops" not in shown(capsys, folder, action, code=code)


def test_log_state_counts_many_impossible_records_and_log_verify_lists_all(tmp_path: Path, capsys: Capture) -> None:
    folder = a_log(tmp_path, **{FIRST: log([fence(3, 10)] * 30)})
    problems = json.loads(_out(capsys, folder, "state", "-o", "json", code=Exit.FAILED))["problems"]
    # 11 of 30 records are listed, one by one; the last line counts the other 19.
    assert (len(problems), problems[-1]) == (12, "Kafka stops at 19 more of the records; see log verify")
    assert shown(capsys, folder, "verify").count("Kafka stops here") == 30


def test_impossible_records_are_judged_per_node_in_a_bundle(tmp_path: Path, capsys: Capture) -> None:
    with tarfile.open(tmp_path / "bundle.tar.gz", "w:gz") as archive:
        for node, content in {"1": log(EPOCH), "2": log([topic(), partition(id_=A)])}.items():
            path = tmp_path / f"of-{node}"
            path.write_bytes(content)
            archive.add(path, f"{node}/__cluster_metadata-0/{FIRST}")
    text = shown(capsys, tmp_path / "bundle.tar.gz", "verify")
    assert text.count("Kafka stops here") == 1
    assert f"1/__cluster_metadata-0/{FIRST}: offset 2: {WORDS}" in text


def test_an_impossible_record_is_reported_in_a_segment_copied_to_another_name(tmp_path: Path, capsys: Capture) -> None:
    copy = tmp_path / "metadata.log"
    copy.write_bytes(log(EPOCH))
    assert f"offset 2: {WORDS}" in shown(capsys, copy, "decode")


def test_no_record_is_called_impossible_in_a_copied_segment_that_lacks_the_beginning_of_its_log(
    tmp_path: Path, capsys: Capture
) -> None:
    """The registration that the record may belong to can be in an earlier segment."""
    copy = tmp_path / "metadata.log"
    copy.write_bytes(batch(7, *EPOCH[2:]))
    assert "Kafka stops" not in shown(capsys, copy, "decode", code=Exit.DONE)


def test_a_topic_name_with_control_characters_cannot_hide_an_impossible_record(tmp_path: Path, capsys: Capture) -> None:
    wild = "t\u2028         3  \x1b[2J"
    folder = a_log(tmp_path, **{FIRST: log([topic(wild), topic(wild)])})
    for action in ("verify", "decode", "timeline", "state"):
        text = shown(capsys, folder, action)
        assert "Kafka stops here (ReplicationControlManager.replay)" in " ".join(text.split())
        assert "\x1b" not in text.replace("\x1b[0m", "").replace("\x1b[1m", "") or action == "state"
