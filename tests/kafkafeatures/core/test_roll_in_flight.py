"""Restarts in flight: unsent evictions, nodes that do not come back in time, and the next restart beside them.

All nodes are to be restarted: controllers 3001 (the leader) to 3003, brokers 1 to 6; 1 and 4 share no partition.
`sent`: a restart in flight; `replaced`, `fresh`: the new pod, the new process of a node; spec.rollout.nodeTimeout is 15
min.
"""

from __future__ import annotations

from datetime import timedelta

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.status import EMPTY, Result, RevisionStatus, RolloutStatus, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.engine.desired_state import DesiredState, Mode, Window
from kafkafeatures.core.engine.settling import OpenOutcome
from kafkafeatures.core.facts.observation import NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Role
from kafkafeatures.core.kinds import in_flight
from kafkafeatures.core.report.history import with_result
from kafkafeatures.core.roll.coming_back import ReturnPhase
from kafkafeatures.core.roll.report import nodes_rolled, rollout_status
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.fleets import NEW, OLD
from tests.kafkafeatures.core.replicas import row
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    CRASHES,
    ONE_AT_A_TIME,
    PARTITIONS,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    UNREAD,
    WAITING,
    a_node,
    a_pod,
    ago,
    behind_gates,
    cluster,
    current,
    fresh,
    looks,
    refused,
    replaced,
    replication_of,
    restart_in,
    restarted_id,
    rolled,
    sent,
    with_workloads,
    workloads_of,
)
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import NOW, SILENT

WITHOUT_PODS = replace(cluster(), workloads=Unknown(NOT_ASKED))  # the document names no driver


def test_an_eviction_that_may_not_have_been_sent_is_sent_again_before_any_other_step() -> None:
    assert restart_in(rolled(cluster(ROLLED_CONTROLLERS), sent(3))) == sent(3).step


def combined_of(observation: Observation) -> Observation:
    """Make the controllers combined nodes, whose StatefulSet is listed as one of brokers."""
    both = (Role.CONTROLLER, Role.BROKER)
    nodes = tuple(replace(node, roles=both) if node.id >= 3000 else node for node in observation.nodes)
    sets = tuple(replace(stateful_set, role="brokers") for stateful_set in workloads_of(observation).stateful_sets)
    return with_workloads(replace(observation, nodes=nodes), stateful_sets=sets)


def test_an_unsent_eviction_is_dropped_once_its_image_has_changed_or_another_node_has_to_go_first() -> None:
    for observation, restart in (
        (cluster(ROLLED_CONTROLLERS), sent(3, after="another")),  # the image is another one by now
        (cluster(), sent(3)),  # controllers need a restart by now, and go before brokers
        (cluster(), sent(3001)),  # it leads by now, and goes after its followers
        (combined_of(cluster()), sent(3)),
    ):
        assert "was not evicted yet" in refused(rolled(observation, restart), Reason.ROLLING_NODES)
        assert restart.step.is_not_wanted(observation)
    for observation, restart in ((cluster(ROLLED_CONTROLLERS), sent(3)), (cluster(), sent(3002))):
        assert not restart.step.is_not_wanted(observation)


def test_an_eviction_that_was_not_sent_waits_while_the_template_of_controllers_is_not_processed() -> None:
    """Whether controllers have to go before this broker is not known yet."""
    observation = cluster(ROLLED_CONTROLLERS)
    controllers, brokers = workloads_of(observation).stateful_sets
    changed = with_workloads(observation, stateful_sets=(replace(controllers, observed=False), brokers))
    message = refused(rolled(changed, sent(3)), Reason.ROLLING_NODES)
    assert "Kubernetes has not processed the change of StatefulSet controller yet" in message


