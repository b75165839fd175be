"""Asks each node what this user may do there; no request changes anything.

Called by `check --rights`; `kafka/probe/granted.py` judges the answers. Where possible, a node lists all its rights on
the cluster in one response (DescribeCluster with authorized operations, KIP-430). But a user needs DESCRIBE to get that
list, and on controllers ALTER. Otherwise each right is tried with a harmless request that needs it: the right is
granted if the request passes the authorizer, and missing if the node answers CLUSTER_AUTHORIZATION_FAILED. Any other
error, and silence, prove neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, NodeAnswer, ProbedNode, Role
from kafkafeatures.core.facts.settings import AUTHORIZER, NodeSettings
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, code_name, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.rights import ClusterRight, missing
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.probe.granted import RightsQuestion, RightsReading, TopicRights, Witness, judged
from kafkafeatures.kafka.probe.node_settings import node_settings
from kafkafeatures.kafka.probe.quorum import short_timeout
from kafkafeatures.kafka.wire.messages import (
    DescribeClusterRequest,
    DescribeQuorumRequest,
    FetchRequest,
    UpdateFeaturesRequest,
)
from kafkafeatures.kafka.wire.topic_messages import DescribeLogDirsRequest, DescribeLogDirsResponse, MetadataRequest

BITS = {
    ClusterRight.DESCRIBE: 1 << 8,
    ClusterRight.CLUSTER_ACTION: 1 << 9,
    ClusterRight.ALTER: 1 << 7,
    ClusterRight.DESCRIBE_CONFIGS: 1 << 10,
}
"""Bits of authorized operations (`AclOperation.code`), of the rights that the operator uses."""

_JUDGED = {
    Role.BROKER: (ClusterRight.DESCRIBE, ClusterRight.DESCRIBE_CONFIGS),
    Role.CONTROLLER: tuple(BITS),
}
"""The rights that nodes of a role check themselves. Brokers forward requests that need other rights to the active
controller.
"""

_PERMITTED = (
    ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER,
    ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH,
)  # fmt: skip
"""Codes that prove that the request passed the authorizer, which comes before these are decided."""

Answer = bool | Failure
"""True if a right is granted, False if it is missing, or the reason why that is not known."""


async def ask_for_rights(pool: Pool, nodes: Sequence[ProbedNode], question: RightsQuestion) -> RightsReading:
    """The rights that this user has, of those that `question` needs."""
    alive = [node for node in nodes if node.id is None or (node.role, node.id) not in question.ghosts]
    witnesses = await ask_witnesses(pool, alive)
    topics = await ask_for_topics(pool, alive) if question.is_about_topics else NOT_ASKED
    return judged(question, witnesses, topics, pool.requester)


async def ask_witnesses(pool: Pool, nodes: Sequence[ProbedNode]) -> tuple[Witness, ...]:
    """The answers of all nodes. If no controller answers us directly, the active one is also asked through a broker."""
    witnesses = await asyncio.gather(*(_witness(pool, node) for node in nodes))
    if any(witness.role is Role.CONTROLLER and witness.answers for witness in witnesses):
        return tuple(witnesses)
    brokers = [node for node in nodes if node.role is Role.BROKER and _runs_in_kraft_mode(node)]
    return (*witnesses, await _through_broker(pool, brokers[0])) if brokers else tuple(witnesses)


async def _witness(pool: Pool, node: ProbedNode) -> Witness:
    if isinstance(node.answer, Failure):
        silent = dict.fromkeys(_JUDGED[node.role], node.answer)
        return Witness(node.role, node.id, str(_address(node)), silent, node.answer)
    answers, settings = await asyncio.gather(_rights_on(pool, node), _own_settings(pool, node))
    rights = {
        right: _right_to_read_settings(settings) if answer is None else answer for right, answer in answers.items()
    }
    return Witness(node.role, node.id, str(_address(node)), rights, _authorizer(settings))


async def _rights_on(pool: Pool, node: ProbedNode) -> dict[ClusterRight, Answer | None]:
    """The answer by right; None if only a DescribeConfigs of the node's settings can show it."""
    bits, proven = await _authorized_operations(pool, node)
    judged = _JUDGED[node.role]
    if bits is not None and bits & BITS[ClusterRight.DESCRIBE]:
        return {right: bool(bits & BITS[right]) for right in judged}
    if bits is not None:  # without DESCRIBE the bits show nothing else
        proven[ClusterRight.DESCRIBE] = False
    tried = [right for right in judged if right not in proven and right is not ClusterRight.DESCRIBE_CONFIGS]
    answers = await asyncio.gather(*(_try_right(pool, node.role, _address(node), right) for right in tried))
    return {**dict.fromkeys(judged), **proven, **dict(zip(tried, answers, strict=True))}


