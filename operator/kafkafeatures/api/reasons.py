"""Conditions, reasons, verdicts of plans, and kinds of blockers: closed lists.

Decisions and blockers refer to these members, and `core/report/status.py` puts them into a status. The row of a
reason is also its row of docs/reference/reasons.md and the head of its runbook.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Condition(StrEnum):
    """Types of conditions. Reconciling and Stalled are present only while True (kstatus)."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    REACHABLE = "Reachable"
    FEATURES_FINALIZED = "FeaturesFinalized"
    NODES_ROLLED = "NodesRolled"  # only where a driver restarts nodes
    MIGRATION_SETTLED = "MigrationSettled"  # only where a migration is wanted
    APPROVAL_REQUIRED = "ApprovalRequired"  # only while True
    DRIFT_DETECTED = "DriftDetected"  # only while True
    CLIENTS_COMPATIBLE = "ClientsCompatible"  # only where the document has clientEvidence


# Outcomes of reasons, as docs/reference/reasons.md shows them.
AUTOMATIC = "resolves automatically"
ACTION = "action required"
NO_ACTION = ""
# Sets of conditions that have the same reason.
_READY = (Condition.READY,)
_RECONCILING = (Condition.READY, Condition.RECONCILING)
_STALLED = (Condition.READY, Condition.STALLED)
_APPROVAL = (Condition.APPROVAL_REQUIRED,)
_CLIENTS = (Condition.CLIENTS_COMPATIBLE,)
_DRIFT = (Condition.DRIFT_DETECTED,)
_FINALIZED = (Condition.FEATURES_FINALIZED,)
_MIGRATION = (Condition.MIGRATION_SETTLED,)
_REACHABLE = (Condition.REACHABLE,)
_ROLLED = (Condition.NODES_ROLLED,)


