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
    failures = problems(plan, steps.programs(plan))
    if not failures:
        try:
            steps.run_all(plan)
        except ReleaseError as error:
            failures = [str(error)]
    for failure in failures:
        print(f"release: {failure}", file=sys.stderr)
    if not failures:
        print(f"release {plan.version} is in {plan.out}")
        for pushed in sorted(plan.out.glob("*-reference.txt")):
            print(f"pushed: {pushed.read_text(encoding='utf-8').strip()}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(read_plan(Path.cwd(), os.environ)))
