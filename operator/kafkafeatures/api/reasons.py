"""Conditions, reasons, and what a blocker can be: the closed lists of the contract, section 3.

A name stands here once. `core/report.py` puts them into a status; nothing else may invent one.
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
    APPROVAL_REQUIRED = "ApprovalRequired"  # only while True
    DRIFT_DETECTED = "DriftDetected"  # only while True


class Reason(StrEnum):
    """Reasons in use. The comment says who acts: T time, H a human."""

    IN_SYNC = "InSync"
    OBSERVED = "Observed"
    PENDING = "Pending"
    SUSPENDED = "Suspended"
    DRIFTED = "Drifted"
    APPROVAL_REQUIRED = "ApprovalRequired"  # H
    PLAN_PENDING = "PlanPending"  # H
    PLAN_CHANGED = "PlanChanged"  # H
    LEVEL_BEHIND = "LevelBehind"
    LEVEL_AHEAD = "LevelAhead"
    PREFLIGHT = "Preflight"  # T
    UPDATING_FEATURES = "UpdatingFeatures"  # T
    VERIFYING = "Verifying"  # T
    WAITING_FOR_NODES = "WaitingForNodes"  # T
    WAITING_FOR_QUORUM = "WaitingForQuorum"  # T
    MIGRATING = "Migrating"  # T
    INVALID_SPEC = "InvalidSpec"  # H
    UNKNOWN_FEATURE = "UnknownFeature"  # H
    UNSUPPORTED_LEVEL = "UnsupportedLevel"  # H
    GHOST_REGISTRATION = "GhostRegistration"  # H
    NODE_REFUSED = "NodeRefused"  # H
    DEPENDENCY_MISSING = "DependencyMissing"  # H
    LOWERING_REFUSED = "LoweringRefused"  # H
    CONSENT_REQUIRED = "ConsentRequired"  # H
    CONSENT_SPENT = "ConsentSpent"  # H
    CONFLICT_DETECTED = "ConflictDetected"  # H
    CONTROLLER_REJECTED = "ControllerRejected"  # H
    INSUFFICIENT_RIGHTS = "InsufficientRights"  # H
    ZOOKEEPER_MODE = "ZooKeeperMode"  # H
    CLUSTER_ID_MISMATCH = "ClusterIdMismatch"  # H
    CONNECTED = "Connected"
    CONNECTED_PARTLY = "ConnectedPartly"
    UNREACHABLE = "Unreachable"
    BOOTSTRAP_UNREACHABLE = "BootstrapUnreachable"
    TLS_FAILED = "TlsFailed"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    ALL_AT_TARGET = "AllAtTarget"
    NOTHING_DESIRED = "NothingDesired"
    BEHIND_TARGET = "BehindTarget"
    BLOCKED = "Blocked"
    UNKNOWN = "Unknown"


class BlockerKind(StrEnum):
    """What stands in the way. Each maps to the reason of `Stalled` (or to waiting) in `core/decide.py`."""

    NODE_RANGE = "NodeRange"
    GHOST_REGISTRATION = "GhostRegistration"
    REFUSED_NODE = "RefusedNode"
    NODE_UNKNOWN = "NodeUnknown"
    UNKNOWN_FEATURE = "UnknownFeature"
    DEPENDENCY = "Dependency"
    LOWERING = "Lowering"
    CONSENT = "Consent"
    MIGRATION = "Migration"
    ZOOKEEPER_MODE = "ZooKeeperMode"
    QUORUM = "Quorum"
    RIGHTS = "Rights"
