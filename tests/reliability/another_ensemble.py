"""The ensemble of another cluster, as a document with a wrong chroot names it: what is sent there is recorded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING

from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.ports import PreparedDeletion, Withheld
from kafkasim.migration.cluster import MigratingCluster
from kafkasim.migration.driver import CONTROLLER, PROGRESS
from kafkasim.migration.ports import SimulatedEnsemble
from kafkasim.plan import TopicPlan
from tests.reliability.migration_records import Strayed
from tests.reliability.recorded_world import START_MS

if TYPE_CHECKING:
    from tests.reliability.migrating_cluster import MigrationConnection


class AnotherEnsemble(SimulatedEnsemble):
    """What another chroot of the same servers holds: a cluster of the same ids, in the middle of a migration. Where the
    document names it, a transaction arrives there.
    """

    def __init__(self, connection: MigrationConnection, other: MigratingCluster) -> None:
        self._to, self._other = connection, other
        super().__init__(other)

    async def _pass_time(self, ms: int = 10) -> None:
        await self._to.reached()
        self._other.advance(max(self._other.now_ms, self._to.cluster.now_ms), sparse=True)

    @asynccontextmanager
    async def prepared(self, step: DeleteZnodes) -> AsyncIterator[PreparedDeletion | NotSent]:
        async with super().prepared(step) as transaction:
            if isinstance(transaction, NotSent):
                yield transaction
            else:
                yield _Astray(self._to, self._other, step, transaction)


class _Astray:
    """`PreparedDeletion`: it is recorded."""

    def __init__(
        self, connection: MigrationConnection, other: MigratingCluster, step: DeleteZnodes, request: PreparedDeletion
    ) -> None:
        self._to, self._other, self._step, self._request = connection, other, step, request

    async def send(self, withheld: Withheld) -> Outcome:
        outcome = await self._request.send(withheld)
        if isinstance(outcome, Applied):
            self._to.logged(self._step)
            self._to.record(Strayed, tuple(sorted(self._step.deletes)))
        return outcome


def another_cluster(random: Random) -> MigratingCluster:
    """A cluster that shares the ensemble: its quorum has taken over, or waits for its brokers."""
    made = MigratingCluster(now_ms=START_MS, random=random, topics=(TopicPlan("payments", ((1, 2, 3),), 1),))
    has_copied = random.random() < 0.5
    made.tree.delete(CONTROLLER)
    claim = {"version": 2, "brokerid": 3001, "timestamp": "0", "kraftControllerEpoch": 3}
    made.tree.create(CONTROLLER, json.dumps(claim).encode())
    progress = {
        "version": 0, "kraft_metadata_offset": 700 if has_copied else -1, "kraft_controller_id": 3001,
        "kraft_metadata_epoch": 3, "kraft_controller_epoch": 3,
    }  # fmt: skip
    made.tree.write(PROGRESS, json.dumps(progress, separators=(",", ":")).encode())
    return made
