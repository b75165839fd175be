"""A reading of evidence about clients: the resulting check, and the brokers that had to be covered.

Values only. Made by `reconcile/client_reading.py` in the background; judged by `core/facts/client_standing.py`.
"""

from __future__ import annotations

from collections.abc import Set

from msgspec import Struct

from kafkafeatures.core.clients.senders import Sender
from kafkafeatures.core.clients.verdict import ClientCheck


class JudgedBrokers(Struct, frozen=True):
    """Registered brokers, by whether evidence has to cover them.

    ids: brokers that have to be covered.
    exempt: brokers that need not be covered, since they refuse the removed versions already.
    all_refuse: every registered broker refuses them already; then `ids` has all brokers, and `exempt` none.
    """

    ids: frozenset[int]
    exempt: frozenset[int] = frozenset()
    all_refuse: bool = False

    def includes(self, other: JudgedBrokers) -> bool:
        """Tell whether evidence that was read for these brokers also covers the brokers of `other`."""
        return other.ids <= self.ids and other.all_refuse == self.all_refuse


def judged_of(registered: frozenset[int], refusing: Set[int]) -> JudgedBrokers:
    """Divide the registered brokers. Those that still accept removed versions have to be covered, since a restart into
    a newer Kafka may break their clients; if none accepts them, all have to be. `refusing`: brokers of Kafka 4.0 or
    newer.
    """
    accepting = registered - refusing
    if not accepting:
        return JudgedBrokers(registered, all_refuse=True)
    return JudgedBrokers(accepting, exempt=registered - accepting)


class ClientsReading(Struct, frozen=True):
    """A check of one cluster, with the brokers that were registered when its evidence was read.

    senders: the clients that sent removed versions, by request logs; they change no verdict.
    problems: a line for each part of the evidence that was not used, printable and short.
    """

    check: ClientCheck
    brokers: JudgedBrokers
    senders: tuple[Sender, ...] = ()
    problems: tuple[str, ...] = ()
