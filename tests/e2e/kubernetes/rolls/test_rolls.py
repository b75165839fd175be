"""Rolls of nine nodes that live through all tests of this file, in their order: at 4.1 a restart on request while a
voter is away, and an image that does not start; then the upgrade to 4.4 with its levels, a node that ends by itself,
and a roll in which the operator is killed; at last one pod on request, and a broker that comes back with an empty disk.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.amounts import SOAK, only_in_soak
from tests.e2e.kafka.cli import run
from tests.e2e.kubernetes.resources import away
from tests.e2e.kubernetes.rolls import reported
from tests.e2e.kubernetes.rolls.rolling import (
    ALL,
    NAME,
    QUIET,
    ROLLOUT,
    TOPIC,
    Rolling,
    grant,
)
from tests.e2e.rig.kubernetes.images import PAUSE, PREFIX
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.kubernetes.racks import Racks, pods_of
from tests.e2e.rig.process import ENVIRONMENT, wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST
from tests.examples import on_kubernetes

LEVELS = {"metadata.version": 33, "share.version": 2, "streams.version": 1}
"""Levels of 4.4 that are above those of 4.1."""
KILLED_AFTER = range(1, len(ALL)) if SOAK else (4,)
"""Numbers of evictions after which the operator is killed."""
SHARE = "share.version"
BAD = f"{PREFIX}/kafka:4.1.3"
"""An image in which there is no Kafka."""


def test_brokers_roll_without_the_metadata_log(rolling: Rolling, racks: Racks) -> None:
    """While the right to read the log is missing, the operator reads from brokers instead. No broker is restarted until
    all voters are there.
    """
    grant(racks, "--cluster", "ClusterAction", verb="--remove")
    racks.plane.kubectl("cordon", "node")
    racks.delete(away_ := pods_of("controllers")[1])
    wait_until("it cannot be scheduled", lambda: racks.phase(away_) == "Pending")
    with rolling.judged(pods_of("brokers")) as judged:
        rolling.apply(NAME)
        asked = run("restart", NAME, "-n", racks.namespace, "--only", "brokers", environment=access(racks))
        assert asked.returncode == 0, asked.stderr
        missing = f"a voter is missing: controller {racks.id_of(away_)} "
        wait_until("the voter is named", lambda: missing in rolling.waits_for(), 60, step=0.2)
        away(QUIET)
        assert judged.evicted == []
        racks.plane.kubectl("uncordon", "node")
        rolling.until_rolled("brokers")
        assert rolling.status(NAME)["source"] == "ApiRequests"
    grant(racks, "--cluster", "ClusterAction")


def test_an_image_that_does_not_start_halts_the_roll_at_one_pod_and_reverting_it_recovers(
    rolling: Rolling, racks: Racks
) -> None:
    """Meanwhile another broker, with the old image, crashes. It runs again by itself, and the roll leaves it alone."""
    racks.node.tag_image(PAUSE, BAD)
    rollout = {**ROLLOUT, "nodeTimeout": "15s"}
    rolling.apply(NAME, rollout=rollout)
    with rolling.judged(None) as judged:
        racks.apply_image(BAD)
        condition = rolling.until(NAME, "Stalled", "RolloutHalted")
        (stuck,) = judged.evicted
        assert stuck in condition["message"]
        waits = pods_of("brokers")[0]
        racks.crash(waits)
        away(QUIET)
        assert judged.evicted == [stuck]
        racks.wait_ready([waits])
        wait_until("all replicas are in sync", rolling.observer.in_sync, step=0.5)
        racks.elect()  # a broker that leads no partition is stopped without a record of it in the log
        racks.apply(MIDDLE)
        rolling.until_rolled()
        assert judged.evicted == [stuck, stuck]
        assert judged.created == {stuck: 2}
    assert rolling.condition(NAME, "Stalled") == {}


def test_brokers_roll_from_4_1_to_4_4_and_the_levels_are_raised_after_their_approval(
    rolling: Rolling, racks: Racks, tmp_path: Path
) -> None:
    """The metadata.version goes from 27 to 33. Images and levels are changed in one commit, as docs/how-to/upgrade.md
    has it.
    """
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


@only_in_soak
def test_a_node_that_ends_after_its_restart_halts_the_roll_and_levels_until_its_pod_is_replaced(
    rolling: Rolling, racks: Racks
) -> None:
    rolling.apply(NAME)
    rolling.wait(NAME, "Ready")  # a downgrade by a resource that is new to the cluster would need an approval
    rolling.apply(NAME, features=share(1), consents=["share.version:2->1"])
    rolling.until_changed("share.version", 1)
    with rolling.judged(None) as judged:
        rolling.rolls("ends", "brokers", features=share(2))
        ended = judged.until_evicted()[0]
        # Suspended until all are back: two brokers that are away at once would take partitions below their minimum.
        rolling.apply(NAME, features=share(2), suspend=True)
        rolling.until(NAME, "Ready", "Suspended")
        assert ended in rolling.over()
        wait_until("all replicas are in sync", rolling.observer.in_sync, step=0.5)
        racks.kill(ended)
        wait_until("kubelet started it again", lambda: racks.restarts(ended) == 1, step=0.2)
        rolling.apply(NAME, features=share(2))
        condition = rolling.until(NAME, "Stalled", "RolloutHalted")
        assert f"pod {ended} " in condition["message"]
        assert "no level is raised" in condition["message"]
        before = judged.evicted
        assert len(before) < len(pods_of("brokers"))
        away(QUIET)
        assert (judged.evicted, judged.levels()) == (before, {})
        wait_until("all replicas are in sync", rolling.observer.in_sync, step=0.5)
        with rolling.labelled("controllers"):  # another template ends no halt
            away(QUIET)
            assert rolling.condition(NAME, "Stalled")["reason"] == "RolloutHalted"
        assert judged.evicted == before
        racks.delete(ended)
        rolling.until_rolled("brokers")
        rolling.wait(NAME, "Ready")
        assert judged.levels() == {SHARE: 2}
        assert judged.created == dict.fromkeys(pods_of("brokers"), 1) | {ended: 2}


def share(level: int) -> dict[str, object]:
    return {"levels": [{"name": SHARE, "level": level}]}


def test_an_operator_killed_in_a_roll_restarts_no_node_twice(rolling: Rolling, operator: Operator) -> None:
    with rolling.judged(ALL) as judged:
        rolling.rolls("killed")
        for many in KILLED_AFTER:
            judged.until_evicted(many)
            operator.kill()
            operator.start()
        rolling.until_rolled()


def test_exactly_the_pod_of_a_restart_request_is_restarted(rolling: Rolling, racks: Racks) -> None:
    pod = pods_of("brokers")[2]
    with rolling.judged([pod]) as judged:
        rolling.apply(NAME)
        asked = run("restart", NAME, "-n", racks.namespace, "--pod", pod, environment=access(racks))
        assert asked.returncode == 0, asked.stderr
        judged.until_evicted()
        rolling.until_rolled()


@only_in_soak
def test_a_broker_whose_pod_has_an_empty_disk_halts_the_roll_until_its_disk_is_accepted(
    rolling: Rolling, racks: Racks
) -> None:
    one_by_one = {**ROLLOUT, "maxParallel": 1}
    racks.plane.kubectl("cordon", "node")
    with rolling.judged(pods_of("brokers")) as judged:
        rolling.rolls("empty-disk", "brokers", rollout=one_by_one)
        (emptied,) = judged.until_evicted()
        wait_until("its next pod waits", lambda: racks.phase(emptied) == "Pending" and racks.uids()[emptied])
        racks.exchange_disk(emptied)
        racks.plane.kubectl("uncordon", "node")
        condition = rolling.until(NAME, "Stalled", "RolloutHalted")
        title = f"broker {racks.id_of(emptied)}"
        assert f"{title} came back on a new disk: none of its directories was there before" in condition["message"]
        racks.wait_ready([emptied])
        wait_until("all replicas are in sync", rolling.observer.in_sync, step=0.5)
        away(QUIET)
        assert judged.evicted == [emptied]
        found = re.search(r"add (new-disk:\S+) to consents", condition["message"])
        assert found is not None, condition["message"]
        rolling.apply(NAME, rollout=one_by_one, consents=[found[1]])
        rolling.until_rolled("brokers")
    assert rolling.status(NAME)["spentConsents"] == [found[1]]


def access(racks: Racks) -> dict[str, str]:
    """The environment of a command that asks the API server."""
    return {**ENVIRONMENT, "KUBECONFIG": str(racks.plane.kubeconfig)}
