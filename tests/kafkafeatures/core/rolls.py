"""A cluster whose images have just been changed, for tests of rolls: controllers 3001 (the leader) to 3003 and brokers
1 to 6 in three racks, all in sync. 1 and 4, 2 and 5, 3 and 6 share no partition, so these may be restarted together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import EMPTY, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState, MaxParallel, Rollout
from kafkafeatures.core.engine.memory import memory_of
from kafkafeatures.core.engine.settling import ObservationPair
from kafkafeatures.core.facts.observation import Known, Node, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import (
    Failure,
    FailureKind,
    PartitionsReading,
    QuorumAnswer,
    ReplicaProgress,
)
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.facts.workloads import Pod, WorkloadsReading
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.disks import Disks
from kafkafeatures.core.roll.drivers import STATEFUL_SET
from kafkafeatures.core.roll.excuses import excused_now
from kafkafeatures.core.roll.permit import NO_PERMIT, Permit
from kafkafeatures.core.roll.remembered import RollContext
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.core.roll.roll import Roll, roll_of
from tests.kafkafeatures.core.fleets import NEW, OLD, budget, in_pod, observed_fleet, pod, stateful_set
from tests.kafkafeatures.core.replicas import Row, reading, row
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import NOW

WAITING = Wait(Reason.ROLLING_NODES, "", 1.0, subject="broker 1", remedy="see its log")
BROKERS = (1, 2, 3, 4, 5, 6)
CONTROLLERS = (3001, 3002, 3003)
RACKS = [(1, 2, 3), (4, 5, 6), (1, 5, 3), (4, 2, 6)]  # each partition once in every rack: 1 and 4, 2 and 5, 3 and 6
PARTITIONS = tuple(row("orders", *replicas, number=number) for number, replicas in enumerate(RACKS))
ROLLOUT = Rollout(STATEFUL_SET.name, ("broker",), ("controller",), max_parallel=MaxParallel(2))
ONE_AT_A_TIME = replace(ROLLOUT, max_parallel=MaxParallel(1))

CRASHES: Mapping[str, Any] = {
    "waiting": "CrashLoopBackOff",
    "restarts": 7,
    "ended_for": "Error",
    "ended_at": NOW - timedelta(seconds=45),
}
"""Fields of a pod whose container has ended again and again, for minutes."""

UID_OF_REPLACED = "another"
"""Uid of every pod that `replaced` builds."""

UNREAD = Failure(FailureKind.AUTHORIZATION, "partitions", "not authorized", "add the ACL")


def current(*ids: int) -> Mapping[int, Pod]:
    """Build pods of these nodes that already run the update revision."""
    return {id_: a_pod(id_, revision=NEW) for id_ in ids}


def a_pod(id_: int, **fields: Any) -> Pod:
    owner = "controller" if id_ >= 3000 else "broker"
    return pod(id_, name=f"{owner}-{id_}", stateful_set=owner, **fields)


def a_node(id_: int, **fields: Any) -> Node:
    rolled_node = in_pod(id_, f"{'controller' if id_ >= 3000 else 'broker'}-{id_}", **fields)
    return replace(rolled_node, broker_epoch=-1 if id_ >= 3000 else 100 + id_, incarnation=f"first-{id_}")


def voting(leader: int = 3001, behind: Iterable[int] = ()) -> QuorumAnswer:
    progress = tuple(ReplicaProgress(id_, 100, 50_000, 10_000 if id_ in behind else 50_000) for id_ in CONTROLLERS)
    return QuorumAnswer(leader, 4, 100, progress, ())


def cluster(
    pods: Mapping[int, Pod] | None = None,
    nodes: Mapping[int, Node] | None = None,
    partitions: PartitionsReading | Failure | tuple[Row, ...] = PARTITIONS,
    *,
    quorum: QuorumAnswer | None = None,
    allowed: int = 6,
    **of_brokers: Any,
) -> Observation:
    """Three controllers and six brokers in three racks, all in sync, whose images have just been changed."""
    every = (*CONTROLLERS, *BROKERS)
    pods = {**{id_: a_pod(id_) for id_ in every}, **(pods or {})}
    all_nodes = {**{id_: a_node(id_) for id_ in every}, **(nodes or {})}
    controllers = stateful_set(*(pods[id_] for id_ in CONTROLLERS), name="controller", role="controllers")
    brokers = stateful_set(*(pod for id_, pod in pods.items() if id_ < 3000), **{"replicas": 6, **of_brokers})
    several = budget(*brokers.pods, most=6, disruptions_allowed=allowed)
    observation = observed_fleet(*all_nodes.values(), sets=(controllers, brokers), budgets=(several,))
    read: Any = partitions
    if isinstance(partitions, tuple):
        read = reading(*partitions)
    answer = quorum or voting()
    return replace(
        observation,
        quorum=Known(answer, SourceKind.API_REQUESTS, "", NOW),
        active_controller=Known(answer.leader_id, SourceKind.API_REQUESTS, "", NOW),
        partitions=Unknown(read) if isinstance(read, Failure) else Known(read, SourceKind.METADATA_LOG, "", NOW),
    )


def workloads_of(observation: Observation) -> WorkloadsReading:
    assert isinstance(observation.workloads, Known)
    return observation.workloads.value


def with_workloads(observation: Observation, **fields: Any) -> Observation:
    """Replace the StatefulSets or budgets of the observation."""
    assert isinstance(observation.workloads, Known)
    return replace(
        observation, workloads=replace(observation.workloads, value=replace(observation.workloads.value, **fields))
    )


def sent(
    id_: int,
    *,
    minutes: float = 1,
    uid: str = "",
    is_back: bool = False,
    unwanted: float | None = None,
    after: str = NEW,
    stopped: float | None = None,
    **of_step: Any,
) -> RestartInFlight:
    """Build the restart of a node in flight, from its old pod to a new one. `minutes`: since it was decided; `stopped`:
    since its pod began to stop; `unwanted`: since it was no longer wanted; `is_back`: the node is back, since it was
    decided.
    """
    step = RestartNode(
        id_,
        a_node(id_).title,
        a_pod(id_).name,
        uid or f"uid-{id_}",
        OLD,
        after,
        a_node(id_).broker_epoch,
        f"first-{id_}",
    )
    at = ago(minutes)
    return RestartInFlight(
        replace(step, **of_step),
        at,
        Via.API_SERVER,
        stable_since=at if is_back else None,
        unwanted_since=None if unwanted is None else ago(unwanted),
        stopping_since=at if stopped is None else ago(stopped),
    )


def looks(observation: Observation, lived: timedelta | None = None, **options: Any) -> ObservationPair:
    """Build the readings by which restarts are judged now. `lived`: the part of every age that this process has seen
    itself; None for all of it.
    """

    def age_of(moment: str) -> timedelta:
        return NOW - datetime.fromisoformat(moment)

    return ObservationPair(
        observation, observation, ago(0), age_of, age_of if lived is None else lambda _: lived, **options
    )


def ago(minutes: float) -> Stamp:
    return Stamp((NOW - timedelta(minutes=minutes)).isoformat())


def replaced(id_: int, **fields: Any) -> Mapping[int, Pod]:
    """Build the new pod of a node that was restarted."""
    return {id_: replace(a_pod(id_, **{"revision": NEW, **fields}), uid=UID_OF_REPLACED)}


def fresh(id_: int) -> Mapping[int, Node]:
    return {id_: replace(a_node(id_), broker_epoch=900 if id_ < 3000 else -1, incarnation="second")}


def read_at(observation: Observation, moment: datetime) -> Observation:
    """Set the time by the API server's clock at which pods were read; the clock of the operator is ahead."""
    return with_workloads(observation, at=moment)


