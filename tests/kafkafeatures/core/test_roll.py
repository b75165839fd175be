"""The decision about the next restart of a roll, and the nodes, partitions and unknown readings that hold it.

All nodes are to be restarted: controllers 3001 (the leader) to 3003, brokers 1 to 6; 1 and 4, 2 and 5, 3 and 6 share no
partition. `current`, `ROLLED_CONTROLLERS`: already restarted; `sent`: a restart in flight; `row`: topic, its replicas.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.status import EMPTY, Result, RolloutStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled
from kafkafeatures.core.engine.desired_state import MaxParallel, Window
from kafkafeatures.core.facts.observation import NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import FailureKind, QuorumAnswer
from kafkafeatures.core.report.history import with_result
from kafkafeatures.core.roll.excuses import excused_by, not_covered
from kafkafeatures.core.roll.report import rollout_status
from tests.kafkafeatures.core.fleets import NEW, OLD
from tests.kafkafeatures.core.replicas import reading, row
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
    refused,
    replaced,
    restart_in,
    restarted_id,
    rolled,
    sent,
    voting,
    with_workloads,
    workloads_of,
)
from tests.kafkafeatures.worlds import NOW, SILENT

# --- who is next ---


def test_a_roll_is_done_where_every_pod_has_the_update_revision() -> None:
    roll = rolled(cluster(current(*CONTROLLERS, *BROKERS)))
    assert roll.decision is None
    assert not roll.is_active
    assert (roll.done, roll.total) == (9, 9)


def test_controllers_are_restarted_before_brokers_and_the_leader_last_of_the_controllers() -> None:
    assert restarted_id(rolled(cluster())) == 3002
    assert restarted_id(rolled(cluster(current(3002)))) == 3003
    assert restarted_id(rolled(cluster(current(3002, 3003)))) == 3001
    assert restarted_id(rolled(cluster(current(3002), quorum=voting(leader=3003)))) == 3001


def test_a_controller_is_restarted_alone_and_only_while_a_majority_without_it_has_caught_up() -> None:
    assert "3002" in refused(rolled(cluster(replaced(3002, ready=False)), sent(3002)), Reason.ROLLING_NODES)
    refused(rolled(cluster(quorum=voting(behind=[3002, 3003]))), Reason.WAITING_FOR_QUORUM)


def of_voters(*ids: int) -> QuorumAnswer:
    return replace(voting(3001), voters=tuple(voter for voter in voting().voters if voter.id in ids))


ALONE = cluster(current(3002, 3003), quorum=of_voters(3001))
"""Controller 3001, which is to be restarted, is the only voter."""
QUORUM_OF_ONE = frozenset({"quorum-of-one"})


def test_the_only_voter_is_restarted_only_with_a_consent_whose_request_names_the_outage() -> None:
    roll = rolled(ALONE)
    message = refused(roll, Reason.CONSENT_REQUIRED)
    assert "controller 3001 is the only voter of the quorum; without it the cluster has no active controller" in message
    assert message.endswith("add controllers, or if this is acceptable, add quorum-of-one to consents")
    assert isinstance(roll.decision, Stalled)
    assert [blocker.kind for blocker in roll.decision.blockers] == [BlockerKind.QUORUM]
    step = restart_in(rolled(ALONE, consents=QUORUM_OF_ONE))
    assert (step.node_id, step.consent) == (3001, "quorum-of-one")


def test_the_consent_to_restart_the_only_voter_is_used_by_one_restart_which_may_be_sent_again() -> None:
    spent = replace(EMPTY, spent_consents=tuple(QUORUM_OF_ONE))
    refused(rolled(ALONE, consents=QUORUM_OF_ONE, status=spent), Reason.CONSENT_SPENT)
    begun = replace(sent(3001), step=restart_in(rolled(ALONE, consents=QUORUM_OF_ONE)))
    assert restart_in(rolled(ALONE, begun, consents=QUORUM_OF_ONE, status=spent)) == begun.step


@pytest.mark.parametrize(("result", "spent_after"), [(Result.APPLIED, ("quorum-of-one",)), (Result.NOT_APPLIED, ())])
def test_the_consent_to_restart_the_only_voter_is_given_back_if_the_restart_was_not_applied(
    result: Result, spent_after: tuple[str, ...]
) -> None:
    restart = replace(sent(3001), step=restart_in(rolled(ALONE, consents=QUORUM_OF_ONE)))
    status = replace(EMPTY, spent_consents=tuple(QUORUM_OF_ONE), intents=(restart.to_intent(),))
    ended = with_result(status, restart, result, at=ago(0), age_of=lambda _: timedelta(0))
    assert ended.spent_consents == spent_after


def test_no_voter_of_two_is_restarted_and_the_remedy_is_to_change_the_number_of_controllers() -> None:
    message = refused(rolled(cluster(current(3003), quorum=of_voters(3001, 3002))), Reason.ROLLOUT_HALTED)
    assert "controller 3002 cannot be restarted: a quorum of two voters has no majority without it" in message
    assert "add a third controller, or remove one of the two" in message


def test_brokers_wait_for_the_last_controller_to_be_stable() -> None:
    roll = rolled(cluster({**ROLLED_CONTROLLERS, **replaced(3001)}, fresh(3001)), sent(3001))
    refused(roll, Reason.ROLLING_NODES)


def test_two_brokers_are_in_flight_at_once_only_if_they_share_no_partition() -> None:
    first = restarted_id(rolled(cluster(ROLLED_CONTROLLERS)))
    partner = {1: 4, 4: 1, 2: 5, 5: 2, 3: 6, 6: 3}[first]
    away = cluster({**ROLLED_CONTROLLERS, **replaced(first)}, fresh(first))
    assert restarted_id(rolled(away, sent(first))) == partner
    pair = cluster({**ROLLED_CONTROLLERS, **replaced(first), **replaced(partner)}, {**fresh(first), **fresh(partner)})
    refused(rolled(pair, sent(first), sent(partner)), Reason.ROLLING_NODES)


def test_a_node_that_is_back_counts_as_in_flight_until_it_has_been_stable() -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, fresh(1))
    message = refused(rolled(observation, sent(1, is_back=True), rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)
    assert message == "broker 1 is in sync; waiting until it has been stable for 30 s"


def test_a_node_that_is_away_without_a_restart_counts_towards_max_parallel() -> None:
    drained = {**ROLLED_CONTROLLERS, 1: a_pod(1, revision=NEW, terminating=True)}
    message = refused(rolled(cluster(drained), rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)
    assert message == "broker 1 is unavailable; bring broker 1 back: no node is restarted until then"
    assert restarted_id(rolled(cluster(drained))) == 4  # two may be away, and 4 shares no partition with 1


# --- what forbids it ---


@pytest.mark.parametrize(
    ("observation", "reason"),
    [
        (cluster(ROLLED_CONTROLLERS, partitions=SILENT), Reason.PREFLIGHT),
        (cluster(ROLLED_CONTROLLERS, partitions=UNREAD), Reason.NOT_AUTHORIZED),
        (
            cluster(ROLLED_CONTROLLERS, partitions=replace(UNREAD, kind=FailureKind.WAITING_FOR_BUDGET)),
            Reason.WAITING_FOR_BUDGET,
        ),
        (replace(cluster(), quorum=Unknown(SILENT)), Reason.WAITING_FOR_QUORUM),
        (replace(cluster(), finalized=Unknown(SILENT)), Reason.PREFLIGHT),
        (replace(cluster(), workloads=Unknown(SILENT)), Reason.PREFLIGHT),
        (replace(cluster(), workloads=Unknown(UNREAD)), Reason.NOT_AUTHORIZED),
        (cluster(ROLLED_CONTROLLERS, partitions=(*PARTITIONS, row("one", 2))), Reason.CONSENT_REQUIRED),
        (cluster(ROLLED_CONTROLLERS, partitions=(row("orders", 1, 2, 3, adding=[3]),)), Reason.ROLLING_NODES),
        (cluster(ROLLED_CONTROLLERS, partitions=(row("orders", 1, 2, 3, isr=[1]),)), Reason.ROLLING_NODES),
        (cluster(ROLLED_CONTROLLERS, allowed=0), Reason.WAITING_FOR_BUDGET),
        (cluster(update_strategy="RollingUpdate"), Reason.UPDATE_STRATEGY_UNSAFE),
        (cluster(conflict="Strimzi"), Reason.DRIVER_CONFLICT),
    ],
    ids=[
        "partitions unreadable", "no right to read partitions", "no memory for partitions", "no quorum",
        "levels unknown", "pods unreadable", "no right to read pods", "topic with one replica", "replica being added",
        "below min.insync.replicas", "budget allows no eviction", "updateStrategy RollingUpdate", "owned by Strimzi",
    ],
)  # fmt: skip
def test_no_node_is_restarted_while_partitions_quorum_levels_or_pods_are_unknown_or_unsafe(
    observation: Observation, reason: Reason
) -> None:
    refused(rolled(observation), reason)


def test_the_status_has_a_note_if_max_parallel_allows_more_than_64_nodes_in_flight() -> None:
    ids = range(1, 71)
    pods, nodes = {id_: a_pod(id_) for id_ in ids}, {id_: a_node(id_) for id_ in ids}
    many = cluster({**ROLLED_CONTROLLERS, **pods}, nodes, replicas=70)
    for max_parallel, count in ((MaxParallel(100), 1), (MaxParallel(64), 0), (MaxParallel(39, percent=True), 0)):
        notes = rolled(many, rollout=replace(ROLLOUT, max_parallel=max_parallel)).limits.notes
        assert sum("at most 64 nodes at a time: rollout.maxParallel is 100" in note for note in notes) == count


SINGLE = frozenset({"single-replica-topics"})


def test_the_consent_single_replica_topics_excuses_such_partitions_for_one_roll() -> None:
    observation = cluster(ROLLED_CONTROLLERS, partitions=(*PARTITIONS, row("one", 2)))
    assert restarted_id(rolled(observation, consents=SINGLE)) in BROKERS
    used = replace(EMPTY, spent_consents=("single-replica-topics",))
    refused(rolled(observation, consents=SINGLE, status=used), Reason.CONSENT_SPENT)


def test_a_topic_that_becomes_unavailable_during_a_roll_is_not_covered_by_an_earlier_consent() -> None:
    excused = excused_by({"one": 1})
    roll = rolled(cluster(ROLLED_CONTROLLERS))
    begun = replace(EMPTY, rollout=RolloutStatus(id=roll.id, total=9, done=3, excused=excused))
    consented = cluster(ROLLED_CONTROLLERS, partitions=(*PARTITIONS, row("one", 2)))
    assert restarted_id(rolled(consented, consents=SINGLE, status=begun)) in BROKERS
    topic_deleted = cluster(ROLLED_CONTROLLERS, partitions=PARTITIONS)
    assert restarted_id(rolled(topic_deleted, consents=SINGLE, status=begun)) in BROKERS
    topic_created = cluster(ROLLED_CONTROLLERS, partitions=(*PARTITIONS, row("one", 2), row("two", 4)))
    message = refused(rolled(topic_created, consents=SINGLE, status=begun), Reason.CONSENT_REQUIRED)
    assert "(topics: two); the consent was given for other topics: 1 partition of 1 topic (one)" in message
    min_isr_raised = cluster(ROLLED_CONTROLLERS, partitions=reading(*PARTITIONS, row("one", 2), least={"orders": 3}))
    assert "topics: orders" in refused(rolled(min_isr_raised, consents=SINGLE, status=begun), Reason.CONSENT_REQUIRED)
    assert begun.rollout is not None
    next_roll = replace(begun, rollout=replace(begun.rollout, id="of another image"), spent_consents=tuple(SINGLE))
    refused(rolled(consented, consents=SINGLE, status=next_roll), Reason.CONSENT_SPENT)


def begun_with_the_consent(observation: Observation) -> Status:
    """Return the status of a roll whose first restart has used the consent."""
    roll, status = rolled(observation, consents=SINGLE), replace(EMPTY, spent_consents=tuple(SINGLE))
    topics = excused_by({"one": 1})
    return replace(status, rollout=rollout_status(roll, WAITING, None, ago(5), topics))


def in_two_sets(observation: Observation, **of_second: Any) -> Observation:
    """Move brokers 4, 5 and 6 into a StatefulSet of their own."""
    controllers, brokers = workloads_of(observation).stateful_sets
    pods = tuple(replace(pod, stateful_set="more") for pod in brokers.pods[3:])
    second = replace(brokers, **{"name": "more", "pods": pods, "replicas": 3, **of_second})
    return with_workloads(
        observation, stateful_sets=(controllers, replace(brokers, pods=brokers.pods[:3], replicas=3), second)
    )


@pytest.mark.parametrize("change", ["another template", "away"])
def test_a_consent_is_not_spent_because_another_stateful_set_changes_or_is_missing(change: str) -> None:
    observation = cluster(ROLLED_CONTROLLERS, partitions=(*PARTITIONS, row("one", 2)))
    status = begun_with_the_consent(observation)
    controllers, brokers = workloads_of(observation).stateful_sets
    for _ in range(2):
        if change == "away":
            changed = with_workloads(observation, stateful_sets=(brokers,), missing=("controller",))
        else:
            changed = with_workloads(
                observation, stateful_sets=(replace(controllers, update_revision="label"), brokers)
            )
        roll = rolled(changed, consents=SINGLE, status=status)
        if change == "away":
            refused(roll, Reason.INVALID_SPEC)
        else:
            assert restarted_id(roll) in CONTROLLERS
        assert status.rollout is not None
        status = replace(status, rollout=rollout_status(roll, WAITING, status.rollout, ago(0), status.rollout.excused))
    assert restarted_id(rolled(observation, consents=SINGLE, status=status)) in BROKERS


def test_brokers_of_a_revision_without_consent_wait_until_the_brokers_with_consent_are_done() -> None:
    observation = cluster(ROLLED_CONTROLLERS, partitions=(*PARTITIONS, row("one", 2)))
    status = begun_with_the_consent(in_two_sets(observation))
    later = {"update_revision": "later"}  # the template of 4, 5 and 6 is changed once more, after the consent
    assert restarted_id(rolled(in_two_sets(observation, **later), consents=SINGLE, status=status)) in (1, 2, 3)
    first_set_done = cluster({**ROLLED_CONTROLLERS, **current(1, 2, 3)}, partitions=(*PARTITIONS, row("one", 2)))
    refused(rolled(in_two_sets(first_set_done, **later), consents=SINGLE, status=status), Reason.CONSENT_SPENT)
    assert restarted_id(rolled(in_two_sets(first_set_done), consents=SINGLE, status=status)) in (4, 5, 6)


def test_a_stuck_broker_of_a_revision_without_consent_waits() -> None:
    """Stuck broker 5 would go first, but its template was changed once more, after the consent."""
    observation = cluster(
        {**ROLLED_CONTROLLERS, 5: a_pod(5, waiting="ImagePullBackOff", phase="Pending", ready=False)},
        {5: replace(a_node(5), state=NodeState.GHOST)},
        tuple(replace(partition, in_sync=partition.isr - {5}) for partition in (*PARTITIONS, row("one", 2))),
    )
    status = begun_with_the_consent(in_two_sets(observation))
    assert restarted_id(rolled(in_two_sets(observation), consents=SINGLE, status=status)) == 5
    later = in_two_sets(observation, update_revision="later")
    assert restarted_id(rolled(later, consents=SINGLE, status=status)) in (1, 2, 3)


def test_a_consent_that_no_restart_has_used_covers_the_current_revisions_and_topics() -> None:
    observation = cluster(ROLLED_CONTROLLERS, partitions=(*PARTITIONS, row("one", 2), row("two", 4)))
    unused = replace(begun_with_the_consent(observation), spent_consents=())
    changed = in_two_sets(observation, update_revision="later")
    assert restarted_id(rolled(changed, consents=SINGLE, status=unused)) in BROKERS


def test_a_consent_for_600_topics_covers_exactly_these_topics_together() -> None:
    """The status has no room for a mark of each: only one digest of all, which other topics do not have."""
    every = {f"t{number}": 1 for number in range(600)}
    excused = excused_by(every)
    assert (excused.marks, len(excused.names)) == ("", 5)
    assert not_covered(excused, every) == {}
    fewer = dict(list(every.items())[1:])
    assert not_covered(excused, fewer) == fewer


def test_a_consent_for_100_topics_covers_each_of_them_and_no_consent_covers_none() -> None:
    """The status keeps a mark of each topic for at most 100 (`MOST_MARKS`)."""
    topics = {f"t{number}": 1 for number in range(100)}
    excused = excused_by(topics)
    assert not_covered(excused, {"t1": 1}) == {}
    assert not_covered(excused, {**topics, "x": 2}) == {"x": 2}
    assert not_covered(None, {"x": 2}) == {"x": 2}
    assert not_covered(excused_by({}), {"x": 2}) == {"x": 2}


def test_no_node_is_restarted_while_a_partition_has_no_leader_however_low_its_min_isr_is() -> None:
    partitions = reading(*PARTITIONS, row("lost", 3, 5, 6, isr=[3], offline=True), least={"lost": 1})
    rule = replace(ROLLOUT, availability=Availability.RESPECT_MIN_ISR)
    message = refused(rolled(cluster(ROLLED_CONTROLLERS, partitions=partitions), rollout=rule), Reason.ROLLING_NODES)
    assert "1 partition (lost-0) has no leader" in message


def test_a_consent_excuses_no_partition_that_is_below_min_isr_for_another_reason() -> None:
    partitions = (*PARTITIONS, row("one", 2), row("low", 3, 5, 6, isr=[3]))
    observation = cluster({**ROLLED_CONTROLLERS, **current(3, 5, 6)}, partitions=partitions)
    message = refused(rolled(observation, consents=SINGLE), Reason.ROLLING_NODES)
    assert "1 partition (low-0) is below min.insync.replicas" in message


def test_a_broker_at_min_isr_is_reported_with_its_partitions_and_restarted_after_other_brokers() -> None:
    partitions = (row("busy", 1, 2, 3, isr=[1, 2]), *PARTITIONS)
    rule = replace(ROLLOUT, availability=Availability.RESPECT_MIN_ISR)
    observation = cluster({**ROLLED_CONTROLLERS, **current(3, 4, 5, 6)}, partitions=partitions)
    assert "busy-0" in refused(rolled(observation, rollout=rule), Reason.ROLLING_NODES)
    assert restarted_id(rolled(cluster(ROLLED_CONTROLLERS, partitions=partitions), rollout=rule)) in (3, 4, 5, 6)


def test_outside_the_windows_no_node_is_restarted_and_restarts_in_flight_are_followed() -> None:
    night = replace(ROLLOUT, windows=(Window("0 22 * * *", timedelta(hours=1)),))
    refused(behind_gates(cluster(), rolled(cluster(), rollout=night), night), Reason.WAITING_FOR_WINDOW)
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1, ready=False, phase="Pending")})
    followed = behind_gates(observation, rolled(observation, sent(1), rollout=night), night)
    assert "broker" in refused(followed, Reason.ROLLING_NODES)


def test_a_broker_whose_disruption_budget_allows_no_eviction_is_passed_over_for_one_of_another_budget() -> None:
    observation = cluster(ROLLED_CONTROLLERS)
    first = restarted_id(rolled(observation))
    (every,) = workloads_of(observation).budgets
    spent = replace(every, pods=frozenset({f"broker-{first}"}), disruptions_allowed=0)
    other_pods = replace(every, pods=every.pods - spent.pods)
    assert restarted_id(rolled(with_workloads(observation, budgets=(spent, other_pods)))) in {*BROKERS} - {first}


# --- a pod that runs no registered node ---


def scaled_up(minutes: float, *, rolled_to: tuple[int, ...] = CONTROLLERS, **of_pod: Any) -> Observation:
    """Add the new pod 7, from which no node has registered."""
    new = {"ready": False, "created_at": NOW - timedelta(minutes=minutes), "revision": NEW, **of_pod}
    return cluster({**current(*rolled_to), 7: a_pod(7, **new)}, replicas=7)


def test_no_node_is_restarted_until_a_pod_of_a_stateful_set_that_was_scaled_up_runs_a_registered_node() -> None:
    observation = scaled_up(1, phase="Pending", waiting="ContainerCreating")
    message = refused(rolled(observation), Reason.ROLLING_NODES)
    assert message == "pod broker-7 of StatefulSet broker runs no registered node yet (ContainerCreating)"


def test_a_node_in_flight_is_followed_while_a_scaled_up_pod_runs_no_registered_node() -> None:
    observation = scaled_up(1, rolled_to=(*CONTROLLERS, 1))
    assert "broker 1" in refused(rolled(observation, sent(1, uid="older", is_back=True)), Reason.ROLLING_NODES)


@pytest.mark.parametrize(
    "of_pod", [{"waiting": "ErrImagePull"}, {"waiting": "Unschedulable"}, {}], ids=["no image", "no place", "it runs"]
)
def test_a_pod_whose_node_never_registers_halts_the_roll_with_a_remedy(of_pod: dict[str, Any]) -> None:
    message = refused(rolled(scaled_up(20, **of_pod)), Reason.ROLLOUT_HALTED)
    beginning = "no other node is restarted: pod broker-7 of StatefulSet broker runs no registered node after 15 min"
    assert message.startswith(beginning)
    assert of_pod.get("waiting", "") in message
    assert message.endswith(
        "see `kubectl logs broker-7` and `kubectl describe pod broker-7`; repair it, or scale broker back"
    )


def test_the_remedy_for_a_pod_of_a_former_revision_whose_node_never_registers_is_to_delete_it() -> None:
    message = refused(rolled(scaled_up(20, revision=OLD)), Reason.ROLLOUT_HALTED)
    assert "delete it to have it of the current revision" in message


def test_a_pod_without_a_node_that_is_stopping_is_waited_for() -> None:
    assert "it is stopping" in refused(rolled(scaled_up(20, terminating=True)), Reason.ROLLING_NODES)


def test_a_pod_without_a_node_halts_no_roll_where_no_pod_needs_a_restart() -> None:
    assert rolled(scaled_up(20, rolled_to=(*CONTROLLERS, *BROKERS))).decision is None


def test_a_stuck_node_is_restarted_after_a_reverted_image_also_while_a_new_pod_runs_no_node() -> None:
    """The restart of a stuck node costs nothing, and the new pod may have failed for the same image."""
    bad = {id_: a_pod(id_, revision="bad", ready=False, **CRASHES) for id_ in (1, 7)}
    bad[7] = replace(bad[7], created_at=NOW - timedelta(minutes=20))
    away = {1: replace(a_node(1), state=NodeState.GHOST)}
    assert restarted_id(rolled(cluster({**current(*CONTROLLERS, *BROKERS), **bad}, away, replicas=7))) == 1
