"""Rules by which a level may be finalized, as functions of plain values.

Pure. The operator's preflight (`checks.py`, `node_ranges.py`) applies them to a live cluster and adds remedies; the
pipeline (`featurelog/tables/upgrade_readiness.py`) applies them to a metadata log and adds the record that decides.
Callers handle values that are not known.

Kafka's own checks are in `FeatureControlManager.java`. They let a raise of kraft.version pass although some controllers
would ignore it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.releases import (
    CONTROLLER_REGISTRATION,
    KRAFT_VERSION_RAISABLE,
    Undo,
    dependencies,
    floor_of,
    format_level,
    undo_of_raise,
)


def controllers_are_registered(levels: Mapping[str, int]) -> bool:
    """Tell whether controllers register at these levels, so that Kafka checks what they support. If not, only their own
    answers show it.
    """
    return levels.get(METADATA_VERSION, 0) >= CONTROLLER_REGISTRATION


def is_dynamic(levels: Mapping[str, int]) -> bool:
    """Tell whether the voters may differ from `controller.quorum.voters` (KIP-853)."""
    return levels.get(KRAFT_VERSION, 0) > 0


def unregistered_voters(voters: Collection[int], registered: Collection[int]) -> tuple[int, ...]:
    """Ids of the voters without a registration, sorted. Only a registration shows what a voter supports, and Kafka does
    not check all voters.
    """
    return tuple(sorted(set(voters).difference(registered)))


def makes_the_quorum_dynamic(feature: str, from_level: int, to_level: int) -> bool:
    """Tell whether the change raises kraft.version, which is irreversible."""
    return feature == KRAFT_VERSION and to_level > from_level


def can_make_the_quorum_dynamic(supported: VersionRange) -> bool:
    """Tell whether a controller with this range of metadata.version applies a raise of kraft.version, not only accepts
    it.
    """
    return supported.max >= KRAFT_VERSION_RAISABLE


def floor_above(feature: str, from_level: int, to_level: int) -> int | None:
    """Lowest metadata.version to which Kafka allows a downgrade from `from_level`, if the change goes below it; else
    None, also for other features and unknown levels.
    """
    floor = floor_of(from_level) if feature == METADATA_VERSION else None
    return floor if floor is not None and to_level < floor else None


def undo_of_downgrade(feature: str, from_level: int, to_level: int) -> Undo:
    """Loss by a downgrade, the same as by undoing the opposite raise; SAFE for a change that is no downgrade."""
    return undo_of_raise(feature, to_level, from_level) if to_level < from_level else Undo.SAFE


class UnmetRequirement(Struct, frozen=True):
    """A feature whose level requires a higher level of another feature than it would have after the changes.

    feature, level: the feature, and its level after the changes.
    needed, least, actual: the other feature, the lowest level that it must have, and the level that it would have.
    moved: the one of the two features that the changes are about; the blocker names it.
    """

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
    """Requirements that the levels after all changes do not meet. A feature that is not changed may have one too, if a
    change lowers what it requires. `targets`: new levels, by feature.
    """
    proposed = {**finalized, **targets}
    for feature, level in proposed.items():
        for needed, least in dependencies(feature, level).items():
            if proposed.get(needed, 0) < least and (feature in targets or needed in targets):
                moved = feature if feature in targets else needed
                yield UnmetRequirement(feature, level, needed, least, proposed.get(needed, 0), moved)
