"""Conditions, reasons, verdicts of plans, and what a blocker can be: closed lists.

Each name is written here once. `core/report/status.py` puts them into a status; no other module may invent one.
"""

from __future__ import annotations

from enum import StrEnum


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


class Reason(StrEnum):
    """Reasons in use. `EXPLAINED` of `api/explained.py` says what each means, and whether action is required."""

    IN_SYNC = "InSync"
    OBSERVED = "Observed"
    PENDING = "Pending"
    SUSPENDED = "Suspended"
    DRIFTED = "Drifted"
    APPROVAL_REQUIRED = "ApprovalRequired"
    PLAN_PENDING = "PlanPending"
    PLAN_CHANGED = "PlanChanged"
    LEVEL_BEHIND = "LevelBehind"
    LEVEL_AHEAD = "LevelAhead"
    PREFLIGHT = "Preflight"
    UPDATING_FEATURES = "UpdatingFeatures"
    VERIFYING = "Verifying"
    WAITING_FOR_NODES = "WaitingForNodes"
    WAITING_FOR_QUORUM = "WaitingForQuorum"
    SOAKING = "Soaking"
    WAITING_FOR_BUDGET = "WaitingForBudget"
    MIGRATING = "Migrating"
    WAITING_FOR_GIT = "WaitingForGit"
    PRE_MIGRATION = "PreMigration"
    DUAL_WRITE = "DualWrite"
    FINALIZING = "Finalizing"
    FINALIZED = "Finalized"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    NOT_STARTED = "None"
    MIGRATION_FAILED = "MigrationFailed"
    MIGRATION_BLOCKED = "MigrationBlocked"
    METADATA_DIFFERS = "MetadataDiffers"
    TEMPLATE_AHEAD = "TemplateAhead"
    MIGRATION_FINALIZE = "MigrationFinalize"
    ROLLING_NODES = "RollingNodes"
    WAITING_FOR_WINDOW = "WaitingForWindow"
    ALL_CURRENT = "AllCurrent"
    IN_PROGRESS = "InProgress"
    HALTED = "Halted"
    PAUSED = "Paused"
    RESTART_REQUESTED = "RestartRequested"
    NODES_BEHIND = "NodesBehind"
    INTERNAL_ERROR = "InternalError"
    INVALID_SPEC = "InvalidSpec"
    UNKNOWN_RELEASE = "UnknownRelease"
    UNKNOWN_FEATURE = "UnknownFeature"
    UNSUPPORTED_LEVEL = "UnsupportedLevel"
    GHOST_REGISTRATION = "GhostRegistration"
    NODE_REFUSED = "NodeRefused"
    DEPENDENCY_MISSING = "DependencyMissing"
    DOWNGRADE_REFUSED = "DowngradeRefused"
    CONSENT_REQUIRED = "ConsentRequired"
    CONSENT_SPENT = "ConsentSpent"
    CONFLICT_DETECTED = "ConflictDetected"
    CONTROLLER_REJECTED = "ControllerRejected"
    NOT_AUTHORIZED = "NotAuthorized"
    ZOOKEEPER_MODE = "ZooKeeperMode"
    CLUSTER_ID_MISMATCH = "ClusterIdMismatch"
    DUPLICATE_OWNER = "DuplicateOwner"
    SCHEMA_OUTDATED = "SchemaOutdated"
    UNKNOWN_INTENT = "UnknownIntent"
    UPDATE_STRATEGY_UNSAFE = "UpdateStrategyUnsafe"
    DRIVER_CONFLICT = "DriverConflict"
    ROLLOUT_HALTED = "RolloutHalted"
    CONNECTED = "Connected"
    PARTIALLY_CONNECTED = "PartiallyConnected"
    UNREACHABLE = "Unreachable"
    BOOTSTRAP_UNREACHABLE = "BootstrapUnreachable"
    TLS_FAILED = "TlsFailed"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    CREDENTIALS_INVALID = "CredentialsInvalid"
    ADDRESS_REFUSED = "AddressRefused"
    ALL_AT_TARGET = "AllAtTarget"
    NOTHING_DESIRED = "NothingDesired"
    BEHIND_TARGET = "BehindTarget"
    BLOCKED = "Blocked"
    UNKNOWN = "Unknown"


class PlanVerdict(StrEnum):
    """The result of a plan: `verdict` of its document. Said by `core/report/plan_document.py` alone."""

    IN_SYNC = "InSync"
    CHANGES = "Changes"
    APPROVAL_REQUIRED = "ApprovalRequired"
    BLOCKED = "Blocked"
    UNKNOWN = "Unknown"


class BlockerKind(StrEnum):
    """Blockers of a change. Each maps to the reason of `Stalled` (or to waiting) in `core/engine/decisions.py`."""

    NODE_RANGE = "NodeRange"
    GHOST_REGISTRATION = "GhostRegistration"
    REFUSED_NODE = "RefusedNode"
    NODE_UNKNOWN = "NodeUnknown"
    UNKNOWN_FEATURE = "UnknownFeature"
    DEPENDENCY = "Dependency"
    DOWNGRADE = "Downgrade"
    CONSENT = "Consent"
    MIGRATION = "Migration"
    ZOOKEEPER_MODE = "ZooKeeperMode"
    QUORUM = "Quorum"
    PARTITION = "Partition"
    WORKLOAD = "Workload"
    SETTING = "Setting"
    ZOOKEEPER = "ZooKeeper"
    METADATA = "Metadata"


class Phase(StrEnum):
    """`status.migration.phase`."""

    NONE = "None"
    PRE_MIGRATION = "PreMigration"
    MIGRATING = "Migrating"
    DUAL_WRITE = "DualWrite"
    FINALIZING = "Finalizing"
    FINALIZED = "Finalized"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
