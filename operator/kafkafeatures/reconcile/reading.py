"""One reading of a resource's cluster, and the check that it is the right cluster.

Called by `reconcile/evaluate.py` and `reconcile/settle.py`; the reading itself is made in `reconcile/look.py`.
"""

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
        resource.desired,
        resource.status,
        await pods(context.ports),
        context.clock(),
        stage_memory=context.ages.stage_memory,
    )


async def observe_cluster(
    context: ReconcileContext, resource: Resource, read_context: ReadContext, *, only_for_restart: bool = False
) -> Observation:
    """Read the cluster. Raises ClusterUnreachable if no node answers. `only_for_restart`: a moment after a full
    reading, make only those readings that a restart depends on.
    """
    if only_for_restart:
        observation = await look_again(context.ports, read_context)
    else:
        observation = await look(context.ports, read_context, partial(is_ours, resource))
    if context.clients is None or not is_ours(resource, observation):
        return observation
    return replace(observation, clients=context.clients(judged_brokers(observation)))


def is_ours(resource: Resource, observation: Observation) -> bool:
    """Tell whether the observation is of the cluster that the status and the document name, as far as they name one. If
    they name two different ones, no cluster is ours, as the history would be that of another cluster. If the status
    lost its cluster id, the document must name the cluster.
    """
    if isinstance(observation.cluster_id, Unknown):
        return False
    bound = {resource.status.cluster_id, resource.desired.cluster_id} - {""}
    return bound <= {observation.cluster_id.value} and (bool(bound) or not lost_cluster(resource.status))
