"""Senders of the API versions that a release removed: which clients they are, which team owns them, and the remedy.

Pure. Request logs show who sent a request; they never make a verdict better, since they may lack requests. What it
decides: a sender is a client id of a principal, and its remedy follows from its client id and software. A client
chooses both itself, so they prove nothing, and no sender is left out because of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from kafkafeatures.core.clients.coverage import EvidenceWindow, VersionUse
from kafkafeatures.core.clients.targets import Acceptance, Targets

MANY_CLIENTS = 10
"""Number of client ids of one principal at one address above which the address may be that of a proxy."""


class LoggedUse(Struct, frozen=True):
    """Requests of one sender, API and version to one broker within an hour.

    name: name of the API.
    client_id, principal, address: None if they were left out when the log was reduced, for lack of room.
    software: name and version that the client sends (KIP-511); empty for none.
    is_forwarded: a broker has forwarded the requests; `address` is that of the broker.
    first, last: bound of the first request (not later than it), and time of the last one, in ms.
    shows_all: the log has all requests of that hour, not just those of deprecated versions.
    """

    broker: int
    name: str
    version: int
    client_id: str | None
    principal: str | None
    address: str | None
    software: str
    is_forwarded: bool
    requests: int
    first: int
    last: int
    shows_all: bool


class SenderKind(StrEnum):
    """Kinds of senders by what they say of themselves."""

    CLIENT = "Client"
    BROKER = "Broker"
    """The replica fetcher of a broker, by its client id."""
    FORWARDED = "Forwarded"
    """A client whose request a broker has forwarded: the address is that of the broker."""
    UNNAMED = "Unnamed"
    """Clients whose names were left out when the log was reduced, for lack of room."""


class ClientOwner(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A team, and the client ids and principals that are its own, as patterns with `*`, `?` and `[...]`."""

    team: str
    client_id: str = "*"
    principal: str = "*"

    def owns(self, client_id: str, principal: str) -> bool:
        """Tell whether both patterns match."""
        return fnmatchcase(client_id, self.client_id) and fnmatchcase(principal, self.principal)


class Sender(Struct, frozen=True):
    """A client that used removed versions within the window.

    versions: the removed versions that it used, as (API, version), sorted.
    requests, last: number of these requests, and time of the last one in ms.
    owner: team of the first `ClientOwner` that matches; empty for none.
    near: most client ids of the same principal at one of its addresses, including its own (see `MANY_CLIENTS`).
    """

    kind: SenderKind
    client_id: str
    principal: str
    addresses: tuple[str, ...]
    software: tuple[str, ...]
    versions: tuple[tuple[str, int], ...]
    requests: int
    last: int
    owner: str
    remedy: str
    near: int


_LIBRARIES = (
    ("sarama", "sarama*"),
    ("kafka-python", "kafka-python-*"),
    ("librdkafka", "rdkafka*"),
    ("librdkafka", "librdkafka*"),
    ("aiokafka", "aiokafka-*"),
    ("KafkaJS", "kafkajs*"),
    ("Java", "apache-kafka-java*"),
    ("Java", "consumer-*"),
    ("Java", "producer-*"),
    ("Java", "adminclient-*"),
)
"""Libraries, with patterns for the name that they send (KIP-511) or for their default client id."""
_CONFIGURED = {"sarama": "Config.Version", "kafka-python": "api_version"}
"""Libraries that send the versions that they are configured for, whatever the broker offers; with the option."""
_ANY_CONFIGURED = "sarama: Config.Version, kafka-python: api_version"
_FETCHER = "broker-*-fetcher-*"
"""Client ids of replica fetchers."""
_NEGOTIATION = "ApiVersions"
"""The request by which a client asks for the versions that the broker offers."""


def owner_of(owners: Iterable[ClientOwner], client_id: str, principal: str) -> str:
    """The team of the first owner whose patterns match; empty if there is none."""
    return next((owner.team for owner in owners if owner.owns(client_id, principal)), "")


def removed_uses(
    uses: Iterable[LoggedUse], release: str, targets: Targets, window: EvidenceWindow
) -> tuple[LoggedUse, ...]:
    """Uses within the window of versions that the release removed."""
    target = targets.of(release)
    if target is None:
        return ()
    return tuple(
        use
        for use in uses
        if is_within(use, window) and targets.acceptance(target, use.name, use.version) is Acceptance.REMOVED
    )


def is_within(use: LoggedUse, window: EvidenceWindow) -> bool:
    """Tell whether one of these requests may have been sent within the window."""
    return use.last >= window.begin and use.first <= window.end


