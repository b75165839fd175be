"""Plans: the order of changes, consents for downgrades, modes and policies."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Mode, OnDrift
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRunAccepted, DryRunRejected, DryRunUnavailable
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.releases import METADATA_VERSIONS, Undo, bundle, dependencies, floor_of
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.report.status import steps_of
from tests.kafkafeatures.core.plans import EVERY, NAMED, SHARE, change, deciding, kinds, world
from tests.kafkafeatures.deciding import changes_in, decide, propose
from tests.kafkafeatures.worlds import SILENT, answer, node, observation, telling

# --- order ---


def test_dependents_are_raised_after_metadata_version_and_lowered_before_it() -> None:
    up = changes_between({"share.version": 1, "metadata.version": 29, "group.version": 1}, {"metadata.version": 25})
    assert [change.feature for change in up] == ["metadata.version", "group.version", "share.version"]
    down = changes_between(
        {"share.version": 0, "metadata.version": 24, "kraft.version": 1}, {"metadata.version": 25, "share.version": 1}
    )
    assert [change.feature for change in down] == ["share.version", "metadata.version", "kraft.version"]


def test_a_level_that_is_already_finalized_is_in_no_plan() -> None:
    assert changes_between({"a": 1, "b": 0}, {"a": 1}) == ()


@given(
    st.dictionaries(st.sampled_from(sorted(EVERY)), st.integers(0, 30)),
    st.dictionaries(st.sampled_from(sorted(EVERY)), st.integers(0, 30)),
)
def test_every_intermediate_state_of_a_plan_satisfies_the_dependencies_of_features(
    desired: dict[str, int], finalized: dict[str, int]
) -> None:
    """If the dependencies hold before the plan and after it, they hold after each step."""

    def in_order(levels: dict[str, int]) -> bool:
        return all(
            levels.get(required, 0) >= required_level
            for feature, level in levels.items()
            for required, required_level in dependencies(feature, level).items()
        )

    changes = changes_between(desired, finalized)
    states = list(
        itertools.accumulate(changes, lambda now, change: {**now, change.feature: change.to_level}, initial=finalized)
    )
    if in_order(states[0]) and in_order(states[-1]):
        assert all(in_order(state) for state in states)
    # The last state has the desired levels. A feature without a level has level 0, so no change sets it to 0.
    assert {**finalized, **desired} == states[-1] | {feature: 0 for feature, level in desired.items() if level == 0}


# --- bundles ---


def test_a_release_version_never_sets_kraft_version_and_never_downgrades_a_level() -> None:
    for version in METADATA_VERSIONS.values():
        levels = bundle(version.name)
        assert levels is not None
        assert "kraft.version" not in levels
    of_3_9 = DesiredState({}, bundle("3.9") or {})  # metadata.version 21
    assert of_3_9.desired({"metadata.version": 25}) == {"metadata.version": 25}
    assert isinstance(deciding(of_3_9), Done)


def test_levels_that_the_document_names_override_those_of_its_release_version() -> None:
    wanted = DesiredState({"share.version": 0}, bundle("4.2") or {})
    assert wanted.desired({})["share.version"] == 0
    assert wanted.desired({})["metadata.version"] == 29


# --- undo ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metadata.version 25->29", Undo.SAFE),
        ("metadata.version 29->30", Undo.IMPOSSIBLE),
        ("metadata.version 21->23", Undo.IMPOSSIBLE),
        ("metadata.version 3->4", Undo.IMPOSSIBLE),  # 4 changed nothing, and no release goes below it
        ("metadata.version 25->99", Undo.IMPOSSIBLE),  # a level of a vendor: nothing is promised
        ("group.version 0->1", Undo.LOSSY),
        ("group.version 1->0", Undo.SAFE),
        ("kraft.version 0->1", Undo.IMPOSSIBLE),
        ("confluent.metadata.version 3->4", Undo.LOSSY),
    ],
    ids=str,
)
def test_each_change_is_safe_lossy_or_impossible_to_undo(text: str, expected: Undo) -> None:
    assert change(text).undo is expected


def test_only_a_plan_with_a_step_that_kafka_refuses_to_undo_is_irreversible() -> None:
    assert not propose(DesiredState({"group.version": 1}), world(), Memory()).plan.irreversible
    crossing = propose(DesiredState({"metadata.version": 30, "group.version": 1}), world(), Memory()).plan
    assert crossing.irreversible
    assert [step.undo for step in steps_of(crossing)] == ["Impossible", "Lossy"]
    assert [step.reversible for step in steps_of(crossing)] == [False, False]


@pytest.mark.parametrize(
    ("feature", "level", "consent", "undo"),
    [
        ("group.version", 0, "group.version:1->0", "Lossy"),
        ("metadata.version", 23, "metadata.version:25->23", "Safe"),  # lossless, or Kafka refuses it
    ],
)
def test_a_downgrade_says_whether_metadata_may_be_lost_and_is_approved_by_its_consent(
    feature: str, level: int, consent: str, undo: str
) -> None:
    wanted = DesiredState({feature: level}, consents=frozenset({consent}))
    observation = world(group_version=1)
    (step,) = steps_of(propose(wanted, observation, Memory()).plan)
    assert (step.undo, step.reversible) == (undo, undo == "Safe")
    assert isinstance(decide(wanted, observation, verdict=DryRunAccepted()), Act)


@pytest.mark.parametrize(
    ("level", "floor"),
    [(21, 17), (22, 17), (25, 23), (29, 23), (30, 30), (31, 30), (17, 17), (99, None), (8, 8), (4, 4), (1, 1)],
)
def test_the_floor_of_a_metadata_version_is_the_lowest_level_that_kafka_lets_it_go_back_to(
    level: int, floor: int | None
) -> None:
    assert floor_of(level) == floor


# --- consents ---

LOWER = DesiredState({"transaction.version": 1})
CONSENT = "transaction.version:2->1"


def test_a_downgrade_without_its_consent_stalls_with_the_consent_as_remedy() -> None:
    decision = deciding(LOWER, world(transaction_version=2))
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.CONSENT_REQUIRED
    assert CONSENT in decision.blockers[0].remedy


@pytest.mark.parametrize("consent", ["transaction.version:2->0", "transaction.version:1->2", "group.version:2->1"])
def test_a_consent_for_another_change_does_not_allow_a_downgrade(consent: str) -> None:
    wanted = DesiredState({"transaction.version": 1}, consents=frozenset({consent}))
    assert isinstance(deciding(wanted, world(transaction_version=2)), Stalled)


def test_a_consent_is_used_once() -> None:
    wanted = DesiredState({"transaction.version": 1}, consents=frozenset({CONSENT}))
    observation = world(transaction_version=2)
    assert deciding(wanted, observation) == Act(change("transaction.version 2->1"))
    spent = deciding(wanted, observation, Memory(spent=frozenset({CONSENT})))
    assert isinstance(spent, Stalled)
    assert spent.reason is Reason.CONSENT_SPENT


@pytest.mark.parametrize(
    "consents", [frozenset({"metadata.version:25->22"}), frozenset[str]()], ids=["consent", "no consent"]
)
def test_no_consent_allows_a_downgrade_below_a_level_that_changed_metadata_and_no_remedy_asks_for_one(
    consents: frozenset[str],
) -> None:
    decision = deciding(DesiredState({"metadata.version": 22}, consents=consents))
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.DOWNGRADE_REFUSED
    assert "consent" not in "".join(blocker.remedy for blocker in decision.blockers)


def test_a_consent_allows_a_downgrade_to_the_last_level_that_changed_metadata() -> None:
    allowed = DesiredState({"metadata.version": 23}, consents=frozenset({"metadata.version:25->23"}))
    assert deciding(allowed) == Act(change("metadata.version 25->23"))


DYNAMIC = DesiredState({"kraft.version": 1}, consents=frozenset({"dynamic-quorum"}), policy=ApprovalPolicy.NEVER)


def test_kraft_version_is_never_downgraded() -> None:
    downgrade = DesiredState({"kraft.version": 0}, consents=frozenset({"dynamic-quorum"}))
    decision = deciding(downgrade, world(kraft_version=1))
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.DOWNGRADE_REFUSED


def test_kraft_version_is_raised_only_with_its_consent() -> None:
    assert deciding(DYNAMIC) == Act(change("kraft.version 0->1"))
    assert kinds(deciding(DesiredState({"kraft.version": 1}))) == {BlockerKind.CONSENT}


def test_kraft_version_is_not_raised_while_a_controller_is_too_old() -> None:
    """A controller before Kafka 4.1 accepts the raise and ignores it; this one is of 4.0."""
    too_old = {**EVERY, "metadata.version": (7, 25)}
    observed = observation(node(3001, said=answer(too_old), written=too_old), levels={"metadata.version": 25})
    assert kinds(deciding(DYNAMIC, observed)) == {BlockerKind.NODE_RANGE}


def test_kraft_version_is_raised_after_all_other_features() -> None:
    wanted = replace(DYNAMIC, levels={"kraft.version": 1, "share.version": 1})
    assert deciding(wanted) == Act(change("share.version 0->1"))


def test_the_kraft_version_that_brokers_report_does_not_count() -> None:
    """Releases differ in what a broker reports (KAFKA-18979, KAFKA-18602), so the level that
    controllers report counts.
    """
    levels = {"metadata.version": 25, "kraft.version": 1}
    controllers = [node(i, said=answer(EVERY, levels), written=EVERY) for i in (3001, 3002)]
    broker = node(1, said=answer(EVERY, {"metadata.version": 25}), written=EVERY)
    observed = observation(*controllers, broker, levels=levels)
    assert isinstance(deciding(DesiredState({"kraft.version": 1}), observed), Done)  # 1 is finalized already


# --- dependencies ---


def test_a_missing_dependency_is_a_blocker_unless_the_same_plan_raises_it() -> None:
    observation = world(metadata_version=22)
    observation = replace(
        observation, nodes=tuple(telling(node, min__insync__replicas="1") for node in observation.nodes)
    )
    alone = DesiredState({"eligible.leader.replicas.version": 1})
    assert kinds(deciding(alone, observation)) == {BlockerKind.DEPENDENCY}
    together = DesiredState({"eligible.leader.replicas.version": 1, "metadata.version": 23})
    assert deciding(together, observation) == Act(change("metadata.version 22->23"))


def test_a_downgrade_of_a_level_that_another_feature_needs_is_a_blocker_though_kafka_would_accept_it() -> None:
    """Kafka checks what a feature depends on while it is raised, and never again."""
    down = DesiredState({"metadata.version": 22}, consents=frozenset({"metadata.version:25->22"}))
    decision = deciding(down, world(eligible_leader_replicas_version=1))
    assert BlockerKind.DEPENDENCY in kinds(decision)
    assert BlockerKind.DEPENDENCY not in kinds(deciding(down))


# --- modes ---


@pytest.mark.parametrize("verdict", [DryRunAccepted(), DryRunRejected(95, "no"), DryRunUnavailable("x")])
def test_a_resource_that_observes_or_is_suspended_never_acts(verdict: Any) -> None:
    observed = deciding(DesiredState(SHARE, mode=Mode.OBSERVE), verdict=verdict)
    assert isinstance(observed, Done)
    assert observed.reason is Reason.OBSERVED
    assert "would change share.version 0 -> 1" in observed.message
    decision = deciding(DesiredState(SHARE, suspend=True), verdict=verdict)
    assert isinstance(decision, Held)
    assert decision.reason is Reason.SUSPENDED


def test_a_suspended_resource_with_nothing_to_do_is_in_sync() -> None:
    assert isinstance(deciding(DesiredState({"metadata.version": 25}, suspend=True)), Done)


# --- the dry run ---


def test_without_a_dry_run_no_change_is_sent_but_kraft_version_which_has_no_dry_run() -> None:
    assert isinstance(decide(NAMED, world()), Wait)
    assert isinstance(decide(DYNAMIC, world()), Act)


# --- unknown features and contradictions ---


def test_an_unknown_feature_at_level_0_stalls_and_a_known_one_at_level_0_is_done() -> None:
    wrong = deciding(DesiredState({"transaction.verison": 0}))
    assert isinstance(wrong, Stalled)
    assert wrong.reason is Reason.UNKNOWN_FEATURE
    assert isinstance(deciding(DesiredState({"streams.version": 0})), Done)  # Kafka has it, these nodes do not yet


def test_an_accepted_dry_run_does_not_remove_the_blocker_of_a_node_that_contradicts_its_registration() -> None:
    """The controller's dry run judges by the registration, but the process that answers may be of an older Kafka."""
    older = node(2, said=answer({**EVERY, "metadata.version": (7, 25)}), written=EVERY)
    observed = observation(node(3001), node(1), older)
    decision = deciding(DesiredState({"metadata.version": 27}), observed, verdict=DryRunAccepted())
    assert BlockerKind.NODE_UNKNOWN in kinds(decision)


