"""Registrations whose address leads to another process, and brokers that are merely silent: ghosts, owners of an
address, remedies.

`registered(image, {3: (5, 99)})`: broker 3 registered with epoch 5 and port 99; a later registration has a higher
epoch. Observations list controllers before brokers. "FLAGS": flags of commands in remedies.
"""

from __future__ import annotations

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, NodeState
from kafkafeatures.core.facts.readings import BrokerList, Failure, FailureKind, Host
from kafkafeatures.core.report.check import check
from tests.kafkafeatures.core.test_identity import AS_BROKER, CONTROLLERS, observe_nodes, registered
from tests.kafkafeatures.worlds import NEW, OLD, SILENT, asked, image


def test_a_fenced_registration_is_a_ghost_if_the_process_at_its_address_is_another_broker() -> None:
    listed = BrokerList(tuple(Host(id_, "h", 99, is_fenced=True) for id_ in (3, 13)), lists_fenced=True)
    denied = Failure(FailureKind.ANOTHER_NODE, "h:99", "its address h:99 is that of broker 13 now")
    brokers = [replace(asked(id_, node_answer), port=99) for id_, node_answer in ((3, denied), (13, AS_BROKER))]
    broker_3, broker_13 = observe_nodes(*brokers, *map(asked, CONTROLLERS), log=None, brokers=listed).nodes[-2:]
    assert (broker_3.state, broker_13.state) == (NodeState.GHOST, NodeState.FENCED)
    assert "broker 13 now" in str(broker_3.answer)
    assert isinstance(broker_13.answer, Known)


def test_an_address_belongs_to_the_older_registration_if_its_process_denies_the_newer_one() -> None:
    log = registered(
        image({3: (OLD, False), 13: (NEW, False)}, dict.fromkeys(CONTROLLERS, NEW)), {3: (5, 99), 13: (50, 99)}
    )
    denied = Failure(FailureKind.ANOTHER_NODE, "h:99", "its address h:99 is that of broker 3 now")
    brokers = [replace(asked(id_, node_answer), port=99) for id_, node_answer in ((3, AS_BROKER), (13, denied))]
    broker_3, broker_13 = observe_nodes(*brokers, *map(asked, CONTROLLERS), log=log).nodes[-2:]
    assert (broker_3.state, broker_13.state) == (NodeState.LIVE, NodeState.UNREACHABLE)
    assert "broker 3 now" in str(broker_13.answer)


def test_an_address_whose_process_denies_all_registrations_belongs_to_none_of_them() -> None:
    listed = BrokerList(tuple(Host(id_, "h", 99, is_fenced=True) for id_ in (3, 13)), lists_fenced=True)
    denied = Failure(FailureKind.ANOTHER_NODE, "h:99", "its address h:99 is that of broker 7 now")
    brokers = [replace(asked(id_, denied), port=99) for id_ in (3, 13)]
    observation = observe_nodes(*brokers, *map(asked, CONTROLLERS), log=None, brokers=listed)
    assert [node.replaced_by for node in observation.nodes[-2:]] == [denied, denied]


def test_the_remedy_for_a_broker_whose_address_leads_elsewhere_is_not_to_start_it() -> None:
    log = registered(image({1: (NEW, False), 2: (NEW, False)}, dict.fromkeys(CONTROLLERS, NEW)), {})
    elsewhere = Failure(FailureKind.WRONG_CLUSTER, "h:2", "its address h:2 leads to cluster B, expected A", "see DNS")
    (blocker,) = check(
        observe_nodes(asked(1), asked(2, elsewhere), *map(asked, CONTROLLERS), log=log), {}, "FLAGS"
    ).blockers
    assert blocker.message == "broker 2 is not reachable: its address h:2 leads to cluster B, expected A"
    assert blocker.remedy == "see DNS"


def test_brokers_whose_addresses_lead_elsewhere_are_one_blocker() -> None:
    log = registered(image({1: (NEW, False), 2: (NEW, False)}, dict.fromkeys(CONTROLLERS, NEW)), {})
    nodes = (
        asked(id_, Failure(FailureKind.ANOTHER_NODE, f"h:{id_}", f"that of broker {other} now"))
        for id_, other in ((1, 2), (2, 1))
    )
    (blocker,) = check(observe_nodes(*nodes, *map(asked, CONTROLLERS), log=log), {}, "FLAGS").blockers
    assert blocker.message == "2 brokers (1, 2) are not reachable: their addresses lead to other nodes"
    assert blocker.remedy.startswith("make the address of each lead to it: see advertised.listeners")


def test_the_remedy_for_silent_brokers_is_to_start_them() -> None:
    log = registered(image({1: (NEW, False), 2: (NEW, False)}, dict.fromkeys(CONTROLLERS, NEW)), {})
    observation = observe_nodes(asked(1, SILENT), asked(2, SILENT), *map(asked, CONTROLLERS), log=log)
    assert (
        check(observation, {}, "FLAGS").blockers[0].remedy
        == "start them, or see whether they listen at their addresses"
    )
