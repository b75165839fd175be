"""Rolls a modelled cluster with the decisions of `core`, and judges each restart by sets alone.

P1 to P5 of a safe roll: a partition never loses its promise by a restart of ours; a majority of the controllers stays;
the leader goes last; never more away than there is room for; nothing starts while something is wrong that was not
expected.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.engine.desired_state import MaxParallel
from kafkafeatures.core.facts.quorum import is_caught_up, next_controller, why_not_restart
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.roll import planner
from tests.kafkafeatures.core.replicas import RESPECT, STRICT, forbids
from tests.rolls.model import Cluster, Partition

TICK, STABLE, TROUBLE = 5.0, 30.0, 3600.0


def _lagging(replication: Replication, node: int) -> frozenset[str]:
    return frozenset(replication.out_of_sync(node, 1_000_000)[1])


@dataclass
class Flight:
    """`life`: of before. `behind`: which partitions it was out of sync with then. `since`: it is back."""

    life: int
    behind: frozenset[str]
    since: float | None = None


class Roller:
    """Every node of the cluster needs one restart."""

    def __init__(self, cluster: Cluster) -> None:
        draw = cluster.random
        self.cluster = cluster
        self.rule = draw.choice(list(Availability))
        self.excused = draw.random() < 0.5
        self.wanted = draw.choice((1, 2, 3, 5, 300))
        self.most = planner.cap(MaxParallel(self.wanted), len(cluster.brokers))
        self.needing = {*cluster.brokers, *cluster.controllers}
        self.stuck = frozenset(broker for broker in cluster.brokers if draw.random() < 0.05)
        for broker in self.stuck:
            cluster.hang(broker)
        self.flights: dict[int, Flight] = {}
        self.steps = 0

    @property
    def away(self) -> frozenset[int]:
        """Who does not answer, or is fenced, for whatever reason."""
        nodes = {*self.cluster.brokers, *self.cluster.controllers}
        return frozenset((nodes - self.cluster.running) | self.cluster.fenced)

    @property
    def rolls_controllers(self) -> bool:
        """Whether some of them are done, and some are not."""
        return 0 < len(self.needing.intersection(self.cluster.controllers)) < len(self.cluster.controllers)

    def blocked(self) -> set[int]:
        """Who can never restart without a consent that is not given."""
        hosts = {broker for each in self.cluster.partitions if self.cluster.is_never(each) for broker in each.replicas}
        return set() if self.excused else hosts

    def step(self) -> None:
        """Look once; restart one node, or none."""
        self.steps += 1
        replication = Replication(self.cluster.read())
        self._settle(replication)
        node = self._next(replication)
        if node is not None:
            self._judge(node)
            self.needing.discard(node)
            self.flights[node] = Flight(self.cluster.lives[node], _lagging(replication, node))
            self.cluster.restart(node)

    def _settle(self, replication: Replication) -> None:
        for node, flight in list(self.flights.items()):
            quorum = self.cluster.quorum()
            back = self.cluster.lives[node] > flight.life and node not in self.away
            back = back and _lagging(replication, node) <= flight.behind
            if node in self.cluster.controllers:
                back = back and quorum is not None and is_caught_up(node, quorum)
            if back:
                behind = {
                    f"{each.topic}-{each.number}"
                    for each in self.cluster.partitions
                    if node in each.replicas and node not in each.isr | each.adding
                }
                assert behind <= flight.behind, f"not back: {node}, out of sync with {behind - flight.behind}"
            flight.since = None if not back else flight.since if flight.since is not None else self.cluster.now
            if flight.since is not None and self.cluster.now - flight.since >= STABLE:
                del self.flights[node]

    def _next(self, replication: Replication) -> int | None:
        quorum = self.cluster.quorum()
        down = frozenset(self.flights) | self.away
        for node in sorted(self.stuck & self.needing):
            if replication.judge(down, RESPECT, excused=self.excused).allows(node):
                return node
        if quorum is None or replication.reassigning()[0] or self._something_is_low(replication):
            return None
        if any(node in self.cluster.controllers for node in self.flights):
            return None
        controllers = frozenset(self.needing.intersection(self.cluster.controllers))
        if controllers:
            chosen = next_controller(controllers, quorum)
            assert chosen is not None
            return None if self.flights or why_not_restart(chosen, quorum, down - {chosen}) else chosen
        if len(down.intersection(self.cluster.brokers)) >= self.most:
            return None
        admission = replication.judge(down, self.rule, excused=self.excused)
        candidates = planner.order(replication, self.needing - down, most=self.most, availability=self.rule)
        return next((broker for broker in candidates if admission.allows(broker)), None)

    def _something_is_low(self, replication: Replication) -> bool:
        low, offline = replication.under_min_isr(excused=self.excused), replication.offline(excused=self.excused)
        return bool(low[0] or offline[0])

    def _judge(self, node: int) -> None:
        """Judges the restart that was just decided."""
        cluster = self.cluster
        stuck = node in self.stuck and node not in cluster.running
        down = (frozenset(self.flights) | self.away) - (set() if stuck else {node})
        rule = RESPECT if stuck else self.rule
        for each in cluster.partitions:
            least = cluster.least_of(each)
            told = f"{node} of {each} with {sorted(down)} down, {rule}, {least} required"
            assert not forbids(cluster.row(each), node, down, rule, least, excused=self.excused), f"P1: {told}"
            if not stuck and self.rule is STRICT:
                assert node not in each.replicas or not (each.adding or each.removing), f"P5: {told}"
            assert stuck or not self._is_low(each), f"P5: {told}"
        if node in cluster.controllers:
            staying = [
                id_ for id_ in cluster.controllers if id_ in cluster.running - cluster.behind - {node, *self.flights}
            ]
            assert len(staying) * 2 > len(cluster.controllers), f"P2: {node} of {cluster.controllers}"
            left = self.needing.intersection(cluster.controllers)
            assert node != cluster.leader or left == {node}, f"P3: {node} leads, {sorted(left)} are left"
        if node in cluster.brokers and not stuck:
            away = {*down, node}.intersection(cluster.brokers)
            assert len(away) <= self.wanted, f"P4: {node} and {sorted(down)}"

    def _is_low(self, partition: Partition) -> bool:
        least = self.cluster.least_of(partition)
        if self.excused and self.cluster.is_never(partition):
            least = len(set(partition.replicas) - partition.removing) - 1
        return len(partition.isr) < least


def roll(seed: int) -> int:
    """One roll from beginning to end, with things that go wrong in its first hour; how many steps it took."""
    cluster = Cluster(seed)
    roller = Roller(cluster)
    often = cluster.random.choice((0.0, 0.005, 0.03))
    try:
        while roller.needing or roller.flights:
            if cluster.now < TROUBLE and cluster.random.random() < often:
                cluster.go_wrong()
            if roller.rolls_controllers and cluster.random.random() < often:
                cluster.crash(cluster.random.choice(cluster.controllers))
            roller.step()
            cluster.pass_to(cluster.now + TICK)
            if cluster.now > TROUBLE + 600 and not roller.flights and roller.needing <= roller.blocked():
                break
            assert cluster.now < 10 * TROUBLE, f"{sorted(roller.needing)} not restarted, {roller.flights} in flight"
        assert all(times == 1 for times in cluster.stopped.values()), f"not once each: {cluster.stopped}"
    except AssertionError as broken:
        raise AssertionError(f"seed {seed}, at {cluster.now:.0f} s: {broken}") from broken
    return roller.steps
