"""Whether ZooKeeper held all metadata when the controllers stopped: after the way back nothing else holds it.

Pure. Without controllers the metadata log cannot be read, and nothing can be compared: what counts is the last
comparison, which `core/migration/now.py` has made again and again until they stopped. How long before that it was, is
measured by ZooKeeper's clock: from the last write to `/migration` before the comparison to the last one of all. What
was changed in between may be lost; so may be what was changed while the controllers could not write to ZooKeeper and
the operator did not look.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kafkafeatures.api.names import ZK_ROLLBACK_LOSSY
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.status import EqualityStatus
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.znodes import MigrationProgress
from kafkafeatures.core.migration.place import Place
from kafkafeatures.core.words import counted, format_span

LAST_WITHIN = timedelta(minutes=5)
"""How long before the end the last comparison may be: that of a large cluster takes a minute."""
CLOCKS_DIFFER = timedelta(seconds=10)
"""By how much the servers of an ensemble may differ: a later write may seem earlier."""

ACCEPT = f"add {ZK_ROLLBACK_LOSSY} to consents, if metadata that ZooKeeper lacks may be lost"
REMEDY = (
    "if the controllers still have their disks, start them again, and stop them once KafkaFeatures asks for it (with "
    f"new disks they would delete every topic); or {ACCEPT}"
)


def what_is_lacking(place: Place, last: EqualityStatus | None) -> Blocker | None:
    """Where the last comparison does not show that ZooKeeper held all metadata. last: as the status has it."""
    written = place.znodes.migration
    if isinstance(written, Failure):
        return None  # nothing can be deleted then
    if written is not None and written.offset <= 0 and last is None:
        return None  # nothing but ZooKeeper was ever written to
    # With another /migration than before, controllers that start again write nothing to ZooKeeper any longer.
    remedy = REMEDY if written is not None and written.offset > 0 else ACCEPT
    if last is not None and last.differences:
        found = counted(last.differences, "difference")
        text = f"ZooKeeper and the metadata log differed before the controllers stopped: {found}"
        return Blocker(BlockerKind.METADATA, text, remedy)
    why = _unknown(written, last)
    text = f"it is not known whether ZooKeeper holds all metadata: {why}"
    return Blocker(BlockerKind.MIGRATION, text, remedy, reason=Reason.MIGRATION_BLOCKED) if why else None


def _unknown(written: MigrationProgress | None, last: EqualityStatus | None) -> str:
    """Why the last comparison does not count; empty where it does."""
    if last is None or last.differences is None:
        return "ZooKeeper was not compared with the metadata log before the controllers stopped"
    if last.written_at is None:
        return "ZooKeeper was behind the metadata log at the last comparison, or the date of that is not known"
    if written is None or written.offset <= 0:
        return "/migration was deleted or written anew since the last comparison"
    between = written.written_at - datetime.fromisoformat(last.written_at)
    if -CLOCKS_DIFFER <= between <= LAST_WITHIN:
        return ""
    if between < timedelta(0):
        return f"/migration is {format_span(-between)} older than at the last comparison, as if restored from a backup"
    return f"ZooKeeper was last compared with the metadata log {format_span(between)} before the controllers stopped"
