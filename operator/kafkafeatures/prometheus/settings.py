"""Settings of a Prometheus that is read for a resource, with its secrets.

Made by `reconcile/client_evidence.py` for each reading; read by `operator_source.py`.
"""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.pem import Tls

ADDRESS_FORBIDDEN = Failure(
    FailureKind.FORBIDDEN, "Prometheus", "the operator's settings do not allow the address of Prometheus",
    "use another address, or have the operator's settings allow it",
)  # fmt: skip


class PrometheusSettings(Struct, frozen=True):
    """A server, and how to find the series of one cluster and its brokers in it.

    selector: label matchers that pick the targets of the cluster. broker_label, broker_pattern: the label with the id
    of the broker, and the part of it that is the id (`BrokerLabel`); empty: `prometheus/brokers.py` finds the label.
    tls: for https. authorization: the header that logs in; empty for none. policy: addresses that may be connected to.
    """

    url: str
    selector: str = ""
    broker_label: str = ""
    broker_pattern: str = ""
    tls: Tls = Tls()
    authorization: str = ""
    policy: AddressPolicy | None = None

    def __repr__(self) -> str:
        return f"PrometheusSettings({self.url!r})"  # no secret in a log