def version_uses(uses: Iterable[LoggedUse], window: EvidenceWindow) -> Iterator[VersionUse]:
    """Uses in the form that counters have, without their senders, for the verdict; bounded to the window."""
    for use in uses:
        if is_within(use, window):
            last = min(use.last, window.end)
            yield VersionUse(
                use.broker, use.name, use.version, min(max(use.first, window.begin), last), last, use.requests
            )


def senders_of(
    uses: Sequence[LoggedUse],
    release: str,
    targets: Targets,
    window: EvidenceWindow,
    owners: Sequence[ClientOwner],
    *,
    most: int | None = None,
) -> tuple[Sender, ...]:
    """Senders of versions that the release removed, those with the most requests first. `uses`: all requests of the
    logs, also of accepted versions, which show how a client chooses its versions. `most`: number of senders, at most.
    """
    by_sender: dict[tuple[SenderKind, str, str], list[LoggedUse]] = {}
    for use in removed_uses(uses, release, targets, window):
        by_sender.setdefault(sender_key(use), []).append(use)
    negotiating = {_identity(use) for use in uses if use.name == _NEGOTIATION}  # they ask a broker for its versions
    near = _near(uses)
    ordered = sorted(by_sender.items(), key=lambda item: (-sum(use.requests for use in item[1]), *item[0][1:]))
    return tuple(
        _sender(kind, its_uses, owners, near, negotiates=_identity(its_uses[0]) in negotiating)
        for (kind, _, _), its_uses in ordered[:most]
    )


def sender_key(use: LoggedUse) -> tuple[SenderKind, str, str]:
    """Kind, client id and principal of a sender, by which senders are told apart."""
    return _kind(use), use.client_id or "", use.principal or ""


def _kind(use: LoggedUse) -> SenderKind:
    if use.client_id is None:
        return SenderKind.UNNAMED
    if use.is_forwarded:
        return SenderKind.FORWARDED
    return SenderKind.BROKER if fnmatchcase(use.client_id, _FETCHER) else SenderKind.CLIENT


def _identity(use: LoggedUse) -> tuple[str | None, str | None]:
    return use.client_id, use.principal


def _near(uses: Iterable[LoggedUse]) -> Mapping[tuple[str | None, str | None], int]:
    """Number of client ids, by principal and address."""
    clients: dict[tuple[str | None, str | None], set[str]] = {}
    for use in uses:
        if use.client_id is not None and use.address and not use.is_forwarded:
            clients.setdefault((use.principal, use.address), set()).add(use.client_id)
    return {place: len(ids) for place, ids in clients.items()}


def _sender(
    kind: SenderKind,
    uses: Sequence[LoggedUse],
    owners: Sequence[ClientOwner],
    near: Mapping[tuple[str | None, str | None], int],
    *,
    negotiates: bool,
) -> Sender:
    client_id, principal = uses[0].client_id or "", uses[0].principal or ""
    is_named = kind is not SenderKind.UNNAMED
    software = tuple(sorted({use.software for use in uses} - {""}))
    return Sender(
        kind,
        client_id,
        principal,
        tuple(sorted({use.address for use in uses if use.address})),
        software,
        tuple(sorted({(use.name, use.version) for use in uses})),
        sum(use.requests for use in uses),
        max(use.last for use in uses),
        owner_of(owners, client_id, principal) if is_named else "",
        _remedy(kind, client_id, software, negotiates=negotiates, shows_all=all(use.shows_all for use in uses)),
        max((near.get((use.principal, use.address), 0) for use in uses), default=0),
    )


def _remedy(kind: SenderKind, client_id: str, software: Sequence[str], *, negotiates: bool, shows_all: bool) -> str:
    match kind:
        case SenderKind.BROKER:
            return "a replica fetcher, by its client id: check the release and the inter-broker protocol of all brokers"
        case SenderKind.FORWARDED:
            return "forwarded by the broker at this address: look for this client id in the log of the broker"
        case SenderKind.UNNAMED:
            return "the reduced log had no room for its name: reduce shorter parts of the log"
        case SenderKind.CLIENT:
            library = _library(client_id, software)
            if library in _CONFIGURED:
                return f"raise the configured version ({library}: {_CONFIGURED[library]}), or upgrade the library"
            # The log would show the client's ApiVersions request. Without any, its versions must be configured.
            if shows_all and not negotiates and not library:
                return f"raise its configured version ({_ANY_CONFIGURED}), as it asks for none; or upgrade the library"
            return f"upgrade the library ({library})" if library else "upgrade the client library"


def _library(client_id: str, software: Sequence[str]) -> str:
    names = (*software, client_id)
    return next((library for library, pattern in _LIBRARIES for name in names if fnmatchcase(name, pattern)), "")
