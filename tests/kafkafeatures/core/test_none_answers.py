"""The message if no node answers: the pods that do not run, and those to delete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.facts.workloads import Pod, WorkloadsReading
from kafkafeatures.core.roll.none_answers import with_pods
from tests.kafkafeatures.core.fleets import NEW, pod, stateful_set
from tests.kafkafeatures.core.rolls import CRASHES
from tests.kafkafeatures.worlds import NOW

REFUSED = Failure(FailureKind.UNREACHABLE, "kafka:9092", "connection refused", "check the addresses")


@dataclass(frozen=True)
class Case:
    """Pods of one StatefulSet, and a part of the message about them."""

    pods: tuple[Pod, ...]
    part: str


def crashing(id_: int, **fields: Any) -> Pod:
    return pod(id_, **{"ready": False, **CRASHES, **fields})


def failure_with_pods(*pods: Pod, failure: Failure = REFUSED) -> Failure:
    return with_pods(failure, WorkloadsReading(NOW, (stateful_set(*pods),)))


DELETE = "run `kubectl delete pod"
CASES = {
    "all crash on the former revision": Case(
        (crashing(1), crashing(2), crashing(3)),
        f"pod broker-1 crashes, pod broker-2 crashes, pod broker-3 crashes; {DELETE} broker-1 broker-2 broker-3`, ",
    ),
    "five crash on the former revision": Case(
        tuple(map(crashing, range(1, 6))),
        "pod broker-3 crashes, 2 more do not run; "
        + DELETE
        + " broker-1 broker-2 broker-3` (and 2 more that cannot run), because",
    ),
    "one of the former revision cannot run, and one of the new revision crashes": Case(
        (crashing(1, revision=NEW), pod(2, ready=False, waiting="ErrImagePull"), pod(3)),
        f"pod broker-1 crashes, pod broker-2 does not run: ErrImagePull; {DELETE} broker-2`, because",
    ),
    "all crash on the new revision": Case(
        (crashing(1, revision=NEW),), "pod broker-1 crashes; see `kubectl logs broker-1 --previous`"
    ),
    "all of the new revision wait for a place": Case(
        (pod(1, revision=NEW, ready=False, phase="Pending", waiting="Unschedulable"),),
        "pod broker-1 does not run: Unschedulable; see `kubectl describe pod broker-1`, and fix what stops the pods",
    ),
    "one that may run again by itself": Case(
        (crashing(1, ended_for="OOMKilled"),), "pod broker-1 crashes; see `kubectl logs broker-1 --previous`"
    ),
    "one that runs for a moment": Case(
        (crashing(1, waiting="", started_at=NOW - timedelta(seconds=2)),),
        "pod broker-1 crashes; see `kubectl logs broker-1 --previous`",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_message_names_pods_that_do_not_run_and_those_to_delete(case: Case) -> None:
    text = str(failure_with_pods(*case.pods))
    assert text.startswith("kafka:9092: connection refused; ")
    assert case.part in text
    assert text.endswith("; check the addresses")


def test_the_number_of_crashes_is_not_in_the_message() -> None:
    assert failure_with_pods(crashing(1)) == failure_with_pods(crashing(1, restarts=8))


def test_the_message_names_no_pods_that_run_or_stop_and_none_where_another_failure_explains_the_silence() -> None:
    assert failure_with_pods(pod(1), pod(2, ready=False), crashing(3, terminating=True)) == REFUSED
    denied = Failure(FailureKind.AUTHENTICATION, "kafka:9092", "login refused")
    assert failure_with_pods(crashing(1), failure=denied) == denied
    assert with_pods(REFUSED, NOT_ASKED) == REFUSED
