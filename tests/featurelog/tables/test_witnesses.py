"""Copies of logs: those of one node count as one copy, and leader epochs that contradict the log are not trusted.

A record is committed if copies of a majority of the voters have it. So two copies of one node must not count as two.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from featurelog.tables import NodeCopy
from kraftlog.batches import LENGTH_END
from tests.featurelog.tables.build import (
    OF_3_9,
    VOTERS,
    Item,
    batches,
    copies_of,
    copy,
    healthy,
    history,
    image_of,
    leader,
    log,
    readiness,
    registered_broker,
    rows,
    segment_name,
    snapshot_at,
    snapshot_name,
    snapshot_of,
    unregistered_broker,
    verdicts,
)
from tests.kraftlog.build import batch, no_op

DATA = log([*healthy(), registered_broker(7, 500, supports=OF_3_9), unregistered_broker(7, 500)])
END = 11
"""The end of DATA: nine records of `healthy`, and two of broker 7."""


def with_epochs(made: Sequence[bytes], epochs: dict[int, int]) -> bytes:
    """Batches with other leader epochs, by their index. A checksum of a batch does not cover its epoch."""
    found = [bytearray(one) for one in made]
    for place, epoch in epochs.items():
        struct.pack_into(">i", found[place], LENGTH_END, epoch)
    return b"".join(map(bytes, found))


def reported(copies: Sequence[NodeCopy], kind: str) -> list[tuple[str, str]]:
    return [(row["node"], row["text"]) for row in rows(copies, "data_quality") if row["kind"] == kind]


def test_the_log_of_one_node_in_the_folders_of_two_voters_is_one_copy() -> None:
    """The meta.properties of both name node 3001: what only one node has is not committed."""
    duplicate = copy("3002", {segment_name(0): DATA}, node_id=3001)
    row = readiness([copy("3001", {segment_name(0): DATA}), duplicate])
    assert (row["verdict"], row["copies"], row["copied_nodes"]) == ("unknown", ["3001", "3002"], [3001])
    assert row["committed_below"] == 0
    assert reported([copy("3001", {segment_name(0): DATA}), duplicate], "same_node") == [
        ("3002", "3002 and 3001 are copies of the log of node 3001: they count as one")
    ]


def test_the_node_id_of_meta_properties_takes_precedence_over_the_name_of_the_folder() -> None:
    named = [copy(name, {segment_name(0): DATA}, node_id=id_) for name, id_ in (("a", 3001), ("b", 3002), ("9", 3003))]
    row = readiness(named)
    assert (row["verdict"], row["copied_nodes"], row["committed_below"]) == ("ready", [*VOTERS], END)


@pytest.mark.parametrize(
    ("folder", "id_"),
    [
        ("101", 101), ("controller-101", 101), ("kafka.102", 102), ("kafka-1000000102", 1000000102),
        ("2147483647", 2147483647), ("2147483648", None), ("x91000000000103", None), ("101-again", None), ("", None),
    ],
)  # fmt: skip
def test_the_id_of_a_copy_without_meta_properties_is_the_name_of_its_folder(folder: str, id_: int | None) -> None:
    assert NodeCopy("prod", folder, None, ()).id == id_
    assert NodeCopy("prod", folder, None, (), node_id=7).id == 7


def nameless(data: bytes, **more: bytes) -> NodeCopy:
    """A copy in folder "a" without meta.properties and quorum-state, so nothing shows its node."""
    made = copy("a", {segment_name(0): data, **more})
    return NodeCopy(made.cluster, made.node, made.cluster_id, made.files)


def test_a_copy_without_a_node_id_is_not_counted_as_a_further_node() -> None:
    found = [copy("3001", {segment_name(0): DATA}), nameless(DATA)]
    assert (readiness(found)["copied_nodes"], readiness(found)["verdict"]) == ([3001], "unknown")
    ((node, text),) = reported(found, "same_node")
    assert node == "a"
    assert text.startswith(
        "a does not say whose log it is: it counts as one with 3001; copy meta.properties of the node"
    )


IMAGE = image_of(DATA, 9)
FILES = {segment_name(0): DATA, snapshot_name(9): snapshot_of(IMAGE)}
"""The files of a node, whose snapshot ends at offset 9."""
LONGER = {**FILES, segment_name(0): DATA + batch(END, no_op())}
SHORTER = {**FILES, segment_name(0): log(healthy())}
FETCHED = {segment_name(9): log(healthy()[9:], start=9), snapshot_name(9): snapshot_of(IMAGE)}
CUT = {segment_name(0): DATA, snapshot_name(9): snapshot_of(IMAGE)[:-8]}
OTHER_COPIES = {
    "as it is": FILES,
    "one batch later": LONGER,
    "some batches earlier": SHORTER,
    "without its snapshot": {segment_name(0): DATA},
    "without its first segment": FETCHED,
    "with a snapshot that was cut": CUT,
    "with a damaged epoch in its snapshot": {**FILES, snapshot_name(9): with_epochs([snapshot_of(IMAGE)], {0: 0})},
    "with one more snapshot": {**LONGER, **snapshot_at(END, DATA, at_ms=5)},
}
"""Copies that may be of the same node, taken at another time or in another way."""


@pytest.mark.parametrize("later", OTHER_COPIES)
@pytest.mark.parametrize(
    "votes", [(3001, 3001), (3001, -1), (-1, -1)], ids=["the same vote", "one has no vote", "neither has a vote"]
)
def test_two_copies_that_may_be_of_one_node_are_counted_once(later: str, votes: tuple[int, int]) -> None:
    """The meta.properties name two nodes, but one may be copied from the wrong node. Replicated records are the same on
    all nodes, so without a difference both copies may be of one node.
    """
    for pair in ((FILES, OTHER_COPIES[later]), (OTHER_COPIES[later], FILES)):
        found = [copy(name, files, voted=vote) for name, files, vote in zip(("3001", "3002"), pair, votes, strict=True)]
        row = readiness(found)
        assert (row["verdict"], len(row["copied_nodes"])) == ("unknown", 1)
        ((node, text),) = reported(found, "same_node")
        assert node == "3002"
        assert text.startswith(
            "3002 and 3001 may be copies of the log of one node, taken at two times: they count as one"
        )


def test_copies_with_snapshots_of_different_times_are_of_two_nodes() -> None:
    """Each node writes its snapshots itself, so the times in them differ."""
    own = {**FILES, snapshot_name(9): snapshot_of(IMAGE, at_ms=1)}
    both = [copy("3001", FILES, voted=-1), copy("3002", own, voted=-1)]
    assert (readiness(both)["copied_nodes"], reported(both, "same_node")) == ([3001, 3002], [])
    assert readiness(both)["verdict"] == "ready"


@pytest.mark.parametrize(
    ("votes", "are_two"),
    [
        # A vote: epoch, candidate, and directory of the candidate.
        pytest.param(((7, 3001, ""), (7, 3002, "")), True, id="two candidates"),
        pytest.param(((7, 3001, "a"), (7, 3001, "b")), True, id="two directories"),
        pytest.param(((7, 3001, ""), (7, 3001, "b")), False, id="one node, before and after the quorum became dynamic"),
        pytest.param(((7, 3001, "AAAAAAAAAAAAAAAAAAAAAA"), (7, 3001, "b")), False, id="the zero directory is none"),
        pytest.param(((7, 3001, ""), (8, 3002, "")), False, id="one node, before and after an election"),
        pytest.param(((7, 3001, ""), None), False, id="one node, before and after a restart, which drops the vote"),
        pytest.param(((7, 3001, ""), (7, 3001, "")), False, id="the same vote"),
        pytest.param((None, None), False, id="no votes"),
    ],
)
def test_copies_with_votes_for_two_candidates_in_one_epoch_are_of_two_nodes(votes: Any, are_two: bool) -> None:
    both = [replace(copy(name, FILES), vote=vote) for name, vote in zip(("3001", "3002"), votes, strict=True)]
    assert (readiness(both)["verdict"] == "ready") is are_two


def test_a_copy_without_a_node_id_is_named_also_where_its_snapshot_differs() -> None:
    found = [copy("3001", FILES), nameless(DATA, **{snapshot_name(9): snapshot_of(IMAGE, at_ms=1)})]
    assert (readiness(found)["copied_nodes"], readiness(found)["verdict"]) == ([3001], "unknown")
    ((node, text),) = reported(found, "same_node")
    assert (node, text.startswith("a does not say whose log it is")) == ("a", True)


@pytest.mark.parametrize(
    ("ours", "theirs", "are_two"),
    [
        pytest.param((2, 4, 6), (3, 5, 7), True, id="alternating"),
        pytest.param((2, 4, 6), (1, 3, 5, 7), True, id="alternating, one more"),
        pytest.param((2, 4, 6), (7, 8, 9), False, id="one node, before and after it deleted the oldest ones"),
        pytest.param((2, 4, 6), (4, 6, 8), False, id="one node, a snapshot later"),
        pytest.param((2, 4, 6), (2, 6), False, id="one snapshot was not copied"),
        # Of the snapshots 2, 3 and 4, the first copy lacks 3, and the second one lacks 2.
        pytest.param((2, 4), (3, 4), False, id="each copy may lack one snapshot"),
        pytest.param((2, 4, 6), (3, 6), False, id="each copy may lack one or two snapshots"),
        pytest.param((2, 4), (3, 5), False, id="each copy may lack two snapshots"),
        pytest.param((2, 3, 4, 5, 6, 7), (2, 4, 5, 6), False, id="two snapshots were not copied"),
    ],
)
def test_copies_whose_snapshots_alternate_are_of_two_nodes(ours: Any, theirs: Any, are_two: bool) -> None:
    """End offsets of the snapshots in two copies. A node deletes its oldest first; a copy may lack one or two."""
    both = [
        copy(
            name,
            {segment_name(0): DATA, **{snapshot_name(at): snapshot_of(image_of(DATA, at)) for at in own}},
            voted=-1,
        )
        for name, own in (("3001", ours), ("3002", theirs))
    ]
    assert (readiness(both)["verdict"] == "ready") is are_two


def test_a_third_copy_of_one_of_two_nodes_does_not_change_the_verdict() -> None:
    own = {**FILES, snapshot_name(9): snapshot_of(IMAGE, at_ms=1)}
    two = [copy("3002", FILES, voted=-1), copy("3003", own, voted=-1)]
    for third in (FILES, own, LONGER, {segment_name(0): DATA}):
        found = [copy("3001", third, voted=-1), *two]
        assert (readiness(found)["verdict"], len(readiness(found)["copied_nodes"])) == ("ready", 2)


def test_records_in_two_copies_of_one_node_are_not_thereby_committed() -> None:
    whole = log([*healthy(), registered_broker(7, 500, supports=OF_3_9), unregistered_broker(7, 500), no_op()])
    found = [copy("3001", {segment_name(0): whole}, voted=-1), copy("3002", {segment_name(0): DATA}, voted=-1)]
    assert readiness(found)["committed_below"] == 0


def test_an_empty_folder_is_no_copy() -> None:
    found = [copy("3001", {segment_name(0): DATA}), copy("3002", {}), copy("3003", {segment_name(0): b""})]
    row = readiness(found)
    assert (row["copied_nodes"], row["verdict"]) == ([3001], "unknown")


def test_a_copy_that_agrees_only_with_a_duplicate_of_itself_confirms_no_record() -> None:
    """If the duplicate counted, the contradicting log would be taken for one whose end a leader overwrote."""
    newer = copy("3003", {segment_name(3): log([leader(3003), *healthy(version=20)], start=3, epoch=9)})
    duplicate = copy("3002", {segment_name(0): DATA}, node_id=3001)
    found = [copy("3001", {segment_name(0): DATA}), duplicate, newer]
    assert reported(found, "contradiction")
    assert set(verdicts(found).values()) == {"unknown"}


# --- leader epochs

ELECTION = 9
"""The offset at which the second leader begins, of epoch 3."""
ITEMS: list[Item] = [leader(3002), no_op(), no_op(), registered_broker(7, 500, supports=OF_3_9), no_op()]
BATCHES = [*batches(healthy()), *batches(ITEMS, start=ELECTION, epoch=3)]
BLOCKED = b"".join(BATCHES)


def test_the_sample_log_of_these_tests_is_blocked_without_doubts() -> None:
    assert verdicts(copies_of(BLOCKED))["4.2"] == "blocked"
    assert history(*copies_of(BLOCKED)).doubts == []


# The forged epochs of some batches by offset, the last of which ends the copy; and the text of the contradiction.
FORGED = {
    "the last batches have a later one without a leader change": (
        {10: 4, 11: 4},
        "leader epoch 4 begins at offset 10 without a leader change",
    ),
    "the last batch has a later one without a leader change": (
        {11: 4},
        "leader epoch 4 begins at offset 11 without a leader change",
    ),
    "from the leader change on": ({9: 4, 10: 4, 11: 4}, "the same records have different leader epochs"),
    "an earlier one from the leader change on": ({9: 2, 10: 2, 11: 2}, "the same records have different leader"),
    "the last one goes back": ({13: 2}, "the leader epoch goes back to 2 at offset 13"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_leader_epoch_is_a_contradiction_and_makes_all_verdicts_unknown(case: str) -> None:
    """If a later epoch were trusted, the records of all other copies behind its begin would count as overwritten."""
    epochs, text = FORGED[case]
    forged = copy("3001", {segment_name(0): with_epochs(BATCHES[: max(epochs) + 1], epochs)})
    found = [forged, *copies_of(BLOCKED, (3002, 3003))]
    assert any(text in each for _, each in reported(found, "contradiction"))
    assert set(verdicts(found).values()) == {"unknown"}


def test_a_later_epoch_without_a_leader_change_is_dropped_and_records_of_other_copies_stay() -> None:
    forged = copy("3001", {segment_name(0): with_epochs(BATCHES[:12], {11: 4})})
    found = [forged, *copies_of(BLOCKED, (3002, 3003))]
    assert reported(found, "contradiction") == [
        (
            "3001",
            f"{segment_name(0)} of 3001: leader epoch 4 begins at offset 11 without a leader change, "
            "where 3002 has an earlier one",
        )
    ]
    assert 7 in {row["node_id"] for row in rows(found, "node_registrations")}
    assert (history(*found).end, set(history(*found).log.held_until)) == (len(BATCHES), {"3002", "3003"})


def test_a_snapshot_of_another_epoch_does_not_make_up_for_a_leader_change() -> None:
    at_11 = {snapshot_name(11, 3): snapshot_of(image_of(BLOCKED, 11))}
    forged = copy("3001", {segment_name(0): with_epochs(BATCHES[:12], {11: 4}), **at_11})
    found = [forged, *copies_of(BLOCKED, (3002, 3003))]
    assert "leader epoch 4 begins at offset 11" in reported(found, "contradiction")[0][1]


def test_a_contradiction_within_the_only_copy_is_reported() -> None:
    found = [copy("3001", {segment_name(0): with_epochs(BATCHES, {12: 4, 13: 4})})]
    (doubt, *_) = history(*found).doubts
    assert (doubt.kind, "of 3001: leader epoch 4 begins at offset 12 without" in doubt.text) == ("contradiction", True)


def test_a_segment_with_epochs_below_those_of_the_previous_segment_is_a_contradiction() -> None:
    """The other copies end before the segment, so nothing else shows that it is wrong."""
    back = with_epochs(BATCHES[12:], {0: 2, 1: 2})
    forged = copy("3001", {segment_name(0): b"".join(BATCHES[:12]), segment_name(12): back})
    found = [forged, *copies_of(b"".join(BATCHES[:12]), (3002, 3003))]
    assert reported(found, "contradiction") == [
        ("3001", f"{segment_name(12)} of 3001: the leader epoch goes back to 2 at offset 12")
    ]
    assert set(verdicts(found).values()) == {"unknown"}


def test_a_stale_segment_that_the_node_truncated_is_no_contradiction() -> None:
    old = b"".join(batches([no_op(), no_op(), no_op()], start=10))
    stale = copy("3001", {segment_name(0): BLOCKED, segment_name(10): old})
    found = [stale, *copies_of(BLOCKED, (3002, 3003))]
    assert reported(found, "contradiction") == []
    assert verdicts(found)["4.2"] == "blocked"


def test_copies_do_not_contradict_each_other_if_a_snapshot_hides_where_an_epoch_began() -> None:
    data = b"".join(BATCHES[:9])
    image = image_of(BLOCKED, 12)
    behind = {snapshot_name(12, 3): snapshot_of(image), segment_name(12): b"".join(BATCHES[12:])}
    stale = data + b"".join(batches([no_op(), no_op(), no_op()], start=9))
    found = [copy("3001", {segment_name(0): stale}), copy("3002", behind), copy("3003", behind)]
    assert reported(found, "contradiction") == []
