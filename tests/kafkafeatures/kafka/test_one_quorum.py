"""Addresses that lead to two quorums are detected; an election or a change of voters between two answers is not one."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kafkafeatures.core.facts.readings import (
    BrokerList,
    ControllerList,
    Failure,
    FailureKind,
    Host,
    ProbedNode,
    QuorumAnswer,
    Role,
)
from kafkafeatures.kafka.base.errors import TimedOut
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkafeatures.kafka.probe.directory import Directory
from kafkafeatures.kafka.probe.one_quorum import of_another_quorum
from kafkafeatures.kafka.wire.messages import DescribeQuorumRequest, DescribeQuorumResponse, ReplicaState
from tests.kafkafeatures.worlds import asked, quorum

BROKER, CONTROLLER = Address("h", 1), Address("h", 3001)


def saying(leader: int, epoch: int, *voters: int, host: str = "h") -> DescribeQuorumResponse:
    listeners = tuple(Host(id_, host, id_) for id_ in voters)
    return DescribeQuorumResponse(
        0, None, 0, None, leader, epoch, 100, tuple(ReplicaState(id_, None, 100) for id_ in voters), (), listeners, 2
    )


class Scripted:
    """A pool with a broker and a controller, which give these answers in turn, and the last one again. None: silent."""

    def __init__(self, **answers: tuple[DescribeQuorumResponse | None, ...]) -> None:
        self.settings = ClusterSettings(bootstrap_servers=(BROKER,), bootstrap_controllers=(CONTROLLER,))
        self._answers = {BROKER: [*answers["broker"]], CONTROLLER: [*answers["controller"]]}

    async def ask(self, address: Address, role: Role, request: Any, **_: Any) -> Any:
        left = self._answers[address]
        found = left.pop(0) if len(left) > 1 else left[0]
        if found is None or not isinstance(request, DescribeQuorumRequest):
            raise TimedOut("no answer")
        return found


def found_by(first: QuorumAnswer, pool: Scripted) -> Failure | None:
    """The failure that is found if `first` was the answer when the addresses were read."""
    voters = tuple(Host(voter.id, "h", voter.id) for voter in first.voters)
    directory = Directory("cluster-1", BrokerList((), True), ControllerList(voters, first.leader_id), first, voters)
    nodes: tuple[ProbedNode, ...] = (asked(1), asked(3001))
    return asyncio.run(of_another_quorum(cast("Pool", pool), directory, nodes))


FIRST = quorum(voters=(3001, 3002, 3003), epoch=4)
SAME = saying(3001, 4, 3001, 3002, 3003)
REMOVED = saying(3002, 5, 3002, 3003)
LEAVING = saying(3001, 4, 3002, 3003)
ADDED = saying(3004, 6, 3001, 3002, 3003, 3004)
MOVED = saying(3001, 4, 3001, 3002, 3003, host="another")
COPY = saying(3005, 9, 3005, 3002, 3003)
"""A copy of the cluster, with a quorum of its own and the same cluster id."""
ELECTED = saying(3002, 5, 3001, 3002, 3003)


@pytest.mark.parametrize(
    "now",
    [SAME, ELECTED, REMOVED, LEAVING, ADDED, MOVED],
    ids=[
        "no change", "another leader", "another leader, as the first was removed", "the leader is no voter any more",
        "a leader that was added", "other addresses of the same voters",
    ],
)  # fmt: skip
def test_a_change_of_the_quorum_between_two_requests_is_no_second_quorum(now: DescribeQuorumResponse) -> None:
    assert found_by(FIRST, Scripted(broker=(now,), controller=(now,))) is None


@pytest.mark.parametrize(
    ("ours", "other"),
    [(SAME, COPY), (SAME, MOVED), (SAME, saying(3002, 4, 3001, 3002, 3003))],
    ids=["other voters", "other addresses of voters", "another leader in the same epoch"],
)
def test_contradicting_answers_at_the_same_time_are_two_quorums(
    ours: DescribeQuorumResponse, other: DescribeQuorumResponse
) -> None:
    why = found_by(FIRST, Scripted(broker=(other,), controller=(ours,)))
    assert why is not None
    assert why.kind is FailureKind.WRONG_CLUSTER
    assert "they lead to two quorums" in why.message
    assert why.message.count("(voters ") == 2


@pytest.mark.parametrize(
    "broker", [(COPY, None), (COPY, COPY)], ids=["the broker answers once", "the controller does not answer"]
)
def test_a_contradiction_without_a_second_answer_leaves_the_quorum_unknown(
    broker: tuple[DescribeQuorumResponse | None, ...],
) -> None:
    pool = Scripted(broker=broker, controller=(SAME,) if broker[1] is None else (None,))
    why = found_by(FIRST, pool)
    assert why is not None
    assert why.kind is FailureKind.STALE
    assert "if there was no election just now, they lead to two quorums" in why.message
    assert "if this lasts for more than 2 minutes" in why.remedy
