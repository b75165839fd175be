"""Words that people type as commands because other tools have them, each with what to do here instead.

Called by `main` about a word that is no command, before it looks for one that is spelled alike: a word that means the
opposite of the command it resembles must not lead there.
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
"""Word to what to do."""
