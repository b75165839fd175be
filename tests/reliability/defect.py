"""A defect that `calibration.py` puts back into the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Edits = tuple[tuple[str, str], ...]
"""Words of a module, and what replaces them."""


@dataclass(frozen=True, slots=True)
class Defect:
    """`then`: what it does, for people. `edits`: words of the module, each there exactly once, and what replaces them.

    More than one edit where the product has a second safeguard behind the first, which alone would still hold;
    `elsewhere`: edits of other modules, for safeguards that stand there.
    """

    name: str
    then: str
    module: str
    edits: Edits
    of_rolls: bool = False
    """True: only histories of rolls are tried, which are one out of sixteen."""
    of_migrations: bool = False
    """True: only histories of migrations are tried, which are one out of thirty-two."""
    elsewhere: Mapping[str, Edits] = field(default_factory=dict)

    @property
    def by_module(self) -> Mapping[str, Edits]:
        """All edits, by the module that they are of."""
        return {self.module: self.edits, **self.elsewhere}
