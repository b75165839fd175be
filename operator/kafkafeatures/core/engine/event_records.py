"""Events as facts: what happened as fields, and beside them the one sentence that people read.

Pure. Made by `core/report/events.py`, written to the API server by `kube/events.py` and read from there by
`cli/pages/roll_rows.py`. Programs read the facts; nothing reads the sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from kafkafeatures.api.records import Stamp, StatusRecord

MAX_NOTE = 1000  # the API server takes 1024 bytes


class EventFacts(StatusRecord, frozen=True, kw_only=True):
    """Subject of an Event. A field that says nothing of it is left out.

    kind: of the step that was begun, or has ended. node: as people call it, such as "broker 3". pod: empty where a
    person restarts the node. before, after: levels of `feature`, revisions of the pod, or phases of a
    migration. begun_at: when the step was begun. in_sync_at: since when the restarted node has been back. plan: its
    hash. kept: what stood in a znode that is deleted.
    """

    JSON_NAMES: ClassVar[Mapping[str, str]] = {"before": "from", "after": "to"}

    kind: str = ""
    node: str = ""
    node_id: int | None = None
    pod: str = ""
    feature: str = ""
    before: str = ""
    after: str = ""
    begun_at: Stamp | None = None
    in_sync_at: Stamp | None = None
    plan: str = ""
    kept: str = ""


NO_FACTS = EventFacts()


class EventRecord(Struct, frozen=True):
    """One event: `reason` in PascalCase, `action` what was done or tried, `note` the sentence for people."""

    reason: str
    action: str
    note: str
    warning: bool = False
    facts: EventFacts = NO_FACTS


def note_of(action: str, message: str) -> str:
    """Text of an Event: what was done, and what there is to say about it."""
    return f"{action}: {message}" if message else action
