"""Six real brokers in three racks, restarted at most two at a time and one by one: the same operator, the same checks.

On a real kubelet, with the observer of the tests: a roll that harmed a client gives no figure. Two cores start the JVMs
of both brokers, so each takes longer beside another one; printed is what that leaves.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.e2e.kubernetes.rolls.rig import kafka_in_racks, operator_beside
from tests.e2e.kubernetes.rolls.rolling import NAME, ROLLOUT, TOPIC, Rolling
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.racks import pods_of
from tests.e2e.rig.process import wait_until

BROKERS = pods_of("brokers")
AT_ONCE = (1, 2)


@dataclass(frozen=True)
class Roll:
    """`seconds` from the first eviction until the operator says that it is done; `phases` of one broker, on average.

    `busy`: the share of this machine's processors that were used meanwhile.
    """

    seconds: float
    phases: dict[str, float]
    busy: float


def real_roll(rounds: int) -> None:
    """Rolls of both kinds in turn, so many of each."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (
            kafka_in_racks(folder) as racks,
            Observer(racks, folder / "observer", TOPIC) as observer,
            operator_beside(racks, folder / "operator"),
        ):
            compared(Rolling(racks, observer), rounds)


def compared(rolling: Rolling, rounds: int = 1) -> float:
    """Prints both; how many times faster two at once are, as a ratio of medians."""
    found: dict[int, list[Roll]] = {many: [] for many in AT_ONCE}
    for round_ in range(rounds):
        for many in AT_ONCE:
            wait_until("all replicas are in sync", rolling.observer.in_sync, step=0.5)
            found[many].append(_roll(rolling, f"at-once-{many}-{round_}", many))
            rolling.delete(NAME)
    one, two = (_printed(many, rolls) for many, rolls in found.items())
    ratio = one.seconds / two.seconds
    print(f"  {ratio:.2f}x faster, of at most {max(AT_ONCE)}x; {rounds} rounds in turn; {_bound(one, two)}")
    return ratio


def _roll(rolling: Rolling, revision: str, many: int) -> Roll:
    with rolling.judged(BROKERS) as judged:
        rolling.rolls(revision, "brokers", rollout={**ROLLOUT, "maxParallel": many})
        judged.until_evicted()
        began, (busy, all_) = monotonic(), _processors()
        rolling.until_rolled("brokers")
        seconds, (busy_then, all_then) = monotonic() - began, _processors()
        return Roll(seconds, judged.phases(), (busy_then - busy) / (all_then - all_))


def _printed(many: int, rolls: Sequence[Roll]) -> Roll:
    """Medians of them."""
    seconds = [one.seconds for one in rolls]
    phases = {name: statistics.median(one.phases[name] for one in rolls) for name in rolls[0].phases}
    median = Roll(statistics.median(seconds), phases, statistics.median(one.busy for one in rolls))
    told = ", ".join(f"{name} {took:.1f} s" for name, took in phases.items())
    print(
        f"real roll of {len(BROKERS)} brokers, at most {many} at once: {median.seconds:.0f} s "
        f"({min(seconds):.0f}-{max(seconds):.0f}), processors {median.busy:.0%} busy; of one broker: {told}, "
        f"then {_each(many, median) - sum(phases.values()):.1f} s (stable for {ROLLOUT['stableFor']}, read, decided)"
    )
    return median


def _each(many: int, roll: Roll) -> float:
    """Seconds that one broker takes, where so many are always in flight."""
    return roll.seconds * many / len(BROKERS)


def _bound(one: Roll, two: Roll) -> str:
    longest = max(two.phases, key=lambda name: two.phases[name])
    return (
        f"what bounded it: {longest} takes {two.phases[longest]:.1f} s of the {_each(2, two):.1f} s of each broker "
        f"beside another one ({one.phases[longest]:.1f} s of {_each(1, one):.1f} s alone), with "
        f"{os.cpu_count()} processors {two.busy:.0%} busy"
    )


def _processors() -> tuple[float, float]:
    """Ticks of all of them: busy, and altogether."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle, waiting_for_disk = ticks[3:5]
    return sum(ticks) - idle - waiting_for_disk, sum(ticks)
