"""The part of a status that reports evidence about clients, for people: decisions use the evidence itself.

The types belong to those of `api/status.py`. The CRD has the meaning of each field.
"""

from __future__ import annotations

from typing import ClassVar

from kafkafeatures.api.records import Stamp, StatusRecord


class ClientGap(StatusRecord, frozen=True, kw_only=True):
    """A broker that evidence does not cover. `cause`: a GapCause. `since`, `until`: of its longest gap."""

    KEY: ClassVar[tuple[str, ...]] = ("broker", "cause")

    broker: int
    cause: str
    since: Stamp | None = None
    until: Stamp | None = None


class ClientBlocker(StatusRecord, frozen=True, kw_only=True):
    """A version in use that the target lacks. `brokers`: ids, as `core/facts/node_sets.py` writes them."""

    KEY: ClassVar[tuple[str, ...]] = ("api", "version")

    api: str
    version: int
    brokers: str = ""
    requests_per_day: int = 0
    last_seen: Stamp | None = None


class ClientSender(StatusRecord, frozen=True, kw_only=True):
    """A client that sent versions which the target lacks. `versions`: such as "Fetch v3, Produce v2"."""

    KEY: ClassVar[tuple[str, ...]] = ("client_id", "principal", "versions")

    client_id: str = ""
    principal: str = ""
    versions: str = ""
    last_seen: Stamp | None = None
    owner: str = ""
    remedy: str = ""


class ClientsStatus(StatusRecord, frozen=True, kw_only=True):
    """Evidence about clients for one target. `verdict`: a ClientVerdict."""

    KEY: ClassVar[tuple[str, ...]] = ("target",)

    target: str = ""
    verdict: str = ""
    evaluated_at: Stamp | None = None
    valid_until: Stamp | None = None
    ready_from: Stamp | None = None
    gaps: tuple[ClientGap, ...] = ()
    blockers: tuple[ClientBlocker, ...] = ()
    blocker_count: int = 0
    senders: tuple[ClientSender, ...] = ()
    problems: tuple[str, ...] = ()
