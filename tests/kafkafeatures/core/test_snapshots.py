"""A controller is not restarted into an older binary before its newest snapshot is past every level that the binary
does not support: it replays the log from that snapshot on, and exits at such a level, even if it was lowered since.

Nodes run a Kafka with share.version 0-2; the older binary has 0-1. `TWO`: level 2 was finalized until 10 min ago. Kafka
writes a snapshot at least once in an interval (here 1 h) of a process; a tenth is added to it as a margin: 66 min.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import EMPTY, RolloutStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.facts.past import PastLevels
from kafkafeatures.core.facts.settings import SNAPSHOT_INTERVAL, Setting, SettingSource
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.report import rollout_status
from kafkafeatures.core.roll.roll import Roll
from kafkafeatures.core.roll.snapshots import (
    DEFAULT_INTERVAL,
    LONGEST_INTERVAL,
    REGISTERS_WITHIN,
    RESTARTS_COUNT_FOR,
    GivenUp,
    PendingSnapshot,
    PlannedAbsence,
    awaited,
    known_since,
)
from tests.kafkafeatures.core.fleets import in_pod
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    CRASHES,
    a_node,
    a_pod,
    cluster,
    current,
    read_at,
    refused,
    restarted_id,
    rolled,
    sent,
    with_workloads,
    workloads_of,
)
from tests.kafkafeatures.worlds import NOW, answer, known, ranges

SHARE, METADATA = "share.version", "metadata.version"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LONG_AGO, FOUR_MINUTES_AGO = NOW - timedelta(days=30), NOW - 4 * MINUTE
WITH_MARGIN = 1.1
RUNS = {METADATA: (7, 33), SHARE: (0, 2)}
OLDER = {METADATA: (7, 27), SHARE: (0, 1)}
TWO: GivenUp = {(SHARE, 2): NOW - 10 * MINUTE}


def writing_snapshots_every(interval: timedelta | None) -> dict[str, Setting]:
    """Build the settings of a node with this snapshot interval; None: the setting is unknown."""
    if interval is None:
        return {}
    return {SNAPSHOT_INTERVAL: Setting(SettingSource.FILE, str(interval // timedelta(milliseconds=1)))}


def controller_to_restart(
    started_at: datetime | None = LONG_AGO,
    *,
    id_: int = 3001,
    supports: Any = OLDER,
    runs: Any = RUNS,
    interval: timedelta | None = HOUR,
) -> PlannedAbsence:
    node = replace(in_pod(id_), answer=known(answer(runs)), settings=writing_snapshots_every(interval))
    return PlannedAbsence(node, started_at, ranges(supports))


def wait_for(
    *controllers: PlannedAbsence, given_up: GivenUp = TWO, since: datetime | None = None, current_time: datetime = NOW
) -> PendingSnapshot | None:
    """Return the snapshot that has to be waited for. `since`: time from which `given_up` is complete; None: it has
    everything since the cluster began.
    """
    return awaited(controllers, given_up, since, current_time)


def minutes(wait: PendingSnapshot | None) -> float:
    """Return the end of the wait, in minutes from now."""
    assert wait is not None
    assert wait.until is not None
    return (wait.until - NOW) / MINUTE


def test_a_controller_waits_until_a_snapshot_after_the_downgrade_must_exist() -> None:
    """66 min after the downgrade, so in 56 min."""
    wait = wait_for(controller_to_restart())
    assert minutes(wait) == pytest.approx(56)
    assert wait is not None
    assert "share.version 2 was finalized until " in wait.replayed
    assert wait.replayed.endswith("its new image supports 0-1")
    assert wait_for(controller_to_restart(), current_time=NOW + 56 * MINUTE) is None


def test_the_wait_for_a_snapshot_counts_from_the_last_downgrade() -> None:
    """66 min after that of 10 min ago, so in 56 min."""
    given_up = {(SHARE, 2): NOW - 50 * MINUTE, (METADATA, 29): NOW - 10 * MINUTE, (METADATA, 28): NOW - 30 * MINUTE}
    assert minutes(wait_for(controller_to_restart(), given_up=given_up)) == pytest.approx(56)


def test_the_start_of_a_controller_restarts_the_interval_to_its_next_snapshot() -> None:
    """66 min after the start, so in 62 min."""
    assert minutes(wait_for(controller_to_restart(FOUR_MINUTES_AGO))) == pytest.approx(62)


def test_the_wait_for_a_snapshot_counts_from_now_if_the_start_of_the_controller_is_unknown() -> None:
    assert minutes(wait_for(controller_to_restart(started_at=None))) == pytest.approx(66)


def test_a_start_delays_a_snapshot_only_within_a_day_after_the_downgrade() -> None:
    """A process that started later is taken to have written a snapshot before."""
    restarted = controller_to_restart(FOUR_MINUTES_AGO)
    within_a_day = {(SHARE, 2): FOUR_MINUTES_AGO - RESTARTS_COUNT_FOR + MINUTE}
    assert minutes(wait_for(restarted, given_up=within_a_day)) == pytest.approx(62)
    assert wait_for(restarted, given_up={(SHARE, 2): FOUR_MINUTES_AGO - RESTARTS_COUNT_FOR}) is None


@pytest.mark.parametrize("days", [1, 2, 7])
def test_the_start_of_a_controller_restarts_also_a_snapshot_interval_of_days(days: int) -> None:
    """The node starts 25 h after the level was lowered: its former process may not have written a snapshot since."""
    began, interval = NOW + timedelta(hours=25), timedelta(days=days)
    wait = wait_for(
        controller_to_restart(began, interval=interval),
        given_up={(SHARE, 2): NOW},
        current_time=NOW + WITH_MARGIN * interval,
    )
    assert wait is not None
    assert wait.until == began + WITH_MARGIN * interval


def test_the_controller_with_the_longest_wait_for_a_snapshot_is_reported() -> None:
    wait = wait_for(controller_to_restart(), controller_to_restart(NOW - MINUTE, id_=3002))
    assert wait is not None
    assert wait.node.id == 3002


def test_brokers_need_no_snapshot() -> None:
    broker = controller_to_restart(NOW, id_=1)
    assert wait_for(broker) is None
    wait = wait_for(controller_to_restart(), broker)
    assert wait is not None
    assert wait.node.id == 3001


def test_a_short_snapshot_interval_has_a_margin_of_half_a_minute() -> None:
    """A node has to catch up with the log after its process has started."""
    wait = wait_for(controller_to_restart(interval=timedelta(seconds=20)), given_up={(SHARE, 2): NOW})
    assert minutes(wait) == pytest.approx(50 / 60)


def test_past_levels_that_the_new_binary_supports_need_no_snapshot() -> None:
    supported = {(SHARE, 1): NOW, (METADATA, 25): NOW, ("streams.version", 0): NOW}
    assert wait_for(controller_to_restart(), given_up=supported) is None
    assert wait_for(controller_to_restart(supports=RUNS)) is None


def test_a_past_level_of_a_feature_that_the_new_binary_does_not_know_needs_a_snapshot() -> None:
    assert wait_for(controller_to_restart(), given_up={("streams.version", 1): NOW}) is not None


def test_a_past_level_that_is_too_low_for_a_newer_binary_needs_a_snapshot_as_well() -> None:
    newer = controller_to_restart(supports={METADATA: (7, 27)}, runs={METADATA: (1, 21)})
    assert wait_for(newer, given_up={(METADATA, 4): NOW}) is not None


@pytest.mark.parametrize("interval", [None, timedelta()], ids=["not reported", "no snapshot after any time"])
def test_without_a_snapshot_interval_the_end_of_the_wait_is_unknown(interval: timedelta | None) -> None:
    wait = wait_for(controller_to_restart(interval=interval))
    assert wait is not None
    assert wait.until is None


def test_a_snapshot_interval_beyond_every_calendar_is_counted_as_a_year() -> None:
    """`datetime` ends with the year 9999, so within 3 million days."""
    wait = wait_for(controller_to_restart(interval=timedelta(days=4_000_000)), given_up={(SHARE, 2): NOW})
    assert wait is not None
    assert wait.until == NOW + WITH_MARGIN * LONGEST_INTERVAL


def test_unread_past_levels_hold_a_controller_that_goes_to_an_older_binary_for_one_interval() -> None:
    """66 min, of which 30 min have passed since the log was first read, or 10 min since a later start."""
    since = NOW - 30 * MINUTE
    assert minutes(wait_for(controller_to_restart(), given_up={}, since=since)) == pytest.approx(36)
    later_start = controller_to_restart(NOW - 10 * MINUTE)
    assert minutes(wait_for(later_start, given_up={}, since=since)) == pytest.approx(56)
    assert wait_for(controller_to_restart(NOW - MINUTE), given_up={}, since=NOW - 2 * HOUR) is None


def test_unread_past_levels_hold_a_controller_for_the_default_interval_if_it_reports_none() -> None:
    unreported = controller_to_restart(interval=None)
    since = NOW - 30 * MINUTE
    wait = wait_for(unreported, given_up={}, since=since)
    assert wait is not None
    assert wait.until == since + WITH_MARGIN * DEFAULT_INTERVAL


@pytest.mark.parametrize("runs", [RUNS, OLDER], ids=["the same binary", "an older binary"])
def test_unread_past_levels_hold_no_controller_whose_new_binary_supports_all_that_it_runs(runs: Any) -> None:
    assert wait_for(controller_to_restart(runs=runs, supports=RUNS), given_up={}, since=NOW - 30 * MINUTE) is None


def test_a_node_on_the_older_binary_since_its_start_proves_that_no_higher_level_was_finalized() -> None:
    """A node that lacks a finalized level cannot register, and ends."""
    since, on_older_binary = NOW - 30 * MINUTE, controller_to_restart(LONG_AGO, id_=3002, runs=OLDER)
    proven_since = known_since(since, [controller_to_restart(), on_older_binary])
    assert proven_since == LONG_AGO + REGISTERS_WITHIN
    assert wait_for(controller_to_restart(), given_up={}, since=proven_since) is None


def test_a_node_on_the_newer_binary_or_with_an_unknown_start_proves_nothing_about_past_levels() -> None:
    since = NOW - 30 * MINUTE
    assert known_since(since, [controller_to_restart()]) == since
    assert known_since(since, [controller_to_restart(started_at=None, runs=OLDER)]) == since


# --- a model of the snapshots that a controller has ---

STEP = timedelta(minutes=5)
TICKS = st.integers(0, 200)


@given(
    st.lists(st.tuples(TICKS, st.integers(0, 2)), min_size=1, max_size=8),
    st.lists(TICKS, max_size=8),
    st.integers(1, 24),
    st.integers(1, 240),
    st.integers(0, 200),
)
def test_a_controller_that_may_be_restarted_replays_no_level_that_its_new_binary_does_not_support(
    levels: list[tuple[int, int]], starts: list[int], every: int, now: int, read_from: int
) -> None:
    """`levels`: (time, level of share.version); `starts`: times of starts of the controller; `every`: its snapshot
    interval; `read_from`: begin of the log that was read; all in steps of 5 min. `replayed`: levels that a start would
    replay, according to the snapshots that Kafka has written by then.
    """
    changes = [(0, 0), *sorted((tick, level) for tick, level in levels if tick < now)]
    lives = sorted({0, *(tick for tick in starts if tick < now)})
    snapshot = 0
    for begin, end in pairwise([*lives, now]):
        snapshot = begin + (end - begin) // every * every if end - begin >= every else snapshot
    standing = [(tick, after, until) for (tick, after), (until, _) in pairwise([*changes, (now, 0)])]
    replayed = {level for _, level, until in standing if until >= snapshot}
    if standing[-1][1] == 2:
        return  # another check refuses what is finalized now
    given_up: dict[tuple[str, int], datetime] = {}
    for _, level, until in standing[:-1]:
        if level and until >= read_from:
            given_up[SHARE, level] = NOW + until * STEP
    node = controller_to_restart(NOW + lives[-1] * STEP, interval=every * STEP)
    since = NOW + read_from * STEP if read_from else None
    wait = wait_for(node, given_up=given_up, since=since, current_time=NOW + now * STEP)
    # Levels before `read_from` are not known. The wait is certain to cover them only if no start of the controller, but
    # the last one, fell into the interval after `read_from`.
    undisturbed = all(begin <= read_from or read_from + every <= begin for begin in lives[:-1])
    if 2 in replayed and (read_from == 0 or undisturbed) and read_from <= now:
        assert wait is not None
    if not any(level == 2 for _, level in changes) and not read_from:
        assert wait is None


# --- the check in a roll ---

EVERY = (*CONTROLLERS, *BROKERS)
NODES = {id_: replace(a_node(id_), answer=known(answer(RUNS)), settings=writing_snapshots_every(HOUR)) for id_ in EVERY}
PODS = {id_: a_pod(id_, started_at=LONG_AGO) for id_ in EVERY}
TWO_GIVEN_UP = PastLevels(given_up_at=TWO, since=None, at=NOW)
NONE_GIVEN_UP = PastLevels(given_up_at={}, since=None, at=NOW)
FIRST = 3002  # 3001 is the active controller, so the last of the controllers


def to_older_image(past: PastLevels | None, pods: Any = PODS, nodes: Any = NODES) -> Observation:
    """Build a cluster whose images were changed to an older release."""
    observation = replace(cluster(pods, nodes), past_levels=past, finalized=known({METADATA: 27, SHARE: 1}))
    sets = (
        replace(stateful_set, image="kafka:4.1.2", release="4.1")
        for stateful_set in workloads_of(observation).stateful_sets
    )
    return with_workloads(observation, stateful_sets=tuple(sets))


def begun(roll: Roll, started_at: datetime) -> RolloutStatus:
    """Build the status of this roll, begun at this time."""
    return RolloutStatus(id=roll.id, started_at=stamp(started_at), total=roll.total)


def test_the_message_of_a_roll_that_waits_for_a_snapshot_has_the_level_and_the_time() -> None:
    assert refused(rolled(to_older_image(TWO_GIVEN_UP)), Reason.ROLLING_NODES) == (
        "controller 3001 needs a newer snapshot, or would replay what its new image cannot: share.version 2 was "
        "finalized until 2026-01-02 02:54:05 UTC, and its new image supports 0-1; not before 2026-01-02 04:00:05 UTC"
    )


def test_a_roll_waits_for_no_snapshot_if_no_level_was_ever_downgraded() -> None:
    assert restarted_id(rolled(to_older_image(NONE_GIVEN_UP))) == FIRST


def test_a_roll_waits_for_no_snapshot_if_no_downgrade_is_known_of_the_last_day() -> None:
    """By then a snapshot is past all levels that are not known."""
    known_for_a_day = replace(NONE_GIVEN_UP, since=NOW - timedelta(days=1))
    assert restarted_id(rolled(to_older_image(known_for_a_day))) == FIRST


def test_brokers_are_restarted_without_waiting_for_a_snapshot() -> None:
    assert restarted_id(rolled(to_older_image(TWO_GIVEN_UP, {**PODS, **current(*CONTROLLERS)}))) in BROKERS


def test_without_the_metadata_log_the_wait_for_a_snapshot_counts_from_the_start_of_the_roll() -> None:
    observation = to_older_image(None)
    assert "are not known" in refused(rolled(observation), Reason.ROLLING_NODES)
    status = replace(EMPTY, rollout=begun(rolled(observation), NOW - 2 * HOUR))
    assert restarted_id(rolled(observation, status=status)) == FIRST


def test_without_the_metadata_log_the_wait_for_a_snapshot_is_counted_by_this_process_whatever_the_status_says() -> None:
    """The clock that wrote the status may have been wrong."""
    observation = to_older_image(None)
    status = replace(EMPTY, rollout=begun(rolled(observation), NOW - 2 * HOUR))
    text = refused(rolled(observation, status=status, known_for=5 * MINUTE), Reason.ROLLING_NODES)
    assert f"finalized before {NOW - 5 * MINUTE:%Y-%m-%d %H:%M:%S} UTC are not known" in text


def test_a_clock_of_the_operator_that_is_ahead_does_not_shorten_the_wait_for_a_snapshot() -> None:
    """The pods were started 110 min ago by the operator's clock, which is an hour ahead, so really 50 min ago: the next
    snapshot comes in 16 min.
    """
    pods = {id_: replace(started, started_at=NOW - 110 * MINUTE) for id_, started in PODS.items()}
    observation = to_older_image(None, pods)
    status = replace(EMPTY, rollout=begun(rolled(observation), NOW - 100 * MINUTE))
    assert restarted_id(rolled(observation, status=status)) == FIRST
    refused(rolled(read_at(observation, NOW - HOUR), status=status), Reason.ROLLING_NODES)


def test_a_controller_that_never_writes_a_snapshot_halts_the_roll_with_its_remedy() -> None:
    nodes = {id_: replace(node, settings=writing_snapshots_every(timedelta())) for id_, node in NODES.items()}
    text = refused(rolled(to_older_image(TWO_GIVEN_UP, nodes=nodes)), Reason.ROLLOUT_HALTED)
    assert "set metadata.log.max.snapshot.interval.ms on it above 0" in text


def test_a_controller_that_does_not_run_needs_no_newer_snapshot() -> None:
    """A controller that does not run cannot get worse, and the older image may be what it last ran."""
    pods = {**PODS, 3003: a_pod(3003, ready=False, **CRASHES)}
    nodes = {**NODES, 3003: replace(NODES[3003], state=NodeState.UNREACHABLE)}
    assert restarted_id(rolled(to_older_image(TWO_GIVEN_UP, pods, nodes))) == 3003


def test_finalized_levels_that_the_new_binary_lacks_are_reported_before_the_wait_for_a_snapshot() -> None:
    refused(rolled(with_level_2(to_older_image(None))), Reason.NODES_BEHIND)


def test_a_roll_does_not_begin_before_the_new_binary_supports_all_finalized_levels() -> None:
    """Without the log, the wait for a snapshot counts from the begin of the roll."""
    observation = with_level_2(to_older_image(None))
    blocked, downgrades_first = rolled(observation), rolled(observation, changes=(UpdateFeature(SHARE, 2, 1),))
    assert downgrades_first.levels_first
    assert isinstance(blocked.decision, Stalled)
    for roll in (blocked, downgrades_first):
        not_begun = rollout_status(roll, blocked.decision, begun(roll, NOW - 2 * HOUR), stamp(NOW))
        assert not_begun is not None
        assert not_begun.started_at is None
    downgraded = rolled(to_older_image(None), status=replace(EMPTY, rollout=not_begun))
    assert "are not known" in refused(downgraded, Reason.ROLLING_NODES)
    assert isinstance(downgraded.decision, Wait)
    begins = rollout_status(downgraded, downgraded.decision, not_begun, stamp(NOW))
    assert begins is not None
    assert begins.started_at == stamp(NOW)


def with_level_2(observation: Observation) -> Observation:
    """Finalize share.version 2, which the new binary lacks."""
    return replace(observation, finalized=known({METADATA: 27, SHARE: 2}))


def test_an_eviction_that_may_not_have_been_sent_waits_for_a_snapshot() -> None:
    """The level may have been given up since it was decided."""
    eviction = sent(FIRST)
    assert isinstance(rolled(to_older_image(NONE_GIVEN_UP), eviction).decision, Act)
    refused(rolled(to_older_image(TWO_GIVEN_UP), eviction), Reason.ROLLING_NODES)
