"""`check-rights`: the rights that are asked for depend on the nodes of the cluster and on the readable metadata log.

The log is the source of partitions and levels. Without it, brokers have to be asked, which needs other rights.
"""

from __future__ import annotations

from kafkafeatures.cli.document.check_rights import question_of
from kafkafeatures.core.facts.observation import MetadataMode, NodeState
from kafkafeatures.core.facts.readings import Failure, FailureKind, LogReading, ProbedNode, Readings, Role
from kafkafeatures.core.roll.drivers import MANUAL, NOBODY, Driver
from kafkafeatures.kafka.base.needs import Purpose
from kafkafeatures.kafka.probe.granted import RightsQuestion
from tests.kafkafeatures.worlds import NOW, answer, asked, image, node, observation, probe

FORBIDDEN = Failure(FailureKind.AUTHORIZATION, "metadata log", "Fetch needs CLUSTER_ACTION")
AWAY = Failure(FailureKind.UNREACHABLE, "metadata log", "no answer")
READ = LogReading(image(), 100, 3001, 4, NOW)
ZOOKEEPER = asked(1, answer(keys=(18,)))
"""A broker in ZooKeeper mode: it knows ApiVersions only, and not the requests of a quorum."""


def question(
    *nodes: ProbedNode,
    log: LogReading | Failure = READ,
    mode: str = "levels",
    driver: Driver = NOBODY,
    kept_in: MetadataMode = MetadataMode.KRAFT,
) -> RightsQuestion:
    probed = probe(*(nodes or (asked(1), asked(3001))))
    return question_of(Readings(probed, log), observation(mode=kept_in), mode, driver)


def test_a_driver_adds_the_rights_of_restarts_unless_the_mode_includes_them() -> None:
    assert question(driver=MANUAL).purposes == {Purpose.LEVELS, Purpose.RESTARTS}
    assert question(driver=NOBODY).purposes == {Purpose.LEVELS}
    assert question(driver=MANUAL, mode="ibp").purposes == {Purpose.IBP}


def test_an_unauthorized_metadata_log_needs_no_substitute_rights() -> None:
    """The missing right is reported itself; a log that cannot be reached is replaced by other requests."""
    assert question(log=READ).reads_log
    assert question(log=FORBIDDEN).reads_log
    assert not question(log=AWAY).reads_log


def test_brokers_are_asked_for_partitions_while_zookeeper_may_hold_them() -> None:
    for kept_in in (MetadataMode.ZOOKEEPER, MetadataMode.MIGRATING):
        for mode in ("ibp", "migrate"):
            assert not question(mode=mode, kept_in=kept_in).reads_log
    assert not question(ZOOKEEPER, log=FORBIDDEN).reads_log
    assert question(mode="migrate").reads_log


def test_rights_on_controllers_are_asked_for_unless_all_brokers_are_known_to_be_in_zookeeper_mode() -> None:
    assert question(ZOOKEEPER, mode="ibp").roles == {Role.BROKER}
    assert question(asked(1)).roles == set(Role)
    assert question(asked(1, AWAY)).roles == set(Role)  # it may be in KRaft mode


def test_rights_on_controllers_are_asked_for_beside_brokers_in_zookeeper_mode_if_there_are_or_will_be_controllers() -> (
    None
):
    assert question(ZOOKEEPER, asked(3001), mode="ibp").roles == set(Role)
    assert question(ZOOKEEPER, mode="migrate").roles == set(Role)


def test_a_ghost_registration_is_not_asked_for_rights() -> None:
    nodes = observation(node(1), node(2, state=NodeState.GHOST), node(3001))
    rights_question = question_of(Readings(probe(asked(1), asked(3001)), READ), nodes, "levels", NOBODY)
    assert rights_question.ghosts == {(Role.BROKER, 2)}
