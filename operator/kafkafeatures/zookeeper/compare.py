"""Comparison of ZooKeeper with the metadata log during a dual write: whether both have the same metadata.

Used by `migration compare`, and before a migration closes a way back. A change takes a moment from the log to
ZooKeeper, so a difference in one reading proves nothing. Znodes that differ are read again, once `/migration` shows
that ZooKeeper has everything up to the offset at which the log was read; in at most three rounds. If the log has
changed for such a znode by then, the result is unknown. A difference that remains is a write to ZooKeeper that was lost
(`core/migration/equality.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Protocol, TypeVar

from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import parsed
from kafkafeatures.core.migration.copied.comparison import Comparison
from kafkafeatures.core.migration.copied.expected import Expected
from kafkafeatures.core.migration.equality import Differs, Equal, Equality
from kafkafeatures.core.words import counted
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.zookeeper.copied import read_copied
from kafkafeatures.zookeeper.ensemble import Ensemble
from kafkafeatures.zookeeper.reader import cluster_znode
from kafkafeatures.zookeeper.session import Session
from kraftlog.image import Image, ZkMigrationState

T = TypeVar("T")

ROUNDS = 3
"""Rounds at most, each over the znodes that differed in the one before."""
CAUGHT_UP_WITHIN = 15.0
"""Seconds in which ZooKeeper must reach the offset of the log; an idle controller writes the offset twice a second."""
PAUSE = 0.25
"""Seconds between two readings of `/migration`."""

LOG = "metadata log"
"""Location of failures of the log."""


class Log(Protocol):
    """A reader of the whole metadata log (`kafka/log/whole.py`)."""

    def image(self) -> Awaitable[Image | Failure]:
        """The image of all records that are committed by now."""

    def without_secrets(self, reading: T) -> T:
        """The reading without the secrets of this client, so that it may be shown."""


async def compare(ensemble: Ensemble, log: Log, cluster_id: str, environment: Environment) -> Equality:
    """Compare in at most three rounds; Unknown where that is not possible. `cluster_id`: of the nodes whose log is
    read; an ensemble of another cluster is not compared.
    """
    try:
        async with Session(ensemble) as session:
            outcome = await _Rounds(session, log, environment).run(cluster_id)
    except KafkaError as error:
        outcome = to_failure(error, f"ZooKeeper {ensemble}")
    return log.without_secrets(Unknown(outcome) if isinstance(outcome, Failure) else outcome)


class _Rounds:
    """One comparison, in one session."""

    def __init__(self, session: Session, log: Log, environment: Environment) -> None:
        self._session, self._log, self._environment = session, log, environment

    async def run(self, cluster_id: str) -> Equality | Failure:
        """Compare all znodes, then in later rounds only those that differed."""
        image = await self._not_comparable(cluster_id) or await self._image()
        if isinstance(image, Failure):
            return image
        start_offset, paths = image.offset, None
        for last in (*[False] * (ROUNDS - 1), True):
            comparison = await self._compared(image, paths)
            if isinstance(comparison, Failure):
                return comparison
            if not comparison.differing:
                return Equal(start_offset)
            later = await self._image()
            if isinstance(later, Failure):
                return later
            if last:
                return await run_in_thread(partial(_judged, comparison, image, later))
            paths = comparison.paths_of(comparison.differing)
            failure = await self._caught_up(later.offset)
            if failure is not None:
                return failure
            image = later
        raise AssertionError("the last round returns")

    async def _compared(self, image: Image, selected: frozenset[str] | None) -> Comparison | Failure:
        """The comparison of one round, of the znodes `selected` or of all. Partly in a thread: with many topics it
        takes a moment to compute the expected znodes.
        """
        comparison = await run_in_thread(lambda: Comparison(Expected(image), selected))
        failure = await read_copied(self._session, comparison, selected)
        if failure is not None or comparison.failures:
            return failure or comparison.failures[0]
        await run_in_thread(comparison.finish)
        return comparison

    async def _image(self) -> Image | Failure:
        """The metadata log as it is now; a Failure unless it is in the state of a dual write."""
        image = await self._log.image()
        if isinstance(image, Failure) or image.zk_migration_state == ZkMigrationState.MIGRATION:
            return image
        if image.zk_migration_state == ZkMigrationState.POST_MIGRATION:
            return Failure(
                FailureKind.UNSUPPORTED, LOG, "the migration is finalized: ZooKeeper is no longer written to"
            )
        return Failure(
            FailureKind.UNSUPPORTED,
            LOG,
            "nothing was copied from ZooKeeper yet, so there is nothing to compare",
            "compare at Copied or DualWrite; kafkafeatures describe with --zookeeper shows where the cluster is",
        )

    async def _not_comparable(self, cluster_id: str) -> Failure | None:
        """Failure where the ensemble is that of another cluster, or `/migration` cannot be read; else None."""
        identity = await cluster_znode(self._session, cluster_id)
        if isinstance(identity, Failure):
            return identity
        progress = await self._offset()
        return progress if isinstance(progress, Failure) else None

    async def _caught_up(self, offset: int) -> Failure | None:
        """Wait until ZooKeeper has all that the log had up to this offset (exclusive)."""
        until = self._environment.monotonic() + CAUGHT_UP_WITHIN
        while True:
            written_offset = await self._offset()
            if isinstance(written_offset, Failure):
                return written_offset
            if written_offset >= offset - 1:  # `/migration` has the last record that was written, not the next one
                return None
            if self._environment.monotonic() >= until:
                return Failure(
                    FailureKind.STALE,
                    "znode /migration",
                    f"ZooKeeper was written to up to offset {written_offset} of the metadata log; {CAUGHT_UP_WITHIN:g} "
                    f"s ago that had {offset - 1}",
                    "see in the log of the active controller why it does not write to ZooKeeper",
                )
            await self._environment.sleep(PAUSE)

    async def _offset(self) -> int | Failure:
        """Offset up to which the log was written to ZooKeeper; -1 for none."""
        failure = await self._session.synced("/migration")
        if failure is not None:
            return failure
        progress = parsed(await self._session.get("/migration"), znodes.migration)
        if isinstance(progress, Failure):
            return progress
        return -1 if progress is None else progress.offset


def _judged(comparison: Comparison, image: Image, later: Image) -> Equality | Failure:
    """Outcome of the last round: differences without znodes that changed in the log in between. `later`: the log after
    the round.
    """
    moved = comparison.moved_in(Expected(later))
    differences = comparison.differences(excluded=moved)
    if differences:
        return Differs(image.offset, differences, comparison.omitted)
    return Failure(
        FailureKind.STALE,
        "ZooKeeper",
        f"{counted(len(moved), 'znode')} changed while compared, in {ROUNDS} rounds: {', '.join(sorted(moved)[:5])}",
        "compare again when less is changed",
    )
