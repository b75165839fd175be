"""`log state` on files: what it shows, how sure it is, and what it says where the state cannot be known."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from uuid import UUID

import pytest
import yaml

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kraftlog.records import frame
from kraftlog.schema import table
from kraftlog.schema.others import PRODUCER_IDS
from tests.kafkafeatures.terminal import PROGRAM, in_terminal
from tests.kraftlog.build import batch, begin, broker, level, log, no_op
from tests.kraftlog.golden import CHANGES, MIGRATION
from tests.kraftlog.test_clients import credential, quota, right, token

FIRST = f"{0:020}.log"
SNAPSHOT = f"{442:020}-{9:010}.checkpoint"


def state(capsys: pytest.CaptureFixture[str], *words: str, form: str = "json", code: Exit = Exit.DONE) -> str:
    assert main(["log", "state", "-o", form, *words]) == code
    return capsys.readouterr().out


def node(folder: Path) -> Path:
    """The directories of a node, with the log of a real one."""
    (folder / "data").mkdir()
    shutil.copytree(CHANGES.parent, folder / "data" / "__cluster_metadata-0")
    (folder / "data" / "meta.properties").write_text("#a comment\nversion=1\ncluster.id=abc\nnode.id=3002\n")
    return folder / "data"


def test_log_state_reports_the_offset_and_the_files_of_a_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = node(tmp_path)
    # The recorded log raises kraft.version at offset 187, has a snapshot of offset 442, and ends at 495.
    for words, offset, kraft_version, committed, made_of in (
        (("--at", "187"), 187, None, True, [FIRST]),
        (("--at", "188"), 188, 1, True, [FIRST]),
        (("--at", "442"), 442, 1, True, [SNAPSHOT]),
        ((), 495, 1, None, [SNAPSHOT, FIRST]),
    ):
        document = json.loads(state(capsys, *words, str(path)))
        assert (document["kind"], document["clusterId"], document["source"]["node"]) == ("MetadataState", "abc", 3002)
        assert (document["source"]["offset"], document["source"]["committed"]) == (offset, committed)
        assert document["source"]["files"] == made_of
        levels = {one["name"]: one["finalized"] for one in document["features"]}
        assert levels.get("kraft.version") == kraft_version
        assert levels["metadata.version"] == 28
        assert {(one["id"], one["role"]) for one in document["registrations"]} >= {(1, "Broker"), (3001, "Controller")}


def test_log_state_prints_the_same_in_json_and_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CHANGES.parent)
    assert yaml.safe_load(state(capsys, path, form="yaml")) == json.loads(state(capsys, path))


def test_log_state_prints_the_same_text_in_any_width(tmp_path: Path) -> None:
    path = node(tmp_path)
    for columns in (120, 80, 40):
        screen = in_terminal([*PROGRAM, "log", "state", "--at", "450", str(path)], columns=columns)
        assert screen.code == Exit.DONE
        assert max(map(len, screen.lines)) <= columns
        header = screen.lines[: screen.lines.index("")]
        assert all(one.startswith((" ", "Cluster", "State", "Read", "Committed", "Quorum")) for one in header)
        for text in (
            "Cluster abc files of node 3002",
            "State at offset 450, epoch 9, 2026-11-21T00:28:09.022Z",
            "Committed: unknown from offset 442 on",
            "voters 3001, 3002, 3003",
            "28 (4.2-IV0)",
            "controller 3003",
            "127.0.0.1:30401",
        ):
            assert text in screen.text


def test_log_state_shows_the_migration_state_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(state(capsys, "--at", "300", str(MIGRATION.parent)))
    assert document["migration"] == {"state": "PreMigration", "code": 2}
    assert "Migration from ZooKeeper: PreMigration (2)" in state(
        capsys, "--at", "300", str(MIGRATION.parent), form="text"
    )


def test_log_state_shows_acls_quotas_and_credentials_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = frame(table.TOPIC, {"name": "orders", "topicId": UUID(int=1)})
    place = {"partitionId": 0, "topicId": UUID(int=1), "replicas": (1,), "isr": (1,), "removingReplicas": ()}
    leads = {"addingReplicas": (), "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}
    ids = frame(PRODUCER_IDS, {"brokerId": 1, "brokerEpoch": 5, "nextProducerId": 2000})
    values = right(1), right(2), credential("alice"), token("t1"), quota(5.0, ("user", None)), ids
    (tmp_path / FIRST).write_bytes(log([topic, frame(table.PARTITION, {**place, **leads}), *values]))
    document = json.loads(state(capsys, str(tmp_path)))
    assert document["topics"] == {"count": 1, "partitions": 1}
    assert document["rights"] == 2 * [
        {
            "principal": "User:alice", "permission": "Allow", "operation": "Read", "host": "*",
            "resource": {"type": "Topic", "name": "t", "pattern": "Literal"},
        }
    ]  # fmt: skip
    assert document["credentials"] == [{"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096}]
    assert document["delegationTokens"] == [
        {"id": "t1", "owner": "User:alice", "requester": "User:bob", "expires": "1970-01-01T00:00:00.002Z"}
    ]
    assert document["quotas"] == [{"entity": {"user": None}, "key": "consumer_byte_rate", "value": 5.0}]
    assert document["nextProducerId"] == 2000
    text = state(capsys, str(tmp_path), form="text")
    for line in (
        "Topics: 1, with 1 partition",
        "Rights: 2 ACL entries of User:alice",
        "SCRAM credentials: alice (SCRAM-SHA-256)",
        "Delegation tokens: 1, of User:alice",
        "Quotas: 1, for user (default)",
        "Next producer id: 2000",
    ):
        assert line in text
    assert "9f3c" not in text + str(document)


def test_log_state_reads_a_single_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(state(capsys, str(CHANGES)))["source"]["files"] == [FIRST]
    document = json.loads(state(capsys, str(CHANGES.with_name(SNAPSHOT))))
    assert (document["source"]["offset"], document["source"]["files"]) == (442, [SNAPSHOT])


def test_log_state_reports_an_open_transaction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FIRST).write_bytes(log([begin(), level("metadata.version", 9)]))
    assert json.loads(state(capsys, str(tmp_path)))["source"]["inTransaction"] is True
    assert "Inside of a metadata transaction" in state(capsys, str(tmp_path), form="text")


def test_log_state_reports_missing_offsets_and_the_last_known_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FIRST).write_bytes(log([level("metadata.version", 9)], [no_op()]))
    (tmp_path / f"{5:020}.log").write_bytes(log([no_op()], start=5))
    assert main(["log", "state", "--at", "6", str(tmp_path)]) == Exit.FAILED
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        f"kafkafeatures: {tmp_path}: the state at offset 6 is not known: offsets 2 to 4 are missing: {5:020}.log is "
        "the next file; the state is known up to --at 2\n"
    )
    document = json.loads(state(capsys, str(tmp_path), code=Exit.FAILED))
    assert document["source"]["offset"] == 2
    assert document["problems"] == [
        f"the state behind offset 2 is not known: offsets 2 to 4 are missing: {5:020}.log is the next file"
    ]


def test_log_state_leaves_out_and_reports_an_incomplete_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = node(tmp_path) / "__cluster_metadata-0"
    os.truncate(folder / SNAPSHOT, 300)
    assert main(["log", "state", "-o", "json", str(folder)]) == Exit.DONE
    output = capsys.readouterr()
    document = json.loads(output.out)["source"]
    assert document["files"] == [FIRST]
    assert document["committed"] is None
    assert document["leftOut"] == [f"{SNAPSHOT}: the last batch is cut, at byte 269 of the snapshot"]
    assert f"a snapshot that is not whole was left out: {SNAPSHOT}" in output.err


def test_log_state_reports_a_record_that_cannot_be_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, bytes((1, 12, 99)) + b"?"))
    document = json.loads(state(capsys, str(tmp_path), code=Exit.FAILED))
    assert document["problems"] == ["1 record could not be understood: what they changed is not known; see log decode"]


def test_log_state_prints_no_control_characters_of_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\r\u202e=cmd"
    endpoint = {"name": hostile, "host": hostile, "port": 1, "securityProtocol": 0}
    (tmp_path / FIRST).write_bytes(batch(0, level(hostile, 1), broker(1, 1, endPoints=(endpoint,), rack=hostile)))
    for form in ("text", "json", "yaml"):
        output = state(capsys, str(tmp_path), form=form)
        assert all(one.isprintable() or one == "\n" for one in output)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("decode", "--at", "3", "x"), "--at is a flag of log state"),
        (("state", "x", "y"), "expected one PATH"),
        (("state", "--no-redact", "x"), "shows no secrets"),
        (("verify", "-o", "yaml", "x"), "invalid value 'yaml' of -o; expected text or json"),
        (("state", "--at", "-1", "x"), "expected an offset from 0 to 9223372036854775807"),
        (("state", "--at", str(2**63), "x"), "expected an offset from 0 to 9223372036854775807"),
        (("state", "--at", "1e3", "x"), "invalid value '1e3'"),
    ],
)
def test_invalid_flags_of_log_state_give_one_line(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", *words]) == Exit.USAGE
    output = capsys.readouterr().err
    assert message in output
    assert len(output.splitlines()) == 1


def test_log_state_refuses_a_path_without_a_log_or_with_logs_of_several_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "disk" / "__cluster_metadata-0").mkdir(parents=True)
        (tmp_path / name / "disk" / "__cluster_metadata-0" / FIRST).write_bytes(log([no_op()]))
    (tmp_path / "one" / "disk" / "topic-0").mkdir()
    (tmp_path / "one" / "disk" / "topic-0" / FIRST).write_bytes(b"of a topic")
    (tmp_path / "none").mkdir()
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "copy").write_bytes(bytes(100))
    for path, says in (
        (tmp_path, "holds the metadata logs of 2 nodes; give one of them"),
        (tmp_path / "none", "no file of a metadata log is here"),
        (tmp_path / "notes.txt", "this is text"),
        (tmp_path / "copy", "the name does not say what it holds"),
        (tmp_path / "nothing", "No such file or directory"),
    ):
        assert main(["log", "state", str(path)]) == Exit.USAGE
        assert says in capsys.readouterr().err
    assert main(["log", "state", str(tmp_path / "one")]) == Exit.DONE


def test_log_state_of_a_log_without_metadata_version_shows_the_default_of_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quorum of Kafka 3.0 to 3.2 whose level was never raised."""
    (tmp_path / CHANGES.name).write_bytes(log([broker(1, 0)], [no_op()]))
    document = json.loads(state(capsys, str(tmp_path)))
    taken = {"name": "metadata.version", "finalized": 1, "finalizedName": "3.0-IV1", "inLog": False}
    assert document["features"] == [taken]
    assert "metadata.version  1 (3.0-IV1), not in the log" in state(capsys, str(tmp_path), form="text")
