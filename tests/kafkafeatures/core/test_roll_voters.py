"""No node is restarted while a voter is missing, behind or crashing: the next failure would cost the quorum.

The voters are controllers 3001 (the leader) to 3003. All nodes are to be restarted but those that are `current`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.facts.observation import Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.drivers import MANUAL
from kafkafeatures.core.roll.permit import Permit
from tests.kafkafeatures.core.fleets import NEW, OLD
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    PARTITIONS,
    ROLLED_CONTROLLERS,
    a_node,
    a_pod,
    cluster,
    current,
    read_at,
    refused,
    restarted_id,
    rolled,
    sent,
    voting,
)
from tests.kafkafeatures.worlds import NOW, SILENT

RAISE = UpdateFeature("metadata.version", 27, 30)


def silent(*ids: int, kind: FailureKind = FailureKind.UNREACHABLE) -> Mapping[int, Node]:
    unanswered = Unknown(Failure(kind, "controller", "no answer"))
    return {id_: replace(a_node(id_), state=NodeState.UNREACHABLE, answer=unanswered, proved_at="") for id_ in ids}


def crashed(id_: int, **fields: Any) -> Mapping[int, Any]:
    again = {"restarts": 3, "ended_for": "Error", "started_at": NOW - timedelta(minutes=9)}
    return {id_: a_pod(id_, **{"revision": NEW, **again, **fields})}


MISSING: Mapping[str, tuple[Observation, str]] = {
    "it does not answer": (cluster(ROLLED_CONTROLLERS, silent(3002)), "controller 3002 does not answer"),
    "it is behind": (cluster(ROLLED_CONTROLLERS, quorum=voting(behind=[3002])), "controller 3002 is behind the leader"),
    "its pod stops": (
        cluster({**ROLLED_CONTROLLERS, 3002: a_pod(3002, revision=NEW, terminating=True)}),
        "controller 3002 is about to stop, with its pod controller-3002",
    ),
    "it is drained": (
        cluster({**ROLLED_CONTROLLERS, 3002: a_pod(3002, revision=NEW, draining=True)}),
        "controller 3002 is about to stop, with its pod controller-3002",
    ),
    "its pod does not run": (
        cluster({**ROLLED_CONTROLLERS, 3002: a_pod(3002, revision=NEW, waiting="ErrImagePull", phase="Pending")}),
        "controller 3002 is not there: its pod controller-3002 does not run: ErrImagePull",
    ),
}


@pytest.mark.parametrize(("observation", "words"), MISSING.values(), ids=MISSING)
def test_no_broker_is_restarted_while_a_voter_is_missing_and_the_voter_is_named_with_a_remedy(
    observation: Observation, words: str
) -> None:
    decision = rolled(observation).decision
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.WAITING_FOR_QUORUM
    assert decision.message.startswith(f"no node is restarted while a voter is missing: {words}; ")
    (blocker,) = decision.blockers
    assert (blocker.kind, [node.id for node in blocker.nodes]) == (BlockerKind.QUORUM, [3002])
    assert blocker.remedy in decision.message
    assert "kubectl logs controller-3002" in blocker.remedy
    assert ("delete the pod if it does not run" in blocker.remedy) is ("does not run" in words)


def test_a_restart_that_is_decided_and_not_sent_waits_while_a_voter_is_missing() -> None:
    for observation, _ in MISSING.values():
        assert isinstance(rolled(observation, sent(3)).decision, Wait)


def test_an_eviction_that_is_not_carried_out_waits_while_a_stuck_controller_is_in_flight() -> None:
    stopping = cluster({**ROLLED_CONTROLLERS, 3002: a_pod(3002, revision=NEW, terminating=True)})
    assert "broker-1 was not evicted yet" in refused(rolled(stopping, sent(1), sent(3002)), Reason.ROLLING_NODES)
    assert restarted_id(rolled(cluster(ROLLED_CONTROLLERS), sent(1))) == 1


def test_by_hand_a_lagging_voter_is_restarted_itself_and_of_two_lagging_voters_neither() -> None:
    one_behind = replace(cluster(quorum=voting(behind=[3002])), workloads=Unknown(SILENT))
    assert restarted_id(rolled(one_behind, rollout=Rollout(MANUAL.name), changes=(RAISE,))) == 3002
    two_behind = replace(cluster(quorum=voting(behind=[3002, 3003])), workloads=Unknown(SILENT))
    refused(rolled(two_behind, rollout=Rollout(MANUAL.name), changes=(RAISE,)), Reason.WAITING_FOR_QUORUM)


def test_a_voter_that_crashed_within_ten_minutes_counts_as_missing_whatever_revision_it_runs() -> None:
    """On a revision that is being left, no roll is halted for it: it is restarted itself, no other is."""
    on_former_revision = crashed(3003, revision=OLD)
    assert restarted_id(rolled(cluster({**current(3001, 3002), **on_former_revision}))) == 3003
    assert restarted_id(rolled(cluster(on_former_revision))) == 3003
    message = refused(rolled(cluster({**current(3001, 3002), **crashed(3003)})), Reason.ROLLOUT_HALTED)
    assert "controller-3003" in message


def test_a_voter_that_crashed_more_than_ten_minutes_ago_takes_its_turn() -> None:
    crashed_before = crashed(3003, revision=OLD, started_at=NOW - timedelta(minutes=11))
    assert restarted_id(rolled(cluster(crashed_before))) == 3002


def test_the_time_since_a_voter_crashed_does_not_depend_on_a_clock_that_is_ahead() -> None:
    """By the clock of the API server, at which pods are read, it is 2 h earlier: the crash was a minute ago."""
    started_at, api_time = NOW - timedelta(hours=2, minutes=1), NOW - timedelta(hours=2)
    crashed_3002, crashed_3003 = (crashed(id_, revision=OLD, started_at=started_at) for id_ in (3002, 3003))
    assert restarted_id(rolled(cluster(crashed_3003))) == 3002
    assert restarted_id(rolled(read_at(cluster(crashed_3003), api_time))) == 3003
    assert restarted_id(rolled(read_at(cluster({**current(3001, 3002), **crashed_3003}), api_time))) == 3003
    both = cluster({**current(3001), **crashed_3002, **crashed_3003})
    assert restarted_id(rolled(read_at(both, api_time))) == 3002  # each may, or they would wait for each other


BOTH_CRASH = {**current(3001), **crashed(3002, revision=OLD), **crashed(3003, revision=OLD)}
"""Two voters crash on the revision that is being left; 3001, which is done, serves."""


def test_one_of_two_voters_that_crash_on_the_former_revision_is_restarted_while_a_majority_stays() -> None:
    """If both waited, each would wait for the other, for ever."""
    assert restarted_id(rolled(cluster(BOTH_CRASH))) == 3002
    refused(rolled(cluster({**BOTH_CRASH, **current(3002)}, silent(3002))), Reason.WAITING_FOR_QUORUM)


def test_of_two_voters_that_crash_the_one_that_is_behind_is_restarted_first() -> None:
    assert restarted_id(rolled(cluster(BOTH_CRASH, quorum=voting(behind=[3003])))) == 3003


def test_a_voter_that_serves_is_not_restarted_while_two_others_crash() -> None:
    assert restarted_id(rolled(cluster({**BOTH_CRASH, 3001: a_pod(3001)}))) == 3002


def test_only_the_missing_voter_may_be_restarted_of_the_controllers() -> None:
    assert restarted_id(rolled(cluster(current(3002), quorum=voting(behind=[3003])))) == 3003
    observation = cluster(current(3003), quorum=voting(behind=[3003]))
    assert "controller 3003 is behind" in refused(rolled(observation), Reason.WAITING_FOR_QUORUM)


def test_no_voter_is_missing_if_controllers_are_unreachable_and_the_leader_reports_all_caught_up() -> None:
    """Only brokers can be reached: the leader's answer about its followers, through a broker, has to be enough."""
    for kind in (FailureKind.UNREACHABLE, FailureKind.NOT_ASKED):
        assert restarted_id(rolled(cluster(ROLLED_CONTROLLERS, silent(*CONTROLLERS, kind=kind)))) in BROKERS
    assert restarted_id(rolled(cluster(ROLLED_CONTROLLERS, silent(3003, kind=FailureKind.NOT_ASKED)))) in BROKERS


def test_a_silent_controller_that_is_no_voter_holds_no_restart() -> None:
    observation = cluster({**ROLLED_CONTROLLERS}, partitions=PARTITIONS, quorum=voting())
    observer = replace(silent(3003)[3003], id=3009, roles=())
    assert restarted_id(rolled(replace(observation, nodes=(*observation.nodes, observer)))) in BROKERS


@pytest.mark.parametrize("is_half_done", [True, False])
def test_brokers_are_restarted_without_a_voter_only_in_a_migration_edge_that_is_half_done(is_half_done: bool) -> None:
    permit = Permit("PreMigration -> Copying", dict.fromkeys(BROKERS, "another file"), is_half_done=is_half_done)
    roll = rolled(cluster(ROLLED_CONTROLLERS, silent(3002)), permit=permit)
    if is_half_done:
        assert restarted_id(roll) in BROKERS
    else:
        assert "controller 3002 does not answer" in refused(roll, Reason.WAITING_FOR_QUORUM)
