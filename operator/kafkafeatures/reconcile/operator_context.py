"""The injected context of the operator, which all its reconciliations share.

Made by `app.py`, used by `reconcile/controller.py`.
"""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.reconcile.client_evidence import OpenEvidence
from kafkafeatures.reconcile.connections import OpenEnsembleOf
from kafkafeatures.reconcile.context import Effects, ignore
from kafkafeatures.reconcile.listeners import NOT_NOTIFIED, NotifierPort


class OperatorContext(Struct, frozen=True):
    """Injected context. operator: identity for writes and Events. effects: called right before a step is sent. policy:
    allowed addresses. open_evidence, open_ensemble: open a source of evidence about clients, and a ZooKeeper ensemble.
    notifier: notifies people.
    """

    environment: Environment
    operator: OperatorIdentity
    policy: AddressPolicy
    open_evidence: OpenEvidence
    effects: Effects = ignore
    open_ensemble: OpenEnsembleOf | None = None
    notifier: NotifierPort = NOT_NOTIFIED
