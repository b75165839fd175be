"""`kafkafeatures demo --story migrate`: a simulated cluster goes from ZooKeeper to KRaft, after one rollback.

It runs in this process (see `scene.py`) on a simulated Kafka cluster and ZooKeeper. With `driver: Manual` the status
asks a person for restarts; the script plays that person, who changes the node's properties and restarts it. It ends
with exit code 1 if anything differs from the story.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import Status
from kafkafeatures.cli.demo.scene import BEGINS_MS, Scene, play
from kafkafeatures.cli.demo.text import not_the_story, show, tell, title
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.reconcile.act import Reconciliation
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.file_store import FileStore
from kafkasim.migration.cluster import Faults, MigratingCluster
from kafkasim.migration.person import ASKED, Person
from kafkasim.migration.ports import SimulatedEnsemble, kafka_of
from kafkasim.plan import TopicPlan

_TOPICS = (TopicPlan("orders", ((1, 2, 3), (2, 3, 1), (3, 1, 2)), 2),)
_DOCUMENT = """\
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: demo, namespace: kafka}
spec:
  cluster:
    bootstrapServers: brokers:9092
    bootstrapControllers: controllers:9093
    zookeeper: {connect: "zk1:2181,zk2:2181,zk3:2181/kafka"}
  workload: {driver: Manual}
  rollout: {stableFor: 10s}
  migration:
    desired: DualWrite
    holdDualWriteFor: 1h
