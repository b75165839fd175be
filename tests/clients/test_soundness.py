"""Scrapes that are removed, repeated, reordered or mixed up never make a cluster ready that was sent a removed version.

The histories are generated, so each verdict is compared with what really happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, pairwise
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.evidence import MINUTE, Scrape, thinned
from kafkafeatures.core.clients.verdict import ClientVerdict
from tests.amounts import share
from tests.clients.histories import BEGIN, DAY, END, GONE, HOUR, History, Process, checked

BROKERS = (1, 2)
UNSEEN = 10
"""Minutes before a restart or at an end of the window in which a use may be missed: no scrape within five minutes is no
gap, and clocks may differ as much.
"""


@st.composite
def processes(draw: st.DrawFn) -> tuple[Process, ...]:
    """One to three processes of one broker, the last of which still runs at the end of the window."""
    start = BEGIN + draw(st.sampled_from((-DAY, -2 * HOUR, -30, -5, 30)))
    spans = []
    for pause in draw(st.lists(st.sampled_from((1, 3, 70)), max_size=2)):
        end = start + draw(st.integers(DAY, 12 * DAY))
        spans.append((start, end))
        start = end + pause
    spans.append((start, END))
    return tuple(Process(*span) for span in spans)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Two brokers. One of their processes may be sent a removed version once, and may then be of Kafka 4.x."""
    brokers = {broker: draw(processes()) for broker in BROKERS}
    if draw(st.booleans()):
        broker = draw(st.sampled_from(BROKERS))
        index = draw(st.integers(0, len(brokers[broker]) - 1))
        process = brokers[broker][index]
        before_end = st.sampled_from((0, UNSEEN, 61, DAY, 3 * DAY)).map(lambda minutes: process.end - minutes)
        used = replace(process, uses=(max(process.start, draw(before_end)),), refuses=draw(st.booleans()))
        brokers[broker] = (*brokers[broker][:index], used, *brokers[broker][index + 1 :])
    return History(brokers)


def whole(history: History, clock_errors: dict[int, int] | None = None) -> list[Scrape]:
    """Scrapes that leave no gap: just after each start, at each end, and two times of the window."""
    return [
        scrape
        for broker, its_processes in history.brokers.items()
        for scrape in History({broker: its_processes}).scrapes(
            sorted(
                {BEGIN, END - DAY, *(time for process in its_processes for time in (process.start + 1, process.end))}
            ),
            clock_errors=clock_errors,
        )
    ]


def is_sent_a_removed_version(history: History) -> bool:
    """Tell whether a removed version was sent within the window, at a time that evidence without a gap shows."""
    return any(
        BEGIN + UNSEEN < use < END - UNSEEN and use <= process.end - UNSEEN
        for broker in history.brokers.values()
        for process in broker
        for use in process.uses
    )


def is_dead_for_long(history: History) -> bool:
    """Tell whether a broker was away for longer than what is no gap."""
    return any(
        later.start - earlier.end > UNSEEN for broker in history.brokers.values() for earlier, later in pairwise(broker)
    )


@st.composite
def damaged(draw: st.DrawFn, scrapes: Sequence[Scrape]) -> list[Scrape]:
    """The scrapes with some removed, repeated, moved to other brokers, and in another order."""
    are_there = draw(st.one_of(st.just([True]), st.lists(st.booleans(), min_size=len(scrapes), max_size=len(scrapes))))
    remaining = [scrape for scrape, is_there in zip(scrapes, cycle(are_there), strict=False) if is_there]
    for _ in range(draw(st.integers(0, 3))):
        action = draw(st.sampled_from(("remove", "repeat", "move", "copy", "swap", "cut")))
        if not remaining:
            break
        index = draw(st.integers(0, len(remaining) - 1))
        other = draw(st.sampled_from(BROKERS))
        match action:
            case "remove":
                del remaining[index]
            case "repeat":
                remaining.append(remaining[index])
            case "move":
                remaining[index] = replace(remaining[index], broker=other)
            case "copy":
                remaining.append(replace(remaining[index], broker=other))
            case "swap":
                exchanged = {remaining[index].broker: other, other: remaining[index].broker}
                remaining = [replace(each, broker=exchanged.get(each.broker, each.broker)) for each in remaining]
            case _:
                del remaining[index:]
    if remaining:  # and a copy with the same or a later time, as of an exporter whose answers are cached
        copied = draw(st.sampled_from(remaining))
        remaining.append(
            replace(copied, time=draw(st.sampled_from((copied.time, copied.time + DAY * MINUTE, END * MINUTE))))
        )
    return draw(st.permutations(remaining))


@settings(max_examples=share(2000), deadline=None)
@given(st.data())
def test_ready_is_never_said_of_a_cluster_that_was_sent_a_removed_version(data: st.DataObject) -> None:
    history = data.draw(histories())
    errors = data.draw(st.dictionaries(st.sampled_from(BROKERS), st.sampled_from((-60, -30, -4, 4, 60)), max_size=1))
    scrapes = data.draw(damaged(whole(history, errors)))
    check = checked(scrapes, BROKERS)
    event(check.verdict.value)
    if check.verdict is ClientVerdict.READY:
        assert not is_sent_a_removed_version(history)


@settings(max_examples=share(1000), deadline=None)
@given(st.data())
def test_damage_makes_nothing_ready_that_was_not(data: st.DataObject) -> None:
    history = data.draw(histories())
    scrapes = whole(history)
    intact = checked(scrapes, BROKERS).verdict
    event(intact.value)
    damage = checked(data.draw(damaged(scrapes)), BROKERS).verdict
    if damage is ClientVerdict.READY:
        assert intact is ClientVerdict.READY


@settings(max_examples=share(400), deadline=None)
@given(st.data())
def test_the_verdict_does_not_depend_on_the_scrapes_that_are_dropped_while_reading(data: st.DataObject) -> None:
    history = data.draw(histories())
    minutes = data.draw(st.lists(st.integers(BEGIN - DAY, END), max_size=30))
    scrapes = data.draw(damaged([*whole(history), *history.scrapes(minutes)]))
    ordered = [sorted((scrape for scrape in scrapes if scrape.broker == broker), key=_moment) for broker in BROKERS]
    read = [scrape for its_scrapes in ordered for scrape in thinned(its_scrapes, GONE.__eq__, BEGIN * MINUTE)]
    event(f"{len(read)} of {len(scrapes)}")
    check, thin = checked(scrapes, BROKERS), checked(read, BROKERS)
    assert (thin.verdict, thin.uses, thin.ready_from) == (check.verdict, check.uses, check.ready_from)


def _moment(scrape: Scrape) -> tuple[int, int, float]:
    return scrape.time, scrape.start, sum(scrape.counters.values())


@settings(max_examples=share(400), deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_the_verdict_does_not_depend_on_the_order_or_repetition_of_scrapes(history: History, random: Random) -> None:
    scrapes = whole(history)
    check = checked(scrapes, BROKERS)
    mixed = scrapes * 2
    random.shuffle(mixed)
    assert checked(mixed, BROKERS) == check


@settings(max_examples=share(400), deadline=None)
@given(histories())
def test_evidence_without_a_gap_makes_a_cluster_without_old_clients_ready(history: History) -> None:
    check = checked(whole(history), BROKERS)
    event(check.verdict.value)
    used = any(use for broker in history.brokers.values() for process in broker for use in process.uses)
    covered = all(broker[0].start <= BEGIN - HOUR for broker in history.brokers.values())
    if covered and not used and not is_dead_for_long(history):
        assert check.verdict is ClientVerdict.READY