def test_an_eviction_that_was_not_sent_waits_if_a_node_that_went_away_since_uses_up_max_parallel() -> None:
    isr = tuple(replace(partition, in_sync=partition.isr - {6}) for partition in PARTITIONS)
    away = cluster({**ROLLED_CONTROLLERS, **current(6)}, {6: replace(a_node(6), state=NodeState.UNREACHABLE)}, isr)
    assert restarted_id(rolled(away, sent(3))) == 3
    message = refused(rolled(away, sent(3), rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)
    assert "broker 6 is unavailable; bring broker 6 back" in message


def test_a_node_that_is_not_back_in_time_halts_the_roll_with_a_remedy_for_what_its_pod_does() -> None:
    crashing = cluster({**ROLLED_CONTROLLERS, **replaced(1, waiting="CrashLoopBackOff", restarts=7)})
    message = refused(rolled(crashing, sent(1, minutes=20)), Reason.ROLLOUT_HALTED)
    assert "CrashLoopBackOff, restarted 7 times" in message
    assert "kubectl logs broker-1" in message
    assert "delete the pod" not in message
    unregistered = replace(crashing, nodes=tuple(node for node in crashing.nodes if node.id != 1))
    assert "then delete the pod" in refused(rolled(unregistered, sent(1, minutes=20)), Reason.ROLLOUT_HALTED)
    unscheduled = cluster({**ROLLED_CONTROLLERS, **replaced(1, phase="Pending", waiting="Unschedulable", ready=False)})
    message = refused(rolled(unscheduled, sent(1, minutes=20)), Reason.ROLLOUT_HALTED)
    assert "pod broker-1 does not run: Unschedulable" in message


def test_a_fenced_node_that_recovers_its_log_for_longer_than_node_timeout_does_not_halt_the_roll() -> None:
    fenced = replace(a_node(1, state=NodeState.FENCED), broker_epoch=900, incarnation="second")
    recovering = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, {1: fenced})
    assert restarted_id(rolled(recovering, sent(1, minutes=20))) == 4


def test_node_timeout_counts_from_the_stop_of_the_pod_and_not_from_the_decision() -> None:
    """A PodDisruptionBudget may refuse the eviction for long after the decision: here for 23 h."""
    crashing = cluster({**ROLLED_CONTROLLERS, **replaced(1, waiting="ImagePullBackOff")})
    nearly_a_day = 23.0 * 60
    assert restarted_id(rolled(crashing, sent(1, minutes=nearly_a_day, stopped=14))) == 4
    refused(rolled(crashing, sent(1, minutes=nearly_a_day, stopped=16)), Reason.ROLLOUT_HALTED)


def test_the_stop_of_the_pod_of_a_restart_is_remembered_once_it_is_observed() -> None:
    restart = replace(sent(1), stopping_since=None)
    stopping = replace(restart, stopping_since=ago(1))
    assert restart.remembering(stopping) == stopping


def test_a_broker_is_back_once_it_is_in_sync_with_all_partitions_it_was_in_sync_with_before_its_restart() -> None:
    """Broker 1 was out of sync with a-0: that counts as back, but to be out of sync with b-0 instead does not."""
    before = (row("a", 1, 2, 3, isr=[2, 3]), row("b", 1, 2, 3))
    after = (row("a", 1, 2, 3), row("b", 1, 2, 3, isr=[2, 3]))
    rule = replace(ROLLOUT, availability=Availability.RESPECT_MIN_ISR)
    pods = {**ROLLED_CONTROLLERS, **current(2, 3, 4, 5, 6)}
    step = restart_in(rolled(cluster(pods, partitions=before), rollout=rule))
    assert (step.node_id, step.out_of_sync) == (1, 1)
    pods_after = {**pods, **replaced(1)}
    back, behind = ReturnPhase.BACK, ReturnPhase.CATCHING_UP
    for partitions, phase in ((before, back), (after, behind), ((), back), (after[:1], back)):
        observation = cluster(pods_after, fresh(1), partitions)
        restart = in_flight(RestartInFlight(step, sent(1).at, Via.API_SERVER).to_intent())  # as the status has it
        assert isinstance(restart, RestartInFlight)
        assert isinstance(restart.step, RestartNode)
        assert restart.step.state_in(observation, replication_of(observation)).phase is phase


def test_a_broker_has_to_be_in_sync_with_all_partitions_if_only_their_number_is_remembered() -> None:
    """The status names at most 12 partitions that were out of sync before; here are 13."""
    many = tuple(row("a", 1, 2, 3, isr=[2, 3], number=number) for number in range(13))
    rule = replace(ROLLOUT, availability=Availability.RESPECT_MIN_ISR)
    pods = {**ROLLED_CONTROLLERS, **current(2, 3, 4, 5, 6)}
    step = restart_in(rolled(cluster(pods, partitions=many), rollout=rule))
    assert (step.out_of_sync, step.lagging) == (13, frozenset())
    observation = cluster({**pods, **replaced(1)}, fresh(1), many[:1])
    state = step.state_in(observation, replication_of(observation))
    assert state.phase is ReturnPhase.CATCHING_UP
    assert state.detail == (
        "broker 1 is not in sync with 1 partition yet (a-0); it is not known which of them were out of sync before"
    )


