"""Makes a release: checks first, then the steps, then where it lies. Called by `make release`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from release import steps
from release.checks import problems
from release.plan import Plan, read_plan
from release.programs import ReleaseError


def main(plan: Plan) -> int:
    """1 if a check or a step fails, with one line for each problem."""
    found = problems(plan, steps.programs(plan))
    if not found:
        try:
            steps.run_all(plan)
        except ReleaseError as error:
            found = [str(error)]
    for one in found:
        print(f"release: {one}", file=sys.stderr)
    if not found:
        print(f"release {plan.version} is in {plan.out}")
        for pushed in sorted(plan.out.glob("*-reference.txt")):
            print(f"pushed: {pushed.read_text(encoding='utf-8').strip()}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(read_plan(Path.cwd(), os.environ)))
