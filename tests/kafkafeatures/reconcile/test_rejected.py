"""A change that the active controller rejects, or whose outcome stays unknown: how often it is sent, observed and
written.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafkafeatures.core.engine.steps import DryRun, DryRunUnavailable, OutcomeUnknown, Rejected
from kafkafeatures.core.levels.update_feature import UpdateFeature
from tests.kafkafeatures.reconcile.rig import Rig
from tests.simulated.orders import Orders


async def hour_of_rejections(rig: Rig) -> tuple[int, int]:
    """Return the numbers of changes sent and of status writes in an hour."""
    rig.kafka.outcomes = [Rejected(42, "no") for _ in range(1000)]
    while rig.seconds < 3600:
        await rig.work()
    assert rig.api.condition("Stalled")["reason"] == "ControllerRejected"
    return len(rig.kafka.sent), rig.api.writes


async def test_a_rejected_change_is_sent_again_once_the_cluster_changed_and_otherwise_at_growing_intervals() -> None:
    rig = Rig(Orders())
    rig.kafka.same = True
    sent, writes = await hour_of_rejections(rig)
    assert sent <= 6  # each time the log is read in full (every ten minutes), or later, as the intervals grow
    assert writes <= 2 * sent + 1
    rig.kafka.same = False  # the log has changed: a node has registered, say
    await rig.work()
    await rig.work()
    assert len(rig.kafka.sent) > sent


async def test_a_rejected_change_in_a_busy_cluster_is_sent_again_at_most_once_per_check_every() -> None:
    rig = Rig(Orders())
    rig.api.edit(drift={"checkEvery": "10m"})
    sent, writes = await hour_of_rejections(rig)
    assert sent <= 15  # the interval grows up to ten minutes
    assert writes <= 2 * sent + 1


@pytest.mark.parametrize("driver", ["None", "Manual"])
async def test_a_change_whose_outcome_stays_unknown_is_observed_twice_a_minute_with_any_driver(
    driver: str,
) -> None:
    rig = Rig(Orders())
    rig.api.edit(workload={"driver": driver})
    rig.kafka.outcomes = [OutcomeUnknown("EOF")]
    validate = rig.kafka.validate

    async def denied(changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        """Deny the dry run that settles the change; the right was taken away after the change was sent."""
        return DryRunUnavailable("grant ALTER", rights=True) if directly else await validate(changes)

    rig.kafka.validate = denied  # type: ignore[method-assign]
    looks = 0
    while rig.seconds < 3600:
        await rig.work()
        looks += 1
    assert 120 <= looks < 130  # in an hour; more often in the first minutes
    assert rig.api.writes < 5
    assert rig.api.condition("Stalled")["reason"] == "NotAuthorized"
    assert "grant ALTER" in rig.api.condition("Ready")["message"]
