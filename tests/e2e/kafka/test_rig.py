"""Decisions of the test rig: when it runs a tool of Kafka again, and when a shared cluster is used again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.e2e.rig.asking import TRIES, past_moving_leaders
from tests.e2e.rig.process import Daemon
from tests.e2e.rig.shared import Shared

MOVED = (
    "org.apache.kafka.common.errors.NotLeaderOrFollowerException: For requests intended only for the leader, "
    "this error indicates that the broker is not the current leader."
)
DONE, FAILED = (0, "Removed KRaft controller 3002"), (1, "Unable to remove: DuplicateVoterException")


@pytest.mark.parametrize(
    ("answers", "runs"),
    [
        ([DONE], 1),
        ([(1, MOVED), (1, MOVED), DONE], 3),
        ([(1, MOVED), FAILED], 2),
        ([FAILED], 1),
        ([(0, MOVED)], 1),
        ([(1, MOVED)] * TRIES, TRIES),
    ],
)
def test_a_tool_is_run_again_only_after_a_failure_by_a_change_of_the_leader(
    answers: list[tuple[int, str]], runs: int
) -> None:
    happened: list[str] = []

    def run() -> CompletedProcess[str]:
        code, text = answers[happened.count("ran")]
        happened.append("ran")
        return CompletedProcess([], code, "", text)

    last = past_moving_leaders(run, lambda: happened.append("waited for a leader"))
    assert (last.returncode, last.stderr) == answers[runs - 1]
    assert happened == ["ran", *["waited for a leader", "ran"] * (runs - 1)]


class Pair:
    """Two processes, and a level that a test must not leave changed."""

    def __init__(self, folder: Path) -> None:
        self.level = 1
        self.nodes = {id_: Daemon(["sleep", "600"], folder / str(id_)) for id_ in (1, 2)}
        for node in self.nodes.values():
            node.start()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.kill()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared[Pair]]:
    lenders = Shared(lambda name: Pair(tmp_path), lambda name, pair: pair.level)
    yield lenders
    lenders.end()


def test_a_shared_cluster_that_is_returned_unchanged_is_used_again(shared: Shared[Pair]) -> None:
    pair = shared.get("pair")
    pair.nodes[1].freeze()
    shared.give_back("pair", failed=False)
    assert shared.get("pair") is pair


@pytest.mark.parametrize("failed", [True, False], ids=["its test failed", "a node was killed"])
def test_a_shared_cluster_that_may_be_damaged_is_started_new(shared: Shared[Pair], failed: bool) -> None:
    pair = shared.get("pair")
    if not failed:
        pair.nodes[1].kill()
    shared.give_back("pair", failed=failed)
    assert not pair.nodes[2].alive
    assert all(node.alive for node in shared.get("pair").nodes.values())


def test_a_test_that_leaves_a_shared_cluster_changed_fails(shared: Shared[Pair]) -> None:
    pair = shared.get("pair")
    pair.level = 2
    with pytest.raises(AssertionError, match="pair is shared, and was left with 2 instead of 1"):
        shared.give_back("pair", failed=False)
    assert shared.get("pair").level == 1
