"""What judging a roll costs, and what a sliding window brings: placements are made here, and time is virtual.

Measured: all brokers of a million partitions judged, and a snapshot of them from bytes to a plan, in a process of its
own. Simulated: whole rolls with the decisions of `core`, in which nothing goes wrong, against one broker at a time and
against waves of the same size and order. A broker is away for a lognormal time of 90 s and catches up for 0.43 of that
(an inbound load of 0.3, KAFKA-3436), and it is seen within 10 s that it is back; one row adds the 30 s of `stableFor`,
which hide some of the difference. No real cluster is behind these figures.
"""

from __future__ import annotations

import heapq
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.engine.desired_state import MaxParallel
from kafkafeatures.core.facts.readings import PartitionsReading
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.roll.advice import advice_on_moves
from kafkafeatures.core.roll.planner import MOST_IN_FLIGHT, cap, order, planned_rounds
from tests.bench.snapshots import write_snapshot
from tests.rolls.placements import anywhere, striped

NOBODY: frozenset[int] = frozenset()
STABLE = ", stable for 30 s"
STRICT = Availability.NO_UNDER_REPLICATED


@dataclass(frozen=True)
class Size:
    """Partitions and brokers of the largest cluster; partitions and brokers of two others; how often each is drawn."""

    partitions: int
    brokers: int
    smaller: int
    few: int
    many: int
    draws: int


FULL = Size(1_000_000, 1000, 100_000, 60, 300, 7)
QUICK = Size(5_000, 30, 1_000, 6, 12, 1)


def run(size: Size) -> None:
    """Measure rolls, and print the figures."""
    judged(size)
    to_plan(size)
    rounds(size)
    rolls(size)


def judged(size: Size) -> None:
    """Processor time of one reading, and of the judgement before one restart."""
    seen = striped(size.brokers, size.partitions, racks=3, seed=1, strays=0.0001)
    made = [_took(lambda: Replication(seen)) for _ in range(5)]
    replication = Replication(seen)
    down = frozenset(range(0, 3 * MOST_IN_FLIGHT, 3))
    print(
        f"judging {size.partitions:,} partitions on {size.brokers:,} brokers: {_ms(made)} to look at a reading;", end=""
    )
    for rule in Availability:
        times = [_took(partial(replication.judge, down, rule)) for _ in range(9)]
        print(f" all brokers beside {len(down)} in flight, {rule}: {_ms(times)};", end="")
    print()


