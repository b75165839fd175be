"""Before a rollback takes the flag from brokers, each has to name the broker that is the controller: one that does not
would hang.
"""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.facts.observation import Observation, SourceKind
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.kinds import demands_of
from kafkafeatures.core.migration.informed import uninformed
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import (
    BROKERS,
    a_node,
    cluster,
    looks,
    message_of,
    restarted,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.ensembles import elected, progress
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.worlds import NOW, known

BACK = wanting(Desired.ROLLED_BACK)
SILENT = Failure(FailureKind.TIMED_OUT, "10.0.0.3:9092", "no answer within 5 s", "look at its log")


def released(*plain: int, named: dict[int, frozenset[int] | Failure]) -> Observation:
    """Build a cluster without quorum in which broker 1 is controller, and all brokers but these have the flag."""
    flagged = (a_node(id_, Shape.FLAGGED_BROKER) for id_ in BROKERS if id_ not in plain)
    observation = without_quorum(cluster(Position.PRE_MIGRATION, *flagged))
    claimed_by_1 = znodes(controller=elected(1), migration=None)
    return replace(observation, zookeeper=known(claimed_by_1, SourceKind.ZOOKEEPER), named_controllers=named)


INFORMED: dict[int, frozenset[int] | Failure] = dict.fromkeys(BROKERS, frozenset({1}))


def test_brokers_are_restarted_one_by_one_once_every_broker_names_the_controller() -> None:
    """Broker 1 is the controller, and goes last."""
    assert restarted(looks(BACK, released(named=INFORMED))) == 2
    assert restarted(looks(BACK, released(2, named=INFORMED))) == 3


@pytest.mark.parametrize(
    ("named", "says"),
    [
        (frozenset({2}), "broker 3 does not know yet that broker 1 is controller"),
        (frozenset({1, 2}), "broker 3 does not know yet"),
        (frozenset({-1}), "broker 3 does not know yet"),
        (SILENT, "it is not known which controller broker 3 follows: no answer within 5 s; look at its log"),
        (None, "it is not known which controller broker 3 follows; bring broker 3 back"),
    ],
    ids=["names another broker", "two answers, one of them right", "names none", "does not answer", "not asked"],
)
@pytest.mark.parametrize("plain", [(), (2,)], ids=["no broker without the flag", "one broker without the flag"])
def test_no_broker_is_restarted_while_another_broker_does_not_report_the_controller_it_follows(
    named: frozenset[int] | Failure | None, says: str, plain: tuple[int, ...]
) -> None:
    other_brokers = {id_: controller for id_, controller in INFORMED.items() if id_ != 3}
    look = looks(BACK, released(*plain, named=other_brokers if named is None else {**other_brokers, 3: named}))
    assert isinstance(look.decision, Wait)
    assert look.decision.reason is Reason.WAITING_FOR_NODES
    assert says in message_of(look)
    assert [blocker.nodes[0].id for blocker in look.decision.blockers] == [3]


@pytest.mark.parametrize("is_back", [True, False], ids=["rollback without controllers", "migration with controllers"])
def test_the_message_of_a_restart_warns_of_a_long_stop_only_where_the_controllers_are_gone(is_back: bool) -> None:
    observation = released(named=INFORMED) if is_back else cluster(Position.PRE_MIGRATION)
    node = observation.node(2)
    assert node is not None
    step = RestartNode(2, "broker 2", broker_epoch=node.broker_epoch, czxid=node.czxid)
    sent = (RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON),)
    message = message_of(looks(BACK if is_back else wanting(Desired.DUAL_WRITE), observation, sent=sent))
    assert message.startswith("restart broker 2 as a broker in ZooKeeper mode")
    assert ("give it 6 minutes to stop before you kill it" in message) is is_back


def test_a_broker_that_is_being_restarted_need_not_name_the_controller() -> None:
    look = looks(BACK, released(named={1: frozenset({1}), 2: frozenset({1})}))
    (stage,) = (stage for stage in look.stages if stage.kind == "Migration")
    assert not list(uninformed(stage.progress, frozenset({3})))  # type: ignore[attr-defined]  # of a migration
    assert [str(blocker) for blocker in uninformed(stage.progress, frozenset())]  # type: ignore[attr-defined]


def test_brokers_are_asked_for_the_controller_only_before_they_lose_the_flag() -> None:
    def are_asked(observation: Observation, desired: Desired = Desired.ROLLED_BACK) -> bool:
        look = looks(wanting(desired), observation)
        return demands_of(
            ReadContext(look.wanted, look.facts.remembered, NOT_ASKED, NOW, observation)
        ).named_controllers

    assert are_asked(released(named={}))
    with_migration_znode = replace(
        released(named={}), zookeeper=known(znodes(controller=elected(1), migration=progress(-1)))
    )
    assert not are_asked(with_migration_znode)  # it is deleted first
    assert not are_asked(cluster(Position.DUAL_WRITE))
    assert not are_asked(cluster(Position.PRE_MIGRATION), Desired.DUAL_WRITE)
