"""The soak before an irreversible change: the time, set as finalizeAfter in the document, for which every node must
have been healthy on a Kafka that supports the level. Only the process that observed it counts it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import EMPTY, Intent, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Held, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Mode, Rollout, Window
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRunAccepted
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.kinds import is_changing
from kafkafeatures.core.levels.soak import LOOKS_WITHIN, Soak, soak_of, with_soak
from tests.kafkafeatures.core.plans import EVERY, change, world
from tests.kafkafeatures.deciding import changes_in, decide, facts_of, propose
from tests.kafkafeatures.worlds import NOW, OLD, SILENT, answer, known, node, observation

DAY = timedelta(hours=24)
WANTED = DesiredState({"metadata.version": 30}, finalize_after=DAY, uid="1")
IRREVERSIBLE = (change("metadata.version 25->30"),)
LEVELS = {"metadata.version": 25}
BEGAN = Status(soak_started_at=stamp(NOW - timedelta(hours=1)))  # by a process that is gone


def observation_with(processes: dict[int, str] | None = None, **levels: int) -> Observation:
    """Build an observation in which every node has registered; `processes` has its process by id."""
    observation = world(**levels)
    lives = {node.id: "a" for node in observation.nodes} | (processes or {})
    nodes = (replace(node, incarnation=lives[node.id]) for node in observation.nodes)
    return replace(observation, nodes=tuple(nodes))


def soaking(
    observation: Observation | None = None,
    remembered: Status = EMPTY,
    wanted: DesiredState = WANTED,
    *,
    before: Soak | None = None,
    after: timedelta = timedelta(0),
    took: float = 0.0,
) -> Soak | None:
    """Return the soak after a reading, `after` the first reading of this process. `before`: the soak after the previous
    reading; `took`: seconds that the reading took; `remembered`: the status.
    """
    observation = observation or observation_with()
    changes = changes_in(propose(wanted, observation, Memory()))
    at = 1000.0 + after.total_seconds()
    facts = replace(
        facts_of(wanted, observation, now=NOW + after), remembered=remembered, monotonic=at, read_at=at - took,
        stage_memory={"Levels": before} if before is not None else {},
    )  # fmt: skip
    return soak_of(facts, changes)


def soak_after(duration: timedelta, *, wanted: DesiredState = WANTED) -> Soak:
    """Return the soak after observations every half minute for this long."""
    soak, after = soaking(wanted=wanted), timedelta(0)
    while after < duration:
        after = min(after + timedelta(seconds=LOOKS_WITHIN), duration)
        soak = soaking(wanted=wanted, before=soak, after=after)
    return not_none(soak)


def deciding(wanted: DesiredState, soak: Soak | None, observation: Observation | None = None) -> Decision:
    return decide(wanted, observation or world(), verdict=DryRunAccepted(), soak=soak)


def not_none(soak: Soak | None) -> Soak:
    assert soak is not None
    return soak


HOUR = timedelta(hours=1)
FOR_AN_HOUR = replace(WANTED, finalize_after=HOUR)
OVER = soak_after(HOUR, wanted=FOR_AN_HOUR)
SOON = timedelta(seconds=LOOKS_WITHIN)


# --- begin, length and end ---


def test_a_soak_begins_with_the_first_observation_of_every_node_healthy_and_at_the_target() -> None:
    soak = not_none(soaking())
    assert (soak.started_at, soak.remaining, soak.why_not, soak.anew) == (stamp(NOW), DAY, "", "")
    assert soak.until == "2026-01-03T03:04:05Z"


def test_a_soak_lasts_as_long_as_the_current_document_says() -> None:
    soak = soak_after(HOUR)
    assert (soak.started_at, soak.remaining, soak.is_over) == (stamp(NOW), timedelta(hours=23), False)
    assert OVER.is_over
    assert not soak_after(HOUR - timedelta(seconds=1), wanted=FOR_AN_HOUR).is_over
    shorter = replace(WANTED, finalize_after=timedelta(minutes=10))
    assert not_none(soaking(wanted=shorter, before=soak, after=HOUR)).is_over


def test_the_seconds_of_reading_count_neither_at_the_beginning_nor_at_the_end_of_a_soak() -> None:
    """A node may end right after it has answered, while other nodes are still read."""
    almost = timedelta(minutes=59, seconds=30)
    wanted, begun = FOR_AN_HOUR, soaking(wanted=FOR_AN_HOUR, took=20.0)
    watching = replace(not_none(begun), looked=not_none(begun).began + almost.total_seconds())
    after = HOUR + timedelta(seconds=19)
    assert not_none(soaking(wanted=wanted, before=watching, after=after, took=20.0)).remaining == timedelta(seconds=1)
    assert not_none(soaking(wanted=wanted, before=watching, after=after, took=19.0)).is_over


UNHEALTHY: dict[str, dict[str, Any]] = {
    "broker 2 is Fenced": {"state": NodeState.FENCED},
    "broker 2 is Unreachable": {"state": NodeState.UNREACHABLE, "said": SILENT},
    "broker 2 is Ghost": {"state": NodeState.GHOST, "said": SILENT},
    "broker 2 supports metadata.version 1-21": {"said": answer(OLD), "written": OLD},
    "what broker 2 supports of metadata.version is not known": {"said": answer(OLD)},  # its registration says otherwise
}


@pytest.mark.parametrize("defect", UNHEALTHY)
def test_an_unhealthy_node_restarts_the_soak(defect: str) -> None:
    nodes = [node(i, said=answer(EVERY, LEVELS), written=EVERY) for i in (3001, 1)]
    observed = observation(*nodes, node(2, **{"written": EVERY, **UNHEALTHY[defect]}), levels=LEVELS)
    ended = not_none(soaking(observed, before=soak_after(HOUR), after=HOUR))
    assert (ended.started_at, ended.until, ended.why_not) == (None, None, defect)
    assert with_soak(BEGAN, ended).soak_started_at is None
    still = not_none(soaking(observed, before=ended, after=HOUR + SOON))
    restarted = not_none(soaking(before=still, after=HOUR + 2 * SOON))
    assert (restarted.started_at, restarted.remaining) == (stamp(NOW + HOUR + 2 * SOON), DAY)
    assert str(restarted).endswith(f"; started over at {restarted.started_at}: {defect}")


def test_a_soak_that_has_begun_no_longer_reports_its_former_blocker() -> None:
    restart = replace(EMPTY, intents=(Intent(kind="RestartNode"),))
    not_yet = soaking(remembered=restart)
    assert not_none(not_yet).why_not == "a restart is in progress"
    assert "started over" not in str(soaking(before=not_yet, after=SOON))


def test_a_restart_in_flight_ends_a_soak_and_a_sent_level_does_not() -> None:
    restart = replace(EMPTY, intents=(Intent(kind="RestartNode"),))
    assert (
        not_none(soaking(remembered=restart, before=soak_after(HOUR), after=HOUR)).why_not == "a restart is in progress"
    )
    level = replace(EMPTY, intents=(Intent(kind="UpdateFeature"),))
    assert not_none(soaking(remembered=level, before=soak_after(HOUR), after=HOUR)).started_at == stamp(NOW)


def test_a_soak_of_another_target_counts_nothing_of_the_former_one() -> None:
    before = replace(soak_after(HOUR), changes=(change("metadata.version 25->29"),))
    assert not_none(soaking(before=before, after=HOUR)).started_at == stamp(NOW + HOUR)


@pytest.mark.parametrize("of", [{"uid": "2"}, {"cluster": "another"}], ids=str)
def test_another_resource_or_another_cluster_starts_the_soak_again(of: dict[str, str]) -> None:
    wanted = replace(WANTED, uid=of.get("uid", WANTED.uid))
    observation = observation_with()
    if "cluster" in of:
        observation = replace(observation, cluster_id=known(of["cluster"]))
    assert not_none(soaking(observation, wanted=wanted, before=soak_after(HOUR), after=HOUR)).started_at == stamp(
        NOW + HOUR
    )


def test_a_start_in_the_status_from_another_process_does_not_continue_a_soak() -> None:
    soak = not_none(soaking(remembered=BEGAN))
    assert (soak.started_at, soak.remaining) == (stamp(NOW), DAY)
    assert str(soak).endswith(f"; started over at {stamp(NOW)}: the process that observed it was restarted")


def test_an_election_restarts_the_soak_as_controllers_answer_before_their_registration_is_in_the_log() -> None:
    observation, before = observation_with(), soak_after(HOUR)
    assert isinstance(observation.quorum, Known)
    elected = replace(
        observation,
        quorum=known(replace(observation.quorum.value, leader_epoch=observation.quorum.value.leader_epoch + 1)),
    )
    soak = not_none(soaking(elected, before=before, after=HOUR))
    assert soak.started_at == stamp(NOW + HOUR)
    assert str(soak).endswith("another controller became active, or the same one anew")


def test_an_election_restarts_the_soak_also_across_an_observation_without_a_quorum() -> None:
    observation, before = observation_with(), soak_after(HOUR)
    assert isinstance(observation.quorum, Known)
    elected = replace(
        observation,
        quorum=known(replace(observation.quorum.value, leader_epoch=observation.quorum.value.leader_epoch + 1)),
    )
    unread = not_none(soaking(replace(observation, quorum=Unknown(SILENT)), before=before, after=HOUR))
    assert unread.started_at == stamp(NOW)  # the nodes were healthy; who leads was not known
    assert not_none(soaking(elected, before=unread, after=HOUR + SOON)).started_at == stamp(NOW + HOUR + SOON)
    assert not_none(soaking(observation, before=unread, after=HOUR + SOON)).started_at == stamp(NOW)


def test_two_intervals_without_an_observation_restart_the_soak() -> None:
    before = soak_after(HOUR)
    assert not_none(soaking(before=before, after=HOUR + 2 * SOON)).started_at == stamp(NOW)
    late = HOUR + 2 * SOON + timedelta(seconds=1)
    soak = not_none(soaking(before=before, after=late))
    assert (soak.started_at, soak.remaining) == (stamp(NOW + late), DAY)
    assert soak.anew.startswith("the cluster was not observed for more than 60 s; if this repeats, give the operator")


@pytest.mark.parametrize("id_", [1, 3002])
def test_a_restart_between_two_observations_restarts_the_soak(id_: int) -> None:
    soak = not_none(soaking(observation_with({id_: "b"}), before=soak_after(HOUR), after=HOUR))
    assert (soak.started_at, soak.remaining) == (stamp(NOW + HOUR), DAY)
    assert soak.anew == f"{'controller' if id_ > 3000 else 'broker'} {id_} was restarted"
    assert not_none(soaking(observation_with({id_: "b"}), before=soak, after=HOUR + SOON)).started_at == stamp(
        NOW + HOUR
    )


def test_a_new_broker_epoch_starts_the_soak_again() -> None:
    def with_epoch(epoch: int) -> Observation:
        return replace(
            observation_with(), nodes=tuple(replace(node, broker_epoch=epoch) for node in observation_with().nodes)
        )

    before = soaking(with_epoch(5))
    assert not_none(soaking(with_epoch(6), before=before, after=SOON)).anew == "controller 3001 was restarted"
    assert not_none(soaking(with_epoch(5), before=before, after=SOON)).anew == ""


def test_a_node_that_joins_restarts_the_soak_and_a_node_that_leaves_does_not() -> None:
    everybody = observation_with()
    fewer = replace(everybody, nodes=everybody.nodes[:-1])
    left = soaking(fewer, before=soaking(everybody), after=SOON)
    assert not_none(left).anew == ""
    assert not_none(soaking(everybody, before=left, after=2 * SOON)).anew == "broker 2 was added"


def test_an_incarnation_that_is_unknown_for_a_while_does_not_start_the_soak_again() -> None:
    unread = soaking(observation_with({1: ""}), before=soaking(), after=SOON)
    assert not_none(soaking(before=unread, after=2 * SOON)).started_at == stamp(NOW)
    assert not_none(soaking(observation_with({1: "b"}), before=unread, after=2 * SOON)).anew == "broker 1 was restarted"


def test_a_soak_that_began_without_the_incarnation_of_a_node_starts_again_once_it_is_known() -> None:
    unknown = soaking(observation_with({1: ""}))
    assert not_none(soaking(before=unknown, after=SOON)).anew == "the registration of broker 1 was not known"


def test_a_cluster_that_could_not_be_read_starts_the_soak_again() -> None:
    away = soak_after(HOUR).interrupted("the cluster could not be read").interrupted("again")
    soak = not_none(soaking(before=away, after=HOUR))
    assert (soak.started_at, soak.anew) == (stamp(NOW + HOUR), "the cluster could not be read")


@pytest.mark.parametrize(
    "wanted",
    [
        DesiredState({"metadata.version": 30}),  # no finalizeAfter
        DesiredState({"group.version": 1, "metadata.version": 25}, finalize_after=DAY),  # its downgrade is allowed
        DesiredState({"metadata.version": 25}, finalize_after=DAY),  # nothing to do
    ],
    ids=["no finalizeAfter", "reversible", "nothing to change"],
)
def test_a_change_that_can_be_undone_does_not_soak_and_clears_the_soak_of_the_status(wanted: DesiredState) -> None:
    assert soaking(before=soak_after(HOUR), wanted=wanted) is None
    after = with_soak(with_soak(BEGAN, soaking()), None)
    assert (after.soak_started_at, after.way_back) == (None, None)


def test_a_soak_is_reported_whatever_the_clock_of_the_operator_shows() -> None:
    soak = soak_of(facts_of(WANTED, world(), now=datetime.max.replace(tzinfo=UTC)), IRREVERSIBLE)
    assert with_soak(EMPTY, soak).way_back is not None
    assert "soaking: metadata.version 30" in str(soak)


# --- decisions during a soak ---


def test_an_irreversible_change_is_sent_once_its_soak_is_over() -> None:
    waiting = deciding(WANTED, soaking())
    assert isinstance(waiting, Wait)
    assert waiting.reason is Reason.SOAKING
    assert waiting.message == (
        "soaking: metadata.version 30 (4.3-IV0) is finalized once every node has been healthy for 24h, "
        "not before 2026-01-03T03:04:05Z"
    )
    assert isinstance(deciding(FOR_AN_HOUR, OVER), Act)


def test_a_soak_that_cannot_begin_names_the_node_that_prevents_it() -> None:
    nodes = [node(i, said=answer(EVERY, LEVELS), written=EVERY) for i in (3001, 3002, 1)]
    away = node(2, state=NodeState.UNREACHABLE, said=SILENT, written=EVERY)
    observed = observation(*nodes, away, levels=LEVELS)
    waiting = deciding(WANTED, soaking(observed), observed)
    assert isinstance(waiting, Wait)
    assert waiting.message.endswith("healthy for 24h; not begun yet: broker 2 is Unreachable")


def test_a_soak_schedules_the_next_observation_within_its_interval_and_before_its_end() -> None:
    nearly = soak_after(HOUR - timedelta(seconds=3), wanted=FOR_AN_HOUR)
    for soak, after in ((soaking(), 10.0), (nearly, 3.0)):
        waiting = deciding(WANTED, soak)
        assert isinstance(waiting, Wait)
        assert waiting.delay == after


def test_reversible_steps_before_a_soak_do_not_wait_for_the_soak() -> None:
    wanted = replace(WANTED, levels={"transaction.version": 0, "metadata.version": 30},
                     consents=frozenset({"transaction.version:2->0"}))  # fmt: skip
    observation = world(transaction_version=2)
    assert deciding(wanted, soaking(observation, wanted=wanted), observation) == Act(change("transaction.version 2->0"))


def test_a_plan_may_be_approved_while_it_soaks() -> None:
    wanted = replace(WANTED, policy=ApprovalPolicy.ALWAYS)
    waiting = deciding(wanted, soaking())
    assert isinstance(waiting, Wait)
    assert waiting.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    assert "; approve plan sha256:" in waiting.message
    plan = propose(wanted, world(), Memory()).plan
    approved = replace(wanted, approvals=frozenset({plan.hash}), may_approve_unseen=True)
    waiting = deciding(approved, soaking())
    assert isinstance(waiting, Wait)
    assert waiting.condition is None
    assert isinstance(deciding(wanted, OVER), Held)
    assert isinstance(deciding(approved, OVER), Act)


@pytest.mark.parametrize(("mode", "suspend"), [(Mode.OBSERVE, False), (Mode.APPLY, True)])
def test_a_read_only_plan_shows_the_soak(mode: Mode, suspend: bool) -> None:
    wanted = replace(WANTED, mode=mode, suspend=suspend)
    decision = deciding(wanted, soaking(wanted=wanted))
    assert isinstance(decision, Done | Held)
    assert "would change metadata.version 25 -> 30; soaking: metadata.version 30 (4.3-IV0) is" in decision.message
    over = deciding(wanted, OVER)
    assert "soaking" not in getattr(over, "message", "")


# --- the way back ---


def test_the_way_back_of_a_soaking_change_has_its_end_and_the_steps() -> None:
    way_back = with_soak(EMPTY, soaking()).way_back
    assert way_back is not None
    assert way_back.until == "2026-01-03T03:04:05Z"
    assert way_back.how == (
        "set the document to metadata.version 25 (4.0-IV3), then downgrade Kafka on the nodes; "
        "to stay at these levels, suspend"
    )


def test_after_the_soak_the_way_back_stays_open_until_the_plan_is_carried_out() -> None:
    way_back = with_soak(EMPTY, OVER).way_back
    assert way_back is not None
    assert way_back.until is None


def test_no_way_back_is_shown_once_a_level_was_sent_and_its_outcome_is_open() -> None:
    sent = replace(EMPTY, intents=(Intent(kind="UpdateFeature"),))
    assert with_soak(sent, soaking(remembered=sent), is_changing=is_changing(sent)).way_back is None
    restarting = replace(EMPTY, intents=(Intent(kind="RestartNode"),))
    assert (
        with_soak(restarting, soaking(remembered=restarting), is_changing=is_changing(restarting)).way_back is not None
    )


# --- windows ---

NOON = Rollout(windows=(Window("0 12 * * *", timedelta(hours=1)),))


def test_outside_the_windows_nothing_is_changed_and_the_next_opening_is_reported() -> None:
    wanted = DesiredState({"metadata.version": 30}, rollout=NOON)
    waiting = deciding(wanted, None)
    assert isinstance(waiting, Wait)
    assert (waiting.reason, waiting.message) == (
        Reason.WAITING_FOR_WINDOW,
        "the next window of spec.rollout opens at 2026-01-02 12:00 UTC",
    )
    noon = replace(world(), at=NOW.replace(hour=12, minute=30))
    assert isinstance(deciding(wanted, None, noon), Act)


def test_a_plan_may_be_approved_before_its_window_opens() -> None:
    waiting = deciding(DesiredState({}, bundle={"metadata.version": 30}, rollout=NOON), None)
    assert isinstance(waiting, Wait)
    assert waiting.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)


def test_a_change_that_waits_for_its_soak_and_its_window_reports_the_soak() -> None:
    waiting = deciding(replace(WANTED, rollout=NOON), soaking())
    assert isinstance(waiting, Wait)
    assert waiting.reason is Reason.SOAKING
