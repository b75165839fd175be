"""Rolls of nine nodes, in the order of a cluster's life: at 4.1 as somebody changes a template, with an image that does
not start, up to 4.4 with its levels, and once more while the operator is killed.
"""

from __future__ import annotations

from pathlib import Path

from tests.e2e.kubernetes.rolls import reported
from tests.e2e.kubernetes.rolls.rolling import (
    ALL,
    NAME,
    ROLLOUT,
    SOAK,
    TOPIC,
    Rolling,
    grant,
)
from tests.e2e.rig.kubernetes.images import PAUSE, PREFIX
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.kubernetes.racks import Racks, pods_of
from tests.e2e.rig.releases import MIDDLE, NEWEST
from tests.examples import on_kubernetes

LEVELS = {"metadata.version": 33, "share.version": 2, "streams.version": 1}
"""What 4.4 has above 4.1."""
KILLED_AFTER = range(1, len(ALL)) if SOAK else (4,)
"""Evictions."""
BAD = f"{PREFIX}/kafka:4.1.3"
"""There is no Kafka in it."""


def test_brokers_roll_without_the_metadata_log(rolling: Rolling, racks: Racks) -> None:
    """Brokers are asked instead, for the time in which the right to read it is missing."""
    grant(racks, "--cluster", "ClusterAction", verb="--remove")
    with rolling.judged(pods_of("brokers")):
        rolling.rolls("denied", "brokers")
        rolling.until_rolled("brokers")
        assert rolling.status(NAME)["source"] == "ApiRequests"
    grant(racks, "--cluster", "ClusterAction")


def test_an_image_that_does_not_start_stops_at_one_and_taking_it_back_recovers(rolling: Rolling, racks: Racks) -> None:
    racks.node.tag_image(PAUSE, BAD)
    rollout = {**ROLLOUT, "nodeTimeout": "15s"}
    rolling.apply(NAME, rollout=rollout)
    with rolling.judged(None) as judged:
        racks.apply_image(BAD)
        told = rolling.until(NAME, "Stalled", "RolloutHalted")
        (stuck,) = judged.evicted
        assert stuck in told["message"]
        racks.apply(MIDDLE)
        rolling.until_rolled()
        assert judged.evicted == [stuck, stuck]
        assert judged.created == {stuck: 2}
    assert rolling.condition(NAME, "Stalled") == {}


def test_4_1_becomes_4_4_and_the_levels_follow_once_they_are_approved(
    rolling: Rolling, racks: Racks, tmp_path: Path
) -> None:
    """Across 30, 32 and 33. New binaries and new levels are one commit; the levels as docs/how-to/upgrade.md has it."""
    leader = racks.node_ids[racks.leader()]
    with rolling.judged(ALL) as judged:
        racks.apply(NEWEST)
        rolling.apply(NAME, features={"releaseVersion": "4.4"})
        rolling.until_rolled()
        assert [one for one in judged.evicted if one in pods_of("controllers")][-1] == leader
        assert judged.most_at_once() == 2
        assert judged.levels() == {}
        rolling.until(NAME, "ApprovalRequired", "PlanPending")
        on_kubernetes("rolled", rolling.status(NAME), tmp_path, KUBECONFIG=str(racks.plane.kubeconfig))
        rolling.wait(NAME, "Ready")
        assert judged.levels() == LEVELS
    reported.judge(racks, reported.report(racks, tmp_path), TOPIC)


def test_an_operator_killed_in_a_roll_restarts_no_node_twice(rolling: Rolling, operator: Operator) -> None:
    with rolling.judged(ALL) as judged:
        rolling.rolls("killed")
        for many in KILLED_AFTER:
            judged.until_evicted(many)
            operator.kill()
            operator.start()
        rolling.until_rolled()
