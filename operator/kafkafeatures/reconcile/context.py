"""The injected context of a reconciliation: its store, its ports, its clocks, and who hears of what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from msgspec import Struct

from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.status import Via
from kafkafeatures.core.engine.gates import Owner
from kafkafeatures.core.engine.steps import Step
from kafkafeatures.core.ports import KafkaPort, WorkloadPort, ZooKeeperPort
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.evaluation import Evaluation
from kafkafeatures.reconcile.look import Ports
from kafkafeatures.reconcile.ports import ResourceStore

CompetingOwner = Callable[[str], Owner | None]
"""From a cluster id to the older resource that owns the cluster, or may turn out to own it."""


def no_other_owner(cluster_id: str) -> Owner | None:
    """No other resource owns a cluster: on the command line there are none."""
    return None


class EffectRecord(Struct, frozen=True):
    """A step that leaves this process: of which resource, which cluster the decision was made on, and which way."""

    resource: str
    cluster_id: str
    step: Step
    via: Via


Effects = Callable[[EffectRecord], None]
"""Hears of each step right before it leaves the process."""


def ignore(effect: EffectRecord) -> None:
    """No log of effects is kept."""


class ReconcileContext(Struct, frozen=True):
    """The injected context of a reconciliation. `before_act` may raise: then nothing is written or sent.

    `effects` is called right before a step is sent, `on_settled` once no step of this resource can still be on its way.
    `ages` is the same for all reconciliations of a resource in a process. `hand_over`: seconds for which another
    process may still send what its intent says. `workloads`: None where no pods are restarted. `zookeeper`: None where
    nothing of ZooKeeper is wanted. `is_stopping`: this process was asked to end, and begins nothing new.
    """

    store: ResourceStore
    kafka: KafkaPort
    clock: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    monotonic: Callable[[], float]
    ages: Ages
    competing_owner: CompetingOwner = no_other_owner
    before_act: Callable[[Evaluation], None] = lambda _: None
    effects: Effects = ignore
    on_settled: Callable[[], None] = lambda: None
    workloads: WorkloadPort | None = None
    zookeeper: ZooKeeperPort | None = None
    hand_over: float = 0.0
    is_stopping: Callable[[], bool] = lambda: False

    @property
    def ports(self) -> Ports:
        """The ports to all that is looked at."""
        return Ports(self.kafka, self.workloads, self.zookeeper)

    def stamp(self) -> Stamp:
        return stamp(self.clock())

    def age_of(self, moment: str) -> timedelta:
        """The age of a stamp of the status."""
        return self.ages.of(moment, self.clock())

    def known_for(self, moment: str) -> timedelta:
        """The part of that age that this process has lived through: no clock that was set makes it longer."""
        return self.ages.known_for(moment, self.clock())

    def on_its_way(self, moment: str) -> timedelta:
        """For how long what was intended then may still be sent, by another process than this one."""
        return timedelta(seconds=0.0 if self.ages.is_ours(moment) else self.hand_over)
