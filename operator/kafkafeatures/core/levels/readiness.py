"""May a level be finalized? The rules, each a question about facts, with one answer for everybody who asks.

Pure, and without words: the operator's preflight (`core/levels/checks.py`) asks them about a live cluster and says what
to do about it; the pipeline (`featurelog/tables/upgrade_readiness.py`) asks them about a log and says which record
decides. What is not known is the caller's to name; no rule is asked about it.

What Kafka itself checks is in `FeatureControlManager.java`; kraft.version it accepts from controllers that ignore it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.releases import (
    KRAFT_VERSION_RAISABLE,
    Undo,
    dependencies,
    floor_of,
    format_level,
    undo_of_raise,
)

CONTROLLER_REGISTRATION = 15
"""metadata.version 3.7-IV0: from here on controllers register, and Kafka checks what they support (KIP-919)."""


def controllers_are_registered(levels: Mapping[str, int]) -> bool:
    """Tell whether controllers register at these levels; else nothing but themselves says what they support."""
    return levels.get(METADATA_VERSION, 0) >= CONTROLLER_REGISTRATION


def is_dynamic(levels: Mapping[str, int]) -> bool:
    """Tell whether voters may be others than those of `controller.quorum.voters` (KIP-853)."""
    return levels.get(KRAFT_VERSION, 0) > 0


def unregistered_voters(voters: Collection[int], registered: Collection[int]) -> tuple[int, ...]:
    """Voters of which no registration says what they support. Kafka does not look at all of them."""
    return tuple(sorted(set(voters).difference(registered)))


def makes_the_quorum_dynamic(feature: str, from_level: int, to_level: int) -> bool:
    """Tell whether it is the raise of kraft.version, which is irreversible."""
    return feature == KRAFT_VERSION and to_level > from_level


def can_make_the_quorum_dynamic(supported: VersionRange) -> bool:
    """Tell whether a controller with this range of metadata.version applies a raise of kraft.version that it
    accepts.
    """
    return supported.max >= KRAFT_VERSION_RAISABLE


def floor_above(feature: str, from_level: int, to_level: int) -> int | None:
    """The lowest metadata.version that Kafka allows, where the change goes below it. Nothing is known of levels that
    are in no table.
    """
    floor = floor_of(from_level) if feature == METADATA_VERSION else None
    return floor if floor is not None and to_level < floor else None


def undo_of_downgrade(feature: str, from_level: int, to_level: int) -> Undo:
    """Loss of a downgrade: it undoes the raise that went the other way."""
    return undo_of_raise(feature, to_level, from_level) if to_level < from_level else Undo.SAFE


class UnmetRequirement(Struct, frozen=True):
    """A feature at a level that needs another one higher than it would be. `moved`: the one of the two that changes."""

    feature: str
    level: int
    needed: str
    least: int
    actual: int
    moved: str

    def __str__(self) -> str:
        least = format_level(self.needed, self.least)
        return f"{self.feature} {self.level} requires {self.needed} {least}, which would be {self.actual}"


def unmet_dependencies(finalized: Mapping[str, int], targets: Mapping[str, int]) -> Iterator[UnmetRequirement]:
    """Judged on the levels as they will be after all changes, also for features that stay where they are."""
    proposed = {**finalized, **targets}
    for feature, level in proposed.items():
        for needed, least in dependencies(feature, level).items():
            if proposed.get(needed, 0) < least and (feature in targets or needed in targets):
                moved = feature if feature in targets else needed
                yield UnmetRequirement(feature, level, needed, least, proposed.get(needed, 0), moved)
