"""The record of a history of a migration by step: what was true when the operator decided on it, and what it knew.

For the rules of `migration_rules.py`. Imports nothing of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.reliability.facts import OPERATOR, Facts, condition, writer
from tests.reliability.migration_records import MIGRATION, Mode, Seen, Truth, Weighed
from tests.reliability.records import Stored

DELETION, RESTART = "DeleteZnodes", "RestartNode"


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One that was announced. intent: as it was stored first, in `begun`; place: of that in the record. looks: what was
    true at the beginning and the end of each of the last readings on which it was decided.
    """

    place: int
    begun: Stored
    intent: Mapping[str, Any]
    looks: tuple[Truth, ...]

    @property
    def at(self) -> float:
        """The time of its announcement."""
        return self.begun.at

    @property
    def node(self) -> int:
        """The node that is to be restarted."""
        return int(self.intent.get("nodeId", -1))

    @property
    def is_of_broker(self) -> bool:
        """Tell whether the node is a broker."""
        return str(self.intent.get("target", "")).startswith("broker")

    @property
    def desired(self) -> str:
        """The phase that the document asks for."""
        return desired_of(self.begun)

    @property
    def is_back(self) -> bool:
        """Tell whether it is a step of a rollback."""
        return self.desired == "RolledBack"

    def always(self, holds: Callable[[Truth], bool]) -> bool:
        """Tell whether a condition was true in all readings of the step."""
        return all(map(holds, self.looks))

    def __str__(self) -> str:
        return f"{self.intent['kind']} {self.intent['target']} on the way to {self.desired}"


class MigrationFacts(Facts):
    """The record of a history of a migration."""

    def steps(self, kind: str) -> Iterator[MigrationStep]:
        """The steps, in the order of their announcement."""
        for uid, versions in self.versions.items():
            for (_, earlier), (place, version) in pairwise([(-1, None), *versions]):
                if version is None or not version.by.startswith(OPERATOR):
                    continue
                known = {_key(one) for one in (earlier.status.get("intents") or ())} if earlier is not None else set()
                for intent in version.status.get("intents") or ():
                    if intent["kind"] == kind and _key(intent) not in known and not intent.get("outcome"):
                        yield MigrationStep(place, version, intent, self.looks(place, writer(version), uid))

    def looks(self, place: int, process: str, uid: str) -> tuple[Truth, ...]:
        """The true states during the last reading of this process for this resource."""
        found: list[Truth] = []
        for record in reversed(self.records[:place]):
            if isinstance(record, Seen) and (record.process, record.uid) == (process, uid):
                if record.over and found and len(found) > 1:
                    break
                found.append(record.truth)
            elif isinstance(record, Stored) and record.uid == uid and record.by.startswith(OPERATOR) and found:
                break
        return tuple(found)

    def weighed(self, place: int, process: str, uid: str) -> Weighed | None:
        """The last comparison of this process for this resource."""
        mine = (
            one for at, one in self.of_kind(Weighed) if at < place and (one.process, one.uid) == (process, uid)
        )  # fmt: skip
        return max(mine, key=lambda one: one.at, default=None)

    def is_begun(self, step: MigrationStep) -> bool:
        """True if an earlier step to finalize was begun with its consent, which the document has had since."""
        uid, lost = step.begun.uid, self.lost(step.begun.uid, step.place)
        versions = [(at, one) for at, one in self.versions[uid] if at <= step.place]
        since = max((at for at, one in versions if not _is_finalized(one)), default=-1)
        return any(
            max(since, lost) < other.place < step.place and other.begun.uid == uid and not other.is_of_broker
            for other in self.steps(RESTART)
        )

    def asks_to_stop_controllers(self) -> Iterator[tuple[int, Stored]]:
        """Versions in which a person is asked, for the first time, to stop the quorum of what was copied."""
        for versions in self.versions.values():
            for (_, earlier), (place, version) in pairwise([(-1, None), *versions]):
                if version is not None and _stops(version) and not (earlier is not None and _stops(earlier)):
                    yield place, version


def desired_of(version: Stored) -> str:
    """The phase that a document asks for; empty where it asks for none."""
    return str((version.spec.get("migration") or {}).get("desired", ""))


def _is_finalized(version: Stored) -> bool:
    """Tell whether a document asks to finalize, with its consent."""
    return desired_of(version) == "Finalized" and "zk-finalize" in (version.spec.get("consents") or ())


def _stops(version: Stored) -> bool:
    ready = condition(version, "Ready")
    return ready.get("reason") == "WaitingForGit" and "needed: stop the controllers" in ready.get("message", "")


def _key(intent: Mapping[str, Any]) -> tuple[str, str, str]:
    return intent["kind"], intent["target"], intent["at"]


def modes(truth: Truth) -> set[Mode]:
    """The modes of the running brokers."""
    return {one for one in truth.brokers.values() if one is not Mode.GONE}


def is_copied(truth: Truth) -> bool:
    """Tell whether the quorum has taken over and ZooKeeper is still written to."""
    return truth.state == MIGRATION and truth.offset is not None and truth.offset > 0
