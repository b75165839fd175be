"""Texts of the runbooks about operators: several of them, an older CRD, a status of another release, failures.

Part of `runbook_texts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from docs.make.runbook_marks import Page, page
from kafkafeatures.api.reasons import Reason

OF_OPERATORS: Mapping[Reason, Page] = {
    Reason.CONFLICT_DETECTED: page(
        r"""
        Safe: If more than one operator writes the status, none of them sends anything. If a level is changed outside
        KafkaFeatures again and again, it stays as it is: the operator corrected it twice within an hour, and corrects
        it again after that hour.

        Confirm: The message says which of the two applies:

        <message>

        **More than one operator**: the message names each with namespace, name and instance (the pod). Check which of
        them watch this namespace (`watchNamespaces`):

            kubectl get deployments -A -l app.kubernetes.io/name=kafka-features-operator

        **A level**: list what was corrected, and when:

            kubectl get kff NAME -n NS -o \
              jsonpath='{range .status.history[*]}{.at} {.action}: {.result}{"\n"}{end}'

        Find out what else changes the level: an operator in another Kubernetes cluster, `metadataVersion` of a Kafka
        operator, or a job with `kafka-features.sh`.

        Fix: **More than one operator**: uninstall all but one, or give each its own namespaces. Then restart the
        remaining operator. It takes over the resources of the others:

            kubectl rollout restart deployment -n OPERATOR-NS -l app.kubernetes.io/name=kafka-features-operator

        **A level**: decide which tool manages it, and remove the feature from this document or from the other tool.
        To stop the corrections at once, set `drift.onDrift: Report`.
        """
    ),
    Reason.DUPLICATE_OWNER: page(
        r"""
        Safe: The older resource keeps managing the cluster; this one sends nothing.

        Confirm:

            kubectl get kff -A --sort-by=.metadata.creationTimestamp -o \
              custom-columns=NS:.metadata.namespace,NAME:.metadata.name,CLUSTER:.status.clusterId,MODE:.spec.mode

        Fix: Keep one resource. Set `spec.mode: Observe` in the other, or delete it; deleting it changes nothing in
        Kafka.

        Operators in different Kubernetes clusters do not see each other: make sure yourself that only one resource
        manages a cluster.
        """
    ),
    Reason.SCHEMA_OUTDATED: page(
        r"""
        Safe: The operator sends nothing, and the cluster keeps its levels. The API server drops fields of the status
        that the operator needs after a crash (`intents`, `spentConsents`, `clusterId`).

        Confirm: The message names the dropped fields, or quotes the API server. Compare the installed CRD with the CRD
        of the operator's release:

            kubectl diff --server-side -f crds/kafkafeatures.yaml

        Fix: Install the CRD of the release, or a newer CRD:

            kubectl apply --server-side --force-conflicts -f crds/kafkafeatures.yaml

        With Helm the CRD is part of the chart (`crds.enabled: true`). A GitOps tool may have an older copy.

        Do not restart the operator before that: if the older CRD dropped an intent, only the process that sent the
        step still knows that its outcome is open.

        The operator retries every 30 seconds and continues automatically. If the older CRD dropped the used consents,
        and the operator was restarted, all consents in the document count as used ([ConsentSpent](ConsentSpent.md)).
        If it dropped the pinned cluster id, the operator sends nothing until the document names the cluster
        ([ClusterIdMismatch](ClusterIdMismatch.md)).
        """
    ),
    Reason.UNKNOWN_INTENT: page(
        r"""
        Safe: The operator sends nothing, and the cluster keeps its levels. Another release of the operator started a
        step that this release does not know, and its outcome is open.

        Confirm: Find the intent, and the release that wrote it:

            kubectl get kff NAME -n NS -o jsonpath='{.status.intents}{"\n"}{.status.history}{"\n"}'

        Fix: Install the newer release of the operator again. It completes the step that it started.

        To stay on this release, find out manually how the step ended (for `RestartNode`: whether the pod runs and the
        node has joined the cluster). Then remove the intent:

            kubectl edit kff NAME -n NS --subresource=status
        """
    ),
    # It resolves automatically, and an alert fires if it does not.
    Reason.INTERNAL_ERROR: page(
        r"""
        Safe: A failed reconciliation sends nothing more. The operator retries it within a minute. If an update was
        sent before, the operator finds its outcome by reading the level, and never repeats the update.

        Confirm:

            kubectl logs -n OPERATOR-NS deploy/kafka-features-operator | \
              grep -e 'reconciliation failed' -e 'the API server'

        Fix: By the text of the log line:

        - `the API server: ...`: the API server is unavailable or rejects requests. Check its health, and the operator's
          rights ([install](../how-to/install.md)).
        - Anything else is a bug: report it with these log lines, which contain no secrets.
        """
    ),
}
