"""Clusters without a quorum and clusters in ZooKeeper mode: never reported as in sync."""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Decision, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState, Mode
from kafkafeatures.core.engine.steps import OutcomeUnknown
from kafkafeatures.core.facts.observation import Known, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    Failure,
    FailureKind,
    LogReading,
    QuorumAnswer,
    Readings,
    ReplicaProgress,
    Role,
)
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka import cluster as real
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkasim.world import World
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, once, run
from tests.kafkafeatures.worlds import NEW, NOW, SILENT, answer, asked, image, probe, quorum
from tests.kafkasim.clusters import CLUSTER_ID, plan, served

# A broker keeps DescribeQuorum while it knows no active controller, so the request times out.
KEPT = Failure(FailureKind.TIMED_OUT, "h:1", "no answer to DescribeQuorum within 5 s", "look at the controllers")
NO_CONTROLLER = Failure(FailureKind.NOT_ASKED, "controllers", "no address of a controller is known")
NO_LOG = Failure(FailureKind.UNREACHABLE, "metadata log", "connection refused")
IN_SYNC = DesiredState({"metadata.version": 21})
IMAGE = image(brokers={1: (NEW, False), 2: (NEW, False)}, controllers={3001: NEW, 3002: NEW})

# All controllers were killed: brokers live on, answer ApiVersions and list each other, and keep DescribeQuorum.
BROKERS_ONLY = probe(asked(1), asked(2), quorum=KEPT, controllers=NO_CONTROLLER)
ALL = probe(asked(3001), asked(3002), asked(1), asked(2))
IN_ZOOKEEPER = probe(
    asked(1, answer({}, {}, keys=(18,))), asked(2, answer({}, {}, keys=(18,))),
    quorum=NO_CONTROLLER, controllers=NO_CONTROLLER,
)  # fmt: skip


def reconciled(
    wanted: DesiredState, probe: ClusterProbe, log: LogReading | Failure = NO_LOG
) -> tuple[Decision, dict[str, Any]]:
    """Return the decision and its status; nothing is sent."""
    cluster = Cluster({"metadata.version": 21})
    cluster.shows = lambda _: Readings(probe, log)  # kafkasim has no ZooKeeper, nor a leader without followers
    store = Store(cluster, {}, met=False)
    store.wanted = wanted
    last = once(cluster, store)
    assert not isinstance(last.decision, Failure)
    assert cluster.sent == []
    return last.decision, store.status


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in status["conditions"]}


def voting(*fetched_ms_ago: int, clock: int = 1_000_000) -> QuorumAnswer:
    """Build the leader 3001 and followers that fetched this long ago by its clock. One that fetched within 2,000 ms
    counts for the majority (`MAJORITY_WITHIN_MS`).
    """
    followers = (ReplicaProgress(3002 + n, 90, clock - ago, clock - ago) for n, ago in enumerate(fetched_ms_ago))
    return QuorumAnswer(3001, 4, 100, (ReplicaProgress(3001, 100, clock, clock), *followers), ())


WITHOUT_QUORUM = {
    "all controllers killed": BROKERS_ONLY,
    "a leader that nobody follows any more": replace(ALL, quorum=voting(60_000, 2_001)),
    "a leader of a Kafka that gives no fetch times": replace(
        ALL, quorum=QuorumAnswer(3001, 4, 100, tuple(ReplicaProgress(i, 100) for i in (3001, 3002)), ())
    ),
}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("probe", WITHOUT_QUORUM.values(), ids=WITHOUT_QUORUM)
def test_no_resource_is_in_sync_without_a_quorum(probe: ClusterProbe, mode: Mode) -> None:
    decision, status = reconciled(replace(IN_SYNC, mode=mode), probe)
    assert isinstance(decision, Wait)
    assert [blocker.kind for blocker in decision.blockers] == [BlockerKind.QUORUM]
    assert conditions(status)["Ready"] == ("False", "WaitingForQuorum")
    assert conditions(status)["Reconciling"] == ("True", "WaitingForQuorum")
    assert conditions(status)["FeaturesFinalized"] == ("Unknown", "Unknown")


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    "wanted", [DesiredState({}), DesiredState({"metadata.version": 27})], ids=["no level wanted", "a level to raise"]
)
def test_every_resource_waits_for_the_quorum_while_there_is_none(wanted: DesiredState, mode: Mode) -> None:
    _, status = reconciled(replace(wanted, mode=mode), BROKERS_ONLY)
    assert conditions(status)["Ready"] == ("False", "WaitingForQuorum")


@pytest.mark.parametrize(
    ("probe", "log"),
    [
        pytest.param(ALL, NO_LOG, id="DescribeQuorum shows a majority"),
        pytest.param(replace(ALL, quorum=voting(2_000, 60_000)), NO_LOG, id="two of three voters"),
        pytest.param(replace(ALL, quorum=voting()), NO_LOG, id="the only voter"),
        pytest.param(
            replace(ALL, quorum=SILENT),
            LogReading(IMAGE, 100, 3001, 4, NOW),
            id="the log, which is read with a majority only",
        ),
        pytest.param(replace(ALL, quorum=voting(60_000)), LogReading(IMAGE, 100, 3001, 4, NOW), id="the log decides"),
    ],
)
def test_a_document_at_its_levels_is_in_sync_with_a_quorum(probe: ClusterProbe, log: LogReading | Failure) -> None:
    decision, status = reconciled(IN_SYNC, probe, log)
    assert isinstance(decision, Done)
    assert conditions(status)["Ready"] == ("True", "InSync")


