"""One look at a cluster, with all that the stages of its document demand.

Pods and znodes are read before the nodes and the metadata log, so that the log is never older than they are: a step is
judged by it, and what is known of ZooKeeper holds only as far as the log was read after it. `/controller` is read once
more where partitions rest on it. Called by `reconcile/evaluate.py`. It judges nothing, and keeps nothing between two
looks.
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
    """Ports to all that is looked at. `workloads`, `zookeeper`: None where nothing of them is wanted."""

    kafka: KafkaPort
    workloads: WorkloadPort | None
    zookeeper: ZooKeeperPort | None


async def pods(ports: Ports) -> WorkloadsReading | Failure:
    """The pods that a document names, as they are now."""
    return NOT_ASKED if ports.workloads is None else await ports.workloads.read()


async def look(ports: Ports, read_context: ReadContext, is_ours: Callable[[Observation], bool]) -> Observation:
    """The cluster as it is now. Some stages know what they need only once nodes were read: then all is read anew.

    `is_ours`: whether it is the cluster of the document; of another one no more than the first reading is demanded.
    """
    demands = demands_of(read_context)
    observation = await _seen(ports, read_context, demands)
    if not is_ours(observation):
        return observation
    all_demands = demands | demands_of(replace(read_context, observation=observation))
    if _of_nodes(all_demands) != _of_nodes(demands):
        observation = await _seen(ports, read_context, all_demands)
    observation = await _surveyed(ports, await _named(ports, observation, all_demands), all_demands)
    return await _compared(ports, observation) if all_demands.comparison else observation


def _of_nodes(demands: ReadRequirements) -> ReadRequirements:
    """Without what is read after everything else."""
    return replace(demands, comparison=False, survey=None, named_controllers=False, former_controllers=frozenset())


def _fact(found: T | Failure, location: str, observation: Observation) -> Known[T] | Unknown:
    return (
        Unknown(found) if isinstance(found, Failure) else Known(found, SourceKind.ZOOKEEPER, location, observation.at)
    )


async def look_again(ports: Ports, read_context: ReadContext) -> Observation:
    """Read what a restart is decided on, a moment after all of it was read; znodes too, where a stage demands them. All
    of them were surveyed in the look before, and both stores compared: how old that may be each stage says itself.
    """
    zookeeper = await _znodes(ports, demands_of(read_context))
    readings = await _while_claimed(ports, await ports.kafka.look_again(claim=_claim_in(zookeeper)))
    observation = observe(*readings, read_context.workloads, zookeeper)
    demands = demands_of(replace(read_context, observation=observation))
    return await _surveyed(ports, await _named(ports, observation, demands), demands)


async def replication_in(observation: Observation) -> Replication | None:
    """All partitions, to be judged: once for each look, beside the event loop. None where they were not read."""
    if isinstance(observation.partitions, Unknown):
        return None
    from kafkafeatures.core.facts.replication import Replication

    return await run_in_thread(partial(Replication, observation.partitions.value))


async def _seen(ports: Ports, read_context: ReadContext, demands: ReadRequirements) -> Observation:
    zookeeper = await _znodes(ports, demands)
    claim = _claim_in(zookeeper)
    readings = await ports.kafka.read(partitions=demands.partitions, settings=demands.settings, claim=claim)
    return observe(*await _while_claimed(ports, readings), read_context.workloads, zookeeper)


def _claim_in(zookeeper: ZooKeeperReading | Failure) -> Read[ControllerClaim]:
    return zookeeper if isinstance(zookeeper, Failure) else zookeeper.controller


async def _while_claimed(ports: Ports, readings: Readings) -> Readings:
    """Without partitions that rest on `/controller`, where it moved while they were read."""
    partitions = readings.partitions
    if isinstance(partitions, Failure) or partitions.claim is None:
        return readings
    from kafkafeatures.core.facts.partition_source import while_claimed

    current_claim = NOT_ASKED if ports.zookeeper is None else await ports.zookeeper.controller()
    return readings._replace(partitions=while_claimed(partitions, current_claim))


async def _named(ports: Ports, observation: Observation, demands: ReadRequirements) -> Observation:
    """With what each broker takes for the controller, and where controllers of before still answer, if demanded."""
    if demands.named_controllers:
        observation = replace(observation, named_controllers=await ports.kafka.named_controllers())
    if demands.former_controllers:
        observation = replace(
            observation, former_controllers=await ports.kafka.former_controllers(demands.former_controllers)
        )
    return observation


async def _surveyed(ports: Ports, observation: Observation, demands: ReadRequirements) -> Observation:
    """With what all znodes hold that Kafka copies, where that is demanded."""
    if demands.survey is None or ports.zookeeper is None:
        return observation
    return replace(observation, surveyed=_fact(await ports.zookeeper.survey(demands.survey), "znodes", observation))


async def _compared(ports: Ports, observation: Observation) -> Observation:
    """With what ZooKeeper and the metadata log hold, compared after everything else was read."""
    if ports.zookeeper is None or isinstance(observation.cluster_id, Unknown):
        return observation
    comparison = await ports.zookeeper.compare(observation.cluster_id.value)
    return replace(observation, compared=_fact(comparison, "metadata log and ZooKeeper", observation))


async def _znodes(ports: Ports, demands: ReadRequirements) -> ZooKeeperReading | Failure:
    return await ports.zookeeper.read() if demands.znodes and ports.zookeeper is not None else NOT_ASKED
