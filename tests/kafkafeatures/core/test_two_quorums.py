"""Answers that cannot come from one quorum, and answers between which a leader was elected or a voter removed."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.decisions import Stalled
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.identity import QuorumView, two_quorums
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import FailureKind, LogReading, QuorumAnswer
from kraftlog.image import Voter
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import NEW, NOW, asked, image, probe, quorum

CONTROLLERS = (3001, 3002, 3003)
OURS = quorum(voters=CONTROLLERS)


@pytest.mark.parametrize(
    ("other", "is_another"),
    [
        pytest.param(quorum(voters=CONTROLLERS), False, id="the same answer"),
        pytest.param(quorum(voters=(3002, 3001, 3003), epoch=5), False, id="an election in between"),
        pytest.param(quorum(voters=(3002, 3001, 3003)), True, id="two leaders of one epoch"),
        pytest.param(quorum(voters=(11, 12, 13), epoch=9), True, id="other voters"),
        pytest.param(quorum(voters=(11, 3001), epoch=9), True, id="other voters, one with an id of ours"),
        pytest.param(quorum(voters=(3002, 3003), epoch=5), False, id="the leader was removed in between"),
        pytest.param(quorum(voters=(3001, 3004), epoch=3), True, id="three voters changed, older epoch"),
        pytest.param(quorum(voters=(3001, 3004, 3005)), True, id="two voters replaced, same epoch"),
        pytest.param(quorum(voters=(3002, 3003, 3004), epoch=5), True, id="one voter replaced"),
        pytest.param(quorum(voters=(3002,), epoch=5), True, id="two voters removed"),
        pytest.param(quorum(voters=(3004, 3001, 3002, 3003), epoch=3), False, id="one voter added, older epoch"),
    ],
)
def test_two_answers_are_of_one_quorum_only_if_an_election_or_one_change_of_voters_explains_them(
    other: QuorumAnswer, is_another: bool
) -> None:
    """Our quorum: leader 3001 in epoch 4. The first voter of `other` leads, in epoch 4 if nothing else is said. Kafka
    adds or removes one voter at a time.
    """
    contradiction = two_quorums(QuorumView("a:1", OURS), QuorumView("b:1", other))
    assert (contradiction is not None) is is_another
    if contradiction is not None:
        assert contradiction.kind is FailureKind.WRONG_CLUSTER
        assert "a:1 to controller 3001 (voters 3001, 3002, 3003, epoch 4)" in contradiction.message
        assert f"b:1 to controller {other.leader_id} (voters " in contradiction.message


def test_voters_with_the_same_ids_at_other_addresses_are_another_quorum() -> None:
    first = QuorumView("a:1", OURS, {3001: ("a", 9093)})
    contradiction = two_quorums(first, QuorumView("b:1", OURS, {3001: ("b", 9093)}))
    assert contradiction is not None
    assert "b:1 to controller 3001 at b:9093 (voters 3001, 3002, 3003, epoch 4)" in contradiction.message
    assert two_quorums(first, QuorumView("b:1", OURS)) is None


@pytest.mark.parametrize(
    ("leader", "epoch", "voters", "is_another"),
    [
        pytest.param(3002, 5, None, False, id="an election in between"),
        pytest.param(3002, 4, None, True, id="two leaders of one epoch"),
        pytest.param(11, 5, None, True, id="leader that is no voter of ours, newer epoch"),
        pytest.param(11, 3, None, True, id="leader that is no voter of ours, older epoch"),
        pytest.param(11, 3, (3001, 3002, 3003, 11), False, id="leader that was removed after its log was read"),
        pytest.param(11, 3, (3001, 3002, 3003), False, id="leader that was removed before its log was read"),
        pytest.param(11, 3, (11, 12, 13), True, id="other voters"),
        pytest.param(3002, 5, (3002, 3003), False, id="the former leader was removed"),
        pytest.param(3002, 5, (3002, 3004), True, id="more than one voter changed"),
    ],
)
def test_a_log_of_another_quorum_is_reported_as_another_cluster_and_not_as_an_election(
    leader: int, epoch: int, voters: tuple[int, ...] | None, is_another: bool
) -> None:
    known_voters = tuple(Voter(id_, UUID(int=id_), (), (0, 1)) for id_ in voters) if voters is not None else None
    log = image({1: (NEW, False)}, dict.fromkeys(CONTROLLERS, NEW), voters=known_voters)
    reading = LogReading(log, log.offset, leader, epoch, NOW)
    observation = observe(probe(asked(1), *map(asked, CONTROLLERS), quorum=OURS), reading)
    assert isinstance(observation.cluster_id, Known) is not is_another
    decision = decide(DesiredState({"metadata.version": 22}), observation)
    if is_another:
        assert isinstance(decision, Stalled)
        assert decision.reason is Reason.CLUSTER_ID_MISMATCH
        leader_of_answer = "copy: DescribeQuorum to controller 3001 at h:3001 (voters 3001, 3002, 3003, epoch 4)"
        assert leader_of_answer in decision.message
