"""A reading of evidence about clients: the check that it gave, and the brokers that it was made for.

Made by `reconcile/client_evidence.py` in the background; judged by `core/facts/client_standing.py`.
"""

from __future__ import annotations

from collections.abc import Set

from msgspec import Struct

from kafkafeatures.core.clients.verdict import ClientCheck


class JudgedBrokers(Struct, frozen=True):
    """Brokers that evidence has to cover. `exempt`: registered ones that it need not cover, since they refuse the
    removed versions already. `all_refuse`: each of those to cover does.
    """

    ids: frozenset[int]
    exempt: frozenset[int] = frozenset()
    all_refuse: bool = False

    def includes(self, other: JudgedBrokers) -> bool:
        """Tell whether evidence for these brokers is evidence for the others."""
        return other.ids <= self.ids and other.all_refuse == self.all_refuse


def judged_of(registered: frozenset[int], refusing: Set[int]) -> JudgedBrokers:
    """Registered brokers that still accept removed versions, since to restart them may break clients;
    all of them where none does. `refusing`: those that run Kafka 4.0 or newer.
    """
    accepting = registered - refusing
    if not accepting:
        return JudgedBrokers(registered, all_refuse=True)
    return JudgedBrokers(accepting, exempt=registered - accepting)


class ClientsReading(Struct, frozen=True):
    """A check of one cluster, with the brokers that were registered when its evidence was read."""

    check: ClientCheck
    brokers: JudgedBrokers
