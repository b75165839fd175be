"""One reading of a resource's cluster, and the check that it is the right cluster."""

from __future__ import annotations

from functools import partial

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.engine.memory import lost_cluster
from kafkafeatures.core.facts.client_standing import judged_brokers
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.look import look, look_again, pods
from kafkafeatures.reconcile.ports import Resource


async def read_context_of(context: ReconcileContext, resource: Resource) -> ReadContext:
    """Input for the choice of readings; the pods in it are read here."""
    return ReadContext(
        resource.desired, resource.status, await pods(context.ports), context.clock(), stage_memory=context.ages.kept
    )


async def observe_cluster(
    context: ReconcileContext, resource: Resource, read_context: ReadContext, *, again: bool = False
) -> Observation:
    """The cluster at this moment. `again`: only the readings on which a restart is decided, a moment after a full one.
    Raises ClusterUnreachable where no node answers.
    """
    if again:
        observation = await look_again(context.ports, read_context)
    else:
        observation = await look(context.ports, read_context, partial(is_ours, resource))
    if context.clients is None or not is_ours(resource, observation):
        return observation
    return replace(observation, clients=context.clients(judged_brokers(observation)))


def is_ours(resource: Resource, observation: Observation) -> bool:
    """Tell whether this is the cluster of the status and of the document, as far as these name one. A document that
    names another cluster than its status never matches: the history is not that cluster's. For a status that lost its
    id, the document must name the cluster.
    """
    if isinstance(observation.cluster_id, Unknown):
        return False
    bound = {resource.status.cluster_id, resource.desired.cluster_id} - {""}
    return bound <= {observation.cluster_id.value} and (bool(bound) or not lost_cluster(resource.status))
