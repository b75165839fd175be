"""Blockers as users read them: one line for all nodes with the same blocker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker, blocked_by, grouped, shortened
from kafkafeatures.core.engine.decisions import Decision, Stalled, Wait, lacks_access
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.steps import DryRunAccepted
from kafkafeatures.core.facts.observation import Node, NodeState
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import blockers
from kafkafeatures.core.levels.update_feature import UpdateFeature
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import OLD, SILENT, answer, node, observation

RAISE = UpdateFeature("metadata.version", 21, 27)
OLD_NODE: dict[str, Any] = {"said": answer(OLD), "written": OLD}
SILENT_OLD: dict[str, Any] = {"said": SILENT, "written": OLD, "state": NodeState.UNREACHABLE}
UNKNOWN: dict[str, Any] = {"said": SILENT, "written": None}
REFUSED: dict[str, Any] = {"said": SILENT, "written": None, "state": NodeState.REFUSED}
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    OLD_NODE,
    SILENT_OLD,
    {"said": SILENT, "written": OLD, "state": NodeState.GHOST},
    UNKNOWN,
    {"said": Failure(FailureKind.TIMED_OUT, "h:2", "no answer"), "written": None},
    REFUSED,
)
"""Nodes by the answer and the registration of each; OLD supports metadata.version 1-21."""


def blockers_of(*nodes: Node, feature: str = "metadata.version", level: int = 27) -> tuple[Blocker, ...]:
    change = UpdateFeature(feature, 21, level)
    # Node 99 supports level 27: if no node did, one blocker would speak for all nodes.
    return blockers(LevelCheckInput(observation(node(3001), node(99), *nodes), (change,)))


def named(blockers: tuple[Blocker, ...]) -> list[tuple[str, int]]:
    return sorted((blocker.kind.value, node.id) for blocker in blockers for node in blocker.nodes)


@given(st.lists(st.sampled_from(SHAPES), max_size=12))
def test_grouping_blockers_keeps_every_node_once_per_kind(shapes: list[dict[str, object]]) -> None:
    every = blockers_of(*(node(i, **shape) for i, shape in enumerate(shapes, start=1)))  # type: ignore[arg-type]
    groups = grouped(every)
    assert named(every) == named(groups)
    assert len({group.alike for group in groups}) == len(groups) <= len(SHAPES)
    assert grouped(groups) == groups


@pytest.mark.parametrize(
    ("shape", "message", "remedy"),
    [
        (
            OLD_NODE,
            "3 brokers (1-3) support metadata.version 1-21; 27 (4.1-IV1) is required",
            "upgrade Kafka on these brokers",
        ),
        (
            SILENT_OLD,
            "3 brokers (1-3) support metadata.version 1-21 and do not answer; 27 (4.1-IV1) is required",
            "upgrade Kafka on these brokers",
        ),
        (
            UNKNOWN,
            "the supported range of metadata.version on 3 brokers (1-3) could not be read: "
            "for example connection refused",
            "start it",
        ),
        (
            REFUSED,
            "3 brokers (1-3) keep fetching the metadata log but are not registered: the active controller rejects them",
            "upgrade Kafka on these brokers so that it supports the finalized levels, or stop them; "
            "the active controller's log says why",
        ),
    ],
    ids=["old", "old and silent", "range unknown", "refused"],
)
def test_nodes_with_the_same_blocker_share_one_line(shape: dict[str, object], message: str, remedy: str) -> None:
    (group,) = grouped(blockers_of(*(node(i, **shape) for i in (1, 2, 3))))  # type: ignore[arg-type]
    assert (group.message, group.remedy) == (message, remedy)
    assert group.node is None


def test_blockers_are_grouped_by_role_and_supported_range() -> None:
    other = {"metadata.version": (1, 20)}
    groups = grouped(
        blockers_of(
            node(3002, said=answer(OLD), written=OLD),
            node(1, said=answer(OLD), written=OLD),
            node(2, said=answer(OLD), written=OLD),
            node(3, said=answer(other), written=other),
        )
    )
    assert [[node.id for node in group.nodes] for group in groups] == [[3002], [1, 2], [3]]


def test_nodes_that_differ_in_one_feature_are_separate_groups_that_list_all_their_features() -> None:
    with_group_version = OLD | {"group.version": (0, 1)}
    nodes = (
        *(node(i, said=answer(OLD), written=OLD) for i in (1, 2)),
        node(3, said=answer(with_group_version), written=with_group_version),
    )
    changes = (UpdateFeature("metadata.version", 21, 27), UpdateFeature("group.version", 0, 1))
    groups = grouped(blockers(LevelCheckInput(observation(node(3001), node(99), *nodes), changes)))
    assert [(group.feature, [node.id for node in group.nodes]) for group in groups] == [
        ("metadata.version", [1, 2]), ("metadata.version", [3]), ("group.version", [1, 2]),
    ]  # fmt: skip


UNSUPPORTED = "no node supports metadata.version 99; the highest level that any node supports is 27 (4.1-IV1)"


def test_a_level_above_every_range_is_one_blocker_for_all_nodes_beside_that_of_a_ghost() -> None:
    ghost = node(4, state=NodeState.GHOST, said=SILENT, written=OLD)
    unsupported, gone = blockers_of(node(1), node(2), ghost, level=99)
    assert unsupported.message == UNSUPPORTED
    assert unsupported.remedy == "choose a level that every node supports, or upgrade Kafka on all nodes"
    assert unsupported.nodes == ()
    assert gone.kind is BlockerKind.GHOST_REGISTRATION


def test_a_level_above_every_range_stalls_the_resource_with_the_highest_supported_level() -> None:
    decision = decide(DesiredState({"metadata.version": 99}), observation(), verdict=DryRunAccepted())
    assert isinstance(decision, Stalled)
    assert (decision.reason, decision.message) == (Reason.UNSUPPORTED_LEVEL, UNSUPPORTED)


def test_a_level_below_every_range_is_a_blocker_with_the_lowest_supported_level() -> None:
    (nowhere,) = (blocker for blocker in blockers_of(level=3) if blocker.reason is Reason.UNSUPPORTED_LEVEL)
    assert nowhere.message.endswith("the lowest level that any node supports is 7 (3.3-IV3)")


@pytest.mark.parametrize(
    ("feature", "remedy"),
    [
        (
            "metadata.verison",
            "did you mean metadata.version? features of this cluster: metadata.version,",
        ),
        ("no.such", "features of this cluster: metadata.version, group.version"),
        ("share.version", "upgrade Kafka to a release that supports it"),
    ],
    ids=["misspelt", "like no feature", "feature of a newer Kafka"],
)
def test_a_misspelt_feature_gets_a_suggestion_and_a_feature_of_a_newer_kafka_does_not(
    feature: str, remedy: str
) -> None:
    inputs = LevelCheckInput(observation(), (), unknown_features=((feature, 1),))
    (unknown,) = blockers(inputs)
    assert unknown.message == f"unknown feature {feature}: no node supports it"
    assert unknown.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("ids", "text"),
    [((), ""), ((5,), "5"), ((1, 2), "1, 2"), ((3, 1, 2), "1-3"), ((1, 2, 3, 7, 9, 10), "1-3, 7, 9, 10")],
)
def test_node_ids_are_written_as_ranges(ids: tuple[int, ...], text: str) -> None:
    assert shortened(ids) == text


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ((4,), "4"),
        ((1, 3, 5, 7, 9), "1, 3, 5, 7, 9"),
        (range(1, 300, 2), "1, 3, 5, ... 299"),
        (range(50), "0-49"),
    ],
)
def test_many_node_ids_are_shortened_to_one_line(ids: tuple[int, ...], text: str) -> None:
    assert shortened(ids) == text


def test_nodes_that_block_a_change_are_counted_by_their_kind() -> None:
    ghost, old, older = node(4, state=NodeState.GHOST), node(2), node(3)

    def blocked(kind: BlockerKind, *nodes: Node) -> Blocker:
        return Blocker(kind, "", "", nodes=nodes)

    outdated = blocked(BlockerKind.NODE_RANGE, old)
    assert blocked_by([outdated]) == "blocked by 1 outdated node"
    assert blocked_by([outdated, blocked(BlockerKind.NODE_RANGE, older)]) == "blocked by 2 outdated nodes"
    gone = blocked(BlockerKind.GHOST_REGISTRATION, ghost)
    assert blocked_by([outdated, gone]) == "blocked by 2 nodes (1 outdated, 1 ghost)"
    assert blocked_by([blocked(BlockerKind.QUORUM)]) == "blocked by WaitingForQuorum"
    assert blocked_by([outdated, blocked(BlockerKind.SETTING, older)]) == "blocked by 1 outdated node, Setting"


DENIED = Blocker(BlockerKind.NODE_UNKNOWN, "denied", "grant it", failure_kind=FailureKind.AUTHORIZATION)
GHOST = Blocker(BlockerKind.GHOST_REGISTRATION, "a ghost", "unregister it")


@pytest.mark.parametrize(
    ("decision", "is_lacking"),
    [
        (Stalled(Reason.NOT_AUTHORIZED, "needs ALTER", blockers=(), subject="cluster", remedy="grant it"), True),
        (
            Stalled(
                Reason.NOT_AUTHORIZED, "needs ALTER", blockers=(DENIED, GHOST), subject="cluster", remedy="grant it"
            ),
            False,
        ),
        (Stalled(Reason.NODES_BEHIND, "too old", blockers=(), subject="cluster", remedy="grant it"), False),
        (Wait(Reason.PREFLIGHT, "denied", blockers=(DENIED,), subject="cluster", remedy="grant it"), True),
        (Wait(Reason.PREFLIGHT, "denied", blockers=(DENIED, GHOST), subject="cluster", remedy="grant it"), False),
        (Wait(Reason.PREFLIGHT, "not read", blockers=(), subject="cluster", remedy="grant it"), False),
    ],
)
def test_only_access_is_lacking_where_no_blocker_is_of_the_cluster(decision: Decision, is_lacking: bool) -> None:
    assert lacks_access(decision) is is_lacking
