"""A live node that is too old for a level is waited for, and stalls the resource after a timeout without any change."""

from __future__ import annotations

from datetime import timedelta

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.decisions import Done, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState, Rollout
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.reconcile.act import Reconciliation
from kafkasim.releases import release_named
from tests.kafkafeatures.reconcile.simulated import Cluster, Store
from tests.kafkafeatures.reconcile.test_ages import Clocks
from tests.kafkasim.clusters import plan

TIMEOUT = timedelta(minutes=20)
CONTROLLERS = dict.fromkeys((3001, 3002, 3003), "4.4")


class Upgrade:
    """A cluster at 25 whose document asks for 29. Brokers 2 and 3 are too old."""

    def __init__(self) -> None:
        self.cluster, self.clocks = (
            Cluster({"metadata.version": 25}, plan({1: "4.4", 2: "4.1", 3: "4.1"}, CONTROLLERS)),
            Clocks(),
        )
        self.store = Store(self.cluster, {})
        self.store.wanted = DesiredState({"metadata.version": 29}, rollout=Rollout(node_timeout=TIMEOUT))

    def look(self, after: timedelta = timedelta(0)) -> Reconciliation:
        self.clocks.wait(after)
        return self.clocks.reconcile(self.cluster, self.store)

    def upgrade(self, id_: int) -> None:
        world = self.cluster.world
        world.stop(Role.BROKER, id_)
        world.advance(world.now_ms + 15_000)
        world.start(Role.BROKER, id_, release_named("4.4"))
        world.advance(world.now_ms + 30_000)


def expect_wait(last: Reconciliation) -> str:
    assert isinstance(last.decision, Wait), last.decision
    assert last.decision.reason is Reason.WAITING_FOR_NODES
    return last.decision.message


def test_a_wait_for_old_nodes_stalls_with_its_start_after_the_timeout_of_the_document() -> None:
    upgrade = Upgrade()
    expect_wait(upgrade.look())
    since = upgrade.store.status["nodesBehind"]["since"]
    assert upgrade.store.status["nodesBehind"]["nodes"] == "2-3"
    expect_wait(upgrade.look(TIMEOUT))
    for _ in range(3):
        stalled = upgrade.look(timedelta(seconds=1)).decision
        assert isinstance(stalled, Stalled)
        assert stalled.reason is Reason.NODES_BEHIND
        assert f"unchanged for more than 20 min, since {since}; upgrade Kafka on" in stalled.message
        assert stalled.subject == "2 brokers (2, 3)"
        assert stalled.remedy == (
            "upgrade Kafka on these brokers, or raise spec.rollout.nodeTimeout (20 min) to wait longer"
        )


def test_the_upgrade_of_one_node_restarts_the_timeout_for_the_others() -> None:
    upgrade = Upgrade()
    expect_wait(upgrade.look())
    expect_wait(upgrade.look(TIMEOUT - timedelta(minutes=1)))
    upgrade.upgrade(2)
    expect_wait(upgrade.look(timedelta(minutes=2)))
    assert upgrade.store.status["nodesBehind"]["nodes"] == "3"
    expect_wait(upgrade.look(TIMEOUT))
    assert isinstance(upgrade.look(timedelta(seconds=1)).decision, Stalled)
    upgrade.upgrade(3)
    for _ in range(5):
        last = upgrade.look(timedelta(seconds=5))
    assert isinstance(last.decision, Done)
    assert "nodesBehind" not in upgrade.store.status


def test_an_old_node_that_does_not_run_is_a_ghost_and_never_counts_as_left_behind() -> None:
    upgrade = Upgrade()
    upgrade.upgrade(2)
    expect_wait(upgrade.look())
    upgrade.cluster.world.stop(Role.BROKER, 3, kill=True)
    upgrade.cluster.world.advance(upgrade.cluster.world.now_ms + 60_000)
    upgrade.look(timedelta(seconds=1))
    last = upgrade.look(2 * TIMEOUT)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.GHOST_REGISTRATION
    assert "nodesBehind" not in upgrade.store.status
