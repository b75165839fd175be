"""Reads evidence from a Prometheus for the operator: at permitted addresses only, and with failures in our own words.

Called in a thread (`reconcile/client_reading.py`). Who may write a resource chooses the server: so the name is
resolved once, every address of it has to be permitted, and no other address is connected to, with the name of the URL
checked in the certificate; no redirect is followed, no proxy is used, and a reading has a deadline as a whole.
What the server says is never repeated: it would stand in a status, and tell what answers inside of a network.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence

from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import CounterKey, Scrape
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.ports import EvidenceAnswer
from kafkafeatures.kafka.base.errors import TlsFailed
from kafkafeatures.kafka.wire import tls
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.prometheus.api import HttpAnswer, PrometheusApi, PrometheusFailed
from kafkafeatures.prometheus.brokers import BrokerLabel, BrokersNotNamed, SeveralClusters
from kafkafeatures.prometheus.evidence import read_evidence
from kafkafeatures.prometheus.http import HttpTransport, PrometheusUrlRefused, parse_url
from kafkafeatures.prometheus.queries import is_selector
from kafkafeatures.prometheus.settings import ADDRESS_FORBIDDEN, PrometheusSettings

WITHIN = 60.0
"""Seconds of a reading, which takes several requests."""
MAX_ANSWER = 8 * 1024 * 1024
"""Most bytes of an answer: 30 brokers need 3 MiB, and the operator has other clusters."""


class PrometheusSource:
    """One cluster in one Prometheus. `monotonic`: in seconds. `within`: seconds of a reading."""

    def __init__(self, settings: PrometheusSettings, monotonic: Callable[[], float], *, within: float = WITHIN) -> None:
        self._settings, self._within, self._monotonic = settings, within, monotonic
        self._peer: tuple[str, int] | None = None  # IP address and port that was connected to last
        self._until, self._status = 0.0, 0  # monotonic end of the reading; HTTP status of the last answer

    def read(self, window: EvidenceWindow, matters: Callable[[CounterKey], bool]) -> EvidenceAnswer:
        """The scrapes of all brokers in this window; a Failure where there are none."""
        self._until = self._monotonic() + self._within
        return EvidenceAnswer(self._read(window, matters), self._peer)

    def _read(self, window: EvidenceWindow, matters: Callable[[CounterKey], bool]) -> Sequence[Scrape] | Failure:
        settings = self._settings
        if not is_selector(settings.selector):
            return _failure(FailureKind.REJECTED, "the selector is not a list of label matchers", _SELECTOR)
        label = BrokerLabel(settings.broker_label, settings.broker_pattern) if settings.broker_label else None
        try:
            evidence = read_evidence(PrometheusApi(self._transport()), settings.selector, label, window, matters)
        except _AddressForbidden:
            return ADDRESS_FORBIDDEN
        except TlsFailed:
            return _failure(FailureKind.TLS, "a certificate or key of spec.clientEvidence is not usable", _TLS)
        except PrometheusUrlRefused:
            return _failure(FailureKind.REJECTED, "the URL of Prometheus is not valid", "correct the URL")
        except BrokersNotNamed:
            return _failure(FailureKind.REJECTED, "no label in Prometheus shows the ids of the brokers", _LABEL)
        except SeveralClusters:
            return _failure(FailureKind.REJECTED, "the selector matches brokers of several clusters", _SELECTOR)
        except PrometheusFailed as failed:
            return self._cause(failed)
        return evidence.scrapes

    def _transport(self) -> Callable[[str, bytes], HttpAnswer]:
        settings, until = self._settings, self._until
        url = parse_url(settings.url)
        context = tls.context(settings.tls) if url.scheme == "https" else None
        headers = {"Authorization": settings.authorization} if settings.authorization else {}

        def post(path: str, form: bytes) -> HttpAnswer:
            """One request on a connection of its own, within what is left of the time."""
            left = until - self._monotonic()
            if left <= 0:
                raise PrometheusFailed("did not answer in time") from TimeoutError()
            transport = HttpTransport(
                url, headers, context, connect=self._connect, deadline=left, max_answer=MAX_ANSWER
            )
            try:
                answer = transport(path, form)
            finally:
                transport.close()
            self._status = answer.status
            return answer

        return post

    def _connect(self, address: tuple[str, int], *_: object) -> socket.socket:
        """A connection to the first address of the name that answers. Raises _AddressForbidden, OSError."""
        host, port = address
        resolved = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        policy = self._settings.policy or AddressPolicy()
        if not resolved or not all(policy.permits(ip_address, port) for ip_address in resolved):
            raise _AddressForbidden
        failure: OSError = TimeoutError()
        for number, ip_address in enumerate(resolved):
            self._peer = ip_address, port
            # An address that does not answer leaves each of the following ones as much time as it had.
            seconds = (self._until - self._monotonic()) / (len(resolved) - number)
            if seconds <= 0:
                break
            try:
                return socket.create_connection(self._peer, seconds)
            except OSError as error:
                failure = error
        raise failure

    def _cause(self, failed: PrometheusFailed) -> Failure:
        """The Failure in our words, by the error that the transport had: the cause or the context of `failed`."""
        match failed.__cause__ or failed.__context__:
            case ssl.SSLError():
                return _failure(FailureKind.TLS, "the TLS handshake with Prometheus failed", _TLS)
            case socket.gaierror():
                return _failure(FailureKind.UNREACHABLE, "the name of Prometheus cannot be resolved", "correct the URL")
            case OSError():
                return _failure(FailureKind.UNREACHABLE, "Prometheus cannot be reached, or does not answer", _NETWORK)
            case _:
                return self._unusable()

    def _unusable(self) -> Failure:
        """Failure of an answer that has come, or has not come in time."""
        if self._monotonic() >= self._until:
            return _failure(FailureKind.TIMED_OUT, "Prometheus does not answer in time", _NETWORK)
        if self._status in (401, 403):
            return _failure(FailureKind.AUTHENTICATION, "Prometheus refuses the credentials", _SECRET)
        if 300 <= self._status < 400:
            return _failure(FailureKind.REJECTED, "Prometheus redirects, which is not followed", "correct the URL")
        return _failure(FailureKind.REJECTED, "Prometheus gives no usable answer", _CHECK)


class _AddressForbidden(Exception):
    """The policy does not permit an address of the server."""


def _failure(kind: FailureKind, message: str, remedy: str) -> Failure:
    return Failure(kind, "Prometheus", message, remedy)


_CHECK = "run `kafkafeatures clients check --prometheus URL`, which shows the reason"
_LABEL = f"set brokerLabel, and brokerPattern if the id is a part of it; {_CHECK}"
_SELECTOR = 'correct spec.clientEvidence.prometheus.selector, such as namespace="kafka"'
_NETWORK = "check the URL, the server, and the network policies of the operator"
_SECRET = "correct the Secret that spec.clientEvidence names"  # noqa: S105 - a remedy
_TLS = "check the certificate of the server, and the tls of spec.clientEvidence"
