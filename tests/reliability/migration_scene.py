"""The parts of one history of a migration: a document, a cluster, processes of the operator, and random faults.

The base of `migration_person.py`, which adds a person, and of `migrations.py`, which says what happens when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.reconcile.connections import OpenCluster
from kafkafeatures.zookeeper.ensemble import Ensemble as Servers
from kafkasim.migration.cluster import Faults, MigratingCluster
from tests.reliability.another_ensemble import AnotherEnsemble, another_cluster
from tests.reliability.kafka import Roads
from tests.reliability.migrating_cluster import Ensemble, Migrating, MigrationConnection
from tests.reliability.process import Process, Weather
from tests.reliability.records import History
from tests.reliability.scene import RecordedScene

LOWERS = "metadata.version:21->20"
"""A consent to the only level that a cluster of Kafka 3.9 could move to."""
NAMESPACE, NAME = "kafka", "orders"
SERVERS, CHROOT = "zk1:2181,zk2:2181,zk3:2181", "/kafka"


class MigrationProcess(Process):
    """A process of the operator that reaches this cluster, and its ensemble."""

    cluster: Migrating
    other: MigratingCluster

    def _open(self, settings: ClusterSettings) -> Any:
        name = settings.bootstrap_servers[0].host.partition(".")[0]
        controllers = settings.bootstrap_controllers[0].host.partition(".")[2]
        made = self._opened[name] = MigrationConnection(self, name, self.cluster, controllers)  # type: ignore[assignment]
        return made

    def _open_ensemble(self, ensemble: Servers, cluster: OpenCluster) -> Ensemble | AnotherEnsemble:
        assert isinstance(cluster, MigrationConnection)
        if ensemble.chroot != CHROOT:
            return AnotherEnsemble(cluster, self.other)
        return Ensemble(cluster)


class MigrationScene(RecordedScene):
    """See the module."""

    def __init__(self, seed: int) -> None:
        super().__init__(Random(f"{seed} migration"), History(seed, migrates=True))
        self.processes: list[MigrationProcess] = []
        self._topics = 0
        self.stopped: set[tuple[Role, int]] = set()
        """What a person, or Git, wants stopped."""
        self.weather = self._drawn_weather()
        pick = self.random.choice
        self.cluster = Migrating(
            self.random, self.loop.time, self.history.records.append, epoch=pick((1, 1, 40)), count=pick((3, 3, 4))
        )
        self.cluster.stale = pick((0.0, 0.3, 0.8))
        self.other = another_cluster(Random(f"{seed} another"))
        self.asleep_until = 0.0
        self.taken_out: dict[str, Any] = {}
        self._around = self.surrounding({})

    def _drawn_weather(self) -> Weather:
        def chance(most: float) -> float:
            return self.random.random() * most if self.random.random() < 0.4 else 0.0

        roads = Roads(lost_before=chance(0.15), lost_after=chance(0.15), slow=chance(0.3), late=chance(1.0))
        return Weather(
            chance(0.02), chance(0.1), chance(0.1), chance(0.1), chance(0.5), chance(0.5), chance(0.2), roads
        )

    def _note_asked(self, *_: object) -> int:
        raise AssertionError("nothing restarts nodes but the person")

    # --- the document, and processes ---

    def spec(self, desired: str) -> dict[str, Any]:
        return {
            "mode": "Apply",
            "cluster": {
                "bootstrapServers": f"{NAME}.a:9092",
                "bootstrapControllers": f"{NAME}.a:9093",
                "zookeeper": {"connect": f"{SERVERS}{CHROOT}"},
            },
            "workload": {"driver": "Manual"},
            "rollout": {"stableFor": "1s", "nodeTimeout": "2m"},
            "features": {"levels": [{"name": "metadata.version", "level": 20}]} if self.random.random() < 0.3 else {},
            "consents": [LOWERS],
            "approval": {"policy": self.random.choice(("IrreversibleOnly", "IrreversibleOnly", "Always"))},
            "migration": {"desired": desired, "holdDualWriteFor": self.random.choice(("1m", "1m", "3m"))},
        }

    @property
    def stored(self) -> dict[str, Any]:
        """The resource as it is stored."""
        found = self.server.stored(NAMESPACE, NAME)
        assert found is not None
        return found

    @property
    def desired(self) -> str:
        """The state that the document asks for, or asked for last if the migration was removed from it."""
        return str((self.stored["spec"].get("migration") or self.taken_out)["desired"])

    @property
    def ready(self) -> Mapping[str, Any]:
        """The condition Ready."""
        conditions = (self.stored.get("status") or {}).get("conditions", ())
        return next((one for one in conditions if one["type"] == "Ready"), {})

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        self.server.change(NAMESPACE, NAME, change)

    def set(self, **fields: Any) -> None:
        self.edit(lambda one: one["spec"].update(fields))

    def ask_for(self, desired: str) -> None:
        if "migration" in self.stored["spec"]:
            self.edit(lambda one: one["spec"]["migration"].update(desired=desired))

    def begin(self) -> None:
        self._instances += 1
        made = MigrationProcess(self._around, f"operator-{self._instances}", "operator")
        made.cluster, made.other = self.cluster, self.other
        self.processes.append(made)

    async def revive(self) -> None:
        self.processes = [one for one in self.processes if not one.dead]
        if not self.processes and self.loop.time() >= self.asleep_until and self.random.random() < 0.7:
            self.begin()

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.cluster.catch_up()

    def a_write_is_lost(self) -> None:
        """For some time the quorum's changes are not written to ZooKeeper."""
        self.fails(Faults(lost_writes=1.0, epoch=self.cluster.faults.epoch), 5.0 + 20.0 * self.random.random())

    def fails(self, faults: Faults, seconds: float) -> None:
        """For so long, with a topic that is made meanwhile."""
        self.cluster.faults = faults
        self.a_topic_is_made()

        def again() -> None:
            self.cluster.faults = Faults(epoch=self.cluster.faults.epoch)

        self.loop.call_later(seconds, again)

    def a_topic_is_made(self) -> None:
        self._topics += 1
        self.cluster.make(f"made-{self._topics}")

    def note(self, text: str) -> None:
        """Describe what happens now."""
        self.history.acts.append(f"{self.loop.time():.3f} {text}")
