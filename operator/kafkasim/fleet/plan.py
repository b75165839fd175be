"""Plans what happens to each cluster of a fleet, drawn from a seed, before anything is simulated.

Read by `history`, which simulates it, and by tests, which derive from it what a reader of the logs must find. Some
clusters have a special story; the others are rolled, upgraded and finalized as usual, or were not yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from random import Random

from msgspec import Struct

from kafkafeatures.core.facts.releases import bundle
from kafkasim.releases import ELR_VERSION, KRAFT_VERSION, Release, release_named

DAY_MS = 86_400_000
# End of the histories.
UNTIL_MS = 1_793_491_200_000  # 2026-11-01T00:00:00Z, unless another is given


class Story(StrEnum):
    """The story of a cluster."""

    FINALIZED = "finalized"
    """Upgraded, and its levels finalized."""
    NOT_FINALIZED = "not-finalized"
    """Upgraded; its levels are still those of the older release."""
    HALFWAY = "halfway"
    """An upgrade that stopped: some brokers still run the older release."""
    OLD = "old"
    """Nothing was upgraded."""
    GHOST_BROKER = "ghost-broker"
    """A broker was removed long ago and never unregistered."""
    NEW_GHOST_BROKER = "new-ghost-broker"
    """A broker was removed without being unregistered, within the days that the log covers."""
    GHOST_CONTROLLER = "ghost-controller"
    """A controller that is no longer a voter is still registered."""
    CHANGED_BY_HAND = "changed-by-hand"
    """A feature that the cluster's document names was disabled from outside the operator."""
    STUCK_MIGRATION = "stuck-migration"
    """A cluster that writes to ZooKeeper as well, for weeks, because one broker is still in ZooKeeper mode."""
    FLAPPING = "flapping"
    """One broker is killed again and again."""


OWN_STORIES = (
    Story.GHOST_BROKER, Story.NEW_GHOST_BROKER, Story.GHOST_CONTROLLER, Story.CHANGED_BY_HAND, Story.STUCK_MIGRATION,
    Story.FLAPPING,
)  # fmt: skip
"""Stories that each fleet has once."""
_ORDINARY: Mapping[Story, int] = {Story.FINALIZED: 12, Story.NOT_FINALIZED: 3, Story.OLD: 3, Story.HALFWAY: 2}
"""Stories of the other clusters, with their weights in the draw."""
# Releases before and after an upgrade, to draw from: 4.1 to 4.2 is twice as likely as any other.
_UPGRADES = (("4.1", "4.2"), ("4.1", "4.2"), ("3.9", "4.1"), ("4.0", "4.1"), ("4.2", "4.3"))


class Scale(Struct, frozen=True):
    """The size of a fleet.

    clusters: number of clusters.
    days: length of their histories.
    full: number of clusters with a NoOp every 500 ms, as Kafka writes them by default.
    idle_ms: time between two NoOps in the other clusters (metadata.max.idle.interval.ms), longer to save space.
    kept_days: days of the log that are kept.
    copies: nodes of each cluster whose directory is written, controllers first.
    partitions: about how many partitions each cluster has.
    """

    clusters: int
    days: int
    full: int
    idle_ms: int
    kept_days: int = 7
    copies: int = 3
    partitions: int = 48

    def __post_init__(self) -> None:
        if self.clusters < len(OWN_STORIES) + self.full:
            raise ValueError(f"a fleet has at least {len(OWN_STORIES) + self.full} clusters, not {self.clusters}")
        if not 2 <= self.kept_days <= self.days:
            raise ValueError(f"of {self.days} days at least 2 are kept, and not more than there are")


WHOLE = Scale(clusters=200, days=90, full=5, idle_ms=7_000, partitions=120)
"""About 4 GB, for the bench."""
SMALL = Scale(clusters=12, days=30, full=0, idle_ms=300_000, partitions=12)
"""Some megabytes, for tests and the demo."""


class ClusterPlan(Struct, frozen=True):
    """One cluster. Days count from the beginning of its history.

    seed: seed of all that is random in its history.
    before, after: releases before and after an upgrade; the same if there is none.
    topics: replicas of each partition, by topic.
    idle_ms: time between two NoOps.
    dynamic: the quorum is dynamic.
    upgraded: day of the roll to `after`; None: there is none.
    finalized: day on which the levels of `after` are finalized; None: they are not.
    restarted: day of a roll without an upgrade, which is late enough to be in the log that is kept; None: none.
    documented: a KafkaFeatures document names its levels, and the operator finalized them.
    """

    name: str
    seed: str
    story: Story
    before: Release
    after: Release
    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    topics: Mapping[str, tuple[tuple[int, ...], ...]]
    idle_ms: int
    dynamic: bool
    upgraded: float | None
    finalized: float | None
    restarted: float | None
    documented: bool

    @property
    def ghost(self) -> int | None:
        """The node that is a ghost in the end."""
        if self.story is Story.GHOST_CONTROLLER:
            return self.controllers[-1] + 1
        return self.brokers[-1] if self.story in (Story.GHOST_BROKER, Story.NEW_GHOST_BROKER) else None


