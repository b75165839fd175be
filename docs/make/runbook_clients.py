"""Texts of the runbooks about clients: those that break with the target, and evidence that is missing or old.

Part of `runbook_texts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from docs.make.runbook_marks import Page, page
from kafkafeatures.api.reasons import Reason

_SAFE = """With `clientEvidence.policy: Gate` the operator restarts no node to an image of the target, or to one whose
        release is not known. With `Report` (the default) it holds nothing. Levels are not held by either."""

OF_CLIENTS: Mapping[Reason, Page] = {
    Reason.BLOCKING_CLIENTS: page(
        rf"""
        Safe: {_SAFE}

        Confirm: List the API versions that are used and that the target lacks, with the brokers and the last day:

            kubectl get kff NAME -n NS -o jsonpath='{{.status.clients}}'

        `kafkafeatures clients check` shows the same with all figures; see
        [find old clients](../how-to/find-old-clients.md).

        Fix: Counters do not say who the client is. If `configMapRef` has request logs, `status.clients.senders` names
        clients, owners and remedies. Otherwise look for the API and version in the request log of the brokers that are
        listed. Upgrade the client, or raise the version that it is configured to use. The verdict becomes
        Ready once the window has no such request any more.

        If these clients may break, add a consent for each version to `spec.consents`, such as
        `client-breaks:Produce:2`. A consent is valid for one roll, and covers no other version that appears.
        """
    ),
    Reason.EVIDENCE_MISSING: page(
        rf"""
        Safe: {_SAFE}

        Confirm: The message says what is missing: an answer of Prometheus, a scrape in the ConfigMap, a Secret, or a
        broker. `status.clients.problems` has a line for each entry of the ConfigMap that was not used:

        <message>

        Fix: By cause:

        - A broker without evidence: have Prometheus scrape every broker, and correct `selector`, `brokerLabel` and
          `brokerPattern`. `kafkafeatures clients check --prometheus URL` with the same values names the labels.
        - The ConfigMap does not exist, has no scrape, or has scrapes beside `prometheus`: see what
          [its entries](../how-to/find-old-clients.md#in-the-resource-without-a-prometheus) have to be.
        - The address is not allowed: the operator's `addresses` settings decide that; an operator that may reach only
          some addresses needs that of Prometheus too, also in its NetworkPolicy.
        - A Secret is missing, or lacks the label `kafkafeatures.dev/credentials`: create or label it.
        - The release is not known to this operator: correct `clientEvidence.target`, or upgrade the operator.
        """
    ),
    Reason.EVIDENCE_STALE: page(
        rf"""
        Safe: {_SAFE} Evidence that is older than half an hour proves nothing: a client may have come since.

        Confirm: The message says why there is no newer evidence, or which broker is no longer scraped:

        <message>

        Fix: Bring Prometheus back, or have it scrape the broker again. With `configMapRef` alone, look at the job that
        writes the ConfigMap: its newest scrape counts for half an hour. The operator reads either every 10 minutes, and
        tries again after a minute where that failed. No restart is needed.
        """
    ),
}
