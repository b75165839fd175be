"""The rig itself, where it decides something: when one of Kafka's own tools is run again."""

from __future__ import annotations

from subprocess import CompletedProcess

import pytest

from tests.e2e.rig.cluster import TRIES, past_moving_leaders

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
def test_a_tool_that_met_a_moving_leader_is_run_again_and_for_no_other_reason(
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
