"""Input of the checks before each step of a migration: a reading of the cluster, and what is remembered of earlier
ones.

Pure. Made by `core/migration/state.py`; read by `core/migration/checks.py` and the modules beside it that it calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct, field

from kafkafeatures.api.status import ConsentRequest, EqualityStatus, VoterStatus
from kafkafeatures.core.facts.observation import Node
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.migration.consents import Consentable
from kafkafeatures.core.migration.progress import MigrationProgress


class EdgeCheckInput(Struct, frozen=True):
    """Everything that decides whether the next step of a migration may be taken.

    progress: position of the cluster, and the way that comes next.
    consents: consents of the document.
    spent: consents that were used for something else.
    flying: ids of nodes that are being restarted, of which nothing is expected.
    replication: all partitions; None: not known.
    lag: seconds by which ZooKeeper is behind the metadata log; None: not known.
    compared: comparison of ZooKeeper with the metadata log, made moments ago; None: there is none.
    closes: the next step can be taken now, so that it closes a way back if it leads over one; False while something
        else has to come first, such as an approval.
    still_for: seconds for which `/migration` has not changed.
    controllers_for: time for which controllers have answered without a break.
    is_written: `/migration` changes although no controller answers.
    controllers: names of the StatefulSets of controllers in the document.
    equality: the last comparison, from the status.
    voters: voters of the quorum, from the status.
    requested: consents that a person was asked for, from the status.
    lost_brokers: brokers that, once no controller is left, are not certain to run in ZooKeeper mode; by id, with the
        consent to lose them.
    consentable: everything that a person may consent to now (`core/migration/losses.py`).
    """

    progress: MigrationProgress
    consents: frozenset[str]
    spent: frozenset[str]
    flying: frozenset[int] = frozenset()
    replication: Replication | None = None
    lag: float | None = None
    compared: StoreComparison | None = None
    closes: bool = True
    still_for: float = 0.0
    controllers_for: timedelta = timedelta(0)
    is_written: bool = False
    controllers: frozenset[str] = frozenset()
    equality: EqualityStatus | None = None
    voters: tuple[VoterStatus, ...] = ()
    requested: tuple[ConsentRequest, ...] = ()
    lost_brokers: Mapping[int, Consentable] = field(default_factory=dict)
    consentable: tuple[Consentable, ...] = ()

    def nodes(self, role: Role) -> tuple[Node, ...]:
        """Nodes of this role that are not being restarted."""
        return tuple(
            node for node in self.progress.observation.nodes if role in node.roles and node.id not in self.flying
        )
