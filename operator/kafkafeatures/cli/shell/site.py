"""Addresses of pages of the documentation, for `--help` and for messages.

The pages are files of the repository: `docs/runbooks/TlsFailed.md`. Whoever publishes them as a site (`make site`) sets
its address in the environment variable KAFKAFEATURES_DOCS, and all texts name the pages there.
"""

from __future__ import annotations

import os
import re

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.words import printable

VARIABLE = "KAFKAFEATURES_DOCS"
_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")


def with_addresses(text: str) -> str:
    """The text with the address of each page that it names by its file; unchanged if no site is set."""
    site = printable(os.environ.get(VARIABLE, "")).rstrip("/")
    return _PAGE.sub(lambda page: f"{site}/{page[1]}.html", text) if site else text


def runbook_of(reason: str) -> str:
    """The address of the runbook of a reason; empty if it has none, since no person has to act, and for an unknown
    reason, such as one of a newer operator.
    """
    has_page = any(reason == known_reason and known_reason.needs_action for known_reason in Reason)
    return with_addresses(f"docs/runbooks/{reason}.md") if has_page else ""
