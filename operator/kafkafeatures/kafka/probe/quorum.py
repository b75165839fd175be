"""DescribeQuorum: the leader, the voters and observers, and their positions in the log, as the leader sees them.

Called by the other modules of this package, by `kafka/cluster.py`, by the follower of the log, and for a time limit by
`kafka/requests/features.py`. It decides when a response counts: only without any error code, which means that it comes
from the leader itself, or through a broker that forwarded the request. A controller that does not lead answers with
partition error 6 and leader 0, where 0 is a default value, not a node id. A broker does not answer at all while no
controller is active, so the request has a deadline of its own, shorter than the request timeout.
"""

from __future__ import annotations

from kafkafeatures.core.engine.route import route_to_controller
from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    Failure,
    FailureKind,
    Host,
    QuorumAnswer,
    ReplicaProgress,
    Role,
)
from kafkafeatures.core.words import printable
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, TimedOut, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.rights import ClusterRight, missing
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.messages import DescribeQuorumRequest, DescribeQuorumResponse, ReplicaState

QUORUM_TIMEOUT = 5.0
"""Seconds, at most: a leader answers in milliseconds, a broker without a leader never does."""

NO_LEADER = Failure(
    FailureKind.NO_LEADER,
    "controllers",
    "no controller is active at the moment",
    "a majority of the controllers must run and reach each other",
)

_NOT_THE_LEADER = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER}


def short_timeout(pool: Pool) -> float:
    """Seconds for requests that a node may never answer."""
    return min(pool.settings.request_timeout, QUORUM_TIMEOUT)


async def describe_quorum(pool: Pool, address: Address, role: Role) -> tuple[QuorumAnswer | Failure, tuple[Host, ...]]:
    """Ask one listener. The hosts are those of the voters, where DescribeQuorum v2 (Kafka 3.9) names them."""
    limit = short_timeout(pool)
    try:
        answer = await pool.ask(address, role, DescribeQuorumRequest(), timeout=limit)
    except TimedOut:
        message = f"no answer to DescribeQuorum within {limit:g} s"
        if role is Role.BROKER:
            message += "; a broker keeps that question to itself while no controller is active"
        return Failure(FailureKind.TIMED_OUT, str(address), message, "look at the controllers"), ()
    except KafkaError as error:
        return to_failure(error, str(address)), ()
    code = answer.error_code or answer.partition_error_code
    if code:
        return refused("DescribeQuorum", address, code, answer.error_message or answer.partition_error_message), ()
    if answer.leader_id < 0:
        return NO_LEADER, ()
    return quorum_of(answer), answer.nodes


def quorum_of(answer: DescribeQuorumResponse) -> QuorumAnswer:
    """The quorum by a response without an error code."""
    return QuorumAnswer(
        leader_id=answer.leader_id,
        leader_epoch=answer.leader_epoch,
        high_watermark=answer.high_watermark,
        voters=tuple(map(_progress, answer.voters)),
        observers=tuple(map(_progress, answer.observers)),
    )


async def quorum_again(pool: Pool, probe: ClusterProbe) -> QuorumAnswer | Failure:
    """The quorum, asked again on the route on which a change would be sent; unchanged if there is no route."""
    route = route_to_controller(probe)
    node = route.controller or next(iter(route.brokers), None)
    if node is None:
        return probe.quorum
    return (await describe_quorum(pool, Address(node.host, node.port), node.role))[0]


def refused(subject: str, address: Address, code: int, message: str | None) -> Failure:
    """The Failure that an error code in the response to `subject` means, with the server's own message if there is
    one.
    """
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return Failure(FailureKind.AUTHORIZATION, str(address), *missing(subject, ClusterRight.DESCRIBE, message))
    server_message = printable(message or "")
    if code in _NOT_THE_LEADER:
        text = f"{subject}: {server_message or 'this controller does not lead the quorum'}"
        return Failure(FailureKind.NO_LEADER, str(address), text, NO_LEADER.remedy)
    return Failure(FailureKind.REJECTED, str(address), f"{subject}: {server_message or 'error'} ({code})")


def _progress(replica: ReplicaState) -> ReplicaProgress:
    return ReplicaProgress(
        replica.id,
        replica.log_end_offset,
        replica.last_fetch_timestamp,
        replica.last_caught_up_timestamp,
        str(replica.directory_id) if replica.directory_id else "",
    )
