"""Kubernetes Events as records: fields for programs, and one sentence for people.

Pure. Made by `core/report/events.py`, written to the API server by `kube/events.py`, and read back for reports by
`cli/kube/seen_events.py`. Programs read the fields, never the sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from kafkafeatures.api.records import Stamp, StatusRecord

MAX_NOTE = 1000  # the API server takes 1024 bytes


class EventFacts(StatusRecord, frozen=True, kw_only=True):
    """Fields of an Event, for programs. A field that does not apply keeps its default, and is left out.

    kind: kind of the step that began or ended.
    node: title of the node, such as "broker 3".
    pod: the pod that is restarted; empty if a person restarts the node.
    before, after: levels of `feature`, revisions of the pod, or phases of a migration.
    begun_at: when the step began.
    in_sync_at: since when the restarted node has been back in sync.
    plan: hash of the plan.
    kept: content of a znode that is deleted.
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
    """One Event. `reason`: in PascalCase. `action`: what was done or tried. `note`: the sentence for people."""

    reason: str
    action: str
    note: str
    warning: bool = False
    facts: EventFacts = NO_FACTS


def note_of(action: str, message: str) -> str:
    """Sentence of an Event: the action, and the message if there is one."""
    return f"{action}: {message}" if message else action
