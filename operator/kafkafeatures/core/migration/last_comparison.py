"""Whether ZooKeeper held all metadata when the controllers stopped: after the way back nothing else holds it.

Pure. Without controllers the metadata log cannot be read, and nothing can be compared: what counts is the last
comparison, which `core/migration/now.py` has made again and again until they stopped. How long before that it was, is
measured by one clock alone, that of ZooKeeper: from the last write to `/migration` before the comparison to the last
one of all. What was changed in between may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from kafkafeatures.api.names import ZK_ROLLBACK_LOSSY
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.status import EqualityStatus
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.znodes import MigrationProgress
from kafkafeatures.core.migration.kept import COMPARED_WITHIN
from kafkafeatures.core.migration.place import Place
from kafkafeatures.core.words import counted, format_span

REMEDY = (
    "start the controllers again on the disks that they have, and stop them once KafkaFeatures asks for it; or add "
    f"{ZK_ROLLBACK_LOSSY} to consents, if metadata that ZooKeeper lacks may be lost"
)


def what_is_lacking(place: Place, last: EqualityStatus | None) -> Iterator[Blocker]:
    """Where the last comparison does not show that ZooKeeper held all metadata. last: as the status has it."""
    written = place.znodes.migration
    if isinstance(written, Failure):
        return  # nothing can be deleted then
    if written is not None and written.offset < 0:
        return  # nothing was copied, so nothing but ZooKeeper was ever written to
    if last is not None and last.differences:
        found = counted(last.differences, "difference")
        text = f"ZooKeeper and the metadata log differed before the controllers stopped: {found}"
        yield Blocker(BlockerKind.METADATA, text, REMEDY)
    elif why := _unknown(written, last):
        text = f"it is not known whether ZooKeeper holds all metadata: {why}"
        yield Blocker(BlockerKind.MIGRATION, text, REMEDY, reason=Reason.MIGRATION_BLOCKED)


def _unknown(written: MigrationProgress | None, last: EqualityStatus | None) -> str:
    """Why the last comparison does not count; empty where it does."""
    if last is None or last.differences is None or last.written_at is None:
        return "ZooKeeper was not compared with the metadata log before the controllers stopped"
    if written is None:
        return "/migration is absent, so it is not known how long before the end the last comparison was"
    between = written.written_at - datetime.fromisoformat(last.written_at)
    if abs(between) <= timedelta(seconds=COMPARED_WITHIN):
        return ""
    if between < timedelta(0):
        return f"/migration is {format_span(-between)} older than at the last comparison, as if restored from a backup"
    return f"ZooKeeper was last compared with the metadata log {format_span(between)} before the controllers stopped"
