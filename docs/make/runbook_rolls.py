"""Texts of the runbooks about rolls: nodes that are restarted, nodes that are not, and nodes that must not be yet.

Part of `runbook_texts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from docs.make.runbook_marks import Page, page
from kafkafeatures.api.reasons import Reason

OF_ROLLS: Mapping[Reason, Page] = {
    Reason.PAUSED: page(
        r"""
        Safe: The operator waits for the nodes that are being restarted, and restarts no other node until you resume
        the resource.

        Confirm: See which restarts are in progress, and how many nodes are current:

            kubectl get kff NAME -n NS -o jsonpath='{.status.rollout}{"\n"}{.status.intents}'

        Fix: Resume the resource, as described for [Suspended](Suspended.md).
        """
    ),
    Reason.HALTED: page(
        r"""
        Safe: The operator restarts no other node and changes no level. It still waits for the nodes that are being
        restarted.

        Confirm: The condition Stalled has the cause. Its reason has a runbook of its own:

        <message>

        Fix: Do what the message of Stalled says. The roll continues automatically once the cause is gone.
        """
    ),
    Reason.RESTART_REQUESTED: page(
        r"""
        Safe: With the driver Manual the operator restarts nothing itself. It asks for one node at a time, and only if
        the partitions of that node can do without it now. It changes no level until every node is current.

        Confirm: The message names the node, and how many nodes are current:

            kubectl get kff NAME -n NS -o \
              jsonpath='{.status.conditions[?(@.type=="NodesRolled")].message}{"\n"}'

        On the command line, `apply -f FILE` prints it.

        Fix: Make the change that the message of Ready names (a newer Kafka, or settings), then restart the node. The
        operator waits until the node is back, in sync and stable, and then asks for the next node.
        """
    ),
    Reason.NODES_BEHIND: page(
        r"""
        Safe: The operator changes no level and evicts no pod. Either live nodes have been too old for the level that
        the document asks for, for longer than `rollout.nodeTimeout`, and none of them was upgraded meanwhile; or a node
        that starts on the new image could not register again, because the image does not support a finalized level.

        Confirm: The message names the nodes or the StatefulSet, the feature, and both levels:

        <message>

        Fix: Do one of these:

        - Downgrade the feature first: set the target level in `features.levels`, and add the consent that the message
          names. The operator downgrades the level, then restarts the nodes. It restarts a controller only once that
          controller has a newer snapshot.
        - Use an image that supports the level.
        - Upgrade Kafka on the nodes that the message names; the operator continues by itself.
        """
    ),
    Reason.UPDATE_STRATEGY_UNSAFE: page(
        r"""
        Safe: The operator evicts no pod. But while the update strategy is RollingUpdate, Kubernetes itself restarts
        the pods after every change of the template. It continues as soon as a pod is ready, and does not look at
        partitions. Do not change the template before you have changed the strategy.

        Confirm:

            kubectl get statefulset -n NS -o custom-columns=NAME:.metadata.name,STRATEGY:.spec.updateStrategy.type

        Fix: Set the strategy to OnDelete, in Git, in the values of your chart, or with the command in the message:

            kubectl -n NS patch statefulset STATEFULSET --type merge \
              -p '{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}'

        This change restarts nothing. From then on, pods keep running after a change of the template until the operator
        restarts them.
        """
    ),
    Reason.DRIVER_CONFLICT: page(
        r"""
        Safe: This resource evicts no pod. The other operator or resource continues to restart pods, by its own rules.

        Confirm: The message names what else restarts the pods: the controller that owns the StatefulSet, or an older
        KafkaFeatures resource that names the same StatefulSet:

            kubectl get statefulset STATEFULSET -n NS -o jsonpath='{.metadata.ownerReferences}'
            kubectl get kff -n NS -o custom-columns=NAME:.metadata.name,BROKERS:.spec.workload.statefulSet.brokers

        Fix: Leave the pods to one of the two:

        - Another operator (Confluent for Kubernetes, ...): set `spec.workload.driver: None`. That operator restarts
          the nodes, and this resource only changes levels. With `Manual` this resource asks for one restart at a time,
          and you have the other operator carry it out. Confluent supports a plain restart of a pod only with its
          Observer container (`docs/how-to/with-confluent.md`).
        - Two KafkaFeatures resources: remove the StatefulSet from one of them.
        """
    ),
    Reason.STRIMZI_PAUSED: page(
        r"""
        Safe: The operator changes no level and asks for no restart. Strimzi ends a reconciliation that runs, with its
        roll, and begins no other while the `Kafka` is paused; a pod that is deleted or evicted comes back at once, from
        the newest template.

        Confirm:

            kubectl get kafka KAFKA -n NS -o jsonpath='{.metadata.annotations}'
            kubectl get strimzipodset -n NS -l strimzi.io/cluster=KAFKA

        Of a set with fewer current pods than pods, a roll is half done.

        Fix: Once the reason for the pause is gone, end it; the operator continues after Strimzi's next reconciliation:

            kubectl annotate kafka KAFKA -n NS strimzi.io/pause-reconciliation-
        """
    ),
    Reason.ROLLOUT_HALTED: page(
        r"""
        Safe: The operator restarts no other node and changes no level. Nodes that were restarted keep running.

        Do not delete pods of other nodes meanwhile: partitions that wait for this node may have no other replica to
        spare.

        Confirm: The message names the node, its pod, and what is missing. Look at Kubernetes and at Kafka:

            kubectl describe pod POD -n NS
            kubectl logs POD -n NS --previous
            kubectl get kff NAME -n NS -o jsonpath='{.status.intents}'
            kubectl get poddisruptionbudget -n NS

        On the command line: `kafkafeatures plan -f FILE`, and the log of the node.

        Fix: The roll continues automatically once the cause is gone; on the command line, run `apply` again. By cause:

        - A node came back without a setting, or with the old Kafka (driver Manual, or a migration): make the change
          that the message names, and restart the node.
        - The pod cannot start on its image: revert the image in Git, or set another one. The operator replaces this
          pod first. It restarts no node on the revision that failed, not even a node that does not run.
        - A container ended by itself on the current revision: `kubectl logs --previous` says why. Revert the image, or
          repair what the container needs. The crash halts the roll until the container has run for an hour. If the
          image is not to blame, you can delete the pod once all its partitions are in sync.
        - A broker does not come in sync, and the message names the leader of all partitions that it lacks: see the
          log of the leader too. In a migration, if it has `alter-partition-channel-manager]: Stopped`, restart the
          leader: it no longer admits a replica (a defect of Kafka 3.9). Partitions without another replica in
          sync have no leader until it is back.
        - Kubernetes cannot schedule the pod: make room for it.
        - The StatefulSet was scaled up, and the node of a new pod never registers: repair the pod, or scale back.
        - The StatefulSet was scaled down, and the pod is gone: scale up again, or unregister its node.
        - A PodDisruptionBudget allows no eviction, or two budgets cover the same pod: change them as the message says.
        - The quorum has two voters: add a third voter, or remove one of the two.
        - It is not known when a controller writes a snapshot: set `metadata.log.max.snapshot.interval.ms` above 0 on
          it, restart it on the image that it runs, and grant DESCRIBE_CONFIGS on the cluster.
        """
    ),
}
