"""A cluster that may be migrated: two brokers in ZooKeeper mode, two controllers, and their ensemble. For tests of what
prevents it, which spoil one thing at a time.
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
    """All that a node gives, with these in its file. Each dot of a name is written as two underscores."""
    found = {name: Setting(DEFAULT, value) for name, value in DEFAULTS.items()}
    found |= {name: secret(DEFAULT) for name in SECRETS}
    found |= {name: from_file(value) for name, value in OF_ALL.items()}
    return found | {name.replace("__", "."): from_file(value) for name, value in values.items()}


def plain(id_: int) -> Node:
    """A broker in ZooKeeper mode, which names no feature."""
    found = node(id_, said=answer({}, levels={}, keys=(18,)), written=None)
    own = settings(broker__id=str(id_), inter__broker__protocol__version="3.9")
    return replace(found, proved_at=f"10.0.0.{id_}", settings=own)


def controller(id_: int) -> Node:
    """One of a quorum that waits."""
    found = node(id_, said=answer(OLD, keys=(18, 55)), written=OLD)
    own = settings(process__roles="controller", node__id=str(id_))
    return replace(found, proved_at=f"10.0.1.{id_ - 3000}", settings=own)


def registered(id_: int, *listeners: str) -> RegisteredBroker:
    return RegisteredBroker(id_, id_ * 10, (), dict.fromkeys(listeners or ("INTERNAL", "EXTERNAL"), "SSL"))


def healthy(end: Position = Position.COPIED) -> PreflightInput:
    """Nothing prevents it."""
    with_controllers = end is Position.COPIED
    nodes = (plain(1), plain(2), *((controller(3001), controller(3002)) if with_controllers else ()))
    znodes = reading(
        cluster_id=CLUSTER,
        controller=elected(),
        migration=progress(-1) if with_controllers else None,
        brokers={1: registered(1), 2: registered(2)},
    )
    survey = Survey(assigned={1: "orders-0", 2: "orders-0"})
    seen = replace(observation(*nodes, cluster_id=CLUSTER), registered_brokers=known(frozenset()))
    return PreflightInput(end, seen, znodes, survey, timedelta(minutes=2))


# --- one thing that is spoiled ---


def with_node(id_: int, **fields: Any) -> Change:
    """This node is otherwise."""

    def change(asked: PreflightInput) -> PreflightInput:
        nodes = tuple(replace(one, **fields) if one.id == id_ else one for one in asked.observation.nodes)
        return replace(asked, observation=replace(asked.observation, nodes=nodes))

    return change


def with_settings(ids: tuple[int, ...], **values: Setting | str | None) -> Change:
    """These nodes have these settings; None: they do not give it. Names are written as for `settings`."""

    def own(found: Node) -> Node:
        changed = dict(found.settings)
        for name, value in values.items():
            changed.pop(name.replace("__", "."), None)
            if value is not None:
                changed[name.replace("__", ".")] = from_file(value) if isinstance(value, str) else value
        return replace(found, settings=changed)

    def change(asked: PreflightInput) -> PreflightInput:
        nodes = tuple(own(one) if one.id in ids else one for one in asked.observation.nodes)
        return replace(asked, observation=replace(asked.observation, nodes=nodes))

    return change


def with_znodes(**parts: Any) -> Change:
    """These parts of ZooKeeper are otherwise."""

    def change(asked: PreflightInput) -> PreflightInput:
        assert not isinstance(asked.znodes, Failure)
        return replace(asked, znodes=replace(asked.znodes, **parts))

    return change


def with_survey(**parts: Any) -> Change:
    """The dry run of the copy found this."""

    def change(asked: PreflightInput) -> PreflightInput:
        assert not isinstance(asked.survey, Failure)
        return replace(asked, survey=replace(asked.survey, **parts))

    return change


def with_seen(**parts: Any) -> Change:
    """The observation says this."""
    return lambda asked: replace(asked, observation=replace(asked.observation, **parts))


def as_one(*changes: Change) -> Change:
    """A change that makes these changes one after the other."""

    def change(asked: PreflightInput) -> PreflightInput:
        for one in changes:
            asked = one(asked)
        return asked

    return change


def finalized(**levels: int) -> FinalizedInZooKeeper:
    return FinalizedInZooKeeper(FeatureZnodeStatus.ENABLED, levels, 1)


ACLS = as_one(
    with_settings((1, 2), authorizer__class__name=OF_ZOOKEEPER),
    with_settings((3001, 3002), authorizer__class__name=STANDARD_AUTHORIZER),
)
"""Brokers keep ACLs in ZooKeeper."""
BROKER, CONTROLLER = Role.BROKER, Role.CONTROLLER
