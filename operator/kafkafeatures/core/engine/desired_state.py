"""Levels and limits that a resource asks for, resolved: levels as numbers, and under which conditions they may be
moved.

Made of a document by `reconcile`; read by `decide`. Names and bundles are resolved already, so that the core decides
on numbers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

from msgspec import Struct, field

from kafkafeatures.api.spec import Availability, Desired
from kafkafeatures.core.engine.remedies import ANY_CLUSTER


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


class MaxParallel(Struct, frozen=True):
    """Limit of nodes in flight at once: a number, or a percentage of the brokers."""

    number: int
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.number}%" if self.percent else str(self.number)


class Window(Struct, frozen=True):
    """Times at which nodes may be restarted: from each moment of the cron schedule on, for so long."""

    schedule: str
    duration: timedelta
    time_zone: str = "Etc/UTC"


class Rollout(Struct, frozen=True):
    """Driver that restarts nodes, and its bounds. `driver`: the name of one of `core/roll/drivers.py`, as it has been
    made sure. `brokers`, `controllers`: StatefulSets of the same namespace.
    """

    driver: str = "None"
    brokers: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    container: str = "kafka"
    max_parallel: MaxParallel = MaxParallel(1)
    availability: Availability = Availability.NO_UNDER_REPLICATED
    stable_for: timedelta = timedelta(seconds=30)
    node_timeout: timedelta = timedelta(minutes=15)
    windows: tuple[Window, ...] = ()


class Migration(Struct, frozen=True):
    """Goal of a migration from ZooKeeper, which is never `Desired.NONE`, and for how long dual write is kept before it
    is finalized.
    """

    desired: Desired
    hold_dual_write_for: timedelta = timedelta(hours=24)


class DesiredState(Struct, frozen=True):
    """`levels`: named exactly. `bundle`: what a releaseVersion stands for; it never lowers, and `levels` win over it.

    `approvals`: hashes of approved plans, whole or from 8 digits on, in whatever form they were given: with one, no
    other plan is carried out, whatever the policy; `annotated`: the one of them that is an annotation. `uid` tells this
    resource from any other. `cluster_id`: the only cluster it is for; empty for any. `may_approve_unseen`: a plan may
    be approved that no status has shown yet; so on the command line, where `plan` shows it and writes nothing.
    `approves_by_name`: a person wrote `levels`, which approves what is irreversible; not so where a command made them
    of a release. `accepted_log`: of which restored metadata log a person says that it may be acted upon.
    `cluster_flags`: how our own commands reach the cluster, for remedies. `finalize_after`: how long every node must
    have been healthy on a binary that supports it before an irreversible change.
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
    migration: Migration | None = None  # None where none is wanted
    ibp: str = ""  # the inter.broker.protocol.version of brokers in ZooKeeper mode; empty where none is wanted

    @property
    def rests_on_zookeeper(self) -> bool:
        """Tell whether something is wanted of which ZooKeeper has to be read."""
        return self.migration is not None or bool(self.ibp)

    def desired(self, finalized: Mapping[str, int]) -> dict[str, int]:
        """Feature to the level it should have, given what is finalized now."""
        of_bundle = {feature: max(level, finalized.get(feature, 0)) for feature, level in self.bundle.items()}
        return {**of_bundle, **self.levels}
