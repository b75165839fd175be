"""What the runbooks say of connections: nodes that are not reached, or do not accept who asks."""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.reasons import Reason
from tests.contract.runbook_marks import Page, page

OF_CONNECTIONS: Mapping[Reason, Page] = {
    Reason.PARTIALLY_CONNECTED: page(
        r"""
        Safe: A change whose safety depends on what could not be read is not sent.

        Confirm: The message of Reachable says what could not be read, why, and what to do:

        <message>

        Fix: A node that does not answer is down, permanently gone, or not reachable from the operator. Otherwise
        a right, a network policy, or an address of the controllers (`bootstrapControllers`) is usually
        missing: <connect>. You can leave it as it is: a cluster that is in sync is Ready anyway.
        """
    ),
    Reason.TLS_FAILED: page(
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
    Reason.AUTHENTICATION_FAILED: page(
        r"""
        Safe: <unread>

        Confirm:

        <message>

        Try the same user with Kafka's own tools and the same password.

        Fix: Correct the Secret that `spec.cluster.sasl.secretRef` names, the mechanism, or the user in
        Kafka.
        """
    ),
    Reason.CREDENTIALS_INVALID: page(
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
    Reason.ADDRESS_REFUSED: page(
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
    Reason.NOT_AUTHORIZED: page(
        r"""
        Safe: <still>

        Confirm: The message has the `kafka-acls.sh` command that grants the missing right:

        <message>

        Fix: Run that command with the user of the resource for `User:NAME`. For all rights see <connect>.
        If the operator should only observe, set `spec.mode: Observe`.
        """
    ),
    Reason.CLUSTER_ID_MISMATCH: page(
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

        If the message says that the metadata log no longer holds what was read of it, the same cluster was restored
        from a backup, or formatted again with its id. What became of changes that were sent before is unknown then.
        Check the levels (`kafkafeatures describe`), then accept this log, with the id and the epoch of the message:

            kubectl annotate kff NAME -n NS --overwrite kafkafeatures.dev/accept-restored-log="ID@EPOCH"

        On the command line: `apply --accept-restored-log ID@EPOCH`. It is good for this log alone, and used once: for a
        second restore with the same epoch remove the annotation, and add it again a minute later. Open steps are then
        `Unverified` in the history, approvals are void, and consents in the document count as used: give them anew.
        """
    ),
    # It resolves automatically, and an alert fires if it does not.
    Reason.UNREACHABLE: page(
        r"""
        Safe: <unread>

        Confirm: The reason and the message of Reachable say what failed, and where:

        <message>

        Fix: `BootstrapUnreachable`: check the addresses in `spec.cluster`, DNS, network policies, and whether
        Kafka runs. If the message names pods that do not run, the operator restarts none of them: without a
        node that answers nothing tells which may go. Delete those that it tells you to. `TlsFailed`,
        `AuthenticationFailed`, `CredentialsInvalid`, `AddressRefused`: see their own pages. No condition
        Reachable (`Pending`): the operator has not reconciled this resource yet; see
        [OperatorDown](OperatorDown.md).
        """
    ),
}
