"""The decision of one reconciliation about levels: act, wait, stall, or done."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState, Mode
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRun, DryRunAccepted, DryRunRejected, DryRunUnavailable, UnknownStep
from kafkafeatures.core.facts.observation import Known, MetadataMode, NodeState, Observation, Source, SourceKind
from kafkafeatures.core.facts.readings import QuorumAnswer, ReplicaProgress
from kafkafeatures.core.levels.update_feature import UpdateFeature
from tests.kafkafeatures.deciding import changes_in, decide, propose
from tests.kafkafeatures.worlds import NEW, OLD, SILENT, answer, node, observation, quorum

WANTED = {"group.version": 1, "metadata.version": 27}
ACCEPTED = DryRunAccepted()


def deciding(
    desired: dict[str, int] | None = None,
    observed: Observation | None = None,
    *,
    pinned: str = "",
    unsettled: tuple[UpdateFeature | UnknownStep, ...] = (),
    verdict: DryRun | None = ACCEPTED,
) -> Decision:
    wanted = DesiredState(WANTED if desired is None else desired, cluster_id=pinned)
    return decide(wanted, observed or observation(), unsettled=unsettled, verdict=verdict)


def test_metadata_version_goes_first_and_one_at_a_time() -> None:
    assert deciding() == Act(UpdateFeature("metadata.version", 21, 27))
    raised = observation(levels={"metadata.version": 27})
    assert deciding(observed=raised) == Act(UpdateFeature("group.version", 0, 1))


def test_an_already_finalized_level_is_never_sent_again() -> None:
    assert changes_in(propose(DesiredState({"metadata.version": 21}), observation(), Memory())) == ()
    assert isinstance(deciding({"metadata.version": 21}), Done)


def test_a_document_without_levels_is_in_sync() -> None:
    assert isinstance(deciding({}), Done)


def test_a_level_is_not_in_sync_while_a_live_node_reports_a_lower_one() -> None:
    late = observation(node(3001), node(1, said=answer(NEW, {"metadata.version": 20})))
    decision = deciding({"metadata.version": 21}, late)
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.VERIFYING
    assert "broker 1 still reports metadata.version 20" in decision.message


def test_a_node_that_is_down_does_not_keep_a_cluster_from_being_in_sync() -> None:
    down = observation(node(3001), node(1), node(2, state=NodeState.GHOST, said=SILENT))
    assert isinstance(deciding({"metadata.version": 21}, down), Done)


@pytest.mark.parametrize(
    ("change", "expected", "reason"),
    [
        ({"pinned": "cluster-2"}, Stalled, Reason.CLUSTER_ID_MISMATCH),
        ({"observed": observation(cluster_id=SILENT)}, Wait, Reason.PREFLIGHT),
        ({"verdict": DryRunRejected(95, "no")}, Stalled, Reason.CONTROLLER_REJECTED),
        ({"verdict": DryRunUnavailable("nobody answers")}, Wait, Reason.PREFLIGHT),
        ({"verdict": DryRunUnavailable("ALTER is missing", rights=True)}, Stalled, Reason.NOT_AUTHORIZED),
        ({"verdict": None}, Wait, Reason.PREFLIGHT),
        ({"observed": observation(levels=SILENT)}, Wait, Reason.WAITING_FOR_QUORUM),
        ({"desired": {"metadata.version": 20}}, Stalled, Reason.CONSENT_REQUIRED),
        ({"desired": {"metadata.version": 99}}, Stalled, Reason.UNSUPPORTED_LEVEL),
        ({"desired": {"nobody.knows": 1}}, Stalled, Reason.UNKNOWN_FEATURE),
        (
            {"observed": observation(node(3001), node(1, said=answer(OLD), written=OLD))},
            Wait,
            Reason.WAITING_FOR_NODES,
        ),
        (
            {"observed": observation(node(3001), node(1), node(4, state=NodeState.GHOST, said=SILENT, written=OLD))},
            Stalled,
            Reason.GHOST_REGISTRATION,
        ),
    ],
    ids=[
        "another cluster", "cluster id unknown", "dry run rejected", "dry run unavailable", "no right to a dry run",
        "no dry run yet", "levels unknown", "downgrade", "level of no release", "unknown feature", "old broker",
        "ghost with an old range",
    ],
)  # fmt: skip
def test_each_blocker_to_a_change_has_its_own_reason(
    change: dict[str, Any], expected: type[Decision], reason: Reason
) -> None:
    decision = deciding(**change)
    assert isinstance(decision, expected)
    assert decision.reason is reason


def test_nothing_is_sent_while_the_outcome_of_the_last_step_is_open() -> None:
    decision = deciding(unsettled=(UpdateFeature("metadata.version", 21, 27),))
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.VERIFYING


def test_a_step_with_open_outcome_holds_changes_of_other_features_too() -> None:
    decision = deciding({"group.version": 1}, unsettled=(UpdateFeature("metadata.version", 21, 27),))
    assert isinstance(decision, Wait)


# --- properties ---

_NAMES = st.sampled_from(["metadata.version", "group.version", "kraft.version", "other.feature"])
_RANGES = st.dictionaries(_NAMES, st.tuples(st.integers(0, 7), st.integers(7, 30)), max_size=4)
_LEVELS = st.dictionaries(_NAMES, st.integers(0, 30), max_size=4)


@st.composite
def _nodes(draw: st.DrawFn) -> Any:
    made = []
    for id_ in draw(st.lists(st.sampled_from([3001, 3002, 1, 2, 3]), min_size=1, max_size=5, unique=True)):
        of = draw(_RANGES)
        silent = draw(st.booleans())
        made.append(
            node(
                id_,
                state=draw(st.sampled_from(NodeState)) if silent else NodeState.LIVE,
                said=SILENT if silent else answer(of, draw(_LEVELS), complete=draw(st.booleans())),
                written=draw(st.sampled_from([of, draw(_RANGES), None])),
            )
        )
    return made


@given(nodes=_nodes(), desired=_LEVELS, levels=_LEVELS, accepted=st.booleans())
def test_every_level_change_that_is_sent_is_supported_by_every_node_of_known_range(
    nodes: Any, desired: dict[str, int], levels: dict[str, int], accepted: bool
) -> None:
    observed = observation(*nodes, levels=levels)
    verdict = ACCEPTED if accepted else DryRunUnavailable("no")
    decision = decide(DesiredState(desired), observed, verdict=verdict)
    assert decision == decide(DesiredState(desired), observed, verdict=verdict)
    if not isinstance(decision, Act):
        return
    step = decision.step
    assert accepted
    assert isinstance(step, UpdateFeature)
    assert step.feature != "kraft.version"
    assert step.from_level == levels.get(step.feature, 0)
    assert step.to_level == desired[step.feature] > step.from_level
    for planned in nodes:
        supported_range = planned.range_of(step.feature)
        assert (
            not isinstance(supported_range, Known)
            or step.to_level in supported_range.value
            or planned.state is NodeState.REFUSED
        )
        assert planned.state is not NodeState.REFUSED
    if step.feature != "metadata.version":
        assert "metadata.version" not in {
            change.feature for change in changes_in(propose(DesiredState(desired), observed, Memory()))
        }


# The leader's only follower has not fetched for 9 s: it leads without a majority.
LEFT_ALONE = QuorumAnswer(3001, 4, 100, (ReplicaProgress(3001, 100, 9000, 9000), ReplicaProgress(3002, 90, 1, 1)), ())


@given(
    nodes=_nodes(),
    desired=_LEVELS,
    same=st.booleans(),
    voting=st.sampled_from([quorum(), LEFT_ALONE, SILENT]),
    metadata_mode=st.sampled_from(MetadataMode),
    log_was_read=st.booleans(),
    mode=st.sampled_from(Mode),
)
def test_a_cluster_without_an_active_controller_is_never_ready(
    nodes: Any,
    desired: dict[str, int],
    same: bool,
    voting: Any,
    metadata_mode: MetadataMode,
    log_was_read: bool,
    mode: Mode,
) -> None:
    observed = observation(*nodes, levels=desired if same else {}, voting=voting, mode=metadata_mode)
    if not log_was_read:
        observed = replace(observed, source=Source(SourceKind.API_REQUESTS))
    decision = decide(DesiredState(desired, mode=mode), observed, verdict=ACCEPTED)
    if metadata_mode is MetadataMode.ZOOKEEPER:
        assert not (desired and isinstance(decision, Done) and decision.reason is Reason.IN_SYNC)
    elif isinstance(decision, Done | Act):
        assert voting is not SILENT
        assert voting is not LEFT_ALONE or log_was_read
