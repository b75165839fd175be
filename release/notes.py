"""The notes of a release: the section of the changelog about its version."""

from __future__ import annotations

import re

from release.plan import Plan


def section(plan: Plan) -> str:
    """The text below the heading of the version, which may also name a date; empty if there is none."""
    text = (plan.root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## \[?{re.escape(plan.version)}\]?(?: [^\n]*)?$"
    match = re.search(rf"{heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def write(plan: Plan) -> None:
    """As a file, for the page of the release."""
    (plan.out / "notes.md").write_text(section(plan) + "\n", encoding="utf-8")
