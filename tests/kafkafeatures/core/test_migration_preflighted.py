"""The preflight as the stage of a migration runs it: until the quorum has taken over."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import Known, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from tests.kafkafeatures.core.migrations import BROKERS, Look, a_node, cluster, looks, message_of, restarted, wanting
from tests.kafkafeatures.core.preflights import from_file, registered
from tests.kafkafeatures.ensembles import elected
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.worlds import known

P, D = Position, Desired


def test_all_preflight_findings_prevent_the_first_step_and_are_reported_at_once() -> None:
    without_settings = replace(a_node(2, Shape.PLAIN_BROKER), settings={})
    for position, desired in ((P.ZOOKEEPER, D.PRE_MIGRATION), (P.PRE_MIGRATION, D.DUAL_WRITE)):
        unread = replace(
            cluster(position, without_settings),
            surveyed=Unknown(Failure(FailureKind.TIMED_OUT, "znode /brokers/topics", "no answer")),
        )
        look = looks(wanting(desired), unread)
        assert not isinstance(look.decision, Act)
        assert "znode /brokers/topics" in message_of(look)
        assert "broker 2" in message_of(look)


def test_the_preflight_is_repeated_until_the_quorum_takes_over() -> None:
    flagged = a_node(2, Shape.FLAGGED_BROKER)
    assert restarted(looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, flagged))) == 3
    unread = replace(cluster(P.PRE_MIGRATION, flagged), surveyed=Unknown(NOT_ASKED))
    assert not isinstance(looks(wanting(D.DUAL_WRITE), unread).decision, Act)
    controller = a_node(3001, Shape.MIGRATING_CONTROLLER)
    differing = replace(controller, settings={**controller.settings, "num.partitions": from_file("7")})
    look = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, flagged, differing))
    assert isinstance(look.decision, Stalled)
    assert "controller 3001 has num.partitions 7" in message_of(look)


def test_controllers_that_do_not_use_zookeeper_within_a_minute_stall_the_migration() -> None:
    read = znodes(controller=elected(1), migration=None, brokers={id_: registered(id_) for id_ in BROKERS})
    observation = replace(cluster(P.PRE_MIGRATION), zookeeper=known(read))
    first = Look(wanting(D.DUAL_WRITE), observation)
    assert isinstance(first.decision, Wait)
    later = Look(wanting(D.DUAL_WRITE), observation, before=first, seconds=61)
    assert isinstance(later.decision, Stalled)
    assert "cannot use ZooKeeper" in message_of(later)


@pytest.mark.parametrize("position", [P.ZOOKEEPER, P.PRE_MIGRATION])
def test_a_kafka_release_before_3_9_is_refused_with_the_upgrade_as_remedy(position: Position) -> None:
    node = a_node(2, Shape.PLAIN_BROKER)
    assert isinstance(node.answer, Known)
    apis = {**node.answer.value.apis, 18: VersionRange(0, 3)}  # ApiVersions has version 4 from Kafka 3.9 on
    before_3_9 = replace(node, answer=replace(node.answer, value=replace(node.answer.value, apis=apis)))
    look = looks(wanting(D.DUAL_WRITE), cluster(position, before_3_9))
    assert isinstance(look.decision, Stalled)
    assert look.decision.reason is Reason.MIGRATION_BLOCKED
    assert "upgrade Kafka on broker 2 to 3.9 first" in message_of(look)
