"""Asks one broker or controller for its own settings.

Called by the other modules of this package and by `kafka/cluster.py`. A broker or controller answers DescribeConfigs
for the resource BROKER <id> only if <id> is its own (`ConfigHelper.scala`, `ControllerApis.scala`). So an answer proves
which node answers, and the IP address of the connection says where it runs. A name that Kafka does not know is in the
answer only if the properties file has it, and then without a value, marked as sensitive; so are all passwords.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping

from kafkafeatures.core.facts.readings import Failure, FailureKind, ProbedNode, Role
from kafkafeatures.core.facts.settings import NodeSettings, Setting, SettingSource
from kafkafeatures.core.words import printable
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, code_name, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.rights import ClusterRight, missing
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.topic_messages import BROKER_RESOURCE, ConfigEntry, DescribeConfigsRequest

_OTHER_ID = re.compile(r"Unexpected broker id, expected (\d{1,10})\b")
"""The error of a node that was asked for another id, with its own one (`ConfigHelper.scala`)."""


async def node_settings(
    pool: Pool, role: Role, id_: int, address: Address, names: Iterable[str]
) -> NodeSettings | Failure:
    """These settings of node `id_`, from the listener of its `role`; a Failure if it cannot be asked, or another node
    answers.
    """
    keys, node_name = tuple(sorted(names)), f"{role.value.lower()} {id_}"
    request = DescribeConfigsRequest(BROKER_RESOURCE, (str(id_),), keys)
    try:
        reply, peer = await pool.ask_peer(address, role, request)
    except KafkaError as error:
        return to_failure(error, str(address))
    answer = reply.configs.get(str(id_))
    if answer is None:
        return Failure(FailureKind.REJECTED, str(address), f"does not tell the configs of {node_name}")
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        words = missing(f"reading {', '.join(keys)} of {node_name}", ClusterRight.DESCRIBE_CONFIGS)
        return pool.requester.named(Failure(FailureKind.AUTHORIZATION, str(address), *words), role)
    if answer.error_code == ErrorCode.INVALID_REQUEST and (other := _OTHER_ID.match(answer.error_message or "")):
        return Failure(FailureKind.ANOTHER_NODE, str(address), f"its address {address} is that of node {other[1]} now")
    if answer.error_code:
        text = printable(answer.error_message or "") or code_name(answer.error_code)
        return Failure(FailureKind.REJECTED, str(address), f"DescribeConfigs of {node_name}: {text}")
    return NodeSettings(peer, {name: _setting(entry) for name, entry in answer.entries.items() if name in keys})


async def settings_of_all(
    pool: Pool, nodes: Iterable[ProbedNode], names: frozenset[str]
) -> Mapping[tuple[Role, int], NodeSettings | Failure]:
    """These settings of each node, by (role, id). For a node that did not answer the probe, the Failure of the
    probe.
    """

    async def of(node: ProbedNode, id_: int) -> NodeSettings | Failure:
        if isinstance(node.answer, Failure):
            return node.answer
        return await node_settings(pool, node.role, id_, Address(node.host, node.port), names)

    identified = [(node, node.id) for node in nodes if node.id is not None]
    answers = await asyncio.gather(*(of(node, id_) for node, id_ in identified))
    return {(node.role, id_): answer for (node, id_), answer in zip(identified, answers, strict=True)}


def _setting(entry: ConfigEntry) -> Setting:
    source = SettingSource(entry.source)
    if entry.is_sensitive:
        return Setting(source, is_secret=True, is_read_only=entry.is_read_only)
    layers = {SettingSource(source): value for source, value in entry.layers.items()}
    return Setting(source, entry.value, is_read_only=entry.is_read_only, layers=layers)
