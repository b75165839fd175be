"""The migration driver of the active controller: takes over from ZooKeeper, copies metadata, writes to both
sides, and ends the migration.

Called by `cluster` after every event. Like Kafka, it decides by three facts without comparing them: the state in the
metadata log, the znode `/migration`, and the flag of the process. If one is wrong, it skips the copy, waits for ever,
or ends the migration while brokers are in ZooKeeper mode, like Kafka.

Source: `KRaftMigrationDriver`, `ActivationRecordsGenerator` and `KafkaZkClient` of Kafka 3.9, and what was seen on real
nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Protocol

from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.znodes import Znode
from kafkasim import registrations
from kafkasim.log import Write
from kafkasim.migration import topics
from kafkasim.migration.tree import Tree
from kafkasim.node import Node
from kafkasim.world import World
from kraftlog.image import ZkMigrationState
from kraftlog.schema import table

CONTROLLER, EPOCH, PROGRESS = "/controller", "/controller_epoch", "/migration"
BROKERS = "/brokers/ids"
READY_MS, COPY_MS = 400, 200
"""Times in ms: from the election of the controller to its claim, and from that to the copy or the rewrite."""


class Driving(Enum):
    """States of the driver of the active controller."""

    WAITING = auto()  # for the quorum, and for brokers
    CLAIMED = auto()  # `/controller` is its own; the copy, or the rewrite, is next
    WRITING = auto()  # to both sides
    INACTIVE = auto()  # for as long as this controller leads


class DrivenCluster(Protocol):
    """The part of the cluster that the driver needs."""

    now_ms: int
    tree: Tree

    def raise_epoch(self) -> None:
        """Raise the epoch of the controller in ZooKeeper, as each claim of `/controller` does."""

    def deposed(self) -> None:
        """Note that the broker which was the controller has lost `/controller` to the quorum."""

    def led_by_quorum(self) -> None:
        """Note that from now on the quorum decides about partitions."""

    def finalized(self) -> None:
        """Note that the migration is over."""

    def loses_a_write(self) -> bool:
        """True if the next write to ZooKeeper does not arrive."""

    def stalls(self) -> bool:
        """True if nothing is written to ZooKeeper now."""


class Driver:
    """The driver of one quorum. `lost`: topics whose writes to ZooKeeper were lost, until everything is written
    again.
    """

    def __init__(self, cluster: DrivenCluster, quorum: World) -> None:
        self._cluster, self._quorum = cluster, quorum
        self.driving = Driving.WAITING
        self.lost: set[str] = set()
        self._epoch = -1  # epoch of the controller whose driver this is
        self._since_ms = 0  # time at which `driving` began
        self._mirrored: object = None  # the partitions that were written to ZooKeeper last

    @property
    def _tree(self) -> Tree:
        return self._cluster.tree

    @property
    def state(self) -> ZkMigrationState | None:
        """The state of the migration in the metadata log."""
        return ZkMigrationState.of(self._quorum.leader_image.zk_migration_state or 0)

    def step(self) -> None:
        """Do what is due now."""
        quorum, now_ms = self._quorum, self._cluster.now_ms
        flagged = any(controller.running and controller.migrating for controller in quorum.of_role(Role.CONTROLLER))
        if flagged and self._tree.get(PROGRESS) is None:  # written by the first flagged controller that starts
            self._progress(-1, -1, -1)
        leader = quorum.active_node
        if leader is None:
            return
        if quorum.epoch != self._epoch:
            self._epoch, self._since_ms, self.driving = quorum.epoch, now_ms, Driving.WAITING
            if not leader.migrating and self.state is ZkMigrationState.MIGRATION:
                quorum.append([registrations.migration(ZkMigrationState.POST_MIGRATION)])
                self._cluster.finalized()
        if not leader.migrating or self.driving is Driving.INACTIVE:
            return
        waited = now_ms - self._since_ms
        if self.driving is Driving.WAITING and waited >= READY_MS:
            self._take_over(leader)
        elif self.driving is Driving.CLAIMED and waited >= COPY_MS:
            self._begin_to_write()
        elif self.driving is Driving.WRITING and not self._cluster.stalls():
            self._mirror()

    def due_ms(self) -> int | None:
        """The time at which the next step is due; None if time alone brings none."""
        if self._quorum.active is None or self.driving in (Driving.WRITING, Driving.INACTIVE):
            return None
        wait = READY_MS if self.driving is Driving.WAITING else COPY_MS
        due = self._since_ms + wait
        return due if due > self._cluster.now_ms else None

    # --- to take over ---

    def _take_over(self, leader: Node) -> None:
        """Claim `/controller` if the state allows it, before the copy only once voters and brokers are ready; else
        wait, or do nothing for as long as this controller leads.
        """
        state, copied = self.state, self._offset() > 0
        if state is ZkMigrationState.POST_MIGRATION or state is ZkMigrationState.NONE:
            self.driving = Driving.INACTIVE
        elif state is ZkMigrationState.MIGRATION and not copied:
            # Kafka: "KRaft controller indicates an active migration, but the ZK state does not".
            self.driving = Driving.INACTIVE
        elif state is ZkMigrationState.MIGRATION or self._all_are_there():
            self._claim(leader)

    def _all_are_there(self) -> bool:
        """True if every voter has the flag, and every broker that is in ZooKeeper, or in an assignment of a topic, is
        registered with the quorum.
        """
        image = self._quorum.image
        voters = [image.controllers.get(id_) for id_ in self._quorum.voters]
        if any(voter is None or not voter.zk_migration_ready for voter in voters):
            return False
        brokers = {int(id_) for id_ in self._tree.below(BROKERS)}
        for topic in topics.topics(self._tree):
            brokers |= {
                each for assignment in topic.partitions.values() for each in (*assignment.replicas, *assignment.adding)
            }
        registered = {
            broker.id for broker in image.brokers.values() if broker.is_migrating_zk_broker and not broker.fenced
        }
        return bool(brokers) and brokers <= registered

    def _claim(self, leader: Node) -> None:
        """Replace the claim of a broker, or of an earlier leader of the quorum, by that of this leader. One of this
        epoch or a later one stays.
        """
        claim = self._tree.get(CONTROLLER)
        if claim is not None and znodes.controller(claim).kraft_epoch >= self._epoch:
            return
        self._tree.delete(CONTROLLER)
        document = {"version": 2, "brokerid": leader.id, "timestamp": "0", "kraftControllerEpoch": self._epoch}
        self._tree.create(CONTROLLER, json.dumps(document).encode())
        self._cluster.raise_epoch()
        self._progress(self._offset(), leader.id, self._epoch)
        self._cluster.deposed()
        self.driving, self._since_ms = Driving.CLAIMED, self._cluster.now_ms

    # --- the copy, and what is written to ZooKeeper ---

    def _begin_to_write(self) -> None:
        """Copy metadata into the log if that was not done yet; then write all back, and continue with changes."""
        quorum = self._quorum
        if self.state is ZkMigrationState.PRE_MIGRATION and self._offset() <= 0:
            image = quorum.leader_image
            directories = {broker.id: broker.directory for broker in quorum.of_role(Role.BROKER)}
            copied = topics.records(self._tree, image, directories, quorum.metadata_version)
            begin = Write(table.BEGIN_TRANSACTION, {"name": "ZK Migration"})
            state = registrations.migration(ZkMigrationState.MIGRATION)
            quorum.append([begin, *copied, state, Write(table.END_TRANSACTION, {})], commit=True)
        # With a stale /migration nothing is copied, so all topics are missing in the log, and are deleted in ZooKeeper.
        self._cluster.led_by_quorum()
        self.lost.clear()
        self._write(all_of_it=True)
        self.driving = Driving.WRITING

    def _mirror(self) -> None:
        """Write what has changed in the log to ZooKeeper, and how far the log was read."""
        image = self._quorum.image
        if image.partitioned is not self._mirrored:
            self._write(all_of_it=False)
        if self._offset() != image.offset - 1 and self._quorum.active is not None:
            self._progress(image.offset - 1, self._quorum.active, self._epoch)

    def _write(self, *, all_of_it: bool) -> None:
        """Write topics to ZooKeeper, and delete those that the log does not have. `all_of_it`: also topics whose writes
        were lost; then no write is lost.
        """
        image = self._quorum.image
        self._mirrored = image.partitioned
        znodes_by_topic = topics.written(image, self._epoch, topics.states(self._tree))
        for topic, contents in znodes_by_topic.items():
            changed = any(znode is None or znode.data != data for znode, data in self._current_and_desired(contents))
            if changed and not all_of_it and self._cluster.loses_a_write():
                self.lost.add(topic)
            if all_of_it or topic not in self.lost:
                for path, data in contents.items():
                    self._tree.write(path, data)
        for topic in list(self._tree.below(topics.TOPICS)):
            if topic not in znodes_by_topic:
                self._tree.delete(f"{topics.TOPICS}/{topic}")
                self._tree.delete(f"{topics.CONFIGS}/{topic}")
        if self._quorum.active is not None:
            self._progress(image.offset - 1, self._quorum.active, self._epoch)

    def _current_and_desired(self, contents: Mapping[str, bytes]) -> Iterator[tuple[Znode | None, bytes]]:
        """Pairs of the znode at a path, None where it is absent, and the data that it should have."""
        return ((self._tree.get(path), data) for path, data in contents.items())

    def _offset(self) -> int:
        """Offset up to which ZooKeeper has the log, by `/migration`; -1 before the copy."""
        znode = self._tree.get(PROGRESS)
        return -1 if znode is None else znodes.migration(znode).offset

    def _progress(self, offset: int, controller: int, epoch: int) -> None:
        """Write `/migration`."""
        document = {
            "version": 0, "kraft_metadata_offset": offset, "kraft_controller_id": controller,
            "kraft_metadata_epoch": epoch, "kraft_controller_epoch": epoch,
        }  # fmt: skip
        self._tree.write(PROGRESS, json.dumps(document, separators=(",", ":")).encode())
