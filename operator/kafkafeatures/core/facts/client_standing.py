"""Judgement of whether clients are ready for a release of Kafka, with reason, message and remedy for people.

Pure. Called for the condition ClientsCompatible and `status.clients` (`core/report/clients_document.py`), before a
restart (`core/roll/breaking_clients.py`), and by code that reads evidence, which learns here which brokers it has to
cover.
The rule: evidence counts only for the release, the window and the brokers for which it was read. Other evidence proves
nothing.
"""

from __future__ import annotations

from collections.abc import Set
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.clients.coverage import GapCause
from kafkafeatures.core.clients.exporters import MARK
from kafkafeatures.core.clients.reading import JudgedBrokers, judged_of
from kafkafeatures.core.clients.verdict import ApiVersion, ClientCheck, ClientVerdict, UseKind
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.words import counted, first_of

REMOVED_OLD_VERSIONS = 7
"""metadata.version 3.3-IV3, the lowest that Kafka 4.x supports. Kafka 3.x supports lower ones too, so the lowest
supported level of a broker shows whether it runs 4.0 or newer, which refuses removed API versions.
"""
NOT_ALL_REGISTERED = "brokers in ZooKeeper mode are not all registered with the quorum"
MIGRATE_FIRST = "migrate the cluster to KRaft first"
MOST_NAMED = 3
"""Most API versions, and most brokers, that a message names."""


class ClientsStanding(Struct, frozen=True):
    """Judgement of the evidence about clients.

    reason: reason of the condition ClientsCompatible.
    remedy: empty if clients are ready for the release.
    check: the verdict with its evidence; None if no evidence was read for this release, window and these brokers.
    """

    reason: Reason
    message: str
    remedy: str = ""
    check: ClientCheck | None = None


def judged_brokers(observation: Observation) -> JudgedBrokers | Failure:
    """The brokers that evidence has to cover. Failure where it is not known which are registered."""
    registered = observation.registered_brokers
    if isinstance(registered, Unknown):
        return registered.failure
    if not observation.in_kraft_mode:
        return Failure(FailureKind.UNSUPPORTED, "brokers", NOT_ALL_REGISTERED, MIGRATE_FIRST)
    return judged_of(registered.value, refusing_nodes(observation))


def refusing_nodes(observation: Observation) -> frozenset[int]:
    """Ids of the nodes that refuse the API versions which Kafka 4.0 removed."""
    nodes = observation.nodes
    return frozenset(node.id for node in nodes if refuses_old_versions(node.known_range_of(METADATA_VERSION)))


def refuses_old_versions(supported: VersionRange | tuple[int, int] | None) -> bool:
    """Tell whether a broker with this range of metadata.version runs Kafka 4.0 or newer; False where it is unknown."""
    if supported is None:
        return False
    return (supported[0] if isinstance(supported, tuple) else supported.min) >= REMOVED_OLD_VERSIONS


def standing_of(
    observation: Observation, release: str, window: timedelta, consented: Set[ApiVersion] = frozenset()
) -> ClientsStanding:
    """Judge the evidence of this observation for a release and a window. `consented`: removed versions whose clients
    may break, by a consent of the user.
    """
    evidence = observation.clients
    if isinstance(evidence, Unknown):
        failure = evidence.failure
        reason = Reason.EVIDENCE_STALE if failure.kind is FailureKind.STALE else Reason.EVIDENCE_MISSING
        return ClientsStanding(reason, failure.message, failure.action)
    check, brokers = evidence.value.check, judged_brokers(observation)
    if isinstance(brokers, Failure):
        text = f"which brokers are registered is not known: {brokers.message}"
        return ClientsStanding(Reason.EVIDENCE_INCOMPLETE, text, brokers.action)
    if (check.release, check.window.length) != (release, round(window.total_seconds() * 1000)):
        text = f"no evidence for Kafka {release} was read yet"
        return ClientsStanding(Reason.EVIDENCE_MISSING, text, "wait: it is read within 10 minutes")
    if not evidence.value.brokers.includes(brokers):
        text = "brokers were registered or upgraded since evidence was read"
        return ClientsStanding(Reason.EVIDENCE_INCOMPLETE, text, "wait: it is read anew within 10 minutes")
    # Brokers that were upgraded since the evidence was read need not be covered any longer.
    return _judged(check.without(brokers.exempt), evidence.source, consented)


def _judged(check: ClientCheck, source: SourceKind, consented: Set[ApiVersion]) -> ClientsStanding:
    verdict = check.verdict_with_consents(consented)
    if verdict is ClientVerdict.BLOCKED:
        uses = [f"{use.api_version.api} v{use.version}" for use in check.breaking(consented)]
        text = f"clients use API versions that Kafka {check.release} lacks: {first_of(uses, MOST_NAMED)}"
        remedy = "upgrade these clients; `kafkafeatures clients check` shows the brokers that they use"
        return ClientsStanding(Reason.BLOCKING_CLIENTS, text, remedy, check)
    if verdict is ClientVerdict.READY:
        count = counted(len(check.brokers or ()), "broker")
        days = f"{check.window.length / 86_400_000:g} days"
        return ClientsStanding(
            Reason.NO_BLOCKING_CLIENTS,
            f"no client of {count} used an API version that Kafka {check.release} lacks within {days}",
            check=check,
        )
    return _unknown(check, source)


