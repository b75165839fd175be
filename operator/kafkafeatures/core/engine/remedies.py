"""Remedies for three kinds of nodes: registered and gone (ghosts), running and not registered, running without a vote.

Remedies are for the blockers of checks, and for the command `describe`. A remedy for ghosts contains a command to be
copied, with the id of a node and the flags with which our commands reach the cluster. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.engine.blockers import Nodes, shortened, these, title_of, verb
from kafkafeatures.core.facts.observation import Known, Node, Unknown
from kafkafeatures.core.facts.quorum import QuorumMode
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.core.facts.releases import CONTROLLER_UNREGISTRATION, LOWEST_FOR_FEATURES, format_level

ADDRESSES_SHOWN = 3
"""Most addresses in the flags of a remedy."""


def cluster_flags(servers: str, controllers: str, config: str = "") -> str:
    """Flags with which our commands reach a cluster. `config`: its properties file with TLS and SASL; empty for
    none.
    """
    flag, addresses = ("--bootstrap-server", servers) if servers else ("--bootstrap-controller", controllers)
    # A few are enough: a node that answers names all others.
    some = ",".join("".join(addresses.split()).split(",")[:ADDRESSES_SHOWN])
    words = [flag, some, *(["--config", config] if config else [])]
    return shlex.join(words)


def ghost_remedy(
    nodes: Nodes, flags: str, finalized: Known[Mapping[str, int]] | Unknown, *, is_outdated: bool = False
) -> str:
    """Remedy for ghosts of the same roles. `finalized`: the finalized levels; Kafka can unregister a controller only
    from a certain metadata.version on. `is_outdated`: the Kafka that they registered with lacks a level.
    """
    if Role.CONTROLLER not in nodes[0].roles:
        return _ghost_brokers(nodes, flags, " on the new Kafka" if is_outdated else "")
    unregister = f"{verb(nodes, '', 'for each of them: ')}kafkafeatures unregister --controller {nodes[0].id} {flags}"
    if isinstance(finalized, Known) and finalized.value.get(METADATA_VERSION, 0) >= CONTROLLER_UNREGISTRATION:
        return unregister
    return (
        f"{before_controllers_can_be_unregistered(nodes)}; once metadata.version "
        f"{format_level(METADATA_VERSION, CONTROLLER_UNREGISTRATION)} is finalized: {unregister}"
    )


def in_its_place(nodes: Nodes) -> str:
    """Sentence on what runs in the place of the ghosts, the same for all of them; empty if nothing is known."""
    replacement = nodes[0].replaced_by
    if replacement is None:
        return ""
    if len(nodes) == 1:
        return replacement.message
    if replacement.kind is FailureKind.OTHER_ROLE:
        role = "brokers" if nodes[0].roles == (Role.CONTROLLER,) else "controllers"
        return f"the processes with these ids are only {role} now"
    return "their addresses are those of other nodes now"


def kind_of_replacement(node: Node) -> FailureKind | None:
    """Kind of what runs in the place of a ghost; None if nothing is known."""
    return node.replaced_by.kind if node.replaced_by is not None else None


def before_controllers_can_be_unregistered(nodes: Nodes) -> str:
    """Remedy if a ghost controller prevents the very level from which on Kafka can unregister controllers."""
    ids = shortened(node.id for node in nodes)
    return (
        f"start {verb(nodes, 'a controller with id', 'controllers with the ids')} {ids} on the new Kafka once, so that "
        f"{verb(nodes, 'it registers', 'they register')} again, then stop {verb(nodes, 'it', 'them')}"
    )


def observer_remedy(nodes: Nodes, mode: QuorumMode | None) -> str:
    """Remedy for controllers that run and are no voters. `mode`: static or dynamic quorum; None if it is not known."""
    them, is_dynamic = verb(nodes, "it", "them"), mode is QuorumMode.DYNAMIC
    joins = (
        f"add {them} with kafka-metadata-quorum.sh add-controller"
        if is_dynamic
        else f"add {them} to controller.quorum.voters of all nodes"
    )
    removed = verb(nodes, "a voter that was removed and still runs", "voters that were removed and still run")
    joined = f"; {removed} may join again by {verb(nodes, 'itself', 'themselves')}" if is_dynamic else ""
    return f"{joins}, or shut {them} down{joined}"


def refused_texts(nodes: Nodes, finalized: Known[Mapping[str, int]] | Unknown) -> tuple[str, str]:
    """Message and remedy for nodes that run and are not registered; all have the same roles and the same mode."""
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
    is_below = level is not None and level < LOWEST_FOR_FEATURES
    if level is not None and is_below:  # then a Kafka that is too new is the likelier reason
        other_kafka = (
            f"run Kafka 3.x on {these(nodes)}: Kafka 4.0 and newer do not support metadata.version "
            f"{format_level(METADATA_VERSION, level)}"
        )
    if not nodes[0].roles:
        return (
            f"{who} {verb(nodes, 'fetches', 'fetch')} the metadata log, but {is_} registered neither as "
            f"{verb(nodes, 'a broker nor as a controller', 'brokers nor as controllers')}",
            "a process that has just started registers itself; if this lasts for more than 2 minutes, see the log of "
            f"{these(nodes)}: a broker that does not support the finalized levels is rejected, so "
            f"{other_kafka if is_below else 'upgrade'} or stop it",
        )
    return (
        f"{who} {verb(nodes, 'keeps', 'keep')} fetching the metadata log but {is_} not registered: the active "
        f"controller rejects {verb(nodes, 'it', 'them')}",
        f"{other_kafka}, or stop {verb(nodes, 'it', 'them')}; the active controller's log says why",
    )


def _ghost_brokers(nodes: Nodes, flags: str, release: str) -> str:
    unregister, replacement = f"kafkafeatures unregister --broker {nodes[0].id} {flags}", kind_of_replacement(nodes[0])
    if replacement is FailureKind.OTHER_ROLE:  # the process with this id runs, and is no longer a broker
        return f"{verb(nodes, '', 'for each of them: ')}{unregister}"
    gone = verb(nodes, "if it is permanently gone", "for each that is permanently gone")
    address = verb(nodes, ", at another address", ", each at another address") if replacement is not None else ""
    return f"{gone}: {unregister}; otherwise start {verb(nodes, 'it', 'them')}{release}{address}"
