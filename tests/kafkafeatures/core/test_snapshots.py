"""A controller is not restarted into an older binary before its newest snapshot is past every level that the binary
does not support: it replays the log from that snapshot on, and exits at such a level, even if it was lowered since.

Nodes run a Kafka with share.version 0-2; the older binary has 0-1. `TWO`: level 2 was finalized until 10 min ago. Kafka
writes a snapshot at least once in an interval (here 1 h) of a process; a tenth is added to it as a margin.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.status import EMPTY, RolloutStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.facts.observation import NodeState, Observation, PastLevels
from kafkafeatures.core.facts.settings import SNAPSHOT_INTERVAL, Setting, SettingSource
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.report import rollout_status
from kafkafeatures.core.roll.snapshots import DEFAULT_INTERVAL, GivenUp, PlannedAbsence, awaited, known_since
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
LONG_AGO = NOW - timedelta(days=30)
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


def minutes(wait: Any) -> float:
    """Return the end of the wait, in minutes from now."""
    assert wait is not None
    assert wait.until is not None
    return float((wait.until - NOW) / MINUTE)


def test_a_controller_waits_until_a_snapshot_after_the_downgrade_must_exist() -> None:
    """1 h and a tenth of it, 66 min, of which 10 min have passed since the downgrade."""
    wait = awaited([controller_to_restart()], TWO, None, NOW)
    assert minutes(wait) == pytest.approx(56)
    assert wait is not None
    assert "share.version 2 was finalized until " in wait.replayed
    assert wait.replayed.endswith("its new image supports 0-1")
    assert awaited([controller_to_restart()], TWO, None, NOW + 56 * MINUTE) is None


def test_the_start_of_a_controller_restarts_the_interval_to_its_next_snapshot() -> None:
    assert minutes(awaited([controller_to_restart(NOW - 4 * MINUTE)], TWO, None, NOW)) == pytest.approx(62)
    assert minutes(awaited([controller_to_restart(None)], TWO, None, NOW)) == pytest.approx(66)
    old = {(SHARE, 2): NOW - timedelta(hours=20)}
    assert minutes(awaited([controller_to_restart(NOW - 4 * MINUTE)], old, None, NOW)) == pytest.approx(62)
    older = {(SHARE, 2): NOW - timedelta(days=2)}
    assert awaited([controller_to_restart(NOW - 4 * MINUTE)], older, None, NOW) is None


@pytest.mark.parametrize("days", [1, 2, 7])
def test_the_start_of_a_controller_restarts_also_a_snapshot_interval_of_days(days: int) -> None:
    """The node starts 25 h after the level was lowered: its former process may not have written a snapshot since."""
    began, interval = NOW + timedelta(hours=25), timedelta(days=days)
    wait = awaited([controller_to_restart(began, interval=interval)], {(SHARE, 2): NOW}, None, NOW + 1.1 * interval)
    assert wait is not None
    assert wait.until == began + 1.1 * interval


def test_the_controller_with_the_longest_wait_for_a_snapshot_is_reported_and_brokers_need_no_snapshot() -> None:
    several = [
        controller_to_restart(),
        controller_to_restart(NOW - MINUTE, id_=3002),
        controller_to_restart(NOW, id_=1),
    ]
    wait = awaited(several, TWO, None, NOW)
    assert wait is not None
    assert wait.node.id == 3002
    assert awaited([controller_to_restart(NOW, id_=1)], TWO, None, NOW) is None


def test_a_short_snapshot_interval_has_a_margin_of_half_a_minute() -> None:
    """A node has to catch up with the log after its process has started."""
    wait = awaited([controller_to_restart(interval=timedelta(seconds=20))], {(SHARE, 2): NOW}, None, NOW)
    assert minutes(wait) == pytest.approx(50 / 60)


def test_past_levels_that_the_new_binary_supports_need_no_snapshot() -> None:
    left = {(SHARE, 1): NOW, (METADATA, 25): NOW, ("streams.version", 0): NOW}
    assert awaited([controller_to_restart()], left, None, NOW) is None
    assert awaited([controller_to_restart(supports=RUNS)], TWO, None, NOW) is None
    assert (
        awaited([controller_to_restart()], {("streams.version", 1): NOW}, None, NOW) is not None
    )  # it is not known there at all


def test_a_past_level_that_is_too_low_for_a_newer_binary_needs_a_snapshot_as_well() -> None:
    newer = controller_to_restart(supports={METADATA: (7, 27)}, runs={METADATA: (1, 21)})
    assert awaited([newer], {(METADATA, 4): NOW}, None, NOW) is not None


def test_without_a_snapshot_interval_the_end_of_the_wait_is_unknown() -> None:
    for interval in (None, timedelta()):
        wait = awaited([controller_to_restart(interval=interval)], TWO, None, NOW)
        assert wait is not None
        assert wait.until is None
    assert minutes(awaited([controller_to_restart(interval=timedelta(days=400_000))], TWO, None, NOW)) > 60 * 24 * 300


def test_unread_past_levels_hold_only_controllers_that_go_to_an_older_binary_and_for_one_interval() -> None:
    since = NOW - 30 * MINUTE
    assert minutes(awaited([controller_to_restart()], {}, since, NOW)) == pytest.approx(36)
    assert minutes(awaited([controller_to_restart(interval=None)], {}, since, NOW)) == pytest.approx(
        36
    )  # not set; Kafka's default
    assert minutes(awaited([controller_to_restart(NOW - 10 * MINUTE)], {}, since, NOW)) == pytest.approx(56)
    assert awaited([controller_to_restart(supports=RUNS)], {}, since, NOW) is None
    assert awaited([controller_to_restart(runs=OLDER, supports=RUNS)], {}, since, NOW) is None
    assert awaited([controller_to_restart(NOW - MINUTE)], {}, NOW - 2 * DEFAULT_INTERVAL, NOW) is None


def test_a_node_on_the_older_binary_since_its_start_proves_that_no_higher_level_was_finalized() -> None:
    since, old = NOW - 30 * MINUTE, controller_to_restart(LONG_AGO, id_=3002, runs=OLDER)
    assert known_since(since, [controller_to_restart(), old]) == LONG_AGO + MINUTE
    assert known_since(since, [controller_to_restart()]) == since
    assert known_since(since, [replace(old, started_at=None)]) == since
    assert awaited([controller_to_restart()], {}, known_since(since, [old]), NOW) is None


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
    left: dict[tuple[str, int], datetime] = {}
    for _, level, until in standing[:-1]:
        if level and until >= read_from:
            left[SHARE, level] = NOW + until * STEP
    node = controller_to_restart(NOW + lives[-1] * STEP, interval=every * STEP)
    wait = awaited([node], left, NOW + read_from * STEP if read_from else None, NOW + now * STEP)
    undisturbed = all(begin <= read_from or read_from + every <= begin for begin in lives[:-1])
    if 2 in replayed and (read_from == 0 or undisturbed) and read_from <= now:
        assert wait is not None
    if not any(level == 2 for _, level in changes) and not read_from:
        assert wait is None


# --- the check in a roll ---

EVERY = (*CONTROLLERS, *BROKERS)
NODES = {id_: replace(a_node(id_), answer=known(answer(RUNS)), settings=writing_snapshots_every(HOUR)) for id_ in EVERY}
PODS = {id_: a_pod(id_, started_at=LONG_AGO) for id_ in EVERY}


def to_older_image(past: PastLevels | None, pods: Any = PODS, nodes: Any = NODES) -> Observation:
    """Build a cluster whose images were changed to an older release."""
    observation = replace(cluster(pods, nodes), past_levels=past, finalized=known({METADATA: 27, SHARE: 1}))
    sets = (
        replace(stateful_set, image="kafka:4.1.2", release="4.1")
        for stateful_set in workloads_of(observation).stateful_sets
    )
    return with_workloads(observation, stateful_sets=tuple(sets))


def test_the_message_of_a_roll_that_waits_for_a_snapshot_has_the_level_and_the_time() -> None:
    text = refused(rolled(to_older_image(PastLevels(TWO, None, NOW))), Reason.ROLLING_NODES)
    assert text.startswith(
        "controller 3001 needs a newer snapshot, or would replay what its new image cannot: share.ver"
    )
    assert text.endswith(" UTC")
    assert "not before 2" in text


def test_a_roll_waits_for_no_snapshot_if_no_level_was_ever_downgraded() -> None:
    assert restarted_id(rolled(to_older_image(PastLevels({}, None, NOW)))) == 3002
    assert restarted_id(rolled(to_older_image(PastLevels({}, NOW - timedelta(days=1), NOW)))) == 3002


def test_brokers_are_restarted_without_waiting_for_a_snapshot() -> None:
    assert (
        restarted_id(rolled(to_older_image(PastLevels(TWO, None, NOW), {**PODS, **current(*CONTROLLERS)}))) in BROKERS
    )


def test_without_the_metadata_log_the_wait_for_a_snapshot_counts_from_the_start_of_the_roll() -> None:
    observation = to_older_image(None)
    text = refused(rolled(observation), Reason.ROLLING_NODES)
    assert "are not known" in text
    roll = rolled(observation)
    begun = Stamp((NOW - timedelta(hours=2)).isoformat())
    status = replace(EMPTY, rollout=RolloutStatus(id=roll.id, started_at=begun, total=9))
    assert restarted_id(rolled(observation, status=status)) == 3002
    text = refused(rolled(observation, status=status, known_for=5 * MINUTE), Reason.ROLLING_NODES)
    assert f"finalized before {NOW - 5 * MINUTE:%Y-%m-%d %H:%M:%S} UTC are not known" in text  # whatever a clock said


def test_a_clock_of_the_operator_that_is_ahead_does_not_shorten_the_wait_for_a_snapshot() -> None:
    """The pods were started 110 min ago by the operator's clock, which is an hour ahead, so really 50 min ago: the next
    snapshot comes in 16 min.
    """
    begun = Stamp((NOW - 100 * MINUTE).isoformat())
    pods = {id_: replace(started, started_at=NOW - 110 * MINUTE) for id_, started in PODS.items()}
    observation = to_older_image(None, pods)
    status = replace(EMPTY, rollout=RolloutStatus(id=rolled(observation).id, started_at=begun, total=9))
    assert restarted_id(rolled(observation, status=status)) == 3002
    refused(rolled(read_at(observation, NOW - HOUR), status=status), Reason.ROLLING_NODES)


def test_a_controller_that_never_writes_a_snapshot_halts_the_roll_with_its_remedy() -> None:
    never = {
        id_: replace(controller, settings=writing_snapshots_every(timedelta())) for id_, controller in NODES.items()
    }
    text = refused(rolled(to_older_image(PastLevels(TWO, None, NOW), nodes=never)), Reason.ROLLOUT_HALTED)
    assert "set metadata.log.max.snapshot.interval.ms on it above 0" in text


def test_a_controller_that_does_not_run_needs_no_newer_snapshot() -> None:
    """A controller that does not run cannot get worse, and the older image may be what it last ran."""
    crashes = a_pod(3003, ready=False, **CRASHES)
    gone = {**NODES, 3003: replace(NODES[3003], state=NodeState.UNREACHABLE)}
    assert restarted_id(rolled(to_older_image(PastLevels(TWO, None, NOW), {**PODS, 3003: crashes}, gone))) == 3003


def test_finalized_levels_that_the_new_binary_lacks_are_reported_before_the_wait_for_a_snapshot() -> None:
    """Without the log, the wait counts from the begin of the roll, so the roll must not begin
    before levels are right.
    """
    observation = replace(to_older_image(None), finalized=known({METADATA: 27, SHARE: 2}))
    roll = rolled(observation)
    refused(roll, Reason.NODES_BEHIND)
    first = rolled(observation, changes=(UpdateFeature(SHARE, 2, 1),))
    assert first.levels_first
    begun = Stamp((NOW - timedelta(hours=2)).isoformat())
    before = RolloutStatus(id=roll.id, started_at=begun, total=9)
    assert isinstance(roll.decision, Stalled)
    for decided_roll in (roll, first):
        rollout = rollout_status(decided_roll, roll.decision, before, stamp(NOW))
        assert rollout is not None
        assert rollout.started_at is None
    after = rolled(to_older_image(None), status=replace(EMPTY, rollout=rollout))
    assert "are not known" in refused(after, Reason.ROLLING_NODES)
    assert isinstance(after.decision, Wait)
    begins = rollout_status(after, after.decision, rollout, stamp(NOW))
    assert begins is not None
    assert begins.started_at == stamp(NOW)


def test_the_wait_for_a_snapshot_counts_from_the_last_downgrade() -> None:
    left = {(SHARE, 2): NOW - 50 * MINUTE, (METADATA, 29): NOW - 10 * MINUTE, (METADATA, 28): NOW - 30 * MINUTE}
    assert minutes(awaited([controller_to_restart()], left, None, NOW)) == pytest.approx(56)


def test_an_eviction_that_may_not_have_been_sent_waits_for_a_snapshot() -> None:
    """The level may have been given up since it was decided."""
    decided = sent(3002)
    assert isinstance(rolled(to_older_image(PastLevels({}, None, NOW)), decided).decision, Act)
    refused(rolled(to_older_image(PastLevels(TWO, None, NOW)), decided), Reason.ROLLING_NODES)
