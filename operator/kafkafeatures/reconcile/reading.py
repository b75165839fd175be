"""One reading of the cluster of a resource, and whether that is the cluster that the resource is about."""

from __future__ import annotations

from functools import partial

from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.engine.memory import lost_cluster
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.look import look, look_again, pods
from kafkafeatures.reconcile.ports import Resource


async def read_context_of(context: ReconcileContext, resource: Resource) -> ReadContext:
    """The facts that say what has to be read; the pods among them are read here."""
    return ReadContext(
        resource.desired, resource.status, await pods(context.ports), context.clock(), stage_memory=context.ages.kept
    )


async def observe_cluster(
    context: ReconcileContext, resource: Resource, read_context: ReadContext, *, again: bool = False
) -> Observation:
    """The cluster as it is now. `again`: only what a restart is decided on, a moment after all of it was read.

    Raises ClusterUnreachable where no node answers.
    """
    if again:
        return await look_again(context.ports, read_context)
    return await look(context.ports, read_context, partial(is_ours, resource))


def is_ours(resource: Resource, observation: Observation) -> bool:
    """Tell whether this is the cluster of the status, and the one that the document names, as far as there is either.

    The status comes first: a document that names another cluster does not make its history that cluster's. Of a status
    that lost the id only the document can say which cluster it is of.
    """
    if isinstance(observation.cluster_id, Unknown):
        return False
    bound = {resource.status.cluster_id, resource.desired.cluster_id} - {""}
    return bound <= {observation.cluster_id.value} and (bool(bound) or not lost_cluster(resource.status))
