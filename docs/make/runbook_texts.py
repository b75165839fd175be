"""Texts of the runbooks: for each reason what is safe meanwhile, how to confirm the cause, and how to fix it.

Markdown, with the marks of `runbook_marks.py`. Here are levels and plans; rolls, connections, migrations, operators and
clients have modules of their own. `runbooks.py` makes the pages.
"""

from __future__ import annotations

from collections.abc import Mapping

from docs.make.runbook_clients import OF_CLIENTS
from docs.make.runbook_connections import OF_CONNECTIONS
from docs.make.runbook_marks import Page, filled, page
from docs.make.runbook_migrations import OF_MIGRATIONS
from docs.make.runbook_operators import OF_OPERATORS
from docs.make.runbook_rolls import OF_ROLLS
from kafkafeatures.api.reasons import Reason

_APPROVAL = page(
    r"""
    Safe: The operator sends nothing while the plan waits, and the cluster keeps its levels. An approval is valid for
    exactly one plan: it stays valid while that plan makes progress, and approves no later plan. While the approval has
    the hash of another plan, the operator sends nothing under any policy.

    Confirm: Read the plan: its hash, its steps, and whether each step can be undone (`undo`: Safe, Lossy if the
    downgrade may lose metadata, Impossible if Kafka refuses it):

    <plan>

    Fix: If the plan is right, approve it with one of these:

        kafkafeatures approve NAME -n NS    # shows the plan, and asks for confirmation
        kubectl annotate kff NAME -n NS --overwrite kafkafeatures.dev/approve=HASH

    In Git, set `spec.approval.planHash`. Under the policy `IrreversibleOnly`, a feature that you name under
    `spec.features.levels` needs no other approval.

    If the plan is not right, change the document; see [raise a release](../how-to/raise-a-release.md).
    """
)
_DRIFT = page(
    r"""
    Safe: With `drift.onDrift: Report` (the default) the operator leaves the level as it is. With `Correct` it restores
    the level. A correction that is not safe to undo waits for approval first (under `approval.policy: Never` only an
    irreversible correction does), and a downgrade needs a consent.

    Confirm: The condition DriftDetected names the feature, its level before and its level now:

    <message>

    The log of the active controller shows when the level was changed (`FeatureLevelRecord`). Find out who ran
    `kafka-features.sh`, or which other operator or job manages levels.

    Fix:

    - If the new level is intended, write it into the document.
    - If not, set `spec.drift.onDrift: Correct`, or restore the level manually. A downgrade needs a consent (see
      <go back>), and a change that is not safe to undo waits for approval.

    Then make sure that levels are managed in one place only.
    """
)

