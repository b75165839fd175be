"""What the runbooks say, as data: for each reason what is safe meanwhile, how to confirm it, and how to mend it.

Markdown, with marks such as `<still>` for what many pages say. `runbooks.py` makes the pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import dedent

from kafkafeatures.api.reasons import Reason

Page = Mapping[str, str]
"""Safe, Confirm and Fix, each as Markdown."""

_SHARED = {
    "<still>": r"""
        Nothing is sent and no level changes; the cluster keeps the levels it has. The operator checks again at
        least every 30 seconds and continues automatically once the cause is gone.
        """,
    "<unread>": r"""
        Nothing is sent. The facts in the status are those of the last successful read. The operator retries at
        least once a minute; a changed Secret or ConfigMap needs no restart.
        """,
    "<blockers>": r"""
        Blockers with their remedies; similar nodes share one blocker (at most 20 are listed,
        `.status.blockersTotal` counts all):

            kubectl get kff NAME -n NS -o \
              jsonpath='{range .status.blockers[*]}{.message}{"\n  -> "}{.remedy}{"\n"}{end}'
        """,
    "<message>": r"""
        |   kubectl get kff NAME -n NS -o \
        |     jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}'
        """,
    "<plan>": r"""
        |   kubectl get kff NAME -n NS -o jsonpath='{.status.plan}'
        """,
    "<go back>": "[go back](../how-to/go-back.md)",
    "<connect>": "[connect](../how-to/connect.md)",
}


def _filled(text: str) -> str:
    text = dedent(text).strip("\n")
    for mark, shared in _SHARED.items():
        text = text.replace(mark, re.sub(r"(?m)^\|", " ", dedent(shared)).strip("\n"))
    return text.rstrip()


def _page(text: str) -> Page:
    parts = re.split(r"(?m)^(Safe|Confirm|Fix): *", _filled(text))
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


_APPROVAL = _page(
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
_DRIFT = _page(
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
    Reason.SUSPENDED: _page(
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
    Reason.PAUSED: _page(
        r"""
        Safe: Nodes in flight come back by themselves and are followed; no other node is restarted until the
        resource is resumed.

        Confirm: See which nodes are in flight, and how many are current:

            kubectl get kff NAME -n NS -o jsonpath='{.status.rollout}{"\n"}{.status.intents}'

        Fix: Resume the resource, as for [Suspended](Suspended.md).
        """
    ),
    Reason.HALTED: _page(
        r"""
        Safe: No other node is restarted, and no level changes. Nodes in flight are followed.

        Confirm: The condition Stalled has the cause, and its reason has a page of its own:

        <message>

        Fix: Do what the message of Stalled says. The roll continues automatically once the cause is gone.
        """
    ),
    Reason.RESTART_REQUESTED: _page(
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
    Reason.NODES_BEHIND: _page(
        r"""
        Safe: Nothing is evicted. A node that was started on the new image could not register again, because the image
        does not support a level that is finalized.

        Confirm: The message names the StatefulSet, the feature, and both levels:

        <message>

        Fix: Downgrade the feature first: set the target level in `features.levels`, and add the consent that the
        message names. The operator downgrades the level, then restarts the nodes, controllers once they have a newer
        snapshot. Or use an image that supports the level.
        """
    ),
    Reason.DRIFTED: _DRIFT,
    Reason.LEVEL_BEHIND: _DRIFT,
    Reason.LEVEL_AHEAD: _DRIFT,
    Reason.APPROVAL_REQUIRED: _APPROVAL,
    Reason.PLAN_PENDING: _APPROVAL,
    Reason.PLAN_CHANGED: {
        **_APPROVAL,
        "Confirm": _filled(
            """
            There is an approval, but not for the current plan: levels, the document or the cluster have changed
            since. Compare the hash of the plan with the annotation `kafkafeatures.dev/approve` and with
            `spec.approval.planHash`:

            <plan>
            """
        ),
    },
    Reason.INVALID_SPEC: _page(
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
    Reason.UNKNOWN_RELEASE: _page(
        r"""
        Safe: The cluster is not contacted. Levels and status facts stay as they are.

        Confirm: The running operator lists the releases it knows:

            kubectl exec -n OPERATOR-NS deploy/kafka-features-operator -- kafkafeatures version

        Fix: If it is a typing error, correct it. If Kafka is newer than the operator, upgrade the operator,
        or write the level as a number under `spec.features.levels`.
        """
    ),
    Reason.UNKNOWN_FEATURE: _page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        The remedy lists the features that the nodes of this cluster support.

        Fix: If it is a typing error, correct it. If a newer Kafka has the feature, upgrade the nodes first,
        or remove it from the document until then.
        """
    ),
    Reason.UNSUPPORTED_LEVEL: _page(
        r"""
        Safe: <still>

        Confirm: `supportedMax` is the highest level that all nodes support:

            kubectl get kff NAME -n NS -o \
              jsonpath='{range .status.features[*]}{.name} {.supportedMin}-{.supportedMax}{"\n"}{end}'

        Fix: Upgrade Kafka on all nodes first, or choose a level that they support.
        """
    ),
    Reason.GHOST_REGISTRATION: _page(
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
    Reason.NODE_REFUSED: _page(
        r"""
        Safe: <still> Meanwhile the broker is not part of the cluster and serves no requests.

        Confirm:

        <blockers>

        The log of the active controller says why it rejects the broker.

        Fix: Upgrade Kafka on the broker, so that it supports the finalized levels, or stop the broker.
        """
    ),
    Reason.DEPENDENCY_MISSING: _page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        Fix: Add the other feature to the same document, at the required level or higher. Both
        are then raised in a safe order.
        """
    ),
    Reason.DOWNGRADE_REFUSED: _page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        For the possible downgrades see <go back>.

        Fix: Set the level in the document to the finalized level or higher. A consent does not help:
        metadata would be lost.
        """
    ),
    Reason.CONSENT_REQUIRED: _page(
        r"""
        Safe: <still> A reverted document downgrades nothing.

        Confirm:

        <blockers>

        Fix: If the downgrade (or the dynamic quorum) is not intended, usually after a reverted commit,
        set the level to the finalized one. If it is intended, add the consent exactly as the remedy names
        it to `spec.consents`; it can be used once. See <go back>.
        """
    ),
    Reason.CONSENT_SPENT: _page(
        r"""
        Safe: <still> A consent that stays in Git authorises nothing a second time.

        Confirm: List the used consents:

            kubectl get kff NAME -n NS -o jsonpath='{.status.spentConsents}'

        Fix: If the same downgrade is intended again, remove the consent from the document, apply it,
        wait until it is no longer in `.status.spentConsents`, then add it again. If not, set the
        level to the finalized one.
        """
    ),
    Reason.CONFLICT_DETECTED: _page(
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
    Reason.CONTROLLER_REJECTED: _page(
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
    Reason.NOT_AUTHORIZED: _page(
        r"""
        Safe: <still>

        Confirm: The message has the `kafka-acls.sh` command that grants the missing right:

        <message>

        Fix: Run that command with the user of the resource for `User:NAME`. For all rights see <connect>.
        If the operator should only observe, set `spec.mode: Observe`.
        """
    ),
    Reason.ZOOKEEPER_MODE: _page(
        r"""
        Safe: <still>

        Confirm:

            kubectl get kff NAME -n NS -o jsonpath='{.status.metadataMode}'

        Fix: Migrate the cluster to KRaft first; before that no client can finalize a feature. Until
        then set `spec.mode: Observe`.
        """
    ),
    Reason.CLUSTER_ID_MISMATCH: _page(
        r"""
        Safe: Nothing is sent to a cluster with another id than the pinned one, and none of its facts are
        written into the status.

        Confirm: Compare the pinned id, the id in the document, and the id of the cluster that answers:

            kubectl get kff NAME -n NS -o jsonpath='{.status.clusterId} {.spec.cluster.clusterId}'
            kafka-cluster.sh cluster-id --bootstrap-server HOST:PORT

        Fix: Usually an address belongs to another cluster: correct `bootstrapServers` or
        `bootstrapControllers`. If the cluster was re-created with another id, delete the resource and
        create it again; deleting changes nothing in Kafka. If the pinned id is gone (removed by hand, or dropped by an
        older CRD), nothing tells which cluster the status is of: set `spec.cluster.clusterId` to the intended one.
        """
    ),
    Reason.DUPLICATE_OWNER: _page(
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
    Reason.SCHEMA_OUTDATED: _page(
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
    Reason.UPDATE_STRATEGY_UNSAFE: _page(
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
    Reason.DRIVER_CONFLICT: _page(
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
    Reason.ROLLOUT_HALTED: _page(
        r"""
        Safe: No other node is restarted, and no level changes. Nodes that were restarted keep running.

        Confirm: The message names the node, its pod, and what it has not done yet. Look at both sides:

            kubectl describe pod POD -n NS
            kubectl logs POD -n NS --previous
            kubectl get kff NAME -n NS -o jsonpath='{.status.intents}'
            kubectl get poddisruptionbudget -n NS

        Fix: A pod that cannot start on its image: revert the image in Git; the operator then replaces this pod first,
        and the roll continues. A pod that Kubernetes cannot place: make room. A pod whose node never registers, of
        a StatefulSet that was scaled up: repair it, or scale back. A pod that is gone since its StatefulSet was
        scaled down: scale up again, or unregister its node. A PodDisruptionBudget that allows no eviction, or two
        that cover the same pod: change them as the message says. A controller that writes no snapshot: set
        `metadata.log.max.snapshot.interval.ms`, and restart it on the image that it runs. Do not delete pods of other
        nodes meanwhile: the partitions that wait for this node may have no other replica to spare.
        """
    ),
    Reason.UNKNOWN_INTENT: _page(
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
    Reason.PARTIALLY_CONNECTED: _page(
        r"""
        Safe: A change whose safety depends on what could not be read is not sent.

        Confirm: The message of Reachable says what could not be read, why, and what to do:

        <message>

        Fix: A node that does not answer is down, permanently gone, or not reachable from the operator. Otherwise
        a right, a network policy, or an address of the controllers (`bootstrapControllers`) is usually
        missing: <connect>. You can leave it as it is: a cluster that is in sync is Ready anyway.
        """
    ),
    Reason.TLS_FAILED: _page(
        r"""
        Safe: <unread>

        Confirm: The message says what failed: the CA, the host name, an expired certificate, or no TLS
        at all:

        <message>

            openssl s_client -connect HOST:PORT -showcerts </dev/null

        Fix: Renew the certificate, configure the CA that signed it (`spec.cluster.tls`), or use a host name
        that it was issued for: <connect>. Verification cannot be turned off.
        """
    ),
    Reason.AUTHENTICATION_FAILED: _page(
        r"""
        Safe: <unread>

        Confirm:

        <message>

        Try the same user with Kafka's own tools and the same password.

        Fix: Correct the Secret that `spec.cluster.sasl.secretRef` names, the mechanism, or the user in
        Kafka.
        """
    ),
    Reason.CREDENTIALS_INVALID: _page(
        r"""
        Safe: <unread>

        Confirm: The message names the Secret or ConfigMap, and the key:

        <message>

            kubectl get secret SECRET -n NS --show-labels

        Fix: Create it in the namespace of the resource, with the keys of the reference. A Secret also needs
        the label:

            kubectl label secret SECRET -n NS kafkafeatures.dev/credentials=true
        """
    ),
    Reason.ADDRESS_REFUSED: _page(
        r"""
        Safe: <unread>

        Confirm: The message names the address that the host name resolves to:

        <message>

        Fix: Correct the address, or the addresses that the brokers advertise. If Kafka does run there, allow the
        address with `addresses.allow` and `addresses.deny` of the operator's chart. Always refused are
        loopback, link-local and metadata addresses, the operator's own pod, and the API server: at the
        address of its Service and at the one the operator uses before anything is sent, anywhere else (on its
        nodes, behind a load balancer) as soon as it identifies itself as the API server.
        """
    ),
    Reason.BLOCKED: _page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        The reason of Ready names the decisive one; if action is required, that reason has its own page.

        Fix: Follow the remedies, in any order. A node with an older Kafka only needs its upgrade.
        """
    ),
    # Below: these resolve automatically, and an alert fires if they do not.
    Reason.UNREACHABLE: _page(
        r"""
        Safe: <unread>

        Confirm: The reason and the message of Reachable say what failed, and where:

        <message>

        Fix: `BootstrapUnreachable`: check the addresses in `spec.cluster`, DNS, network policies, and whether
        Kafka runs. `TlsFailed`, `AuthenticationFailed`, `CredentialsInvalid`, `AddressRefused`: see
        their own pages. No condition Reachable (`Pending`): the operator has not reconciled
        this resource yet; see [OperatorDown](OperatorDown.md).
        """
    ),
    Reason.INTERNAL_ERROR: _page(
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

OPERATOR_DOWN = _page(
    r"""
    Safe: Kafka is not affected. After its restart the operator finds the outcome of a change in progress by
    reading the level.

    Confirm:

        kubectl get pods -n OPERATOR-NS -l app.kubernetes.io/name=kafka-features-operator
        kubectl logs -n OPERATOR-NS deploy/kafka-features-operator --previous

    Fix: If the pod does not start, `kubectl describe pod` says why. If it runs but is not ready,
    `/readyz` and the log name the namespace that it cannot list or watch: check the CRD, the
    namespace and the rights there ([install](../how-to/install.md)). If it runs but is not scraped,
    check the ServiceMonitor and network policies.
    """
)
