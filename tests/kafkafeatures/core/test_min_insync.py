"""Raising eligible.leader.replicas.version must not change the min.insync.replicas of any broker unnoticed.

With the raise, Kafka writes the active controller's value as the default of all brokers, and removes values that
requests have set for single brokers. `node_with(1, file="2")`: the file of broker 1 sets 2; without a value Kafka's
default is 1.
"""

from __future__ import annotations

import pytest

from kafkafeatures.api.names import ELIGIBLE_LEADER_REPLICAS
from kafkafeatures.api.status import EMPTY, FeatureStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import blocked, lacks_access
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.facts.observation import Node, NodeState, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, Role
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, Setting, SettingSource
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.min_insync import min_insync_replicas_stay
from kafkafeatures.core.levels.stage import Levels
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.levels.way_back import way_back_of
from kafkafeatures.core.report.check import Check, CheckVerdict
from tests.kafkafeatures.worlds import NOW, node, observation

RAISE = UpdateFeature(ELIGIBLE_LEADER_REPLICAS, 0, 1)
FILE, ALL, OWN, DEFAULT = SettingSource.FILE, SettingSource.ALL_BROKERS, SettingSource.NODE, SettingSource.DEFAULT


def node_with(id_: int, **layers: str) -> Node:
    """A broker, or from 3000 on a controller, with a value by each of these sources, the strongest first: own, all,
    file.
    """
    layered = {source: layers[name] for name, source in (("own", OWN), ("all", ALL), ("file", FILE)) if name in layers}
    layered[DEFAULT] = "1"
    source = next(iter(layered))
    setting = Setting(source, layered[source], layers=layered)
    return replace(node(id_), proved_at="198.18.0.1", settings={MIN_INSYNC_REPLICAS: setting})


def blockers_of(*nodes: Node, change: UpdateFeature = RAISE) -> list[Blocker]:
    return list(min_insync_replicas_stay(LevelCheckInput(observation(*nodes), (change,))))


def test_a_value_that_only_files_of_brokers_have_is_a_blocker_as_the_raise_would_lose_it() -> None:
    """Most clusters set it in files. Seen on Kafka 4.1.1: 2 became 1 for every topic without a value of its own."""
    (blocker,) = blockers_of(node_with(3001), node_with(3002), node_with(1, file="2"), node_with(2, file="2"))
    assert "makes min.insync.replicas 1 for all brokers; 2 brokers (1, 2) use 2 today" in blocker.message
    assert blocker.remedy.endswith("--entity-type brokers --entity-default --alter --add-config min.insync.replicas=2")
    assert [each.id for each in blocker.nodes] == [1, 2]


@pytest.mark.parametrize(
    ("flags", "reaches"),
    [
        ("--bootstrap-server a:1,b:1", "--bootstrap-server a:1,b:1 --entity-type"),
        ("--bootstrap-server '[::1]:1' --config 'my login' --request-timeout 5",
         "--bootstrap-server '[::1]:1' --command-config 'my login' --entity-type"),
        ("-f 'my levels.yaml' --config login", "--bootstrap-server HOST:PORT --entity-type"),
    ],
)  # fmt: skip
def test_the_command_of_the_remedy_reaches_the_cluster_as_ours_does(flags: str, reaches: str) -> None:
    nodes = observation(node_with(3001), node_with(1, file="2"))
    (blocker,) = min_insync_replicas_stay(LevelCheckInput(nodes, (RAISE,), cluster_flags=flags))
    assert f"before: kafka-configs.sh {reaches} brokers --entity-default --alter" in blocker.remedy


@pytest.mark.parametrize(
    "nodes",
    [
        (node_with(3001), node_with(1), node_with(2)),
        (node_with(3001, file="2"), node_with(3002, file="2"), node_with(1, file="2")),
        (node_with(3001), node_with(1, all="2", file="2"), node_with(2, all="2")),
        (node_with(3001), node_with(3002, file="3"), node_with(1, all="2"), node_with(2, all="2", file="3")),
    ],
    ids=[
        "everywhere Kafka's default",
        "the same in every file",
        "a value for all brokers",
        "a value for all brokers, before other values in files",
    ],
)
def test_a_raise_is_not_blocked_where_every_broker_keeps_its_min_insync_replicas(nodes: tuple[Node, ...]) -> None:
    assert not blockers_of(*nodes)


