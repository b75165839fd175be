"""Blockers to a level change, and the range of levels that a node supports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import DryRunAccepted, DryRunRejected
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import NOT_SUPPORTED, Known, MetadataMode, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import blockers
from kafkafeatures.core.levels.update_feature import UpdateFeature
from tests.kafkafeatures.worlds import NEW, OLD, SILENT, answer, known, node, observation, quorum, ranges

RAISE = UpdateFeature("metadata.version", 21, 27)
CONTROLLERS = (node(3001), node(3002))


def kinds(
    observation: Observation, *changes: UpdateFeature, verdict: DryRunAccepted | DryRunRejected | None = None
) -> list[BlockerKind]:
    return [blocker.kind for blocker in blockers(LevelCheckInput(observation, changes or (RAISE,), verdict))]


# --- the supported range of a node: from its answer, else from its registration ---


def test_the_supported_range_of_a_live_node_is_the_one_that_it_reports() -> None:
    assert node(1, written=None).range_of("metadata.version").value == VersionRange(7, 27)  # type: ignore[union-attr]


def test_the_supported_range_of_a_silent_node_is_the_one_of_its_registration() -> None:
    supported_range = node(1, said=SILENT, written=OLD).range_of("metadata.version")
    assert isinstance(supported_range, Known)
    assert supported_range.value == VersionRange(1, 21)


def test_a_feature_that_a_node_does_not_list_is_supported_at_level_0_only() -> None:
    supported_range = node(1, said=answer(OLD), written=OLD).range_of("group.version")
    assert isinstance(supported_range, Known)
    assert supported_range.value == NOT_SUPPORTED


def test_a_node_whose_report_differs_from_its_registration_has_an_unknown_range() -> None:
    supported_range = node(1, said=answer(NEW), written=OLD).range_of("metadata.version")
    assert isinstance(supported_range, Unknown)
    assert "reports metadata.version 7-27, its registration has 1-21" in supported_range.failure.message


def test_a_feature_that_an_incomplete_api_versions_answer_leaves_out_has_an_unknown_range() -> None:
    half = answer({"metadata.version": (7, 27)}, complete=False)
    assert isinstance(node(1, said=half, written=None).range_of("group.version"), Unknown)
    assert isinstance(node(1, said=half, written=None).range_of("metadata.version"), Known)


def test_a_silent_unregistered_node_has_an_unknown_range_with_the_failure() -> None:
    supported_range = node(1, said=SILENT, written=None).range_of("metadata.version")
    assert supported_range == Unknown(SILENT)


def test_a_combined_node_has_the_narrower_range_of_its_two_registrations() -> None:
    wide, narrow = {"metadata.version": (1, 27)}, {"metadata.version": (7, 25)}
    for broker, controller in ((wide, narrow), (narrow, wide)):
        registered = {Role.BROKER: known(ranges(broker)), Role.CONTROLLER: known(ranges(controller))}
        combined = replace(node(1, said=SILENT), roles=(Role.CONTROLLER, Role.BROKER), registered=registered)
        supported_range = combined.range_of("metadata.version")
        assert isinstance(supported_range, Known)
        assert supported_range.value == VersionRange(7, 25)
        assert kinds(observation(*CONTROLLERS, combined)) == [BlockerKind.NODE_RANGE]


def test_a_broker_that_contradicts_its_registration_is_a_blocker_even_after_an_accepted_dry_run() -> None:
    """The broker was upgraded, and did not register again: the controller still judges by the old range."""
    upgraded = node(1, said=answer(NEW), written=OLD)
    assert kinds(observation(*CONTROLLERS, upgraded)) == [BlockerKind.NODE_UNKNOWN]
    assert kinds(observation(*CONTROLLERS, upgraded), verdict=DryRunAccepted()) == [BlockerKind.NODE_UNKNOWN]
    registered = {Role.BROKER: known(ranges(NEW)), Role.CONTROLLER: known(ranges(OLD))}
    combined = replace(node(1), roles=(Role.CONTROLLER, Role.BROKER), registered=registered)
    assert kinds(observation(*CONTROLLERS, combined), verdict=DryRunAccepted()) == [BlockerKind.NODE_UNKNOWN]


_RANGES = st.dictionaries(st.sampled_from(["f", "g"]), st.tuples(st.integers(0, 3), st.integers(3, 6)))


@given(
    reported=_RANGES, broker=_RANGES, controller=st.none() | _RANGES, complete=st.booleans(), level=st.integers(0, 7)
)
def test_the_shortcuts_to_a_supported_range_agree_with_the_full_computation(
    reported: dict[str, tuple[int, int]],
    broker: dict[str, tuple[int, int]],
    controller: dict[str, tuple[int, int]] | None,
    complete: bool,
    level: int,
) -> None:
    """`known_range_of` and `surely_holds` are fast, as each check needs them of each node. `surely_holds` may be False
    for a level that the node supports.
    """
    registered = {Role.BROKER: known(ranges(broker))}
    if controller is not None:
        registered[Role.CONTROLLER] = known(ranges(controller))
    live_node = replace(node(1, said=answer(reported, complete=complete)), registered=registered)
    supported_range = live_node.range_of("f")
    assert live_node.known_range_of("f") == (supported_range.value if isinstance(supported_range, Known) else None)
    if live_node.surely_holds("f", level):
        assert isinstance(supported_range, Known)
        assert level in supported_range.value


# --- one blocker for each cause ---


def test_a_cluster_whose_nodes_all_support_the_level_has_no_blocker() -> None:
    assert kinds(observation()) == []


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        pytest.param(
            observation(*CONTROLLERS, node(1, said=answer(OLD), written=OLD)),
            [BlockerKind.NODE_RANGE],
            id="a live old broker",
        ),
        pytest.param(
            observation(node(3001, said=answer(OLD), written=OLD), node(3002), node(1)),
            [BlockerKind.NODE_RANGE],
            id="a live old controller, also at levels at which Kafka does not check controllers",
        ),
        pytest.param(
            observation(*CONTROLLERS, node(1), node(4, state=NodeState.GHOST, said=SILENT, written=OLD)),
            [BlockerKind.GHOST_REGISTRATION],
            id="a ghost broker with an old range",
        ),
        pytest.param(
            observation(
                *CONTROLLERS, node(1), node(3003, state=NodeState.GHOST, said=SILENT, written=OLD, voter=False)
            ),
            [BlockerKind.GHOST_REGISTRATION],
            id="a ghost controller with an old range",
        ),
        pytest.param(
            observation(*CONTROLLERS, node(1), node(4, state=NodeState.GHOST, said=SILENT)),
            [],
            id="a ghost whose range holds the level",
        ),
        pytest.param(
            observation(*CONTROLLERS, node(1, state=NodeState.UNREACHABLE, said=SILENT, written=None)),
            [BlockerKind.NODE_UNKNOWN],
            id="a silent node without a registration",
        ),
        pytest.param(
            observation(*CONTROLLERS, node(9, state=NodeState.REFUSED, said=SILENT, written=None)),
            [BlockerKind.REFUSED_NODE],
            id="a node that the controller refuses to register",
        ),
        pytest.param(observation(mode=MetadataMode.ZOOKEEPER), [BlockerKind.ZOOKEEPER_MODE], id="ZooKeeper mode"),
        pytest.param(observation(mode=MetadataMode.MIGRATING), [BlockerKind.MIGRATION], id="an open migration"),
        pytest.param(observation(mode=SILENT), [BlockerKind.MIGRATION], id="a mode that is not known"),
        pytest.param(observation(voting=SILENT), [BlockerKind.QUORUM], id="no active controller"),
        pytest.param(observation(levels=SILENT), [BlockerKind.QUORUM], id="finalized levels that are not known"),
    ],
)
def test_each_obstacle_to_a_level_is_a_blocker_of_its_own_kind(
    observation: Observation, expected: list[BlockerKind]
) -> None:
    assert kinds(observation) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (UpdateFeature("metadata.version", 21, 20), BlockerKind.DOWNGRADE),
        (UpdateFeature("kraft.version", 0, 1), BlockerKind.CONSENT),
        (UpdateFeature("metadata.version", 21, 99), BlockerKind.NODE_RANGE),
    ],
    ids=["downgrade", "kraft.version without a consent", "level of no release"],
)
def test_a_change_that_kafka_never_allows_is_a_blocker_even_after_an_accepted_dry_run(
    change: UpdateFeature, expected: BlockerKind
) -> None:
    assert expected in kinds(observation(), change, verdict=DryRunAccepted())


def test_all_blockers_are_listed_at_once() -> None:
    observed = observation(
        *CONTROLLERS,
        node(1, said=answer(OLD), written=OLD),
        node(4, state=NodeState.GHOST, said=SILENT, written=OLD),
        node(9, state=NodeState.REFUSED, said=SILENT, written=None),
    )
    assert kinds(observed) == [BlockerKind.NODE_RANGE, BlockerKind.GHOST_REGISTRATION, BlockerKind.REFUSED_NODE]


def test_a_blocker_names_its_node_the_cause_and_the_remedy() -> None:
    ghost = node(4, state=NodeState.GHOST, said=SILENT, written=OLD)
    (blocker,) = blockers(LevelCheckInput(observation(*CONTROLLERS, node(1), ghost), (RAISE,)))
    assert blocker.node is not None
    assert blocker.node.id == 4
    assert blocker.supported == VersionRange(1, 21)
    assert (blocker.feature, blocker.required_level) == ("metadata.version", 27)
    assert blocker.message == (
        "broker 4 (h:4) is registered with metadata.version 1-21 but is fenced and does not answer "
        "(ghost registration); 27 (4.1-IV1) is required"
    )
    assert "kafkafeatures unregister --broker 4 --bootstrap-server HOST:PORT" in blocker.remedy


@pytest.mark.parametrize(
    ("level", "remedy"),
    [
        (
            21,
            "start a controller with id 3003 on the new Kafka once, so that it registers again, then stop it; once "
            "metadata.version 33 (4.4-IV2) is finalized: kafkafeatures unregister --controller 3003 "
            "--bootstrap-server HOST:PORT",
        ),
        (33, "kafkafeatures unregister --controller 3003 --bootstrap-server HOST:PORT"),
    ],
    ids=["Kafka cannot unregister controllers yet", "Kafka can unregister controllers"],
)
def test_the_remedy_for_a_ghost_controller_is_possible_at_the_current_metadata_version(level: int, remedy: str) -> None:
    newer = {"metadata.version": (7, 34)}
    everyone = [node(i, said=answer(newer), written=newer) for i in (3001, 3002, 1)]
    ghost = node(3003, state=NodeState.GHOST, said=SILENT, written={"metadata.version": (7, level)}, voter=False)
    observed = observation(*everyone, ghost, levels={"metadata.version": level})
    (blocker,) = blockers(LevelCheckInput(observed, (UpdateFeature("metadata.version", level, 34),)))
    assert (blocker.kind, blocker.remedy) == (BlockerKind.GHOST_REGISTRATION, remedy)


def test_an_accepted_dry_run_proves_no_unknown_node_that_may_be_an_unregistered_controller() -> None:
    unknown = replace(node(9, state=NodeState.UNREACHABLE, said=SILENT, written=None), roles=())
    observed = observation(*CONTROLLERS, node(1), unknown, levels={"metadata.version": 14})
    assert kinds(observed, verdict=DryRunAccepted()) == [BlockerKind.NODE_UNKNOWN]
    assert "node 9" in blockers(LevelCheckInput(observed, (RAISE,)))[0].message


# --- a dry run that the active controller accepted, as proof of unknown ranges ---

UNKNOWN_BROKER = node(2, state=NodeState.UNREACHABLE, said=SILENT, written=None)
UNKNOWN_CONTROLLER = node(3002, state=NodeState.UNREACHABLE, said=SILENT, written=None)


def test_an_accepted_dry_run_proves_the_range_of_an_unknown_broker() -> None:
    observed = observation(*CONTROLLERS, node(1), UNKNOWN_BROKER)
    assert kinds(observed) == [BlockerKind.NODE_UNKNOWN]
    assert kinds(observed, verdict=DryRunAccepted()) == []


def test_a_rejected_dry_run_is_reported_beside_the_nodes_of_unknown_range() -> None:
    observed = observation(*CONTROLLERS, node(1), UNKNOWN_BROKER)
    silent, rejected = blockers(LevelCheckInput(observed, (RAISE,), DryRunRejected(95, "broker 2 has not registered")))
    assert [node.id for node in silent.nodes] == [2]
    assert rejected.message.endswith("by the active controller: broker 2 has not registered")


def test_a_rejected_dry_run_is_no_blocker_if_all_ranges_are_known() -> None:
    """The stage halts with reason ControllerRejected instead."""
    assert kinds(observation(*CONTROLLERS, node(1)), verdict=DryRunRejected(95, "no")) == []


def test_an_accepted_dry_run_proves_controllers_only_at_levels_at_which_controllers_register() -> None:
    at_21 = observation(node(3001), UNKNOWN_CONTROLLER, node(1))
    assert kinds(at_21, verdict=DryRunAccepted()) == []
    at_14 = observation(node(3001), UNKNOWN_CONTROLLER, node(1), levels={"metadata.version": 14})
    assert kinds(at_14, verdict=DryRunAccepted()) == [BlockerKind.NODE_UNKNOWN]


def test_an_accepted_dry_run_proves_nothing_while_a_voter_never_registered() -> None:
    observed = observation(node(3001), UNKNOWN_CONTROLLER, node(1), voting=quorum(voters=(3001, 3002, 3003)))
    assert kinds(observed, verdict=DryRunAccepted()) == [BlockerKind.NODE_UNKNOWN]


@pytest.mark.parametrize(
    ("kraft", "highest", "counts"),
    [
        pytest.param(0, 27, True, id="brokers of 4.1 report kraft.version 0"),
        pytest.param(0, 20, True, id="Kafka 3.8 has only static quorums"),
        pytest.param(0, 25, False, id="Kafka 4.0 may report 0 for a dynamic quorum"),
        pytest.param(0, None, False, id="no broker answers"),
        pytest.param(1, 27, False, id="dynamic quorum"),
    ],
)
def test_an_accepted_dry_run_without_reachable_controllers_counts_if_the_quorum_is_known_to_be_static(
    kraft: int, highest: int | None, counts: bool
) -> None:
    """In a static quorum Kafka itself refuses the change if one of `controller.quorum.voters` never registered.

    `kraft`: the level of kraft.version that brokers report; `highest`: the metadata.version that broker 1 supports.
    """
    silent = [node(id_, state=NodeState.UNREACHABLE, said=SILENT, written=None) for id_ in (3001, 3002)]
    broker = node(1, said=answer({"metadata.version": (1, highest)}) if highest else SILENT, written=None)
    of_4_1 = node(2, said=answer({"metadata.version": (1, 27)}) if highest else SILENT, written=None)
    observed = observation(*silent, broker, of_4_1, levels={"metadata.version": 15, "kraft.version": kraft})
    observed = replace(observed, registered_controllers=Unknown(SILENT))
    change = UpdateFeature("metadata.version", 15, 20)
    assert (kinds(observed, change, verdict=DryRunAccepted()) == []) is counts
    unknown_role = replace(node(7, state=NodeState.UNREACHABLE, said=SILENT, written=None), roles=())
    with_unknown_role = replace(observed, nodes=(*observed.nodes, unknown_role))
    assert kinds(with_unknown_role, change, verdict=DryRunAccepted())
    assert set(kinds(observed, change)) == {BlockerKind.NODE_UNKNOWN}


def test_an_accepted_dry_run_does_not_override_a_known_range() -> None:
    observed = observation(*CONTROLLERS, node(1, said=answer(OLD), written=OLD))
    assert kinds(observed, verdict=DryRunAccepted()) == [BlockerKind.NODE_RANGE]
