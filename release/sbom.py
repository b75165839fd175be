"""What an image consists of, for each architecture, as CycloneDX: a file beside the image."""

from __future__ import annotations

from pathlib import Path

from release.layout import Layout
from release.plan import ARCHITECTURES, NAME, Plan


def write(plan: Plan) -> None:
    """A file for each architecture."""
    from release.components import describe  # what it needs is installed only where a release is made

    layout = Layout(plan.layout)
    for architecture in ARCHITECTURES:
        path(plan, architecture).write_text(describe(plan, layout, architecture) + "\n", encoding="utf-8")


def path(plan: Plan, architecture: str) -> Path:
    """The path of the file of this architecture."""
    return plan.out / f"{NAME}-{plan.version}-linux-{architecture}.cdx.json"
