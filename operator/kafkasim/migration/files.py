"""Properties files of nodes for each phase of a migration from ZooKeeper to KRaft.

Called by tests and by `cluster`, which runs nodes with such files. The settings are those of Kafka's documentation, and
independent of the operator's own table, which is tested with them.

Source: "ZooKeeper to KRaft Migration" of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

FLAG = "zookeeper.metadata.migration.enable"
CONNECT = "zookeeper.connect"
ROLES = "process.roles"
ENSEMBLE = "zk1:2181,zk2:2181,zk3:2181/kafka"
PROTOCOL = "3.9"
"""`inter.broker.protocol.version` of the brokers; a migration needs that of their own release."""


class Form(StrEnum):
    """Kinds of nodes by their properties file. The values are the words in which a status asks for one."""

    PLAIN_BROKER = "a broker in ZooKeeper mode"
    FLAGGED_BROKER = "a broker in ZooKeeper mode that migrates"
    KRAFT_BROKER = "a broker in KRaft mode"
    MIGRATING_CONTROLLER = "a controller that migrates"
    CONTROLLER = "a controller without ZooKeeper"


_QUORUM = {
    "controller.quorum.voters": "3001@controllers:9093,3002@controllers:9093,3003@controllers:9093",
    "controller.listener.names": "CONTROLLER",
}
_COMMON = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}
_ZOOKEEPER = {CONNECT: ENSEMBLE}
_PROPERTIES: Mapping[Form, Mapping[str, str]] = {
    Form.PLAIN_BROKER: {**_ZOOKEEPER, "broker.id": "{id}", "inter.broker.protocol.version": PROTOCOL},
    Form.FLAGGED_BROKER: {
        **_ZOOKEEPER, **_QUORUM, "broker.id": "{id}", "inter.broker.protocol.version": PROTOCOL, FLAG: "true",
    },
    Form.KRAFT_BROKER: {**_QUORUM, ROLES: "broker", "node.id": "{id}"},
    Form.MIGRATING_CONTROLLER: {**_ZOOKEEPER, **_QUORUM, ROLES: "controller", "node.id": "{id}", FLAG: "true"},
    Form.CONTROLLER: {**_QUORUM, ROLES: "controller", "node.id": "{id}"},
}  # fmt: skip


def file_of(form: Form, node_id: int) -> Mapping[str, str]:
    """The properties of a node of this kind."""
    return {name: value.format(id=node_id) for name, value in {**_COMMON, **_PROPERTIES[form]}.items()}


def is_in_zookeeper_mode(file: Mapping[str, str]) -> bool:
    """True if a broker with this file keeps its metadata in ZooKeeper."""
    return ROLES not in file


def has_flag(file: Mapping[str, str]) -> bool:
    """True if a process with this file takes part in a migration."""
    return file.get(FLAG) == "true"