def test_the_message_of_a_halt_for_a_missing_pod_names_its_stateful_set_as_the_place_to_look() -> None:
    """The StatefulSet of the pod was scaled down while the node was restarted."""
    observation = cluster(ROLLED_CONTROLLERS, {1: replace(a_node(1), state=NodeState.GHOST)})
    controllers, brokers = workloads_of(observation).stateful_sets
    left = replace(brokers, pods=brokers.pods[1:], replicas=5)
    observation = with_workloads(observation, stateful_sets=(controllers, left))
    message = refused(rolled(observation, sent(1, minutes=20)), Reason.ROLLOUT_HALTED)
    assert message == (
        "no other node is restarted: broker 1 is not back after 15 min: pod broker-1 was not created again yet; see "
        "`kubectl describe statefulset broker`; if it was scaled down, scale it up again, or unregister broker 1 once "
        "it has no partitions"
    )


def test_unconfirmed_controllers_are_waited_for_also_while_a_broker_is_in_flight() -> None:
    """Controllers that have not confirmed their ids may be of an old revision, and go before any broker."""
    fenced = {1: replace(a_node(1), state=NodeState.FENCED, proved_at="")}
    stopping = {1: a_pod(1, terminating=True)}
    confirmed = cluster({**current(*CONTROLLERS), **stopping}, fenced)
    assert restarted_id(rolled(confirmed, sent(1))) in BROKERS  # the node in flight confirms nothing while it stops
    silent = {id_: replace(a_node(id_), proved_at="") for id_ in CONTROLLERS}
    observation = cluster(stopping, {**fenced, **silent})
    assert "broker-1 is stopping" in refused(rolled(observation, sent(1)), Reason.ROLLING_NODES)
    assert "has not confirmed its node id" in refused(rolled(cluster(None, silent)), Reason.ROLLING_NODES)


def test_a_node_is_restarted_only_once_for_one_revision() -> None:
    """A pod that is of another revision again after its restart is not restarted for ever."""
    observation = cluster(ROLLED_CONTROLLERS)
    restarted = RevisionStatus(name="broker", revision=NEW, nodes="1", left=6)
    before = RolloutStatus(id="r", total=9, done=3, revisions=(restarted,))
    roll = rolled(observation, status=replace(EMPTY, rollout=before))
    assert "was restarted in this roll" in refused(roll, Reason.ROLLOUT_HALTED)
    for other in (replace(restarted, revision="taken-back"), replace(restarted, name="another")):
        rollout = replace(before, revisions=(other,))
        assert restarted_id(rolled(observation, status=replace(EMPTY, rollout=rollout))) in BROKERS


def test_the_restarted_nodes_of_an_older_release_are_known_while_no_target_has_changed() -> None:
    """In that release one set of nodes, and one hash of all targets, are in the status."""
    observation = cluster(ROLLED_CONTROLLERS)
    before = RolloutStatus(id=rolled(observation).id, started_at=ago(5), total=9, done=3, nodes="1")
    status = replace(EMPTY, rollout=before)
    halted = rolled(observation, status=status)
    assert "was restarted in this roll" in refused(halted, Reason.ROLLOUT_HALTED)
    rollout = rollout_status(halted, WAITING, before, ago(0))
    assert rollout is not None
    assert (rollout.id, rollout.nodes, rollout.started_at) == (before.id, "1", before.started_at)
    assert [(rev.name, rev.nodes, rev.since) for rev in rollout.revisions if rev.left] == [("broker", "1", ago(5))]
    assert restarted_id(rolled(observation, status=replace(status, rollout=replace(before, id="older")))) in BROKERS


def test_no_node_is_restarted_twice_for_one_revision_however_many_restarts_end_at_once() -> None:
    """The history has ten entries, so eleven later restarts push broker 1 out of it; `rollout` still has its id."""
    roll = rolled(cluster(ROLLED_CONTROLLERS))
    begun = rollout_status(roll, WAITING, None, ago(5))
    status = replace(EMPTY, rollout=begun)
    for id_ in (1, *range(100, 111)):
        at = Stamp(NOW.isoformat())
        status = with_result(status, sent(id_), Result.APPLIED, at=at, age_of=lambda _: timedelta(0))
    assert all(entry.target != "broker-1" for entry in status.history)
    roll = rolled(cluster(ROLLED_CONTROLLERS), status=status)
    assert "broker 1 was restarted in this roll" in refused(roll, Reason.ROLLOUT_HALTED)
    rollout = rollout_status(roll, WAITING, status.rollout, ago(0))
    assert rollout is not None
    assert (rollout.nodes, rollout.revisions[-1].nodes) == ("1, 100-110", "1, 100-110")
    of_next_roll = rollout_status(replace(roll, id="another"), WAITING, rollout, ago(0))
    assert of_next_roll is not None
    assert of_next_roll.nodes == ""


