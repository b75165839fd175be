"""Pods that another operator restarts count once they have been ready for `rollout.stableFor`.

Production's controller and drivers, on the simulated API server with its pods, and on a simulated cluster.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.kafkafeatures.reconcile.followed_rig import ANNOTATION, PODS, Followed
from tests.kafkafeatures.reconcile.strimzi_rig import Strimzi


async def test_a_level_waits_until_a_pod_that_was_restarted_has_been_ready_for_a_while() -> None:
    """The pods have one version again, so nothing else shows whether another one is next."""
    followed = Followed(versionAnnotation=ANNOTATION)
    followed.as_koperator_makes_them()
    for pod in PODS[1:]:
        followed.set_image(pod, "kafka:4.4.0")
    followed.restart("broker-0")
    await followed.work(1)
    assert followed.level != 1
    says = "pod broker-0 is ready only since 04:06:55 UTC; the other operator may restart another one before "
    assert followed.reason[1].startswith(says)
    await followed.work(2)
    assert (followed.level, followed.reason[0]) == (1, "InSync")


async def test_a_level_waits_between_two_pods_of_a_roll_that_no_revision_shows() -> None:
    """Strimzi restarts pods for a larger volume, or without an old certificate, and their sets stay as they are."""
    strimzi = Strimzi()
    strimzi.restart("broker-0")
    await strimzi.work(1)
    says = "pod broker-0 is ready only since 04:06:55 UTC; Strimzi may restart another one before it has been"
    assert strimzi.reason[1].startswith(says)
    assert strimzi.level != 1
    await strimzi.work()
    assert strimzi.level == 1


UNSTABLE = {
    "it was restarted": (
        "2026-01-02T04:35:00Z",
        "is ready only since 04:35:00 UTC; Strimzi may restart another one before it has been for 30 min "
        "(spec.rollout.stableFor); wait; if it is restarted again and again, see `kubectl logs broker-1` and ",
    ),
    "clocks differ": (
        "2026-01-02T04:40:00Z",
        "is ready since 2026-01-02 04:40:00 UTC, which is in the future; compare the clocks of the Kubernetes node ",
    ),
    "nothing says since when": (None, "is ready, but its condition Ready does not say since when; wait"),
}


def is_ready_since(strimzi: Strimzi, since: str | None) -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    strimzi.workloads.change_pod("broker-1", lambda pod: pod["status"].update(conditions=[ready]))


@pytest.mark.parametrize(("since", "says"), UNSTABLE.values(), ids=UNSTABLE.keys())
async def test_a_wait_for_a_pod_that_was_just_restarted_says_what_to_do_if_it_does_not_end(
    since: str | None, says: str
) -> None:
    strimzi = Strimzi()
    strimzi.api.edit(rollout={"stableFor": "30m"})
    strimzi.pass_time(timedelta(minutes=30))
    is_ready_since(strimzi, since)
    await strimzi.work(1)
    assert strimzi.reason[1].startswith(f"pod broker-1 {says}")
    assert strimzi.level != 1


async def test_with_a_stable_time_of_0_no_pod_is_waited_for_once_it_is_ready() -> None:
    strimzi = Strimzi()
    strimzi.api.edit(rollout={"stableFor": "0s"})
    is_ready_since(strimzi, "2026-01-02T05:00:00Z")
    await strimzi.work()
    assert strimzi.level == 1
