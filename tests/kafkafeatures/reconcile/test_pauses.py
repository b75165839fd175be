"""The pause until the next reconciliation."""

from __future__ import annotations

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import EMPTY
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.reconcile.act import Reconciliation
from kafkafeatures.reconcile.pace import Pace
from kafkafeatures.reconcile.pauses import pause_after
from kafkafeatures.reconcile.ports import Resource


def pauses(wait: Wait) -> list[float]:
    """Return the seconds until the next reconciliation, for several with the same decision."""
    pace, last = Pace(lambda: 0.0), Reconciliation(wait, wait.delay, EMPTY)
    resource = Resource("orders", 1, DesiredState({}), EMPTY)
    return [pause_after(last, resource, pace, 60.0).seconds for _ in range(4)]


def test_a_long_wait_is_observed_at_growing_intervals_and_a_steady_wait_at_its_own_interval() -> None:
    assert pauses(Wait(Reason.WAITING_FOR_GIT, "", delay=5.0, subject="broker 1", remedy="see its log")) == [
        5.0,
        10.0,
        20.0,
        30.0,  # `SLOWEST_WAIT`
    ]
    assert pauses(
        Wait(Reason.WAITING_FOR_GIT, "", delay=5.0, steady=True, subject="broker 1", remedy="see its log")
    ) == [5.0, 5.0, 5.0, 5.0]