def test_the_limits_of_a_roll_are_worked_out_when_it_begins_and_remembered_until_it_ends() -> None:
    observation = cluster(ROLLED_CONTROLLERS)
    begun = rolled(observation)
    assert "6 brokers in about 3 rounds of 2 at most" in begun.limits.notes
    before = RolloutStatus(id=begun.id, total=9, done=4, rounds=5, notes=("as it was",))
    assert rolled(observation, status=replace(EMPTY, rollout=before)).limits.notes == ("as it was",)
    assert rolled(observation, status=replace(EMPTY, rollout=replace(before, done=9))).limits == begun.limits


def test_a_roll_of_which_the_pods_cannot_be_read_is_not_over() -> None:
    roll = rolled(replace(cluster(), workloads=Unknown(SILENT)))
    assert roll.is_active
    before = RolloutStatus(id="it", total=9, done=4)
    assert roll.decision is not None
    after = rollout_status(roll, roll.decision, before, Stamp(NOW.isoformat()))
    assert after is not None
    assert (after.total, after.done) == (9, 4)
    assert "what the pods run is not known" in after.waiting_for


def test_an_observer_that_only_fetches_the_metadata_log_is_no_node_that_is_away() -> None:
    observer = replace(a_node(77), roles=(), state=NodeState.UNREACHABLE)
    assert restarted_id(rolled(cluster(ROLLED_CONTROLLERS, {77: observer}), rollout=ONE_AT_A_TIME)) in BROKERS


def test_a_node_that_came_back_on_an_image_that_was_changed_once_more_does_not_halt_the_roll() -> None:
    """The image was changed twice, and the restart of broker 1 brought the first change: it needs another restart."""
    superseded_restart = sent(1, is_back=True, after="in-between")
    mixed = cluster({**ROLLED_CONTROLLERS, **replaced(1, revision="in-between")}, fresh(1))
    begun = Stamp((NOW - timedelta(seconds=30)).isoformat())
    status = replace(EMPTY, intents=(superseded_restart.to_intent(),))
    status = replace(
        status, rollout=RolloutStatus(id=rolled(mixed, superseded_restart).id, started_at=begun, total=9, done=3)
    )
    result = superseded_restart.settle(looks(mixed))
    assert result is Result.SUPERSEDED
    status = with_result(status, superseded_restart, result, at=Stamp(NOW.isoformat()), age_of=lambda _: timedelta(0))
    assert restarted_id(rolled(mixed, status=status)) in BROKERS


def test_an_unsent_restart_is_held_outside_the_windows() -> None:
    night = replace(ROLLOUT, windows=(Window("0 22 * * *", timedelta(hours=1)),))  # it is 03:04
    observation = cluster(ROLLED_CONTROLLERS)
    refused(behind_gates(observation, rolled(observation, sent(3), rollout=night), night), Reason.ROLLING_NODES)


def test_an_unsent_restart_is_held_while_another_node_halts_the_roll() -> None:
    crashing = cluster({**ROLLED_CONTROLLERS, **replaced(1, waiting="CrashLoopBackOff")})
    refused(rolled(crashing, sent(3), sent(1, minutes=20)), Reason.ROLLOUT_HALTED)


def test_an_unsent_restart_is_not_sent_any_more_once_its_pod_is_current() -> None:
    refused(rolled(cluster(current(*CONTROLLERS, *BROKERS)), sent(3)), Reason.ROLLING_NODES)


def test_a_roll_keeps_its_id_while_a_stateful_set_has_no_pods() -> None:
    observation = cluster(ROLLED_CONTROLLERS)
    controllers, brokers = workloads_of(observation).stateful_sets
    gone = with_workloads(observation, stateful_sets=(replace(controllers, pods=()), brokers))
    assert rolled(gone, sent(3001)).id == rolled(observation).id


