"""What each reason means for users, and what becomes of it: what the documentation and its runbooks are made of.

Nothing that runs asks for it; `docs/reference/reasons.md` and the runbooks are generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkafeatures.api.reasons import Condition, Reason


class ReasonInfo(Struct, frozen=True):
    """The meaning of a reason for users, and its outcome: `AUTOMATIC`, `ACTION`, or empty where all is well."""

    conditions: tuple[Condition, ...]
    meaning: str
    outcome: str = ""

    @property
    def needs_action(self) -> bool:
        """Tell whether action is required; each such reason has a runbook."""
        return self.outcome == ACTION


AUTOMATIC = "resolves automatically"
ACTION = "action required"


def _each(*conditions: Condition, outcome: str = "", meanings: Mapping[Reason, str]) -> Mapping[Reason, ReasonInfo]:
    return {reason: ReasonInfo(conditions, meaning, outcome) for reason, meaning in meanings.items()}


EXPLAINED: Mapping[Reason, ReasonInfo] = {
    **_each(
        Condition.READY,
        Condition.RECONCILING,
        outcome=ACTION,
        meanings={
            Reason.WAITING_FOR_GIT: (
                "the next phase of a migration, or another inter.broker.protocol.version, needs other settings, "
                "replicas or images; change them in Git"
            ),
        },
    ),
    **_each(
        Condition.MIGRATION_SETTLED,
        meanings={
            Reason.NOT_STARTED: "no migration has begun",
            Reason.FINALIZED: "the cluster runs in KRaft mode alone, which is irreversible",
            Reason.ROLLED_BACK: "the cluster is in ZooKeeper mode again",
        },
    ),
    **_each(
        Condition.MIGRATION_SETTLED,
        outcome=AUTOMATIC,
        meanings={
            Reason.PRE_MIGRATION: "the controllers run and wait; no broker knows of them",
            Reason.DUAL_WRITE: "all brokers run in KRaft mode, and changes are still written to ZooKeeper",
            Reason.FINALIZING: "the controllers lose their connection to ZooKeeper, one by one",
            Reason.ROLLING_BACK: "the cluster is on its way back to ZooKeeper mode",
        },
    ),
    **_each(
        Condition.READY,
        Condition.STALLED,
        outcome=ACTION,
        meanings={
            Reason.MIGRATION_FAILED: "metadata log, znodes and nodes contradict each other; the message says how",
            Reason.MIGRATION_BLOCKED: "something must be repaired before the next phase; see blockers",
            Reason.METADATA_DIFFERS: "ZooKeeper and the metadata log differ; the blockers say where",
            Reason.TEMPLATE_AHEAD: (
                "the template of a StatefulSet was changed before the operator asked for it, or a broker uses an "
                "inter.broker.protocol.version that other brokers do not know"
            ),
        },
    ),
    **_each(
        Condition.APPROVAL_REQUIRED,
        outcome=ACTION,
        meanings={Reason.MIGRATION_FINALIZE: "finalizing the migration is irreversible, and has to be approved"},
    ),
    **_each(
        Condition.READY,
        meanings={
            Reason.IN_SYNC: "every desired level is finalized and verified on every live node",
            Reason.OBSERVED: "mode Observe: the message says what the operator would change; it sends nothing",
        },
    ),
    **_each(
        Condition.READY,
        outcome=AUTOMATIC,
        meanings={
            Reason.PENDING: "not reconciled yet",
            Reason.UNREACHABLE: "no node could be reached",
        },
    ),
    **_each(
        Condition.READY,
        outcome=ACTION,
        meanings={
            Reason.SUSPENDED: "suspended: the step in progress completes, no new step starts",
            Reason.DRIFTED: "drift detected: a level that had been reached was changed outside KafkaFeatures",
            Reason.APPROVAL_REQUIRED: "the plan has to be approved by its hash",
        },
    ),
    **_each(
        Condition.APPROVAL_REQUIRED,
        outcome=ACTION,
        meanings={
            Reason.PLAN_PENDING: "the plan is not approved yet",
            Reason.PLAN_CHANGED: "the approval is for another plan than the current one",
        },
    ),
    **_each(
        Condition.DRIFT_DETECTED,
        outcome=ACTION,
        meanings={
            Reason.LEVEL_BEHIND: "a level that had been reached was downgraded outside KafkaFeatures",
            Reason.LEVEL_AHEAD: "a level that had been reached was raised outside KafkaFeatures",
        },
    ),
    **_each(
        Condition.READY,
        Condition.RECONCILING,
        outcome=AUTOMATIC,
        meanings={
            Reason.PREFLIGHT: "the operator could not read a fact that it needs for its decision",
            Reason.UPDATING_FEATURES: "an UpdateFeatures request is in progress",
            Reason.VERIFYING: "a level is being verified, or the outcome of an update is not known yet",
            Reason.WAITING_FOR_NODES: "a node runs an older Kafka, or its supported range is not known",
            Reason.WAITING_FOR_QUORUM: "no active controller has a majority, or a roll waits for a missing voter",
            Reason.WAITING_FOR_WINDOW: "no window of spec.rollout is open; the message says when the next window opens",
            Reason.SOAKING: "an irreversible change waits until every node has been healthy for finalizeAfter",
            Reason.MIGRATING: "a migration from ZooKeeper is in progress, or its phase is not known",
            Reason.ROLLING_NODES: "nodes are being restarted; the message says what the roll waits for",
            Reason.WAITING_FOR_BUDGET: (
                "a PodDisruptionBudget allows no eviction now, or the operator restarts nodes of as many other "
                "clusters as it has memory for (`maxPartitionImages`)"
            ),
            Reason.INTERNAL_ERROR: "a reconciliation failed or hung; see the operator's log",
        },
    ),
    **_each(
        Condition.READY,
        Condition.STALLED,
        outcome=ACTION,
        meanings={
            Reason.INVALID_SPEC: (
                "the document contradicts itself or the StatefulSets that it names, or an address is invalid"
            ),
            Reason.UNKNOWN_RELEASE: "this version of the operator does not know the Kafka release or the level name",
            Reason.UNKNOWN_FEATURE: "no node supports a feature of that name",
            Reason.UNSUPPORTED_LEVEL: (
                "no node supports the level, or the Kafka release that does no longer supports a finalized level"
            ),
            Reason.GHOST_REGISTRATION: (
                "ghost registration: a node that no longer exists is still registered, and its range blocks the change"
            ),
            Reason.NODE_REFUSED: "a broker keeps trying to register, and the active controller rejects it",
            Reason.DEPENDENCY_MISSING: "a feature requires another feature at a higher level",
            Reason.DOWNGRADE_REFUSED: (
                "Kafka refuses the downgrade even with a consent, because metadata would be lost; or the document "
                "names a lower inter.broker.protocol.version"
            ),
            Reason.CONSENT_REQUIRED: "a downgrade, the change to a dynamic quorum, or a restart needs a consent",
            Reason.CONSENT_SPENT: "the consent was already used; a consent can be used once",
            Reason.CONFLICT_DETECTED: (
                "a level is changed outside KafkaFeatures again and again, or a second operator writes the status"
            ),
            Reason.CONTROLLER_REJECTED: "the active controller rejected the change; its message says why",
            Reason.NOT_AUTHORIZED: "an ACL is missing; the message has the command that adds it",
            Reason.ZOOKEEPER_MODE: "features cannot be finalized in ZooKeeper mode",
            Reason.CLUSTER_ID_MISMATCH: "the addresses lead to another cluster, to two clusters, or to a restored one",
            Reason.DUPLICATE_OWNER: "an older Apply resource owns the same cluster",
            Reason.SCHEMA_OUTDATED: "the installed CRD is older than the operator",
            Reason.UNKNOWN_INTENT: "the status contains an intent that this release cannot read",
            Reason.UPDATE_STRATEGY_UNSAFE: (
                "Kubernetes itself restarts the pods of a StatefulSet; its update strategy has to be OnDelete"
            ),
            Reason.DRIVER_CONFLICT: "another operator, or an older resource, restarts the same pods",
            Reason.ROLLOUT_HALTED: "the roll is halted: no other node is restarted until the cause is gone",
            Reason.NODES_BEHIND: (
                "nodes have been too old for a level for longer than rollout.nodeTimeout, or the new image does not "
                "support a finalized level"
            ),
        },
    ),
    **_each(
        Condition.NODES_ROLLED,
        meanings={Reason.ALL_CURRENT: "every node runs the update revision of its StatefulSet"},
    ),
    **_each(
        Condition.NODES_ROLLED,
        outcome=AUTOMATIC,
        meanings={Reason.IN_PROGRESS: "nodes are being restarted, or wait for their restart"},
    ),
    **_each(
        Condition.NODES_ROLLED,
        outcome=ACTION,
        meanings={
            Reason.HALTED: "no node is restarted; the condition Stalled says why",
            Reason.PAUSED: "suspended: restarts in progress complete, no other node is restarted",
            Reason.RESTART_REQUESTED: "driver Manual: restart the node that the message names",
        },
    ),
    **_each(Condition.REACHABLE, meanings={Reason.CONNECTED: "the operator read the nodes and the metadata log"}),
    **_each(
        Condition.REACHABLE,
        outcome=AUTOMATIC,
        meanings={Reason.BOOTSTRAP_UNREACHABLE: "none of the bootstrap addresses answers"},
    ),
    **_each(
        Condition.REACHABLE,
        outcome=ACTION,
        meanings={
            Reason.PARTIALLY_CONNECTED: "the operator could not read everything; the message says what and why",
            Reason.TLS_FAILED: "the TLS handshake failed",
            Reason.AUTHENTICATION_FAILED: "authentication failed",
            Reason.CREDENTIALS_INVALID: "a Secret or ConfigMap is missing, unlabelled or unusable",
            Reason.ADDRESS_REFUSED: "the operator's settings do not allow the address",
        },
    ),
    **_each(
        Condition.FEATURES_FINALIZED,
        meanings={
            Reason.ALL_AT_TARGET: "every desired level is finalized",
            Reason.NOTHING_DESIRED: "the document names no level",
        },
    ),
    **_each(
        Condition.FEATURES_FINALIZED,
        outcome=AUTOMATIC,
        meanings={
            Reason.BEHIND_TARGET: "some levels are not changed yet",
            Reason.UNKNOWN: "the finalized levels could not be read",
        },
    ),
    **_each(
        Condition.FEATURES_FINALIZED,
        outcome=ACTION,
        meanings={Reason.BLOCKED: "a blocker prevents the change; see blockers"},
    ),
}
"""Every reason; docs/reference/reasons.md is generated from it."""