def levels_of(release: Release, *, dynamic: bool) -> dict[str, int]:
    """Levels that are finalized with a release. Eligible leader replicas are not simulated, and left disabled."""
    levels = {name: level for name, level in (bundle(release.name) or {}).items() if name != ELR_VERSION}
    return levels | ({KRAFT_VERSION: 1} if dynamic else {})


def draw(scale: Scale, seed: int) -> list[ClusterPlan]:
    """The clusters of a fleet, in the order of their names."""
    random = Random(f"fleet {seed}")  # noqa: S311 - a simulation
    stories: list[Story] = [*OWN_STORIES]
    other_stories = random.choices(list(_ORDINARY), list(_ORDINARY.values()), k=scale.clusters - len(stories))
    stories += other_stories
    random.shuffle(stories)
    ordinary = [number for number, story in enumerate(stories) if story not in OWN_STORIES]
    full = set(random.sample(ordinary, scale.full))
    digits = len(str(scale.clusters))
    return [
        _cluster(f"cluster-{number + 1:0{digits}}", story, scale, seed, full=number in full)
        for number, story in enumerate(stories)
    ]


def _cluster(name: str, story: Story, scale: Scale, seed: int, *, full: bool) -> ClusterPlan:
    random = Random(f"{seed} {name}")  # noqa: S311 - a simulation
    old_release, new_release = (release_named(name_) for name_ in _releases(story, random))
    brokers = tuple(range(1, random.choice((4, 4, 5, 6, 7))))  # three to six, most often three
    controllers = tuple(range(101, 104))
    if story is Story.GHOST_BROKER or story is Story.NEW_GHOST_BROKER:
        brokers = tuple(range(1, 6))  # enough to take over the replicas of the one that is removed
    days, kept_days = scale.days, scale.kept_days
    upgraded = None if story in (Story.OLD, Story.STUCK_MIGRATION) else random.uniform(0.2, 0.6) * days
    if story in (Story.HALFWAY, Story.GHOST_CONTROLLER):  # lately, so that the log tells who leads, and who votes
        upgraded = days - random.uniform(0.2, 0.5) * kept_days
    if story is Story.NEW_GHOST_BROKER:  # after it was removed, so that it is left behind
        upgraded = days - random.uniform(0.15, 0.3) * kept_days
    finalizes = story in (Story.FINALIZED, Story.CHANGED_BY_HAND, Story.FLAPPING)
    late = random.random() < 0.3  # within what is kept of the log
    soon = (upgraded or 0) + random.uniform(0.05, 0.1) * days
    finalized = max(soon, days - random.uniform(0.3, 0.7) * kept_days) if late else soon
    restarts = story in (Story.FINALIZED, Story.NOT_FINALIZED, Story.OLD) and random.random() < 0.4
    return ClusterPlan(
        name=name,
        seed=f"{seed} {name}",
        story=story,
        before=old_release,
        after=new_release,
        brokers=brokers,
        controllers=controllers,
        topics=_topics(brokers, scale.partitions, random),
        idle_ms=500 if full else scale.idle_ms,
        dynamic=old_release.number >= (4, 1) and random.random() < 0.3,
        upgraded=upgraded,
        finalized=finalized if finalizes else None,
        restarted=days - random.uniform(0.05, 0.25) * kept_days if restarts else None,
        documented=story is Story.CHANGED_BY_HAND or random.random() < 0.5,
    )


def _releases(story: Story, random: Random) -> tuple[str, str]:
    upgrade = random.choice(_UPGRADES)
    if story is Story.STUCK_MIGRATION:
        return "3.9", "3.9"
    if story is Story.CHANGED_BY_HAND:
        return "4.1", "4.2"  # of which share.version 1 is part
    return (upgrade[0], upgrade[0]) if story is Story.OLD else upgrade


def _topics(brokers: tuple[int, ...], partitions: int, random: Random) -> dict[str, tuple[tuple[int, ...], ...]]:
    topics: dict[str, tuple[tuple[int, ...], ...]] = {}
    remaining = partitions
    while remaining > 0:
        count = min(remaining, random.choice((1, 3, 6, 12)))
        first = random.randrange(len(brokers))
        topics[f"topic-{len(topics) + 1}"] = tuple(
            tuple(brokers[(first + number + each) % len(brokers)] for each in range(min(3, len(brokers))))
            for number in range(count)
        )
        remaining -= count
    return topics
