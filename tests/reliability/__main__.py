"""Runs random histories, and says how many held what README and how-it-decides promise.

python -m tests.reliability simulate --seed 0 --runs 300     # histories 0 to 299
python -m tests.reliability simulate --seed 17 -v            # one of them again, shown step by step
python -m tests.reliability calibrate                        # are the checks any good: with defects put back
python -m tests.reliability mutants                          # which programme finds which small fault
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from tests.reliability.branches import Branch, Reached, is_watched
from tests.reliability.branches import report as told_branches
from tests.reliability.checker import violations
from tests.reliability.records import Sent
from tests.reliability.simulation import simulate, trace_of

TWICE = 5
"""How many histories are made again, in another process with another PYTHONHASHSEED, and must be the same."""


WATCHED = 2000
"""How many histories of a run, the first ones, may be watched for branches: a watched one takes three times as long,
and later ones reach hardly any that these did not.
"""


@dataclass
class Tally:
    """The sums of some histories. `broken`: lines to print. `branches`: those reached by histories that
    were `watched`.
    """

    runs: int = 0
    reconciliations: int = 0
    effects: int = 0
    virtual: float = 0.0
    busy: float = 0.0
    broken: list[str] = field(default_factory=list)
    watched: int = 0
    branches: set[Branch] = field(default_factory=set)

    def add(self, other: Tally) -> None:
        self.runs += other.runs
        self.reconciliations += other.reconciliations
        self.effects += other.effects
        self.virtual += other.virtual
        self.busy += other.busy
        self.broken += other.broken
        self.watched += other.watched
        self.branches |= other.branches


def judged(seeds: range, *, watched_below: int) -> Tally:
    """Judge histories in this process. `busy`: its processor time, with that of the clusters, the API server and the
    checker.
    """
    gc.collect()  # what the histories before left behind
    tally, reached, began = Tally(), Reached(), time.process_time()
    for seed in seeds:
        try:
            watched = seed < watched_below and is_watched(seed)
            with reached if watched else nullcontext():
                history = simulate(seed)
            tally.watched += watched
            found = [str(one) for one in violations(history)]
        except Exception as error:  # whatever it is, the seed must not get lost
            tally.broken.append(f"seed {seed}: {type(error).__name__}: {error}")
            continue
        tally.runs += 1
        tally.reconciliations += history.reconciliations
        tally.effects += sum(isinstance(one, Sent) for one in history.records)
        tally.virtual += history.seconds
        tally.broken += [f"seed {seed}: {one}" for one in found]
    tally.busy, tally.branches = time.process_time() - began, reached.branches
    return tally


def prepare() -> None:
    """Once for each process: histories leave little behind that only the collector finds, and what is loaded stays."""
    gc.freeze()
    gc.set_threshold(100_000)


def chunks(seed: int, runs: int, size: int = 25) -> Iterator[range]:
    for first in range(seed, seed + runs, size):
        yield range(first, min(first + size, seed + runs))


def differing(seed: int, runs: int) -> list[int]:
    """Seeds whose history is another one in another process."""
    seeds = [seed + number for number in range(min(runs, TWICE))]
    command = [sys.executable, "-m", "tests.reliability", "trace", *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [seed for seed, other in zip(seeds, done.stdout.split(), strict=True) if trace_of(simulate(seed)) != other]


def show(seed: int) -> int:
    """Print the steps of one history."""
    history = simulate(seed)
    print(*history.acts, *history.records, sep="\n")
    found = violations(history)
    print(*(f"seed {seed}: {one}" for one in found), sep="\n")
    return 1 if found else 0


def simulated(seed: int, runs: int, processes: int) -> int:
    """The suite: prints its figures, and every broken promise with its seed."""
    began, tally = time.monotonic(), Tally()
    with ProcessPoolExecutor(processes, initializer=prepare) as pool:
        for one in pool.map(partial(judged, watched_below=seed + WATCHED), chunks(seed, runs)):
            tally.add(one)
            for line in one.broken:
                print(f"{line}\n  again: python -m tests.reliability simulate -v --seed {line.split(':')[0][5:]}")
    different = differing(seed, runs)
    for other in different:
        print(f"seed {other}: not the same history in another process")
    if tally.watched:
        print(told_branches(tally.branches, tally.watched))
    rate = tally.reconciliations / tally.busy if tally.busy else 0.0
    print(
        f"simulation: runs={tally.runs} reconciliations={tally.reconciliations} effects={tally.effects} "
        f"virtual_days={tally.virtual / 86400:.1f} seconds={time.monotonic() - began:.1f} "
        f"reconciliations/cpu_s={rate:.0f} violations={len(tally.broken)} different={len(different)}"
    )
    return 1 if tally.broken or different else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability")
    commands = parser.add_subparsers(dest="command", required=True)
    simulating = commands.add_parser("simulate")
    simulating.add_argument("--seed", type=int, default=0)
    simulating.add_argument("--runs", type=int, default=1)
    simulating.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    simulating.add_argument("-v", action="store_true", dest="verbose")
    commands.add_parser("trace").add_argument("seeds", type=int, nargs="+")
    calibrating = commands.add_parser("calibrate")
    calibrating.add_argument("--runs", type=int, default=3000)
    calibrating.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    calibrating.add_argument("--only", action="append", default=[], metavar="NAME", help="one defect; may be repeated")
    mutating = commands.add_parser("mutants")
    mutating.add_argument("--only", action="append", default=[], metavar="AREA", help="or a mutant; may be repeated")
    mutating.add_argument("--programmes", default="units,simulate,rolls")
    mutating.add_argument("--histories", type=int, default=3000)
    mutating.add_argument("--processes", type=int, default=2)
    flags = parser.parse_args()
    if flags.command == "mutants":
        from tests.reliability.mutating import tried

        return tried(flags.only, flags.programmes.split(","), flags.histories, flags.processes)
    if flags.command == "trace":
        print(*(trace_of(simulate(seed)) for seed in flags.seeds))
        return 0
    if flags.command == "calibrate":
        from tests.reliability.calibration import DEFECTS, calibrated

        unknown = sorted({*flags.only} - {defect.name for defect in DEFECTS})
        if unknown:
            calibrating.error(f"unknown defect {unknown[0]!r}; expected one of {', '.join(d.name for d in DEFECTS)}")
        return calibrated(flags.runs, flags.processes, flags.only)
    return show(flags.seed) if flags.verbose else simulated(flags.seed, flags.runs, flags.processes)


if __name__ == "__main__":
    sys.exit(main())
