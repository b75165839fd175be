"""What the runbooks say, as data: for each reason what is safe meanwhile, how to confirm it, and how to mend it.

Markdown, with the marks of `runbook_marks.py`. Here are levels, plans and resources; rolls and connections have modules
of their own. `runbooks.py` makes the pages.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.reasons import Reason
from tests.contract.runbook_connections import OF_CONNECTIONS
from tests.contract.runbook_marks import Page, filled, page
from tests.contract.runbook_migrations import OF_MIGRATIONS
from tests.contract.runbook_rolls import OF_ROLLS

_APPROVAL = page(
    r"""
    Safe: Nothing is sent while the plan waits, and the cluster keeps the levels it has. An approval is
    valid for exactly one plan: progress does not invalidate it, and it authorises no later plan. While the
    hash of another plan is given, nothing is sent under any policy.

    Confirm: Read the plan: its hash, its steps, and how each can be undone (`undo`: Safe,
    Lossy for a downgrade that may lose metadata, Impossible for one that Kafka refuses):

    <plan>

    Fix: If the plan is right, approve exactly this plan: with `kafkafeatures approve`, which shows it and asks
    for confirmation, with the annotation that it writes, or with `spec.approval.planHash` in Git:

        kafkafeatures approve NAME -n NS
        kubectl annotate kff NAME -n NS --overwrite kafkafeatures.dev/approve=HASH

    Naming each level under `spec.features.levels` also approves it (policy `IrreversibleOnly`).
    If the plan is not right, change the document; see [raise a release](../how-to/raise-a-release.md).
    """
)
_DRIFT = page(
    r"""
    Safe: With `drift.onDrift: Report` (the default) the level is left as it is. With `Correct` it is
    restored. A correction that is not safe to undo waits for approval first (under
    `approval.policy: Never` only an irreversible one), and a downgrade needs a consent.

    Confirm: The condition DriftDetected names the level, its value before and its value now:

    <message>

    The log of the active controller shows when it was changed (`FeatureLevelRecord`). Find out who ran
    `kafka-features.sh`, or which other operator or job manages levels.

    Fix: If the new level is intended, write it into the document. If not, set `spec.drift.onDrift:
    Correct`, or restore the level manually. A downgrade needs a consent: <go back>; a change that is not
    safe to undo waits for approval. Then make sure that levels are managed in one place only.
    """
)

PAGES: Mapping[Reason, Page] = {
    **OF_ROLLS,
    **OF_CONNECTIONS,
    **OF_MIGRATIONS,
    Reason.SUSPENDED: page(
        r"""
        Safe: An update that had been sent was completed and verified; no other one is started until the
        resource is resumed. The plan is still computed.

        Confirm: Either the field or the annotation suspends the resource:

            kubectl get kff NAME -n NS -o \
              jsonpath='{.spec.suspend} {.metadata.annotations.kafkafeatures\.dev/pause}'

        Fix: Find out who suspended it, and why. Then remove `suspend` from the document, and remove the
        annotation:

            kafkafeatures resume NAME -n NS     # or kubectl annotate kff NAME -n NS kafkafeatures.dev/pause-
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
            There is an approval, but not for the current plan: levels, the document or the cluster have changed
            since. Compare the hash of the plan with the annotation `kafkafeatures.dev/approve` and with
            `spec.approval.planHash`:

            <plan>
            """
        ),
    },
    Reason.INVALID_SPEC: page(
        r"""
        Safe: Nothing is sent and nothing is evicted. Levels and status facts stay as they are.

        Confirm: The message names the field, the invalid value, and what is expected; or the StatefulSet, the pod or
        the node that does not fit the other ones:

        <message>

        Fix: Correct the document. The command line reports the same before you apply it, apart from StatefulSets:

            kafkafeatures plan -f FILE

        `spec.workload.statefulSet` has to name the StatefulSets of all nodes of the cluster, and only those. A node is
        found by what it advertises: one of its listeners has to lead to its own pod, by the name of the pod
        (`broker-0.kafka.NS.svc.cluster.local`) or by its IP address, and no other node may advertise the same.
        """
    ),
    Reason.UNKNOWN_RELEASE: page(
        r"""
        Safe: The cluster is not contacted. Levels and status facts stay as they are.

        Confirm: The running operator lists the releases it knows:

            kubectl exec -n OPERATOR-NS deploy/kafka-features-operator -- kafkafeatures version

        Fix: If it is a typing error, correct it. If Kafka is newer than the operator, upgrade the operator,
        or write the level as a number under `spec.features.levels`.
        """
    ),
    Reason.UNKNOWN_FEATURE: page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        The remedy lists the features that the nodes of this cluster support.

        Fix: If it is a typing error, correct it. If a newer Kafka has the feature, upgrade the nodes first,
        or remove it from the document until then.
        """
    ),
    Reason.UNSUPPORTED_LEVEL: page(
        r"""
        Safe: <still>

        Confirm: `supportedMax` is the highest level that all nodes support:

            kubectl get kff NAME -n NS -o \
              jsonpath='{range .status.features[*]}{.name} {.supportedMin}-{.supportedMax}{"\n"}{end}'

        Fix: Upgrade Kafka on all nodes first, or choose a level that they support.
        """
    ),
    Reason.GHOST_REGISTRATION: page(
        r"""
        Safe: <still> While the registration exists, Kafka itself usually refuses the level too.

        Confirm:

        <blockers>

        A ghost registration is left behind by a node that no longer exists. Make sure that the node is
        permanently gone, and not only down: `kafkafeatures describe` shows every registration, and which
        nodes answer.

        Fix: Unregister a broker that is permanently gone (refused unless it is fenced, does not answer, and
        hosts no replica):

            kafkafeatures unregister --broker ID --bootstrap-server HOST:PORT

        Start a broker that is only down, on the new Kafka.

        Kafka can unregister a controller once metadata.version 33 (4.4-IV2) is finalized, which the
        ghost registration itself may prevent. Until then, start a controller with this id on the new Kafka
        once, so that it registers again, then stop it; now the levels can be raised. From 33 on,
        unregister it (refused for the active controller, a voter, and one that answers or fetches):

            kafkafeatures unregister --controller ID --bootstrap-server HOST:PORT
        """
    ),
    Reason.NODE_REFUSED: page(
        r"""
        Safe: <still> Meanwhile the broker is not part of the cluster and serves no requests.

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

        Fix: Add the other feature to the same document, at the required level or higher. Both
        are then raised in a safe order.
        """
    ),
    Reason.DOWNGRADE_REFUSED: page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        For the possible downgrades see <go back>.

        Fix: Set the level in the document to the finalized level or higher. A consent does not help:
        metadata would be lost. An `inter.broker.protocol.version` is never lowered either: set
        `spec.interBrokerProtocolVersion` to the one that the message names, or higher.
        """
    ),
    Reason.CONSENT_REQUIRED: page(
        r"""
        Safe: <still> A reverted document downgrades nothing.

        Confirm:

        <blockers>

        Fix: If the downgrade (or the dynamic quorum) is not intended, usually after a reverted commit,
        set the level to the finalized one. If it is intended, add the consent exactly as the remedy names
        it to `spec.consents`; it can be used once. See <go back>.

        A roll needs `single-replica-topics` where topics become unavailable while their broker restarts: give them more
        replicas, or add the consent, which is for the topics that the plan names. If topics came later, remove the
        consent, apply that, and add it again. The only controller is restarted with `quorum-of-one`: until it is back
        nothing that needs an active controller works.
        """
    ),
    Reason.CONSENT_SPENT: page(
        r"""
        Safe: <still> A consent that stays in Git authorises nothing a second time.

        Confirm: List the used consents:

            kubectl get kff NAME -n NS -o jsonpath='{.status.spentConsents}'

        Fix: If the same change is intended again, or another roll needs it, remove the consent from the document,
        apply it, wait until it is no longer in `.status.spentConsents`, then add it again. If not, set the level to
        the finalized one.
        """
    ),
    Reason.CONFLICT_DETECTED: page(
        r"""
        Safe: A level that is changed outside KafkaFeatures again and again stays as it is: the operator corrected it
        twice within an hour and stopped. It corrects it again after that hour. If more than one operator writes the
        status, none of them sends anything.

        Confirm: The message says which of the two applies:

        <message>

        **More than one operator**: the message names them, with namespace, name and instance (the pod). Check which
        of them watch this namespace (`watchNamespaces`):

            kubectl get deployments -A -l app.kubernetes.io/name=kafka-features-operator

        **A level**: list what was corrected, and when:

            kubectl get kff NAME -n NS -o \
              jsonpath='{range .status.history[*]}{.at} {.action}: {.result}{"\n"}{end}'

        Look for the other writer: an operator in another Kubernetes cluster, `metadataVersion` of a Kafka
        operator, a job with `kafka-features.sh`.

        Fix: **More than one operator**: uninstall all but one, or give each its own namespaces. Then restart the
        remaining one; it takes over what the others left:

            kubectl rollout restart deployment -n OPERATOR-NS -l app.kubernetes.io/name=kafka-features-operator

        **A level**: decide which tool manages it, and remove the feature from this document or from the other
        tool. `drift.onDrift: Report` stops the corrections at once.
        """
    ),
    Reason.CONTROLLER_REJECTED: page(
        r"""
        Safe: The level was not changed, and is not sent again while the controller rejects it in a dry run
        (`validateOnly`). `kraft.version` has no dry run, so check its level with `kafkafeatures
        describe`.

        Confirm: The message quotes the controller; its log has more details:

        <message>

        Fix: Follow the controller's message. If it does not explain the cause, try the same with Kafka's own tool,
        which changes nothing with `--dry-run` (except for `kraft.version`: some releases raise it even then):

            kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature FEATURE=LEVEL --dry-run
        """
    ),
    Reason.ZOOKEEPER_MODE: page(
        r"""
        Safe: <still>

        Confirm:

            kubectl get kff NAME -n NS -o jsonpath='{.status.metadataMode}'

        Fix: Migrate the cluster to KRaft first; before that no client can finalize a feature. Until
        then set `spec.mode: Observe`. Brokers are restarted in ZooKeeper mode only with
        `spec.interBrokerProtocolVersion`: see [raise the inter.broker.protocol.version](../how-to/raise-the-ibp.md).
        """
    ),
    Reason.DUPLICATE_OWNER: page(
        r"""
        Safe: The older resource keeps managing the cluster; this one sends nothing.

        Confirm:

            kubectl get kff -A --sort-by=.metadata.creationTimestamp -o \
              custom-columns=NS:.metadata.namespace,NAME:.metadata.name,CLUSTER:.status.clusterId,MODE:.spec.mode

        Fix: Keep one: set `spec.mode: Observe` in the other, or delete it; deleting changes nothing in
        Kafka. Operators in different Kubernetes clusters do not see each other: make sure yourself that only one
        resource manages a cluster.
        """
    ),
    Reason.SCHEMA_OUTDATED: page(
        r"""
        Safe: Nothing is sent: an update is safe against a crash only if the status keeps its fields (`intents`,
        `spentConsents`, `clusterId`), and the API server drops some. The cluster keeps the levels it has.

        Confirm: The message names the dropped fields, or quotes the API server. Compare the CRD with that of the
        operator's release:

            kubectl diff --server-side -f crds/kafkafeatures.yaml

        Fix: Install the CRD of the release, or a newer one. With Helm it is part of the chart (`crds.enabled:
        true`); a GitOps tool may have an older copy.

            kubectl apply --server-side --force-conflicts -f crds/kafkafeatures.yaml

        The operator retries every 30 seconds and continues automatically. If the older CRD dropped the used consents,
        all consents in the document count as used (`ConsentSpent`). If it dropped the pinned cluster id, nothing is
        sent until the document names the cluster (`ClusterIdMismatch`).
        """
    ),
    Reason.UNKNOWN_INTENT: page(
        r"""
        Safe: Nothing is sent while the outcome of a step is open that this release does not know. The cluster keeps
        the levels it has.

        Confirm: Find the intent, and the release that wrote it:

            kubectl get kafkafeatures NAME -n NAMESPACE -o jsonpath='{.status.intents}{"\n"}{.status.history}{"\n"}'

        Fix: Install the newer release of the operator again: it completes what it started. To stay on this release,
        find out manually how the step ended (for `RestartNode`: whether the pod runs and the node has joined), then
        remove the intent:

            kubectl edit kafkafeatures NAME -n NAMESPACE --subresource=status
        """
    ),
    Reason.BLOCKED: page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        The reason of Ready names the decisive one; if action is required, that reason has its own page.

        Fix: Follow the remedies, in any order. A node with an older Kafka only needs its upgrade.
        """
    ),
    # It resolves automatically, and an alert fires if it does not.
    Reason.INTERNAL_ERROR: page(
        r"""
        Safe: A failed reconciliation sends nothing more and is retried within a minute. The outcome of an
        update that had been sent is found by reading the level, never by repeating the update.

        Confirm:

            kubectl logs -n OPERATOR-NS deploy/kafka-features-operator | \
              grep -e 'reconciliation failed' -e 'the API server'

        Fix: For `the API server: ...`, which is unavailable or rejects requests, check its health and the
        operator's rights ([install](../how-to/install.md)). Anything else is a bug: report it with these lines of
        the log, which contain no secrets.
        """
    ),
}
