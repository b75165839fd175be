"""A healthy cluster before a migration (two brokers in ZooKeeper mode, two controllers, their ensemble), and changes
that break one part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Node
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.facts.settings import Setting, SettingSource
from kafkafeatures.core.facts.znodes import FeatureZnodeStatus, FinalizedInZooKeeper, RegisteredBroker
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.preflight_input import PreflightInput
from kafkafeatures.core.migration.settings import OF_ZOOKEEPER, STANDARD_AUTHORIZER
from tests.kafkafeatures.ensembles import CLUSTER, elected, progress, reading
from tests.kafkafeatures.worlds import OLD, answer, known, node, observation

DEFAULT, FILE = SettingSource.DEFAULT, SettingSource.FILE
Change: TypeAlias = Callable[[PreflightInput], PreflightInput]

DEFAULTS: Mapping[str, str | None] = {
    "process.roles": "", "broker.id": "-1", "broker.id.generation.enable": "true", "reserved.broker.max.id": "1000",
    "log.dirs": None, "inter.broker.protocol.version": "3.9-IV0", "inter.broker.listener.name": None,
    "security.inter.broker.protocol": "PLAINTEXT", "zookeeper.connect": None, "authorizer.class.name": "",
    "listener.security.protocol.map": "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "create.topic.policy.class.name": None, "alter.config.policy.class.name": None, "default.replication.factor": "1",
    "num.partitions": "1", "auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": "300",
    "unclean.leader.election.enable": "false", "delete.topic.enable": "true", "zookeeper.set.acl": "false",
    "zookeeper.ssl.client.enable": "false", "principal.builder.class": "org.example.DefaultKafkaPrincipalBuilder",
    "delegation.token.max.lifetime.ms": "604800000", "delegation.token.expiry.time.ms": "86400000",
    "delegation.token.expiry.check.interval.ms": "3600000", "controller.quota.window.num": "11",
    "controller.quota.window.size.seconds": "1", "sasl.mechanism.controller.protocol": "GSSAPI",
    "controller.listener.names": None,
}  # fmt: skip
"""What a node of Kafka 3.9 gives where its file says nothing."""
SECRETS = ("password.encoder.secret", "delegation.token.secret.key", "delegation.token.master.key")

OF_ALL = {
    "listener.security.protocol.map": "INTERNAL:SSL,CONTROLLER:SSL", "inter.broker.listener.name": "INTERNAL",
    "zookeeper.connect": "zk1:2181,zk2:2181/kafka",
}  # fmt: skip


def from_file(value: str | None) -> Setting:
    return Setting(FILE, value, is_read_only=True, layers={} if value is None else {FILE: value})


def secret(source: SettingSource = FILE) -> Setting:
    return Setting(source, is_secret=True)


def settings(**values: str) -> dict[str, Setting]:
    """Build all settings of a node, with these in its file. Dots in names are written as two underscores."""
    node_settings = {name: Setting(DEFAULT, value) for name, value in DEFAULTS.items()}
    node_settings |= {name: secret(DEFAULT) for name in SECRETS}
    node_settings |= {name: from_file(value) for name, value in OF_ALL.items()}
    return node_settings | {name.replace("__", "."): from_file(value) for name, value in values.items()}


def plain(id_: int) -> Node:
    """Build a broker in ZooKeeper mode, which reports no feature."""
    broker = node(id_, said=answer({}, levels={}, keys=(18,)), written=None)
    own = settings(broker__id=str(id_), inter__broker__protocol__version="3.9")
    return replace(broker, proved_at=f"10.0.0.{id_}", settings=own)


def controller(id_: int) -> Node:
    """Build a controller of a quorum that waits for the migration."""
    broker = node(id_, said=answer(OLD, keys=(18, 55)), written=OLD)
    own = settings(process__roles="controller", node__id=str(id_))
    return replace(broker, proved_at=f"10.0.1.{id_ - 3000}", settings=own)


def registered(id_: int, *listeners: str) -> RegisteredBroker:
    return RegisteredBroker(id_, id_ * 10, (), dict.fromkeys(listeners or ("INTERNAL", "EXTERNAL"), "SSL"))


def healthy(end: Position = Position.COPIED) -> PreflightInput:
    """Build the input of a preflight without any finding."""
    with_controllers = end is Position.COPIED
    nodes = (plain(1), plain(2), *((controller(3001), controller(3002)) if with_controllers else ()))
    znodes = reading(
        cluster_id=CLUSTER,
        controller=elected(),
        migration=progress(-1) if with_controllers else None,
        brokers={1: registered(1), 2: registered(2)},
    )
    survey = Survey(assigned={1: "orders-0", 2: "orders-0"})
    observed = replace(observation(*nodes, cluster_id=CLUSTER), registered_brokers=known(frozenset()))
    return PreflightInput(end, observed, znodes, survey, timedelta(minutes=2))


# --- one thing that is spoiled ---


def with_node(id_: int, **fields: Any) -> Change:
    """Return a change of one node."""

    def change(preflight: PreflightInput) -> PreflightInput:
        nodes = tuple(replace(node, **fields) if node.id == id_ else node for node in preflight.observation.nodes)
        return replace(preflight, observation=replace(preflight.observation, nodes=nodes))

    return change


def with_settings(ids: tuple[int, ...], **values: Setting | str | None) -> Change:
    """Return a change of settings of these nodes; None removes a setting. Names are written as for `settings`."""

    def own(node: Node) -> Node:
        changed = dict(node.settings)
        for name, value in values.items():
            changed.pop(name.replace("__", "."), None)
            if value is not None:
                changed[name.replace("__", ".")] = from_file(value) if isinstance(value, str) else value
        return replace(node, settings=changed)

    def change(preflight: PreflightInput) -> PreflightInput:
        nodes = tuple(own(node) if node.id in ids else node for node in preflight.observation.nodes)
        return replace(preflight, observation=replace(preflight.observation, nodes=nodes))

    return change


def with_znodes(**parts: Any) -> Change:
    """Return a change of these parts of the reading of ZooKeeper."""

    def change(preflight: PreflightInput) -> PreflightInput:
        assert not isinstance(preflight.znodes, Failure)
        return replace(preflight, znodes=replace(preflight.znodes, **parts))

    return change


def with_survey(**parts: Any) -> Change:
    """Return a change by which the dry run of the copy has these findings."""

    def change(preflight: PreflightInput) -> PreflightInput:
        assert not isinstance(preflight.survey, Failure)
        return replace(preflight, survey=replace(preflight.survey, **parts))

    return change


def with_observation(**parts: Any) -> Change:
    """Return a change of these parts of the observation."""
    return lambda preflight: replace(preflight, observation=replace(preflight.observation, **parts))


def as_one(*changes: Change) -> Change:
    """Combine changes into one, made in this order."""

    def change(preflight: PreflightInput) -> PreflightInput:
        for change in changes:
            preflight = change(preflight)
        return preflight

    return change


def finalized(**levels: int) -> FinalizedInZooKeeper:
    return FinalizedInZooKeeper(FeatureZnodeStatus.ENABLED, levels, 1)


ACLS = as_one(
    with_settings((1, 2), authorizer__class__name=OF_ZOOKEEPER),
    with_settings((3001, 3002), authorizer__class__name=STANDARD_AUTHORIZER),
)
"""Brokers keep ACLs in ZooKeeper."""
BROKER, CONTROLLER = Role.BROKER, Role.CONTROLLER
