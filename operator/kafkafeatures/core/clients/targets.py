"""The API versions that a release of Kafka accepts, and what becomes of a request of another version.

Pure. The table is `targets.json` beside this module, made of the message schemas in Kafka's jars by
`python -m tests.clients.generate`. Never a broker's own ApiVersions answer: one of 4.x advertises Produce 0-2, and
closes the connection of a client that sends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct


class ApiScope(StrEnum):
    """Callers of an API."""

    CLIENT = "client"
    BROKER = "broker"
    CONTROLLER = "controller"
    UNSTABLE = "unstable"
    """Clients, but no version of it is stable yet: a broker refuses it unless it is set to accept it."""


class ApiVersions(Struct, frozen=True):
    """The versions that a release accepts, from the first to the last."""

    min: int
    max: int
    scope: ApiScope


class Acceptance(StrEnum):
    """Fate of a request with an API version on a release."""

    ACCEPTED = "accepted"
    REMOVED = "removed"
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
"""A broker answers a version that it does not know, and a client tries again with an older one."""


class Targets(Struct, frozen=True):
    """What each release accepts."""

    releases: Mapping[str, Apis]

    def of(self, release: str) -> Apis | None:
        """The APIs of a release, also of one with a patch number; None for one that is not in the table."""
        return self.releases.get(".".join(release.split(".")[:2]))

    def acceptance(self, target: Apis, name: str, version: int) -> Acceptance:
        """Fate of requests that a counter of this name counts."""
        api = ALIASES.get(name, name)
        entry = target.get(api)
        if entry is None:
            scopes = {apis[api].scope for apis in self.releases.values() if api in apis}
            if not scopes:
                return Acceptance.UNKNOWN
            return Acceptance.REMOVED if scopes & {ApiScope.CLIENT, ApiScope.UNSTABLE} else Acceptance.INTERNAL
        if entry.min <= version <= entry.max or api == _NEGOTIATED:
            return Acceptance.ACCEPTED
        if entry.scope in (ApiScope.BROKER, ApiScope.CONTROLLER):
            return Acceptance.INTERNAL
        return Acceptance.REMOVED if version < entry.min else Acceptance.NEWER


def parse_targets(text: bytes) -> Targets:
    """The table of a file. Raises msgspec's errors: the file is a part of this program."""
    return Targets(msgspec.json.decode(text, type=dict[str, dict[str, ApiVersions]]))
