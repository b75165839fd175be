"""Files in a folder of inputs: the node and the cluster that each belongs to."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from featurelog.layout import InputsError, NodeLog, Root
from kraftlog.files import DIRECTORY

SEGMENT = f"{0:020}.log"
SNAPSHOT = f"{442:020}-{9:010}.checkpoint"


def put(root: Path, cluster: str, node: str, *names: str, properties: str | None = None) -> Path:
    """Write files of five bytes with these names into the folder of a node's metadata log, which is returned, and
    meta.properties beside that folder.
    """
    folder = root / cluster / node / DIRECTORY
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"bytes")
    if properties is not None:
        (folder.parent / "meta.properties").write_text(properties)
    return folder


def nodes(root: Path) -> list[NodeLog]:
    return list(Root.of(str(root)).nodes())


def test_segments_and_snapshots_are_listed_by_cluster_and_node(tmp_path: Path) -> None:
    put(tmp_path, "orders", "2", SEGMENT)
    put(tmp_path, "orders", "1", SNAPSHOT, SEGMENT, "leader-epoch-checkpoint", f"{0:020}.index")
    put(tmp_path, "audit", "kafka-log3", SEGMENT)
    found = nodes(tmp_path)
    assert [(one.cluster, one.node) for one in found] == [("audit", "kafka-log3"), ("orders", "1"), ("orders", "2")]
    assert [(file.name, file.size, file.is_snapshot) for file in found[1].files] == [
        (SEGMENT, 5, False),
        (SNAPSHOT, 5, True),
    ]
    assert found[1].files[0].modified == (tmp_path / "orders" / "1" / DIRECTORY / SEGMENT).stat().st_mtime_ns
    assert not found[1].unused


def test_partial_files_and_files_to_be_deleted_are_named_and_not_read(tmp_path: Path) -> None:
    put(tmp_path, "orders", "1", f"{SNAPSHOT}.part", f"{SNAPSHOT}.deleted", f"{SEGMENT}.deleted")
    (found,) = nodes(tmp_path)
    assert not found.files
    assert [why for _, why in found.unused] == [
        "a segment that is about to be deleted",
        "a snapshot that is about to be deleted",
        "a snapshot that was not finished",
    ]


def test_a_compressed_file_is_named_with_the_command_to_decompress_unless_the_plain_file_exists(tmp_path: Path) -> None:
    put(tmp_path, "orders", "1", SEGMENT, f"{SEGMENT}.gz", f"{SNAPSHOT}.gz", "quorum-state.gz")
    (found,) = nodes(tmp_path)
    assert [one.name for one in found.files] == [SEGMENT]
    assert found.unused == ((f"{SNAPSHOT}.gz", f"compressed; decompress it there: gunzip -k {SNAPSHOT}.gz"),)


def test_a_pipe_with_the_name_of_a_segment_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(put(tmp_path, "orders", "1") / SEGMENT)
    (found,) = nodes(tmp_path)
    assert found.unused == ((SEGMENT, "not a regular file"),)


@pytest.mark.parametrize(
    ("written", "voters"),
    [
        ('{"currentVoters":[{"voterId":3},{"voterId":1},{"voterId":2}],"data_version":0}', (1, 2, 3)),
        ('{"leaderId":1,"leaderEpoch":4,"votedId":-1,"votedDirectoryId":"x","data_version":1}', None),
        ('{"currentVoters":[{"voterId":1}],"data_version":1}', None),
        ('{"currentVoters":[],"data_version":0}', None),
        ('{"currentVoters":[{"voterId":true}],"data_version":0}', None),
        ('{"currentVoters":[{"voterId":1},{"voter', None),
        ("[" * 50_000, None),
        ("7", None),
        ("\xff", None),
    ],
    ids=[
        "three voters", "a dynamic quorum", "another version of the file", "no voters", "an id that is no number",
        "cut", "deeply nested", "no object", "no UTF-8",
    ],
)  # fmt: skip
def test_the_voters_of_a_static_quorum_are_read_from_quorum_state(
    tmp_path: Path, written: str, voters: tuple[int, ...] | None
) -> None:
    (put(tmp_path, "orders", "1", SEGMENT) / "quorum-state").write_text(written, encoding="latin-1")
    (found,) = nodes(tmp_path)
    assert found.voters == voters


@pytest.mark.parametrize(
    ("written", "vote"),
    [
        ('{"leaderId":2,"leaderEpoch":10,"votedId":2,"votedDirectoryId":"dVjL3w","data_version":1}', (10, 2, "dVjL3w")),
        ('{"leaderId":2,"leaderEpoch":4,"votedId":2,"currentVoters":[{"voterId":2}],"data_version":0}', (4, 2, "")),
        ('{"leaderId":2,"leaderEpoch":4,"votedId":-1,"data_version":0}', None),
        ('{"leaderId":2,"leaderEpoch":true,"votedId":2}', None),
        ('{"leaderId":2,"leaderEpoch":4}', None),
        ('{"leaderEpoch":4,"votedId":2,"votedDirectoryId":"', None),
        ("[]", None),
    ],
    ids=[
        "a dynamic quorum", "a static quorum", "no vote", "an epoch that is no number", "no field of a vote", "cut",
        "no object",
    ],
)  # fmt: skip
def test_the_vote_of_a_node_is_read_from_quorum_state(
    tmp_path: Path, written: str, vote: tuple[int, int, str] | None
) -> None:
    (put(tmp_path, "orders", "1", SEGMENT) / "quorum-state").write_text(written)
    (found,) = nodes(tmp_path)
    assert found.vote == vote


def test_a_folder_without_a_metadata_log_is_not_a_node(tmp_path: Path) -> None:
    (tmp_path / "orders" / "lost+found").mkdir(parents=True)
    (tmp_path / "README").write_text("notes")
    assert nodes(tmp_path) == []


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (None, None),
        ("version=1\ncluster.id=Q8qZ5m1bRbqPJ3dLr2eYgA\nnode.id=1\n", "Q8qZ5m1bRbqPJ3dLr2eYgA"),
        ("version=1\nnode.id=1\n", None),
        ("\udcff\x00cluster.id", None),
        ("cluster.id=" + "x" * 200, None),
        (" " * 70_000 + "\ncluster.id=late\n", None),
        ("cluster.id=\nnode.id=1\n", None),
    ],
    ids=["no file", "an id", "no id", "no text", "an id that is too long", "an id after 70,000 bytes", "an empty id"],
)
def test_the_cluster_id_is_read_from_meta_properties(tmp_path: Path, properties: str | None, expected: str) -> None:
    folder = put(tmp_path, "orders", "1", SEGMENT)
    if properties is not None:
        (folder.parent / "meta.properties").write_bytes(properties.encode(errors="surrogateescape"))
    assert [one.cluster_id for one in nodes(tmp_path)] == [expected]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("version=1\ncluster.id=Q8qZ5m1bRbqPJ3dLr2eYgA\nnode.id=3001\n", 3001),
        ("broker.id=7\nversion=0\n", 7),
        ("node.id = 0 \r\n", 0),
        ("node.id=1\nnode.id=2\n", None),
        ("node.id=12345678901\n", None),
        ("node.id=-1\n#node.id=1\nmy.node.id=1\n", None),
        ("cluster.id=x\n", None),
    ],
    ids=[
        "node.id", "broker.id", "spaces and a carriage return", "two ids", "more than 32 bits",
        "negative, a comment, another key", "no id",
    ],
)  # fmt: skip
def test_the_id_of_a_node_is_read_from_meta_properties(tmp_path: Path, properties: str, expected: int | None) -> None:
    put(tmp_path, "orders", "1", SEGMENT, properties=properties)
    assert [one.node_id for one in nodes(tmp_path)] == [expected]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("missing", r"missing: .*; check the path and the rights to read it"),
        ("nothing://of/the/kind", r"nothing://of/the/kind: .*; give a folder, or a URI like s3://bucket/prefix"),
    ],
)
def test_the_error_for_inputs_that_cannot_be_listed_is_one_line_with_a_remedy(
    tmp_path: Path, place: str, message: str
) -> None:
    with pytest.raises(InputsError) as error:
        list(Root.of(place if "://" in place else str(tmp_path / place)).nodes())
    assert re.search(message, str(error.value))
    assert "\n" not in str(error.value)


def test_a_relative_path_is_resolved_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "orders", "1", SEGMENT)
    monkeypatch.chdir(tmp_path.parent)
    assert [one.cluster for one in Root.of(tmp_path.name).nodes()] == ["orders"]


def test_a_name_that_is_not_utf_8_is_refused_with_a_remedy(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/orders\xff")
    with pytest.raises(InputsError, match=r"a name is not UTF-8: .*orders.*; rename it"):
        nodes(tmp_path)
