"""Implementation of `ZooKeeperPort` (`core/ports.py`) for the ensemble of one cluster.

Made by `app.py` and by commands. Each call opens a session of its own, so that no session is held between
reconciliations.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import assert_never

from kafkafeatures.core.engine.steps import NotSent
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure
from kafkafeatures.core.facts.znodes import Read, StoreComparison, ZooKeeperReading
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.equality import Differs, Equal
from kafkafeatures.environment import Environment
from kafkafeatures.zookeeper.compare import Log, compare
from kafkafeatures.zookeeper.copied import dry_run
from kafkafeatures.zookeeper.deletion import Deletion, prepared
from kafkafeatures.zookeeper.ensemble import Ensemble
from kafkafeatures.zookeeper.reader import read_controller, read_zookeeper


class ZooKeeper:
    """An ensemble. Between calls only the last survey is kept.

    environment: its clock gives the time of a reading.
    whole_log: opens the metadata log of the cluster, to be read as a whole; None: nothing is compared with it.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        environment: Environment,
        whole_log: Callable[[], AbstractAsyncContextManager[Log]] | None = None,
    ) -> None:
        self._ensemble, self._environment, self._whole_log = ensemble, environment, whole_log
        self._surveyed: tuple[float, Survey] | None = None

    async def read(self) -> ZooKeeperReading | Failure:
        """Read what a migration depends on, in one session."""
        return await read_zookeeper(self._ensemble, self._environment.clock)

    async def controller(self) -> Read[ControllerClaim]:
        """Read `/controller` alone."""
        return await read_controller(self._ensemble)

    async def compare(self, cluster_id: str) -> StoreComparison | Failure:
        """Compare everything that Kafka copied with the metadata log (`compare.py`)."""
        if self._whole_log is None:
            return NOT_ASKED
        began = self._environment.monotonic()
        async with self._whole_log() as log:
            equality = await compare(self._ensemble, log, cluster_id, self._environment)
        took = self._environment.monotonic() - began
        match equality:
            case Unknown(failure=failure):
                return failure
            case Equal(offset=offset):
                return StoreComparison(self._environment.clock(), offset, took=took)
            case Differs(offset=offset):
                differences, at = tuple(map(str, equality.examples)), self._environment.clock()
                return StoreComparison(at, offset, equality.total, str(equality), differences, took, equality.digest)
            case _:
                assert_never(equality)

    async def survey(self, within: float) -> Survey | Failure:
        """Survey of all znodes that Kafka copies: the last one, if it is not older than `within` seconds."""
        began = self._environment.monotonic()
        if self._surveyed is not None and began - self._surveyed[0] < within:
            return self._surveyed[1]
        survey = await dry_run(self._ensemble)
        self._surveyed = None if isinstance(survey, Failure) else (began, survey)
        return survey

    def prepared(self, step: DeleteZnodes) -> AbstractAsyncContextManager[Deletion | NotSent]:
        """Prepare the transaction in a session of its own; nothing is sent yet."""
        return prepared(self._ensemble, step)
