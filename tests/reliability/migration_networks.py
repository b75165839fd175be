"""The part of a migrating cluster that the operator reaches by the controller addresses in its document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kafka.base.settings import Address
from kafkasim.migration.ports import MigrationNetwork
from kafkasim.node import Node

if TYPE_CHECKING:
    from tests.reliability.migrating_cluster import Migrating


class PartOfTheNetwork(MigrationNetwork):
    """The part of the cluster that the operator reaches."""

    _cluster: Migrating

    def addresses(self, role: Role) -> tuple[Address, ...]:
        """Controllers that the document names: some of the controllers, or one with a typo in its port."""
        found = super().addresses(role)
        return self.named(found) if role is Role.CONTROLLER else found

    @staticmethod
    def named(found: tuple[Address, ...]) -> tuple[Address, ...]:
        return found

    def reaches(self, node: Node) -> bool:
        return (node.role, node.id) not in self._cluster.hidden and super().reaches(node)


class FirstNamed(PartOfTheNetwork):
    @staticmethod
    def named(found: tuple[Address, ...]) -> tuple[Address, ...]:
        return found[:1]


class WithATypo(PartOfTheNetwork):
    @staticmethod
    def named(found: tuple[Address, ...]) -> tuple[Address, ...]:
        return (Address(found[0].host, found[0].port + 1_000),)


NETWORKS = {"a": PartOfTheNetwork, "first": FirstNamed, "typo": WithATypo}
"""By what stands behind the dot in spec.cluster.bootstrapControllers."""
