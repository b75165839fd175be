"""Brokers that are behind: named as the cause, with since when; a restart that is due goes to them first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.status import EMPTY, NodeSince, RolloutStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.roll.report import rollout_status
from tests.kafkafeatures.core.replicas import row
from tests.kafkafeatures.core.rolls import (
    CONTROLLERS,
    PARTITIONS,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    cluster,
    current,
    fresh,
    refused,
    replaced,
    rolled,
    sent,
    who,
)
from tests.kafkafeatures.worlds import NOW

BEHIND = tuple(replace(one, in_sync=one.isr - {5}) for one in PARTITIONS)
"""Broker 5 is in sync with none of the partitions that it hosts."""
BOTH = pytest.mark.parametrize("availability", Availability)
DAY_AGO = stamp(NOW - timedelta(days=1))


@BOTH
def test_a_broker_that_is_behind_and_needs_a_restart_goes_before_all_others(availability: Availability) -> None:
    rollout = replace(ROLLOUT, availability=availability)
    assert who(rolled(cluster(ROLLED_CONTROLLERS, partitions=BEHIND), rollout=rollout)) == 5


def test_where_it_is_current_already_it_is_named_with_what_it_lacks_and_since_when_and_where_to_look() -> None:
    told = cluster(current(*CONTROLLERS, 2, 3, 4, 5, 6), partitions=(row("orders", 1, 5, 3, isr=(1, 3)),))
    status = replace(EMPTY, rollout=RolloutStatus(id="roll", total=9, behind=(NodeSince(node_id=5, since=DAY_AGO),)))
    roll = rolled(told, status=status)
    message = refused(roll, Reason.ROLLING_NODES)
    assert message.startswith(f"broker 5 has not been in sync with 1 partition (orders-0) since {DAY_AGO}; broker 1 ")
    assert isinstance(roll.decision, Wait)
    assert roll.decision.subject == "broker 5"
    assert (
        roll.decision.remedy
        == "see `kubectl logs broker-5` for why broker 5 does not catch up, and restart it if it hangs"
    )
    (blocker,) = roll.decision.blockers
    assert [node.id for node in blocker.nodes] == [5]


def test_since_when_it_is_behind_is_kept_as_long_as_it_is() -> None:
    told = cluster(current(*CONTROLLERS, 2, 3, 4, 5, 6), partitions=BEHIND)
    first = rolled(told)
    assert first.decision is not None
    written = rollout_status(first, first.decision, None, stamp(NOW))
    assert written is not None
    assert written.behind == (NodeSince(node_id=5, since=stamp(NOW)),)
    later = rolled(told, status=replace(EMPTY, rollout=replace(written, behind=(NodeSince(node_id=5, since=DAY_AGO),))))
    assert later.behind == {5: DAY_AGO}
    well = cluster(current(*CONTROLLERS, 2, 3, 4, 5, 6))
    assert not rolled(well, status=replace(EMPTY, rollout=written)).behind


def test_a_node_in_flight_that_catches_up_is_not_named_as_one_that_is_behind() -> None:
    catching_up = cluster({**ROLLED_CONTROLLERS, **replaced(5)}, fresh(5), BEHIND)
    roll = rolled(catching_up, sent(5))
    assert not roll.behind
    assert "has not been in sync" not in getattr(roll.decision, "message", "")
