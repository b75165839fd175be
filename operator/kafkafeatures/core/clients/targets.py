"""The API versions that a release of Kafka accepts, and what becomes of a request of another version.

Pure. The table is `targets.json` beside this module, which `python -m tests.clients.generate` makes from the message
schemas in Kafka's jars. A broker's own ApiVersions answer is never used: a broker of 4.x advertises Produce 0-2, and
closes the connection of a client that sends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache

import msgspec
from msgspec import Struct


class ApiScope(StrEnum):
    """Callers of an API."""

    CLIENT = "client"
    BROKER = "broker"
    CONTROLLER = "controller"
    UNSTABLE = "unstable"
    """Clients, but no version of the API is stable yet: a broker refuses it unless its settings allow it."""


class ApiVersions(Struct, frozen=True):
    """The versions of one API that a release accepts, from `min` to `max`, and who calls the API."""

    min: int
    max: int
    scope: ApiScope


class Acceptance(StrEnum):
    """Fate of a request with an API version on a release."""

    ACCEPTED = "accepted"
    REMOVED = "removed"
    """Older than what the release accepts, or the release no longer has the API: the client breaks."""
    INTERNAL = "internal"
    """Removed or newer, but only nodes of the cluster send it, and they are upgraded with it."""
    NEWER = "newer"
    """Newer than the release."""
    UNKNOWN = "unknown"
    """No release in the table has the API."""


Apis = Mapping[str, ApiVersions]
"""The APIs of one release by name."""

ALIASES = {
    "FetchConsumer": "Fetch",
    "FetchFollower": "Fetch",
    "AddPartitionsToTxnVerification": "AddPartitionsToTxn",
    "ListClientMetricsResources": "ListConfigResources",
    "AlterIsr": "AlterPartition",
    "ElectPreferredLeaders": "ElectLeaders",
}
"""Names of counters that are not names of APIs, and the APIs that they count (`RequestMetrics.java`); and names that
APIs had before: AlterIsr in Kafka 2.7 to 3.1, ElectPreferredLeaders in 2.2 and 2.3 (`ApiKeys.java`).
"""

_NEGOTIATED = "ApiVersions"
"""API whose versions never break a client: to a request of an unknown version, a broker answers with the versions that
it knows, and the client tries again with one of them.
"""


class Targets(Struct, frozen=True):
    """Table of the API versions that each release accepts."""

    releases: Mapping[str, Apis]

    def of(self, release: str) -> Apis | None:
        """The APIs of a release, also of one with a patch number; None for one that is not in the table."""
        return self.releases.get(".".join(release.split(".")[:2]))

    def acceptance(self, target: Apis, name: str, version: int) -> Acceptance:
        """Fate, on the release of `target`, of requests of this version that a counter of this name counts."""
        api = ALIASES.get(name, name)
        entry = target.get(api)
        if entry is None:
            scopes = {apis[api].scope for apis in self.releases.values() if api in apis}  # an API of other releases
            if not scopes:
                return Acceptance.UNKNOWN
            return Acceptance.REMOVED if scopes & {ApiScope.CLIENT, ApiScope.UNSTABLE} else Acceptance.INTERNAL
        if entry.min <= version <= entry.max or api == _NEGOTIATED:
            return Acceptance.ACCEPTED
        if entry.scope in (ApiScope.BROKER, ApiScope.CONTROLLER):
            return Acceptance.INTERNAL
        return Acceptance.REMOVED if version < entry.min else Acceptance.NEWER

    def matters(self, release: str) -> Callable[[tuple[str, int]], bool]:
        """A function that is True for an API and version of which the release does not, or not surely, accept requests
        of clients.
        """
        target = self.of(release)

        @cache
        def may_break(key: tuple[str, int]) -> bool:
            return target is None or self.acceptance(target, *key) not in (Acceptance.ACCEPTED, Acceptance.INTERNAL)

        return may_break


def parse_targets(text: bytes) -> Targets:
    """Parse `targets.json`. Raises msgspec's errors, which are not handled: the file is part of this program."""
    return Targets(msgspec.json.decode(text, type=dict[str, dict[str, ApiVersions]]))
