"""Events about a resource from the API server, with their texts and the machine-readable facts in an annotation.

An Event without facts comes from an older release or another tool; only its text is shown. Pure; used by `report` and
its pages.
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
    """An Event as a report has it. `at`: when it was written. `facts`: None if its annotation has none."""

    at: str = ""
    type: str = ""
    reason: str = ""
    action: str = ""
    note: str = ""
    reporting_controller: str = ""
    reporting_instance: str = ""
    facts: EventFacts | None = None


_COPIED_FIELDS = ("type", "reason", "action", "note", "reportingController", "reportingInstance")


def seen_event(raw: Mapping[str, Any]) -> SeenEvent:
    """The fields of an Event (events.k8s.io/v1) that a report contains."""
    metadata = raw["metadata"]
    at = raw.get("eventTime") or metadata.get("creationTimestamp", "")
    fields = {name: raw[name] for name in _COPIED_FIELDS if name in raw}
    return shown(SeenEvent, {"at": at, **fields, "facts": _facts((metadata.get("annotations") or {}).get(EVENT_FACTS))})


def _facts(annotation: str | None) -> object:
    try:
        return json.loads(annotation) if annotation else None
    except (ValueError, RecursionError):
        return None
