"""Soaks over many reconciliations: nodes fail, documents are edited, processes die, clocks are set."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Held, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Mode
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.reconcile.act import Reconciliation
from kafkafeatures.reconcile.evaluation import Evaluation
from tests.kafkafeatures.reconcile.simulated import Cluster, Crash, Store, context_of, reconcile_once
from tests.kafkafeatures.reconcile.test_ages import DAY, JUMPS, Clocks
from tests.kafkasim.clusters import plan

HOUR = timedelta(hours=1)
LOOK = timedelta(minutes=1)
"""Time between two reconciliations: the longest that a soak allows, so that a test has few of them."""
BROKERS, CONTROLLERS = dict.fromkeys((1, 2, 3), "4.4"), dict.fromkeys((3001, 3002, 3003), "4.4")


class SoakingCluster:
    """A cluster at metadata.version 25 whose document asks for 32, which is irreversible, after a soak of an hour."""

    def __init__(self, **fields: object) -> None:
        self.cluster, self.clocks = Cluster({"metadata.version": 25}, plan(BROKERS, CONTROLLERS)), Clocks()
        self.store = Store(self.cluster, {})
        self.store.wanted = replace(DesiredState({"metadata.version": 32}, finalize_after=HOUR), **fields)  # type: ignore[arg-type]

    def look(self) -> Reconciliation:
        return self.clocks.reconcile(self.cluster, self.store)

    def looks(self, duration: timedelta) -> Reconciliation:
        """Reconcile every minute for this long, and at its end."""
        end = self.clocks.seconds + duration.total_seconds()
        while self.clocks.seconds < end:
            self.look()
            self.clocks.wait(min(LOOK, timedelta(seconds=end - self.clocks.seconds)))
        return self.look()

    @property
    def level(self) -> int:
        return self.cluster.levels["metadata.version"]

    def stop_broker(self) -> None:
        self.cluster.world.stop(Role.BROKER, 3)

    def start_broker(self) -> None:
        self.cluster.world.start(Role.BROKER, 3)

    def restart(self, role: Role, id_: int) -> None:
        """Restart the node between two readings, so that none observes it as down."""
        world = self.cluster.world
        world.stop(role, id_)
        world.advance(world.now_ms + 15_000)
        world.start(role, id_)
        world.advance(world.now_ms + 30_000)


def expect_soaking(last: Reconciliation) -> str:
    assert isinstance(last.decision, Wait), last.decision
    assert last.decision.reason is Reason.SOAKING
    return last.decision.message


def test_the_soak_lasts_as_long_as_the_document_says_and_then_the_level_is_raised() -> None:
    life = SoakingCluster()
    expect_soaking(life.looks(HOUR - timedelta(seconds=1)))
    assert life.level == 25
    life.clocks.wait(timedelta(seconds=1))
    life.look()
    assert isinstance(life.look().decision, Done)
    assert life.level == 32
    assert not {"soakStartedAt", "wayBack"} & life.store.status.keys()


def test_a_quiet_soak_writes_nothing() -> None:
    life = SoakingCluster()
    life.look()
    before = life.store.writes
    life.looks(HOUR - 5 * LOOK)
    assert life.store.writes == before


def test_a_node_that_was_away_for_one_observation_restarts_the_soak() -> None:
    life = SoakingCluster()
    life.looks(HOUR - 5 * LOOK)
    began = life.store.status["soakStartedAt"]
    life.stop_broker()
    life.cluster.world.advance(life.cluster.world.now_ms + 60_000)
    assert "; not begun yet: broker 3 is " in expect_soaking(life.look())
    assert "soakStartedAt" not in life.store.status
    assert "until" not in life.store.status["wayBack"]
    life.start_broker()
    life.cluster.world.advance(life.cluster.world.now_ms + 60_000)
    expect_soaking(life.looks(HOUR - timedelta(seconds=1)))
    assert life.store.status["soakStartedAt"] > began
    life.clocks.wait(timedelta(seconds=1))
    life.look()
    assert life.level == 32


def test_an_unreadable_cluster_restarts_the_soak() -> None:
    life = SoakingCluster()
    life.looks(HOUR - 5 * LOOK)
    life.cluster.away = True
    life.look()
    assert not {"soakStartedAt", "wayBack"} & life.store.status.keys()
    life.cluster.away = False
    expect_soaking(life.looks(HOUR - timedelta(seconds=1)))


@JUMPS
def test_setting_the_clock_makes_a_soak_neither_longer_nor_shorter(jump: timedelta) -> None:
    life = SoakingCluster()
    life.looks(10 * LOOK)
    life.clocks.wall += jump
    expect_soaking(life.looks(HOUR - 10 * LOOK - timedelta(seconds=1)))
    life.clocks.wait(timedelta(seconds=1))
    life.look()
    assert life.level == 32


@JUMPS
def test_a_new_operator_process_restarts_the_soak_whatever_its_clock_says_and_reports_that(jump: timedelta) -> None:
    life = SoakingCluster()
    life.looks(HOUR - 5 * LOOK)
    life.clocks.restart()
    life.clocks.wall += jump
    message = expect_soaking(life.look())
    started_at = life.store.status["soakStartedAt"]
    assert message.endswith(f"; started over at {started_at}: the process that observed it was restarted")
    expect_soaking(life.looks(HOUR - timedelta(seconds=1)))
    life.clocks.wait(timedelta(seconds=1))
    life.look()
    assert life.level == 32


def test_a_person_is_asked_to_confirm_the_plan_before_its_soak_begins() -> None:
    life = SoakingCluster()

    class Asked(Exception):
        pass

    def ask(evaluation: Evaluation) -> None:
        raise Asked(str(evaluation.proposal.plan))

    context = context_of(life.cluster, life.store)
    with pytest.raises(Asked, match=r"metadata\.version 25 -> 32"):
        asyncio.run(reconcile_once(replace(context, before_act=ask)))


def test_a_gap_between_observations_restarts_the_soak_although_the_cluster_is_healthy_again() -> None:
    life = SoakingCluster()
    life.looks(HOUR - 5 * LOOK)
    for broker in (1, 2, 3):
        life.restart(Role.BROKER, broker)
    life.clocks.wait(DAY)
    assert ": the cluster was not observed " in expect_soaking(life.look())
    expect_soaking(life.looks(HOUR - timedelta(seconds=1)))
    life.clocks.wait(timedelta(seconds=1))
    life.look()
    assert life.level == 32


@pytest.mark.parametrize(("role", "id_"), [(Role.BROKER, 3), (Role.CONTROLLER, 3002)])
def test_a_node_that_restarts_between_all_observations_never_completes_the_soak(role: Role, id_: int) -> None:
    life = SoakingCluster()
    for _ in range(80):
        expect_soaking(life.look())
        life.restart(role, id_)
        life.clocks.wait(LOOK)
    assert f": {role.value.lower()} {id_} was restarted" in expect_soaking(life.look())
    assert life.level == 25
    life.looks(HOUR)
    assert life.level == 32


def test_observations_that_come_too_late_restart_the_soak() -> None:
    life = SoakingCluster()
    for _ in range(5):
        expect_soaking(life.look())
        life.clocks.wait(HOUR)
    assert "; started over at " in expect_soaking(life.look())
    assert life.level == 25


def test_a_soak_continues_while_suspended_and_in_mode_observe_and_nothing_is_sent() -> None:
    life = SoakingCluster(mode=Mode.OBSERVE)
    assert isinstance(life.looks(HOUR / 2).decision, Done)
    assert "soakStartedAt" in life.store.status
    life.store.wanted = replace(life.store.wanted, mode=Mode.APPLY, suspend=True)
    assert isinstance(life.looks(HOUR / 2).decision, Held)
    assert life.cluster.sent == []
    life.store.wanted = replace(life.store.wanted, suspend=False)
    life.look()
    assert life.level == 32


def test_a_change_approved_during_its_soak_is_sent_at_the_end_of_the_soak() -> None:
    life = SoakingCluster(policy=ApprovalPolicy.ALWAYS)
    assert "; approve plan sha256:" in expect_soaking(life.look())
    conditions = {condition["type"]: condition["reason"] for condition in life.store.status["conditions"]}
    assert conditions["ApprovalRequired"] == "PlanPending"
    assert (conditions["Ready"], conditions["Reconciling"]) == ("Soaking", "Soaking")
    life.store.wanted = replace(life.store.wanted, approvals=frozenset({life.store.status["plan"]["hash"]}))
    assert "approve" not in expect_soaking(life.looks(HOUR - timedelta(seconds=1)))
    life.clocks.wait(timedelta(seconds=1))
    life.look()
    assert life.level == 32


def test_the_way_back_is_open_until_the_plan_is_approved() -> None:
    life = SoakingCluster(policy=ApprovalPolicy.ALWAYS)
    life.look()
    assert life.store.status["wayBack"]["until"] == "2026-01-02T04:04:05Z"
    assert isinstance(life.looks(HOUR).decision, Held)
    assert life.store.status["wayBack"] == {
        "how": "set the document to metadata.version 25 (4.0-IV3), then downgrade Kafka on the nodes; "
        "to stay at these levels, suspend"
    }


def test_another_target_level_restarts_the_soak() -> None:
    life = SoakingCluster()
    life.looks(HOUR - 5 * LOOK)
    life.store.wanted = replace(life.store.wanted, levels={"metadata.version": 30})
    expect_soaking(life.looks(HOUR - timedelta(seconds=1)))
    life.store.wanted = replace(life.store.wanted, levels={"metadata.version": 32})
    expect_soaking(life.look())


def test_a_document_that_wants_the_current_level_ends_the_soak_and_the_way_back() -> None:
    life = SoakingCluster()
    life.looks(10 * LOOK)
    life.store.wanted = replace(life.store.wanted, levels={"metadata.version": 25})
    assert isinstance(life.look().decision, Done)
    assert not {"soakStartedAt", "wayBack"} & life.store.status.keys()


@given(st.integers(0, 40), st.integers(0, 40), st.sampled_from([-DAY, timedelta(0), DAY]))
@settings(max_examples=25)
def test_no_irreversible_change_is_sent_before_a_whole_soak_wherever_the_process_dies(
    first_crash: int, second_crash: int, jump: timedelta
) -> None:
    life = SoakingCluster(finalize_after=10 * LOOK)
    for crash in (first_crash, second_crash):
        life.cluster.crash_in = crash
        with contextlib.suppress(Crash):
            life.looks(3 * LOOK)
        life.cluster.crash_in = None
        life.clocks.restart()
        life.clocks.wall += jump
    expect_soaking(life.looks(10 * LOOK - timedelta(seconds=1)))
    assert life.level == 25
    life.clocks.wait(timedelta(seconds=1))
    life.look()
    life.look()
    assert (life.level, len(life.cluster.sent)) == (32, 1)


@pytest.mark.parametrize(("field", "value"), [("soakStartedAt", "yesterday"), ("wayBack", {})])
def test_soak_fields_of_the_status_that_were_damaged_by_hand_are_written_again(field: str, value: object) -> None:
    life = SoakingCluster()
    life.looks(HOUR - 5 * LOOK)
    life.store.status = {**life.store.status, field: value}
    expect_soaking(life.look())
    assert life.store.status["soakStartedAt"] == "2026-01-02T03:04:05Z"  # unchanged: when the soak began
    assert {"until", "how"} == life.store.status["wayBack"].keys()
