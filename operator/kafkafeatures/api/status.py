"""The status of a resource as types: what is reported, and all that is remembered from one reconciliation to the next.

What each field means is written once, as its description in `crds/kafkafeatures.yaml`. Words are open strings where
they are read, since another release may have other ones; this release writes the members of the enums below.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from kafkafeatures.api.client_status import ClientsStatus
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp, StatusRecord
from kafkafeatures.api.since_status import NodeSince, NodesSince, ReadyReason


class FeatureState(StrEnum):
    """`features[].state`."""

    IN_SYNC = "InSync"
    PENDING = "Pending"
    BLOCKED = "Blocked"
    DRIFTED = "Drifted"
    UNMANAGED = "Unmanaged"


class StepState(StrEnum):
    """`plan.steps[].state`."""

    PENDING = "Pending"
    DONE = "Done"


class ApprovedBy(StrEnum):
    """`plan.approvedBy`."""

    PLAN_HASH = "PlanHash"  # in the document, or of a command
    ANNOTATION = "Annotation"
    NAMED_IN_SPEC = "NamedInSpec"
    POLICY = "Policy"


class Via(StrEnum):
    """`intents[].via`: where a request went. A broker that forwards it may keep it for minutes."""

    CONTROLLER = "Controller"
    BROKER = "Broker"
    API_SERVER = "ApiServer"  # an eviction
    ZOOKEEPER = "ZooKeeper"  # a transaction
    PERSON = "Person"  # who was asked to do it


class Result(StrEnum):
    """`history[].result`: how an act ended."""

    APPLIED = "Applied"  # the level was read back
    CORRECTED = "Corrected"  # the same, of a level that was changed outside KafkaFeatures
    NOT_APPLIED = "NotApplied"  # the metadata log shows that nothing was changed
    REJECTED = "Rejected"  # by the active controller; `message` holds its words
    NOT_SENT = "NotSent"  # no request left the process
    SUPERSEDED = "Superseded"  # another change came after it
    UNVERIFIED = "Unverified"  # not there; without the metadata log it is unknown whether it was applied and reverted


class StatusCondition(StatusRecord, frozen=True, kw_only=True):
    """`type` and `reason` are a Condition and a Reason, or words of another release."""

    KEY: ClassVar[tuple[str, ...]] = ("type",)

    type: str
    status: str
    observed_generation: int = 0
    last_transition_time: Stamp
    reason: str
    message: str


class FeatureStatus(StatusRecord, frozen=True, kw_only=True):
    """Levels are None where they are not known, or not desired."""

    KEY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    supported_min: int | None = None
    supported_max: int | None = None
    finalized: int | None = None
    desired: int | None = None
    state: str = ""


class BlockerStatus(StatusRecord, frozen=True, kw_only=True):
    """One entry of what prevents the next step: nodes of which the same is true share it."""

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
    """Topics that the consent single-replica-topics was given for. See `core/roll/excuses.py`."""

    partitions: int = 0
    topics: int = 0
    names: tuple[str, ...] = ()
    digest: str = ""
    marks: str = ""


class PlannedStage(StatusRecord, frozen=True, kw_only=True):
    """One stage as an approval covers it, and the hash of its plan."""

    JSON_NAMES: ClassVar[Mapping[str, str]] = {"start": "from", "target": "to"}

    kind: str
    start: Mapping[str, int | str]
    target: Mapping[str, int | str]
    excused: ExcusedTopics | None = None
    voters: tuple[str, ...] = ()


class StepStatus(StatusRecord, frozen=True, kw_only=True):
    """A step of the plan, for people."""

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
    """The standing plan. `steps` are computed anew in each reconciliation; `stages` are what was approved."""

    KEY: ClassVar[tuple[str, ...]] = ("hash",)

    hash: str
    created_at: Stamp
    approved_by: str = ""
    irreversible: bool
    summary: str
    stages: tuple[PlannedStage, ...] = ()
    steps: tuple[StepStatus, ...] = ()


class Intent(StatusRecord, frozen=True, kw_only=True):
    """An act that was written down before it was done. Everything but its kind is its own: see
    `core/kinds.py`.
    """

    kind: str = ""


class WayBack(StatusRecord, frozen=True, kw_only=True):
    """Until when one can still go back, and how."""

    until: Stamp | None = None
    how: str


class LogPosition(StatusRecord, frozen=True, kw_only=True):
    """An end of the metadata log, and which changes behind it are accounted for."""

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
    """One target of restarts: a revision of a StatefulSet, or what a person restarts nodes for. See
    `core/roll/revisions.py`. `left`: pods that have not reached it. `reached`: all of them have, once. `client_breaks`:
    consents that its restarts rest on.
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
    """A rolling restart. `rounds` and `notes` stay as they were when it began. `disks`: see `core/roll/disks.py`."""

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
    """The number of brokers that run in each mode, of those that answer."""

    zoo_keeper: int = 0
    flagged: int = 0
    kraft: int = 0


class ComparisonState(StrEnum):
    """`migration.equality.state`."""

    EQUAL = "Equal"
    DIFFERS = "Differs"
    UNKNOWN = "Unknown"


class EqualityStatus(StatusRecord, frozen=True, kw_only=True):
    """The last comparison of ZooKeeper with the metadata log. `state`: a ComparisonState; where that is Unknown, all
    else is of the last one that had a result. `digest`: of what differs. `written_at`: when `/migration` was last
    written before it, by ZooKeeper's clock.
    """

    at: Stamp | None = None
    state: str = ""
    differences: int | None = None
    digest: str = ""
    written_at: Stamp | None = None


class VoterStatus(StatusRecord, frozen=True, kw_only=True):
    """A voter of the quorum. `address`: at which it proved last who it is; empty where it never did. `pod`: its pod."""

    KEY: ClassVar[tuple[str, ...]] = ("node_id",)

    node_id: int
    address: str = ""
    pod: str = ""


class ConsentRequest(StatusRecord, frozen=True, kw_only=True):
    """A consent that was asked for while the document did not have it. `about`: for what."""

    KEY: ClassVar[tuple[str, ...]] = ("consent",)

    consent: str
    about: str
    since: Stamp | None = None


class MigrationStatus(StatusRecord, frozen=True, kw_only=True):
    """The phase in which a migration was last seen. For people: decisions rest on what each look reads."""

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
    """The end of an act. `action` is for people, `target` for programs."""

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
    """The whole status of a resource, but for the name of its writer, which the store of the resource adds."""

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

    def condition(self, kind: Condition) -> StatusCondition | None:
        """The condition of this type, of whatever generation."""
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
    """The readable part of a status, and the names of the fields that cannot."""
    return Status.read_valid(raw)
