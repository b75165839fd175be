"""Events about a resource as the API server shows them: the sentence for people, and the facts for the page.

An Event without facts comes from an older release or from another tool: it is shown by its sentence, and nothing is
concluded from that. Pure; read by `report`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kafkafeatures.api.names import EVENT_FACTS
from kafkafeatures.api.records import StatusRecord
from kafkafeatures.api.shown import shown
from kafkafeatures.core.engine.event_records import EventFacts


class SeenEvent(StatusRecord, frozen=True, kw_only=True):
    """An Event as a report has it. `at`: when it was written."""

    at: str = ""
    type: str = ""
    reason: str = ""
    action: str = ""
    note: str = ""
    reporting_controller: str = ""
    reporting_instance: str = ""
    facts: EventFacts | None = None


_TAKEN = ("type", "reason", "action", "note", "reportingController", "reportingInstance")


def seen_event(raw: Mapping[str, Any]) -> SeenEvent:
    """Return what a report takes of an Event of events.k8s.io/v1."""
    metadata = raw["metadata"]
    at = raw.get("eventTime") or metadata.get("creationTimestamp", "")
    fields = {name: raw[name] for name in _TAKEN if name in raw}
    return shown(SeenEvent, {"at": at, **fields, "facts": _facts((metadata.get("annotations") or {}).get(EVENT_FACTS))})


def _facts(annotation: str | None) -> object:
    try:
        return json.loads(annotation) if annotation else None
    except (ValueError, RecursionError):
        return None
