"""Commands of other tools that people may type here, each with the right command.

Called by `main.py` for an unknown command, before it suggests one with a similar spelling: a similar word may have the
opposite meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

_DOCUMENT = (
    "write its level into a document, add the consent <feature>:<from>-><to> to spec.consents, and run kafkafeatures "
    "apply -f FILE; see docs/how-to/go-back.md"
)
_BACK = (
    f"to downgrade a feature, {_DOCUMENT}; to go back from a migration to KRaft, set spec.migration.desired to "
    "RolledBack; see docs/how-to/migrate-to-kraft.md"
)
ANSWERS: Mapping[str, str] = {
    "downgrade": f"to downgrade a feature, {_DOCUMENT}",
    "lower": f"to downgrade a feature, {_DOCUMENT}",
    "revert": _BACK,
    "rollback": _BACK,
    "undo": _BACK,
}
"""Remedy by word."""
