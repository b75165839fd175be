"""Rolls modelled clusters, a new one from each seed, until there were so many steps: `python -m tests.rolls`.

`make soak` calls it. A promise that is not kept ends it with the seed: `--seed N --steps 1` runs that one again.
"""

from __future__ import annotations

import argparse
import sys

from tests.rolls.roller import roll


def main() -> int:
    """Print how much was rolled."""
    parser = argparse.ArgumentParser(prog="python -m tests.rolls", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first roll")
    arguments = parser.parse_args()
    steps, seed = 0, arguments.seed
    while steps < arguments.steps:
        steps += roll(seed)
        seed += 1
    print(f"{seed - arguments.seed:,} rolls, {steps:,} steps, no promise broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
