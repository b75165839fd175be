"""The lowest metadata.version that a newer Kafka release supports: levels below it have to be raised before the
upgrade.
"""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.facts.releases import bundle, releases
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import blockers
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.report.check import check
from tests.kafkafeatures.worlds import SILENT, Ranges, answer, node, observation

TOO_LOW = (
    "metadata.version 4 (3.3-IV0) is below what Kafka 4.0 supports (7 and up): its nodes could not register; "
    "first raise it to 7..21 while the nodes run 3.9"
)


def cluster(highest: int = 21, level: int = 4, *, of_one: int = 0) -> Observation:
    """Build nodes that support metadata.version up to `highest` (21 is Kafka 3.9), broker 2 up to `of_one`."""

    def at(top: int) -> Ranges:
        return {"metadata.version": (1, top), "kraft.version": (0, 1)}

    tops = {3001: highest, 1: highest, 2: of_one or highest}
    nodes = [node(id_, said=answer(at(top)), written=at(top)) for id_, top in tops.items()]
    return observation(*nodes, levels={"metadata.version": level})


def blockers_before(observation: Observation, release: str) -> list[str]:
    return [str(blocker) for blocker in check(observation, bundle(release) or {}, "").blockers]


def test_a_release_that_no_longer_supports_the_finalized_level_is_answered_with_the_raise_that_comes_first() -> None:
    assert blockers_before(cluster(), "4.0") == [TOO_LOW]
    assert blockers_before(cluster(), "4.3")[0].startswith(
        "metadata.version 4 (3.3-IV0) is below what Kafka 4.3 supports (7"
    )


def test_a_plan_without_known_binaries_asks_for_the_raise_first_and_not_only_for_a_kafka_upgrade() -> None:
    level_blockers = blockers(LevelCheckInput(cluster(), (UpdateFeature("metadata.version", 4, 25),)))
    assert list(map(str, level_blockers)) == [TOO_LOW]


@pytest.mark.parametrize("level", [7, 21])
def test_at_or_above_the_floor_only_the_kafka_of_the_nodes_has_to_be_upgraded(level: int) -> None:
    messages = blockers_before(cluster(level=level), "4.0")
    assert not any("below" in message for message in messages)
    assert any(
        message.endswith("choose a level that every node supports, or upgrade Kafka on all nodes")
        for message in messages
    )


def test_a_level_that_the_nodes_support_already_needs_no_other_kafka() -> None:
    assert blockers_before(cluster(), "3.9") == []


@pytest.mark.parametrize(
    ("highest", "of_one", "remedy"),
    [
        (8, 0, "first raise it to 7..8 while the nodes run 3.4"),
        (21, 8, "first raise it to 7..8 while the nodes run the Kafka that they run now"),
        (18, 0, "first raise it to 7..18 while the nodes run the Kafka that they run now"),
        (4, 0, "first run Kafka 3.9 on every node, and raise it to 7..21 there"),
    ],
    ids=["all of 3.4", "one of 3.4", "level of no release", "no node supports level 7"],
)
def test_the_raise_to_do_first_is_one_that_the_current_nodes_support(highest: int, of_one: int, remedy: str) -> None:
    (message,) = blockers_before(cluster(highest, of_one=of_one), "4.0")
    assert message.endswith(f"; {remedy}")


def test_a_node_with_an_unknown_range_lets_the_remedy_ask_for_kafka_3_9_on_every_node_first() -> None:
    observed = cluster()
    silent = node(3, state=NodeState.UNREACHABLE, said=SILENT, written=None)
    observed = observation(*observed.nodes, silent, levels={"metadata.version": 4})
    message = next(text for text in blockers_before(observed, "4.0") if "below" in text)
    assert message.endswith("; first run Kafka 3.9 on every node, and raise it to 7..21 there")


def test_a_feature_that_only_kafka_4_x_has_is_below_the_floor_too() -> None:
    level_blockers = blockers(
        LevelCheckInput(
            cluster(),
            (UpdateFeature("share.version", 0, 1),),
            unknown_features=(("share.version", 1),),
        )
    )
    assert "below what Kafka 4.1 supports (7 and up)" in level_blockers[0].message
    assert BlockerKind.UNKNOWN_FEATURE not in {blocker.kind for blocker in level_blockers}


def test_a_level_newer_than_every_known_release_has_the_floor_of_the_newest() -> None:
    level_blockers = blockers(LevelCheckInput(cluster(), (UpdateFeature("metadata.version", 4, 40),)))
    assert f"below what Kafka {releases()[-1]} supports (7 and up)" in level_blockers[0].message


def test_a_broker_that_is_rejected_below_the_floor_gets_no_advice_to_upgrade() -> None:
    observed = cluster()
    observed = observation(
        *observed.nodes, node(5, state=NodeState.REFUSED, said=SILENT, written=None), levels={"metadata.version": 4}
    )
    for release in ("3.9", "4.0"):
        (message,) = (text for text in blockers_before(observed, release) if "broker 5" in text)
        assert "run Kafka 3.x on broker 5: Kafka 4.0 and newer do not support metadata.version 4 (3.3-IV0)" in message


def test_a_log_without_a_level_is_below_the_floor_too() -> None:
    observed = observation(*cluster().nodes, levels={})
    assert blockers_before(observed, "4.0")[0].startswith(
        "metadata.version 1 (3.0-IV1) is below what Kafka 4.0 supports"
    )


def test_a_feature_that_no_release_has_is_named_and_no_upgrade_is_advised_for_it() -> None:
    level_blockers = blockers(LevelCheckInput(cluster(level=6), (), unknown_features=(("transacton.version", 1),)))
    assert [blocker.kind for blocker in level_blockers] == [BlockerKind.UNKNOWN_FEATURE]