ONE_IS_CUT_OFF = probe(asked(1, answer(NEW, {"metadata.version": 27})), quorum=KEPT, controllers=NO_CONTROLLER)
"""A broker is cut off, and continues showing a level of some time ago."""


def test_a_broker_that_is_cut_off_from_the_controllers_settles_no_step() -> None:
    cluster = Cluster({"metadata.version": 21})
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    before = store.status
    cluster.shows = lambda _: Readings(replace(ONE_IS_CUT_OFF, cluster_id=CLUSTER_ID), NO_LOG)
    last = once(cluster, store)
    assert isinstance(last.decision, Wait)
    assert last.decision.reason is Reason.VERIFYING
    assert "no active controller shows its level: h:1: no answer to DescribeQuorum" in last.decision.message
    status = store.status
    assert status["intents"] == before["intents"]
    assert "history" not in status
    assert status.get("changeCount", 0) == before.get("changeCount", 0)
    assert status["plan"]["hash"] == before["plan"]["hash"]
    assert status["progress"] == "0/1 levels"
    cluster.shows = lambda readings: readings
    last = run(cluster, store)
    assert isinstance(last.decision, Done)
    assert [entry["result"] for entry in store.status["history"]] == ["NotApplied", "Applied"]


def test_a_level_that_only_a_cut_off_broker_shows_is_not_in_sync() -> None:
    _, status = reconciled(DesiredState({"metadata.version": 27}), ONE_IS_CUT_OFF)
    (level,) = (feature for feature in status["features"] if feature["name"] == "metadata.version")
    assert level["state"] != "InSync"
    assert status["progress"] == "0/1 levels"


def kill_all_controllers(world: World) -> None:
    for id_ in world.voters:
        world.stop(Role.CONTROLLER, id_, kill=True)


@pytest.mark.parametrize(
    "named", [{Role.BROKER}, {Role.BROKER, Role.CONTROLLER}], ids=["brokers only", "brokers and controllers"]
)
async def test_killed_controllers_are_a_lost_quorum_with_any_bootstrap_addresses(named: set[Role]) -> None:
    """On real sockets: controllers that cannot be reached do not put the cluster id in doubt."""
    async with served(plan()) as server:
        at = {role: tuple(Address(node.host, node.port) for node in server.world.of_role(role)) for role in named}
        settings = ClusterSettings(at[Role.BROKER], at.get(Role.CONTROLLER, ()), request_timeout=1.0)
        async with real.Cluster(settings, environment=SYSTEM) as cluster:
            await server.act(kill_all_controllers)
            decision = decide(IN_SYNC, observe(*await cluster.read()))
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.WAITING_FOR_QUORUM


def test_the_remedy_for_a_lost_quorum_is_not_to_resume_a_suspended_resource() -> None:
    decision, _ = reconciled(replace(IN_SYNC, suspend=True), BROKERS_ONLY)
    assert isinstance(decision, Wait)
    decision, _ = reconciled(DesiredState({"metadata.version": 27}, suspend=True), BROKERS_ONLY)
    assert isinstance(decision, Held)


# --- the active controller ---


def test_the_active_controller_is_unknown_if_the_log_and_describe_quorum_name_different_leaders() -> None:
    observation = observe(replace(ALL, quorum=quorum(voters=(3002, 3001))), LogReading(IMAGE, 100, 3001, 5, NOW))
    assert isinstance(observation.active_controller, Unknown)
    assert (
        observation.active_controller.failure.message == "the metadata log comes from 3001, DescribeQuorum names 3002"
    )
    decision, status = reconciled(
        IN_SYNC, replace(ALL, quorum=quorum(voters=(3002, 3001))), LogReading(IMAGE, 100, 3001, 5, NOW)
    )
    assert isinstance(decision, Wait)
    assert conditions(status)["Ready"] == ("False", "WaitingForQuorum")


def test_the_active_controller_is_the_leader_that_the_log_and_describe_quorum_agree_on() -> None:
    observation = observe(ALL, LogReading(IMAGE, 100, 3001, 5, NOW))
    assert isinstance(observation.active_controller, Known)
    assert observation.active_controller.value == 3001


# --- ZooKeeper mode ---


@pytest.mark.parametrize("levels", [{"group.version": 0}, {"metadata.version": 0}, {"metadata.version": 21}])
def test_every_level_is_a_blocker_in_zookeeper_mode_even_level_0(levels: dict[str, int]) -> None:
    decision, status = reconciled(DesiredState(levels), IN_ZOOKEEPER)
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.ZOOKEEPER_MODE
    assert [blocker.kind for blocker in decision.blockers] == [BlockerKind.ZOOKEEPER_MODE]
    assert conditions(status)["Ready"] == ("False", "ZooKeeperMode")
    assert conditions(status)["FeaturesFinalized"] == ("False", "Blocked")
    assert {feature["state"] for feature in status["features"]} == {"Blocked"}
    assert status["progress"] == "0/1 levels"


def test_a_resource_in_mode_observe_reports_the_blocker_of_zookeeper_mode_too() -> None:
    decision, status = reconciled(DesiredState({"group.version": 0}, mode=Mode.OBSERVE), IN_ZOOKEEPER)
    assert isinstance(decision, Done)
    assert [blocker.kind for blocker in decision.blockers] == [BlockerKind.ZOOKEEPER_MODE]
    assert "ZooKeeper" in decision.message
    assert conditions(status)["FeaturesFinalized"] == ("False", "Blocked")


def test_a_document_without_levels_is_in_sync_in_zookeeper_mode() -> None:
    decision, _ = reconciled(DesiredState({}), IN_ZOOKEEPER)
    assert isinstance(decision, Done)
