"""Values of inter.broker.protocol.version (here: the version) that brokers report, and the roll that comes next.

Pure. Made by `core/ibp/state.py` in each reconciliation, from its readings alone. A broker reports the version that it
uses, whether its own file sets it, and the default. The default is the newest version that its Kafka knows; it is the
only sign of the release that a broker in ZooKeeper mode runs, as its ApiVersions response has no features.

The order of the rolls is that of Kafka's documentation (upgrade to 3.9 in ZooKeeper mode): first the present version is
set in the files, then the Kafka of every broker is replaced, then the version is raised. Each is a roll of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cached_property

from msgspec import Struct

from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.observation import Known, Node, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.settings import IBP, Setting, SettingSource
from kafkafeatures.core.ibp.versions import Version, version_of

GRANT = "grant DESCRIBE_CONFIGS on the cluster to the operator's user"


class RollPurpose(Enum):
    """Purposes of the rolls to another version, in the order in which the rolls are made."""

    PIN = "set the version that is used now"
    KAFKA = "a newer Kafka"
    RAISE = "raise the version"


class Broker(Struct, frozen=True):
    """Version of a broker.

    node: the broker.
    uses: the version that it uses.
    is_set: the broker sets the version; if not, a newer Kafka would raise it, as its default is higher.
    knows: the newest version that its Kafka knows.
    """

    node: Node
    uses: Version
    is_set: bool
    knows: Version

    def needs(self, target: Version) -> RollPurpose | None:
        """Purpose of the next restart of this broker; None if it needs none."""
        if not self.is_set:
            return RollPurpose.PIN
        if self.knows < target:
            return RollPurpose.KAFKA
        return RollPurpose.RAISE if self.uses < target else None


class IbpProgress(Struct, frozen=True, dict=True):
    """Progress of a cluster on the way to a version.

    observation: the readings of the cluster.
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
        """Purpose of the next roll: the first one that any broker needs. So no broker gets another Kafka before all set
        the version, and none gets a higher version before all know it. None if nothing is left to do, or no broker
        reported its version.
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
        """Tell whether every broker reported that it sets a version and uses the target, or a higher one."""
        return bool(self.brokers) and not self.unknown and self.roll is None

    @property
    def claim(self) -> ControllerClaim | None:
        """Claim of the broker that is controller; None if there is none, or it could not be read."""
        claim = self.observation.zookeeper.value.controller if isinstance(self.observation.zookeeper, Known) else None
        return claim if isinstance(claim, ControllerClaim) else None

    def lines(self, id_: int) -> str:
        """Changes that this broker needs before its next start, for people; only for a broker that needs a restart."""
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
    """Progress by the report of each broker. The caller judges the metadata mode of the cluster."""
    return IbpProgress(
        observation, target, {node.id: broker_of(node) for node in observation.nodes if Role.BROKER in node.roles}
    )


def broker_of(node: Node) -> Broker | Failure:
    """Versions that a broker uses and knows; a Failure if it did not report both, or did not prove its id."""
    if not node.proved_at:
        guess = Failure(FailureKind.AUTHORIZATION, node.title, "its settings could not be read", GRANT)
        return node.identity_failure or guess
    setting = node.settings.get(IBP)
    uses, knows = _version(setting, None), _version(setting, SettingSource.DEFAULT)
    if setting is None or uses is None or knows is None:
        text = f"it does not say which {IBP} it uses, and which it knows"
        return Failure(FailureKind.UNSUPPORTED, node.title, text, "restart it with a Kafka from 2.x or 3.x")
    return Broker(node, uses, setting.source is not SettingSource.DEFAULT, knows)


def _version(setting: Setting | None, layer: SettingSource | None) -> Version | None:
    """Version in use; with `layer`, the version from that source. None if there is none, or it is not known.

    A setting that has only its default has no entry for it in `layers`, so its own value counts.
    """
    if setting is None:
        return None
    if layer is None or setting.source is layer:
        return version_of(setting.value or "")
    return version_of(setting.layers.get(layer, ""))
