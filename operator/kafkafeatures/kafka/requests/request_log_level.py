"""The level of a broker's request logger at run time (KIP-412): reading it, and setting it.

Called by commands only, never by the operator. A broker answers for its own id alone, so it is certain whose level it
is (`RuntimeLoggerManager.java`, `ConfigHelper.scala`). A broker keeps a level that was set at run time until it
restarts; then its configuration file counts again.
"""

from __future__ import annotations

from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.words import printable
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, code_name, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.rights import ClusterRight, missing
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.logger_codec import LOGGER_RESOURCE, IncrementalAlterConfigsRequest
from kafkafeatures.kafka.wire.topic_messages import DescribeConfigsRequest

REQUEST_LOGGER = "kafka.request.logger"


async def request_log_level(pool: Pool, broker_id: int, address: Address) -> str | Failure:
    """The level that counts at the broker, set for this logger or for one above it."""
    try:
        async with pool.lease(address, Role.BROKER) as lease:
            return await _level(pool, lease.connection, broker_id, address)
    except KafkaError as error:
        return to_failure(error, str(address))


async def set_request_log_level(pool: Pool, broker_id: int, address: Address, level: str) -> str | Failure:
    """Set the level, and return the level that the same process reports afterwards."""
    request = IncrementalAlterConfigsRequest(broker_id, REQUEST_LOGGER, level)
    try:
        async with pool.lease(address, Role.BROKER, fresh=True) as lease:
            answer = await lease.connection.request(request)
            if answer.error_code:
                return _refusal(pool, broker_id, address, answer.error_code, answer.error_message, is_change=True)
            return await _level(pool, lease.connection, broker_id, address)
    except KafkaError as error:
        return to_failure(error, str(address))


async def _level(pool: Pool, connection: Connection, broker_id: int, address: Address) -> str | Failure:
    name = str(broker_id)
    reply = await connection.request(DescribeConfigsRequest(LOGGER_RESOURCE, (name,), (REQUEST_LOGGER,)))
    answer = reply.configs.get(name)
    if answer is None:
        return Failure(FailureKind.REJECTED, str(address), f"does not tell the loggers of broker {broker_id}")
    if answer.error_code:
        return _refusal(pool, broker_id, address, answer.error_code, answer.error_message, is_change=False)
    entry = answer.entries.get(REQUEST_LOGGER)
    if entry is None or entry.value is None:
        text = f"broker {broker_id} has no logger {REQUEST_LOGGER} whose level can be changed while it runs"
        remedy = "run it with the log4j that Kafka ships, and name the logger in its log4j configuration"
        return Failure(FailureKind.UNSUPPORTED, str(address), text, remedy)
    return printable(entry.value)[:20].upper()


def _refusal(
    pool: Pool, broker_id: int, address: Address, code: int, message: str | None, *, is_change: bool
) -> Failure:
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        right = ClusterRight.ALTER_CONFIGS if is_change else ClusterRight.DESCRIBE_CONFIGS
        words = missing(f"{'setting' if is_change else 'reading'} the level of {REQUEST_LOGGER}", right)
        return pool.requester.named(Failure(FailureKind.AUTHORIZATION, str(address), *words), Role.BROKER)
    text = printable(message or "") or code_name(code)
    return Failure(FailureKind.REJECTED, str(address), f"{REQUEST_LOGGER} of broker {broker_id}: {text}")
