"""What cures a ghost registration, as commands to be copied: with the ids, and with the flags that reach the cluster;
and what lets a broker in that is not registered.

Pure. Called for blockers and by `describe`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.engine.blockers import Nodes, shortened, these, title_of, verb
from kafkafeatures.core.facts.observation import Known, Unknown
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import CONTROLLER_UNREGISTRATION, LOWEST_FOR_FEATURES, format_level

ANY_CLUSTER = "--bootstrap-server HOST:PORT"
"""Flags of a cluster whose addresses are not known."""


ADDRESSES_SHOWN = 3


def cluster_flags(servers: str, controllers: str, config: str = "") -> str:
    """How our own commands reach a cluster. `config`: the properties file with its TLS and SASL, empty for none."""
    flag, addresses = ("--bootstrap-server", servers) if servers else ("--bootstrap-controller", controllers)
    some = ",".join("".join(addresses.split()).split(",")[:ADDRESSES_SHOWN])  # one that answers names all others
    words = [flag, some, *(["--config", config] if config else [])]
    return shlex.join(words)


def ghost_remedy(nodes: Nodes, flags: str, finalized: Known[Mapping[str, int]] | Unknown) -> str:
    """The remedy for ghosts of the same roles. `finalized`: Kafka can unregister a controller from a level on."""
    if Role.CONTROLLER not in nodes[0].roles:
        return _ghost_brokers(nodes, flags)
    unregister = f"{verb(nodes, '', 'for each of them: ')}kafkafeatures unregister --controller {nodes[0].id} {flags}"
    if isinstance(finalized, Known) and finalized.value.get(METADATA_VERSION, 0) >= CONTROLLER_UNREGISTRATION:
        return unregister
    return (
        f"{before_controllers_can_be_unregistered(nodes)}; once metadata.version "
        f"{format_level(METADATA_VERSION, CONTROLLER_UNREGISTRATION)} is finalized: {unregister}"
    )


def before_controllers_can_be_unregistered(nodes: Nodes) -> str:
    """The way out while a ghost itself prevents the level from which Kafka can unregister it."""
    ids = shortened(node.id for node in nodes)
    return (
        f"start {verb(nodes, 'a controller with id', 'controllers with the ids')} {ids} on the new Kafka once, so that "
        f"{verb(nodes, 'it registers', 'they register')} again, then stop {verb(nodes, 'it', 'them')}"
    )


def refusal(nodes: Nodes, finalized: Known[Mapping[str, int]] | Unknown) -> tuple[str, str]:
    """The message and the remedy for brokers of the same mode that the active controller does not register."""
    who, is_ = title_of(nodes), verb(nodes, "is", "are")
    if nodes[0].runs_in_kraft_mode is False:
        return (
            f"{who} {verb(nodes, 'runs', 'run')} in ZooKeeper mode, and {is_} not registered with the controllers, "
            "which have taken over from ZooKeeper",
            f"restart {these(nodes)} as the other brokers are: kafkafeatures migration settings shows every line; the "
            "broker's log says why it is not registered",
        )
    level = finalized.value.get(METADATA_VERSION, LOWEST_FOR_FEATURES) if isinstance(finalized, Known) else None
    other_kafka = f"upgrade Kafka on {these(nodes)} so that it supports the finalized levels"
    if level is not None and level < LOWEST_FOR_FEATURES:  # then a Kafka that is too new is the likelier reason
        other_kafka = (
            f"run Kafka 3.x on {these(nodes)}: Kafka 4.0 and newer do not support metadata.version "
            f"{format_level(METADATA_VERSION, level)}"
        )
    return (
        f"{who} {verb(nodes, 'keeps', 'keep')} fetching the metadata log but {is_} not registered: the active "
        f"controller rejects {verb(nodes, 'it', 'them')}",
        f"{other_kafka}, or stop {verb(nodes, 'it', 'them')}; the active controller's log says why",
    )


def _ghost_brokers(nodes: Nodes, flags: str) -> str:
    gone = verb(nodes, "if it is permanently gone", "for each that is permanently gone")
    return (
        f"{gone}: kafkafeatures unregister --broker {nodes[0].id} {flags}; "
        f"otherwise start {verb(nodes, 'it', 'them')} on the new Kafka"
    )