def to_plan(size: Size) -> None:
    """From the bytes of a snapshot to who goes first, in a process that has everything imported."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "snapshot"
        write_snapshot(path, striped(size.brokers, size.partitions, racks=3, seed=1, strays=0.0001))
        command = [sys.executable, "-m", "tests.bench.snapshots", str(path)]
        found = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(3)]
        best = min(found, key=lambda each: float(each["seconds"]))
        print(
            f"a snapshot of {path.stat().st_size / 1e6:.0f} MB, {best['partitions']:,} partitions on {size.brokers:,} "
            f"brokers, to a plan: {best['seconds']:.2f} s of processor time (read {best['read']:.2f}, judged "
            f"{best['judged']:.3f}, planned {best['planned']:.2f}), at most {best['memory'] / 2**20:.0f} MiB above idle"
        )


def rounds(size: Size) -> None:
    """Against what three racks need at least that share partitions, each broker with each of another rack."""
    for brokers, partitions in ((size.few, size.smaller), (size.many, size.smaller), (size.many, size.partitions)):
        most = cap(MaxParallel(10, percent=True), brokers)
        least = 3 * -(-brokers // 3 // most)
        for strays in (0.0, 0.0001, 0.001):
            placements = [striped(brokers, partitions, racks=3, seed=seed, strays=strays) for seed in range(size.draws)]
            planned = [planned_rounds(Replication(placed), range(brokers), most=most) for placed in placements]
            print(
                f"simulated, {brokers} brokers x {partitions:,} in 3 racks, {strays:.2%} strays, {most} at once: "
                f"{_range(planned)} rounds for a bound of {least}, at most {max(planned) / least:.2f}x"
            )


def rolls(size: Size) -> None:
    """Whole rolls; the cases in which nothing is gained beside those in which much is."""
    tenth = MaxParallel(10, percent=True)
    few, many = size.few, size.many
    cases: list[tuple[str, int, Callable[[int], PartitionsReading]]] = [
        (f"3 racks{STABLE}", many, lambda seed: striped(many, size.smaller, 3, seed)),
        ("3 racks", few, lambda seed: striped(few, size.smaller, 3, seed)),
        ("3 racks", many, lambda seed: striped(many, size.smaller, 3, seed)),
        ("3 racks, 0.1 % strays", many, lambda seed: striped(many, size.smaller, 3, seed, strays=0.001)),
        ("3 racks, 1 % strays", few, lambda seed: striped(few, size.smaller, 3, seed, strays=0.01)),
        ("2 racks, three replicas", few, lambda seed: striped(few, size.smaller, 2, seed)),
        ("placed at random", few, lambda seed: anywhere(few, size.smaller, seed)),
    ]
    for name, brokers, place in cases:
        most = cap(tenth, brokers)
        found = []
        for seed in range(size.draws):
            replication, seconds = Replication(place(seed)), _durations(brokers, seed, 30 * (STABLE in name))
            found.append((sum(seconds), waves(replication, seconds, most), sliding(replication, seconds, most)))
        serial, waved, slid = (statistics.median(each) / 60 for each in zip(*found, strict=True))
        against_serial = statistics.median(each[0] / each[2] for each in found)
        against_waves = statistics.median(each[1] / each[2] for each in found)
        told = advice_on_moves(Replication(place(0)), range(brokers), most=most)
        more = (
            f"; to move {told.partitions} partitions would save {told.rounds - told.rounds_after} rounds"
            if told
            else ""
        )
        print(
            f"simulated, {brokers} brokers x {size.smaller:,}, {name}, {most} at once: one by one {serial:.0f} min, "
            f"waves {waved:.0f} min, sliding window {slid:.0f} min: {against_serial:.1f}x and {against_waves:.2f}x "
            f"faster{more}"
        )


def _durations(brokers: int, seed: int, stable: int) -> list[float]:
    """Seconds from the decision until it is over, of each broker."""
    draw = np.random.default_rng(1000 + seed).lognormal(np.log(90), 0.45, brokers)
    return [float(away) * 1.43 + 10 + stable for away in draw]


def sliding(replication: Replication, seconds: Sequence[float], most: int) -> float:
    """Seconds until the last is back: whenever there is room, the first in the order that may go."""
    left, flying, now = frozenset(range(len(seconds))), NOBODY, 0.0
    ends: list[tuple[float, int]] = []
    while left or ends:
        candidates = order(replication, left, most=most)
        going = _start(replication, candidates, flying, most)
        left, flying = left - going, flying | going
        for broker in going:
            heapq.heappush(ends, (now + seconds[broker], broker))
        now, back = heapq.heappop(ends)
        flying -= {back}
    return now


def waves(replication: Replication, seconds: Sequence[float], most: int) -> float:
    """The seconds of a roll in which the next nodes go only when all that went together are back."""
    left, total = frozenset(range(len(seconds))), 0.0
    while left:
        going = _start(replication, order(replication, left, most=most), NOBODY, most)
        left, total = left - going, total + max(seconds[broker] for broker in going)
    return total


def _start(replication: Replication, candidates: Sequence[int], flying: frozenset[int], most: int) -> frozenset[int]:
    """Who goes now: each is judged anew, with all that went before."""
    going: frozenset[int] = frozenset()
    while len(flying | going) < most:
        admission = replication.judge(flying | going, STRICT)
        hosts = replication.brokers()
        following = next(
            (each for each in candidates if each in hosts and each not in going and admission.allows(each)), None
        )
        if following is None:
            break
        going |= {following}
    return going


def _took(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _ms(times: Sequence[float]) -> str:
    return f"{statistics.median(times) * 1e3:.0f} ms ({min(times) * 1e3:.0f}-{max(times) * 1e3:.0f})"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"