PAGES: Mapping[Reason, Page] = {
    **OF_ROLLS,
    **OF_CONNECTIONS,
    **OF_MIGRATIONS,
    **OF_OPERATORS,
    **OF_CLIENTS,
    Reason.SUSPENDED: page(
        r"""
        Safe: The step in progress completes and is verified. The operator still computes the plan, but starts no new
        step until the resource is resumed.

        Confirm: Either the field or the annotation suspends the resource:

            kubectl get kff NAME -n NS -o \
              jsonpath='{.spec.suspend} {.metadata.annotations.kafkafeatures\.dev/pause}'

        Fix: Find out who suspended the resource, and why. Then remove `suspend` from the document, and remove the
        annotation with one of these:

            kafkafeatures resume NAME -n NS
            kubectl annotate kff NAME -n NS kafkafeatures.dev/pause-
        """
    ),
    Reason.DRIFTED: _DRIFT,
    Reason.LEVEL_BEHIND: _DRIFT,
    Reason.LEVEL_AHEAD: _DRIFT,
    Reason.APPROVAL_REQUIRED: _APPROVAL,
    Reason.PLAN_PENDING: _APPROVAL,
    Reason.PLAN_CHANGED: {
        **_APPROVAL,
        "Confirm": filled(
            """
            The approval is for an earlier plan: the document or the cluster has changed since. Compare the hash of the
            current plan with the annotation `kafkafeatures.dev/approve` and with `spec.approval.planHash`:

            <plan>
            """
        ),
    },
    Reason.INVALID_SPEC: page(
        r"""
        Safe: The operator sends nothing and evicts no pod. Levels, and the facts in the status, stay as they are.

        Confirm: The message names the field, the invalid value, and what is expected; or the StatefulSet, the pod or
        the node that does not match the document:

        <message>

        Fix: Correct the document. This command reports the same problems before you apply the document, except those of
        StatefulSets:

            kafkafeatures plan -f FILE

        If the message is about StatefulSets: `spec.workload.statefulSet` has to name the StatefulSets of all nodes of
        the cluster, and no others. The operator finds the pod of a node by the addresses that the node advertises. One
        listener of each node has to lead to its own pod, by the name of the pod (`broker-0.kafka.NS.svc.cluster.local`)
        or by its IP address, and no other node may advertise the same address.
        """
    ),
    Reason.UNKNOWN_RELEASE: page(
        r"""
        Safe: The operator does not contact the cluster. Levels, and the facts in the status, stay as they are.

        Confirm: List the releases that the running operator knows:

            kubectl exec -n OPERATOR-NS deploy/kafka-features-operator -- kafkafeatures version

        Fix: If the name is misspelled, correct it. If Kafka is newer than the operator, upgrade the operator, or write
        the level as a number under `spec.features.levels`.
        """
    ),
    Reason.UNKNOWN_FEATURE: page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        The remedy lists the features that the nodes of this cluster support.

        Fix: If the name is misspelled, correct it. If only a newer Kafka has the feature, upgrade the nodes first, or
        remove the feature from the document until then.
        """
    ),
    Reason.UNSUPPORTED_LEVEL: page(
        r"""
        Safe: <still>

        Confirm: `supportedMax` is the highest level that all nodes support:

            kubectl get kff NAME -n NS -o \
              jsonpath='{range .status.features[*]}{.name} {.supportedMin}-{.supportedMax}{"\n"}{end}'

        Fix: Upgrade Kafka on all nodes first, or choose a level that they support. Where the message says that the
        finalized level is below what the new Kafka release supports, upgrade nothing yet: first raise
        `metadata.version` to a level that the message names, while the nodes run the Kafka that they run now. A node on
        the new release could not register before.
        """
    ),
    Reason.GHOST_REGISTRATION: page(
        r"""
        Safe: <still>

        While the registration exists, Kafka itself usually refuses the level too.

        Confirm: A ghost registration is left behind by a node that no longer exists.

        <blockers>

        Make sure that the node is permanently gone, and not only down. This command shows every registration, and which
        nodes answer:

            kafkafeatures describe --bootstrap-server HOST:PORT

        Fix: If the node is only down, start it on the new Kafka.

        If a broker is permanently gone, unregister it. The command refuses this unless the broker is fenced, does not
        answer, and hosts no replica:

            kafkafeatures unregister --broker ID --bootstrap-server HOST:PORT > reassign.json

        If the broker still has replicas, the command prints a reassignment that gives them to live brokers, and ends
        with 4. Read it, run it with Kafka's own tool (whose `--generate` may fail for a broker that is gone), and
        unregister again. A partition whose only replica is there is left out: its data exists nowhere else.

            kafka-reassign-partitions.sh --bootstrap-server HOST:PORT --reassignment-json-file reassign.json --execute

        If a controller is permanently gone, and metadata.version is 33 (4.4-IV2) or higher, unregister it. The command
        refuses this for the active controller, a voter, and a controller that answers or fetches:

            kafkafeatures unregister --controller ID --bootstrap-server HOST:PORT

        Below 33, Kafka cannot unregister a controller, and the ghost registration itself may prevent the upgrade to 33.
        Then start a controller with this id on the new Kafka once, so that it registers again, and stop it. Now the
        levels can be raised. Unregister it once 33 is finalized.
        """
    ),
    Reason.NODE_REFUSED: page(
        r"""
        Safe: <still>

        Until then the broker is not part of the cluster and serves no requests.

        Confirm:

        <blockers>

        The log of the active controller says why it rejects the broker.

        Fix: Upgrade Kafka on the broker, so that it supports the finalized levels, or stop the broker.
        """
    ),
    Reason.DEPENDENCY_MISSING: page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        Fix: Add the required feature to the same document, at the required level or higher. The operator then raises
        both features in a safe order.
        """
    ),
    Reason.DOWNGRADE_REFUSED: page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        For the downgrades that are possible, see <go back>.

        Fix: Set the feature to the level that the blocker names, or higher. A consent does not help, because metadata
        would be lost.

        If the blocker is about `inter.broker.protocol.version`, which is never downgraded either: set
        `spec.interBrokerProtocolVersion` to the version that the message names, or higher.
        """
    ),
    Reason.CONSENT_REQUIRED: page(
        r"""
        Safe: <still>

        A reverted document alone downgrades nothing.

        Confirm:

        <blockers>

        Fix: If you do not want the change, for example after a reverted commit, set the level to the finalized level.
        If you want it, add the consent to `spec.consents`, exactly as the remedy names it. It can be used once. See
        <go back>.

        Three consents are for restarts:

        - `single-replica-topics`: topics become unavailable while their broker restarts. Give the topics more replicas,
          or add the consent. It is valid for the topics that the plan names. If other topics were added later, remove
          the consent, apply the document, then add the consent again.
        - `quorum-of-one`: the only controller restarts. Until it is back, nothing that needs an active controller
          works.
        - `client-breaks:Produce:2`: clients that use version 2 of Produce break with the new image. It is asked for
          under `clientEvidence.policy: Gate`, covers this one version, and is valid for one roll; see
          [BlockingClients](BlockingClients.md).

        One is for the quorum:

        - `dynamic-quorum`: `kraft.version` 1 writes the voters into the metadata log, with the addresses that the plan
          shows. There is no way back. Read the warnings of the plan first, then see [make the quorum
          dynamic](../how-to/raise-a-release.md#make-the-quorum-dynamic).
        """
    ),
    Reason.CONSENT_SPENT: page(
        r"""
        Safe: <still>

        A used consent that stays in Git allows nothing a second time.

        Confirm: List the used consents:

            kubectl get kff NAME -n NS -o jsonpath='{.status.spentConsents}'

        Fix: If you want the same change again, or another roll needs the consent: remove the consent from the document,
        apply the document, wait until the consent is no longer in `.status.spentConsents`, then add it again. If not,
        set the level to the finalized level.
        """
    ),
    Reason.CONTROLLER_REJECTED: page(
        r"""
        Safe: The level was not changed, and the operator does not send the change again while the controller rejects it
        in a dry run (`validateOnly`). `kraft.version` has no dry run: check its level with `kafkafeatures describe`.

        Confirm: The message quotes the controller, whose log has more details:

        <message>

        Fix: Follow the controller's message. If it does not explain the cause, try the same change with Kafka's own
        tool. With `--dry-run` the tool changes nothing, except that some releases raise `kraft.version` even then:

            kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature FEATURE=LEVEL --dry-run
        """
    ),
    Reason.ZOOKEEPER_MODE: page(
        r"""
        Safe: <still>

        Confirm:

            kubectl get kff NAME -n NS -o jsonpath='{.status.metadataMode}'

        Fix: [Migrate the cluster to KRaft](../how-to/migrate-to-kraft.md) first. No client can finalize a feature in
        ZooKeeper mode. Until then set `spec.mode: Observe`.

        In ZooKeeper mode the operator restarts brokers only for `spec.interBrokerProtocolVersion`: see
        [raise the inter.broker.protocol.version](../how-to/raise-the-ibp.md).
        """
    ),
    Reason.BLOCKED: page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        The reason of Ready names the most important blocker. If action is required, that reason has its own runbook.

        Fix: Follow the remedies, in any order. If a node runs an older Kafka, upgrade it; nothing else is needed.
        """
    ),
}
