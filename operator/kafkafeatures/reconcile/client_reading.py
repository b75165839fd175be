"""One reading of evidence about clients: what a Prometheus or a ConfigMap shows, judged for a release.

Called in a thread by `reconcile/client_evidence.py`, as a Prometheus may be slow and a ConfigMap takes a while to
parse. What it decides: the verdict rests on one source. With a Prometheus the scrapes of the ConfigMap are refused; its
request logs name the clients, and change no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import Struct, field

from kafkafeatures.client_files.config_map import ConfigMapEvidence, problem, read_config_map, scrape_entries
from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import Scrape
from kafkafeatures.core.clients.reading import ClientsReading, JudgedBrokers
from kafkafeatures.core.clients.registry import BrokerRegistry
from kafkafeatures.core.clients.senders import senders_of
from kafkafeatures.core.clients.verdict import check_clients
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.ports import EvidenceSource
from kafkafeatures.core.report.clients_document import MOST_SENDERS
from kafkafeatures.core.words import cut
from kafkafeatures.prometheus.settings import PrometheusSettings

VALID_FOR = 1800.0
"""Seconds for which evidence counts."""
_DAY = 86_400_000  # ms


class EvidenceFiles(Struct, frozen=True):
    """The ConfigMap of a resource; without one, it has no entries.

    entries: None if they cannot be read; then `reason` says why.
    """

    name: str = ""
    entries: Mapping[str, bytes] | None = field(default_factory=dict)
    reason: str = ""

    @property
    def location(self) -> str:
        """Name of the ConfigMap for people."""
        return f"ConfigMap {self.name}"


class ReadingInput(Struct, frozen=True):
    """Input of one reading.

    settings: of the Prometheus; None without one, where the verdict rests on `files`.
    days: length of the window. now: time of the reading in ms.
    """

    settings: PrometheusSettings | None
    files: EvidenceFiles
    release: str
    days: int
    now: int
    brokers: JudgedBrokers

    def window(self, end: int) -> EvidenceWindow:
        """The window that ends at a time in ms."""
        return EvidenceWindow(end - self.days * _DAY, end)


class ReadingOutcome(NamedTuple):
    """Outcome of a reading. `peer`: address that was connected to; None without a connection."""

    reading: ClientsReading | Failure
    peer: tuple[str, int] | None = None


def read_clients(job: ReadingInput, open_source: Callable[[PrometheusSettings], EvidenceSource]) -> ReadingOutcome:
    """Read and judge. `open_source`: opens a Prometheus."""
    files = job.files
    if job.settings is None:
        return ReadingOutcome(_of_files(job))
    if refused := scrape_entries(files.entries or ()):
        more = f" and {len(refused) - 1} more like it" if len(refused) > 1 else ""
        text = f"with a Prometheus, the {files.location} may have no scrapes"
        remedy = f"remove the entry {cut(refused[0], 100)}{more}, or spec.clientEvidence.prometheus"
        return ReadingOutcome(Failure(FailureKind.REJECTED, files.location, text, remedy))
    window = job.window(job.now)
    scrapes, peer = open_source(job.settings).read(window, client_targets().matters(job.release))
    if isinstance(scrapes, Failure):
        return ReadingOutcome(scrapes, peer)
    if files.entries is None:
        evidence = ConfigMapEvidence(problems=(problem(files.location, f"{files.reason}; clients are not named"),))
    else:
        evidence = read_config_map(files.entries, job.now)
    return ReadingOutcome(_judged(job, scrapes, evidence, window), peer)


def _of_files(job: ReadingInput) -> ClientsReading | Failure:
    """The reading that rests on the scrapes of a ConfigMap. Its window ends at the newest scrape."""
    files, location = job.files, job.files.location
    if files.entries is None:
        return Failure(FailureKind.CREDENTIALS, location, f"{location}: {files.reason}", "correct spec.clientEvidence")
    evidence = read_config_map(files.entries, job.now)
    if not evidence.newest:
        text = f"the {location} has no scrape that can be used"
        causes = [line for line in evidence.problems if line.startswith(tuple(scrape_entries(files.entries)))]
        return Failure(FailureKind.REJECTED, location, f"{text}: {causes[0]}" if causes else text, _WRITE)
    if job.now - evidence.newest > VALID_FOR * 1000:
        time = datetime.fromtimestamp(evidence.newest / 1000, UTC)
        # The time instead of the age, which would be another one, and a write of the status, with each reading.
        text = f"the newest scrape in the {location} is of {time:%Y-%m-%d %H:%M} UTC, more than 30 minutes ago"
        return Failure(FailureKind.STALE, location, text, _WRITE_OFTEN)
    return _judged(job, evidence.scrapes, evidence, job.window(evidence.newest))


def _judged(
    job: ReadingInput, scrapes: Sequence[Scrape], evidence: ConfigMapEvidence, window: EvidenceWindow
) -> ClientsReading:
    """The verdict by the scrapes, and the senders by what else the ConfigMap has."""
    brokers, targets = job.brokers, client_targets()
    registry = BrokerRegistry(brokers.ids)
    check = check_clients(job.release, targets, scrapes, registry, window, all_refuse=brokers.all_refuse)
    senders = senders_of(evidence.uses, job.release, targets, window, evidence.owners, most=MOST_SENDERS)
    return ClientsReading(check.without(brokers.exempt), brokers, senders, evidence.problems)


_WRITE = "write the answers of all exporters to it, as entries such as 3-1764374400.prom.gz: BROKER-TIME"
_WRITE_OFTEN = "have it written at least every 20 minutes, and look at what writes it"
