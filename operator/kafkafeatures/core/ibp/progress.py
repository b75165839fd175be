"""Versions of inter.broker.protocol.version that brokers report, and the roll that comes next.

Pure. Made in each reconciliation, from its readings alone. A broker reports the value, whether its own file sets it,
and its default. The default is the newest version that its Kafka knows, and so tells which Kafka a broker in ZooKeeper
mode runs, where ApiVersions names no feature that would.

The order is that of Kafka's documentation (upgrade of 3.9, ZooKeeper): the current version is set in the files, then
the Kafka of every broker is replaced, then the version is raised. Each of the three is a roll of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cached_property

from msgspec import Struct

from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.observation import Known, Node, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.settings import IBP, Setting, SettingSource
from kafkafeatures.core.ibp.versions import Version, version_of

GRANT = "grant DESCRIBE_CONFIGS on the cluster to the operator's user"


class RollPurpose(Enum):
    """Purposes of the restarts of brokers, in this order."""

    PIN = "set the version that is used now"
    KAFKA = "a newer Kafka"
    RAISE = "raise the version"


class Broker(Struct, frozen=True):
    """Version of one broker.

    node: the broker.
    uses: the version that it uses.
    is_set: its file sets the version; if not, another Kafka would raise it by itself.
    knows: the newest version that its Kafka knows.
    """

    node: Node
    uses: Version
    is_set: bool
    knows: Version

    def needs(self, target: Version) -> RollPurpose | None:
        """Purpose of its next restart; None where it is as it has to be."""
        if not self.is_set:
            return RollPurpose.PIN
        if self.knows < target:
            return RollPurpose.KAFKA
        return RollPurpose.RAISE if self.uses < target else None


class IbpProgress(Struct, frozen=True, dict=True):
    """Progress of a cluster on the way to a version.

    observation: what was read of the cluster.
    target: the version that the document names.
    brokers: version of each broker, by id; a Failure if it did not report it.
    """

    observation: Observation
    target: Version
    brokers: Mapping[int, Broker | Failure]

    @cached_property
    def known_brokers(self) -> Mapping[int, Broker]:
        """Brokers that reported their version, by id."""
        return {id_: broker for id_, broker in self.brokers.items() if isinstance(broker, Broker)}

    @cached_property
    def needs(self) -> Mapping[int, RollPurpose | None]:
        """Purpose of the next restart of each known broker, by id; None if it needs none."""
        return {id_: broker.needs(self.target) for id_, broker in self.known_brokers.items()}

    @cached_property
    def roll(self) -> RollPurpose | None:
        """Next roll: no broker gets another Kafka while another one would raise the version by itself, and none gets a
        higher version before all know it. None where nothing is left to do, or no broker said anything.
        """
        return next((roll for roll in RollPurpose if roll in self.needs.values()), None)

    @property
    def differing(self) -> Mapping[int, Broker]:
        """Brokers that are restarted in the next roll."""
        return {id_: broker for id_, broker in self.known_brokers.items() if self.roll and self.needs[id_] is self.roll}

    @property
    def unknown(self) -> Mapping[int, Failure]:
        """Failure of each broker whose version is not known, by id."""
        return {id_: failure for id_, failure in self.brokers.items() if isinstance(failure, Failure)}

    @property
    def is_reached(self) -> bool:
        """Tell whether every broker reported that it uses the target."""
        return bool(self.brokers) and not self.unknown and self.roll is None

    @property
    def claim(self) -> ControllerClaim | None:
        """Claim of the broker that is controller."""
        claim = self.observation.zookeeper.value.controller if isinstance(self.observation.zookeeper, Known) else None
        return claim if isinstance(claim, ControllerClaim) else None

    def lines(self, id_: int) -> str:
        """Changes that this broker needs when it is started again, for people."""
        broker, roll = self.known_brokers[id_], self.needs[id_]
        if roll is RollPurpose.KAFKA:
            last = f" (3.x, at least {self.target.of_release})"
            return (
                f"Kafka {self.target.of_release}{last}, and still {IBP}={broker.uses}; it knows {broker.knows} at most"
            )
        if roll is RollPurpose.PIN:
            return f"the same Kafka, and {IBP}={broker.uses}; it is not set, and a newer Kafka has a higher default"
        return f"the same Kafka, and {IBP}={self.target}; it is {broker.uses}"


def progress_of(observation: Observation, target: Version) -> IbpProgress:
    """Progress by what each broker reports. The caller has made sure of the mode of the cluster."""
    return IbpProgress(
        observation, target, {node.id: broker_of(node) for node in observation.nodes if Role.BROKER in node.roles}
    )


def broker_of(node: Node) -> Broker | Failure:
    """Versions that a broker uses and knows; a Failure if it reports neither them nor a proof of its id."""
    if not node.proved_at:
        if isinstance(node.answer, Unknown):
            return node.answer.failure
        return Failure(FailureKind.AUTHORIZATION, node.title, "its settings could not be read", GRANT)
    setting = node.settings.get(IBP)
    uses, knows = _version(setting, None), _version(setting, SettingSource.DEFAULT)
    if setting is None or uses is None or knows is None:
        text = f"it does not say which {IBP} it uses, and which it knows"
        return Failure(FailureKind.UNSUPPORTED, node.title, text, "restart it with a Kafka from 2.x or 3.x")
    return Broker(node, uses, setting.source is not SettingSource.DEFAULT, knows)


def _version(setting: Setting | None, layer: SettingSource | None) -> Version | None:
    """The version that is in use; with `layer` the one that this source says. A lone default is its own layer."""
    if setting is None:
        return None
    if layer is None or setting.source is layer:
        return version_of(setting.value or "")
    return version_of(setting.layers.get(layer, ""))
