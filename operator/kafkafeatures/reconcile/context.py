"""The injected context of a reconciliation: its store, ports, clocks and callbacks.

Made by `reconcile/controller.py` in the operator, and by the command line; the simulator injects its own clocks and
ports.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.status import Via
from kafkafeatures.core.engine.gates import Owner
from kafkafeatures.core.engine.steps import Step
from kafkafeatures.core.facts.managed import ManagedLevel
from kafkafeatures.core.ports import KafkaPort, WorkloadPort, ZooKeeperPort
from kafkafeatures.environment import Environment
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.evaluation import Evaluation
from kafkafeatures.reconcile.look import Ports
from kafkafeatures.reconcile.ports import ResourceStore
from kafkafeatures.reconcile.withdrawals import Withdraw

if TYPE_CHECKING:  # the command line has none
    from kafkafeatures.reconcile.client_evidence import LatestEvidence

CompetingOwner = Callable[[str], Owner | None]
"""Function that returns, for a cluster id, the resource that prevents this one from acting on it; None for none."""


def no_other_owner(cluster_id: str) -> Owner | None:
    """None: on the command line there are no other resources."""
    return None


class EffectRecord(Struct, frozen=True):
    """A step that leaves this process: its resource, the cluster for which it was decided, and its route."""

    resource: str
    cluster_id: str
    step: Step
    via: Via


Effects = Callable[[EffectRecord], None]
"""Called with each step right before it leaves the process."""


def ignore(effect: EffectRecord) -> None:
    """Ignore the effect: no log of effects is kept."""


class ReconcileContext(Struct, frozen=True):
    """The injected context of a reconciliation.

    store: store of the resource. kafka, workloads, zookeeper: ports to the cluster, its pods and its ensemble; the last
    two are None where the document does not need them. environment: clocks and pauses. ages: ages of times in the
    status; one object for all reconciliations of a resource in a process. competing_owner: finds the resource that
    prevents this one from acting on a cluster, by the id of the cluster. before_act: called before a step is begun, and
    during a soak (`act.execute`); if it raises, nothing is written or sent. effects: called right before a step is
    sent. on_settled: called once no step of this resource can still be under way. clients: latest evidence about
    clients, without waiting; None where the document asks for none. hand_over: seconds for which another process may
    still send a step whose intent it wrote. is_stopping: tells whether this process was asked to end, and so begins
    nothing new. managed: levels that another operator sets. withdraw: withdraws a request that waits on a pod for
    another operator; None where no requests are sent.
    """

    store: ResourceStore
    kafka: KafkaPort
    environment: Environment
    ages: Ages
    competing_owner: CompetingOwner = no_other_owner
    before_act: Callable[[Evaluation], None] = lambda _: None
    effects: Effects = ignore
    on_settled: Callable[[], None] = lambda: None
    workloads: WorkloadPort | None = None
    zookeeper: ZooKeeperPort | None = None
    clients: LatestEvidence | None = None
    hand_over: float = 0.0
    is_stopping: Callable[[], bool] = lambda: False
    managed: tuple[ManagedLevel, ...] = ()
    withdraw: Withdraw | None = None

    @property
    def withdrawal(self) -> Withdraw | None:
        """The function that withdraws requests; None where nothing is sent, or nothing any more."""
        return None if self.is_stopping() else self.withdraw

    @property
    def ports(self) -> Ports:
        """Ports to all that is read."""
        return Ports(self.kafka, self.workloads, self.zookeeper)

    def now(self) -> datetime:
        """The time by the wall clock."""
        return self.environment.clock()

    def stamp(self) -> Stamp:
        """The current time, in the form that a status has."""
        return stamp(self.now())

    def age_of(self, moment: str) -> timedelta:
        """Age of a time in the status, as far as clocks can show it."""
        return self.ages.of(moment, self.now())

    def known_for(self, moment: str) -> timedelta:
        """The part of a time's age in which this process has known it; setting a clock cannot lengthen it."""
        return self.ages.known_for(moment, self.now())

    def on_its_way(self, moment: str) -> timedelta:
        """The largest age of an intent at which another process may still send its step. `moment`: time at which the
        intent was written. Zero if this process wrote it.
        """
        return timedelta(seconds=0.0 if self.ages.is_ours(moment) else self.hand_over)
