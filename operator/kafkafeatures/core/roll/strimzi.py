"""Conditions of the driver Strimzi: Strimzi rolls its pods itself, so everything waits until its roll is over.

Pure. These are the `Conditions` of the driver Strimzi in `core/roll/drivers.py`. The status of a `Kafka` is written at
the end of a reconciliation only: during a roll it still says Ready. So what counts are the pods, and whether the last
reconciliation that ended was of the present generation.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.workloads import ManagingOperator, WorkloadsReading
from kafkafeatures.core.roll.conditions import Conditions
from kafkafeatures.core.roll.followed import pods_just_restarted, pods_to_follow
from kafkafeatures.core.roll.pods import PodObstacle

OPERATOR = "Strimzi"
PAUSE = "strimzi.io/pause-reconciliation"
"""Annotation of a `Kafka` that stops its reconciliation. Its pods are created again all the same."""
SEE_LOG = "see the conditions and Events of {}, and the log of the Strimzi cluster operator"


def paused(kafka: ManagingOperator, namespace: str) -> Blocker | None:
    """Blocker for a paused `Kafka`: Strimzi ends a reconciliation that runs, with its roll, and begins no other, so it
    acts on no request. None if it is not paused.
    """
    if not kafka.is_paused:
        return None
    return Blocker(
        BlockerKind.WORKLOAD,
        f"{kafka.resource} is paused: Strimzi begins no reconciliation of it, and a roll may be half done",
        f"kubectl annotate -n {namespace} {kafka.resource.replace(' ', '/').lower()} {PAUSE}-",
        reason=Reason.STRIMZI_PAUSED,
    )


def unprocessed(kafka: ManagingOperator) -> str:
    """Text on a resource that Strimzi has not reconciled as it is now, or has still to roll; empty for none."""
    if kafka.unprocessed:
        return f"Strimzi has not reconciled {kafka.unprocessed} as it is now"
    roll = f"Strimzi was asked to restart all pods of {kafka.to_roll}, and has not done so yet"
    return roll if kafka.to_roll else ""


def failed(kafka: ManagingOperator) -> str:
    """Text on a `Kafka` whose last reconciliation failed, maybe before it made any pod outdated; empty for none."""
    return f"the last reconciliation of {kafka.resource} failed: {kafka.failure}" if kafka.failure else ""


def without_sets(kafka: ManagingOperator) -> str:
    """Text on a `Kafka` without pods, of which Strimzi has none to create either. A node pool may have 0 replicas."""
    return f"{kafka.resource} has no StrimziPodSet with pods"


class StrimziConditions(Conditions):
    """Conditions by the `Kafka` and the StrimziPodSets of a cluster."""

    def blockers(self, reading: WorkloadsReading) -> Iterator[Blocker]:
        """Blocker for a paused `Kafka`."""
        blocker = paused(reading.managed_by, reading.namespace) if reading.managed_by is not None else None
        if blocker is not None:
            yield blocker

    def waits(self, reading: WorkloadsReading, stable_for: timedelta, *, is_due: bool) -> Iterator[PodObstacle]:
        """Waits for a reconciliation of the present generation, and for every pod; if something is due, also for the
        end of failures.
        """
        kafka = reading.managed_by
        if kafka is None:
            return
        remedy = SEE_LOG.format(kafka.resource)
        texts = []
        if (text := unprocessed(kafka)) and not kafka.is_paused:
            texts.append(text)
        if not reading.stateful_sets:
            texts.append(without_sets(kafka))
        if is_due and kafka.failure:
            texts.append(f"the last reconciliation of {kafka.resource} failed")
        obstacles = [
            PodObstacle(text, remedy, reason=Reason.WAITING_FOR_STRIMZI, subject=kafka.resource) for text in texts
        ]
        said = f"; {kafka.resource} says: {kafka.failure}" if kafka.failure else ""
        said += f"; last Event of Strimzi about it: {kafka.last_event}" if kafka.last_event else ""
        outdated = pods_to_follow(reading, OPERATOR, Reason.WAITING_FOR_STRIMZI)
        restarted = pods_just_restarted(reading, stable_for, OPERATOR, Reason.WAITING_FOR_STRIMZI)
        for obstacle in (*outdated, *obstacles, *restarted):
            yield obstacle._replace(text=f"{obstacle.text}{said}")

    def remedy_of_missing(self, reading: WorkloadsReading, pod: str, title: str) -> str:
        """Remedy for a pod that Strimzi does not create again."""
        return f"see the log of the Strimzi cluster operator, which creates pod {pod}"
