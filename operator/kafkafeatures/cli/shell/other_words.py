"""Commands of other tools that people may type here, each with the right command.

Called by `main.py` for an unknown command, before it suggests one with a similar spelling: a similar word may have the
opposite meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

_DOWNGRADE = (
    "to downgrade a feature, run kafkafeatures downgrade --feature NAME=LEVEL --bootstrap-server HOST:PORT, which "
    "shows what may be lost, and asks first; see docs/how-to/go-back.md"
)
_BACK = (
    f"{_DOWNGRADE}; to go back from a migration to KRaft, set spec.migration.desired to RolledBack; see "
    "docs/how-to/migrate-to-kraft.md"
)
_REFERENCE = "see docs/reference/commands.md"
_PLAN = f"kafkafeatures plan -f FILE checks a document and shows what it would change; {_REFERENCE}"
_SHOW = (
    "kafkafeatures list shows all resources, kafkafeatures status NAME one of them, kafkafeatures describe a cluster; "
    f"{_REFERENCE}"
)
_PAGE = f"kafkafeatures serve shows live pages in a browser; {_REFERENCE}"
ANSWERS: Mapping[str, str] = {
    "diff": _PLAN,
    "dashboard": _PAGE,
    "lower": _DOWNGRADE,
    "get": _SHOW,
    "preview": _PLAN,
    "revert": _BACK,
    "rollback": _BACK,
    "show": _SHOW,
    "ui": _PAGE,
    "undo": _BACK,
    "validate": _PLAN,
}
"""Remedy by word."""
