"""A defect that `calibration.py` puts back into the operator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Defect:
    """`then`: what it does, for people. `edits`: words of the module, each there exactly once, and what replaces them.

    More than one edit where the product has a second safeguard behind the first, which alone would still hold.
    """

    name: str
    then: str
    module: str
    edits: tuple[tuple[str, str], ...]
    of_rolls: bool = False
    """Only histories that are about rolls are tried, which are one out of sixteen."""
    of_migrations: bool = False
    """Only histories that are about migrations are tried, which are one out of thirty-two."""
