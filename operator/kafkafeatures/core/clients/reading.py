"""A reading of evidence about clients: the check that it gave, and the brokers that it was made for.

Made by `reconcile/client_evidence.py` in the background; judged by `core/facts/client_standing.py`.
"""

from __future__ import annotations

from collections.abc import Set

from msgspec import Struct

from kafkafeatures.core.clients.verdict import ClientCheck


class JudgedBrokers(Struct, frozen=True):
    """Brokers that evidence has to cover. `all_refuse`: they refuse the removed versions already, each of them."""

    ids: frozenset[int]
    all_refuse: bool = False

    def includes(self, other: JudgedBrokers) -> bool:
        """Tell whether evidence for these brokers is evidence for the others."""
        return other.ids <= self.ids and other.all_refuse == self.all_refuse


def judged_of(registered: frozenset[int], refusing: Set[int]) -> JudgedBrokers:
    """Registered brokers that still accept removed versions, since to restart them may break clients;
    all of them where none does. `refusing`: those that run Kafka 4.0 or newer.
    """
    accepting = registered - refusing
    return JudgedBrokers(accepting or registered, all_refuse=not accepting)


class ClientsReading(Struct, frozen=True):
    """A check of one cluster, with the brokers that were registered when its evidence was read."""

    check: ClientCheck
    brokers: JudgedBrokers