"""


def tell_the_migration() -> None:
    """Play the story. Raises CommandFailed if a reconciliation decides otherwise than the story says."""
    play(_MigrationScene, _tell)


async def _tell(scene: _MigrationScene) -> None:
    title("From ZooKeeper to KRaft")
    tell(
        "This is a SIMULATED cluster: three brokers of Kafka 3.9 that keep their metadata in ZooKeeper. No Kafka and "
        "no ZooKeeper run here, and the clock is simulated too. The operator's own reconciliation decides; a person "
        "does what its status asks for. The lines below are its Events, and what it waits for; where it asks for the "
        "same of each node, only the first time is shown."
    )
    show(_DOCUMENT)
    await scene.until(_is_at(Position.COPIED))

    tell(
        "All is copied, the quorum is the controller, and each change is written to both. Nothing is final yet, and a "
        "rollback is tried before there is need of one. RolledBack is pushed to Git."
    )
    scene.ask("RolledBack")
    await scene.until(_is_in_sync)
    scene.must_be_controlled_by(Role.BROKER)

    tell("ZooKeeper holds the metadata again, and no topic was lost. The second attempt begins with wiped disks.")
    scene.wipe()
    scene.ask("DualWrite")
    await scene.until(_is_in_sync)

    tell(
        "Every broker runs in KRaft mode. Then one write to ZooKeeper gets lost, which Kafka never repeats and no tool "
        "of Kafka shows. Finalized is pushed to Git, with the consent that it needs."
    )
    scene.lose_a_write()
    scene.ask("Finalized", "zk-finalize")
    await scene.until(lambda status: status.reason(Condition.READY) == Reason.APPROVAL_REQUIRED)

    tell("The hour is over. From here on there is no way back, so a person approves: `kafkafeatures approve`.")
    scene.approve()
    await scene.until(lambda status: status.reason(Condition.READY) == Reason.METADATA_DIFFERS)

    tell(
        "Refused: the way back would lose a topic. The remedy that the status names is to restart the active "
        "controller: the next one writes all anew."
    )
    scene.restart_the_active_controller()
    await scene.until(_is_in_sync)
    scene.must_be_finalized()
    tell(
        f"That took {scene.time} of simulated time. Each node was restarted once in each roll, the active controller "
        "last; ZooKeeper is no longer needed."
    )


def _is_at(position: Position) -> Callable[[Status], bool]:
    return lambda status: status.migration is not None and status.migration.position == position


def _is_in_sync(status: Status) -> bool:
    return status.reason(Condition.READY) == Reason.IN_SYNC


class _MigrationScene(Scene):
    """The simulated cluster, and the person who restarts its nodes."""

    def __init__(self, state: Path) -> None:
        rng = Random(1)  # noqa: S311 - ids of a simulation, no secret
        self._cluster = MigratingCluster(now_ms=BEGINS_MS, random=rng, topics=_TOPICS)
        self._kafka, _ = kafka_of(self._cluster)
        self._person = Person(self._cluster)
        self._shown_subjects = frozenset[str]()
        super().__init__(self._cluster, _DOCUMENT, state)

    def context(self, store: FileStore) -> ReconcileContext:
        return ReconcileContext(
            store, self._kafka, self.environment, self.ages,
            effects=self.effects.append, zookeeper=SimulatedEnsemble(self._cluster),
        )  # fmt: skip

    def after_reconciliation(self, previous_status: Status, done: Reconciliation) -> None:
        """Let the person do what the message of Ready asks for."""
        ready = done.status.condition(Condition.READY)
        self._person.does("" if ready is None else ready.message)

    def is_shown(self, message: str, reason: str | None) -> bool:
        """True if the message is shown: of those that ask for the same of each node only the first; and no mere
        progress.
        """
        match = ASKED.search(message)
        if match is None and reason in (Reason.ROLLING_NODES, Reason.PREFLIGHT, Reason.MIGRATING):
            return False
        subject = match[3] if match is not None else message.partition(", of which")[0]
        is_new, self._shown_subjects = subject not in self._shown_subjects, self._shown_subjects | {subject}
        return is_new

    # --- what people do ---

    def ask(self, desired: str, *consents: str) -> None:
        """Ask for this phase, and give these consents, in Git."""
        show(f"  migration: {{desired: {desired}, holdDualWriteFor: 1h}}")
        self._document["spec"]["migration"]["desired"] = desired
        if consents:
            show(f"  consents: [{', '.join(consents)}]")
            self._document["spec"]["consents"] = list(consents)
        show("")

    def wipe(self) -> None:
        """Empty the disks of the controllers, which the operator asks for after the cluster went back to ZooKeeper."""
        self._cluster.wipe()

    def lose_a_write(self) -> None:
        """Create a topic, and lose the active controller's writes of it to ZooKeeper."""
        self._cluster.faults = Faults(lost_writes=1.0)
        if not self._cluster.create_topic(TopicPlan("payments", ((1, 2, 3),), 2)):
            raise not_the_story("no topic could be made")
        self.advance(2_000)
        self._cluster.faults = Faults()

    def restart_the_active_controller(self) -> None:
        quorum = self._cluster.quorum
        if quorum is None or quorum.active is None:
            raise not_the_story("no controller is active")
        show(f"  controller {quorum.active} was restarted\n")
        self._cluster.restart(Role.CONTROLLER, quorum.active)

    # --- what is checked ---

    def must_be_controlled_by(self, role: Role) -> None:
        """Raise CommandFailed unless the controller is a broker, or the quorum if `role` is CONTROLLER, and all topics
        are there.
        """
        by_quorum = self._cluster.is_led_by_quorum
        topics = {
            partition.topic for partition in (self._cluster.deciding.partitions() if self._cluster.deciding else ())
        }
        if by_quorum == (role is Role.BROKER) or not topics >= {topic.name for topic in _TOPICS}:
            raise not_the_story(f"controlled by the quorum: {by_quorum}; topics: {sorted(topics)}")

    def must_be_finalized(self) -> None:
        """Raise CommandFailed unless the quorum is the controller, and no broker runs in ZooKeeper mode."""
        self.must_be_controlled_by(Role.CONTROLLER)
        if any(self._cluster.zookeeper.nodes[Role.BROKER, broker_id].running for broker_id in self._cluster.broker_ids):
            raise not_the_story("a broker still runs in ZooKeeper mode")
