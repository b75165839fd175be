"""A simulated cluster that is recorded: every level that moves, with the effect that moved it, and who comes and goes.

It can also do what Kafka seldom does: keep requests, answer without committing, and come back out of a backup. Used by
`kafka.py`, which says how processes of the operator reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from uuid import UUID

from kafkafeatures.core.facts.readings import Role
from kafkasim.log import MetadataLog, Write
from kafkasim.node import Node
from kafkasim.plan import Plan
from kafkasim.releases import KRAFT_VERSION, Release
from kafkasim.rules import FeatureUpdate
from kafkasim.world import CATCH_UP_MS, ControllerAnswer, NoActiveControllerError, World
from kraftlog import Replay, Section
from kraftlog.image import SMALL
from kraftlog.schema import table
from tests.reliability.records import Ended, Kept, Moved, Restored, Whole

START_MS = 1_800_000_000_000
KEPT_FOR_MS = 280_000
"""A broker keeps a request that no controller takes for about so long; the operator waits a little longer."""


class RecordedWorld(World):
    """A world that says who moved a level. `sender`: the number of the effect that is on its way now."""

    def __init__(
        self, plan: Plan, record: Callable[[Moved | Kept | Whole | Ended | Restored], None], random: Random
    ) -> None:
        self.sender: int | None = None
        self.hung: set[int] = set()
        """Nodes that do not answer, while their sessions continue."""
        self._record = record
        self._sections = frozenset(Section) if plan.topics else SMALL
        self._away: set[int] | None = None  # None while it is being made, and where it has no partitions
        self.levels_before: dict[str, int] | None = None
        """Before the last one moved; None while none has."""
        self.twice = 0.0
        self.healed = False
        self.busy_until_ms = 0
        """Until then the active controller's queue does not continue; what is asked of it meanwhile waits in it."""
        self.moved_ms = START_MS
        """When that was."""
        self.stands_from_ms = self.stands_until_ms = 0
        """In between the followers fetch nothing, and so nothing is committed, while the leader answers on."""
        self.loses_disks = False
        """A broker that starts finds another disk than the one it had, and an empty one."""
        self.emptied: set[int] = set()
        """Brokers that did, of which no person has said yet that it was meant."""
        self.behind_for_ms = 0
        """A controller that was started reads for so much longer what it missed."""
        super().__init__(plan, now_ms=START_MS, random=random)
        if plan.topics:
            self._away = self.away()

    @property
    def levels(self) -> dict[str, int]:
        """The levels, including those that are not committed yet."""
        image = self.leader_image
        return {**image.features, KRAFT_VERSION: image.kraft_version}

    @property
    def seconds(self) -> float:
        """Since the beginning of the history."""
        return (self.now_ms - START_MS) / 1000

    @property
    def is_busy(self) -> bool:
        """Tell whether the active controller processes no request of its queue."""
        return self.now_ms < self.busy_until_ms

    def later(self, at: Node, delay_ms: int, change: FeatureUpdate) -> None:
        """A message on its way to a node; it arrives if the same process still listens then."""
        number, life = self.sender, at.incarnation

        def arrive() -> None:
            if at.running and at.incarnation == life:
                with self.sent_by(number), suppress(NoActiveControllerError):
                    self.update_features(at, [change], validate_only=False)

        self.after(delay_ms, arrive)

    def update_features(self, at: Node, updates: Sequence[FeatureUpdate], *, validate_only: bool) -> ControllerAnswer:
        before = self.levels
        outcome = super().update_features(at, updates, validate_only=validate_only)
        after = self.levels
        if after != before:
            self.moved_ms = self.now_ms
            self.levels_before = {name: level for name, level in before.items() if level}
        for name in sorted(before.keys() | after.keys()):
            if before.get(name, 0) != after.get(name, 0):
                moved = (name, before.get(name, 0), after.get(name, 0))
                self._record(Moved(self.seconds, self.cluster_id, *moved, self.sender))
        return outcome

    @property
    def stands(self) -> bool:
        """Tell whether nothing is committed now."""
        return self.stands_from_ms <= self.now_ms < self.stands_until_ms

    def stand_still(self, for_ms: int) -> None:
        """Commit nothing from now on for so long."""
        self.stands_from_ms, self.stands_until_ms = self.now_ms, self.now_ms + for_ms

    def _commit(self, offset: int) -> None:
        if self.stands:
            self.after(self.stands_until_ms - self.now_ms, lambda: self._commit(offset))
        else:
            super()._commit(offset)

    def progress(self, node: Node) -> tuple[int, int, int]:
        end, fetched, caught_up = super().progress(node)
        if not self.stands or node.role is Role.BROKER or end < 0:
            return end, fetched, caught_up
        if node.id == self.active:
            return self.log.end_offset, self.now_ms, self.now_ms
        return end, self.stands_from_ms, self.stands_from_ms

    def restore(self, end: int) -> None:
        """All nodes are stopped, their metadata is that of a backup, and they are started again."""
        running = [node for _, node in sorted(self.nodes.items()) if node.running]
        for node in running:
            self.stop(node.role, node.id, kill=True)
        before = self.levels
        self._put_back(end)
        self._record(Restored(self.seconds, self.cluster_id, self.log.end_offset))
        for name in sorted(before.keys() | self.levels.keys()):
            moved = before.get(name, 0), self.levels.get(name, 0)
            if moved[0] != moved[1]:
                self._record(Moved(self.seconds, self.cluster_id, name, *moved, None))
        for node in running:
            self.start(node.role, node.id)

    def append(self, writes: Sequence[Write], *, commit: bool = False) -> None:
        super().append(writes, commit=commit)
        if len(writes) > 1 or writes[0].type is not table.NO_OP:
            self._look_around()

    def stop(self, role: Role, node_id: int, *, kill: bool = False) -> None:
        self.hung.discard(node_id)
        if self.nodes[role, node_id].running:
            self._record(Ended(self.seconds, self.cluster_id, node_id))
        super().stop(role, node_id, kill=kill)
        self._look_around()

    def _put_back(self, end: int) -> None:
        """Whole batches before this offset, and nothing that was in memory."""
        kept = [piece for piece in self.log.pieces if piece.end_offset <= end]
        self.log, self._replay = MetadataLog(), Replay(sections=self._sections)
        for piece in kept:
            self.log.append_piece(piece)
            self._replay.append(piece.data, below=piece.end_offset)
        self.log.commit(self.log.end_offset)
        self.epoch = kept[-1].epoch
        self._leader_image = self._image = self._replay.image()
        self._uncommitted.clear()
        self._pending_requests.clear()

    def start(self, role: Role, node_id: int, release: Release | None = None) -> None:
        node = self.nodes[role, node_id]
        if self.loses_disks and role is Role.BROKER and not node.running:
            node.directory = UUID(int=self.random.getrandbits(128))
            self.emptied.add(node_id)
        super().start(role, node_id, release)
        if role is Role.CONTROLLER and node.running:
            node.caught_up_ms += self.behind_for_ms
        self._look_around()
        self.after(CATCH_UP_MS + self.behind_for_ms, self._look_around)

    def start_again(self, role: Role, node_id: int) -> None:
        """Started again by its owner, as it was; at the end of the history it is healed instead."""
        if not self.healed:
            self.start(role, node_id)

    def serves(self, broker: Node) -> bool:
        """Tell whether the running process is registered, unfenced, and does not stop."""
        there = self.leader_image.brokers.get(broker.id)
        if not broker.running or there is None or there.incarnation != broker.incarnation:
            return False
        return not there.fenced and not there.in_controlled_shutdown

    def away(self) -> set[int]:
        """Nodes that are not wholly there: stopped, fenced, out of an ISR, or behind the leader."""
        found = {node.id for node in self.of_role(Role.BROKER) if not self.serves(node)}
        found |= {
            node.id for node in self.of_role(Role.CONTROLLER) if not node.running or self.now_ms < node.caught_up_ms
        }
        for one in self.partitions():
            if len(one.state.in_sync) != len(one.state.replicas):
                found.update(set(one.state.replicas) - one.state.in_sync)
        return found

    def _look_around(self) -> None:
        """Say who is back."""
        if self._away is None:
            return
        now = self.away()
        for node_id in sorted(self._away - now):
            self._record(Whole(self.seconds, self.cluster_id, node_id))
        self._away = now

    def keep(self, at: Node, request: Callable[[], object]) -> None:
        number, since = self.sender, self.now_ms

        if number is not None:
            self._record(Kept(self.seconds, number, False))

        def arrive() -> None:
            if number is not None:
                self._record(Kept(self.seconds, number, True))
            if at.running and self.now_ms - since <= KEPT_FOR_MS:
                with self.sent_by(number), suppress(NoActiveControllerError):
                    request()

        def deliver() -> None:
            """A controller leads again; the broker hears of it sooner or later."""
            self.after(self.random.choice((0, 200, 5_000, 60_000)), arrive)
            if self.random.random() < self.twice:
                self.after(self.random.randrange(60_000, 120_000), arrive)

        super().keep(at, deliver)

    def sent_by(self, number: int | None) -> _Sender:
        """While this is entered, whatever arrives is of this effect."""
        return _Sender(self, number)


class _Sender:
    def __init__(self, world: RecordedWorld, number: int | None) -> None:
        self._world, self._number, self._before = world, number, world.sender

    def __enter__(self) -> None:
        self._world.sender = self._number

    def __exit__(self, *_: object) -> None:
        self._world.sender = self._before
