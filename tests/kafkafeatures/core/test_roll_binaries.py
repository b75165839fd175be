"""The binary that a node is restarted into, the node that tries an unknown image first, and pods created in order."""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import MaxParallel
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, SourceKind
from kafkafeatures.core.facts.workloads import Pod
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.report import rollout_status
from tests.kafkafeatures.core.fleets import NEW
from tests.kafkafeatures.core.replicas import row
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    a_node,
    a_pod,
    ago,
    cluster,
    current,
    fresh,
    refused,
    replaced,
    restarted_id,
    rolled,
    sent,
    with_workloads,
    workloads_of,
)
from tests.kafkafeatures.worlds import NOW

# --- a binary that cannot hold a level ---


def with_image_of_4_1(feature: str, level: int) -> Observation:
    """Build a cluster whose image was changed to Kafka 4.1."""
    observation = cluster(ROLLED_CONTROLLERS, release="4.1")
    return replace(observation, finalized=Known({feature: level}, SourceKind.METADATA_LOG, "", NOW))


def test_no_node_is_restarted_into_a_binary_that_cannot_hold_a_finalized_level() -> None:
    assert refused(rolled(with_image_of_4_1("metadata.version", 30)), Reason.DOWNGRADE_REFUSED) == (
        "the new image of broker supports metadata.version 7-27, finalized is 30 (4.3-IV0): its nodes could not "
        "register again; Kafka refuses to downgrade metadata.version; use an image that supports 30 (4.3-IV0)"
    )
    assert refused(rolled(with_image_of_4_1("share.version", 2)), Reason.NODES_BEHIND) == (
        "the new image of broker supports share.version 0-1, finalized is 2: its nodes could not register again; "
        "downgrade share.version to 1 first, with the consent share.version:2->1"
    )


def test_a_downgrade_of_the_document_is_done_before_the_roll_to_the_binary_that_needs_it() -> None:
    observation = with_image_of_4_1("share.version", 2)
    roll = rolled(observation, changes=(UpdateFeature("share.version", 2, 1),))
    assert roll.levels_first
    assert roll.decision is None
    assert not rolled(observation, changes=(UpdateFeature("share.version", 2, 3),)).levels_first


def test_one_node_is_restarted_into_an_unknown_binary_first_and_the_next_node_once_it_is_back() -> None:
    first_starts = cluster({**ROLLED_CONTROLLERS, **replaced(1, ready=False)}, release="", image="mine:latest")
    refused(rolled(first_starts, sent(1)), Reason.ROLLING_NODES)
    first_is_back = cluster(
        {**ROLLED_CONTROLLERS, **current(1), **replaced(2)}, fresh(2), release="", image="mine:latest"
    )
    assert restarted_id(rolled(first_is_back, sent(2))) == 5  # which shares no partition with 2


def two_images(*done: int, **images: str) -> Observation:
    """Build a cluster whose brokers 1 to 3 get one image, and 4 to 6 another one: the Kafka versions of both are
    unknown.

    `done`: brokers that already run it, the last of which has just come back; `more`: another image for 4 to 6.
    """
    observation = cluster({**ROLLED_CONTROLLERS, **current(*done)}, fresh(done[-1]) if done else {})
    controllers, brokers = workloads_of(observation).stateful_sets
    sets = [
        replace(
            brokers,
            name=name,
            replicas=3,
            release="",
            image=images.get(name, name),
            pods=tuple(replace(pod, stateful_set=name) for pod in pods),
        )
        for name, pods in (("broker", brokers.pods[:3]), ("more", brokers.pods[3:]))
    ]
    return with_workloads(observation, stateful_sets=(controllers, *sets))


def test_the_first_node_of_each_unknown_image_is_restarted_alone_and_later_nodes_as_usual() -> None:
    first = restarted_id(rolled(two_images()))
    other_brokers = {1, 2, 3} if first in {4, 5, 6} else {4, 5, 6}
    refused(rolled(two_images(first), sent(first, uid="older", is_back=True)), Reason.ROLLING_NODES)
    second = restarted_id(rolled(two_images(first)))
    assert second in other_brokers
    refused(rolled(two_images(first, second), sent(second, uid="older", is_back=True)), Reason.ROLLING_NODES)
    third = restarted_id(rolled(two_images(first, second)))
    in_flight = sent(third, uid="older", is_back=True)
    assert restarted_id(rolled(two_images(first, second, third), in_flight)) not in (first, second, third)