async def _authorized_operations(pool: Pool, node: ProbedNode) -> tuple[int | None, dict[ClusterRight, Answer | None]]:
    """(bits of authorized operations, None if the node gives none; rights that the answer itself proves: a controller
    answers DescribeCluster only with ALTER).
    """
    is_controller = node.role is Role.CONTROLLER
    request = DescribeClusterRequest(endpoint_type=2 if is_controller else 1, authorized_operations=True)
    offered = node.answer.apis.get(request.api_key) if isinstance(node.answer, NodeAnswer) else None
    if offered is None or (is_controller and offered.max < 1):
        return None, {}
    try:
        answer = await pool.ask(_address(node), node.role, request)
    except KafkaError:
        return None, {}  # the requests that are tried next show the cause
    if is_controller and answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return None, {ClusterRight.ALTER: False}
    if answer.error_code or answer.operations is None:
        return None, {}
    return answer.operations, {ClusterRight.ALTER: True} if is_controller else {}


async def _try_right(pool: Pool, role: Role, address: Address, right: ClusterRight) -> Answer:
    """True if a request that needs this right gets past the authorizer; a Failure if that is not known."""
    timeout = short_timeout(pool)
    try:
        match right:
            case ClusterRight.DESCRIBE:
                quorum = await pool.ask(address, role, DescribeQuorumRequest(), timeout=timeout)
                code = quorum.error_code or quorum.partition_error_code
            case ClusterRight.CLUSTER_ACTION:
                stale = FetchRequest(current_leader_epoch=0, max_wait_ms=0, max_bytes=1)  # so that no record is sent
                fetched = await pool.ask(address, role, stale, timeout=timeout)
                code = fetched.error_code or fetched.partition_error_code
            case _:  # ALTER: an update of no feature, as a dry run
                updated = await pool.ask(address, role, UpdateFeaturesRequest(validate_only=True), timeout=timeout)
                code = updated.error_code
    except KafkaError as error:
        return to_failure(error, str(address))
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return False
    return code in _PERMITTED or Failure(FailureKind.REJECTED, str(address), f"it answers {code_name(code)}")


async def _through_broker(pool: Pool, broker: ProbedNode) -> Witness:
    """The active controller's answers to forwarded requests, for which it checks the rights of this user. Brokers
    forward neither Fetch of the metadata log nor DescribeConfigs of a controller, so CLUSTER_ACTION and
    DESCRIBE_CONFIGS are not among them.
    """
    rights = (ClusterRight.DESCRIBE, ClusterRight.ALTER)
    answers = await asyncio.gather(*(_try_right(pool, Role.BROKER, _address(broker), right) for right in rights))
    return Witness(Role.CONTROLLER, None, "", dict(zip(rights, answers, strict=True)), None, f"broker {broker.id}")


async def _own_settings(pool: Pool, node: ProbedNode) -> NodeSettings | Failure:
    """The settings that a node reports of itself, with its authorizer. A node whose id is unknown is asked for node 0:
    it checks the right before it compares the id.
    """
    return await node_settings(pool, node.role, node.id or 0, _address(node), (AUTHORIZER,))


