"""What `wait` makes of the statuses that the operator writes while Strimzi rolls pods, or is kept from it."""

from __future__ import annotations

from datetime import timedelta

from kafkafeatures.cli.kube.polling import Ending
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.wait import Goal, judge, progress
from kafkafeatures.cli.kube.wait_rolled import templates_of
from kafkafeatures.cli.shell.exit_codes import Exit
from tests.kafkafeatures.reconcile.strimzi_rig import PAUSE, POD_SET, PODS, Strimzi
from tests.kafkafeatures.reconcile.test_strimzi import KAFKA

READY, ROLLED = Goal(), Goal(rolled=True)
PAUSED = {"type": "ReconciliationPaused", "status": "True"}


def resource_of(strimzi: Strimzi) -> KubeResource:
    return KubeResource(strimzi.api.object)


def judged(strimzi: Strimzi, goal: Goal = ROLLED) -> Ending | None:
    resource = resource_of(strimzi)
    return judge(resource, goal, templates_of(strimzi, resource))


def line(strimzi: Strimzi) -> str:
    resource = resource_of(strimzi)
    return progress(resource, ROLLED, templates_of(strimzi, resource))


async def test_a_wait_for_a_roll_shows_each_pod_that_strimzi_has_restarted_until_its_reconciliation_ends() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    assert (judged(strimzi) or Ending(Exit.USAGE, "")).code is Exit.DONE
    strimzi.kafka_is(generation=2)
    unprocessed = "Strimzi has not reconciled Kafka my-cluster as it is now"
    assert (judged(strimzi), line(strimzi)) == (None, unprocessed)  # the pods are still those of the first generation
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    lines = []
    for pod in PODS:
        await strimzi.work(2)
        assert judged(strimzi) is None
        lines.append(line(strimzi).partition(" of broker at revision ")[0])
        strimzi.restart(pod)
    assert lines == ["0 of 3 pods", "1 of 3 pods", "2 of 3 pods"]
    await strimzi.work(2)
    assert judged(strimzi) is None
    assert line(strimzi).startswith(f"InProgress: 3 of 3 nodes are current; {unprocessed}; ")
    strimzi.kafka_is(generation=2, observed=2)
    await strimzi.work(2)
    assert (judged(strimzi) or Ending(Exit.USAGE, "")).code is Exit.DONE


async def test_a_wait_for_a_roll_of_a_paused_kafka_ends_at_once_with_the_remedy() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.kafka_is(PAUSED, generation=2, is_paused=True)  # the operator has not read it yet
    ending = judged(strimzi)
    assert ending is not None
    assert ending.code is Exit.STALLED
    assert ending.text.startswith("kafka/orders is stalled: StrimziPaused: Kafka my-cluster is paused: ")
    assert f"; kubectl annotate -n kafka kafka/my-cluster {PAUSE}-; see " in ending.text


async def test_a_pause_that_is_over_ends_no_wait_although_the_status_still_has_it() -> None:
    strimzi = Strimzi()
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    strimzi.kafka_is(PAUSED, is_paused=True)
    await strimzi.work()
    assert (judged(strimzi, READY) or Ending(Exit.USAGE, "")).code is Exit.STALLED
    strimzi.kafka_is(PAUSED)  # Strimzi has not read that yet, and the operator neither
    assert strimzi.api.condition("Stalled")["reason"] == "StrimziPaused"
    assert (judged(strimzi, READY), judged(strimzi, ROLLED)) == (None, None)
    assert line(strimzi).startswith("0 of 3 pods of broker at revision ")


async def test_a_kafka_without_sets_ends_no_wait_for_a_roll_whatever_an_old_status_says() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.api.server.remove(POD_SET)
    assert (judged(strimzi), line(strimzi)) == (None, "Kafka my-cluster has no StrimziPodSet with pods")
    strimzi.pod_set(owner="uid-of-another")
    strimzi.kafka_is(generation=2)
    assert (judged(strimzi), line(strimzi)) == (None, "Strimzi has not reconciled Kafka my-cluster as it is now")
    strimzi.kafka_is(generation=2, is_paused=True)
    ending = judged(strimzi)
    assert ending is not None
    assert (ending.code, "StrimziPaused" in ending.text) == (Exit.STALLED, True)
    strimzi.api.server.remove(KAFKA)
    assert (judged(strimzi), line(strimzi)) == (None, "Kafka my-cluster not found")


async def test_a_wait_for_a_roll_goes_on_until_strimzi_has_rolled_a_set_that_it_was_asked_to_restart() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.pod_set(is_to_roll=True)
    asked = "Strimzi was asked to restart all pods of StrimziPodSet broker, and has not done so yet"
    assert (judged(strimzi), line(strimzi)) == (None, asked)
    strimzi.pod_set()
    assert (judged(strimzi) or Ending(Exit.USAGE, "")).code is Exit.DONE


async def test_a_wait_for_a_roll_goes_on_while_it_is_not_known_whether_strimzi_still_has_to_begin_it() -> None:
    """Strimzi writes that it has read a node pool before it changes the set, and may fail before any change."""
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.pool_is(generation=2, observed=2, ago=timedelta(seconds=29))
    unprocessed = "Strimzi has not reconciled KafkaNodePool broker as it is now"
    assert (judged(strimzi), line(strimzi)) == (None, unprocessed)
    strimzi.pool_is(generation=2, observed=2, ago=timedelta(seconds=30))
    assert (judged(strimzi) or Ending(Exit.USAGE, "")).code is Exit.DONE
    failed = {"type": "NotReady", "status": "True", "reason": "InvalidResourceException", "message": "no listener"}
    strimzi.kafka_is(failed, generation=2, observed=2)
    says = "the last reconciliation of Kafka my-cluster failed: InvalidResourceException: no listener"
    assert (judged(strimzi), line(strimzi)) == (None, says)