def _unknown(check: ClientCheck, source: SourceKind) -> ClientsStanding:
    """Standing where the evidence proves nothing. It names one cause: one that a person has to remove, before any
    other.
    """
    if not check.is_known_release:
        text = f"this version of the operator does not know the API versions of Kafka {check.release}"
        return ClientsStanding(
            Reason.EVIDENCE_MISSING, text, "correct the target of spec.clientEvidence, or upgrade the operator", check
        )
    causes = {broker.broker: [gap.cause for gap in broker.gaps] for broker in check.brokers or () if broker.gaps}
    for cause, reason, predicate, remedy in _OF_BROKERS:
        ids = [id_ for id_, its_causes in causes.items() if cause in its_causes]
        if ids:
            missing = _WRITTEN if source is SourceKind.CONFIG_MAP else _SCRAPED
            return ClientsStanding(reason, f"{_brokers(ids)} {predicate}{_from(check)}", remedy or missing, check)
    if causes:
        text = f"{_brokers([*causes])} {'is' if len(causes) == 1 else 'are'} not covered through the whole window"
        remedy = "wait, with all brokers being scraped; `kafkafeatures clients check` shows the gaps"
        return ClientsStanding(Reason.EVIDENCE_INCOMPLETE, f"{text}{_from(check)}", remedy, check)
    for use in check.uses:
        if use.kind in _OF_USES:
            predicate, remedy = _OF_USES[use.kind]
            text = f"{use.api_version.api} v{use.version} {predicate}".format(check.release)
            return ClientsStanding(Reason.EVIDENCE_INCOMPLETE, f"{text}{_from(check)}", remedy, check)
    text = "the evidence is not conclusive"
    return ClientsStanding(Reason.EVIDENCE_INCOMPLETE, f"{text}{_from(check)}", _SHOWN_BY_CHECK, check)


_SHOWN_BY_CHECK = "`kafkafeatures clients check --prometheus URL` shows the uses and the gaps, each with its reason"
_SCRAPED = (
    "have Prometheus scrape every broker, and check selector, brokerLabel and brokerPattern of spec.clientEvidence; "
    "`kafkafeatures clients check --prometheus URL` shows why scrapes are not used; a broker that was removed counts "
    "until it has left the window"
)
_WRITTEN = (
    "write the answer of its exporter to the ConfigMap, as an entry BROKER-TIME.prom.gz; status.clients.problems says "
    "why entries are not used; a broker that was removed counts until it has left the window"
)
_OF_BROKERS = (
    (GapCause.NO_EVIDENCE, Reason.EVIDENCE_MISSING, "without evidence", ""),
    (GapCause.CONTRADICTION, Reason.EVIDENCE_INCOMPLETE, "with contradictory evidence",
     "see the contradiction with `kafkafeatures clients check`; give each broker metrics of its own"),
    (GapCause.MAY_REFUSE, Reason.EVIDENCE_INCOMPLETE, "whose process may be of 4.x, which refuses without counting",
     f"if it is older, have its exporter show {MARK}"),
    (GapCause.STALE, Reason.EVIDENCE_STALE, "no longer scraped", ""),
)  # fmt: skip
"""Causes of gaps that a person has to remove, in the order in which they are named: cause, reason of the condition,
what is said of the brokers, and remedy; where that is empty, it is `_SCRAPED` or `_WRITTEN`. Any other gap closes with
time.
"""


_OF_USES = {
    UseKind.MAYBE_BEFORE: ("was used, and when last is not known", "wait for more evidence"),
    UseKind.NEWER: ("is newer than Kafka {}", "choose a newer target"),
    UseKind.UNKNOWN_API: ("is not known to be an API of Apache Kafka", "ask the vendor of the brokers"),
}
"""Kinds of uses that prove neither that clients break nor that they do not: what is said of the use, and remedy."""


def _brokers(ids: list[int]) -> str:
    names = ", ".join(map(str, sorted(ids)[:MOST_NAMED])) + (", ..." if len(ids) > MOST_NAMED else "")
    return f"broker{'s' if len(ids) > 1 else ''} {names}"


def _from(check: ClientCheck) -> str:
    """Earliest day on which the verdict can be better, for the end of a message; empty where it is not known."""
    if check.ready_from is None or check.ready_from <= check.window.end:
        return ""
    day = datetime.fromtimestamp(check.ready_from / 1000, UTC) + timedelta(days=1, milliseconds=-1)  # rounded up
    return f"; ready on {day:%Y-%m-%d} at the earliest"