def test_two_stateful_sets_with_one_image_share_the_node_that_goes_first() -> None:
    """Broker 2 goes first, and alone. Then broker 4 of the other StatefulSet is in flight, which shares no partition
    with broker 1.
    """
    assert restarted_id(rolled(two_images(more="broker"))) == 2
    refused(rolled(two_images(2, more="broker"), sent(2, uid="older", is_back=True)), Reason.ROLLING_NODES)
    in_flight = sent(4, uid="older", is_back=True)
    assert restarted_id(rolled(two_images(2, 4, more="broker"), in_flight)) == 1
    refused(rolled(two_images(2, 4), in_flight), Reason.ROLLING_NODES)  # with two images, 4 is a first node as well


def test_the_message_about_a_first_node_that_cannot_be_restarted_alone_has_cause_and_remedy() -> None:
    fenced = {5: replace(a_node(5), state=NodeState.FENCED)}
    partitions = (row("orders", 1, 2, 3), row("others", 4, 5, 6, isr=[4, 6]))
    observation = cluster({**ROLLED_CONTROLLERS, **current(5)}, fenced, partitions, release="", image="kafka:ours")
    message = refused(rolled(observation, rollout=replace(ROLLOUT, max_parallel=MaxParallel(3))), Reason.ROLLING_NODES)
    assert message == (
        "broker 1 is restarted alone, as the Kafka version of its new image is not known; bring broker 5 back, or set "
        "the template's annotation kafkafeatures.dev/kafka-version"
    )


# --- pods that are created one by one ---


def ordered(pods: Mapping[int, Pod], *, replicas: int = 6) -> Observation:
    observation = cluster({**ROLLED_CONTROLLERS, **pods})
    controllers, brokers = workloads_of(observation).stateful_sets
    brokers = replace(brokers, is_ordered=True, first_ordinal=1, replicas=replicas)
    return with_workloads(observation, stateful_sets=(controllers, brokers))


def test_with_ordered_ready_no_pod_is_evicted_above_a_pod_that_is_not_ready() -> None:
    unready = a_pod(2, revision=NEW, ready=False)
    assert restarted_id(rolled(ordered({}))) in BROKERS
    rule = replace(ROLLOUT, availability=Availability.RESPECT_MIN_ISR)
    assert restarted_id(rolled(ordered({2: unready}), rollout=rule)) == 1
    message = refused(rolled(ordered({**current(1), 2: unready}), rollout=rule), Reason.ROLLING_NODES)
    assert "not evicted: StatefulSet broker has podManagementPolicy OrderedReady, and Kubernetes would not" in message
    assert "before pod broker-2 is ready; repair pod broker-2, or create the StatefulSet" in message


def test_no_ordered_pod_is_restarted_below_a_pod_in_flight_that_is_not_created_yet() -> None:
    stopping = ordered({**current(1, 2, 3), 6: a_pod(6, terminating=True)})
    assert rolled(stopping, sent(6)).fleet.out_of_order.keys() == {4, 5}
    assert rolled(stopping).fleet.out_of_order == {}
    back = ordered({**current(1, 2, 3), 6: replace(a_pod(6, revision=NEW, ready=False), uid="another")})
    assert rolled(back, sent(6)).fleet.out_of_order == {}


def test_the_message_about_a_pod_that_is_not_created_again_names_the_pod_that_has_to_be_ready_first() -> None:
    observation = ordered(current(*BROKERS))
    controllers, brokers = workloads_of(observation).stateful_sets
    pods = tuple(replace(pod, ready=pod.name != "broker-2") for pod in brokers.pods if pod.name != "broker-3")
    lacking = with_workloads(observation, stateful_sets=(controllers, replace(brokers, pods=pods)))
    message = refused(rolled(lacking, sent(3, minutes=60)), Reason.ROLLOUT_HALTED)
    assert (
        "pod broker-3 was not created again yet; StatefulSet broker has podManagementPolicy OrderedReady, and "
        "Kubernetes does not create the pod before pod broker-2 is ready; repair pod broker-2"
    ) in message
    parallel = replace(brokers, pods=pods, is_ordered=False)
    message = refused(
        rolled(with_workloads(observation, stateful_sets=(controllers, parallel)), sent(3, minutes=60)),
        Reason.ROLLOUT_HALTED,
    )
    assert "if it was scaled down" in message  # no other pod is waited for


def test_the_status_keeps_all_unconfirmed_controllers_however_many_brokers_are_unconfirmed() -> None:
    """The status has room for eight. If a controller were not remembered, the message would change each time."""
    roll = rolled(cluster(None, {id_: replace(a_node(id_), proved_at="") for id_ in (*CONTROLLERS, *BROKERS)}))
    assert roll.decision is not None
    status = rollout_status(roll, roll.decision, None, ago(0))
    assert status is not None
    recorded = [node.node_id for node in status.unconfirmed]
    assert {*CONTROLLERS} < {*recorded}
    assert recorded == sorted(recorded)
    assert len(recorded) == 8
