"""What the runbooks say of migrations from ZooKeeper to KRaft."""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.reasons import Reason
from tests.contract.runbook_marks import Page, page

_PHASE = r"""
        Confirm: See the phase, how many brokers run in which mode, and what the message says:

            kubectl get kff NAME -n NS -o jsonpath='{.status.migration}{"\n"}'
            kubectl get kff NAME -n NS -o \
              jsonpath='{.status.conditions[?(@.type=="MigrationSettled")].message}{"\n"}'
"""

OF_MIGRATIONS: Mapping[Reason, Page] = {
    Reason.WAITING_FOR_GIT: page(
        rf"""
        Safe: Nothing is restarted and nothing is written while the operator waits. It never changes a setting, a
        template or a number of replicas.
        {_PHASE}
        Without a migration it is about `inter.broker.protocol.version`; which one each broker uses is in the status:

            kubectl get kff NAME -n NS -o jsonpath='{{.status.interBrokerProtocolVersion}}{{"\n"}}'

        Fix: Make the change that the message asks for, in Git or wherever your settings are kept. Where brokers have no
        `inter.broker.protocol.version`, set the one that they use before anything else: a newer image would raise it by
        itself, for ever. See [raise the inter.broker.protocol.version](../how-to/raise-the-ibp.md).

        In a migration every line that each node needs is shown by:

            kafkafeatures migration settings --to PHASE --bootstrap-server HOST:PORT \
              --bootstrap-controller HOST:PORT --zookeeper HOST:PORT/CHROOT

        Change only the nodes that it names: a template that changes too early is reported as
        [TemplateAhead](TemplateAhead.md).
        """
    ),
    Reason.MIGRATION_FAILED: page(
        rf"""
        Safe: No further step is taken, and the cluster serves as it did. Its state does not resolve automatically. Do
        not restart controllers or brokers before you know what the message means.
        {_PHASE}
        Fix: Do what the message says. It names the facts that contradict each other: the state of the metadata log, the
        znodes /controller and /migration, and the modes of the nodes. Where it asks for the disks of the controllers to
        be wiped, stop all controllers and delete /migration first: controllers with empty disks that find an old
        /migration skip the copy, and every topic is deleted. A log that was read before and is gone is reported as
        [ClusterIdMismatch](ClusterIdMismatch.md) once the new controllers run: accept the new log, as its message says.
        """
    ),
    Reason.MIGRATION_BLOCKED: page(
        r"""
        Safe: No further step is taken, and the cluster serves as it did.

        Confirm: All blockers are in the status, each with its remedy:

            kafkafeatures status NAME -n NS

        Fix: Follow the remedy of each blocker. The migration continues automatically once none is left.
        """
    ),
    Reason.METADATA_DIFFERS: page(
        r"""
        Safe: Neither the next phase nor a rollback begins while ZooKeeper and the metadata log differ.

        Confirm: Print all differences:

            kafkafeatures migration compare --bootstrap-server HOST:PORT \
              --bootstrap-controller HOST:PORT --zookeeper HOST:PORT/CHROOT

        Fix: Kafka never repeats a write to ZooKeeper that failed, until another controller becomes active: it writes
        everything anew then. So restart the active controller, with its settings as they are, and look again. A
        change that was made in ZooKeeper by hand is overwritten by that.
        """
    ),
    Reason.TEMPLATE_AHEAD: page(
        r"""
        Safe: Nothing is restarted by the operator. But a pod that is drained or deleted by another client starts
        with the new template, which may take a later phase of the migration, or end it irreversibly; or a newer Kafka,
        which raises an `inter.broker.protocol.version` that is not set.

        Confirm: The message names the StatefulSet and its pods, or the broker that uses a version which others do not
        know:

        <message>

        Fix: Revert the template of that StatefulSet in Git now. Change it again once the operator asks for it, with the
        reason [WaitingForGit](WaitingForGit.md). A broker that uses a higher version already gets the one of the others
        back: set it, and restart that broker, before more brokers are raised.
        """
    ),
    Reason.MIGRATION_FINALIZE: page(
        r"""
        Safe: The cluster is in dual write, and can go back to ZooKeeper mode for as long as this is not approved.

        Confirm: See the plan, and for how long dual write has lasted:

            kafkafeatures status NAME -n NS

        Fix: If all clients and tools have been seen to work, approve the plan: nothing leads back from there. To go
        back instead, set `spec.migration.desired: RolledBack`.

            kafkafeatures approve NAME -n NS
        """
    ),
}
