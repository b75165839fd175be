"""Bodies of Events (events.k8s.io/v1) about a resource.

Called by `reconcile/controller.py`, which posts them; an Event that cannot be posted fails no reconciliation. The note
is the sentence that `kubectl describe` shows. For programs the facts are in an annotation, as an Event has no fields
for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kafkafeatures.api.names import API_VERSION, EVENT_FACTS, GROUP, KIND
from kafkafeatures.core.engine.event_records import EventRecord
from kafkafeatures.environment import Environment

CONTROLLER = f"{GROUP}/operator"
MAX_NOTE_BYTES = 1024
"""Longest note in bytes that the API server takes."""


def event_of(
    record: EventRecord, resource: Mapping[str, Any], *, environment: Environment, instance: str
) -> dict[str, Any]:
    """The body of one Event. `instance`: process of the operator that reports it; cut to 128 characters."""
    metadata, facts = resource["metadata"], record.facts.as_json()
    related = {"apiVersion": "v1", "kind": "Pod", "name": record.facts.pod, "namespace": metadata["namespace"]}
    annotations = {EVENT_FACTS: json.dumps(facts, separators=(",", ":"))}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            # The resource's name, and 13 random hexadecimal digits, as each Event is an object of its own.
            "name": f"{metadata['name'][:200].rstrip('-.')}.{int(environment.random() * 16**13):013x}",
            "namespace": metadata["namespace"],
            **({"annotations": annotations} if facts else {}),
        },
        "eventTime": environment.clock().replace(tzinfo=None).isoformat(timespec="microseconds") + "Z",
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128],
        "type": "Warning" if record.warning else "Normal",
        "reason": record.reason,
        "action": record.action,
        "note": record.note.encode()[:MAX_NOTE_BYTES].decode(errors="ignore"),
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        **({"related": related} if record.facts.pod else {}),
    }
