"""Conditions, reasons, and what a blocker can be: the closed lists of the contract, section 3.

A name stands here once. `core/report.py` puts them into a status; nothing else may invent one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    INTERNAL_ERROR = "InternalError"  # T
    INVALID_SPEC = "InvalidSpec"  # H
    UNKNOWN_RELEASE = "UnknownRelease"  # H
    UNKNOWN_FEATURE = "UnknownFeature"  # H
    UNSUPPORTED_LEVEL = "UnsupportedLevel"  # H
    GHOST_REGISTRATION = "GhostRegistration"  # H
    NODE_REFUSED = "NodeRefused"  # H
    DEPENDENCY_MISSING = "DependencyMissing"  # H
    DOWNGRADE_REFUSED = "DowngradeRefused"  # H
    CONSENT_REQUIRED = "ConsentRequired"  # H
    CONSENT_SPENT = "ConsentSpent"  # H
    CONFLICT_DETECTED = "ConflictDetected"  # H
    CONTROLLER_REJECTED = "ControllerRejected"  # H
    NOT_AUTHORIZED = "NotAuthorized"  # H
    ZOOKEEPER_MODE = "ZooKeeperMode"  # H
    CLUSTER_ID_MISMATCH = "ClusterIdMismatch"  # H
    DUPLICATE_OWNER = "DuplicateOwner"  # H
    SCHEMA_OUTDATED = "SchemaOutdated"  # H
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


class BlockerKind(StrEnum):
    """What prevents a change. Each maps to the reason of `Stalled` (or to waiting) in `core/decide.py`."""

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
    RIGHTS = "Rights"


@dataclass(frozen=True, slots=True)
class ReasonInfo:
    """What a reason means to people. `acts`: who has to do something, empty for nobody."""

    conditions: tuple[Condition, ...]
    meaning: str
    acts: str = ""


_TIME, _HUMAN = "nobody: time", "a human"
_READY, _RECONCILING, _STALLED = Condition.READY, Condition.RECONCILING, Condition.STALLED
_REACHABLE, _FINALIZED = Condition.REACHABLE, Condition.FEATURES_FINALIZED

EXPLAINED: Mapping[Reason, ReasonInfo] = {
    Reason.IN_SYNC: ReasonInfo(
        (_READY,), "every desired level was read on the active controller and on every living node"
    ),
    Reason.OBSERVED: ReasonInfo((_READY,), "mode Observe: the message says what would be done; nothing is sent"),
    Reason.PENDING: ReasonInfo((_READY,), "nothing was read yet", _TIME),
    Reason.SUSPENDED: ReasonInfo((_READY,), "suspended: what was sent is finished, nothing else is begun", _HUMAN),
    Reason.DRIFTED: ReasonInfo((_READY,), "a level that was reached was moved by somebody else", _HUMAN),
    Reason.APPROVAL_REQUIRED: ReasonInfo((_READY,), "the plan waits for its hash", _HUMAN),
    Reason.PLAN_PENDING: ReasonInfo((Condition.APPROVAL_REQUIRED,), "nobody approved the plan yet", _HUMAN),
    Reason.PLAN_CHANGED: ReasonInfo(
        (Condition.APPROVAL_REQUIRED,), "what was approved is another plan than today's", _HUMAN
    ),
    Reason.LEVEL_BEHIND: ReasonInfo(
        (Condition.DRIFT_DETECTED,), "somebody lowered a level that had been reached", _HUMAN
    ),
    Reason.LEVEL_AHEAD: ReasonInfo(
        (Condition.DRIFT_DETECTED,), "somebody raised a level that had been reached", _HUMAN
    ),
    Reason.PREFLIGHT: ReasonInfo((_READY, _RECONCILING), "something needed for a decision could not be read", _TIME),
    Reason.UPDATING_FEATURES: ReasonInfo((_READY, _RECONCILING), "one UpdateFeatures is under way", _TIME),
    Reason.VERIFYING: ReasonInfo(
        (_READY, _RECONCILING), "a level is read back, or an unknown outcome is settled", _TIME
    ),
    Reason.WAITING_FOR_NODES: ReasonInfo((_READY, _RECONCILING), "a node is old, or its range is not known", _TIME),
    Reason.WAITING_FOR_QUORUM: ReasonInfo((_READY, _RECONCILING), "no active controller with a majority", _TIME),
    Reason.MIGRATING: ReasonInfo((_READY, _RECONCILING), "a migration from ZooKeeper is open", _TIME),
    Reason.INTERNAL_ERROR: ReasonInfo(
        (_READY, _RECONCILING), "a pass failed or hung: a bug; see the operator's log", _TIME
    ),
    Reason.INVALID_SPEC: ReasonInfo(
        (_READY, _STALLED), "the document contradicts itself, or an address is none", _HUMAN
    ),
    Reason.UNKNOWN_RELEASE: ReasonInfo(
        (_READY, _STALLED), "a release or level name this version does not know", _HUMAN
    ),
    Reason.UNKNOWN_FEATURE: ReasonInfo((_READY, _STALLED), "no node supports a feature of that name", _HUMAN),
    Reason.UNSUPPORTED_LEVEL: ReasonInfo((_READY, _STALLED), "no node supports the level", _HUMAN),
    Reason.GHOST_REGISTRATION: ReasonInfo(
        (_READY, _STALLED), "a node that is gone is still registered with an old range", _HUMAN
    ),
    Reason.NODE_REFUSED: ReasonInfo(
        (_READY, _STALLED), "a broker keeps trying and the controller does not register it", _HUMAN
    ),
    Reason.DEPENDENCY_MISSING: ReasonInfo((_READY, _STALLED), "a feature needs another one at a higher level", _HUMAN),
    Reason.DOWNGRADE_REFUSED: ReasonInfo(
        (_READY, _STALLED), "the downgrade would lose metadata, whatever was consented", _HUMAN
    ),
    Reason.CONSENT_REQUIRED: ReasonInfo((_READY, _STALLED), "a loss was not consented to", _HUMAN),
    Reason.CONSENT_SPENT: ReasonInfo((_READY, _STALLED), "the consent was used already; it is good once", _HUMAN),
    Reason.CONFLICT_DETECTED: ReasonInfo(
        (_READY, _STALLED),
        "somebody else moves the same level again and again, or a second operator writes the status",
        _HUMAN,
    ),
    Reason.CONTROLLER_REJECTED: ReasonInfo(
        (_READY, _STALLED), "the active controller refuses it, in its own words", _HUMAN
    ),
    Reason.NOT_AUTHORIZED: ReasonInfo((_READY, _STALLED), "an ACL is missing; the message has the line", _HUMAN),
    Reason.ZOOKEEPER_MODE: ReasonInfo((_READY, _STALLED), "features cannot be finalized in ZooKeeper mode", _HUMAN),
    Reason.CLUSTER_ID_MISMATCH: ReasonInfo(
        (_READY, _STALLED), "the addresses lead to another cluster, or to two", _HUMAN
    ),
    Reason.DUPLICATE_OWNER: ReasonInfo((_READY, _STALLED), "an older Apply resource owns the same cluster", _HUMAN),
    Reason.SCHEMA_OUTDATED: ReasonInfo((_READY, _STALLED), "the installed CRD is older than the operator", _HUMAN),
    Reason.CONNECTED: ReasonInfo((_REACHABLE,), "nodes and metadata log were read"),
    Reason.PARTIALLY_CONNECTED: ReasonInfo(
        (_REACHABLE,), "something could not be read; the message says what and why", _HUMAN
    ),
    Reason.UNREACHABLE: ReasonInfo((_READY,), "not a single node could be asked", _TIME),
    Reason.BOOTSTRAP_UNREACHABLE: ReasonInfo((_REACHABLE,), "none of the bootstrap addresses answers", _TIME),
    Reason.TLS_FAILED: ReasonInfo((_REACHABLE,), "no TLS session", _HUMAN),
    Reason.AUTHENTICATION_FAILED: ReasonInfo((_REACHABLE,), "the login was refused", _HUMAN),
    Reason.CREDENTIALS_INVALID: ReasonInfo(
        (_REACHABLE,), "a Secret or ConfigMap is missing, unlabelled or unusable", _HUMAN
    ),
    Reason.ADDRESS_REFUSED: ReasonInfo((_REACHABLE,), "the operator's settings forbid the address", _HUMAN),
    Reason.ALL_AT_TARGET: ReasonInfo((_FINALIZED,), "every desired level is finalized"),
    Reason.NOTHING_DESIRED: ReasonInfo((_FINALIZED,), "the document names no level"),
    Reason.BEHIND_TARGET: ReasonInfo((_FINALIZED,), "levels are still to be changed", _TIME),
    Reason.BLOCKED: ReasonInfo((_FINALIZED,), "something prevents the change; see blockers", _HUMAN),
    Reason.UNKNOWN: ReasonInfo((_FINALIZED,), "the finalized levels could not be read", _TIME),
}
"""Of every reason; docs/reference/reasons.md is made of it."""
