"""Has every controller of the quorum stopped? What is deleted in ZooKeeper while one runs may be lost, or come back.

Pure. Called by `core/migration/checks.py` before znodes are deleted. Silence proves nothing: a controller that cannot
be reached from here may lead, and serve the brokers. Kubernetes proves it, where it shows the StatefulSet of
controllers without a pod; else each address that the document names, which refuses the connection. In either case
nothing may have written to `/migration` for a moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafkafeatures.api.names import ZK_CONTROLLERS_STOPPED
from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.observation import Known, Unknown
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.migration.place import Place

STILL_FOR = 3.0
"""Seconds; an active controller writes twice a second."""
STILL_UNPROVEN = 60.0
"""Seconds, where a person alone says that all have stopped."""
REACH = "spec.cluster.bootstrapControllers, the network and TLS between KafkaFeatures and the controllers"
_SURE = f"or, if every controller has certainly stopped, add {ZK_CONTROLLERS_STOPPED} to consents"
_REFUSE = "its own address (not that of a Service or a tunnel) must then refuse connections, and not only be silent"


def pods_left(place: Place) -> Iterator[Blocker]:
    """No pod of one, nor one that Kubernetes is to make: also one that is not ready, or is stopping, may still run."""
    workloads = place.seen.workloads
    if isinstance(workloads, Unknown):
        if workloads.why.kind is not FailureKind.NOT_ASKED:
            why = workloads.why
            yield Blocker(BlockerKind.MIGRATION, f"the pods could not be read: {why}", why.action, about="pods")
        return
    for owner in workloads.value.stateful_sets:
        if owner.role != "controllers" or not (owner.pods or owner.replicas):
            continue
        pods = [pod.name for pod in owner.pods]
        named = ", ".join(pods[:3]) if pods else "a future pod"
        more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
        text, remedy = "may still write to ZooKeeper", f"set {owner.name} to 0 replicas in Git"
        if not owner.replicas and all(pod.terminating for pod in owner.pods):
            text = f"{'is' if len(pods) == 1 else 'are'} stopping, and {text}"
            remedy = (
                "wait until it has stopped; if its Kubernetes node is lost, shut that node down so that no controller "
                f"runs there, and only then: kubectl delete pod {pods[0]} --force"
            )
        yield Blocker(BlockerKind.MIGRATION, f"{named}{more} of StatefulSet {owner.name} {text}", remedy)


def unproven(place: Place, controllers: Collection[str]) -> Blocker | None:
    """Why it is not proven that none runs; None where it is, or where `pods_left` names one. controllers: StatefulSets
    of controllers that the document names.
    """
    found, pods = place.seen.registered_controllers, place.seen.workloads
    workloads = pods.value if isinstance(pods, Known) else None
    if workloads is not None and (missing := [one for one in workloads.missing if one in controllers]):
        text = f"StatefulSet {', '.join(missing)} does not exist or is being deleted; its pods may still run"
        return Blocker(BlockerKind.MIGRATION, text, f"create it again with 0 replicas; {_SURE}")
    if workloads is not None and any(one.role == "controllers" for one in workloads.stateful_sets):
        return None
    if isinstance(found, Known):
        return Blocker(BlockerKind.MIGRATION, "a controller answered a moment ago", f"stop every controller; {_SURE}")
    why = found.why
    if why.kind is FailureKind.NOT_LISTENING:
        return None
    if why.kind is FailureKind.NOT_ASKED:
        text = "controllers may still run: none was asked, because none is named in the document"
        remedy = f"name every controller in spec.cluster.bootstrapControllers; {_SURE}"
        return Blocker(BlockerKind.MIGRATION, text, remedy)
    text = f"controllers may still run: {why.where}: {why.message}"
    return Blocker(BlockerKind.MIGRATION, text, f"stop every controller; {_REFUSE}; {_SURE}")
