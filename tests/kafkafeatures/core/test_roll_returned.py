"""No node is restarted while another one came back less than `stableFor` (30 s) ago.

Controllers 3001 (the leader) to 3003 are done, if nothing else is said, and brokers 1 to 6 are to be restarted; 1 and
4, 2 and 5, 3 and 6 share no partition. `NOW` is 2026-01-02 03:04:05 UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Wait
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.facts.past import Returns
from tests.kafkafeatures.core.fleets import NEW
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    PARTITIONS,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    a_node,
    a_pod,
    cluster,
    current,
    fresh,
    refused,
    replaced,
    restarted_id,
    rolled,
    sent,
)
from tests.kafkafeatures.worlds import NOW

JUST_STARTED = timedelta(0)
"""`known_for`: this process has just begun, so it has seen no node up itself, and the metadata log decides."""


def up_for(
    seconds: Mapping[int, float], observation: Observation | None = None, *, log_is_ahead: float = 0.0
) -> Observation:
    """Nodes that have been up for so long by the metadata log; all others for two hours. 2 and 5 need no restart."""
    observation = observation or cluster({**ROLLED_CONTROLLERS, **current(2, 5)})
    read_at = NOW + timedelta(seconds=log_is_ahead)
    times = {id_: read_at - timedelta(seconds=seconds.get(id_, 7200)) for id_ in (*CONTROLLERS, *BROKERS)}
    return replace(observation, returns=Returns(times, read_at))


@pytest.mark.parametrize("id_", [5, 3002])
def test_a_node_that_returned_moments_ago_is_waited_for_without_an_entry_in_the_status(id_: int) -> None:
    observation = up_for({id_: 12})
    text = refused(rolled(observation, known_for=JUST_STARTED), Reason.ROLLING_NODES)
    assert text.startswith(
        f"{a_node(id_).title} has been up only since 2026-01-02 03:03:53 UTC, as far as the metadata"
    )
    assert "no other node is restarted until it has been up for 30 s (spec.rollout.stableFor)" in text
    assert restarted_id(rolled(up_for({id_: 30}), known_for=JUST_STARTED)) in BROKERS


def test_a_wait_for_stable_brokers_has_a_remedy_and_the_delay_of_the_next_observation() -> None:
    decision = rolled(up_for({2: 12, 5: 25}), known_for=JUST_STARTED).decision
    assert isinstance(decision, Wait)
    assert (decision.subject, decision.delay) == ("broker 2", 10.0)
    assert "broker 2, broker 5 have been up only since 2026-01-02 03:03:40 UTC or later" in decision.message
    assert "if broker 2, broker 5 end or are fenced again and again, see their logs" in decision.remedy
    soon = rolled(up_for({2: 28}), known_for=JUST_STARTED).decision
    assert isinstance(soon, Wait)
    assert soon.delay == 2.0


def test_no_controller_is_restarted_while_a_broker_returned_moments_ago() -> None:
    assert "broker 5 has been up only" in refused(
        rolled(up_for({5: 12}, cluster()), known_for=JUST_STARTED), Reason.ROLLING_NODES
    )
    assert restarted_id(rolled(up_for({}, cluster()), known_for=JUST_STARTED)) in CONTROLLERS


@pytest.mark.parametrize("rolled_brokers", [(), (1, 2, 3, 4, 6)])
def test_a_broker_that_does_not_stay_up_is_restarted_as_its_new_image_may_be_the_cure(
    rolled_brokers: tuple[int, ...],
) -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **current(*rolled_brokers)})
    assert restarted_id(rolled(up_for({5: 12}, observation), known_for=JUST_STARTED)) == 5


def test_one_of_several_brokers_that_do_not_stay_up_is_restarted_if_they_share_no_partition() -> None:
    """2 and 5 have no partition in common, so neither needs the other."""
    observation = cluster({**ROLLED_CONTROLLERS, **current(1, 3, 4, 6)})
    assert restarted_id(rolled(up_for({2: 12, 5: 12}, observation), known_for=JUST_STARTED)) in (2, 5)
    only_5_needs_it = cluster({**ROLLED_CONTROLLERS, **current(1, 2, 3, 4, 6)})
    assert restarted_id(rolled(up_for({2: 12, 5: 12}, only_5_needs_it), known_for=JUST_STARTED)) == 5


def test_a_broker_that_does_not_stay_up_waits_for_others_that_share_a_partition_and_need_no_restart() -> None:
    only_2_and_5_need_it = cluster({**ROLLED_CONTROLLERS, **current(1, 3, 4, 6)})
    roll = rolled(up_for(dict.fromkeys(BROKERS, 12), only_2_and_5_need_it), known_for=JUST_STARTED)
    assert refused(roll, Reason.ROLLING_NODES) == (
        "broker 2 cannot be restarted now: 2 partitions (orders-0, orders-3) have a replica on a node that is in "
        "flight or unavailable; broker 1, broker 3, broker 4, broker 5, broker 6 count as away until they have been up "
        "for 30 s"
    )


def test_no_broker_that_does_not_stay_up_is_restarted_if_another_one_shares_a_partition_with_it() -> None:
    """1 and 5 are in one partition."""
    observation = cluster({**ROLLED_CONTROLLERS, **current(2, 3, 4, 6)})
    decision = rolled(up_for({1: 12, 5: 12}, observation), known_for=JUST_STARTED).decision
    assert isinstance(decision, Wait)
    assert "broker 1 cannot be restarted now: 1 partition (orders-2) has a replica on a node" in decision.message
    assert "; broker 5 counts as away until it has been up for 30 s" in decision.message
    assert decision.remedy == "see the logs of broker 5, and repair them so that they stay up"


def test_a_stable_broker_waits_for_all_nodes_that_do_not_stay_up_and_the_message_names_them() -> None:
    several = {1: 12, 2: 5, 5: 12}
    observation = up_for(several, cluster({**ROLLED_CONTROLLERS, **current(1, 2, 5)}))
    text = refused(rolled(observation, known_for=JUST_STARTED), Reason.ROLLING_NODES)
    assert text.startswith("broker 1, broker 2, broker 5 have been up only since 2026-01-02 03:03:53 UTC or later")


def test_the_message_of_a_wait_for_returned_nodes_names_eight_of_them_at_most() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **current(*BROKERS[:5])})
    every_node = up_for(dict.fromkeys((*CONTROLLERS, *BROKERS), 5), observation)
    text = refused(rolled(every_node, known_for=JUST_STARTED), Reason.ROLLING_NODES)
    assert text.startswith(
        "broker 1, broker 2, broker 3, broker 4, broker 5, broker 6, controller 3001, controller 3002"
    )
    assert " and 1 more have been up only" in text


def test_no_broker_is_restarted_while_a_controller_does_not_stay_up() -> None:
    observation = up_for({5: 12, 3002: 12}, cluster({**ROLLED_CONTROLLERS, **current(1, 2, 3, 4, 6)}))
    assert "broker 5, controller 3002 have been up" in refused(
        rolled(observation, known_for=JUST_STARTED), Reason.ROLLING_NODES
    )


def test_no_controller_of_two_that_do_not_stay_up_is_restarted_if_the_majority_needs_both() -> None:
    observation = up_for({3002: 12, 3003: 12}, cluster())
    text = refused(rolled(observation, known_for=JUST_STARTED), Reason.WAITING_FOR_QUORUM)
    assert "controller 3002 cannot be restarted now: without it 1 of 3 voters are caught up, 2 required" in text
    assert "controller 3003 counts as away until it has been up for 30 s" in text


def test_a_controller_that_does_not_stay_up_is_restarted_while_a_broker_does_not_stay_up() -> None:
    """If the controller waited for the broker, both would wait for ever: brokers are restarted after controllers."""
    assert restarted_id(rolled(up_for({3002: 12, 5: 12}, cluster()), known_for=JUST_STARTED)) == 3002


def test_a_controller_that_does_not_stay_up_is_restarted_before_any_other_controller() -> None:
    assert restarted_id(rolled(up_for({3003: 12}, cluster()), known_for=JUST_STARTED)) == 3003


def test_a_broker_that_does_not_stay_up_and_needs_no_restart_is_waited_for() -> None:
    observation = up_for({5: 12}, cluster({**ROLLED_CONTROLLERS, **current(5)}))
    assert "broker 5 has been up only" in refused(rolled(observation, known_for=JUST_STARTED), Reason.ROLLING_NODES)


def test_a_returned_node_in_flight_that_counts_as_stable_does_not_hold_back_the_next_node() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, fresh(1))
    assert restarted_id(rolled(up_for({1: 5}, observation), sent(1, is_back=True), known_for=JUST_STARTED)) == 4


@pytest.mark.parametrize("state", [NodeState.GHOST, NodeState.FENCED])
def test_a_node_that_does_not_run_is_not_waited_for_as_one_that_returned(state: NodeState) -> None:
    isr = tuple(replace(partition, in_sync=partition.isr - {1}) for partition in PARTITIONS)
    observation = cluster(ROLLED_CONTROLLERS, {1: replace(a_node(1), state=state)}, isr)
    assert "has been up only" not in str(rolled(up_for({1: 5}, observation), known_for=JUST_STARTED).decision)


def test_a_controllers_clock_that_is_set_forward_does_not_shorten_the_wait_for_a_returned_node() -> None:
    """Broker 5 registered 3 s ago. Then the clock was set an hour forward: by the log, it was 3603 s ago."""
    observation = up_for({5: 3603}, log_is_ahead=3600)
    assert "broker 5 has been up only since" in refused(
        rolled(observation, known_for=JUST_STARTED), Reason.ROLLING_NODES
    )


def test_a_clock_that_is_set_back_does_not_lengthen_the_wait_beyond_stable_for() -> None:
    """By the log, broker 5 registers an hour from now; so the time for which this process has seen it up counts."""
    observation = up_for({5: -3600})
    assert isinstance(rolled(observation, up_for={5: timedelta(seconds=29)}).decision, Wait)
    assert isinstance(rolled(observation, up_for={5: timedelta(seconds=30)}).decision, Act)
    assert isinstance(rolled(observation, up_for={2: timedelta(seconds=30)}).decision, Wait)


@pytest.mark.parametrize(("seconds", "is_waited_for"), [(12, True), (31, False)])
def test_without_the_metadata_log_the_start_of_the_container_is_the_return_of_the_node(
    seconds: float, *, is_waited_for: bool
) -> None:
    pods = {5: a_pod(5, revision=NEW, started_at=NOW - timedelta(seconds=seconds))}
    roll = rolled(cluster({**ROLLED_CONTROLLERS, **pods}), known_for=JUST_STARTED)
    assert isinstance(roll.decision, Wait if is_waited_for else Act)
    if is_waited_for:
        text = refused(roll, Reason.ROLLING_NODES)
        assert text.startswith("broker 5 has been up only since 2026-01-02 03:03:53 UTC, as far as its pod shows")


def test_the_return_of_a_controller_that_the_log_does_not_name_is_the_start_of_its_container() -> None:
    """Below metadata.version 3.7-IV0 controllers do not register. For a node that the log names, its pod does not
    count.
    """
    young = {id_: a_pod(id_, revision=NEW, started_at=NOW - timedelta(seconds=12)) for id_ in (3001, 5)}
    observation = up_for({}, cluster({**ROLLED_CONTROLLERS, **young}))
    assert isinstance(rolled(observation, known_for=JUST_STARTED).decision, Act)
    assert observation.returns is not None
    unnamed = {id_: at for id_, at in observation.returns.times.items() if id_ not in CONTROLLERS}
    roll = rolled(replace(observation, returns=replace(observation.returns, times=unnamed)), known_for=JUST_STARTED)
    assert "controller 3001 has been up only since" in refused(roll, Reason.ROLLING_NODES)


def test_no_returned_node_is_waited_for_if_stable_for_is_zero() -> None:
    without_wait = replace(ROLLOUT, stable_for=timedelta(0))
    assert isinstance(rolled(up_for({5: 0}), rollout=without_wait, known_for=JUST_STARTED).decision, Act)
