"""Settings of simulated nodes, for DescribeConfigs.

A node has the settings in `NAMES`. One that was started with a file of properties (`Node.file`) has those in `DEFAULTS`
and `SECRETS`, too: with the value in the file, or else the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.settings import (
    AUTHORIZER,
    MIN_INSYNC_REPLICAS,
    PROCESS_ROLES,
    SNAPSHOT_INTERVAL,
    Setting,
    SettingSource,
)
from kafkasim.node import Node
from kafkasim.world import World

NAMES = (MIN_INSYNC_REPLICAS, SNAPSHOT_INTERVAL, PROCESS_ROLES, AUTHORIZER)
"""Settings that every node reports, also one that was started without a file."""
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
DEFAULTS: Mapping[str, str | None] = {
    "alter.config.policy.class.name": None, "authorizer.class.name": "", "auto.leader.rebalance.enable": "true",
    "broker.id": "-1", "broker.id.generation.enable": "true", "control.plane.listener.name": None,
    "controller.listener.names": None, "controller.quota.window.num": "11", "controller.quota.window.size.seconds": "1",
    "delegation.token.expiry.check.interval.ms": "3600000", "delegation.token.expiry.time.ms": "86400000",
    "delegation.token.max.lifetime.ms": "604800000",
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "controller.quorum.bootstrap.servers": "", "controller.quorum.voters": "",
    "sasl.mechanism.controller.protocol": "GSSAPI",
    "create.topic.policy.class.name": None, "default.replication.factor": "1", "delete.topic.enable": "true",
    "inter.broker.listener.name": None, "inter.broker.protocol.version": "3.9-IV0",
    "leader.imbalance.check.interval.seconds": "300",
    "listener.security.protocol.map": "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "log.dirs": None, "node.id": "-1", "num.partitions": "1", "process.roles": "", "reserved.broker.max.id": "1000",
    "security.inter.broker.protocol": "PLAINTEXT", "unclean.leader.election.enable": "false",
    "zookeeper.connect": None, "zookeeper.metadata.migration.enable": "false", "zookeeper.set.acl": "false",
    "zookeeper.ssl.client.enable": "false",
}  # fmt: skip
"""Defaults of a node of Kafka 3.9, for settings that its file does not have."""
SECRETS = ("delegation.token.master.key", "delegation.token.secret.key", "password.encoder.secret")
"""Settings whose values a node does not report."""


def names_of(node: Node) -> Iterable[str]:
    """The settings that a node knows."""
    return NAMES if node.file is None else dict.fromkeys((*NAMES, *DEFAULTS, *SECRETS))


def setting_of(world: World, node: Node, name: str) -> Setting | None:
    """One setting of a node; None for a name that it does not know."""
    if name == SNAPSHOT_INTERVAL:
        return _from_file(str(world.timing.snapshot))
    if name == PROCESS_ROLES and node.file is None:
        return _from_file(",".join(role.value.lower() for role in Role if world.has_role(node.id, role)))
    if name == AUTHORIZER and node.file is None:
        return _from_file("" if world.grants_cluster_action else STANDARD_AUTHORIZER)
    if name != MIN_INSYNC_REPLICAS:
        return None if node.file is None else _in_file(node.file, name)
    layers = minimum_layers(world, node)
    source = next(iter(layers))
    return Setting(source, layers[source], layers=layers)


def _from_file(text: str) -> Setting:
    return Setting(SettingSource.FILE, text, is_read_only=True, layers={SettingSource.FILE: text})


def _in_file(file: Mapping[str, str], name: str) -> Setting | None:
    if name in file:
        return _from_file(file[name])
    if name in SECRETS:
        return Setting(SettingSource.DEFAULT, is_secret=True, is_read_only=True)
    return Setting(SettingSource.DEFAULT, DEFAULTS[name], is_read_only=True) if name in DEFAULTS else None


def minimum_of(world: World, broker_id: int) -> int:
    """The `min.insync.replicas` that a broker applies to a topic that sets none."""
    return int(next(iter(minimum_layers(world, world.nodes[Role.BROKER, broker_id]).values())))


def minimum_layers(world: World, node: Node) -> dict[SettingSource, str]:
    """Values of `min.insync.replicas` by their source, the strongest first."""
    layers: dict[SettingSource, int] = {}
    if world.image.partitioned is not None:
        minimums = world.image.partitions.min_insync_replicas
        if node.role is Role.BROKER and node.id in minimums.brokers:
            layers[SettingSource.NODE] = minimums.brokers[node.id]
        if minimums.cluster is not None:
            layers[SettingSource.ALL_BROKERS] = minimums.cluster
    in_file = world.min_insync_replicas if node.role is Role.BROKER else world.controllers_min_insync_replicas
    if in_file != 1:
        layers[SettingSource.FILE] = in_file
    layers[SettingSource.DEFAULT] = 1
    return {source: str(value) for source, value in layers.items()}
