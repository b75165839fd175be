"""The state that a resource asks for: levels as numbers, and the conditions under which they may be changed.

Made from a document by `core/resolve.py`, which resolves names and release versions; read by the gates and the stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

from msgspec import Struct, field

from kafkafeatures.api.spec import Availability, Desired
from kafkafeatures.core.facts.readings import ANY_CLUSTER


class Mode(StrEnum):
    """`spec.mode`."""

    APPLY = "Apply"
    OBSERVE = "Observe"


class ApprovalPolicy(StrEnum):
    """`spec.approval.policy`: which plans need approval."""

    NEVER = "Never"
    IRREVERSIBLE_ONLY = "IrreversibleOnly"
    ALWAYS = "Always"


class OnDrift(StrEnum):
    """`spec.drift.onDrift`: what to do about a level that was changed outside KafkaFeatures."""

    REPORT = "Report"
    CORRECT = "Correct"


class EvidencePolicy(StrEnum):
    """`spec.clientEvidence.policy`: evidence about clients is only reported, or also holds back restarts."""

    REPORT = "Report"
    GATE = "Gate"


class MaxParallel(Struct, frozen=True):
    """Limit of nodes in flight at once: a number, or a percentage of the brokers."""

    number: int
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.number}%" if self.percent else str(self.number)


class Window(Struct, frozen=True):
    """Times at which nodes may be restarted and levels changed: from each moment of the schedule, for `duration`.

    schedule: five fields of cron.
    """

    schedule: str
    duration: timedelta
    time_zone: str = "Etc/UTC"


class Rollout(Struct, frozen=True):
    """Driver that restarts nodes, and its limits; and the windows of all steps.

    driver: name of a driver of `core/roll/drivers.py`, already checked.
    brokers, controllers: StatefulSets in the namespace of the resource.
    managed_by: the resource there from which another operator makes the pods; empty for none.
    selector, annotation, version: label selector of the pods that are only followed, their annotation with the version,
        and the version that they should have; empty for none.
    container: the container that runs Kafka.
    availability: rule for the partitions of a node that is restarted (`core/facts/replication.py`).
    stable_for: how long a node has to stay healthy after a restart.
    node_timeout: how long one restart may take.
    windows: times at which nodes may be restarted and levels changed; empty: at any time.
    """

    driver: str = "None"
    brokers: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    managed_by: str = ""
    selector: str = ""
    annotation: str = ""
    version: str = ""
    container: str = "kafka"
    max_parallel: MaxParallel = MaxParallel(1)
    availability: Availability = Availability.NO_UNDER_REPLICATED
    stable_for: timedelta = timedelta(seconds=30)
    node_timeout: timedelta = timedelta(minutes=15)
    windows: tuple[Window, ...] = ()


class Migration(Struct, frozen=True):
    """Goal of a migration from ZooKeeper to KRaft (never `Desired.NONE`), and how long dual write is kept before the
    migration is finalized. In dual write all nodes run in KRaft mode, and changes are still written to ZooKeeper.
    """

    desired: Desired
    hold_dual_write_for: timedelta = timedelta(hours=24)


class ClientRequirements(Struct, frozen=True):
    """Release of Kafka that clients have to work with, and the window of the evidence. `holds_roll`: no node is
    restarted to an image that may break some; False: it is only reported.
    """

    release: str
    window: timedelta
    holds_roll: bool = False


class DesiredState(Struct, frozen=True):
    """Everything that a document asks for, with names resolved.

    levels: feature to level, as named in the document.
    bundle: feature to level, as `spec.features.releaseVersion` implies. It never lowers a level, and `levels` override
        it.
    consents: entries of `spec.consents`, each of which allows one act.
    approvals: hashes of approved plans, whole or their first 8 digits or more. If there is any, no other plan is
        carried out, whatever the policy.
    annotated: the approval among them that an annotation gives; empty for none.
    cluster_id: the only cluster that the document is for; empty for any.
    uid: identifies this resource.
    may_approve_unseen: a plan may be approved that no status has shown. True on the command line, where `plan` shows a
        plan and writes no status.
    approves_by_name: a person wrote `levels` and `consents`, which approves changes that are irreversible or need a
        consent; False if a command made them, for this run alone.
    accepted_log: identity of a metadata log that was restored from a backup and that a person has accepted
        (`core/levels/accounted.py`); empty for none.
    cluster_flags: flags with which our commands reach the cluster, for remedies.
    finalize_after: how long every node must have been healthy on a supporting binary before an irreversible change.
    """

    levels: Mapping[str, int]
    bundle: Mapping[str, int] = field(default_factory=dict)
    consents: frozenset[str] = frozenset()
    mode: Mode = Mode.APPLY
    suspend: bool = False
    policy: ApprovalPolicy = ApprovalPolicy.IRREVERSIBLE_ONLY
    approvals: frozenset[str] = frozenset()
    annotated: str = ""
    on_drift: OnDrift = OnDrift.REPORT
    cluster_id: str = ""
    uid: str = ""
    may_approve_unseen: bool = False
    approves_by_name: bool = True
    accepted_log: str = ""
    cluster_flags: str = ANY_CLUSTER
    rollout: Rollout = Rollout()
    finalize_after: timedelta = timedelta(0)
    migration: Migration | None = None  # None: the document asks for no migration
    clients: ClientRequirements | None = None  # None: no evidence about clients is asked for
    ibp: str = ""  # inter.broker.protocol.version of brokers in ZooKeeper mode; empty: not asked for

    @property
    def rests_on_zookeeper(self) -> bool:
        """Tell whether the document asks for something that requires reading ZooKeeper."""
        return self.migration is not None or bool(self.ibp)

    def desired(self, finalized: Mapping[str, int]) -> dict[str, int]:
        """Feature to the level that it should have. `finalized`: levels that are finalized now."""
        of_bundle = {feature: max(level, finalized.get(feature, 0)) for feature, level in self.bundle.items()}
        return {**of_bundle, **self.levels}
