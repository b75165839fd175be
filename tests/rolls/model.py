"""A cluster in virtual time: brokers and controllers stop, crash, hang and come back, and partitions are moved.

Small, and by sets alone: it shares no line with what is tested. The order of what happens is Kafka's: a broker that is
asked to stop leaves every ISR at once, except where it is the last of one; one that crashes does when its session ends;
one that comes back joins the ISR of one partition after the other, as it catches up with their leaders; a reassignment
ends when every replica that was added is in sync (`ReplicationControlManager`). All chance comes from one seed.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from kafkafeatures.core.facts.readings import PartitionsReading, QuorumAnswer, ReplicaProgress
from tests.kafkafeatures.core.replicas import Row, least_of, reading

SESSION = 9.0  # broker.session.timeout.ms
FETCH_MS = 500
EPOCH_MS = 1_700_000_000_000


@dataclass
class Partition:
    topic: str
    number: int
    replicas: list[int]
    isr: set[int]
    adding: set[int] = field(default_factory=set)
    removing: set[int] = field(default_factory=set)

    def row(self, running: set[int]) -> Row:
        """The partition as the controller sees it; only a running broker may lead."""
        isr, adding, removing = (frozenset(each) for each in (self.isr, self.adding, self.removing))
        return Row(self.topic, tuple(self.replicas), isr, adding, removing, self.number, offline=not isr & running)


class Cluster:
    """Brokers 0, 1, ... and controllers 100, 101, ... `running`: who serves. `fenced`: whom the controller sees so.
    `behind`: controllers that fetch, and still read what they missed.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        draw = self.random
        self.brokers = list(range(draw.randint(3, 12)))
        self.controllers = list(range(100, 100 + draw.choice((3, 3, 5))))
        self.leader = draw.choice(self.controllers)
        self.running = {*self.brokers, *self.controllers}
        self.fenced: set[int] = set()
        self.behind: set[int] = set()
        self.lives = Counter(self.running)  # how often each was started
        self.stopped: Counter[int] = Counter()  # how often each was asked to stop
        self.default = draw.choice((1, 2, 2, 2))
        self.least = {f"t{number}": draw.randint(1, 3) for number in range(6) if draw.random() < 0.3}
        self.partitions = [self._partition(number) for number in range(draw.randint(1, 40))]
        self.faults = 0  # failures that were not asked for, so far

    def _partition(self, number: int) -> Partition:
        draw = self.random
        replicas = draw.sample(self.brokers, min(len(self.brokers), draw.choice((1, 2, 3, 3, 3, 3, 4, 5))))
        if len(self.brokers) >= 6 and draw.random() < 0.7:  # in three racks
            racks = [[broker for broker in self.brokers if broker % 3 == rack] for rack in range(3)]
            replicas = [draw.choice(rack) for rack in racks]
        return Partition(f"t{draw.randrange(6)}", number, replicas, set(replicas))

    # --- time

    def after(self, seconds: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), happens))

    def pass_to(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, happens = heapq.heappop(self._events)
            happens()
        self.now = until

    # --- what is seen

    def read(self) -> PartitionsReading:
        return reading(*(self.row(each) for each in self.partitions), default=self.default, least=self.least)

    def quorum(self) -> QuorumAnswer | None:
        """None while no majority runs."""
        running = [id_ for id_ in self.controllers if id_ in self.running]
        if len(running) * 2 <= len(self.controllers) or self.leader not in self.running:
            return None
        clock = EPOCH_MS + int(self.now * 1000)
        voters = (
            ReplicaProgress(id_, 10, fetched, 0 if id_ in self.behind else fetched)
            for id_ in self.controllers
            for fetched in [clock if id_ == self.leader else clock - FETCH_MS if id_ in self.running else 0]
        )
        return QuorumAnswer(self.leader, 1, 10, tuple(voters), ())

    def least_of(self, partition: Partition) -> int:
        return least_of(self.row(partition), self.default, self.least)

    def row(self, partition: Partition) -> Row:
        return partition.row(self.running - self.fenced)

    def is_never(self, partition: Partition) -> bool:
        """Whether no restart of one of its brokers keeps its promise."""
        return self.least_of(partition) >= len(set(partition.replicas) - partition.removing)

    # --- what happens

    def leave(self, broker: int) -> None:
        """Out of every ISR but where it is the last: fenced, or in controlled shutdown."""
        for partition in self.partitions:
            if partition.isr != {broker}:
                partition.isr.discard(broker)

    def restart(self, node: int) -> None:
        """Restarts a node on request."""
        self.stopped[node] += 1
        faults = self.faults
        if node in self.controllers:
            self._end(node)
        elif node in self.running:
            self.after(self.random.uniform(0.1, 5), lambda: self._shut_down(node, faults))
        self.after(self.random.lognormvariate(4, 0.5) + 6, lambda: self.start(node))

    def _shut_down(self, broker: int, faults: int) -> None:
        """`faults`: how many there were when it was asked for. Unless one came since, every promise is kept."""
        before = [(each, len(each.isr)) for each in self.partitions]
        self.leave(broker)
        self._end(broker)
        self.fenced.add(broker)
        if faults == self.faults:
            for each, count_before in before:
                least = self.least_of(each)
                assert len(each.isr) >= least or count_before < least or self.is_never(each), f"P1: {each}"

    def hang(self, broker: int) -> None:
        """The broker crashes again and again, until it is restarted with something that runs."""
        self.running.discard(broker)
        self._time_out(broker)

    def _end(self, node: int) -> None:
        self.running.discard(node)
        if node == self.leader:
            alive = [id_ for id_ in self.controllers if id_ in self.running - self.behind]
            self.leader = self.random.choice(alive or self.controllers)

    def crash(self, node: int) -> None:
        """Ends a node unexpectedly."""
        if node not in self.running:
            return
        self.faults += 1
        self._end(node)
        if node in self.brokers:
            self.after(SESSION, lambda: self._time_out(node))
        self.after(self.random.uniform(20, 400), lambda: self.start(node))

    def _time_out(self, broker: int) -> None:
        if broker not in self.running:
            self.leave(broker)
            self.fenced.add(broker)

    def start(self, node: int) -> None:
        if node in self.running:
            return
        self.running.add(node)
        self.fenced.discard(node)
        self.lives[node] += 1
        if node in self.controllers and node != self.leader:
            self.behind.add(node)
            self.after(self.random.uniform(0.5, 60), lambda: self.behind.discard(node))
        for partition in self.partitions:
            if node in partition.replicas:
                self._catch_up(node, partition)

    def _catch_up(self, broker: int, partition: Partition) -> None:
        def joins() -> None:
            if broker not in self.running or broker not in partition.replicas or broker in partition.isr:
                return
            if not partition.isr & self.running:
                self.after(5, joins)
                return
            partition.isr.add(broker)
            if partition.adding and partition.adding <= partition.isr:
                self._end_of_move(partition)

        self.after(self.random.uniform(0.5, 60), joins)

    def move(self, partition: Partition) -> None:
        """Begins a reassignment, from outside: one replica to another broker, or one more."""
        others = sorted(set(self.brokers) - set(partition.replicas))
        if partition.adding or partition.removing or not others:
            return
        self.faults += 1
        added = self.random.choice(others)
        if self.random.random() < 0.8:
            partition.removing = {self.random.choice(partition.replicas)}
        partition.replicas.append(added)
        partition.adding = {added}
        self._catch_up(added, partition)

    def _end_of_move(self, partition: Partition) -> None:
        staying = [broker for broker in partition.replicas if broker not in partition.removing]
        partition.replicas, partition.isr = staying, partition.isr - partition.removing
        partition.adding, partition.removing = set(), set()

    def go_wrong(self) -> None:
        """Something that may go wrong in any cluster."""
        if self.random.random() < 0.5:
            self.crash(self.random.choice([*self.brokers, *self.controllers]))
        else:
            self.move(self.random.choice(self.partitions))
