"""A simulated migration for tests: a person, and Git, do what the status asks for, and nothing else.

The reconciliation and the file store are those of the product; Kafka and ZooKeeper are simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from kafkafeatures.api.document import read_document
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.core.report.events import events_between
from kafkafeatures.environment import Environment
from kafkafeatures.reconcile.act import reconcile
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import EffectRecord, ReconcileContext
from kafkafeatures.reconcile.file_store import FileStore
from kafkasim.connection import Access
from kafkasim.migration.cluster import Faults, MigratingCluster
from kafkasim.migration.person import Person
from kafkasim.migration.ports import MigrationNetwork, SimulatedEnsemble, kafka_of
from kafkasim.plan import TopicPlan

START_MS = 1_800_000_000_000
ORDERS = TopicPlan("orders", ((1, 2, 3), (2, 3, 1), (3, 1, 2)), 2)
LONGEST_S = 3_600


def migrating(
    seed: int = 1, faults: Faults | None = None, topics: tuple[TopicPlan, ...] = (ORDERS,)
) -> MigratingCluster:
    """Three brokers in ZooKeeper mode, with a topic."""
    return MigratingCluster(now_ms=START_MS, random=Random(seed), topics=topics, faults=faults)


def document(**migration: str) -> dict[str, Any]:
    return {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "KafkaFeatures",
        "metadata": {"name": "orders", "namespace": "kafka"},
        "spec": {
            "cluster": {
                "bootstrapServers": "brokers:9092",
                "bootstrapControllers": "controllers:9093",
                "zookeeper": {"connect": "zk1:2181/kafka"},
            },
            "workload": {"driver": "Manual"},
            "rollout": {"stableFor": "1s"},
            "migration": {"holdDualWriteFor": "1m", **migration},
        },
    }


class Migration:
    """A document, its status in a file, and the cluster that migrates."""

    def __init__(self, state: Path, cluster: MigratingCluster | None = None) -> None:
        self.cluster = cluster or migrating()
        self._kafka, self._network = kafka_of(self.cluster)
        self._zookeeper = SimulatedEnsemble(self.cluster)
        self._ages = Ages(self._monotonic)
        self._state = state
        self._document = document(desired="DualWrite")
        self.person = Person(self.cluster)
        self.status: Status = EMPTY
        self.effects: list[EffectRecord] = []
        self.said: list[str] = []
        """Messages of Ready, each once in a row."""
        self.events: list[str] = []
        """Reasons of Events."""

    # --- the status ---

    @property
    def reason(self) -> str:
        return str(self.status.reason(Condition.READY))

    @property
    def message(self) -> str:
        return self.said[-1]

    @property
    def position(self) -> str:
        """The position of the migration in the status."""
        return "" if self.status.migration is None else self.status.migration.position

    # --- what happens ---

    def ask(self, desired: str, *consents: str) -> None:
        """Ask for this phase, and give these consents."""
        self._document["spec"]["migration"]["desired"] = desired
        self._document["spec"]["consents"] = list(consents)

    async def to(self, desired: str, *consents: str) -> None:
        """Ask for this phase, and do what is asked until it is reached."""
        self.ask(desired, *consents)
        await self.until(lambda: self.reason == Reason.IN_SYNC)

    async def until(self, reached: Callable[[], bool], *, helps: bool = True) -> None:
        """Reconcile until then. `helps`: the person does what is asked; AssertionError where that takes too long."""
        until = self.cluster.now_ms + LONGEST_S * 1000
        while self.cluster.now_ms < until:
            wait = await self.look()
            if reached():
                return
            if helps:
                self._help()
            self.passes(30.0 if wait is None else max(wait, 0.02))
        raise AssertionError(f"it stays at: {self.message}")

    async def look(self) -> float | None:
        """Run one reconciliation."""
        with FileStore(read_document(self._document), self._state) as store:
            context = ReconcileContext(
                store, self._kafka, Environment(self._network.now, self._monotonic, sleep=self._sleep), self._ages,
                effects=self.effects.append, zookeeper=self._zookeeper,
            )  # fmt: skip
            done = await reconcile(context, await store.read())
        self.events += [one.reason for one in events_between(self.status, done.status)]
        self.status = done.status
        ready = done.status.condition(Condition.READY)
        assert ready is not None
        if not self.said or self.said[-1] != ready.message:
            self.said.append(ready.message)
        return done.requeue_after

    def passes(self, seconds: float) -> None:
        """Lets time pass."""
        self.cluster.advance(self.cluster.now_ms + int(seconds * 1000), sparse=True)

    def loses_controllers(self) -> None:
        """The operator alone does not reach them."""
        self._kafka, self._network = kafka_of(self.cluster, Access(reaches_controllers=False))

    def starts_anew(self, *, through: type[MigrationNetwork] = MigrationNetwork, remembers: bool = True) -> None:
        """Another process of the operator, which reaches the cluster in this way; the status may be lost with it."""
        self._kafka, self._network = kafka_of(self.cluster, through=through)
        self._ages = Ages(self._monotonic)
        if not remembers:
            self._state.unlink()

    # --- what a person does ---

    def _help(self) -> None:
        if self.reason == Reason.APPROVAL_REQUIRED and self.status.plan is not None:
            self._document["spec"]["approval"] = {"planHash": self.status.plan.hash}
        self.person.does(self.message)

    def _monotonic(self) -> float:
        return self.cluster.now_ms / 1000

    async def _sleep(self, seconds: float) -> None:
        self.passes(max(seconds, 0.001))