def test_bootstrap_addresses_of_two_clusters_stall_with_cluster_id_mismatch() -> None:
    wrong = Failure(FailureKind.WRONG_CLUSTER, "x", "they lead to 2 clusters", "name one")
    decision = deciding(NAMED, observation(cluster_id=wrong))
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.CLUSTER_ID_MISMATCH


# --- properties ---

_LEVELS = st.dictionaries(st.sampled_from(sorted(EVERY)), st.integers(0, 31))
_CONSENTS = st.sets(st.sampled_from(["dynamic-quorum", "metadata.version:25->24", "share.version:1->0"]))


@given(
    levels=_LEVELS, bundled=_LEVELS, finalized=_LEVELS, consents=_CONSENTS, spent=_CONSENTS, reached=_LEVELS,
    mode=st.sampled_from(Mode), suspend=st.booleans(), policy=st.sampled_from(ApprovalPolicy),
    on_drift=st.sampled_from(OnDrift),
    verdict=st.sampled_from([DryRunAccepted(), DryRunRejected(95, "no"), DryRunUnavailable("x"), None]),
    silent=st.booleans(),
)  # fmt: skip
def test_every_change_that_is_sent_was_allowed_by_mode_policy_and_consents(
    levels: dict[str, int], bundled: dict[str, int], finalized: dict[str, int], consents: set[str], spent: set[str],
    reached: dict[str, int], mode: Mode, suspend: bool, policy: ApprovalPolicy, on_drift: OnDrift, verdict: Any,
    silent: bool,
) -> None:  # fmt: skip
    wanted = DesiredState(levels, bundled, frozenset(consents), mode, suspend, policy, on_drift=on_drift)
    nodes = [node(i, said=answer(EVERY, finalized), written=EVERY) for i in (3001, 1)]
    if silent:
        nodes.append(node(2, said=SILENT, written=None))
    memory = Memory(spent=frozenset(spent), reached=reached)
    decision = decide(wanted, observation(*nodes, levels=finalized), memory, verdict=verdict)
    if not isinstance(decision, Act):
        return
    step = decision.step
    assert isinstance(step, UpdateFeature)
    assert mode is Mode.APPLY
    assert not suspend
    assert step.from_level == finalized.get(step.feature, 0) != step.to_level
    assert EVERY[step.feature][0] <= step.to_level <= EVERY[step.feature][1]
    if step.to_level < step.from_level:
        consent = f"{step.feature}:{step.from_level}->{step.to_level}"
        assert consent in consents - spent
        assert step.feature != "metadata.version" or step.to_level >= (floor_of(step.from_level) or 0)
        assert step.feature in levels  # a bundle never lowers
    if step.feature == "kraft.version":
        assert "dynamic-quorum" in consents - spent
        assert all(
            change.feature == "kraft.version"
            for change in changes_in(propose(wanted, observation(*nodes, levels=finalized), memory))
        )
    else:
        assert isinstance(verdict, DryRunAccepted)
    assert policy is not ApprovalPolicy.ALWAYS
    if policy is ApprovalPolicy.IRREVERSIBLE_ONLY and step.undo is not Undo.SAFE:
        assert step.feature in levels
    assert step.undo is not Undo.IMPOSSIBLE or reached.get(step.feature) != step.to_level
    assert on_drift is OnDrift.CORRECT or reached.get(step.feature) != step.to_level
