"""The raise of kraft.version, for which Kafka has no dry run: it needs a known range of every node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.decisions import Act, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.steps import DryRunAccepted
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import BrokerList, ClusterProbe, Failure, FailureKind, Host, LogReading
from kafkafeatures.core.levels.update_feature import UpdateFeature
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import NEW, NOW, OLD, SILENT, answer, asked, image, node, observation, probe

DYNAMIC = DesiredState({"kraft.version": 1}, consents=frozenset({"dynamic-quorum"}), policy=ApprovalPolicy.NEVER)
DENIED = Failure(FailureKind.AUTHORIZATION, "metadata log", "CLUSTER_ACTION is missing", "grant it")
NO_BROKERS = Failure(FailureKind.NOT_ASKED, "bootstrapServers", "no broker is named", "name a broker")
LEVELS = {"metadata.version": 27}
READ = LogReading(image({1: (NEW, False)}, {3001: NEW, 3002: NEW}, LEVELS), 100, 3001, 4, NOW)
C1, C2, B1 = (asked(id_, answer(NEW, LEVELS)) for id_ in (3001, 3002, 1))


def decision_on(observation: Observation) -> Act | Wait:
    decision = decide(DYNAMIC, observation, verdict=DryRunAccepted())
    assert isinstance(decision, Act | Wait)
    return decision


def test_kraft_version_is_raised_where_every_range_and_every_registration_is_known() -> None:
    assert decision_on(observe(probe(C1, C2, B1), READ)) == Act(UpdateFeature("kraft.version", 0, 1))


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        pytest.param(
            observe(probe(C1, C2, brokers=NO_BROKERS), DENIED), "the registered brokers could", id="controllers only"
        ),
        pytest.param(
            observe(probe(C1, C2, B1, brokers=BrokerList((Host(1, "h", 1),), lists_fenced=False)), DENIED),
            "the registered brokers could",
            id="a list of brokers that leaves out those that are fenced",
        ),
        pytest.param(
            observe(probe(C1, C2, B1, controllers=SILENT), DENIED),
            "the registered controllers could",
            id="no list of controllers",
        ),
        pytest.param(
            observe(probe(C1, asked(3002, SILENT), B1), DENIED),
            "range of kraft.version on controller 3002",
            id="a controller that does not answer",
        ),
        pytest.param(
            observe(
                probe(C1, asked(3002, answer({**NEW, "metadata.version": (7, 26)}, LEVELS)), B1),
                READ,
            ),
            "range of metadata.version on controller 3002",
            id="a controller that says another metadata.version than its registration",
        ),
    ],
)
def test_an_unread_range_or_registration_holds_the_raise_of_kraft_version(observation: Observation, words: str) -> None:
    decision = decision_on(observation)
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.WAITING_FOR_NODES
    assert {blocker.kind for blocker in decision.blockers} == {BlockerKind.NODE_UNKNOWN}
    assert words in decision.blockers[0].message
    assert decision.blockers[0].remedy


def test_a_controller_whose_ranges_are_all_unknown_is_named_once() -> None:
    observed = observation(
        node(3001), node(3002, state=NodeState.UNREACHABLE, said=SILENT, written=None), node(1), levels=LEVELS
    )
    decision = decision_on(observed)
    assert isinstance(decision, Wait)
    assert len(decision.blockers) == 1


def test_registered_brokers_are_known_from_the_log_or_from_a_list_with_fenced_brokers() -> None:
    with_fenced, without_fenced = (
        probe(C1, B1, brokers=BrokerList((Host(1, "h", 1),), lists_fenced=lists_fenced))
        for lists_fenced in (True, False)
    )
    no_list = probe(C1, brokers=NO_BROKERS)
    readings: list[tuple[ClusterProbe, LogReading | Failure]]
    readings = [(with_fenced, READ), (no_list, READ), (with_fenced, DENIED)]
    for cluster_probe, log in readings:
        registered = observe(cluster_probe, log).registered_brokers
        assert isinstance(registered, Known)
        assert registered.value == {1}
    for cluster_probe in (without_fenced, no_list):
        assert isinstance(observe(cluster_probe, DENIED).registered_brokers, Unknown)


_HALF = {name: levels for name, levels in NEW.items() if name != "kraft.version"}


@given(
    reported=st.lists(st.sampled_from([NEW, NEW, NEW, OLD, _HALF, None]), min_size=3, max_size=3),
    written=st.lists(st.sampled_from([NEW, NEW, NEW, OLD, _HALF, None]), min_size=3, max_size=3),
)
def test_kraft_version_is_raised_only_if_the_range_of_every_node_is_known(
    reported: list[Any], written: list[Any]
) -> None:
    nodes = [
        node(
            id_,
            state=NodeState.LIVE if of else NodeState.UNREACHABLE,
            said=answer(of, LEVELS) if of else SILENT,
            written=registered,
        )
        for id_, of, registered in zip((3001, 3002, 1), reported, written, strict=True)
    ]
    if not isinstance(decide(DYNAMIC, observation(*nodes, levels=LEVELS), verdict=DryRunAccepted()), Act):
        return
    for reporting in nodes:
        needed = {"kraft.version": 1, **({"metadata.version": 27} if reporting.id >= 3000 else {})}
        for feature, least in needed.items():
            supported_range = reporting.range_of(feature)
            assert isinstance(supported_range, Known)
            assert supported_range.value.max >= least
