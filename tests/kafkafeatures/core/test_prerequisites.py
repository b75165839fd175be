"""Warnings of a plan about broker settings with which a new level has no effect or fails."""

from __future__ import annotations

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Node, NodeState
from kafkafeatures.core.facts.settings import Setting, SettingSource
from kafkafeatures.core.levels.prerequisites import (
    PROTOCOLS,
    STATE_TOPIC_FACTOR,
    STATE_TOPIC_MIN_ISR,
    prerequisites_of,
    settings_of,
)
from kafkafeatures.core.levels.update_feature import UpdateFeature
from tests.kafkafeatures.worlds import node, observation

SHARE, GROUP, STREAMS = (UpdateFeature(name, 0, 1) for name in ("share.version", "group.version", "streams.version"))


def broker(id_: int, **values: str) -> Node:
    """Build a broker with `factor`, `isr` and `protocols` in its file."""
    names = {"factor": STATE_TOPIC_FACTOR, "isr": STATE_TOPIC_MIN_ISR, "protocols": PROTOCOLS}
    settings = {names[key]: Setting(SettingSource.FILE, value) for key, value in values.items()}
    return replace(node(id_), proved_at="198.18.0.1", settings=settings)


def lines(change: UpdateFeature, *brokers: Node) -> tuple[str, ...]:
    return prerequisites_of(change, observation(node(3001), *brokers))


def test_a_replication_factor_above_the_number_of_brokers_is_a_warning_with_what_fails() -> None:
    (line,) = lines(SHARE, broker(1, factor="3", isr="2"), broker(2, factor="3", isr="2"))
    assert line == (
        "warning: on 2 brokers (1, 2), share.coordinator.state.topic.replication.factor is 3, but 2 brokers are "
        "registered: while there is no topic __share_group_state, it cannot be created, and share groups do not work; "
        "set it to at most 2 in the file of each broker, or add brokers"
    )


def test_a_replication_factor_up_to_the_number_of_brokers_is_no_warning() -> None:
    assert not lines(SHARE, *(broker(id_, factor="3", isr="2") for id_ in (1, 2, 3)))


def test_one_broker_with_other_settings_is_enough_for_a_warning() -> None:
    """Clients may ask any broker for the coordinator, and that broker creates the topic with the values of its file."""
    (line,) = lines(SHARE, broker(1, factor="1", isr="1"), broker(2, factor="3", isr="2"))
    assert line.startswith("warning: on broker 2, ")


def test_a_min_isr_above_the_replication_factor_is_a_warning() -> None:
    (line,) = lines(SHARE, broker(1, factor="1", isr="2"))
    assert "share.coordinator.state.topic.min.isr is 2, more than" in line
    assert "set it to at most 1" in line


def test_a_ghost_counts_towards_the_replication_factor_and_a_refused_broker_does_not() -> None:
    two = (broker(1, factor="3", isr="2"), broker(2, factor="3", isr="2"))
    assert not lines(SHARE, *two, replace(node(3), state=NodeState.GHOST))
    assert lines(SHARE, *two, replace(node(3), state=NodeState.REFUSED))


@pytest.mark.parametrize(("change", "protocol"), [(GROUP, "consumer"), (STREAMS, "streams")])
def test_a_rebalance_protocol_that_a_broker_does_not_offer_is_a_warning(change: UpdateFeature, protocol: str) -> None:
    (line,) = lines(change, broker(1, protocols="classic"), broker(2, protocols=f"classic, {protocol}"))
    assert line.startswith("warning: on broker 1, group.coordinator.rebalance.protocols is classic: members")
    assert f"add {protocol} to it" in line


def test_unknown_settings_of_a_broker_are_the_only_warning_about_the_broker() -> None:
    (line,) = lines(GROUP, replace(node(1), settings={}), broker(2, protocols="classic,consumer"))
    assert line == (
        "warning: group.coordinator.rebalance.protocols of broker 1 is not known; make broker 1 reachable, and grant "
        "DESCRIBE_CONFIGS on the cluster"
    )


def test_a_setting_whose_value_a_node_hides_counts_as_unknown() -> None:
    hidden = replace(broker(1), settings={PROTOCOLS: Setting(SettingSource.FILE, is_secret=True)})
    (line,) = lines(GROUP, hidden)
    assert "of broker 1 is not known" in line


def test_a_broker_that_is_too_old_to_have_the_setting_makes_no_warning() -> None:
    """A Kafka whose answer (`proved_at`) lacks the setting does not support the level either."""
    assert not lines(SHARE, broker(1))


@pytest.mark.parametrize(
    "change",
    [
        UpdateFeature("share.version", 1, 2), UpdateFeature("share.version", 1, 0),
        UpdateFeature("metadata.version", 25, 29), UpdateFeature("transaction.version", 0, 2),
    ],
    ids=str,
)  # fmt: skip
def test_other_changes_read_no_settings_and_make_no_warning(change: UpdateFeature) -> None:
    assert not settings_of((change,))
    assert not lines(change, broker(1, factor="3", isr="2", protocols="classic"))


def test_a_raise_past_the_level_reads_the_same_settings() -> None:
    assert settings_of((UpdateFeature("share.version", 0, 2),)) == {STATE_TOPIC_FACTOR, STATE_TOPIC_MIN_ISR}
