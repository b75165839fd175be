"""Read a cluster through its ports, with everything that the stages of its document need.

Called through `reconcile/reading.py`. Order matters: pods and znodes are read before the nodes and the metadata log, so
that the log is never older than they are. Steps are judged by the log, and a reading of ZooKeeper is valid only with a
log that was read after it. The node that can tell the partitions may depend on the znode `/controller`: then the znode
is read once more at the end, and the partitions count only if it is unchanged. Nothing is judged here, and nothing is
kept between two readings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, Readings
from kafkafeatures.core.kinds import demands_of
from kafkafeatures.core.ports import KafkaPort, WorkloadPort, ZooKeeperPort
from kafkafeatures.kafka.base.threads import run_in_thread

if TYPE_CHECKING:
    from kafkafeatures.core.facts.claims import ControllerClaim
    from kafkafeatures.core.facts.replication import Replication
    from kafkafeatures.core.facts.workloads import WorkloadsReading
    from kafkafeatures.core.facts.znodes import Read, ZooKeeperReading


T = TypeVar("T")


class Ports(Struct, frozen=True):
    """Ports to all that is read. `workloads`, `zookeeper`: None where the document does not need them."""

    kafka: KafkaPort
    workloads: WorkloadPort | None
    zookeeper: ZooKeeperPort | None


async def pods(ports: Ports) -> WorkloadsReading | Failure:
    """The pods that the document names, at this moment."""
    return NOT_ASKED if ports.workloads is None else await ports.workloads.read()


async def look(ports: Ports, read_context: ReadContext, is_ours: Callable[[Observation], bool]) -> Observation:
    """Read the cluster. Some stages know what they need only once the nodes were read: if that is more than was read,
    everything is read anew, so that all readings are of one moment.

    is_ours: tells whether it is the document's cluster; of another one only the first reading is made.
    """
    demands = demands_of(read_context)
    observation = await _read(ports, read_context, demands)
    if not is_ours(observation):
        return observation
    all_demands = demands | demands_of(replace(read_context, observation=observation))
    if _of_nodes(all_demands) != _of_nodes(demands):
        observation = await _read(ports, read_context, all_demands)
    observation = await _surveyed(ports, await _named(ports, observation, all_demands), all_demands)
    return await _compared(ports, observation) if all_demands.comparison else observation


def _of_nodes(demands: ReadRequirements) -> ReadRequirements:
    """The requirements without the readings that are made after all others."""
    return replace(demands, comparison=False, survey=None, named_controllers=False, former_controllers=frozenset())


def _fact(reading: T | Failure, location: str, observation: Observation) -> Known[T] | Unknown:
    """A reading of ZooKeeper as a fact. `location`: what was read, for messages."""
    return (
        Unknown(reading)
        if isinstance(reading, Failure)
        else Known(reading, SourceKind.ZOOKEEPER, location, observation.at)
    )


async def look_again(ports: Ports, read_context: ReadContext) -> Observation:
    """Read once more what a restart depends on, a moment after the full reading; znodes too, where a stage needs them.
    The survey of all znodes is that of the full reading, unless it is older than the stage that needs it allows.
    """
    zookeeper = await _znodes(ports, demands_of(read_context))
    readings = await _while_claimed(ports, await ports.kafka.look_again(claim=_claim_in(zookeeper)))
    observation = observe(*readings, read_context.workloads, zookeeper)
    demands = demands_of(replace(read_context, observation=observation))
    return await _surveyed(ports, await _named(ports, observation, demands), demands)


async def replication_in(observation: Observation) -> Replication | None:
    """All partitions, prepared in a thread to be judged; None where they were not read."""
    if isinstance(observation.partitions, Unknown):
        return None
    from kafkafeatures.core.facts.replication import Replication

    return await run_in_thread(partial(Replication, observation.partitions.value))


async def _read(ports: Ports, read_context: ReadContext, demands: ReadRequirements) -> Observation:
    zookeeper = await _znodes(ports, demands)
    claim = _claim_in(zookeeper)
    readings = await ports.kafka.read(partitions=demands.partitions, settings=demands.settings, claim=claim)
    return observe(*await _while_claimed(ports, readings), read_context.workloads, zookeeper)


def _claim_in(zookeeper: ZooKeeperReading | Failure) -> Read[ControllerClaim]:
    return zookeeper if isinstance(zookeeper, Failure) else zookeeper.controller


async def _while_claimed(ports: Ports, readings: Readings) -> Readings:
    """The readings; without the partitions if their source depends on `/controller`, and that has changed since."""
    partitions = readings.partitions
    if isinstance(partitions, Failure) or partitions.claim is None:
        return readings
    from kafkafeatures.core.facts.partition_source import while_claimed

    current_claim = NOT_ASKED if ports.zookeeper is None else await ports.zookeeper.controller()
    return readings._replace(partitions=while_claimed(partitions, current_claim))


async def _named(ports: Ports, observation: Observation, demands: ReadRequirements) -> Observation:
    """The observation with the controllers that brokers name, and with former controllers that answer, where
    required.
    """
    if demands.named_controllers:
        observation = replace(observation, named_controllers=await ports.kafka.named_controllers())
    if demands.former_controllers:
        observation = replace(
            observation, former_controllers=await ports.kafka.former_controllers(demands.former_controllers)
        )
    return observation


async def _surveyed(ports: Ports, observation: Observation, demands: ReadRequirements) -> Observation:
    """The observation with a survey of all znodes that Kafka copies, where required."""
    if demands.survey is None or ports.zookeeper is None:
        return observation
    return replace(observation, surveyed=_fact(await ports.zookeeper.survey(demands.survey), "znodes", observation))


async def _compared(ports: Ports, observation: Observation) -> Observation:
    """The observation with a comparison of ZooKeeper and the metadata log, made after all other readings."""
    if ports.zookeeper is None or isinstance(observation.cluster_id, Unknown):
        return observation
    comparison = await ports.zookeeper.compare(observation.cluster_id.value)
    return replace(observation, compared=_fact(comparison, "metadata log and ZooKeeper", observation))


async def _znodes(ports: Ports, demands: ReadRequirements) -> ZooKeeperReading | Failure:
    return await ports.zookeeper.read() if demands.znodes and ports.zookeeper is not None else NOT_ASKED
