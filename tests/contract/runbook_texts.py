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
        Nothing is sent and no level moves; the cluster goes on with the levels it has. The operator looks again at
        least every 30 seconds and goes on by itself once the cause is gone.
        """,
    "<unread>": r"""
        Nothing is sent. Facts in the status are those of the last time the cluster was read. The operator tries
        again by itself, at least once a minute; a changed Secret or ConfigMap needs no restart.
        """,
    "<blockers>": r"""
        Blockers with their remedies, one for all nodes alike (20 at most; `.status.blockersTotal` counts all):

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
    Safe: Waiting costs nothing: nothing is sent, and the cluster runs on with the levels it has. An
    approval is for exactly one plan; progress does not void it, and it authorises no later plan. While the
    hash of another plan is given, nothing is sent under any policy.

    Confirm: Read the plan: its hash, its steps, and how each can be undone (`undo`: Safe,
    Lossy for a downgrade that may lose metadata, Impossible for one that Kafka refuses):

    <plan>

    Fix: If that is what should happen, approve exactly this plan: with `kafkafeatures approve`, which shows it
    and asks, with the annotation it writes, or as `spec.approval.planHash` in Git:

        kafkafeatures approve NAME -n NS
        kubectl annotate kff NAME -n NS --overwrite kafkafeatures.dev/approve=HASH

    Naming each level under `spec.features.levels` approves it as well (policy `IrreversibleOnly`).
    If it is not what should happen, change the document; see [raise a
    release](../how-to/raise-a-release.md).
    """
)
_DRIFT = _page(
    r"""
    Safe: With `drift.onDrift: Report` (the default) the level is left as somebody else made it.
    With `Correct` it is changed back. What is not safe to undo waits for approval before (under
    `approval.policy: Never` only what is irreversible), and what lowers a level needs a consent.

    Confirm: The condition DriftDetected says which level was what and is what:

    <message>

    When it was changed is in the log of the active controller (`FeatureLevelRecord`). Then ask who ran
    `kafka-features.sh`, which other operator or job manages levels.

    Fix: If the new level is meant, write it into the document. If not, set `spec.drift.onDrift:
    Correct`, or change it back by hand. A way back that lowers a level needs a consent: <go back>;
    one that is not safe to undo waits for approval. Then see to it that levels are decided in one place.
    """
)

PAGES: Mapping[Reason, Page] = {
    Reason.SUSPENDED: _page(
        r"""
        Safe: What had been sent was finished and read back; nothing else is begun until it is resumed.
        The plan is still computed.

        Confirm: Either of the two suspends:

            kubectl get kff NAME -n NS -o \
              jsonpath='{.spec.suspend} {.metadata.annotations.kafkafeatures\.dev/pause}'

        Fix: Ask who suspended it, and why. Then take `suspend` out of the document, and the annotation
        away:

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
        "Confirm": _filled(
            """
            There is an approval, and it is not for the plan of now: levels, the document or the cluster changed
            since. Compare the hash of the plan with the annotation `kafkafeatures.dev/approve` and with
            `spec.approval.planHash`:

            <plan>
            """
        ),
    },
    Reason.INVALID_SPEC: _page(
        r"""
        Safe: The cluster is not even asked. Levels, and what was read before, stay as they are.

        Confirm: The message names the field, what was found there, and what is allowed:

        <message>

        Fix: Correct the document. The command line finds the same before it is applied:

            kafkafeatures plan -f FILE
        """
    ),
    Reason.UNKNOWN_RELEASE: _page(
        r"""
        Safe: The cluster is not even asked. Levels, and what was read before, stay as they are.

        Confirm: What the operator that runs knows:

            kubectl exec -n OPERATOR-NS deploy/kafka-features-operator -- kafkafeatures version

        Fix: A typing error: correct it. A Kafka newer than the operator: upgrade the operator, or write
        the level as a number under `spec.features.levels`.
        """
    ),
    Reason.UNKNOWN_FEATURE: _page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        The remedy lists the features that nodes of this cluster know.

        Fix: A typing error: correct it. A feature of a newer Kafka: upgrade the nodes first, or take it
        out of the document until then.
        """
    ),
    Reason.UNSUPPORTED_LEVEL: _page(
        r"""
        Safe: <still>

        Confirm: `supportedMax` is the highest level that all nodes support:

            kubectl get kff NAME -n NS -o \
              jsonpath='{range .status.features[*]}{.name} {.supportedMin}-{.supportedMax}{"\n"}{end}'

        Fix: Upgrade the Kafka of all nodes first, or want a level they support.
        """
    ),
    Reason.GHOST_REGISTRATION: _page(
        r"""
        Safe: <still> As long as the registration is there, Kafka itself mostly refuses the level as well.

        Confirm:

        <blockers>

        Make sure that the node is gone for good, and not only down: `kafkafeatures describe` shows
        every registration, and what answers.

        Fix: A broker that is gone for good (refused unless it is fenced, does not answer, and hosts no
        replica):

            kafkafeatures unregister --broker ID --bootstrap-server HOST:PORT

        A broker that is only down: start it on the new Kafka.

        A controller: Kafka can unregister it once metadata.version 33 (4.4-IV2) is finalized, which the
        ghost itself may prevent. Until then start a controller with this id on the new Kafka once, so
        that it registers anew, and stop it; now the levels can be raised. From 33 on (refused for the
        active controller, a voter, and one that answers or fetches):

            kafkafeatures unregister --controller ID --bootstrap-server HOST:PORT
        """
    ),
    Reason.NODE_REFUSED: _page(
        r"""
        Safe: <still> The broker serves nothing meanwhile: it is not part of the cluster.

        Confirm:

        <blockers>

        The log of the active controller says why it refuses the broker.

        Fix: Upgrade the Kafka of the broker, so that it supports the levels that are finalized; or stop
        it.
        """
    ),
    Reason.DEPENDENCY_MISSING: _page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        Fix: Name the other feature in the same document, at the level that is needed or higher. Both
        are then raised in a safe order.
        """
    ),
    Reason.DOWNGRADE_REFUSED: _page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        Which levels there is a way back to: <go back>.

        Fix: Set the level in the document to the finalized one, or higher. No consent helps: metadata
        would be lost.
        """
    ),
    Reason.CONSENT_REQUIRED: _page(
        r"""
        Safe: <still> A document that was reverted lowers nothing.

        Confirm:

        <blockers>

        Fix: If the downgrade (or the new kind of quorum) is not meant, mostly after a reverted commit,
        set the level to the finalized one. If it is meant, add the consent that the remedy names, to
        the letter, to `spec.consents`; it is good once. See <go back>.
        """
    ),
    Reason.CONSENT_SPENT: _page(
        r"""
        Safe: <still> A consent that stays in Git authorises nothing a second time.

        Confirm: What was used:

            kubectl get kff NAME -n NS -o jsonpath='{.status.spentConsents}'

        Fix: If the same downgrade is meant once more, take the consent out of the document, apply it,
        wait until it has left `.status.spentConsents`, and only then add it again. If not, set the
        level to the finalized one.
        """
    ),
    Reason.CONFLICT_DETECTED: _page(
        r"""
        Safe: A level that somebody else moves stays as they made it: the operator corrected it twice within an hour
        and stopped. When the hour is over it corrects it again. Where more than one operator writes the status, none of
        them sends anything.

        Confirm: The message says which of the two it is:

        <message>

        **More than one operator**: the message names them, with namespace, name and instance (the pod). See which of
        them watch this namespace (`watchNamespaces`):

            kubectl get deployments -A -l app.kubernetes.io/name=kafka-features-operator

        **A level**: what was corrected, and when:

            kubectl get kff NAME -n NS -o \
              jsonpath='{range .status.history[*]}{.at} {.action}: {.result}{"\n"}{end}'

        Look for the other side: an operator of another Kubernetes cluster, `metadataVersion` of a Kafka
        operator, a job with `kafka-features.sh`.

        Fix: **More than one operator**: uninstall all but one, or give each namespaces of its own. Then restart the one
        that stays; it takes over what the others left:

            kubectl rollout restart deployment -n OPERATOR-NS -l app.kubernetes.io/name=kafka-features-operator

        **A level**: decide who manages it, and stop the other: take the feature out of this document, or
        out of the other tool. `drift.onDrift: Report` ends the fight at once.
        """
    ),
    Reason.CONTROLLER_REJECTED: _page(
        r"""
        Safe: The level was not moved, and is not sent again while the controller refuses it in a trial
        (`validateOnly`). `kraft.version` cannot be tried that way, so look at its level: `kafkafeatures
        describe`.

        Confirm: The message has the controller's own words, its log more of them:

        <message>

        Fix: Do what the words say. If they do not explain it, ask the same with Kafka's own tool, which
        changes nothing with `--dry-run` (but do not try `kraft.version` that way: some releases raise it all the
        same):

            kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature FEATURE=LEVEL --dry-run
        """
    ),
    Reason.NOT_AUTHORIZED: _page(
        r"""
        Safe: <still>

        Confirm: The message has the `kafka-acls.sh` line that is missing:

        <message>

        Fix: Run that line with the user of the resource for `User:NAME`. Which right is for what:
        <connect>. If it should only look, set `spec.mode: Observe`.
        """
    ),
    Reason.ZOOKEEPER_MODE: _page(
        r"""
        Safe: <still>

        Confirm:

            kubectl get kff NAME -n NS -o jsonpath='{.status.metadataMode}'

        Fix: Migrate the cluster to KRaft first; no client can finalize a feature before that. Until
        then set `spec.mode: Observe`.
        """
    ),
    Reason.CLUSTER_ID_MISMATCH: _page(
        r"""
        Safe: Nothing is sent to a cluster whose id is not the one that was pinned, and nothing of it is
        written into the status.

        Confirm: The id that was pinned, that of the document, and that of who answers:

            kubectl get kff NAME -n NS -o jsonpath='{.status.clusterId} {.spec.cluster.clusterId}'
            kafka-cluster.sh cluster-id --bootstrap-server HOST:PORT

        Fix: Mostly an address leads somewhere else: correct `bootstrapServers` or
        `bootstrapControllers`. If the cluster was made anew and has another id, delete the resource and
        create it again; deleting changes nothing in Kafka.
        """
    ),
    Reason.DUPLICATE_OWNER: _page(
        r"""
        Safe: The older resource goes on; this one sends nothing.

        Confirm:

            kubectl get kff -A --sort-by=.metadata.creationTimestamp -o \
              custom-columns=NS:.metadata.namespace,NAME:.metadata.name,CLUSTER:.status.clusterId,MODE:.spec.mode

        Fix: Keep one: set `spec.mode: Observe` in the other, or delete it; deleting changes nothing in
        Kafka. Operators of several Kubernetes clusters do not see each other: there nobody but you can
        keep it to one.
        """
    ),
    Reason.SCHEMA_OUTDATED: _page(
        r"""
        Safe: Nothing is sent: what an act needs to be safe against a crash (`intent`, `spentConsents`) could be lost
        with the fields that the API server drops. The cluster goes on with the levels it has.

        Confirm: The message names the fields, or has the API server's own words. Compare the CRD with that of the
        operator's release:

            kubectl diff --server-side -f crds/kafkafeatures.yaml

        Fix: Install the CRD of the release; a newer one fits as well. With Helm it comes with the chart (`crds.enabled:
        true`); a GitOps tool may hold an older copy.

            kubectl apply --server-side --force-conflicts -f crds/kafkafeatures.yaml

        The operator tries again every 30 seconds and goes on by itself. Where the older CRD did not keep which consents
        were used, those in the document count as used (`ConsentSpent`).
        """
    ),
    Reason.PARTIALLY_CONNECTED: _page(
        r"""
        Safe: What could not be read is not taken for good news: a change whose safety rests on it is
        not sent.

        Confirm: The message of Reachable says what could not be read, why, and what to do:

        <message>

        Fix: A node that does not answer is down, or gone for good, or not to be reached from here. Else
        mostly a right, a network policy, or an address of the controllers (`bootstrapControllers`) is
        missing: <connect>. Where you accept it, leave it: a cluster that is in sync is Ready all the same.
        """
    ),
    Reason.TLS_FAILED: _page(
        r"""
        Safe: <unread>

        Confirm: The message says what failed: the CA, the host name, an expired certificate, or no TLS
        at all:

        <message>

            openssl s_client -connect HOST:PORT -showcerts </dev/null

        Fix: Renew the certificate, name the CA that signed it (`spec.cluster.tls`), or use a host name
        it was issued for: <connect>. There is no switch that turns the check off.
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

        Fix: It has to be in the namespace of the resource, have the keys of the reference, and, a
        Secret, carry the label:

            kubectl label secret SECRET -n NS kafkafeatures.dev/credentials=true
        """
    ),
    Reason.ADDRESS_REFUSED: _page(
        r"""
        Safe: <unread>

        Confirm: The message names the address that was found for the name, and is refused:

        <message>

        Fix: Correct the address, or what the brokers advertise. If Kafka really is there, whoever installed the
        operator can say so: the chart's `addresses.allow` and `addresses.deny`. Refused whatever these say are
        loopback, link-local and metadata addresses, the operator's own pod, and the API server: under the
        address of its Service and the one the operator uses before anything is sent, anywhere else (on its
        nodes, behind a load balancer) as soon as it proves to be the API server.
        """
    ),
    Reason.BLOCKED: _page(
        r"""
        Safe: <still>

        Confirm:

        <blockers>

        The reason of Ready says which of them decides; it has a page of its own where a human has to
        act.

        Fix: Do what the remedies say, in any order. A node that is merely old needs nothing but its
        upgrade.
        """
    ),
    # Below: nobody has to act at once; an alert tells when it lasts.
    Reason.UNREACHABLE: _page(
        r"""
        Safe: <unread>

        Confirm: The reason and the message of Reachable say what failed, and where:

        <message>

        Fix: `BootstrapUnreachable`: the addresses in `spec.cluster`, DNS, network policies, whether
        Kafka runs. `TlsFailed`, `AuthenticationFailed`, `CredentialsInvalid`, `AddressRefused`: they
        have pages of their own. No condition Reachable at all (`Pending`): the operator did not come to
        this resource yet; see [OperatorDown](OperatorDown.md).
        """
    ),
    Reason.INTERNAL_ERROR: _page(
        r"""
        Safe: A pass that fails sends nothing more; it begins anew, at the latest after a minute. What
        had been sent is settled by reading, never by repeating.

        Confirm:

            kubectl logs -n OPERATOR-NS deploy/kafka-features-operator | \
              grep -e 'reconciliation failed' -e 'the API server'

        Fix: `the API server: ...`: it is away, or refuses: check its health and the operator's rights
        ([install](../how-to/install.md)). Anything else is a bug: report it with the lines of the log,
        which hold no secrets.
        """
    ),
}

OPERATOR_DOWN = _page(
    r"""
    Safe: Kafka is not touched by an operator that is away; a change that was under way is settled
    by reading when it is back.

    Confirm:

        kubectl get pods -n OPERATOR-NS -l app.kubernetes.io/name=kafka-features-operator
        kubectl logs -n OPERATOR-NS deploy/kafka-features-operator --previous

    Fix: The pod does not start: `kubectl describe pod` says why. It runs and is not ready:
    `/readyz` and the log say which namespace it cannot list or watch, so check the CRD, the
    namespace and the rights there ([install](../how-to/install.md)). It runs and is not scraped:
    check the ServiceMonitor and network policies.
    """
)