class Reason(StrEnum):
    """Reasons, each with the conditions that have it, its outcome, and its meaning for users.

    A reason that requires action (`ACTION`) has a runbook in `docs/make/runbook_texts.py` or a module beside it.
    """

    conditions: tuple[Condition, ...]
    outcome: str
    meaning: str

    def __new__(
        cls, value: str, conditions: tuple[Condition, ...] = (), outcome: str = NO_ACTION, meaning: str = ""
    ) -> Self:
        """Make a member from its row. The defaults are for mypy, which takes `Reason("InSync")` for a call of this."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.conditions, member.outcome, member.meaning = conditions, outcome, meaning
        return member

    @property
    def needs_action(self) -> bool:
        """True if action is required."""
        return self.outcome == ACTION

    # fmt: off
    WAITING_FOR_GIT = (
        "WaitingForGit", _RECONCILING, ACTION,
        "the next phase of a migration, or another inter.broker.protocol.version, needs other settings, replicas or "
        "images; change them in Git",
    )
    NOT_STARTED = "None", _MIGRATION, NO_ACTION, "no migration has begun"
    FINALIZED = "Finalized", _MIGRATION, NO_ACTION, "the cluster runs in KRaft mode alone, which is irreversible"
    ROLLED_BACK = "RolledBack", _MIGRATION, NO_ACTION, "the cluster is in ZooKeeper mode again"
    PRE_MIGRATION = "PreMigration", _MIGRATION, AUTOMATIC, "the controllers run and wait; no broker knows of them"
    DUAL_WRITE = (
        "DualWrite", _MIGRATION, AUTOMATIC,
        "all brokers run in KRaft mode, and changes are still written to ZooKeeper",
    )
    FINALIZING = "Finalizing", _MIGRATION, AUTOMATIC, "the controllers lose their connection to ZooKeeper, one by one"
    ROLLING_BACK = "RollingBack", _MIGRATION, AUTOMATIC, "the cluster is on its way back to ZooKeeper mode"
    MIGRATION_FAILED = (
        "MigrationFailed", _STALLED, ACTION,
        "metadata log, znodes and nodes contradict each other; the message says how",
    )
    MIGRATION_BLOCKED = (
        "MigrationBlocked", _STALLED, ACTION,
        "something must be repaired before the next phase; see blockers",
    )
    METADATA_DIFFERS = (
        "MetadataDiffers", _STALLED, ACTION,
        "ZooKeeper and the metadata log differ; the blockers say where",
    )
    TEMPLATE_AHEAD = (
        "TemplateAhead", _STALLED, ACTION,
        "the template of a StatefulSet was changed before the operator asked for it, or a broker uses an "
        "inter.broker.protocol.version that other brokers do not know",
    )
    MIGRATION_FINALIZE = (
        "MigrationFinalize", _APPROVAL, ACTION,
        "finalizing the migration is irreversible, and has to be approved",
    )
    IN_SYNC = "InSync", _READY, NO_ACTION, "every desired level is finalized and verified on every live node"
    OBSERVED = (
        "Observed", _READY, NO_ACTION,
        "mode Observe: the message says what the operator would change; it sends nothing",
    )
    PENDING = "Pending", _READY, AUTOMATIC, "not reconciled yet"
    UNREACHABLE = "Unreachable", _READY, AUTOMATIC, "no node could be reached"
    SUSPENDED = "Suspended", _READY, ACTION, "suspended: the step in progress completes, no new step starts"
    DRIFTED = (
        "Drifted", _READY, ACTION,
        "drift detected: a level that had been reached was changed outside KafkaFeatures",
    )
    APPROVAL_REQUIRED = "ApprovalRequired", _READY, ACTION, "the plan has to be approved by its hash"
    PLAN_PENDING = "PlanPending", _APPROVAL, ACTION, "the plan is not approved yet"
    PLAN_CHANGED = "PlanChanged", _APPROVAL, ACTION, "the approval is for another plan than the current one"
    LEVEL_BEHIND = "LevelBehind", _DRIFT, ACTION, "a level that had been reached was downgraded outside KafkaFeatures"
    LEVEL_AHEAD = "LevelAhead", _DRIFT, ACTION, "a level that had been reached was raised outside KafkaFeatures"
    PREFLIGHT = (
        "Preflight", _RECONCILING, AUTOMATIC,
        "the operator could not read a fact that it needs for its decision",
    )
    UPDATING_FEATURES = "UpdatingFeatures", _RECONCILING, AUTOMATIC, "an UpdateFeatures request is in progress"
    VERIFYING = (
        "Verifying", _RECONCILING, AUTOMATIC,
        "a level is being verified, or the outcome of an update is not known yet",
    )
    WAITING_FOR_NODES = (
        "WaitingForNodes", _RECONCILING, AUTOMATIC,
        "a node runs an older Kafka, or its supported range is not known",
    )
    WAITING_FOR_QUORUM = (
        "WaitingForQuorum", _RECONCILING, AUTOMATIC,
        "no active controller has a majority, or a roll waits for a missing voter",
    )
    WAITING_FOR_WINDOW = (
        "WaitingForWindow", _RECONCILING, AUTOMATIC,
        "no window of spec.rollout is open; the message says when the next window opens",
    )
    SOAKING = (
        "Soaking", _RECONCILING, AUTOMATIC,
        "an irreversible change waits until every node has been healthy for finalizeAfter",
    )
    MIGRATING = (
        "Migrating", _RECONCILING, AUTOMATIC,
        "a migration from ZooKeeper is in progress, or its phase is not known",
    )
    ROLLING_NODES = (
        "RollingNodes", _RECONCILING, AUTOMATIC,
        "nodes are being restarted; the message says what the roll waits for",
    )
    WAITING_FOR_BUDGET = (
        "WaitingForBudget", _RECONCILING, AUTOMATIC,
        "a PodDisruptionBudget allows no eviction now, or the operator restarts nodes of as many other clusters as it "
        "has memory for (`maxPartitionImages`)",
    )
    WAITING_FOR_STRIMZI = (
        "WaitingForStrimzi", _RECONCILING, AUTOMATIC,
        "Strimzi restarts pods, or has not reconciled its Kafka as it is now; the message says which pod it is about",
    )
    INTERNAL_ERROR = "InternalError", _RECONCILING, AUTOMATIC, "a reconciliation failed or hung; see the operator's log"
    INVALID_SPEC = (
        "InvalidSpec", _STALLED, ACTION,
        "the document contradicts itself or the StatefulSets that it names, or an address is invalid",
    )
    UNKNOWN_RELEASE = (
        "UnknownRelease", _STALLED, ACTION,
        "this version of the operator does not know the Kafka release or the level name",
    )
    UNKNOWN_FEATURE = "UnknownFeature", _STALLED, ACTION, "no node supports a feature of that name"
    UNSUPPORTED_LEVEL = (
        "UnsupportedLevel", _STALLED, ACTION,
        "no node supports the level, or the Kafka release that supports it has dropped a level that is finalized",
    )
    GHOST_REGISTRATION = (
        "GhostRegistration", _STALLED, ACTION,
        "ghost registration: a node that no longer exists is still registered, and its range blocks the change",
    )
    NODE_REFUSED = (
        "NodeRefused", _STALLED, ACTION,
        "a broker keeps trying to register, and the active controller rejects it",
    )
    DEPENDENCY_MISSING = "DependencyMissing", _STALLED, ACTION, "a feature requires another feature at a higher level"
    DOWNGRADE_REFUSED = (
        "DowngradeRefused", _STALLED, ACTION,
        "Kafka refuses the downgrade even with a consent, because metadata would be lost; or the document names a "
        "lower inter.broker.protocol.version",
    )
    CONSENT_REQUIRED = (
        "ConsentRequired", _STALLED, ACTION,
        "a downgrade, the change to a dynamic quorum, or a restart, such as one that breaks clients, needs a consent",
    )
    CONSENT_SPENT = "ConsentSpent", _STALLED, ACTION, "the consent was already used; a consent can be used once"
    CONFLICT_DETECTED = (
        "ConflictDetected", _STALLED, ACTION,
        "a level is changed outside KafkaFeatures again and again, or a second operator writes the status",
    )
    CONTROLLER_REJECTED = (
        "ControllerRejected", _STALLED, ACTION,
        "the active controller rejected the change; its message says why",
    )
    NOT_AUTHORIZED = "NotAuthorized", _STALLED, ACTION, "an ACL is missing; the message has the command that adds it"
    ZOOKEEPER_MODE = "ZooKeeperMode", _STALLED, ACTION, "features cannot be finalized in ZooKeeper mode"
    CLUSTER_ID_MISMATCH = (
        "ClusterIdMismatch", _STALLED, ACTION,
        "the addresses lead to another cluster, to two clusters, or to a restored one",
    )
    DUPLICATE_OWNER = "DuplicateOwner", _STALLED, ACTION, "an older Apply resource owns the same cluster"
    SCHEMA_OUTDATED = "SchemaOutdated", _STALLED, ACTION, "the installed CRD is older than the operator"
    UNKNOWN_INTENT = "UnknownIntent", _STALLED, ACTION, "the status contains an intent that this release cannot read"
    UPDATE_STRATEGY_UNSAFE = (
        "UpdateStrategyUnsafe", _STALLED, ACTION,
        "Kubernetes itself restarts the pods of a StatefulSet; its update strategy has to be OnDelete",
    )
    STRIMZI_PAUSED = (
        "StrimziPaused", _STALLED, ACTION,
        "the Kafka of Strimzi is paused, so a roll may be half done: no level is changed and no pod restarted",
    )
    DRIVER_CONFLICT = (
        "DriverConflict", _STALLED, ACTION,
        "another operator, or an older resource, restarts the same pods",
    )
    ROLLOUT_HALTED = (
        "RolloutHalted", _STALLED, ACTION,
        "the roll is halted: no other node is restarted until the cause is gone",
    )
    NODES_BEHIND = (
        "NodesBehind", _STALLED, ACTION,
        "nodes have been too old for a level for longer than rollout.nodeTimeout, or the new image does not support a "
        "finalized level",
    )
    ALL_CURRENT = "AllCurrent", _ROLLED, NO_ACTION, "every node runs the update revision of its StatefulSet"
    IN_PROGRESS = "InProgress", _ROLLED, AUTOMATIC, "nodes are being restarted, or wait for their restart"
    HALTED = "Halted", _ROLLED, ACTION, "no node is restarted; the condition Stalled says why"
    PAUSED = "Paused", _ROLLED, ACTION, "suspended: restarts in progress complete, no other node is restarted"
    RESTART_REQUESTED = "RestartRequested", _ROLLED, ACTION, "driver Manual: restart the node that the message names"
    CONNECTED = "Connected", _REACHABLE, NO_ACTION, "the operator read the nodes and the metadata log"
    BOOTSTRAP_UNREACHABLE = "BootstrapUnreachable", _REACHABLE, AUTOMATIC, "none of the bootstrap addresses answers"
    PARTIALLY_CONNECTED = (
        "PartiallyConnected", _REACHABLE, ACTION,
        "the operator could not read everything; the message says what and why",
    )
    TLS_FAILED = "TlsFailed", _REACHABLE, ACTION, "the TLS handshake failed"
    AUTHENTICATION_FAILED = "AuthenticationFailed", _REACHABLE, ACTION, "authentication failed"
    CREDENTIALS_INVALID = (
        "CredentialsInvalid", _REACHABLE, ACTION,
        "a Secret or ConfigMap is missing, unlabelled or unusable",
    )
    ADDRESS_REFUSED = "AddressRefused", _REACHABLE, ACTION, "the operator's settings do not allow the address"
    ALL_AT_TARGET = "AllAtTarget", _FINALIZED, NO_ACTION, "every desired level is finalized"
    NOTHING_DESIRED = "NothingDesired", _FINALIZED, NO_ACTION, "the document names no level"
    BEHIND_TARGET = "BehindTarget", _FINALIZED, AUTOMATIC, "some levels are not changed yet"
    UNKNOWN = "Unknown", _FINALIZED, AUTOMATIC, "the finalized levels could not be read"
    BLOCKED = "Blocked", _FINALIZED, ACTION, "a blocker prevents the change; see blockers"
    NO_BLOCKING_CLIENTS = (
        "NoBlockingClients", _CLIENTS, NO_ACTION,
        "no client used an API version that the target lacks, on any broker, through the whole window",
    )
    BLOCKING_CLIENTS = (
        "BlockingClients", _CLIENTS, ACTION,
        "clients use API versions that the target lacks, and break with it; see status.clients",
    )
    EVIDENCE_MISSING = (
        "EvidenceMissing", _CLIENTS, ACTION,
        "there is no evidence about clients yet, or none of a broker; the message says why",
    )
    EVIDENCE_STALE = (
        "EvidenceStale", _CLIENTS, ACTION,
        "Prometheus has not answered for half an hour, or nothing scrapes a broker any longer",
    )
    EVIDENCE_INCOMPLETE = (
        "EvidenceIncomplete", _CLIENTS, AUTOMATIC,
        "the evidence does not cover every broker through the whole window; status.clients has the gaps",
    )
    # fmt: on


class PlanVerdict(StrEnum):
    """The result of a plan: `verdict` of its document, computed by `core/report/plan_document.py`."""

    IN_SYNC = "InSync"
    CHANGES = "Changes"
    APPROVAL_REQUIRED = "ApprovalRequired"
    BLOCKED = "Blocked"
    UNKNOWN = "Unknown"


class BlockerKind(StrEnum):
    """Kinds of blockers. A change is stalled by a blocker whose reason requires action, else it waits.

    reason: reason of the condition Ready, unless the blocker has one of its own.
    subject: what is waited for, if the blocker names neither nodes nor a feature.
    """

    reason: Reason
    subject: str

    def __new__(cls, value: str, reason: Reason, subject: str) -> Self:
        """Make a member from its row."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.reason, member.subject = reason, subject
        return member

    NODE_RANGE = "NodeRange", Reason.WAITING_FOR_NODES, "nodes"
    GHOST_REGISTRATION = "GhostRegistration", Reason.GHOST_REGISTRATION, "nodes"
    REFUSED_NODE = "RefusedNode", Reason.NODE_REFUSED, "nodes"
    NODE_UNKNOWN = "NodeUnknown", Reason.WAITING_FOR_NODES, "nodes"
    UNKNOWN_FEATURE = "UnknownFeature", Reason.UNKNOWN_FEATURE, "features"
    DEPENDENCY = "Dependency", Reason.DEPENDENCY_MISSING, "features"
    DOWNGRADE = "Downgrade", Reason.CONSENT_REQUIRED, "features"
    CONSENT = "Consent", Reason.CONSENT_REQUIRED, "spec.consents"
    MIGRATION = "Migration", Reason.MIGRATING, "migration"
    ZOOKEEPER_MODE = "ZooKeeperMode", Reason.ZOOKEEPER_MODE, "metadata mode"
    QUORUM = "Quorum", Reason.WAITING_FOR_QUORUM, "quorum"
    PARTITION = "Partition", Reason.ROLLING_NODES, "partitions"
    WORKLOAD = "Workload", Reason.ROLLOUT_HALTED, "workloads"
    SETTING = "Setting", Reason.MIGRATION_BLOCKED, "settings of nodes"
    ZOOKEEPER = "ZooKeeper", Reason.MIGRATION_BLOCKED, "ZooKeeper"
    METADATA = "Metadata", Reason.METADATA_DIFFERS, "metadata"
    CLIENT = "Client", Reason.CONSENT_REQUIRED, "clients"


class Phase(StrEnum):
    """Values of `status.migration.phase`: how far a migration from ZooKeeper is."""

    NONE = "None"
    PRE_MIGRATION = "PreMigration"
    MIGRATING = "Migrating"
    DUAL_WRITE = "DualWrite"
    FINALIZING = "Finalizing"
    FINALIZED = "Finalized"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
