"""Interface of the conditions that a driver sets for restarts of pods, besides what Kafka needs: update strategy,
PodDisruptionBudgets, order of creation.

Pure. Chosen by a driver (`core/roll/drivers.py`), implemented by `core/roll/stateful_sets.py`, called by
`core/roll/matching.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from kafkafeatures.api.reasons import Reason

if TYPE_CHECKING:
    from kafkafeatures.core.engine.blockers import Blocker
    from kafkafeatures.core.engine.desired_state import Rollout
    from kafkafeatures.core.facts.workloads import Pod, StatefulSet, WorkloadsReading
    from kafkafeatures.core.roll.pods import PodObstacle


class Conditions(Protocol):
    """Conditions that must hold before pods are restarted. The methods here set none. A module that has all of these
    functions can be used as such an object.
    """

    def unsafe(self, owner: StatefulSet, namespace: str) -> Iterator[Blocker]:
        """Blockers of restarts of the pods of this set, whether or not one of them is outdated."""
        yield from ()

    def blockers(self, reading: WorkloadsReading) -> Iterator[Blocker]:
        """Blockers of any restart; called if a pod is outdated, or may be."""
        yield from ()

    def waits(self, reading: WorkloadsReading, stable_for: timedelta, *, is_due: bool) -> Iterator[PodObstacle]:
        """What every restart and every change of a level waits for, because another operator restarts pods.
        `stable_for`: how long each pod must have been ready. `is_due`: there is one that waits.
        """
        from kafkafeatures.core.roll.followed import pods_just_restarted, pods_to_follow

        yield from pods_to_follow(reading, "the other operator", Reason.ROLLING_NODES)
        yield from pods_just_restarted(reading, stable_for, "the other operator", Reason.ROLLING_NODES)

    def notes(self, reading: WorkloadsReading, rollout: Rollout, brokers: int) -> Iterator[str]:
        """Notes on what makes a roll slower, or less safe, than it has to be. `brokers`: how many there are."""
        yield from ()

    def refused_now(self, reading: WorkloadsReading, pod: Pod) -> str:
        """Reason why the request for this pod would be refused now; empty where it would not."""
        return ""

    def out_of_order(self, owner: StatefulSet, pod: Pod, flying: Collection[str]) -> str:
        """Reason why this pod would not come back soon, or would keep another one away; empty where neither is so."""
        return ""

    def remedy_of_missing(self, reading: WorkloadsReading, pod: str, title: str) -> str:
        """Remedy for a pod that is gone and is not created again; `title`: of its node."""
        return f"find out why pod {pod} is not created again"


class NoConditions(Conditions):
    """Kafka alone decides when a pod may be restarted."""


class PodDriver(Protocol):
    """Properties of a driver (`core/roll/drivers.py`) by which nodes and pods are matched."""

    @property
    def kind(self) -> str:
        """Kind of what its pods are in."""

    @property
    def key(self) -> str:
        """Field of the document that names it."""

    @property
    def remedy_of_container(self) -> str:
        """Remedy for pods without the container in which Kafka should run."""

    @property
    def by_selector(self) -> bool:
        """True: a selector has the pods of all nodes, so that each pod must run a node, and each node be in a pod."""

    @property
    def place(self) -> str:
        """What has the pods of all nodes, for messages."""

    @property
    def remedy_of_unnamed(self) -> str:
        """Remedy for a node that is in no pod of the document."""

    def remedy_of_foreign(self, owner: str) -> str:
        """Remedy for a pod of another cluster."""

    @property
    def restarts_outdated(self) -> bool:
        """False: another operator restarts outdated pods."""

    @property
    def conditions(self) -> Callable[[], Conditions]:
        """Function that returns its conditions."""