def test_the_blocker_names_the_value_of_every_controller_that_may_write_it() -> None:
    (blocker,) = blockers_of(node_with(3001, file="2"), node_with(3002), node_with(1, file="2"))
    assert "makes min.insync.replicas 1 or 2 for all brokers" in blocker.message


def test_a_value_that_a_request_set_for_one_broker_is_a_blocker_as_kafka_would_remove_it() -> None:
    (blocker,) = blockers_of(node_with(3001), node_with(1, all="2"), node_with(2, own="3", all="2"))
    assert "2 for all brokers, and removes what requests set for single ones; broker 2 uses 3 today" in blocker.message
    assert blocker.remedy.endswith("--entity-name 2 --alter --delete-config min.insync.replicas")


def test_brokers_with_several_values_need_a_choice() -> None:
    (blocker,) = blockers_of(node_with(3001), node_with(1, file="2"), node_with(2, file="3"))
    assert "use 2 or 3 today" in blocker.message
    assert "choose one value N for all brokers" in blocker.remedy


def test_an_unknown_value_of_a_controller_blocks_the_raise_until_a_value_is_set_for_all_brokers() -> None:
    silent = node(3001)
    (blocker,) = blockers_of(silent, node_with(1, file="2"))[:1]
    assert "min.insync.replicas of controller 3001 is not known" in blocker.message
    assert "or set a value for all brokers" in blocker.remedy
    assert not blockers_of(silent, node_with(1, all="2"))


def test_an_unknown_value_of_a_broker_blocks_the_raise() -> None:
    (blocker,) = blockers_of(node_with(3001), node_with(1, all="2"), node(2))
    assert "min.insync.replicas of broker 2 is not known" in blocker.message
    assert "DESCRIBE_CONFIGS" in blocker.remedy


def test_without_the_right_to_read_the_value_it_is_unknown_whether_the_cluster_can_be_raised() -> None:
    denied = Failure(FailureKind.AUTHORIZATION, "h:1", "needs DESCRIBE_CONFIGS on the cluster", "grant it")
    nodes = (node_with(3001), node_with(1, all="2"), replace(node(2), unproved=denied))
    (blocker,) = blockers_of(*nodes)
    assert Check((blocker,), ()).verdict is CheckVerdict.UNKNOWN
    assert (lacks_access(blocked((blocker,))), blocker.remedy) == (True, "grant it")
    silent = replace(nodes[-1], answer=Unknown(replace(denied, kind=FailureKind.UNREACHABLE)))
    assert not lacks_access(blocked((blocker, *blockers_of(*nodes[:2], silent))))


def test_a_ghost_needs_no_known_value_of_min_insync_replicas() -> None:
    ghost = replace(node(2), state=NodeState.GHOST)
    assert not blockers_of(node_with(3001), node_with(1), ghost)


@pytest.mark.parametrize(
    "change", [UpdateFeature(ELIGIBLE_LEADER_REPLICAS, 1, 0), UpdateFeature("group.version", 0, 1)], ids=str
)
def test_a_downgrade_and_changes_of_other_features_are_not_blocked_by_min_insync_replicas(
    change: UpdateFeature,
) -> None:
    assert not blockers_of(node_with(3001), node_with(1, file="2"), change=change)


def test_the_way_back_of_the_raise_says_that_the_written_value_stays() -> None:
    assert "the min.insync.replicas that was written for all brokers stays" in way_back_of(RAISE)


def test_the_value_of_a_combined_node_counts_for_broker_and_controller() -> None:
    combined = replace(node_with(1, file="2"), roles=(Role.CONTROLLER, Role.BROKER))
    assert not blockers_of(combined)


@pytest.mark.parametrize("finalized", [0, 1])
def test_the_values_are_read_with_the_nodes_and_not_in_a_second_reading(finalized: int) -> None:
    """Before a reading, the level in the last status tells whether the raise is still to come; then
    the one observed.
    """
    status = replace(EMPTY, features=(FeatureStatus(name=ELIGIBLE_LEADER_REPLICAS, finalized=finalized),))
    context = ReadContext(DesiredState({ELIGIBLE_LEADER_REPLICAS: 1}), status, NOT_ASKED, NOW)
    of_raise = frozenset({MIN_INSYNC_REPLICAS})
    assert Levels().demands(context).settings == (frozenset() if finalized else of_raise)
    raised = observation(node(3001), levels={"metadata.version": 27, ELIGIBLE_LEADER_REPLICAS: 1})
    assert not Levels().demands(replace(context, observation=raised)).settings
    assert Levels().demands(replace(context, observation=observation(node(3001)))).settings == of_raise
