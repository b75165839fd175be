"""Evidence about clients, read beside reconciliations: each resource that asks for it has its latest reading here.

Called by `reconcile/connections.py`. A reconciliation takes what is there and waits for nothing; it only notes which
brokers evidence has to cover, and a reading that is due begins in the background, in threads of its own
(`client_reading.py`). So a Prometheus that is slow, lies or is away delays nobody: its evidence is Unknown. Decided
here: when a reading is due, and whether the last one still counts. No text of a server is passed on, as it could
otherwise write into a status.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from msgspec import Struct

from kafkafeatures.api.client_spec import PrometheusSpec
from kafkafeatures.api.spec import Spec
from kafkafeatures.core.clients.reading import ClientsReading, JudgedBrokers
from kafkafeatures.core.facts.observation import Known, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.ports import EvidenceSource
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.kube.api import KubernetesApi, ResourceKey
from kafkafeatures.kube.errors import KubeError, RequestRefused
from kafkafeatures.prometheus.settings import ADDRESS_FORBIDDEN, PrometheusSettings
from kafkafeatures.reconcile.client_reading import (
    VALID_FOR,
    EvidenceFiles,
    ReadingInput,
    read_clients,
)
from kafkafeatures.reconcile.credentials import CredentialsInvalid, Read, Reference, material_of, need, tls_of

EVERY = 600.0
"""Seconds between two readings of a resource."""
RETRY = 60.0
"""Seconds until a reading that failed, or was for other brokers, is tried again, at least."""
COST = 10
"""A reading that failed is tried again after at least this many times its duration: as long as it lasts, it takes the
thread of another resource.
"""
BEFORE_STALE = 180.0
"""The next reading begins at least so many seconds before the evidence of the last one expires: `VALID_FOR` after the
reading, or after the newest scrape of a ConfigMap. `RETRY` has precedence.
"""
AT_ONCE = 2
"""Readings at once. Each keeps the answers of one server in memory."""
SOURCE = "evidence about clients"

logger = logging.getLogger(__name__)

OpenEvidence = Callable[[PrometheusSettings], EvidenceSource]
LatestEvidence = Callable[[JudgedBrokers | Failure], "Known[ClientsReading] | Unknown"]
"""The latest reading for these brokers. Returns at once."""


class _Required(Struct, frozen=True):
    """Subject of a reading. `config_map`: name of the ConfigMap; empty for none. `days`: of the window."""

    prometheus: PrometheusSpec | None
    config_map: str
    release: str
    days: int


@dataclass(slots=True)
class _Evidence:
    """State of a resource between its readings.

    Times are monotonic, in seconds.

    required: subject of the readings; if the document asks for another one, a new state begins.
    brokers, began_at: the brokers that the last reading is for, and the time at which it began. It may be under way, or
        have failed.
    next_at: time at which the next reading is due.
    task: the reading that is under way.
    reading, read_at: the last reading that succeeded, and the time at whose state its evidence ends.
    failure: failure of the last reading that ended; None if it succeeded.
    """

    required: _Required
    brokers: JudgedBrokers | None = None
    next_at: float = 0.0
    began_at: float = 0.0
    task: asyncio.Task[None] | None = None
    reading: Known[ClientsReading] | None = None
    read_at: float = 0.0
    failure: Failure | None = None


class ClientEvidence:
    """Evidence of all resources of this process. `open_source`: makes a source, without connecting."""

    def __init__(
        self, api: KubernetesApi, open_source: OpenEvidence, policy: AddressPolicy, environment: Environment
    ) -> None:
        self._api, self._open, self._policy, self._environment = api, open_source, policy, environment
        self._evidence: dict[ResourceKey, _Evidence] = {}
        self._threads = ThreadPoolExecutor(AT_ONCE, "client-evidence")

    def of(self, key: ResourceKey, spec: Spec) -> LatestEvidence | None:
        """Access to the latest reading for a resource; None where it asks for none."""
        if spec.client_evidence is None:
            self.forget(key)
            return None
        evidence = spec.client_evidence
        config_map = evidence.config_map_ref.name if evidence.config_map_ref is not None else ""
        required = _Required(evidence.prometheus, config_map, spec.clients_target, evidence.window_days)
        return partial(self._latest, key, required)

    def _latest(
        self, key: ResourceKey, required: _Required, brokers: JudgedBrokers | Failure
    ) -> Known[ClientsReading] | Unknown:
        """The latest reading, if it still counts. Begins another one where it is due."""
        evidence = self._evidence.get(key)
        if evidence is None or evidence.required != required:
            self.forget(key)
            evidence = self._evidence[key] = _Evidence(required)
        if not isinstance(brokers, Failure):
            self._begin_if_due(key, evidence, brokers)
        return self._counted(evidence)

    def is_reading(self, key: ResourceKey) -> bool:
        """Tell whether a reading is under way, so that there will be news soon."""
        evidence = self._evidence.get(key)
        return evidence is not None and evidence.task is not None

    def forget(self, key: ResourceKey) -> None:
        """Forget what was read for a resource: it was deleted, or asks for something else."""
        evidence = self._evidence.pop(key, None)
        if evidence is not None and evidence.task is not None:
            evidence.task.cancel()

    async def close(self) -> None:
        """End all readings."""
        tasks = [evidence.task for evidence in self._evidence.values() if evidence.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _counted(self, evidence: _Evidence) -> Known[ClientsReading] | Unknown:
        """The last reading, as long as it counts; then the failure because of which there is no newer one."""
        if evidence.reading is not None and self._environment.monotonic() - evidence.read_at <= VALID_FOR:
            return evidence.reading
        if evidence.reading is not None:
            cause = evidence.failure.message if evidence.failure is not None else "the last reading has not ended"
            text = f"evidence about clients is older than {VALID_FOR / 60:g} minutes: {cause}"
            return Unknown(Failure(FailureKind.STALE, SOURCE, text, _remedy(evidence.failure)))
        if evidence.failure is not None:
            return Unknown(evidence.failure)
        return Unknown(_BEING_READ)

    def _begin_if_due(self, key: ResourceKey, evidence: _Evidence, brokers: JudgedBrokers) -> None:
        now = self._environment.monotonic()
        # The last reading does not count for all of these brokers: a new one is due at once, but not within `RETRY`.
        lacks_brokers = evidence.brokers is not None and not evidence.brokers.includes(brokers)
        lacks_brokers = lacks_brokers and now - evidence.began_at >= RETRY
        if evidence.task is not None or (now < evidence.next_at and not lacks_brokers):
            return
        evidence.brokers, evidence.began_at = brokers, now
        evidence.next_at = now + self._environment.jittered(EVERY)
        evidence.task = asyncio.create_task(self._read(key, evidence, brokers), name=f"client evidence of {key}")

    async def _read(self, key: ResourceKey, evidence: _Evidence, brokers: JudgedBrokers) -> None:
        began, at = self._environment.monotonic(), self._environment.clock()
        try:
            outcome = await self._outcome(key, evidence, brokers, at)
        except KubeError:
            outcome = Failure(FailureKind.CREDENTIALS, SOURCE, "the API server does not answer", _WAIT)
        except CredentialsInvalid as error:
            outcome = Failure(FailureKind.CREDENTIALS, SOURCE, str(error), "correct spec.clientEvidence")
        except Exception as error:  # whatever it is, nothing but the evidence may suffer from it
            logger.error("evidence about clients was not read: %s", type(error).__name__, extra=key.log_fields)
            outcome = Failure(FailureKind.REJECTED, SOURCE, "the operator failed: a bug; see its log", _WAIT)
        finally:
            evidence.task = None
        now = self._environment.monotonic()
        if isinstance(outcome, Failure):
            evidence.failure = outcome
            evidence.next_at = min(evidence.next_at, now + max(RETRY, COST * (now - began)))
            return
        age = max(0.0, at.timestamp() - outcome.check.window.end / 1000)
        kind = SourceKind.CONFIG_MAP if evidence.required.prometheus is None else SourceKind.PROMETHEUS
        evidence.reading, evidence.read_at, evidence.failure = Known(outcome, kind, kind, at), began - age, None
        ends_at = evidence.read_at + VALID_FOR
        evidence.next_at = min(evidence.next_at, max(now + RETRY, ends_at - BEFORE_STALE))

    async def _outcome(
        self, key: ResourceKey, evidence: _Evidence, brokers: JudgedBrokers, at: datetime
    ) -> ClientsReading | Failure:
        required = evidence.required
        prometheus = required.prometheus
        settings = None if prometheus is None else await self._settings(key.namespace, prometheus)
        files = await self._files(key.namespace, required.config_map)
        job = ReadingInput(settings, files, required.release, required.days, round(at.timestamp() * 1000), brokers)
        outcome, peer = await asyncio.get_running_loop().run_in_executor(self._threads, read_clients, job, self._open)
        # Otherwise a user who may only write a document would learn from the failure how the API server answers.
        if isinstance(outcome, Failure) and peer is not None and await self._policy.is_api_server(*peer):
            return ADDRESS_FORBIDDEN
        return outcome

    async def _files(self, namespace: str, name: str) -> EvidenceFiles:
        """The entries of a ConfigMap; none if its name is empty. Raises KubeError."""
        if not name:
            return EvidenceFiles()
        try:
            entries = await self._api.config_map_files(namespace, name)
        except RequestRefused:
            return EvidenceFiles(name, None, "the operator is not authorized to read it")
        return EvidenceFiles(name, entries, "not found")

    async def _settings(self, namespace: str, prometheus: PrometheusSpec) -> PrometheusSettings:
        """The settings with secrets as they are now. Raises CredentialsInvalid, KubeError."""
        noted: list[Reference] = []

        def note(reference: Reference, key: str) -> str:
            """Note a reference instead of reading it; the text returned is not used."""
            noted.append(reference)
            return "noted"

        _resolved(prometheus, note, self._policy)
        material: dict[Reference, Mapping[str, str] | None] = {}
        for reference in dict.fromkeys(noted):
            fetch = self._api.secret if reference.kind == "Secret" else self._api.config_map
            try:
                material[reference] = await fetch(namespace, reference.name)
            except RequestRefused:
                text = f"the operator is not authorized to read the {reference.kind} {reference.name}"
                raise CredentialsInvalid(text) from None
        return _resolved(prometheus, material_of(material), self._policy)


def _resolved(prometheus: PrometheusSpec, reader: Read, policy: AddressPolicy) -> PrometheusSettings:
    authorization = ""
    if (token_ref := prometheus.token_secret_ref) is not None:
        authorization = "Bearer " + need(reader, Reference("Secret", token_ref.name), token_ref.key).strip()
    if (login := prometheus.basic_auth_secret_ref) is not None:
        secret = Reference("Secret", login.name)
        username = need(reader, secret, login.username_key).strip("\r\n")
        password = need(reader, secret, login.password_key).strip("\r\n")
        authorization = "Basic " + b64encode(f"{username}:{password}".encode()).decode()
    if not (authorization.isascii() and authorization.isprintable()):
        raise CredentialsInvalid("the token has characters that no HTTP header may have")
    return PrometheusSettings(
        prometheus.url.rstrip("/"), prometheus.selector, prometheus.broker_label, prometheus.broker_pattern,
        tls_of(prometheus.tls, reader) or Tls(), authorization, policy,
    )  # fmt: skip


_WAIT = "wait: it is read again"
_BEING_READ = Failure(FailureKind.NOT_ASKED, SOURCE, "evidence about clients is being read", _WAIT)


def _remedy(failure: Failure | None) -> str:
    return failure.action if failure is not None else _WAIT
