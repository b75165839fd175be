"""Texts of the runbooks about migrations from ZooKeeper to KRaft. Part of `runbook_texts.py`."""

from __future__ import annotations

from collections.abc import Mapping

from docs.make.runbook_marks import Page, page
from kafkafeatures.api.reasons import Reason

_PHASE = r"""
        Confirm: Read the phase, the number of brokers in each mode, and the message:

            kubectl get kff NAME -n NS -o jsonpath='{.status.migration}{"\n"}'
            kubectl get kff NAME -n NS -o \
              jsonpath='{.status.conditions[?(@.type=="MigrationSettled")].message}{"\n"}'
"""

OF_MIGRATIONS: Mapping[Reason, Page] = {
    Reason.WAITING_FOR_GIT: page(
        rf"""
        Safe: The operator restarts and writes nothing while it waits. It never changes a setting, a template or a
        number of replicas.
        {_PHASE}
        Without a migration, this reason is about `inter.broker.protocol.version`. The status shows which version each
        broker uses:

            kubectl get kff NAME -n NS -o jsonpath='{{.status.interBrokerProtocolVersion}}{{"\n"}}'

        Fix: If brokers have no `inter.broker.protocol.version`, set the version that they use now before you change
        anything else. Otherwise a newer image raises it permanently. See
        [raise the inter.broker.protocol.version](../how-to/raise-the-ibp.md).

        Make the change that the message asks for, in Git or wherever you keep your settings.

        In a migration, change only the nodes that the message names. A template that is changed too early is reported
        as [TemplateAhead](TemplateAhead.md). This command shows every line that each node needs:

            kafkafeatures migration settings --to PHASE --bootstrap-server HOST:PORT \
              --bootstrap-controller HOST:PORT --zookeeper HOST:PORT/CHROOT
        """
    ),
    Reason.MIGRATION_FAILED: page(
        rf"""
        Safe: The operator takes no further step, and the cluster continues to serve clients. This state does not
        resolve automatically. Do not restart a controller or broker that runs before you know what the message means.
        If a node has stopped, start it again, with its disk and its settings unchanged.
        {_PHASE}
        The message names the facts that contradict each other: the state of the metadata log, the znodes `/controller`
        and `/migration`, and the modes of the nodes.

        Fix: Do what the message says, in its order.

        If two controllers lead at once, or `/controller` or `/migration` was deleted, create, delete and reassign no
        topic, and restart no broker, until the message is gone. If `/migration` was deleted, create it again before you
        restart a controller: a controller that is elected without it never writes to ZooKeeper.

        If a broker was the controller meanwhile, copy the whole message before you begin: it is gone once the active
        controller was restarted, and two things remain. Topics that were created through that broker are deleted. And
        brokers in ZooKeeper mode may ignore leaders that the controllers elect, because that broker gave them higher
        leader epochs: until you have restarted each of them, one after the other and with its settings unchanged, some
        partitions have no leader that brokers and controllers agree on, and replicas of these stay out of sync.

        If it asks you to wipe the disks of the controllers, stop all controllers and delete `/migration` first.
        Controllers with empty disks that find an old `/migration` skip the copy, and every topic is deleted. A broker
        that ran with the flag meanwhile registers with the new controllers once it is restarted.

        Once the new controllers run, the operator reports that the metadata log it had read is gone, as
        [ClusterIdMismatch](ClusterIdMismatch.md). Accept the new log as that message says.
        """
    ),
    Reason.MIGRATION_BLOCKED: page(
        r"""
        Safe: The operator takes no further step, and the cluster continues to serve clients. But at the position
        `NoController` no partition gets a new leader: follow the remedy soon.

        Confirm: The status has all blockers, each with its remedy:

            kafkafeatures status NAME -n NS

        On the command line, `kafkafeatures plan -f FILE` has them.

        Fix: Follow the remedy of each blocker. The migration continues automatically once no blocker is left.

        If the phase is unknown because a node does not answer, bring that node back with its disk and its settings.
        In dual write, the phase stays known while one of three controllers is away.
        """
    ),
    Reason.METADATA_DIFFERS: page(
        r"""
        Safe: Neither the next phase nor a rollback begins while ZooKeeper and the metadata log differ.

        Confirm: Print all differences:

            kafkafeatures migration compare --bootstrap-server HOST:PORT \
              --bootstrap-controller HOST:PORT --zookeeper HOST:PORT/CHROOT

        Fix: Restart the active controller, with its settings unchanged, and compare again.

        Kafka does not repeat a failed write to ZooKeeper. But when another controller becomes active, it writes all
        metadata to ZooKeeper again. This also overwrites changes that were made in ZooKeeper manually.

        If the controllers are stopped already (position `NoController`), no partition gets a new leader. If they still
        have their disks, start them again, and stop them when the operator asks for it. With new disks they would
        delete every topic: then the only way to continue is the consent `zk-rollback-lossy`.
        """
    ),
    Reason.TEMPLATE_AHEAD: page(
        r"""
        Safe: The operator restarts nothing. But if a pod is drained, or deleted by another client, its next pod starts
        from the new template. That pod may take a later phase of the migration, or end the migration irreversibly. With
        a newer Kafka it raises an `inter.broker.protocol.version` that is not set.

        Confirm: The message names the StatefulSet and its pods, or the broker and its `inter.broker.protocol.version`:

        <message>

        Fix: Do what applies:

        - A template was changed too early: revert the template of that StatefulSet in Git now. Change it again once the
          operator asks for it, with the reason [WaitingForGit](WaitingForGit.md).
        - A broker uses a version that another broker does not know: set the version that the message names on that
          broker in Git, and restart the broker, before you raise more brokers.
        - A broker has no version set, and its template has another Kafka: keep the old image in Git, and set the
          version that the message names.
        """
    ),
    Reason.MIGRATION_FINALIZE: page(
        r"""
        Safe: The cluster is in dual write. Until the plan is approved, it can go back to ZooKeeper mode.

        Confirm: See the plan, and for how long dual write has lasted:

            kafkafeatures status NAME -n NS

        Fix: Check that all clients and tools work. Then approve the plan. After that there is no way back:

            kafkafeatures approve NAME -n NS

        To go back instead, set `spec.migration.desired: RolledBack`.
        """
    ),
}
