"""A dry run of the copy: all znodes that Kafka would copy, read as it would read them, and what would go wrong.

Pure. `zookeeper/copied.py` reads the znodes and gives each to a `Surveyor`; preflight asks for `copy_findings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.copied.configs import OF_BROKERS
from kafkafeatures.core.migration.copied.entries import Entries, Flag, Kind
from kafkafeatures.core.migration.copied.findings import ZnodeFinding
from kafkafeatures.core.migration.copied.topics import State, Topic

MOST_FINDINGS = 1000
"""Kept of a survey; a cluster may have as many as znodes."""


class Sink(Protocol):
    """Takes what was read, znode by znode, in any order."""

    def topic(self, name: str, topic: Topic | ZnodeFinding | None) -> None:
        """None: it is not there, or not any longer."""

    def partition(self, topic: Topic, number: int, znode_state: State | ZnodeFinding) -> None:
        """The state of one partition of this topic."""

    def entries(self, path: str, entries: Entries | ZnodeFinding) -> None:
        """Any other znode; no entries where it is not there."""

    def remark(self, finding: ZnodeFinding) -> None:
        """Finding about something else than what the znode says."""

    def unread(self, failure: Failure) -> None:
        """A znode that could not be read."""


class Survey(Struct, frozen=True):
    """Findings of a dry run of the copy.

    findings: the first thousand; omitted: how many there are besides. failures: what could not be read. counts: of
    entries, by their kind. passwords: znodes of broker configs that have one. assigned: by id of a broker, a partition
    of which it has a replica. controller_epoch: the largest that a partition has; -1 without partitions.
    """

    findings: tuple[ZnodeFinding, ...] = ()
    omitted: int = 0
    failures: tuple[Failure, ...] = ()
    counts: Mapping[Kind, int] = field(default_factory=dict)
    passwords: tuple[str, ...] = ()
    assigned: Mapping[int, str] = field(default_factory=dict)
    controller_epoch: int = -1


class Surveyor:
    """A `Sink` that makes a `Survey`."""

    def __init__(self) -> None:
        self._findings: list[ZnodeFinding] = []
        self._failures: list[Failure] = []
        self._counts: dict[Kind, int] = {}
        self._passwords: list[str] = []
        self._assigned: dict[int, str] = {}
        self._more = 0
        self._controller_epoch = -1

    @property
    def survey(self) -> Survey:
        """Survey of what was taken until now."""
        findings = tuple(sorted(self._findings, key=lambda one: (one.path, one.problem)))
        assigned = dict(sorted(self._assigned.items()))
        return Survey(
            findings, self._more, tuple(self._failures), dict(self._counts), tuple(sorted(self._passwords)), assigned,
            self._controller_epoch,
        )  # fmt: skip

    def topic(self, name: str, topic: Topic | ZnodeFinding | None) -> None:
        if isinstance(topic, ZnodeFinding):
            self.remark(topic)
        elif topic is not None:
            self._count(Kind.TOPIC)
            for number, assignment in topic.partitions.items():
                for broker in (*assignment.replicas, *assignment.adding):
                    if broker not in self._assigned:
                        self._assigned[broker] = f"{name}-{number}"

    def partition(self, topic: Topic, number: int, znode_state: State | ZnodeFinding) -> None:
        self._count(Kind.PARTITION)
        if isinstance(znode_state, ZnodeFinding):
            self.remark(znode_state)
        else:
            self._controller_epoch = max(self._controller_epoch, znode_state.controller_epoch)

    def entries(self, path: str, entries: Entries | ZnodeFinding) -> None:
        if isinstance(entries, ZnodeFinding):
            self.remark(entries)
            return
        for key, value in entries.items():
            self._count(key.kind)
            if value is Flag.SET and path.startswith(f"{OF_BROKERS}/") and path not in self._passwords[-1:]:
                self._passwords.append(path)

    def remark(self, finding: ZnodeFinding) -> None:
        if len(self._findings) < MOST_FINDINGS:
            self._findings.append(finding)
        else:
            self._more += 1

    def unread(self, failure: Failure) -> None:
        if len(self._failures) < MOST_FINDINGS:
            self._failures.append(failure)

    def _count(self, kind: Kind) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1


def copy_findings(survey: Survey) -> tuple[ZnodeFinding, ...]:
    """Problems that Kafka's copy would have. What could not be read is in `survey.failures`, and is asked first."""
    text = f"{survey.omitted} more znodes have such findings"
    return (*survey.findings, ZnodeFinding("/", text, "correct these first")) if survey.omitted else survey.findings
