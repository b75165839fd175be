"""What the runbooks say of rolls: nodes that are restarted, are not, or must not be yet."""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.reasons import Reason
from tests.contract.runbook_marks import Page, page

OF_ROLLS: Mapping[Reason, Page] = {
    Reason.PAUSED: page(
        r"""
        Safe: Nodes in flight come back by themselves and are followed; no other node is restarted until the
        resource is resumed.

        Confirm: See which nodes are in flight, and how many are current:

            kubectl get kff NAME -n NS -o jsonpath='{.status.rollout}{"\n"}{.status.intents}'

        Fix: Resume the resource, as for [Suspended](Suspended.md).
        """
    ),
    Reason.HALTED: page(
        r"""
        Safe: No other node is restarted, and no level changes. Nodes in flight are followed.

        Confirm: The condition Stalled has the cause, and its reason has a page of its own:

        <message>

        Fix: Do what the message of Stalled says. The roll continues automatically once the cause is gone.
        """
    ),
    Reason.RESTART_REQUESTED: page(
        r"""
        Safe: The operator asks for one node at a time, and only for one whose partitions can do without it now. It
        restarts nothing itself (driver Manual), and no level changes before every node is current.

        Confirm: The message names the node, and how many are current:

            kubectl get kff NAME -n NS -o \
              jsonpath='{.status.conditions[?(@.type=="NodesRolled")].message}{"\n"}'

        Fix: Install the newer Kafka on that node and restart it. The operator sees that it comes back, waits until
        it is in sync and stable, and asks for the next one.
        """
    ),
    Reason.NODES_BEHIND: page(
        r"""
        Safe: Nothing is evicted. A node that was started on the new image could not register again, because the image
        does not support a level that is finalized.

        Confirm: The message names the StatefulSet, the feature, and both levels:

        <message>

        Fix: Downgrade the feature first: set the target level in `features.levels`, and add the consent that the
        message names. The operator downgrades the level, then restarts the nodes; controllers only once they have a
        newer snapshot. Or use an image that supports the level.
        """
    ),
    Reason.UPDATE_STRATEGY_UNSAFE: page(
        r"""
        Safe: Nothing is evicted. But as long as the update strategy is RollingUpdate, every change of the template
        makes Kubernetes restart the pods by itself, one after the other, as soon as each is ready: it does not look
        at partitions. Do not change the template before this is mended.

        Confirm:

            kubectl get statefulset -n NS -o custom-columns=NAME:.metadata.name,STRATEGY:.spec.updateStrategy.type

        Fix: Set it in Git, in the values of your chart, or with the command in the message:

            kubectl -n NS patch statefulset STATEFULSET --type merge \
              -p '{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}'

        The change itself restarts nothing. From then on a changed template waits for the operator.
        """
    ),
    Reason.DRIVER_CONFLICT: page(
        r"""
        Safe: Nothing is evicted by this resource. The other one continues to restart pods, by its own rules.

        Confirm: The message names who else restarts the pods: the controller that owns the StatefulSet, or an older
        KafkaFeatures resource that names it as well:

            kubectl get statefulset STATEFULSET -n NS -o jsonpath='{.metadata.ownerReferences}'
            kubectl get kff -n NS -o custom-columns=NAME:.metadata.name,BROKERS:.spec.workload.statefulSet.brokers

        Fix: Leave the pods to one of the two. With another operator (Strimzi, Confluent for Kubernetes, ...) set
        `spec.workload.driver: Manual`, so that this resource asks for one restart at a time and you have the other
        operator make it, or `None`. Of two resources, take the StatefulSet out of one.
        """
    ),
    Reason.ROLLOUT_HALTED: page(
        r"""
        Safe: No other node is restarted, and no level changes. Nodes that were restarted keep running.

        Confirm: The message names the node, its pod, and what it has not done yet. Look at both sides:

            kubectl describe pod POD -n NS
            kubectl logs POD -n NS --previous
            kubectl get kff NAME -n NS -o jsonpath='{.status.intents}'
            kubectl get poddisruptionbudget -n NS

        Fix: A pod that cannot start on its image: revert the image in Git, or set another one; the operator then
        replaces this pod first, and the roll continues. To what halted the roll nothing is restarted, whatever else
        does not run. A container that ended by itself on the current revision: `kubectl logs --previous` says why;
        revert the image, or repair what it needs. It counts for an hour of running; if the image is not to blame,
        delete the pod once all its partitions are in sync. A pod that Kubernetes cannot place: make room. A new pod of
        a StatefulSet that was scaled up, whose node never registers: repair it, or scale back. A pod that is gone
        because its StatefulSet was scaled down: scale up again, or unregister its node. A PodDisruptionBudget that
        allows no eviction, or two that cover the same pod: change them as the message says. A quorum of two voters:
        add a third one, or remove one of the two. A controller that writes no snapshot: set
        `metadata.log.max.snapshot.interval.ms`, and restart it on the image that it runs. Do not delete pods of other
        nodes meanwhile: the partitions that wait for this node may have no other replica to spare.
        """
    ),
}
