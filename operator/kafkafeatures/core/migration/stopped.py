"""Checks that every controller has stopped, before the znodes of a quorum are deleted.

Pure. Called by the other modules of `core/migration/`. If a controller still ran, it could write the deleted znodes
again, or lose the cluster that it leads. Silence proves nothing: a controller that cannot be reached from here may
lead, and serve the brokers. So every voter must be proven to have stopped (`core/migration/voters.py`): Kubernetes
shows its StatefulSet without a pod, or its own address refuses the connection. In addition, `/migration` must not have
changed for a moment; that alone proves nothing, as no controller writes there before the copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafkafeatures.api.names import ZK_CONTROLLERS_STOPPED
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.status import VoterStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Stalled, Wait, stalled_by, waits_on
from kafkafeatures.core.facts.observation import PODS_UNKNOWN, Known, Unknown
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.migration.memory import MigrationMemory
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.migration.voters import answering, not_proven
from kafkafeatures.core.words import first_of

STILL_FOR = 3.0
"""Seconds without a write to `/migration`; an active controller writes twice a second."""
STILL_UNPROVEN = 60.0
"""Seconds without a write to `/migration`, if only a person says that all controllers have stopped."""
REACH = "spec.cluster.bootstrapControllers, the network and TLS between KafkaFeatures and the controllers"
"""Causes why a controller that runs may not be reached, for remedies."""
_SURE = f"or, if every controller has certainly stopped, add {ZK_CONTROLLERS_STOPPED} to consents"
_REFUSE = "its own address (not that of a Service or a tunnel) must then refuse connections, and not only be silent"


def pods_left(progress: MigrationProgress) -> Iterator[Blocker]:
    """Blockers for pods of controllers that exist or that Kubernetes is to create, or for pods that could not be read.
    A pod that is not ready, or is being deleted, may still run a controller.
    """
    workloads = progress.observation.workloads
    if isinstance(workloads, Unknown):
        if workloads.failure.kind is not FailureKind.NOT_ASKED:
            failure = workloads.failure
            yield Blocker(BlockerKind.MIGRATION, f"{PODS_UNKNOWN}: {failure}", failure.action, about="pods")
        return
    for owner in workloads.value.stateful_sets:
        if owner.role != "controllers" or not (owner.pods or owner.replicas):
            continue
        pods = [pod.name for pod in owner.pods]
        names = first_of(pods) or "a future pod"
        text, remedy = "may still write to ZooKeeper", f"set {owner.name} to 0 replicas in Git"
        if not owner.replicas and all(pod.terminating for pod in owner.pods):
            text = f"{'is' if len(pods) == 1 else 'are'} stopping, and {text}"
            remedy = (
                "wait until it has stopped; if its Kubernetes node is lost, shut that node down so that no controller "
                f"runs there, and only then: kubectl delete pod {pods[0]} --force"
            )
        yield Blocker(BlockerKind.MIGRATION, f"{names} of StatefulSet {owner.name} {text}", remedy)


def still_answering(progress: MigrationProgress) -> Iterator[Blocker]:
    """Blocker for controllers that answer, even at addresses that the document does not name. No consent lifts it."""
    addresses = ", ".join(answering(progress.observation))
    if addresses or isinstance(progress.observation.registered_controllers, Known):
        text = f"a controller answers at {addresses}" if addresses else "a controller answered a moment ago"
        remedy = f"stop every controller; if they are to continue, check {REACH}"
        yield Blocker(BlockerKind.MIGRATION, text, remedy)


def unproven(
    progress: MigrationProgress, controllers: Collection[str], voters: tuple[VoterStatus, ...]
) -> Blocker | None:
    """Blocker for the controllers that are not proven to have stopped; None if all are, or if another blocker already
    names a controller that runs.

    controllers: StatefulSets of controllers that the document names.
    voters: voters of the quorum, from the status.
    """
    observation, pods = progress.observation, progress.observation.workloads
    missing = [name for name in pods.value.missing if name in controllers] if isinstance(pods, Known) else []
    if missing:
        text = f"StatefulSet {', '.join(missing)} does not exist or is being deleted; its pods may still run"
        about = ", ".join(f"StatefulSet {name}" for name in missing)
        return Blocker(BlockerKind.MIGRATION, text, f"create it again with 0 replicas; {_SURE}", about=about)
    if any(still_answering(progress)) or isinstance(observation.registered_controllers, Known):
        return None
    unproven_voters, failure = not_proven(observation, voters), observation.registered_controllers.failure
    if voters and not unproven_voters:
        return None
    if not unproven_voters and failure.kind is FailureKind.NOT_ASKED:
        text = "controllers may still run: none was asked, because none is named in the document"
        remedy = f"name every controller in spec.cluster.bootstrapControllers; {_SURE}"
        return Blocker(BlockerKind.MIGRATION, text, remedy, about="controllers that no document names")
    if not unproven_voters:
        text = (
            f"controllers may still run: {failure.location}: {failure.message}; which controllers the quorum has is "
            "not known"
        )
        return Blocker(BlockerKind.MIGRATION, text, f"stop every controller; {_SURE}", about="controllers of any id")
    tried = next((voter_failure for _, voter_failure in unproven_voters if voter_failure is not None), failure)
    titles = (
        f"controller{'s' if len(unproven_voters) > 1 else ''} "
        f"{', '.join(str(voter.node_id) for voter, _ in unproven_voters)}"
    )
    text = f"controllers may still run: {tried.location}: {tried.message}; not proven to have stopped: {titles}"
    about = ", ".join(f"controller {voter.node_id}" for voter, _ in unproven_voters)
    return Blocker(BlockerKind.MIGRATION, text, f"stop every controller; {_REFUSE}; {_SURE}", about=about)


def unreachable(
    progress: MigrationProgress, memory: MigrationMemory, monotonic_time: float, passes_within: float
) -> Wait | Stalled | None:
    """Decision if no controller answers on the way forward: a halt if one of them writes to ZooKeeper all the same;
    else a wait of at most `passes_within` seconds, as they may be restarting. None after that, at positions that have
    controllers, and where `/migration` does not exist.
    """
    if progress.position not in (Position.NO_CONTROLLER, Position.RELEASED):
        return None
    if memory.is_written(monotonic_time):
        text = "a controller writes to ZooKeeper, but none can be reached"
        stalled = stalled_by(Blocker(BlockerKind.QUORUM, text, f"check {REACH}"), message=text)
        return replace(stalled, reason=Reason.MIGRATION_FAILED)
    if not progress.facts.has_progress or memory.silent_for(monotonic_time) >= passes_within:
        return None
    text = "no controller answers; this may pass within a minute"
    noted = Blocker(BlockerKind.QUORUM, text, "start the controllers, if they do not restart by themselves")
    return waits_on(noted, Reason.MIGRATING, message=text)
