"""Brokers that are out of sync: reported with partitions, start and remedy, and restarted first if outdated."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.since_status import NodeSince
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.status import EMPTY, RolloutStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.facts.observation import NodeState
from kafkafeatures.core.roll.report import rollout_status
from kafkafeatures.core.roll.roll import Roll
from tests.kafkafeatures.core.replicas import Row, row
from tests.kafkafeatures.core.rolls import (
    CONTROLLERS,
    PARTITIONS,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    a_node,
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

BEHIND = tuple(replace(partition, in_sync=partition.isr - {5}) for partition in PARTITIONS)
"""Broker 5 is in sync with none of the partitions that it hosts."""
WITH_EACH_AVAILABILITY = pytest.mark.parametrize("availability", Availability)
DAY_AGO = stamp(NOW - timedelta(days=1))
"""The time that the status has: broker 5 has lagged since then."""
SEE_LEADER = "; broker 1 leads all of these partitions: see `kubectl logs broker-1` as well"


@WITH_EACH_AVAILABILITY
def test_a_broker_that_is_behind_and_needs_a_restart_is_restarted_first(availability: Availability) -> None:
    rollout = replace(ROLLOUT, availability=availability)
    assert restarted_id(rolled(cluster(ROLLED_CONTROLLERS, partitions=BEHIND), rollout=rollout)) == 5


def test_a_lagging_broker_on_the_current_revision_is_reported_with_partitions_since_and_remedy() -> None:
    observation = cluster(current(*CONTROLLERS, 2, 3, 4, 5, 6), partitions=(row("orders", 1, 5, 3, isr=(1, 3)),))
    status = replace(EMPTY, rollout=RolloutStatus(id="roll", total=9, behind=(NodeSince(node_id=5, since=DAY_AGO),)))
    roll = rolled(observation, status=status)
    message = refused(roll, Reason.ROLLING_NODES)
    assert message.startswith(f"broker 5 has not been in sync with 1 partition (orders-0) since {DAY_AGO}; broker 1 ")
    assert isinstance(roll.decision, Wait)
    assert roll.decision.subject == "broker 5"
    own = "see `kubectl logs broker-5` for why broker 5 does not catch up, and restart it if it hangs"
    assert roll.decision.remedy == own + SEE_LEADER
    (blocker,) = roll.decision.blockers
    assert [node.id for node in blocker.nodes] == [5]


def test_the_time_since_which_a_broker_lags_is_kept_until_it_is_in_sync() -> None:
    observation = cluster(current(*CONTROLLERS, 2, 3, 4, 5, 6), partitions=BEHIND)
    first = rolled(observation)
    assert first.decision is not None
    written = rollout_status(first, first.decision, None, stamp(NOW))
    assert written is not None
    assert written.behind == (NodeSince(node_id=5, since=stamp(NOW)),)
    later = rolled(
        observation, status=replace(EMPTY, rollout=replace(written, behind=(NodeSince(node_id=5, since=DAY_AGO),)))
    )
    assert later.lagging == {5: DAY_AGO}
    well = cluster(current(*CONTROLLERS, 2, 3, 4, 5, 6))
    assert not rolled(well, status=replace(EMPTY, rollout=written)).lagging


def test_a_node_in_flight_that_catches_up_is_not_reported_as_behind() -> None:
    catching_up = cluster({**ROLLED_CONTROLLERS, **replaced(5)}, fresh(5), BEHIND)
    roll = rolled(catching_up, sent(5))
    assert not roll.lagging
    assert "has not been in sync" not in getattr(roll.decision, "message", "")


# --- the leader of what a broker lacks ---

LED_BY_1 = (row("orders", 1, 5, 3, isr=(1, 3)), row("orders", 5, 1, 6, isr=(1, 6), number=1))
"""Broker 1 leads all that broker 5 is not in sync with."""


def remedy(roll: Roll) -> str:
    assert isinstance(roll.decision, Wait | Stalled), roll.decision
    return roll.decision.remedy


def test_the_remedy_for_a_late_broker_names_the_log_of_the_one_leader_of_all_that_it_lacks() -> None:
    observation = cluster({**current(*CONTROLLERS), **replaced(5)}, fresh(5), LED_BY_1)
    assert remedy(rolled(observation, sent(5, minutes=20))).endswith(SEE_LEADER)


@pytest.mark.parametrize(
    "partitions",
    [
        (*LED_BY_1, row("orders", 5, 4, 6, isr=(4, 6), number=2)),
        (row("orders", 5, 1, 3, isr=(), offline=True),),
    ],
    ids=["two leaders", "no leader"],
)
def test_the_log_of_a_leader_is_not_advised_where_several_brokers_or_none_lead_the_partitions(
    partitions: tuple[Row, ...],
) -> None:
    observation = cluster({**current(*CONTROLLERS), **replaced(5)}, fresh(5), partitions)
    assert "leads all" not in remedy(rolled(observation, sent(5, minutes=20)))


def test_the_log_of_a_leader_that_is_away_is_not_advised() -> None:
    gone = {1: replace(a_node(1), state=NodeState.UNREACHABLE)}
    observation = cluster({**current(*CONTROLLERS), **replaced(5)}, {**fresh(5), **gone}, LED_BY_1)
    assert "leads all" not in remedy(rolled(observation, sent(5, minutes=20)))


@pytest.mark.parametrize(
    ("since", "is_named"), [pytest.param(DAY_AGO, True, id="for a day"), pytest.param(stamp(NOW), False, id="just now")]
)
def test_the_remedy_for_a_lagging_broker_names_its_leader_only_if_it_has_lagged_for_long(
    since: Stamp, *, is_named: bool
) -> None:
    only_1_is_outdated = current(*CONTROLLERS, 2, 3, 4, 5, 6)
    observation = cluster(only_1_is_outdated, partitions=LED_BY_1)
    status = replace(EMPTY, rollout=RolloutStatus(id="roll", total=9, behind=(NodeSince(node_id=5, since=since),)))
    assert remedy(rolled(observation, status=status)).endswith(SEE_LEADER) is is_named