def replication_of(observation: Observation) -> Replication | None:
    """Return the partitions to be judged, or None if they could not be read."""
    return Replication(observation.partitions.value) if isinstance(observation.partitions, Known) else None


def rolled(
    observation: Observation,
    *flying: RestartInFlight,
    rollout: Rollout = ROLLOUT,
    changes: tuple[UpdateFeature, ...] = (),
    status: Any = EMPTY,
    known_for: timedelta | None = None,
    up_for: Mapping[int, timedelta] | None = None,
    disks: Disks | None = None,
    permit: Permit = NO_PERMIT,
    **wanted: Any,
) -> Roll:
    """Judge the roll. `flying`: restarts in flight; `known_for`: the part of every age that this process has seen
    itself, None for all of it; `up_for`: for how long it has seen nodes up; `disks`: those at the beginning of the
    roll.
    """

    def age_of(moment: str) -> timedelta:
        return NOW - datetime.fromisoformat(moment)

    lived = age_of if known_for is None else lambda _: known_for
    remembered = RollContext(flying, status, NOW, age_of, lived, disks or {}, up_for or {})
    desired, replication = DesiredState({}, rollout=rollout, **wanted), replication_of(observation)
    unavailable = replication.never_available() if replication is not None else None
    excused, _ = excused_now(
        desired, observation, memory_of(status, age_of, age_of), changes=changes, unavailable=unavailable
    )
    return roll_of(desired, observation, changes, remembered, replication, excused=excused, permit=permit)


def behind_gates(observation: Observation, roll: Roll, rollout: Rollout) -> Roll:
    """Apply the gates of the document to the decision of the roll."""
    decision = decide(DesiredState({}, rollout=rollout), observation, roll=roll)
    assert isinstance(decision, Act | Wait | Stalled), decision
    return replace(roll, decision=decision)


def restart_in(roll: Roll) -> RestartNode:
    assert isinstance(roll.decision, Act), roll.decision
    assert isinstance(roll.decision.step, RestartNode)
    return roll.decision.step


def restarted_id(roll: Roll) -> int:
    return restart_in(roll).node_id


def refused(roll: Roll, reason: Reason) -> str:
    """Return the message of a roll that restarts no node now, for this reason."""
    assert isinstance(roll.decision, Wait | Stalled), roll.decision
    assert roll.decision.reason is reason, roll.decision
    return roll.decision.message


ROLLED_CONTROLLERS = current(*CONTROLLERS)
