"""One reading of a resource's cluster, and the check that it is the right cluster.

Called by `reconcile/evaluate.py` and `reconcile/settle.py`; the reading itself is made in `reconcile/look.py`.
"""

from __future__ import annotations

from functools import partial

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import Mode
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.engine.memory import lost_cluster
from kafkafeatures.core.facts.client_standing import judged_brokers
from kafkafeatures.core.facts.inferred import with_inferred_releases
from kafkafeatures.core.facts.managed import ManagedLevel
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.levels.managed import explained, refused_change
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.look import look, look_again, pods
from kafkafeatures.reconcile.ports import Resource


async def read_context_of(context: ReconcileContext, resource: Resource) -> ReadContext:
    """Input for the choice of readings; the pods in it are read here."""
    return ReadContext(
        resource.desired,
        resource.status,
        await pods(context.ports),
        context.now(),
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
    if not is_ours(resource, observation):
        return observation
    observation = with_inferred_releases(observation)
    if context.clients is not None:
        observation = replace(observation, clients=context.clients(judged_brokers(observation)))
    if not context.managed:
        return observation
    return replace(
        observation, managed=tuple([await _managed(context, resource, level, observation) for level in context.managed])
    )


async def _managed(
    context: ReconcileContext, resource: Resource, managed: ManagedLevel, observation: Observation
) -> ManagedLevel:
    """A level that another operator sets; if it could not, with Kafka's reason, which a dry run of the change tells. In
    mode Observe, and while the resource is suspended, none is made.
    """
    change = refused_change(managed, observation)
    if change is None:
        return managed
    only_reads = resource.desired.mode is Mode.OBSERVE or resource.desired.suspend
    verdict = None if only_reads else await context.kafka.validate((change,))
    return explained(managed, change, observation, verdict)


def is_ours(resource: Resource, observation: Observation) -> bool:
    """Tell whether the observation is of the cluster that the status and the document name, as far as they name one. If
    they name two different ones, no cluster is ours, as the history would be that of another cluster. If the status
    lost its cluster id, the document must name the cluster.
    """
    if isinstance(observation.cluster_id, Unknown):
        return False
    bound = {resource.status.cluster_id, resource.desired.cluster_id} - {""}
    return bound <= {observation.cluster_id.value} and (bool(bound) or not lost_cluster(resource.status))
