"""Settings of simulated nodes: `min.insync.replicas`, and how often a node writes a snapshot of the metadata.

Called by `answers.topics`, for DescribeConfigs.
"""

from __future__ import annotations

from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, SNAPSHOT_INTERVAL, Setting, SettingSource
from kafkasim.node import Node
from kafkasim.world import World

NAMES = (MIN_INSYNC_REPLICAS, SNAPSHOT_INTERVAL)


def setting_of(world: World, node: Node, name: str) -> Setting | None:
    """One setting of a node; None for a name that it does not know."""
    if name == SNAPSHOT_INTERVAL:
        text = str(world.timing.snapshot)
        return Setting(SettingSource.FILE, text, is_read_only=True, layers={SettingSource.FILE: text})
    if name != MIN_INSYNC_REPLICAS:
        return None
    layers = minimum_layers(world, node.id)
    source = next(iter(layers))
    return Setting(source, layers[source], layers=layers)


def minimum_of(world: World, broker_id: int) -> int:
    """The `min.insync.replicas` that a broker applies to a topic that sets none."""
    return int(next(iter(minimum_layers(world, broker_id).values())))


def minimum_layers(world: World, broker_id: int) -> dict[SettingSource, str]:
    """What is said of `min.insync.replicas`, the strongest first."""
    found: dict[SettingSource, int] = {}
    if world.image.partitioned is not None:
        there = world.image.partitions.min_insync_replicas
        if broker_id in there.brokers:
            found[SettingSource.NODE] = there.brokers[broker_id]
        if there.cluster is not None:
            found[SettingSource.ALL_BROKERS] = there.cluster
    if world.min_insync_replicas != 1:
        found[SettingSource.FILE] = world.min_insync_replicas
    found[SettingSource.DEFAULT] = 1
    return {source: str(value) for source, value in found.items()}
