"""A `Rig`: the operator's controller (the loop that reconciles resources) between a simulated API server and a
simulated Kafka cluster, with the connections that it opened and the metrics it recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.status import Status
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import CounterKey
from kafkafeatures.core.engine.steps import Outcome
from kafkafeatures.core.facts.readings import Readings
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.ports import EvidenceAnswer, EvidenceSource
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.metrics import Metrics
from kafkafeatures.prometheus.settings import PrometheusSettings
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.connections import OpenCluster
from kafkafeatures.reconcile.controller import Controller
from kafkafeatures.reconcile.listeners import NOT_NOTIFIED, NotifierPort
from kafkafeatures.reconcile.operator_context import OperatorContext
from kafkafeatures.zookeeper.ensemble import Ensemble
from tests.kafkafeatures import ensembles
from tests.kafkafeatures.reconcile.simulated import Cluster
from tests.kafkafeatures.worlds import NOW
from tests.simulated.orders import KEY, Orders


def nothing() -> None:
    """Do nothing, as the default of a hook."""


class Kafka(Cluster):
    looks = closed = released = 0
    same = False
    """Answer to the question if the metadata log has not changed since the last reading."""

    during_look: Callable[[], object] = staticmethod(nothing)
    during_update: Callable[[], object] = staticmethod(nothing)
    during_question: Callable[[], object] = staticmethod(nothing)
    """What happens elsewhere during a reading, during a change, and while the log is asked if it has changed."""

    async def read(self, **demands: Any) -> Readings:
        self.looks += 1
        self.during_look()
        return await super().read(**demands)

    async def look_again(self, **demands: Any) -> Readings:
        self.looks += 1
        self.during_look()
        return await super().look_again(**demands)

    async def update(self, change: UpdateFeature) -> Outcome:
        self.during_update()
        return await super().update(change)

    async def unchanged(self) -> bool:
        self.during_question()
        return self.same

    def release_partitions(self, *, at_once: bool = True) -> None:
        self.released += at_once

    async def release_idle_connections(self) -> None:
        """There are no connections."""

    async def close(self) -> None:
        self.closed += 1


@dataclass
class Recorder:
    """The readings that were reported to it, and the resources that were deleted."""

    looks: list[tuple[ResourceKey, str]] = field(default_factory=list)
    forgotten: list[ResourceKey] = field(default_factory=list)

    def saw(self, resource: ResourceKey, cluster: OpenCluster, status: Status) -> None:
        assert isinstance(cluster, Kafka)
        self.looks.append((resource, status.cluster_id))

    def forgot(self, resource: ResourceKey) -> None:
        self.forgotten.append(resource)


class Evidence(NamedTuple):
    """A source of evidence about clients with the answer of the test."""

    answer: Callable[[EvidenceWindow], EvidenceAnswer]

    def read(self, window: EvidenceWindow, matters: Callable[[CounterKey], bool]) -> EvidenceAnswer:
        return self.answer(window)


class Rig:
    """A controller, its simulated surroundings, and the connections that it opened."""

    def __init__(
        self,
        api: Orders,
        kafka: Kafka | None = None,
        instance: str = "test",
        *,
        notifier: NotifierPort = NOT_NOTIFIED,
    ) -> None:
        self.api, self.kafka = api, kafka or Kafka({"metadata.version": 21})
        self.opened: list[ClusterSettings] = []
        self.ensembles: list[Ensemble] = []
        self.zookeeper = ensembles.Ensemble()
        self.now, self.seconds = NOW, 0.0
        self.policy = AddressPolicy()
        self.prometheus: list[PrometheusSettings] = []
        self.evidence: Callable[[EvidenceWindow], EvidenceAnswer] = lambda _: EvidenceAnswer(())
        """Evidence about clients that a reading returns; called in the thread of the reading."""
        operator = OperatorIdentity("ours", "operator", instance)
        context = OperatorContext(
            Environment(lambda: self.now, lambda: self.seconds, sleep=self.kafka.sleep), operator, self.policy,
            open_ensemble=self._open_ensemble, open_evidence=self._open_evidence,
            notifier=notifier,
        )  # fmt: skip
        self.claims = Claims(lambda: self.seconds)
        self.client = api.client()
        self.watched = ""
        """The resourceVersion that the watch has shown last; empty without a watch."""
        self.recorder, self.metrics = Recorder(), Metrics(environment=SYSTEM)
        self.controller = Controller(
            self.client,
            self.claims,
            self._open,
            context,
            self.metrics,
            current=lambda _: self.watched,
            recorder=self.recorder,
        )

    def met(self) -> Self:
        """Write the cluster id to the status: this is not the first contact, and a consent in the document counts."""
        self.api.edit_status(lambda status: status.update(clusterId=self.kafka.world.cluster_id))
        return self

    async def work(self) -> float:
        """Reconcile once. Returns the time until the next reconciliation, which is over then."""
        pause = await self.controller.reconcile(KEY)
        assert pause is not None
        self.seconds += pause
        return pause

    def _open(self, settings: ClusterSettings) -> Kafka:
        self.opened.append(settings)
        return self.kafka

    def _open_evidence(self, settings: PrometheusSettings) -> EvidenceSource:
        self.prometheus.append(settings)
        return Evidence(self.evidence)

    def _open_ensemble(self, ensemble: Ensemble, cluster: OpenCluster) -> ensembles.Ensemble:
        assert cluster is self.kafka
        self.ensembles.append(ensemble)
        return self.zookeeper
