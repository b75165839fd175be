"""A node that crashes on the new revision halts the roll, and holds raises of levels. `NEW` is the revision of the
templates, `OLD` the one before; brokers 1 to 6 are to be restarted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import EMPTY, RolloutStatus, Status, WorkloadStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.report import rollout_status
from kafkafeatures.core.roll.roll import Roll
from tests.kafkafeatures.core.fleets import NEW, OLD
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    PARTITIONS,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    a_node,
    a_pod,
    ago,
    cluster,
    current,
    fresh,
    refused,
    replaced,
    restarted_id,
    rolled,
    sent,
    with_workloads,
    workloads_of,
)
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import NOW

RAISE = UpdateFeature("metadata.version", 27, 30)
RAN_BEFORE: Mapping[str, Any] = {"restarts": 1, "ended_for": "Error", "ended_at": NOW - timedelta(minutes=20)}
"""Fields of a container that runs, and has ended by itself before."""
CRASHED: Mapping[str, dict[str, Any]] = {
    "waits to be started again": {"waiting": "CrashLoopBackOff", "restarts": 2, "ended_for": "Error"},
    "has just ended for the first time": {"waiting": "Error", "ended_for": "Error", "ended_at": NOW},
    "was started again": {**RAN_BEFORE, "started_at": NOW - timedelta(minutes=20)},
    "was started again, nobody knows when": {"restarts": 1},
    "is kept from starting": {"waiting": "Init:CrashLoopBackOff", "phase": "Pending", "restarts": 3},
}
"""Pods that have crashed within the last hour, or crash."""
LOOKS = {"Error": "logs broker-1", "Init:CrashLoopBackOff": "describe pod broker-1"}
"""Command that shows the end of the first run, or of an init container, by what the pod waits for."""
STEADY: Mapping[str, dict[str, Any]] = {
    "has run for an hour since": {**RAN_BEFORE, "started_at": NOW - timedelta(minutes=61)},
    "is a new pod": {"started_at": NOW - timedelta(seconds=50)},
    "stops": {**RAN_BEFORE, "terminating": True, "started_at": NOW - timedelta(minutes=20)},
    "was evicted by kubelet": {"phase": "Failed", "waiting": "Evicted", "ended_for": "Error"},
    "is being created": {"phase": "Pending", "waiting": "ContainerCreating"},
    "is of the revision that is being left": {**RAN_BEFORE, "revision": OLD, "started_at": NOW - timedelta(minutes=20)},
}
"""Pods that do not count as crashed."""


STUCK_4 = {4: a_pod(4, waiting="ImagePullBackOff", phase="Pending", ready=False)}
GONE_4 = {4: replace(a_node(4), state=NodeState.GHOST)}
WITHOUT_4 = tuple(replace(partition, in_sync=partition.isr - {4}) for partition in PARTITIONS)
"""Broker 4 is stuck: its pod does not run, and it is in sync with no partition."""


@pytest.mark.parametrize("of_pod", CRASHED.values(), ids=CRASHED)
def test_a_node_that_crashes_on_the_new_revision_halts_the_roll_also_after_its_restart_was_over(
    of_pod: dict[str, Any],
) -> None:
    observation = cluster({**ROLLED_CONTROLLERS, 1: a_pod(1, revision=NEW, **of_pod)})
    message = refused(rolled(observation), Reason.ROLLOUT_HALTED)
    assert message.startswith("no other node is restarted and no level is raised: ")
    assert "pod broker-1" in message
    look = LOOKS.get(of_pod.get("waiting", ""), "logs broker-1 --previous")
    assert f"see `kubectl {look}`; revert the image" in message
    assert message.endswith("delete the pod")


@pytest.mark.parametrize("of_pod", STEADY.values(), ids=STEADY)
def test_an_end_of_a_container_that_is_no_recent_crash_of_the_new_revision_does_not_halt_the_roll(
    of_pod: dict[str, Any],
) -> None:
    observation = cluster({**ROLLED_CONTROLLERS, 1: a_pod(1, **{"revision": NEW, **of_pod})})
    assert restarted_id(rolled(observation)) in BROKERS


def test_a_node_in_flight_that_crashed_and_is_back_halts_the_roll_at_once() -> None:
    crash = NOW - timedelta(seconds=30)
    crashed = replaced(1, restarts=1, ended_for="Error", ended_at=crash, started_at=crash + timedelta(seconds=1))
    observation = cluster({**ROLLED_CONTROLLERS, **crashed}, fresh(1))
    in_flight = sent(1, minutes=1, is_back=True)  # nodeTimeout is 15 min
    assert "pod broker-1" in refused(rolled(observation, in_flight), Reason.ROLLOUT_HALTED)


def test_a_crash_of_a_controller_halts_the_roll_of_brokers() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, 3002: a_pod(3002, revision=NEW, **CRASHED["was started again"])})
    assert "pod controller-3002" in refused(rolled(observation), Reason.ROLLOUT_HALTED)


def test_a_restart_that_was_decided_before_a_crash_and_not_sent_is_not_sent() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, 1: a_pod(1, revision=NEW, **CRASHED["was started again"])})
    assert "pod broker-1" in refused(rolled(observation, sent(3)), Reason.ROLLOUT_HALTED)


def test_a_crash_on_the_second_image_does_not_halt_the_roll_to_a_third_image() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, 1: a_pod(1, revision="bad", **CRASHED["was started again"])})
    assert restarted_id(rolled(observation)) in BROKERS


def test_a_stuck_node_is_not_restarted_into_a_revision_that_crashes() -> None:
    steady = cluster({**ROLLED_CONTROLLERS, **current(1), **STUCK_4}, GONE_4, WITHOUT_4)
    assert restarted_id(rolled(steady)) == 4
    crashing = {1: a_pod(1, revision=NEW, **CRASHED["was started again"])}
    refused(rolled(cluster({**ROLLED_CONTROLLERS, **STUCK_4, **crashing}, GONE_4, WITHOUT_4)), Reason.ROLLOUT_HALTED)


def after_a_revert(**of_crashed: Any) -> Observation:
    """Build a cluster in which all brokers ran NEW; then the template was `bad`, on which broker 4 is stuck (its pod is
    10 min old); then it was reverted to NEW. Broker 1 has crashed on NEW, out of memory, say.
    """
    created = NOW - timedelta(minutes=10)
    stuck = a_pod(4, revision="bad", waiting="ImagePullBackOff", phase="Pending", ready=False, created_at=created)
    crashed = a_pod(1, revision=NEW, **CRASHED["was started again"], **of_crashed)
    return cluster({**current(*CONTROLLERS, *BROKERS), 4: stuck, 1: crashed}, GONE_4, WITHOUT_4)


def status_after_bad_template() -> Status:
    """Return the status of the roll to `bad`: it remembers that all brokers had reached NEW before."""
    before = replace(EMPTY, workloads=(WorkloadStatus(name="broker", update_revision=NEW, updated=6, total=6),))
    revisions = rolled(with_template(after_a_revert(), "bad"), status=before).revisions
    assert [(revision.revision, revision.reached) for revision in revisions if revision.name == "broker"] == [
        (NEW, True),
        ("bad", False),
    ]
    return replace(EMPTY, rollout=RolloutStatus(id="r", total=9, revisions=revisions))


def test_a_stuck_node_is_restarted_into_an_image_that_crashed_before_it_was_chosen_again() -> None:
    """The crash of broker 1 must not keep broker 4 from the image that all others run."""
    assert restarted_id(rolled(after_a_revert(), status=status_after_bad_template())) == 4


def test_no_stuck_node_is_restarted_into_an_image_that_crashed_if_the_status_was_lost() -> None:
    """The image may be the one that halted the roll."""
    refused(rolled(after_a_revert()), Reason.ROLLOUT_HALTED)


def test_no_stuck_node_is_restarted_into_an_image_that_crashed_after_it_was_chosen_again() -> None:
    """The pod that crashed is younger than the one that is stuck."""
    observation = after_a_revert(created_at=NOW - timedelta(minutes=9))
    refused(rolled(observation, status=status_after_bad_template()), Reason.ROLLOUT_HALTED)


@pytest.mark.parametrize("change", ["another template", "away", "one more"])
def test_a_crash_halts_the_roll_also_after_another_stateful_set_has_changed(change: str) -> None:
    """Broker 1 crashed on the new revision. Broker 4 is stuck on the old one, and would be restarted next. The status
    remembers the crash, so a change elsewhere begins no new roll.
    """
    crashing = {1: a_pod(1, revision=NEW, **CRASHED["was started again"], created_at=NOW - timedelta(minutes=5))}
    observation = cluster({**ROLLED_CONTROLLERS, **STUCK_4, **crashing}, GONE_4, WITHOUT_4)
    status = status_after(rolled(observation))
    refused(rolled(observation, status=status), Reason.ROLLOUT_HALTED)
    controllers, brokers = workloads_of(observation).stateful_sets
    stateful_sets = {
        "another template": (replace(controllers, update_revision="label"), brokers),
        "away": (brokers,),
        "one more": (controllers, brokers, replace(brokers, name="more", pods=(), replicas=0)),
    }[change]
    changed = with_workloads(
        observation, stateful_sets=stateful_sets, missing=("controller",) if change == "away" else ()
    )
    for _ in range(2):  # the second reconciliation reads the status that the first one wrote
        halted = rolled(changed, status=status)
        assert isinstance(halted.decision, Stalled)
        status = status_after(halted, status)
    refused(rolled(observation, status=status), Reason.ROLLOUT_HALTED)


def with_template(observation: Observation, revision: str) -> Observation:
    """Change the template of the brokers to this revision."""
    controllers, brokers = workloads_of(observation).stateful_sets
    return with_workloads(observation, stateful_sets=(controllers, replace(brokers, update_revision=revision)))


def status_after(roll: Roll, before: Status = EMPTY) -> Status:
    """Return the status with what is remembered of a roll."""
    return replace(
        before,
        rollout=rollout_status(
            roll, Wait(Reason.ROLLING_NODES, "", 1.0, subject="broker 1", remedy="see its log"), before.rollout, ago(0)
        ),
    )


# --- levels ---


def after_the_roll(**of_pod: Any) -> Any:
    return cluster({**current(*CONTROLLERS, *BROKERS), 1: a_pod(1, revision=NEW, **of_pod)})


@pytest.mark.parametrize("of_pod", CRASHED.values(), ids=CRASHED)
def test_no_level_is_raised_while_a_node_crashes_although_the_roll_is_over(of_pod: dict[str, Any]) -> None:
    observation = after_the_roll(**of_pod)
    roll = rolled(observation, changes=(RAISE,))
    refused(roll, Reason.ROLLOUT_HALTED)
    decision = decide(DesiredState({"metadata.version": 30}, rollout=ROLLOUT), observation, roll=roll)
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.ROLLOUT_HALTED


@pytest.mark.parametrize("end", ["has run for an hour since", "is a new pod", "was evicted by kubelet"])
def test_an_end_of_a_container_that_is_no_crash_does_not_hold_the_raise_of_a_level(end: str) -> None:
    assert rolled(after_the_roll(**STEADY[end]), changes=(RAISE,)).decision is None


def test_a_crash_after_the_roll_holds_no_downgrade_and_halts_no_finished_roll() -> None:
    """A downgrade may be what helps."""
    observation = after_the_roll(**CRASHED["was started again"])
    assert rolled(observation, changes=(UpdateFeature("share.version", 2, 1),)).decision is None
    assert rolled(observation).decision is None
    assert not rolled(observation).is_active