def _right_to_read_settings(settings: NodeSettings | Failure) -> Answer:
    """The answer for DESCRIBE_CONFIGS. A node with another id has checked the right before it compared the id."""
    if isinstance(settings, NodeSettings) or settings.kind is FailureKind.ANOTHER_NODE:
        return True
    return False if settings.kind is FailureKind.AUTHORIZATION else settings


def _authorizer(settings: NodeSettings | Failure) -> str | Failure | None:
    """The class name of the authorizer; empty: there is none; None: the node does not say."""
    if isinstance(settings, Failure):
        return settings
    setting = settings.of.get(AUTHORIZER)
    return None if setting is None or setting.is_secret else setting.value or ""


async def ask_for_topics(pool: Pool, nodes: Sequence[ProbedNode]) -> TopicRights | Failure:
    """The rights of this user on topics. Metadata silently leaves out topics that the user may not describe, but
    DescribeLogDirs shows the topics on a broker's disks to everybody who may describe the cluster. A topic counts as
    hidden if it is missing in Metadata, and was on disks both before and after that request: so it was not just created
    or deleted.
    """
    brokers = [node for node in nodes if node.role is Role.BROKER]
    source = next((_address(node) for node in brokers if isinstance(node.answer, NodeAnswer)), None)
    if source is None:
        return Failure(FailureKind.NOT_ASKED, "topics", "no broker answers")
    hosted, unread = await _on_disks(pool, brokers)
    try:
        request = MetadataRequest(all_topics=True, authorized_operations=True)
        topics = (await pool.ask(source, Role.BROKER, request)).topics
    except KafkaError as error:
        return to_failure(error, str(source))
    denied = {topic.name for topic in topics if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    visible = {topic.name: topic.operations or 0 for topic in topics if topic.name not in denied}
    hidden = hosted - visible.keys()
    if hidden:
        hidden &= (await _on_disks(pool, brokers))[0]  # without topics that were deleted meanwhile
    without = {name for name, bits in visible.items() if not bits & BITS[ClusterRight.DESCRIBE_CONFIGS]}
    return TopicRights(len(visible), frozenset(hidden | denied), frozenset(without), unread)


async def _on_disks(pool: Pool, brokers: Sequence[ProbedNode]) -> tuple[frozenset[str], Failure | None]:
    """(topics on the disks of all brokers, the reason why some may be missing)."""
    disks = await asyncio.gather(*(_hosted(pool, node) for node in brokers))
    names = frozenset[str]().union(*(disk for disk in disks if not isinstance(disk, Failure)))
    return names, next((disk for disk in disks if isinstance(disk, Failure)), None)


async def _hosted(pool: Pool, node: ProbedNode) -> frozenset[str] | Failure:
    """The topics on the disks of a broker; a Failure if some may be missing."""
    if isinstance(node.answer, Failure):
        return node.answer
    address = _address(node)
    try:
        answer = await pool.ask(address, Role.BROKER, DescribeLogDirsRequest())
    except KafkaError as error:
        return to_failure(error, str(address))
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        lacking = missing(f"DescribeLogDirs of broker {node.id}", ClusterRight.DESCRIBE)
        return pool.requester.named(Failure(FailureKind.AUTHORIZATION, str(address), *lacking), Role.BROKER)
    if failed := _failed(answer):
        return Failure(FailureKind.REJECTED, str(address), f"DescribeLogDirs: {code_name(failed)}")
    return frozenset(name for directory in answer.directories for name in directory.hosted)


def _failed(answer: DescribeLogDirsResponse) -> int:
    codes: Iterable[int] = (answer.error_code, *(directory.error_code for directory in answer.directories))
    return next((code for code in codes if code), 0)


def _address(node: ProbedNode) -> Address:
    return Address(node.host, node.port)


def _runs_in_kraft_mode(node: ProbedNode) -> bool:
    return isinstance(node.answer, NodeAnswer) and node.answer.runs_in_kraft_mode
