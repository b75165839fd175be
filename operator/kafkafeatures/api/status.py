"""The status of a resource as types: what is reported, and what is remembered from one reconciliation to the next.

The meaning of each field is its description in `crds/kafkafeatures.yaml`. Fields with one of several words are read as
any text, since another release may write other words; this release writes the members of the enums below.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from kafkafeatures.api.client_status import ClientsStatus
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp, StatusRecord
from kafkafeatures.api.since_status import NodeSince, NodesSince, NotifiedStatus, ReadyReason


class FeatureState(StrEnum):
    """Values of `features[].state`: how far a feature is from its desired level."""

    IN_SYNC = "InSync"
    PENDING = "Pending"
    BLOCKED = "Blocked"
    DRIFTED = "Drifted"
    UNMANAGED = "Unmanaged"


class StepState(StrEnum):
    """Values of `plan.steps[].state`."""

    PENDING = "Pending"
    DONE = "Done"


class ApprovedBy(StrEnum):
    """Values of `plan.approvedBy`: way in which the plan in force was approved."""

    PLAN_HASH = "PlanHash"  # in the document, or of a command
    ANNOTATION = "Annotation"
    NAMED_IN_SPEC = "NamedInSpec"
    POLICY = "Policy"


class Via(StrEnum):
    """Values of `intents[].via`: receiver of a request. A broker that forwards it may keep it for minutes."""

    CONTROLLER = "Controller"
    BROKER = "Broker"
    API_SERVER = "ApiServer"  # an eviction
    ZOOKEEPER = "ZooKeeper"  # a transaction
    PERSON = "Person"  # a person was asked to restart a node


class Result(StrEnum):
    """Values of `history[].result`: how a step ended."""

    APPLIED = "Applied"  # the level was read back
    CORRECTED = "Corrected"  # Applied, of a level that had been changed outside KafkaFeatures
    NOT_APPLIED = "NotApplied"  # the metadata log shows that nothing was changed
    REJECTED = "Rejected"  # the receiver rejected it; `message` holds its words
    NOT_SENT = "NotSent"  # no request left the process
    SUPERSEDED = "Superseded"  # another change came after it
    UNVERIFIED = "Unverified"  # its effect is not there; without the log it may have been applied and reverted


class StatusCondition(StatusRecord, frozen=True, kw_only=True):
    """A condition. `type` and `reason` are a Condition and a Reason, or words of another release."""

    KEY: ClassVar[tuple[str, ...]] = ("type",)

    type: str
    status: str
    observed_generation: int = 0
    last_transition_time: Stamp
    reason: str
    message: str


class FeatureStatus(StatusRecord, frozen=True, kw_only=True):
    """One feature. Levels are None where they are not known, or not desired."""

    KEY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    supported_min: int | None = None
    supported_max: int | None = None
    finalized: int | None = None
    desired: int | None = None
    state: str = ""
    managed_by: str = ""
    managed_level: int | None = None
    managed_problem: str = ""


class BlockerStatus(StatusRecord, frozen=True, kw_only=True):
    """A blocker of the next step; nodes with the same problem share one. `wanted`: the level that it blocks."""

    KEY: ClassVar[tuple[str, ...]] = ("kind", "node_id", "feature", "wanted")

    kind: str
    nodes: str = ""
    node_id: int | None = None
    roles: tuple[str, ...] = ()
    inferred_release: str = ""
    feature: str = ""
    supported_min: int | None = None
    supported_max: int | None = None
    wanted: int | None = None
    message: str
    remedy: str = ""


class ExcusedTopics(StatusRecord, frozen=True, kw_only=True):
    """Topics that the consent single-replica-topics covers, as `core/roll/excuses.py` makes them.

    partitions, topics: number of partitions that restarts make unavailable, and of their topics.
    names: names of the first topics, for people.
    digest: digest of all names.
    marks: a short digest of each name, one after the other; empty for too many topics.
    """

    partitions: int = 0
    topics: int = 0
    names: tuple[str, ...] = ()
    digest: str = ""
    marks: str = ""


class PlannedStage(StatusRecord, frozen=True, kw_only=True):
    """One stage of a plan, with everything that its hash, and so an approval, covers: state before and after by feature
    or StatefulSet, and the voters of a quorum that becomes dynamic.
    """

    JSON_NAMES: ClassVar[Mapping[str, str]] = {"start": "from", "target": "to"}

    kind: str
    start: Mapping[str, int | str]
    target: Mapping[str, int | str]
    excused: ExcusedTopics | None = None
    voters: tuple[str, ...] = ()


class StepStatus(StatusRecord, frozen=True, kw_only=True):
    """A step of the plan, for people. No decision reads it."""

    KEY: ClassVar[tuple[str, ...]] = ("action", "detail")

    id: str
    action: str
    detail: str
    reversible: bool
    undo: str = ""
    consent: str = ""
    effects: tuple[str, ...] = ()
    way_back: str = ""
    state: str


class PlanStatus(StatusRecord, frozen=True, kw_only=True):
    """The plan in force. `stages` are what the hash covers; `steps` are computed anew in each reconciliation."""

    KEY: ClassVar[tuple[str, ...]] = ("hash",)

    hash: str
    created_at: Stamp
    approved_by: str = ""
    irreversible: bool
    summary: str
    stages: tuple[PlannedStage, ...] = ()
    steps: tuple[StepStatus, ...] = ()


class Intent(StatusRecord, frozen=True, kw_only=True):
    """Record of a step, written before it is sent. The fields of its kind are in `unknown` (`core/kinds.py`)."""

    kind: str = ""


class WayBack(StatusRecord, frozen=True, kw_only=True):
    """How the cluster can still go back, and until when."""

    until: Stamp | None = None
    how: str


class LogPosition(StatusRecord, frozen=True, kw_only=True):
    """Position in the log up to which changes of levels are accounted for. `own`: later changes by the operator."""

    offset: int
    epoch: int
    own: tuple[str, ...] = ()


class WorkloadStatus(StatusRecord, frozen=True, kw_only=True):
    """The number of pods of a StatefulSet that run its update revision."""

    KEY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    update_revision: str = ""
    updated: int = 0
    total: int = 0


class RevisionStatus(StatusRecord, frozen=True, kw_only=True):
    """What is remembered of one target of restarts (`core/roll/revisions.py`). `since`: when nodes could first be
    restarted to it. `nodes`: those that were. `left`: pods that have not reached it. `reached`: all of them have, once.
    `excused`: the consent single-replica-topics was given for it. `client_breaks`: consents that its restarts rest on.
    """

    KEY: ClassVar[tuple[str, ...]] = ("name", "revision")

    name: str = ""
    revision: str = ""
    since: Stamp | None = None
    nodes: str = ""
    left: int = 0
    reached: bool = False
    excused: bool = False
    client_breaks: tuple[str, ...] = ()


class RolloutStatus(StatusRecord, frozen=True, kw_only=True):
    """A roll. `done`: number of current nodes. `unconfirmed`: nodes whose pod is not certain. `behind`: live brokers
    that are not in sync. `node_seconds`: average duration of a restart. `rounds`, `notes`: `RollLimits` at its start.
    """

    KEY: ClassVar[tuple[str, ...]] = ("id",)

    id: str = ""
    started_at: Stamp | None = None
    total: int = 0
    done: int = 0
    waiting_for: str = ""
    waiting_since: Stamp | None = None
    unconfirmed: tuple[NodeSince, ...] = ()
    behind: tuple[NodeSince, ...] = ()
    restarted: int = 0
    nodes: str = ""
    node_seconds: int = 0
    rounds: int = 0
    notes: tuple[str, ...] = ()
    excused: ExcusedTopics | None = None
    revisions: tuple[RevisionStatus, ...] = ()
    disks: tuple[str, ...] = ()

    @property
    def is_in_progress(self) -> bool:
        """Tell whether some node is not current yet."""
        return self.done < self.total


class BrokersByMode(StatusRecord, frozen=True, kw_only=True):
    """Number of answering brokers in each mode. `flagged`: with `zookeeper.metadata.migration.enable`."""

    zoo_keeper: int = 0
    flagged: int = 0
    kraft: int = 0


class ComparisonState(StrEnum):
    """Values of `migration.equality.state`: result of the last comparison of ZooKeeper with the metadata log."""

    EQUAL = "Equal"
    DIFFERS = "Differs"
    UNKNOWN = "Unknown"


class EqualityStatus(StatusRecord, frozen=True, kw_only=True):
    """The last comparison of ZooKeeper with the metadata log. `state`: a ComparisonState; while it is Unknown, the rest
    is of the last one with a result. `digest`: of the differences. `written_at`: last write of `/migration` before it.
    """

    at: Stamp | None = None
    state: str = ""
    differences: int | None = None
    digest: str = ""
    written_at: Stamp | None = None


class VoterStatus(StatusRecord, frozen=True, kw_only=True):
    """A voter of the quorum. `address`: where it last proved its identity; empty if it never did. `pod`: its pod."""

    KEY: ClassVar[tuple[str, ...]] = ("node_id",)

    node_id: int
    address: str = ""
    pod: str = ""


class ConsentRequest(StatusRecord, frozen=True, kw_only=True):
    """A consent that was asked for while the document did not have it. `about`: what it is needed for."""

    KEY: ClassVar[tuple[str, ...]] = ("consent",)

    consent: str
    about: str
    since: Stamp | None = None


class MigrationStatus(StatusRecord, frozen=True, kw_only=True):
    """A migration as it was last observed. The phase is for people: decisions depend on readings."""

    KEY: ClassVar[tuple[str, ...]] = ("phase",)

    phase: str = ""
    position: str = ""
    since: Stamp | None = None
    zk_migration_state: str = ""
    brokers: BrokersByMode | None = None
    lag_records: int | None = None
    equality: EqualityStatus | None = None
    kept_migration_node: str = ""
    restarts_left: int | None = None
    node_seconds: int = 0
    consents: tuple[str, ...] = ()
    voters: tuple[VoterStatus, ...] = ()
    requested: tuple[ConsentRequest, ...] = ()
    dual_write_since: Stamp | None = None
    dual_write_offset: int | None = None
    asked_controllers: tuple[int, ...] = ()


class HistoryEntry(StatusRecord, frozen=True, kw_only=True):
    """The end of a step. `action` describes it for people; `target` is the object that it acted on, for programs."""

    at: Stamp
    action: str
    target: str = ""
    kind: str = ""
    after: str = ""
    result: str
    message: str = ""
    plan_hash: str = ""
    via: str = ""


class Status(StatusRecord, frozen=True, kw_only=True):
    """The whole status of a resource, without `operator`, the name of its writer, which the store adds."""

    observed_generation: int = 0
    progress: str = ""
    cluster_id: str = ""
    operator_version: str = ""
    source: str = ""
    change_count: int = 0
    spent_consents: tuple[str, ...] = ()
    unverified_consents: tuple[str, ...] = ()
    log_position: LogPosition | None = None
    way_back: WayBack | None = None
    soak_started_at: Stamp | None = None
    metadata_mode: str = ""
    metadata_version: str = ""
    target_metadata_version: str = ""
    inter_broker_protocol_version: str = ""
    features: tuple[FeatureStatus, ...] = ()
    blockers: tuple[BlockerStatus, ...] = ()
    blockers_total: int = 0
    plan: PlanStatus | None = None
    intents: tuple[Intent, ...] = ()
    workloads: tuple[WorkloadStatus, ...] = ()
    rollout: RolloutStatus | None = None
    migration: MigrationStatus | None = None
    clients: ClientsStatus | None = None
    history: tuple[HistoryEntry, ...] = ()
    conditions: tuple[StatusCondition, ...] = ()
    ready_reason: ReadyReason | None = None
    nodes_behind: NodesSince | None = None
    last_handled_reconcile_at: str = ""
    notified: tuple[NotifiedStatus, ...] = ()

    def condition(self, kind: Condition) -> StatusCondition | None:
        """The condition of this type, of any generation; None if it is absent."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def reason(self, kind: Condition) -> str:
        """The reason of the condition of this type; empty where it is absent."""
        condition = self.condition(kind)
        return condition.reason if condition else ""

    def is_stalled(self, reason: Reason) -> bool:
        """Tell whether the condition Stalled has this reason."""
        return self.reason(Condition.STALLED) == reason


EMPTY = Status()


def read_status(raw: Mapping[str, Any]) -> tuple[Status, tuple[str, ...]]:
    """The readable part of a status, and the names of the fields that cannot be read."""
    return Status.read_valid(raw)
