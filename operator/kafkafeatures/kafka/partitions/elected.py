"""Reads all partitions of a cluster in ZooKeeper mode, from the broker that is its controller.

Called by `kafka/partitions/partitions.py`. Other brokers may be outdated, and nothing shows which; the controller is up
to date as long as it is the controller. So that broker is asked (Metadata, ListPartitionReassignments,
DescribeConfigs), and its own answer must say that it is the controller that the znode `/controller` names. The caller
reads `/controller` again afterwards, to see that this did not change meanwhile. ListPartitionReassignments comes first:
a broker that was just elected queues it until it has loaded the state from ZooKeeper, but would answer Metadata with
old state.
"""

from __future__ import annotations

from functools import partial

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.partition_source import momentary_failure
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, PartitionsReading, Role
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.kafka.partitions.asked import Keep, completed
from kafkafeatures.kafka.partitions.collected import Collected, Incomplete
from kafkafeatures.kafka.probe.broker_defaults import BrokerDefaults
from kafkafeatures.kafka.wire.topic_messages import ListPartitionReassignmentsRequest, MetadataRequest


async def ask_elected(
    pool: Pool, probe: ClusterProbe, claim: ControllerClaim, defaults: BrokerDefaults, keep: Keep
) -> PartitionsReading | Failure:
    """The partitions, or a Failure. `claim`: the content of `/controller`. `keep` is called with the bytes of memory
    used so far; it may raise KafkaError to end the reading.
    """
    if isinstance(probe.brokers, Failure):
        return probe.brokers
    source = next(
        (Address(broker.host, broker.port) for broker in probe.brokers.brokers if broker.id == claim.node_id), None
    )
    if source is None:
        return momentary_failure(
            f"broker {claim.node_id}, which is controller by /controller, is not listed by the brokers"
        )
    try:
        taken_over = await pool.ask(source, Role.BROKER, ListPartitionReassignmentsRequest())
        if taken_over.error_code == ErrorCode.NOT_CONTROLLER:
            return momentary_failure(f"broker {claim.node_id} is controller by /controller, and does not know it yet")
        answer = await pool.ask(source, Role.BROKER, MetadataRequest(all_topics=True))
        if answer.controller_id != claim.node_id:
            view = (
                f"takes broker {answer.controller_id} for the controller" if answer.controller_id >= 0 else "knows none"
            )
            return momentary_failure(f"broker {claim.node_id} is controller by /controller, and {view}")
        collected = Collected()
        await run_in_thread(partial(collected.add, answer.topics))
        keep(collected.weight)
        brokers = {broker.id: Address(broker.host, broker.port) for broker in answer.brokers}
        reading = await completed(pool, collected, source, brokers, defaults)
    except KafkaError as error:
        return to_failure(error, str(source))
    except Incomplete as incomplete:
        return incomplete.failure
    return reading if isinstance(reading, Failure) else replace(reading, claim=claim)
