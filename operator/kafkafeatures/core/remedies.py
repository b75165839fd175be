"""What cures a ghost registration, as commands to be copied: with the ids, and with the flags that reach the cluster.

Pure. Called by `core/checks.py` for blockers and by `describe`.
"""

from __future__ import annotations

import shlex

from kafkafeatures.core.blockers import Nodes, verb
from kafkafeatures.core.survey import Role

ANY_CLUSTER = "--bootstrap-server HOST:PORT"
"""Flags of a cluster whose addresses nobody named."""


ADDRESSES_SHOWN = 3


def cluster_flags(servers: str, controllers: str, config: str = "") -> str:
    """How our own commands reach a cluster. `config`: the properties file with its TLS and SASL, empty for none."""
    flag, addresses = ("--bootstrap-server", servers) if servers else ("--bootstrap-controller", controllers)
    some = ",".join("".join(addresses.split()).split(",")[:ADDRESSES_SHOWN])  # one that answers names all others
    words = [flag, some, *(["--config", config] if config else [])]
    return shlex.join(words)


def ghost_remedy(nodes: Nodes, flags: str) -> str:
    """For ghosts of the same roles."""
    return (_ghost_controllers if Role.CONTROLLER in nodes[0].roles else _ghost_brokers)(nodes, flags)


def _ghost_brokers(nodes: Nodes, flags: str) -> str:
    gone = verb(nodes, "if it is gone for good", "for each that is gone for good")
    return (
        f"{gone}: kafkafeatures unregister --broker {nodes[0].id} {flags}; "
        f"otherwise start {verb(nodes, 'it', 'them')} on the new Kafka"
    )


def _ghost_controllers(nodes: Nodes, flags: str) -> str:
    return (
        f"start a controller with id {nodes[0].id} on the new Kafka once, so that it registers anew, then remove it; "
        "from Kafka 4.4 (metadata.version 4.4-IV2) kafka-cluster.sh unregister-controller does it"
    )