def test_a_roll_with_nodes_in_flight_keeps_its_status_while_the_pods_cannot_be_read() -> None:
    roll = rolled(replace(cluster(), workloads=Unknown(SILENT)), sent(1))
    before = RolloutStatus(id="it", started_at=Stamp(NOW.isoformat()), total=9, done=4)
    assert isinstance(roll.decision, Wait)
    after = rollout_status(roll, roll.decision, before, Stamp((NOW + timedelta(minutes=1)).isoformat()))
    assert after == replace(before, waiting_for=roll.decision.message)
    condition = nodes_rolled(roll, roll.decision)
    assert condition is not None
    assert condition[0] == "Unknown"


def test_an_eviction_that_is_no_longer_wanted_ends_once_it_cannot_be_on_its_way() -> None:
    """`unwanted`: minutes since it was last wanted, and so may have been sent. A request arrives within one minute."""
    for unwanted, result in ((None, OpenOutcome()), (0.5, OpenOutcome()), (2, Result.NOT_APPLIED)):
        restart = sent(3, minutes=20, unwanted=unwanted)
        assert restart.settle(looks(WITHOUT_PODS)) == result


def test_without_a_driver_an_eviction_is_unwanted_unless_its_node_is_away() -> None:
    gone = replace(WITHOUT_PODS, nodes=cluster(nodes={3: replace(a_node(3), state=NodeState.UNREACHABLE)}).nodes)
    assert sent(3).step.is_not_wanted(WITHOUT_PODS)
    assert not sent(3).step.is_not_wanted(gone)  # the eviction may be what stopped it


def test_an_intent_that_names_the_pod_of_another_node_evicts_nothing() -> None:
    """A status can be edited. Broker 3 was judged, so the pod of broker 1 must not be evicted."""
    edited = RestartNode(3, "broker 3", "broker-1", "uid-1", OLD, NEW, 103, "first-3")
    refused(rolled(cluster(ROLLED_CONTROLLERS), replace(sent(3), step=edited)), Reason.ROLLING_NODES)


def test_the_message_of_a_wait_names_the_node_that_is_away_and_a_remedy_if_it_hangs() -> None:
    isr = tuple(replace(partition, in_sync=partition.isr - {3}) for partition in PARTITIONS)
    hangs = {3: replace(a_node(3), state=NodeState.UNREACHABLE)}
    needs_it = cluster({**ROLLED_CONTROLLERS, **current(3, 4, 5, 6)}, hangs, isr)
    assert refused(rolled(needs_it), Reason.ROLLING_NODES).endswith("; unavailable: broker 3")
    alone = refused(rolled(cluster({**ROLLED_CONTROLLERS, **current(1, 2, 4, 5, 6)}, hangs, isr)), Reason.ROLLING_NODES)
    assert "see `kubectl logs broker-3`, and delete the pod if it hangs" in alone


def test_a_long_missing_reading_is_reported_as_missing_and_not_as_a_node_that_is_not_back() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, fresh(1), UNREAD)
    refused(rolled(observation, sent(1, minutes=60)), Reason.NOT_AUTHORIZED)
    last = cluster({**ROLLED_CONTROLLERS, **current(*BROKERS), **replaced(1)}, fresh(1), UNREAD)
    assert "the partitions are not known" in refused(rolled(last, sent(1, minutes=60)), Reason.ROLLING_NODES)


def test_controllers_that_host_no_partition_need_no_consent_for_single_replicas() -> None:
    single_replica = (*PARTITIONS, row("one", 2))
    assert restarted_id(rolled(cluster(current(*BROKERS), partitions=single_replica))) == 3002
    refused(rolled(cluster(ROLLED_CONTROLLERS, partitions=single_replica)), Reason.CONSENT_REQUIRED)


def test_a_node_that_does_not_run_has_to_come_back_in_sync_with_every_partition() -> None:
    """While it is down it is out of sync with all its partitions: none of them is remembered as out of sync before."""
    bad = replaced(1, revision="bad", **CRASHES)
    isr = tuple(replace(partition, in_sync=partition.isr - {1}) for partition in PARTITIONS)
    away = {1: replace(a_node(1), state=NodeState.GHOST)}
    assert restart_in(rolled(cluster({**current(*CONTROLLERS, *BROKERS), **bad}, away, isr))).out_of_sync == 0


def test_in_mode_observe_a_restart_in_flight_is_followed_and_the_decision_is_not_done() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, fresh(1))
    roll = rolled(observation, sent(1, is_back=True))
    wanted = DesiredState({}, rollout=ROLLOUT, mode=Mode.OBSERVE)
    decision = decide(wanted, observation, roll=roll)
    assert isinstance(decision, Wait)
    assert "broker 1" in decision.message
