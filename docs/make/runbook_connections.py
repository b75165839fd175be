"""Texts of the runbooks about connections: nodes that are not reached, or do not accept the operator.

Part of `runbook_texts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from docs.make.runbook_marks import Page, page
from kafkafeatures.api.reasons import Reason

OF_CONNECTIONS: Mapping[Reason, Page] = {
    Reason.PARTIALLY_CONNECTED: page(
        r"""
        Safe: The operator sends no change whose safety depends on the facts that it could not read.

        Confirm: The message of Reachable says what could not be read, why, and what to do:

        <message>

        Fix: A node that does not answer is down, permanently gone, or not reachable from the operator. If all nodes
        answer, an ACL, a rule of a network policy, or an address of the controllers (`bootstrapControllers`) is
        usually missing: <connect>. You can leave the connection as it is: a cluster that is in sync is Ready anyway.
        """
    ),
    Reason.TLS_FAILED: page(
        r"""
        Safe: <unread>

        Confirm: The message says what failed: the CA or the host name does not match, the certificate has expired, or
        the listener does not use TLS:

        <message>

            openssl s_client -connect HOST:PORT -showcerts </dev/null

        Fix: Renew the certificate, configure the CA that signed it (`spec.cluster.tls`), or use a host name
        that the certificate was issued for: <connect>. Verification cannot be turned off.
        """
    ),
    Reason.AUTHENTICATION_FAILED: page(
        r"""
        Safe: <unread>

        Confirm: The message says what the node answered:

        <message>

        Try the same user and password with Kafka's own tools.

        Fix: Correct the Secret that `spec.cluster.sasl.secretRef` names, the mechanism, or the user in
        Kafka.
        """
    ),
    Reason.CREDENTIALS_INVALID: page(
        r"""
        Safe: <unread>

        Confirm: The message names the Secret or ConfigMap and the key; with `cluster.strimzi` also the `Kafka` or the
        listener:

        <message>

            kubectl get secret SECRET -n NS --show-labels

        Fix: Create the Secret or ConfigMap in the namespace of the resource, with the keys that the document refers
        to. A Secret also needs the label:

            kubectl label secret SECRET -n NS kafkafeatures.dev/credentials=true

        The Secret of a KafkaUser gets it from the KafkaUser; see `docs/how-to/with-strimzi.md`.
        """
    ),
    Reason.ADDRESS_REFUSED: page(
        r"""
        Safe: <unread>

        Confirm: The message names the address that the host name resolves to:

        <message>

        Fix: Correct the address, or the addresses that the brokers advertise. If Kafka does run at the address, allow
        it with `addresses.allow` and `addresses.deny` of the operator's chart.

        The operator always refuses loopback, link-local and metadata addresses, its own pod, and the API server. It
        refuses the address of the API server's Service, and the one that it uses itself, before it sends anything. It
        recognizes the API server anywhere else (on its nodes, behind a load balancer) by its answer.
        """
    ),
    Reason.NOT_AUTHORIZED: page(
        r"""
        Safe: <still>

        Confirm: The message contains the `kafka-acls.sh` command that grants the missing right:

        <message>

        Fix: Run that command, with the properties file of a user who may alter ACLs in place of `admin.properties`.
        Where it says `User:NAME`, a certificate or a token names the Kafka user of the resource: put that name there.
        `kafkafeatures check --rights`, with the same user, shows whether more rights are missing, and one command that
        grants all of them; what each is for: <connect>. If the operator should only observe, set `spec.mode: Observe`.
        """
    ),
    Reason.CLUSTER_ID_MISMATCH: page(
        r"""
        Safe: The operator sends nothing to a cluster whose id differs from the pinned id (`.status.clusterId`), and
        writes no facts of that cluster into the status.

        Confirm: Compare the pinned id, the id in the document, and the id of the cluster that answers:

            kubectl get kff NAME -n NS -o jsonpath='{.status.clusterId} {.spec.cluster.clusterId}'
            kafka-cluster.sh cluster-id --bootstrap-server HOST:PORT

        Fix: By cause:

        - An address belongs to another cluster (the usual cause): correct `bootstrapServers` or
          `bootstrapControllers`.
        - New controllers were formatted with another id than that of the brokers (a migration from ZooKeeper): stop
          them, empty their disks, and format them with the id of the brokers.
        - The cluster was re-created with another id: delete the resource and create it again. Deleting the resource
          changes nothing in Kafka.
        - The pinned id is missing, because it was removed manually or dropped by an older CRD. The operator cannot know
          which cluster the status describes: set `spec.cluster.clusterId` to the intended id.
        - The message says that the metadata log no longer has all records that were read before. The same cluster was
          restored from a backup, or formatted again with its id, and the outcome of earlier changes is unknown. Accept
          this log as described below.

        To accept a restored log, first check the levels of the cluster. Then annotate the resource with the id and the
        epoch from the message:

            kafkafeatures describe --bootstrap-server HOST:PORT
            kubectl annotate kff NAME -n NS --overwrite kafkafeatures.dev/accept-restored-log="ID@EPOCH"

        On the command line, use `apply --accept-restored-log ID@EPOCH`.

        You can use this annotation once, and for this log only. After a second restore with the same epoch, remove the
        annotation, and add it again a minute later. Accepting a log has three effects: open steps become `Unverified`
        in the history, approvals become invalid, and consents in the document count as used. Give approvals and
        consents again if you still want them.
        """
    ),
    # It resolves automatically, and an alert fires if it does not.
    Reason.UNREACHABLE: page(
        r"""
        Safe: <unread>

        Confirm: The reason and the message of Reachable say what failed, and where:

        <message>

        Fix: By the reason of Reachable:

        - `BootstrapUnreachable`: check the addresses in `spec.cluster`, DNS, network policies, and whether Kafka runs.
          If the message names pods that do not run, delete those that it tells you to delete. The operator does not
          restart them: while no node answers, it cannot know which pod may be restarted.
        - `TlsFailed`, `AuthenticationFailed`, `CredentialsInvalid`, `AddressRefused`: see the runbook of that reason.
        - No condition Reachable (`Pending`): the operator has not reconciled this resource yet; see
          [OperatorDown](OperatorDown.md).
        """
    ),
}
