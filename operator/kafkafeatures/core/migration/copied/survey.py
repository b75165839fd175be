"""A dry run of the copy: all znodes that Kafka would copy, read as Kafka reads them, and the problems of the copy.

Pure. `zookeeper/copied.py` reads the znodes and passes each to a `Surveyor`; `core/migration/preflight_znodes.py`
reports the `copy_findings`.
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
"""Most findings that a survey keeps; a cluster may have as many as it has znodes."""


class Sink(Protocol):
    """Receiver of znodes as they are read, in any order: a dry run or a comparison."""

    def topic(self, name: str, topic: Topic | ZnodeFinding | None) -> None:
        """Take the znode of a topic. None: it is absent by now."""

    def partition(self, topic: Topic, number: int, znode_state: State | ZnodeFinding) -> None:
        """Take the state of one partition of this topic."""

    def entries(self, path: str, entries: Entries | ZnodeFinding) -> None:
        """Take any other znode; no entries if it is absent."""

    def remark(self, finding: ZnodeFinding) -> None:
        """Take a finding that is not about the content of a znode, such as about its size."""

    def unread(self, failure: Failure) -> None:
        """Take the failure of a znode that could not be read."""


class Survey(Struct, frozen=True):
    """Result of a dry run of the copy.

    findings: the first `MOST_FINDINGS`. omitted: number of further ones.
    failures: znodes that could not be read.
    counts: number of entries, by kind.
    passwords: paths of broker configs with a password.
    assigned: by broker id, a partition of which the broker has a replica.
    controller_epoch: the highest in the states of partitions; -1 without partitions.
    """

    findings: tuple[ZnodeFinding, ...] = ()
    omitted: int = 0
    failures: tuple[Failure, ...] = ()
    counts: Mapping[Kind, int] = field(default_factory=dict)
    passwords: tuple[str, ...] = ()
    assigned: Mapping[int, str] = field(default_factory=dict)
    controller_epoch: int = -1


class Surveyor:
    """Receiver of znodes (`Sink`) that makes a `Survey`: the dry run."""

    def __init__(self) -> None:
        self._findings: list[ZnodeFinding] = []
        self._failures: list[Failure] = []
        self._counts: dict[Kind, int] = {}
        self._passwords: list[str] = []
        self._assigned: dict[int, str] = {}
        self._more = 0  # findings that were omitted
        self._controller_epoch = -1

    @property
    def survey(self) -> Survey:
        """Survey of the znodes that were taken so far."""
        findings = tuple(sorted(self._findings, key=lambda finding: (finding.path, finding.problem)))
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
    """Problems that Kafka's copy would have, with a line for omitted ones. Znodes that could not be read are only in
    `survey.failures`.
    """
    text = f"{survey.omitted} more znodes have such findings"
    return (*survey.findings, ZnodeFinding("/", text, "correct these first")) if survey.omitted else survey.findings
