"""Further events during a roll, on a cluster at 4.4 with its levels. Only with SOAK=1."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.real_roll import compared
from tests.e2e.kubernetes.resources import away
from tests.e2e.kubernetes.rolls.rolling import NAME, QUIET, ROLLED, ROLLOUT, Rolling
from tests.e2e.rig.kubernetes.racks import RACKS, Racks, pods_of
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST

BROKERS = pods_of("brokers")
ONE_BY_ONE = {**ROLLOUT, "maxParallel": 1}
FASTER = 1.3
"""Least ratio of the times of both rolls."""


def test_a_roll_of_two_brokers_at_once_is_faster_than_one_by_one(rolling: Rolling) -> None:
    """Both rolls make the same checks. The gain is bounded by two cores that start the JVMs of both brokers."""
    assert compared(rolling) > FASTER


def test_a_roll_waits_for_a_broker_that_was_killed(rolling: Rolling, racks: Racks) -> None:
    """A broker of the rack that is being restarted, so that no partition has both."""
    with rolling.judged(None) as judged:
        rolling.rolls("broker-killed", "brokers", rollout=ONE_BY_ONE)
        number = BROKERS.index(judged.until_evicted()[0])
        killed = BROKERS[(number + RACKS) % len(BROKERS)]
        racks.kill(killed)
        rolling.until_rolled("brokers")
        assert judged.created == dict.fromkeys(BROKERS, 1)


def test_a_roll_waits_for_a_drain_and_does_not_restart_the_drained_broker_again(rolling: Rolling, racks: Racks) -> None:
    """A pod in the rack that is being restarted is drained (`kubectl drain`), and no pod can be scheduled for a while.
    The drained pod comes back with the new template.
    """
    with rolling.judged(None) as judged:
        rolling.rolls("drained", "brokers", rollout=ONE_BY_ONE)
        number = BROKERS.index(judged.until_evicted()[0])
        drained = BROKERS[(number + RACKS) % len(BROKERS)]
        racks.drain(drained)
        wait_until("it cannot be scheduled", lambda: racks.phase(drained) == "Pending")
        before = judged.evicted
        away(QUIET)
        assert judged.evicted == before
        racks.plane.kubectl("uncordon", "node")
        rolling.until_rolled("brokers")
        assert judged.created == dict.fromkeys(BROKERS, 1)
        assert set(judged.evicted) == set(BROKERS) - {drained}


def test_no_restart_begins_while_a_roll_is_suspended(rolling: Rolling) -> None:
    with rolling.judged(BROKERS) as judged:
        rolling.rolls("suspended", "brokers")
        judged.until_evicted(2)
        rolling.apply(NAME, suspend=True)
        rolling.until(NAME, "Ready", "Suspended")
        started = judged.evicted
        wait_until("those are back", lambda: len(rolling.current("brokers")) == len(started), ROLLED, step=0.5)
        away(QUIET)
        assert judged.evicted == started
        rolling.apply(NAME)
        rolling.until_rolled("brokers")


def test_an_image_changed_again_in_a_roll_restarts_no_node_more_than_twice(rolling: Rolling, racks: Racks) -> None:
    with rolling.judged(None) as judged:
        rolling.rolls_to(f"{racks.image}-1", "brokers")
        early = set(judged.until_evicted(3))
        rolling.rolls_to(last := f"{racks.image}-2", "brokers")
        rolling.until_rolled("brokers")
        assert set(judged.created) == set(BROKERS)
        assert {pod for pod, times in judged.created.items() if times > 1} <= early
        assert max(judged.created.values()) == 2
        assert {racks.pods()[one]["spec"]["containers"][0]["image"] for one in BROKERS} == {last}


def test_a_roll_waits_for_a_disruption_budget_that_allows_no_disruption(rolling: Rolling, racks: Racks) -> None:
    with rolling.judged(BROKERS) as judged:
        racks.unavailable["brokers"] = 0
        rolling.rolls("budget", "brokers")
        wait_until("the budget is named", lambda: "maxUnavailable: 0" in str(rolling.progress()), step=0.5)
        away(QUIET)
        assert judged.evicted == []
        racks.unavailable["brokers"] = 2
        racks.apply_again()
        rolling.until_rolled("brokers")


def test_a_roll_waits_for_a_reassignment(rolling: Rolling, racks: Racks, tmp_path: Path) -> None:
    """A partition is moved, slowly because of a quota, from one broker of each rack to the other ones."""
    topic = "moving"
    racks.create_topic(topic, 1)
    words = ("--num-records", "2000", "--record-size", "1000", "--throughput", "-1")
    servers = ("--bootstrap-server", racks.addresses("brokers"))
    to = ("--topic", topic, "--producer-props", f"bootstrap.servers={servers[1]}")
    racks.tool("org.apache.kafka.tools.ProducerPerformance", *to, *words)
    (before,) = racks.partitions(topic).values()
    after = [id_ for id_, pod in racks.node_ids.items() if pod in BROKERS and id_ not in before]
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": after}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    move = ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *servers)
    file = ("--reassignment-json-file", str(tmp_path / "plan.json"))
    with rolling.judged(BROKERS) as judged:
        racks.tool(*move, *file, "--execute", "--throttle", "1000")  # bytes/s: 2 MB take half an hour
        rolling.rolls("reassignment", "brokers")
        wait_until("it is named", lambda: f"{topic}-0" in str(rolling.progress()), step=0.5)
        away(QUIET)
        assert judged.evicted == []
        racks.tool(*move, *file, "--execute", "--additional", "--throttle", "100000000")
        rolling.until_rolled("brokers")
    racks.tool(*move, *file, "--verify")  # takes the quota away


def test_a_topic_with_one_replica_blocks_the_roll_until_the_document_has_a_consent(
    rolling: Rolling, racks: Racks
) -> None:
    """A partition with one replica is unavailable while its broker restarts, so the user has to consent."""
    topic = "single"
    topics = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", racks.addresses("brokers"))
    one = ("--partitions", "1", "--replication-factor", "1", "--config", "min.insync.replicas=1")
    racks.tool(*topics, "--create", "--topic", topic, *one)
    with rolling.judged(BROKERS, but_for={topic}) as judged:
        rolling.rolls("single", "brokers")
        condition = rolling.until(NAME, "Stalled", "ConsentRequired")
        assert topic in condition["message"], condition
        assert judged.evicted == []
        rolling.apply(NAME, consents=["single-replica-topics"])
        rolling.until_rolled("brokers")
        wait_until("it is spent", lambda: rolling.status(NAME).get("spentConsents") == ["single-replica-topics"])
    racks.tool(*topics, "--delete", "--topic", topic)


def test_brokers_at_minimum_isr_are_not_restarted_until_missing_replicas_are_in_sync(
    rolling: Rolling, racks: Racks
) -> None:
    """A broker stays away, so its partitions are at their minimum. Only a broker that shares none of them with it, one
    of the same rack, may be restarted.
    """
    away_, mate = BROKERS[0], BROKERS[RACKS]
    with rolling.judged(None) as judged:
        racks.plane.kubectl("cordon", "node")
        racks.delete(away_)
        wait_until("it cannot be scheduled", lambda: racks.phase(away_) == "Pending")
        rolling.rolls("minimum", "brokers", rollout=ONE_BY_ONE)
        away(QUIET)
        assert set(judged.evicted) <= {away_, mate}
        racks.plane.kubectl("uncordon", "node")
        rolling.until_rolled("brokers")
        assert set(judged.created) == set(BROKERS)


def test_a_roll_back_to_4_1_is_refused_after_the_levels_are_those_of_4_4(rolling: Rolling, racks: Racks) -> None:
    with rolling.judged(()) as judged:
        racks.apply(MIDDLE)
        rolling.apply(NAME)
        condition = rolling.until(NAME, "Stalled", "DowngradeRefused")
        assert "Kafka refuses to downgrade metadata.version" in condition["message"], condition
        away(QUIET)
        assert judged.evicted == []
        racks.apply(NEWEST)
        rolling.until_rolled()
