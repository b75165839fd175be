"""Simulated Kafka clusters as the operator's processes reach them: late, in part, by a detour, or not at all.

The worlds are kafkasim's, and what a process reads of them goes through production's own observer. What goes wrong on
the way is drawn by the simulation. Every level that moves is recorded, with who moved it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafkafeatures.core.readings import Role
from kafkafeatures.core.steps import Applied, Outcome, OutcomeUnknown, Rejected, UpdateFeature
from kafkasim.releases import KRAFT_VERSION
from kafkasim.rules import FeatureUpdate, UpgradeType, Verdict
from kafkasim.world import World
from tests.reliability.records import Looked, Moved, Record

START_MS = 1_800_000_000_000
KEPT_FOR = 290.0
"""Seconds for which a broker keeps a request that no controller takes; the operator waits a little longer."""


@dataclass
class Roads:
    """How likely a request fails, and how: drawn anew for each history, all nothing once it calms down."""

    lost_before: float = 0.0
    lost_after: float = 0.0
    unreachable: float = 0.0
    no_log: float = 0.0
    by_broker: float = 0.0
    slow: float = 0.0


@dataclass
class Cluster:
    """One world, and what is under way to it."""

    name: str
    world: World
    record: Callable[[Record], None]
    seconds: Callable[[], float]
    kept: list[tuple[float, UpdateFeature, int]] = field(default_factory=list)

    @property
    def levels(self) -> dict[str, int]:
        """With what is not committed yet."""
        image = self.world.leader_image
        return {**image.features, KRAFT_VERSION: image.kraft_version}

    def catch_up(self) -> None:
        """Let the world be as old as everything else. A broker delivers what it kept as soon as somebody leads."""
        self.world.advance(START_MS + int(self.seconds() * 1000), sparse=True)
        while self.kept and self.world.active_node is not None:
            since, change, number = self.kept.pop(0)
            if self.seconds() - since <= KEPT_FOR:
                self.change(change, number)

    def change(self, change: UpdateFeature, by: int | None) -> Verdict | None:
        """An UpdateFeatures that has come this far; None where no controller is active."""
        leader = self.world.active_node
        if leader is None:
            return None
        before = self.levels
        kind = UpgradeType.SAFE_DOWNGRADE if change.after < change.before else UpgradeType.UPGRADE
        update = FeatureUpdate(change.feature, change.after, kind)
        verdict = self.world.update_features(leader, [update], validate_only=False).verdict
        after = self.levels
        for name in sorted(before.keys() | after.keys()):
            if before.get(name, 0) != after.get(name, 0):
                moved = (name, before.get(name, 0), after.get(name, 0))
                self.record(Moved(self.seconds(), self.world.cluster_id, *moved, by))
        return verdict

    def outcome(self, change: UpdateFeature, number: int, *, by_broker: bool) -> Outcome:
        """What the sender is told, where it is told anything."""
        verdict = self.change(change, number)
        if verdict is None:
            if by_broker:
                self.kept.append((self.seconds(), change, number))
            return OutcomeUnknown("no controller is active")
        refused = [(verdict.error_code, verdict.error_message)]
        refused += [(result.error_code, result.error_message) for result in verdict.results]
        return next((Rejected(code, text or "") for code, text in refused if code), Applied())

    def looked(self, process: str, uid: str) -> Looked:
        """What is true now, for the record."""
        world = self.world
        running = [one for one in world.voters if world.nodes[Role.CONTROLLER, one].running]
        return Looked(
            at=self.seconds(),
            process=process,
            uid=uid,
            cluster_id=world.cluster_id,
            levels={**world.image.features, KRAFT_VERSION: world.image.kraft_version},
            quorum=world.active is not None and len(running) * 2 > len(world.voters),
            ranges=self._ranges(),
        )

    def _ranges(self) -> dict[str, tuple[int, int]]:
        """What every node that counts supports: the highest minimum, the lowest maximum."""
        image, nodes = self.world.image, self.world.nodes
        supported: list[Mapping[str, tuple[int, int]]] = [
            *(one.features for one in image.brokers.values()),
            *(one.features for one in image.controllers.values()),
            *(
                {name: (each.min, each.max) for name, each in nodes[Role.CONTROLLER, voter].release.features.items()}
                for voter in self.world.voters
            ),
        ]
        names = sorted({name for one in supported for name in one})
        found = {}
        for name in names:
            pairs = [one.get(name, (0, 0)) for one in supported]
            found[name] = (max(low for low, _ in pairs), min(high for _, high in pairs))
        return found
