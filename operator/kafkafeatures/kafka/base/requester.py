"""Puts our own principal into messages about missing rights, so that the `kafka-acls.sh` command in them can be pasted.

Held by the pool of connections; called where a right may be missing. `kafka/base/rights.py` makes the message with a
placeholder for the user, since code that reads answers does not know the settings; this module fills in the principal
and the bootstrap servers. A principal that comes from TLS or a token stays a placeholder: brokers may map it to another
name. It also adds the remedy for a controllers' listener that needs other settings than the brokers' one.
"""

from __future__ import annotations

import shlex
from collections.abc import Set
from typing import TypeVar

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    Failure,
    FailureKind,
    NodeAnswer,
    QuorumAnswer,
    Readings,
    Role,
)
from kafkafeatures.kafka.base.rights import GRANT
from kafkafeatures.kafka.base.settings import ClusterSettings, Security

T = TypeVar("T")

_OF_A_LISTENER = frozenset(
    (FailureKind.AUTHENTICATION, FailureKind.TLS, FailureKind.NOT_KAFKA, FailureKind.DISCONNECTED)
)
"""Failures that a listener gives if it expects another security protocol, or does not know the user or the mechanism. A
controller that shuts down disconnects as well, so DISCONNECTED counts only while the quorum answers.
"""

ADMIN_CONFIG = "admin.properties"
"""A file of client properties of a user who may alter ACLs; ours need not be one."""


class Requester:
    """The user of each listener, and how `kafka-acls.sh` reaches the cluster."""

    def __init__(self, settings: ClusterSettings) -> None:
        servers, controllers = settings.bootstrap_servers, settings.bootstrap_controllers
        first_servers = ",".join(map(str, (servers or controllers)[:3]))
        security = settings.brokers if servers else settings.controllers
        words = ["--bootstrap-server" if servers else "--bootstrap-controller", first_servers]
        if security.tls is not None or security.sasl is not None:
            words += ["--command-config", ADMIN_CONFIG]
        self._is_same = settings.brokers == settings.controllers  # no settings of its own for the controllers' listener
        self._other_listener = settings.brokers.named.controllers
        self._tool = f"kafka-acls.sh {shlex.join(words)}"
        self._principals = {
            Role.BROKER: _principal(settings.brokers), Role.CONTROLLER: _principal(settings.controllers)
        }  # fmt: skip

    def principal(self, role: Role) -> str:
        """The user at the listeners of a role; empty where TLS or a token names it."""
        return self._principals[role]

    def filled_in(self, text: str, role: Role) -> str:
        """The text with the principal and the bootstrap servers in place of their placeholders."""
        if GRANT not in text:
            return text
        principal = self._principals[role]
        command = f"{self._tool} --add --allow-principal {shlex.quote(principal) if principal else 'User:NAME'}"
        text = text.replace(GRANT, command)
        return text.replace("which this user does not have", f"which {principal} does not have") if principal else text

    def named(self, reading: T, role: Role) -> T:
        """The reading; if it is a Failure for a missing right, its message and remedy name the principal."""
        if (
            not isinstance(reading, Failure)
            or reading.kind is not FailureKind.AUTHORIZATION
            or GRANT not in reading.remedy
        ):
            return reading
        principal = self._principals[role]
        message = reading.message.replace("this user", principal) if principal else reading.message
        return replace(reading, message=message, remedy=self.filled_in(reading.remedy, role))

    def of_readings(self, readings: Readings) -> Readings:
        """The readings, with `named` applied to failures of the quorum, of the lists of nodes, of the log and of the
        partitions. Where no controller answers, its failure may also get the remedy for a listener of its own.
        """
        probe, log, partitions = readings
        controllers = {f"{node.host}:{node.port}" for node in probe.nodes if node.role is Role.CONTROLLER}
        quorum = probe.quorum
        if isinstance(quorum, Failure):
            quorum = self.named(quorum, Role.CONTROLLER if quorum.location in controllers else Role.BROKER)
        brokers, listed = self.named(probe.brokers, Role.BROKER), self.named(probe.controllers, Role.CONTROLLER)
        if (quorum, brokers, listed) != (probe.quorum, probe.brokers, probe.controllers):
            probe = replace(probe, quorum=quorum, brokers=brokers, controllers=listed)
        log = self.named(log, Role.CONTROLLER)
        answering = {node.role for node in probe.nodes if isinstance(node.answer, NodeAnswer)}
        if self._is_same and answering == {Role.BROKER}:
            kinds = _OF_A_LISTENER if isinstance(quorum, QuorumAnswer) else _OF_A_LISTENER - {FailureKind.DISCONNECTED}
            remedy = self._other_listener
            log, probe = _of_other_listener(log, kinds, remedy), _with_other_listener(probe, kinds, remedy)
        return Readings(probe, log, self.named(partitions, Role.BROKER))


def _with_other_listener(probe: ClusterProbe, kinds: Set[FailureKind], remedy: str) -> ClusterProbe:
    """The probe of a cluster whose brokers answer and whose controllers do not: failures of controllers get the remedy
    for a listener that needs other settings.
    """
    nodes = tuple(
        replace(node, answer=_of_other_listener(node.answer, kinds, remedy)) if node.role is Role.CONTROLLER else node
        for node in probe.nodes
    )
    return replace(probe, nodes=nodes, controllers=_of_other_listener(probe.controllers, kinds, remedy))


def _of_other_listener(reading: T, kinds: Set[FailureKind], remedy: str) -> T:
    if not isinstance(reading, Failure) or reading.kind not in kinds:
        return reading
    return replace(reading, remedy=remedy)


def _principal(security: Security) -> str:
    """The principal that Kafka builds by default; empty where TLS or a token names it."""
    if security.sasl is not None:
        return f"User:{security.sasl.username}" if security.sasl.username else ""
    return "" if security.tls is not None else "User:ANONYMOUS"
