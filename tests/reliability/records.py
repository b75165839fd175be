"""The facts of one simulated history, recorded by its world in the order in which they became true.

Written by the simulation, read by the checker. Nothing here is what the operator believes. `at`: virtual seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Stored:
    """The API server stored a version of a resource. `kind`: ADDED, MODIFIED or DELETED. `by`: the field manager."""

    at: float
    kind: str
    object: Mapping[str, Any]
    by: str

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    @property
    def spec(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.object["spec"]
        return found

    @property
    def status(self) -> Mapping[str, Any]:
        return self.object.get("status") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.object["metadata"].get("annotations") or {}

    @property
    def generation(self) -> int:
        return int(self.object["metadata"]["generation"])


@dataclass(frozen=True, slots=True)
class Looked:
    """An operator read a cluster for a resource: what was true of it at that moment.

    `quorum`: a controller was active, and a majority of the voters ran. `ranges`: what every node that counts supports,
    registered or a voter, live or not. `log`: whether it could read the metadata log. `said`: levels in the answers of
    nodes that are wholly there, and behind. `migrating`: by the log, a migration from ZooKeeper is open. `end`,
    `epoch`: of the log, up to where it is committed. `agreed`: where neither the log was read nor the active controller
    answered, the levels that all other nodes report alike.
    """

    at: float
    process: str
    uid: str
    cluster_id: str
    levels: Mapping[str, int]
    quorum: bool
    ranges: Mapping[str, tuple[int, int]]
    nodes: Nodes | None = None
    log: bool = True
    said: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    migrating: bool = False
    end: int = -1
    epoch: int = -1
    agreed: Mapping[str, int] | None = None

    def shows(self, feature: str) -> frozenset[int]:
        """The levels that a reader may take for the finalized one: it, and the one that was agreed on."""
        agreed = () if self.agreed is None else (self.agreed.get(feature, 0),)
        return frozenset((self.levels.get(feature, 0), *agreed))


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of one partition: who has a replica, who is in sync, and `needed`: min.insync.replicas."""

    replicas: frozenset[int]
    in_sync: frozenset[int]
    needed: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """What was true of a cluster in pods when it was looked at.

    copies: by partition. brokers: that there should be. behind: nodes whose pod is not of its template; stuck: those of
    them whose process ends by itself, again and again. crashing: nodes whose pod is of its template and was not asked
    to end, and whose process has ended by itself within the last hour. away: nodes that are not wholly there: stopped,
    fenced, out of an ISR, or behind the leader. voters: of the quorum, whether each has caught up. leader: -1 for none.
    templates: what each node would run next. ends: at which level of its log a controller would end that is restarted
    now. stopped: nodes without a process; fenced: brokers that do not serve yet; draining: nodes whose Kubernetes node
    is drained. moving: partitions that are reassigned. refused: nodes whose pod a budget does not let go. serving:
    brokers that are registered, unfenced and do not stop, each with the uid of its pod. emptied: brokers that are back
    on a disk that was not theirs, which was not meant to be new.
    """

    copies: Mapping[str, Copies]
    brokers: frozenset[int]
    behind: frozenset[int]
    stuck: frozenset[int]
    away: frozenset[int]
    voters: Mapping[int, bool]
    leader: int
    templates: Mapping[int, str]
    ends: Mapping[int, str] = field(default_factory=dict)
    crashing: frozenset[int] = frozenset()
    stopped: frozenset[int] = frozenset()
    fenced: frozenset[int] = frozenset()
    draining: frozenset[int] = frozenset()
    moving: frozenset[str] = frozenset()
    refused: frozenset[int] = frozenset()
    serving: Mapping[int, str] = field(default_factory=dict)
    emptied: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Asked:
    """An eviction left the operator: of this pod, by its uid. `number`, `logged`: as of `Sent`."""

    at: float
    process: str
    uid: str
    cluster_id: str
    node: int
    pod: str
    pod_uid: str
    number: int
    logged: bool = True


@dataclass(frozen=True, slots=True)
class Stopped:
    """A pod began to stop. `by`: the number of the effect, or None for another client. `runs`: its revision; `next`:
    the revision of its successor.
    """

    at: float
    cluster_id: str
    node: int
    pod: str
    pod_uid: str
    runs: str
    next: str
    by: int | None


@dataclass(frozen=True, slots=True)
class Templated:
    """The template of a StatefulSet was changed."""

    at: float
    cluster_id: str
    stateful_set: str
    revision: str


@dataclass(frozen=True, slots=True)
class Whole:
    """A node that was away is wholly there again."""

    at: float
    cluster_id: str
    node: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The process of a node ended, for any reason."""

    at: float
    cluster_id: str
    node: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A change of a level left the operator. `cluster_id`: of the cluster it really went to. `logged`: the operator's
    own effect log named it, with this resource and this change, right before.
    """

    at: float
    process: str
    uid: str
    cluster_id: str
    feature: str
    before: int
    after: int
    number: int
    logged: bool = True


@dataclass(frozen=True, slots=True)
class Validated:
    """A dry run of these changes was asked for. `accepted`: the active controller said yes to all."""

    at: float
    process: str
    uid: str
    changes: tuple[tuple[str, int], ...]
    accepted: bool


@dataclass(frozen=True, slots=True)
class Left:
    """The first byte of an effect was written to a connection: nothing that is asked later keeps it back.

    `by_clock`: when that was by the clock of its process. That of a cluster is ahead of it where it was read for
    another resource meanwhile.
    """

    at: float
    number: int
    by_clock: float


@dataclass(frozen=True, slots=True)
class Moved:
    """A controller wrote a level. `by`: the number of the effect, or None for another client."""

    at: float
    cluster_id: str
    feature: str
    before: int
    after: int
    by: int | None


@dataclass(frozen=True, slots=True)
class Kept:
    """A broker that has no controller keeps an effect. `over`: it keeps it no longer: delivered, or given up."""

    at: float
    number: int
    over: bool


@dataclass(frozen=True, slots=True)
class Jumped:
    """The wall clock of the operators was set."""

    at: float


@dataclass(frozen=True, slots=True)
class Approved:
    """A person read a plan in the status, and approved it. `given`: what was written for that, if it is not all of the
    hash.
    """

    at: float
    uid: str
    hash: str
    steps: tuple[str, ...]
    given: str = ""


def steps_left(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """The remaining steps that a status tells a person, without the text in parentheses."""
    return tuple(re.sub(r" \(.*?\)", "", one["detail"]) for one in plan.get("steps", ()) if one["state"] != "Done")


@dataclass(frozen=True, slots=True)
class Restored:
    """Kafka's metadata log became again what a backup has of it: the records before `end`."""

    at: float
    cluster_id: str
    end: int


@dataclass(frozen=True, slots=True)
class Calmed:
    """Faults stop here: all nodes run, and this is what each live resource wants now. `over`: enough time is gone."""

    at: float
    over: bool
    wants: Mapping[str, Mapping[str, int]]
    cluster_of: Mapping[str, str]


Record = (
    Stored
    | Looked
    | Sent
    | Asked
    | Stopped
    | Templated
    | Whole
    | Ended
    | Validated
    | Left
    | Moved
    | Kept
    | Jumped
    | Approved
    | Restored
    | Calmed
)


@dataclass(slots=True)
class History:
    """The record of one simulated history. `seed` reproduces it. `migrates`: it is about a migration from ZooKeeper."""

    seed: int
    records: list[Any] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)
    reconciliations: int = 0
    seconds: float = 0.0
    migrates: bool = False
