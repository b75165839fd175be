"""Levels that the images of a roll support: what is known of them before and while their nodes restart.

Made by `RestartCheckInput.binaries` of `check_input.py`. It decides nothing. A node that is restarted with a binary
that does not support a finalized level cannot register again, so an image of which nothing is known is tried alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from kafkafeatures.core.facts.binaries import supported_by
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import Known, Node
from kafkafeatures.core.facts.workloads import StatefulSet
from kafkafeatures.core.roll.pods import Fleet


class NewBinaries(Struct, frozen=True, dict=True):
    """The update revisions of all StatefulSets. running: live nodes that are not in flight, by id."""

    fleet: Fleet
    running: Mapping[int, Node]

    @cached_property
    def ranges(self) -> Mapping[str, Mapping[str, VersionRange]]:
        """Levels that the update revision of each StatefulSet supports, if known, by names of set and feature."""
        owners = {owner.name: owner for id_ in self.fleet.needing if (owner := self.fleet.sets.get(id_)) is not None}
        ranges_of_sets = {name: self._ranges_of(owner) for name, owner in owners.items()}
        return {name: ranges for name, ranges in ranges_of_sets.items() if ranges is not None}

    def _ranges_of(self, owner: StatefulSet) -> Mapping[str, VersionRange] | None:
        """Levels that the update revision supports: of a node that runs it, else of its release, else of a node with
        the same image; None if not known.
        """
        sets = {stateful_set.name: stateful_set for stateful_set in self.fleet.sets.values()}
        of_same_image = [
            name
            for name, stateful_set in sets.items()
            if (stateful_set.role, stateful_set.image) == (owner.role, owner.image) and stateful_set.image
        ]
        return self.reported_by(owner.name) or supported_by(owner.release) or self.reported_by(*of_same_image)

    def reported_by(self, *names: str) -> Mapping[str, VersionRange] | None:
        """Levels that a live node of these StatefulSets reports, if it runs the update revision; None if none does."""
        for id_, pod in self.fleet.pods.items():
            node = self.running.get(id_)
            is_current = pod.stateful_set in names and pod.revision == self.fleet.sets[id_].update_revision
            if node is not None and is_current and isinstance(node.answer, Known):
                return node.answer.value.supported
        return None

    def is_unknown(self, id_: int) -> bool:
        """Tell whether the levels of its new image are not known. The first node of each such image restarts alone."""
        owner = self.fleet.sets.get(id_)
        if owner is None or owner.name in self.ranges:
            return False
        return id_ in self.fleet.needing or self._ranges_of(owner) is None

    @property
    def has_unknown(self) -> bool:
        """Tell whether there is a new image of which it is not known what it supports."""
        return any(map(self.is_unknown, self.fleet.needing))
