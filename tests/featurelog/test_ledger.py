"""The ledger of read files: a file is read again unless it surely did not change since it was read."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from featurelog.layout import LogFile, NodeLog
from featurelog.ledger import Due, Entry, Ledger, Node, due
from featurelog.parts import Part
from kraftlog.batches import HEADER_SIZE

OPEN, CLOSED = f"{9:020}.log", f"{0:020}.log"
CONTENT = bytes(range(256)) * 4


def stamp(uri: str, path: str, start: int, end: int) -> str:
    """The digest of a range of a file; no file is opened."""
    assert uri == ""
    return hashlib.sha256(FILES[path][start:end]).hexdigest()


FILES = {OPEN: CONTENT, CLOSED: CONTENT}


def part(start: int, end: int, *, is_final: bool = True) -> Part:
    """A part of the file with a single batch."""
    return Part("x", 1, 1, start, end, is_final, start, stamp("", OPEN, start, end), 1, {})


def entry(*parts: Part, size: int = len(CONTENT), modified: int = 1) -> Entry:
    return Entry(stamp("", OPEN, 0, HEADER_SIZE), size, modified, parts)


def log(*files: LogFile) -> NodeLog:
    return NodeLog("orders", "1", None, files, ())


def file(name: str = OPEN, *, size: int = len(CONTENT), modified: int = 1) -> LogFile:
    return LogFile(name, name, size, modified)


def due_of(known: Entry, listed: LogFile) -> list[Due]:
    """What has to be read of a node's only file, given its entry in the ledger and how the file is listed now."""
    return due(Node("orders", "1", None, files={listed.name: known}), "", log(listed), stamp)


def test_a_part_that_may_change_is_read_again_and_earlier_parts_are_kept() -> None:
    first, second = part(0, 500), part(500, 700, is_final=False)
    (found,) = due_of(entry(first, second, size=700), file(modified=2))
    # The lead is the position of the last batch before the start: here the begin of the last kept part.
    assert (found.kept_parts, found.start, found.lead) == ((first,), 500, 0)
    (found,) = due_of(entry(first, replace(second, is_final=True), size=700), file(modified=2))
    assert (found.start, found.lead) == (700, 500)


def test_the_bytes_of_a_file_are_compared_unless_its_known_modification_time_is_unchanged() -> None:
    known = entry(part(0, len(CONTENT)), modified=0)  # 0: the time is not known
    assert due_of(known, file(modified=0)) == [], "the bytes are the same"
    replaced = replace(known, fingerprint="another")
    assert [one.start for one in due_of(replaced, file(modified=0))] == [0]
    assert due_of(replace(replaced, modified=1), file(modified=1)) == [], "the bytes were not compared"


def test_the_ledger_takes_the_current_quorum_state_of_a_node_and_keeps_its_identity() -> None:
    ledger = Ledger()
    node = ledger.node(replace(log(), cluster_id="id", voters=(1, 2), node_id=1, vote=(4, 1, "")))
    assert (node.cluster_id, node.voters, node.node_id, node.vote) == ("id", (1, 2), 1, (4, 1, ""))
    assert ledger.node(log()) is node
    assert (node.cluster_id, node.voters, node.vote, node.node_id) == ("id", None, None, 1)
