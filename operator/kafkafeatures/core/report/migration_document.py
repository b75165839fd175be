"""Document of `kafkafeatures migration settings`: the settings to change on each node for the next position.

Pure. The differences are found in `core/migration/demands.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.demands import SettingDifferences
from kafkafeatures.core.migration.settings import Requirement, SettingDifference

if TYPE_CHECKING:
    from kafkafeatures.api.records import Json


def settings_document(demands: SettingDifferences) -> Json:
    """Settings to change, as a document. `differences` is null if the node could not be read, and `notRead` has the
    cause. `caution` says what must not be done yet.
    """
    return {
        "position": demands.position.value,
        "next": demands.end.value,
        "reached": demands.edge is None,
        "besides": [request.value for request in demands.edge.further_actions] if demands.edge is not None else [],
        "caution": (demands.edge.caution or None) if demands.edge is not None else None,
        "lines": [
            {"role": role.value, "is": shape.value, "add": list(lines.add), "remove": list(lines.remove)}
            for role, shape, lines in demands.lines
        ],
        "nodes": [
            {
                "role": node.role.value,
                "id": node.id,
                "differences": None if isinstance(node.differs, Failure) else [_difference(it) for it in node.differs],
            }
            for node in demands.nodes
        ],
        "notRead": [not_read(failure) for failure in demands.unknown],
    }


def not_read(failure: Failure) -> Json:
    """Gap: what could not be read, why, and what to do."""
    return {"what": failure.location, "why": failure.message, "remedy": failure.remedy}


def _difference(difference: SettingDifference) -> Json:
    expected = (
        {Requirement.SET: "...", Requirement.NOT_SET: None}[difference.rule]
        if isinstance(difference.rule, Requirement)
        else difference.rule
    )
    return {"name": difference.name, "wanted": expected, "found": difference.actual, "do": str(difference)}
